/* hidden.h -- micro-batches of rows that hide some of their words: drawn, padded, counted.
 *
 * In:    rows of records, which of their words may be hidden, the rule (masks.h).
 * Out:   tokens, targets, weights, lengths, types and noise, those of them that a Batch has.
 * Keeps: a row is the same whatever rank, micro-batch or thread makes it. */
#ifndef DIECAST_HIDDEN_H
#define DIECAST_HIDDEN_H

#include "runtime/data/data.h"
#include "runtime/data/masks.h"

/* Of one row, of a micro-batch, or of a step of all ranks. */
typedef struct {
    int64_t targets, may;        /* hidden words, of those that might be */
    int64_t samples, tokens;     /* rows that are none of padding; their tokens */
} HiddenCounts;

typedef struct {
    HiddenCounts has;
    double share;                /* of its words, masks_share(); 0 where none may be hidden */
} HiddenRow;

/* What the losses of hidden words are divided by. */
typedef enum {
    HIDDEN_masked,               /* the hidden words */
    HIDDEN_tokens,               /* those that might be */
    HIDDEN_seq                   /* in each row those that might be, and the rows */
} HiddenNorm;

typedef enum {
    HIDDEN_pretrain,
    /* The words that may be hidden end a row: an answer. In training the rows of a micro-batch get
     * `end` tokens until all have as long a one, as far as there is room; these are learned too. */
    HIDDEN_sft
} HiddenMode;
/* The format of raw data, of runtime/pack/formats.def. */
extern const char *const hidden_format[];

typedef struct {
    const Model *model;
    int64_t T, vocab;            /* places of a row, rows of the embedding */
    int64_t most;                /* hidden words of a micro-batch that the program takes */
    Batch (*at)(int64_t micro);  /* where the inputs of a micro-batch stand */
    HiddenRow *row;              /* (micro) of the rows that were filled last */
    MaskRule rule;
    HiddenNorm norm;
    HiddenMode mode;
    int32_t pad, end;            /* tokens: behind those of a row, at the end of an answer */
    int64_t draw;                /* of each sample, that validations take: 0 at first */
} Hidden;

/* What the records say of their tokenizer. The token that hides words is the rule's, or -1: the
 * tokenizer's; the model has a row for it. EXIT_MISMATCH, naming `files`. */
void hidden_suit(Hidden *h, const Data *d, const char *files);
/* EXIT_DATA where that token stands in a sample, naming `files`. */
void hidden_check(const Hidden *h, Data *d, const char *files);
/* What the sum of losses, each times its weight where a Batch has weights, is divided by. */
int64_t hidden_divisor(const Hidden *h, const HiddenCounts *c);
/* Of the whole step, all ranks. */
HiddenCounts hidden_count(const Hidden *h, Data *d, int64_t step);
/* Fills a micro-batch of this rank. EXIT_DATA: more words are hidden than the program takes. */
HiddenCounts hidden_fill(const Hidden *h, Data *d, int64_t step, int64_t micro);
/* A micro-batch of draws of one sample of an evaluation, h->draw, h->draw + stride ..., as far as the
 * rule's draws go. The rest is padding. */
HiddenCounts hidden_fill_draws(const Hidden *h, Data *d, int64_t sample, int64_t stride);
/* All micro-batches, of no meaning: whole rows, as many hidden words as there may be, evenly spread.
 * Returns what a step of all ranks would have. */
HiddenCounts hidden_fill_any(const Hidden *h);
/* What stands behind the n tokens of row b. */
void hidden_pad(const Hidden *h, const Batch *to, int64_t b, int64_t n);

#endif
