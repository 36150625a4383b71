/* mask_draw.h -- random masks: which tokens of a row are masked, and what replaces them.
 *
 * In:    the tokens of a sample, and which of them may be chosen.
 * Keeps: a pure function of seed, stream, epoch, sample and position: the same for every split into
 *        ranks and micro-batches and any number of threads.
 * Source: Devlin et al. 2019, 3.1 (80/10/10); Nie et al. 2025 (LLaDA), 2.2 (always the mask). */
#ifndef DIECAST_MASK_DRAW_H
#define DIECAST_MASK_DRAW_H

#include <stdint.h>

/* How many of the n eligible tokens are chosen, and what replaces them. */
typedef enum {
    /* 80 %: the mask; 10 %: a random id; 10 %: unchanged. */
    MASK_exact,                 /* max(1, int(share * n)) without replacement; 0 if n is 0 */
    MASK_independent,           /* each with probability share */
    /* Always the mask. */
    MASK_random,                /* each with probability p = 0.999 u + 0.001, one random u a row */
    MASK_spread                 /* 1 to n without replacement, evenly spaced over the draws */
} MaskSelect;

/* Independent random streams, also of dropout: "MASK" is none of its sites. */
typedef enum { MASK_TRAIN = 0x4d41534b, MASK_EVAL, MASK_LENGTHS } MaskStream;

typedef struct {
    MaskSelect select;
    double share;                /* above 0, at most 1 */
    int32_t mask, ids;           /* the mask token; random ids are 0 .. ids - 1 */
    uint64_t seed;
    double shorter;              /* the share of steps that cut all rows to one random length */
    int64_t draws;               /* MASK_spread: draws per sample */
} MaskRule;

/* One sample to mask. */
typedef struct {
    MaskStream stream;
    int64_t epoch, sample;       /* MASK_EVAL: epoch is the number of the draw, from 0 */
    int64_t repeat;              /* copies of a sample in an epoch have others: DataRow */
    const int32_t *token;        /* (n) */
    const uint8_t *may;          /* (n): 1 if a token may be chosen; NULL: all may */
    int64_t n, more;             /* together at most 2^31 - 1 */
    int32_t fill;                /* follows the tokens `more` times, and may be chosen */
} MaskSample;

/* Returns the number of eligible tokens. */
int64_t mask_may(const MaskSample *s);
/* Returns the expected share of the `may` eligible tokens (not 0) that is masked; MASK_spread: the
 * share of this draw. */
double mask_share(const MaskRule *r, const MaskSample *s, int64_t may);
/* Returns the maximum row length of a step, 1 to `most`. */
int64_t mask_length(const MaskRule *r, int64_t step, int64_t most);
/* Bytes of scratch memory for a sample of at most n tokens. */
int64_t mask_work(int64_t n);
/* MASK_exact: returns the number chosen of `may` eligible tokens. */
int64_t mask_exactly(const MaskRule *r, int64_t may);
/* Returns the number that mask_draw() chooses. */
int64_t mask_count(const MaskRule *r, const MaskSample *s);
/* input, label (n + more): the model's input; the original token if chosen, else -1. Returns the
 * number chosen. work: mask_work() bytes. */
int64_t mask_draw(const MaskRule *r, const MaskSample *s, int32_t *input, int32_t *label,
                   void *work);

#endif
