/* masked_batch.h -- micro-batches of masked tokens: drawn, padded, counted.
 *
 * In:    rows of records, which of their words may be hidden, the rule (mask_draw.h).
 * Out:   tokens, targets, weights, lengths, types and noise, those of them that a Batch has.
 * Keeps: a row is the same whatever rank, micro-batch or thread makes it. */
#ifndef DIECAST_MASKED_BATCH_H
#define DIECAST_MASKED_BATCH_H

#include "runtime/data/data.h"
#include "runtime/data/mask_draw.h"

/* Of one row, of a micro-batch, or of a step of all ranks. */
typedef struct {
    int64_t targets, may;        /* hidden words, of those that might be */
    int64_t samples, tokens;     /* rows that are none of padding; their tokens */
} MaskedCounts;

typedef struct {
    MaskedCounts has;
    double share;                /* of its words, mask_share(); 0 where none may be hidden */
} MaskedRow;

/* What the losses of hidden words are divided by. */
typedef enum {
    MASKED_masked,               /* the hidden words */
    MASKED_tokens,               /* those that might be */
    MASKED_seq                   /* in each row those that might be, and the rows */
} MaskedNorm;

typedef enum {
    MASKED_pretrain,
    /* The words that may be hidden end a row: an answer. In training the rows of a micro-batch get
     * `end` tokens until all have as long a one, as far as there is room; these are learned too. */
    MASKED_sft
} MaskedMode;
/* The format of raw data, of runtime/pack/formats.def. */
extern const char *const masked_format[];

typedef struct {
    const Model *model;
    int64_t T, vocab;            /* places of a row, rows of the embedding */
    int64_t most;                /* hidden words of a micro-batch that the program takes */
    Batch (*at)(int64_t micro);  /* where the inputs of a micro-batch stand */
    MaskedRow *row;              /* (micro) of the rows that were filled last */
    MaskRule rule;
    MaskedNorm norm;
    MaskedMode mode;
    int32_t pad, end;            /* tokens: behind those of a row, at the end of an answer */
    int64_t draw;                /* of each sample, that validations take: 0 at first */
} MaskedBatch;

/* What the records say of their tokenizer. The token that hides words is the rule's, or -1: the
 * tokenizer's; the model has a row for it. EXIT_MISMATCH, naming `files`. */
void masked_suit(MaskedBatch *h, const Data *d, const char *files);
/* EXIT_DATA where that token stands in a sample, naming `files`. */
void masked_check(const MaskedBatch *h, Data *d, const char *files);
/* What the sum of losses, each times its weight where a Batch has weights, is divided by. */
int64_t masked_divisor(const MaskedBatch *h, const MaskedCounts *c);
/* Of the whole step, all ranks. */
MaskedCounts masked_count(const MaskedBatch *h, Data *d, int64_t step);
/* Fills a micro-batch of this rank. EXIT_DATA: more words are hidden than the program takes. */
MaskedCounts masked_fill(const MaskedBatch *h, Data *d, int64_t step, int64_t micro);
/* A micro-batch of draws of one sample of an evaluation, h->draw, h->draw + stride ..., as far as the
 * rule's draws go. The rest is padding. */
MaskedCounts masked_fill_draws(const MaskedBatch *h, Data *d, int64_t sample, int64_t stride);
/* All micro-batches, of no meaning: whole rows, as many hidden words as there may be, evenly spread.
 * Returns what a step of all ranks would have. */
MaskedCounts masked_fill_any(const MaskedBatch *h);
/* What stands behind the n tokens of row b. */
void masked_pad(const MaskedBatch *h, const Batch *to, int64_t b, int64_t n);

#endif
