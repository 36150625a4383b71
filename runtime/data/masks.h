/* masks.h -- words hidden from a model that has to say them: which, and what stands in their place.
 *
 * In:    the row of a sample: its tokens, and which of them may be chosen.
 * Keeps: pure functions of seed, stream, epoch, sample and place: the same for every split into
 *        ranks and micro-batches and every number of threads.
 * Source: Devlin et al. 2019, 3.1 (80 / 10 / 10); Nie et al. 2025 (LLaDA), 2.2 (the mask always). */
#ifndef DIECAST_MASKS_H
#define DIECAST_MASKS_H

#include <stdint.h>

/* How many are chosen of n that may be, and what stands in their place. */
typedef enum {
    /* The mask in 80 of 100, a random id in 10, the word itself in 10. */
    MASKS_exact,                 /* max(1, int(share * n)), without replacement; of none: none */
    MASKS_independent,           /* each with the probability share */
    /* The mask, in all. */
    MASKS_random,                /* each with the probability p = 0.999 u + 0.001, a random u a row */
    MASKS_spread                 /* 1 to n without replacement: numbers evenly spread over the draws */
} MaskSelect;

/* Draws that have nothing to do with each other, nor with dropout: "MASK" is no site of it. */
typedef enum { MASKS_TRAIN = 0x4d41534b, MASKS_EVAL, MASKS_LENGTHS } MaskStream;

typedef struct {
    MaskSelect select;
    double share;                /* above 0, at most 1 */
    int32_t mask, ids;           /* what hides a word; random ones are of 0 .. ids - 1 */
    uint64_t seed;
    double shorter;              /* the share of steps whose rows are cut to one random length */
    int64_t draws;               /* MASKS_spread: of a sample */
} MaskRule;

/* A sample as it is drawn. */
typedef struct {
    MaskStream stream;
    int64_t epoch, sample;       /* MASKS_EVAL: the epoch is which draw of the sample it is, from 0 */
    const int32_t *token;        /* (n) */
    const uint8_t *may;          /* (n): 1 where a token may be chosen; NULL: everywhere */
    int64_t n, more;             /* together at most 2^31 - 1 */
    int32_t fill;                /* `more` of it stand behind the tokens, and may be chosen */
} MaskSample;

/* How many may be chosen. */
int64_t masks_may(const MaskSample *s);
/* The share of those, `may` of them and not 0, that is hidden on average; MASKS_spread: of this very
 * draw. */
double masks_share(const MaskRule *r, const MaskSample *s, int64_t may);
/* The length 1 to `most` that rows of a step have at most. */
int64_t masks_length(const MaskRule *r, int64_t step, int64_t most);
/* Bytes of the work space that a sample of at most n tokens wants. */
int64_t masks_work(int64_t n);
/* MASKS_exact: how many are chosen of so many that may be. */
int64_t masks_exactly(const MaskRule *r, int64_t may);
/* How many are chosen; as masks_draw() does. */
int64_t masks_count(const MaskRule *r, const MaskSample *s);
/* input, label (n + more): what the model sees; the token where it is chosen, else -1. Returns how
 * many are. */
int64_t masks_draw(const MaskRule *r, const MaskSample *s, int32_t *input, int32_t *label,
                   void *work);

#endif
