/* show.h -- prints rows with their targets marked, for `gen pack --show` and a program's --show.
 *
 * Out:   lines of `id "text"` on standard output; targets begin with a star, and are green if both
 *        outputs are terminals and NO_COLOR is not set. */
#ifndef DIECAST_SHOW_H
#define DIECAST_SHOW_H

#include "runtime/data/tokenizer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of n tokens. After each field: the meaning of NULL. */
typedef struct {
    char about[160];             /* part of its title: "sample 17"; or "" */
    int64_t n, padding;          /* padding positions after the tokens */
    const int32_t *token;        /* (n) */
    const uint8_t *target;       /* (n) 1: a target; NULL: all but the first */
    const int32_t *label;        /* (n) what to predict at a target; NULL: the token itself */
    const float *weight;         /* (n) loss weight of a target; NULL: 1 */
    const uint8_t *ends;         /* (n) 1: the last of a document; NULL: the row is one */
    char *(*word)(int32_t id);   /* malloc'ed ASCII for ids without a tokenizer; NULL: none */
} ShownRow;

/* How tokens become text; tok NULL: only ids are printed. */
typedef struct {
    const Tokenizer *tok;
    char *(*text)(const Tokenizer *tok, int32_t id, int *width);     /* show_token */
} TokenText;

/* Returns `id "text"` with all but printable characters escaped, malloc'ed; *width in columns. */
char *show_token(const Tokenizer *tok, int32_t id, int *width);
/* by NULL: prints only ids. title: a line; NULL: none. */
void show_row(const TokenText *by, const char *title, const ShownRow *row);

#endif
