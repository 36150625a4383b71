/* hidden.h -- micro-batches of rows that hide some of their words: drawn, padded, counted.
 *
 * In:    rows of records, which of their words may be hidden, the rule (masks.h).
 * Out:   tokens, targets, lengths, types and noise, those of them that a Batch has.
 * Keeps: a row is the same whatever rank, micro-batch or thread makes it. */
#ifndef DIECAST_HIDDEN_H
#define DIECAST_HIDDEN_H

#include "runtime/data/data.h"
#include "runtime/data/masks.h"

/* Of one row, of a micro-batch, or of a step of all ranks. */
typedef struct {
    int64_t targets;             /* hidden words */
    int64_t samples, tokens;     /* rows that are none of padding; their tokens */
} HiddenCounts;

typedef struct {
    const Model *model;
    int64_t T, vocab;            /* places of a row, rows of the embedding */
    int64_t most;                /* hidden words of a micro-batch that the program takes */
    Batch (*at)(int64_t micro);  /* where the inputs of a micro-batch stand */
    HiddenCounts *row;           /* (micro) of the rows that were filled last */
    MaskRule rule;
    int32_t pad;                 /* the token behind those of a row */
} Hidden;

/* What the records say of their tokenizer, which has to have a token that hides a word: EXIT_MISMATCH,
 * naming `files`. */
void hidden_suit(Hidden *h, const Data *d, const char *files);
/* Of the whole step, all ranks. */
HiddenCounts hidden_count(const Hidden *h, Data *d, int64_t step);
/* Fills a micro-batch of this rank. EXIT_DATA: more words are hidden than the program takes. */
HiddenCounts hidden_fill(const Hidden *h, Data *d, int64_t step, int64_t micro);
/* All micro-batches, of no meaning: whole rows, as many hidden words as there may be, evenly spread.
 * Returns what a step of all ranks would have. */
HiddenCounts hidden_fill_any(const Hidden *h);
/* What stands behind the n tokens of row b. */
void hidden_pad(const Hidden *h, const Batch *to, int64_t b, int64_t n);

#endif
