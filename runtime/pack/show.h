/* show.h -- rows as a model sees them, for people: of `gen pack --show` and of a program's --show.
 *
 * Out:   lines of `id "text"` on standard output; those of targets begin with a star, and are
 *        green where both outputs are a terminal (unless NO_COLOR is set). */
#ifndef DIECAST_SHOW_H
#define DIECAST_SHOW_H

#include "runtime/data/tokenizer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of n tokens. NULL: as said. */
typedef struct {
    char about[160];             /* of it, in its title: "sample 17"; or "" */
    int64_t n, padding;          /* places behind them that hold no token */
    const int32_t *token;        /* (n) */
    const uint8_t *target;       /* (n) 1: to be predicted; all but the first */
    const int32_t *label;        /* (n) what is to be predicted where it is one; the token itself */
    const float *weight;         /* (n) of a target in the loss; 1 */
    const uint8_t *ends;         /* (n) 1: the last of a document; the row is one */
    char *(*word)(int32_t id);   /* of tokens and labels that no tokenizer knows: malloc'ed ASCII */
} ShownRow;

/* tok NULL: ids alone. title: a line; NULL: none. */
void show_row(const Tokenizer *tok, const char *title, const ShownRow *row);

#endif
