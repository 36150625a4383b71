/* pack_show.c -- prints rows: tokens, their text, targets, documents.
 *
 * Keeps: the function that makes a token's text escapes control characters (show_token()). */
#define _GNU_SOURCE
#include "runtime/pack/show.h"

#include "runtime/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS = 100, SHOWN = 1024 };

/* Returns id "text", only the id, or the row's own word, malloc'ed; *width in columns. */
static char *id_text(const TokenText *by, const ShownRow *r, int32_t id, int *width)
{
    if (by && by->tok && !r->word)
        return by->text(by->tok, id, width);
    char *text = r->word ? r->word(id) : format("%d", id);
    *width = (int)strlen(text);
    return text;
}

static bool is_target(const ShownRow *r, size_t i)
{
    return r->target ? r->target[i] : i > 0;
}

/* Returns token i, with its label and weight if they differ from the defaults. */
static char *entry(const TokenText *by, const ShownRow *r, size_t i, int *width)
{
    char *text = id_text(by, r, r->token[i], width);
    if (is_target(r, i) && r->label && r->label[i] != r->token[i]) {
        int more;
        char *label = id_text(by, r, r->label[i], &more),
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

void show_row(const TokenText *by, const char *title, const ShownRow *row)
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
        char *text = entry(by, row, i, &width);
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
