/* pack_show_token.c -- a token as text on a terminal.
 *
 * Keeps: nothing that data holds reaches the terminal as a control character. */
#define _GNU_SOURCE
#include "runtime/pack/show.h"

#include "runtime/files/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

/* True if c is visible, either as a character or by changing the characters around it. */
static bool is_printed(uint32_t c)
{
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CC: case UTF8PROC_CATEGORY_CF: case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CO: case UTF8PROC_CATEGORY_CS: case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

char *show_token(const Tokenizer *tok, int32_t id, int *width)
{
    size_t n, size;
    char *text = tokenizer_decode(tok, &id, 1, false, &n), *out;
    FILE *f = open_memstream(&out, &size);
    *width = fprintf(f, "%d \"", id) + 1;
    for (size_t i = 0; i < n;) {
        int bad, len = utf8_length(text + i, n - i, &bad);
        uint32_t c = len ? utf8_value(text + i, len) : 0;
        if (!len)
            *width += fprintf(f, "\\x%02x", (unsigned char)text[i]);
        else if (c == '\n')
            *width += fprintf(f, "\\n");
        else if (c == '\t')
            *width += fprintf(f, "\\t");
        else if (c == '"' || c == '\\')
            *width += fprintf(f, "\\%c", (int)c);
        else if (!is_printed(c))
            *width += fprintf(f, "\\u{%x}", c);
        else
            *width += (fwrite(text + i, 1, (size_t)len, f), 1);
        i += len ? (size_t)len : 1;
    }
    fputc('"', f);
    fclose(f);
    free(text);
    return out;
}
