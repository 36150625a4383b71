/* denoise.h -- hidden tokens of several sequences, by a model that says them all at once: the
 * surest of a block are kept, the others asked for again.
 *
 * Keeps: the same text for the same seed, whatever stands beside it (runtime/data/unmask.h). */
#ifndef DIECAST_DENOISE_H
#define DIECAST_DENOISE_H

#include "runtime/data/unmask.h"

/* A program over sequences that stand side by side. */
typedef struct {
    int64_t rows, places;        /* sequences, tokens of each */
    int64_t block, vocab;        /* places of a sequence that it tells of at a time, ids */
    int32_t *tokens, *lengths;   /* (rows, places), (rows): written before each call */
    int32_t *at;                 /* (rows, block): of (rows, places); -1: none */
    const float *(*logits)(void);     /* (rows, block, vocab), until the next call */
} Denoiser;

typedef struct {
    UnmaskRule rule;
    double guidance;             /* 0: none; else a step asks twice, with and without the prompt */
    int64_t block, steps;        /* found together, at most Denoiser.block; steps of a block */
} Denoising;

/* A sequence: tokens hidden by rule.mask are replaced; the others are the prompt. */
typedef struct {
    int32_t *token;
    int64_t n;                   /* 1 .. places */
    int64_t number;              /* its own in draws */
} DenoiseText;

/* What it took. */
typedef struct {
    int64_t tokens, passes;      /* found; through the model */
    double seconds, inside;      /* in all; of the passes alone */
} DenoiseCost;

/* Fills n texts, d->rows at a time. Adds to *cost. */
void denoise(const Denoiser *d, const Denoising *how, DenoiseText *text, int64_t n,
             DenoiseCost *cost);

#endif
