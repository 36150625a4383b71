/* masked_batch.h -- micro-batches of masked tokens: drawn, padded, counted.
 *
 * In:    rows of records, their tokens that may be masked, the rule (mask_draw.h).
 * Out:   tokens, targets, weights, lengths, types and noise, those of them that a Batch has.
 * Keeps: a row does not depend on the rank, micro-batch or thread that fills it. */
#ifndef DIECAST_MASKED_BATCH_H
#define DIECAST_MASKED_BATCH_H

#include "runtime/data/data.h"
#include "runtime/data/mask_draw.h"

/* Counts of one row, of a micro-batch, or of a step of all ranks. */
typedef struct {
    int64_t targets, may;        /* masked tokens, of those that may be masked */
    int64_t samples, tokens;     /* rows without padding rows; their tokens */
} MaskedCounts;

typedef struct {
    MaskedCounts has;
    double share;                /* mask_share() of its tokens; 0 if none may be masked */
} MaskedRow;

/* Divisor of the loss of masked tokens. */
typedef enum {
    MASKED_masked,               /* the number of masked tokens */
    MASKED_tokens,               /* the number of tokens that may be masked */
    MASKED_seq                   /* per row the tokens that may be masked, times the rows */
} MaskedNorm;

typedef enum {
    MASKED_pretrain,
    /* The tokens that may be masked end a row: an answer. In training the answers of a micro-batch
     * are extended with `end` tokens to the longest one, as far as there is room; these are
     * learned too. */
    MASKED_sft
} MaskedMode;
/* By MaskedMode: the format of raw data, a name of runtime/pack/formats.def. */
extern const char *const masked_format[];

typedef struct {
    const Model *model;
    int64_t T, vocab;            /* tokens of a row, rows of the embedding */
    int64_t most;                /* maximum of masked tokens of a micro-batch */
    Batch (*at)(int64_t micro);  /* returns the buffers of a micro-batch */
    MaskedRow *row;              /* (micro) the rows filled last */
    MaskRule rule;
    MaskedNorm norm;
    MaskedMode mode;
    int32_t pad, end;            /* tokens: padding, end of an answer */
    int64_t draw;                /* number of the draw that validation uses; 0 at first */
} MaskedBatch;

/* Takes mask, padding and end tokens from the records' tokenizer. The mask is the rule's, or if
 * that is -1 the tokenizer's; the model must have a row for it. EXIT_MISMATCH, naming `files`. */
void masked_suit(MaskedBatch *h, const Data *d, const char *files);
/* EXIT_DATA, naming `files`, if a sample contains the mask token. */
void masked_check(const MaskedBatch *h, Data *d, const char *files);
/* Returns the divisor of the sum of losses (times their weights, if a Batch has weights). */
int64_t masked_divisor(const MaskedBatch *h, const MaskedCounts *c);
/* Counts the whole step, all ranks. */
MaskedCounts masked_count(const MaskedBatch *h, Data *d, int64_t step);
/* Fills a micro-batch of this rank. EXIT_DATA: more masked tokens than the program takes. */
MaskedCounts masked_fill(const MaskedBatch *h, Data *d, int64_t step, int64_t micro);
/* Fills a micro-batch with the draws h->draw, h->draw + stride ... of one evaluation sample, up to
 * the rule's draws; the rest is padding. */
MaskedCounts masked_fill_draws(const MaskedBatch *h, Data *d, int64_t sample, int64_t stride);
/* Fills all micro-batches with arbitrary full rows and the maximum of masked tokens, evenly spaced.
 * Returns the counts of a step of all ranks. */
MaskedCounts masked_fill_any(const MaskedBatch *h);
/* Pads row b after its n tokens. */
void masked_pad(const MaskedBatch *h, const Batch *to, int64_t b, int64_t n);

#endif
