/* pack_show.c -- rows as the model will see them: tokens with their text, targets marked.
 *
 * Out:   lines of `id "text"` on stdout; those of targets begin with a star, and are green on a
 *        terminal (unless NO_COLOR is set).
 * Keeps: nothing that data holds reaches the terminal as a control character. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

enum { COLUMNS = 100, SHOWN = 1024 };

/* Whether c is drawn as a character of its own, or changes what is around it. */
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

/* id "text" with what is no plain character escaped; *width in columns. malloc'ed. */
static char *token_text(const Tokenizer *tok, int32_t id, int *width)
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

void show_row(const Tokenizer *tok, const char *title, const int32_t *id, const uint8_t *target,
              size_t n)
{
    const char *no_color = getenv("NO_COLOR");
    bool colour = isatty(STDOUT_FILENO) && !(no_color && *no_color);
    size_t shown = n < SHOWN ? n : SHOWN;
    int column = 0;
    if (title)
        printf("%s\n", title);
    for (size_t i = 0; i < shown; i++) {
        bool is_target = i && (!target || target[i]);
        bool was = i > 1 && (!target || target[i - 1]);
        int width;
        char *text = token_text(tok, id[i], &width);
        if (column && (is_target != was || column + 2 + width > COLUMNS)) {
            printf("%s\n", colour && was ? "\033[0m" : "");
            column = 0;
        }
        if (!column)
            column = printf("%s  %c", colour && is_target ? "\033[32m" : "", is_target ? '*' : ' ');
        printf("  %s", text);
        column += 2 + width;
        free(text);
    }
    printf("%s\n", colour && shown > 1 && (!target || target[shown - 1]) ? "\033[0m" : "");
    if (shown < n)
        printf("     and %zu more\n", n - shown);
}
