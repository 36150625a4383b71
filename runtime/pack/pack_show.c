/* pack_show.c -- prints rows: tokens, their text, targets, documents.
 *
 * Keeps: no control character of the data reaches the terminal. */
#define _GNU_SOURCE
#include "runtime/pack/show.h"

#include "runtime/base.h"
#include "runtime/files/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

enum { COLUMNS = 100, SHOWN = 1024 };

/* True if c is printed as a separate character, false if it changes others. */
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

/* Returns id "text" with other characters escaped, malloc'ed; *width in columns. */
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

/* Returns id "text", only the id, or the row's own word, malloc'ed; *width in columns. */
static char *id_text(const Tokenizer *tok, const ShownRow *r, int32_t id, int *width)
{
    if (tok && !r->word)
        return token_text(tok, id, width);
    char *text = r->word ? r->word(id) : format("%d", id);
    *width = (int)strlen(text);
    return text;
}

static bool is_target(const ShownRow *r, size_t i)
{
    return r->target ? r->target[i] : i > 0;
}

/* Returns token i, with its label and weight if they differ from the defaults. */
static char *entry(const Tokenizer *tok, const ShownRow *r, size_t i, int *width)
{
    char *text = id_text(tok, r, r->token[i], width);
    if (is_target(r, i) && r->label && r->label[i] != r->token[i]) {
        int more;
        char *label = id_text(tok, r, r->label[i], &more),
             *longer = format("%s -> %s", text, label);
        *width += 4 + more;
        free(text), free(label);
        text = longer;
    }
    if (is_target(r, i) && r->weight && r->weight[i] != 1) {
        char *longer = format("%s x %.4g", text, (double)r->weight[i]);
        *width += (int)(strlen(longer) - strlen(text));
        free(text);
        text = longer;
    }
    return text;
}

void show_row(const Tokenizer *tok, const char *title, const ShownRow *row)
{
    const char *no_color = getenv("NO_COLOR");
    /* Open MPI makes the standard output of ranks a terminal even if it writes to a file, but not
     * their standard error */
    bool colour = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO) && !(no_color && *no_color),
         green = false;
    size_t n = (size_t)row->n, shown = n < SHOWN ? n : SHOWN;
    int column = 0;
    if (title)
        printf("%s\n", title);
    for (size_t i = 0; i < shown; i++) {
        bool target = is_target(row, i), ended = i && row->ends && row->ends[i - 1];
        int width;
        char *text = entry(tok, row, i, &width);
        if (column && (ended || target != is_target(row, i - 1) || column + 2 + width > COLUMNS)) {
            printf("%s\n", green ? "\033[0m" : "");
            column = 0;
        }
        if (ended)
            printf("     --\n");
        if (!column) {
            green = colour && target;
            column = printf("%s  %c", green ? "\033[32m" : "", target ? '*' : ' ');
        }
        printf("  %s", text);
        column += 2 + width;
        free(text);
    }
    printf("%s\n", green ? "\033[0m" : "");
    if (shown < n)
        printf("     and %zu more\n", n - shown);
    if (row->padding)
        printf("     and %lld of padding\n", (long long)row->padding);
}
