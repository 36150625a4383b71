/* unmask_order.h -- choices of a masked-diffusion sampler: which tokens to unmask, how many a step,
 * and their values.
 *
 * Keeps: draws are Philox keyed by (seed; text, position, step): the same seed gives the same text,
 *        in any batch and for any number of threads.
 * Source: Nie et al. 2025 (LLaDA), section 2.4; Gumbel draws in double, Zheng et al. 2024. */
#ifndef DIECAST_UNMASK_ORDER_H
#define DIECAST_UNMASK_ORDER_H

#include <stdint.h>

/* Order in which masked positions are unmasked. */
typedef enum {
    UNMASK_low_confidence,       /* those with the most probable token */
    UNMASK_random                /* random ones */
} UnmaskOrder;

typedef struct {
    UnmaskOrder order;
    double temperature;          /* of the draw; 0: the most probable token, the first of equals */
    int32_t mask;                /* the mask token; never chosen */
    int32_t ids;                 /* tokens are chosen from 0 .. ids - 1; at most vocab */
    uint64_t seed;
} UnmaskRule;

/* Identifies a draw; unique within a text. */
typedef struct {
    int64_t text, position, step;
} UnmaskAt;

typedef struct {
    int64_t position;
    int32_t token;
    double confidence;           /* higher: unmasked earlier */
} UnmaskPick;

/* Returns how many of n initially masked positions are unmasked in step 0 .. steps - 1: n div
 * steps, plus one in the first n mod steps of them. */
int64_t unmask_share(int64_t n, int64_t steps, int64_t step);
/* Classifier-free guidance: with (n) becomes without + (guidance + 1) (with - without), where
 * `without` are the logits without the prompt. */
void unmask_guide(float *with, const float *without, int64_t n, double guidance);
/* Returns the token of a position by its logits (vocab), the one with the largest
 * e^logit / (-ln u)^temperature, u uniform, and its confidence. */
UnmaskPick unmask_pick(const UnmaskRule *r, const float *logits, int64_t vocab, UnmaskAt at);
/* Moves the k most confident of n picks to the front; equal ones keep their order. */
void unmask_order(UnmaskPick *pick, int64_t n, int64_t k);

#endif
