/* diffusion_sampler.h -- block-wise masked-diffusion sampling.
 *
 * Per block, keeps the most confident predictions and re-masks the rest.
 * Keeps: the same seed gives the same text in any batch (runtime/data/unmask_order.h). */
#ifndef DIECAST_DIFFUSION_SAMPLER_H
#define DIECAST_DIFFUSION_SAMPLER_H

#include "runtime/data/unmask_order.h"
#include <stdbool.h>

/* The forward pass over a batch of sequences. */
typedef struct {
    int64_t rows, positions;     /* batch size, sequence length */
    int64_t block, vocab;        /* predicted positions per sequence and call; vocabulary size */
    int32_t *tokens, *lengths;   /* (rows, places), (rows): written before each call */
    int32_t *at;                 /* (rows, block): indices into (rows, places); -1: unused */
    bool collective;             /* all ranks call logits() equally often */
    const float *(*logits)(void);     /* (rows, block, vocab), valid until the next call */
} DiffusionSampler;

typedef struct {
    UnmaskRule rule;
    double guidance; /* classifier-free guidance scale; 0: off, else each step runs twice, with
                                    and without the prompt */
    int64_t block, steps;        /* positions sampled together, at most DiffusionSampler.block;
                                    steps per block */
} DiffusionSchedule;

/* A sequence: tokens equal to rule.mask are replaced, all others are the prompt. */
typedef struct {
    int32_t *token;
    int64_t n;                   /* 1 .. places */
    int64_t number;              /* random stream of this text */
} DiffusionText;

/* Cost of sampling. */
typedef struct {
    int64_t tokens, passes;      /* tokens unmasked; forward passes */
    double seconds, inside;      /* total; in forward passes */
} DiffusionCost;

/* Fills n texts, d->rows at a time, and adds to *cost. Collective if the sampler is: until all
 * ranks have their texts. */
void diffusion_sample(const DiffusionSampler *d, const DiffusionSchedule *how, DiffusionText *text,
                      int64_t n, DiffusionCost *cost);

#endif
