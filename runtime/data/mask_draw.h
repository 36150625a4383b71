/* mask_draw.h -- random masks: which tokens of a row are masked, and what replaces them.
 *
 * In:    the row of a sample: its tokens, and which of them may be chosen.
 * Keeps: pure functions of seed, stream, epoch, sample and place: the same for every split into
 *        ranks and micro-batches and every number of threads.
 * Source: Devlin et al. 2019, 3.1 (80 / 10 / 10); Nie et al. 2025 (LLaDA), 2.2 (the mask always). */
#ifndef DIECAST_MASK_DRAW_H
#define DIECAST_MASK_DRAW_H

#include <stdint.h>

/* How many are chosen of n that may be, and what stands in their place. */
typedef enum {
    /* The mask in 80 of 100, a random id in 10, the word itself in 10. */
    MASK_exact,                 /* max(1, int(share * n)), without replacement; of none: none */
    MASK_independent,           /* each with the probability share */
    /* The mask, in all. */
    MASK_random,                /* each with the probability p = 0.999 u + 0.001, a random u a row */
    MASK_spread                 /* 1 to n without replacement: numbers evenly spread over the draws */
} MaskSelect;

/* Draws that have nothing to do with each other, nor with dropout: "MASK" is no site of it. */
typedef enum { MASK_TRAIN = 0x4d41534b, MASK_EVAL, MASK_LENGTHS } MaskStream;

typedef struct {
    MaskSelect select;
    double share;                /* above 0, at most 1 */
    int32_t mask, ids;           /* what hides a word; random ones are of 0 .. ids - 1 */
    uint64_t seed;
    double shorter;              /* the share of steps whose rows are cut to one random length */
    int64_t draws;               /* MASK_spread: of a sample */
} MaskRule;

/* A sample as it is drawn. */
typedef struct {
    MaskStream stream;
    int64_t epoch, sample;       /* MASK_EVAL: the epoch is which draw of the sample it is, from 0 */
    const int32_t *token;        /* (n) */
    const uint8_t *may;          /* (n): 1 where a token may be chosen; NULL: everywhere */
    int64_t n, more;             /* together at most 2^31 - 1 */
    int32_t fill;                /* `more` of it stand behind the tokens, and may be chosen */
} MaskSample;

/* How many may be chosen. */
int64_t mask_may(const MaskSample *s);
/* The share of those, `may` of them and not 0, that is hidden on average; MASK_spread: of this very
 * draw. */
double mask_share(const MaskRule *r, const MaskSample *s, int64_t may);
/* The length 1 to `most` that rows of a step have at most. */
int64_t mask_length(const MaskRule *r, int64_t step, int64_t most);
/* Bytes of the work space that a sample of at most n tokens wants. */
int64_t mask_work(int64_t n);
/* MASK_exact: how many are chosen of so many that may be. */
int64_t mask_exactly(const MaskRule *r, int64_t may);
/* How many are chosen; as mask_draw() does. */
int64_t mask_count(const MaskRule *r, const MaskSample *s);
/* input, label (n + more): what the model sees; the token where it is chosen, else -1. Returns how
 * many are. */
int64_t mask_draw(const MaskRule *r, const MaskSample *s, int32_t *input, int32_t *label,
                   void *work);

#endif
