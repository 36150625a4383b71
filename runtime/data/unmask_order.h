/* unmask_order.h -- unmasking order of a diffusion sampler: which tokens, how many a step, and their values.
 *
 * Keeps: draws are Philox keyed by (seed; text, place, step): the same text for the same seed,
 *        whatever stands beside it in a batch and however many threads there are.
 * Source: Nie et al. 2025 (LLaDA), section 2.4; Gumbel draws in double, Zheng et al. 2024. */
#ifndef DIECAST_UNMASK_ORDER_H
#define DIECAST_UNMASK_ORDER_H

#include <stdint.h>

/* Which of the hidden places go first. */
typedef enum {
    UNMASK_low_confidence,       /* those whose token is the most probable */
    UNMASK_random                /* any */
} UnmaskOrder;

typedef struct {
    UnmaskOrder order;
    double temperature;          /* of the draw; 0: the likeliest token, the first of equals */
    int32_t mask;                /* hides a token; never chosen */
    int32_t ids;                 /* tokens are chosen of 0 .. ids - 1 */
    uint64_t seed;
} UnmaskRule;

/* What stands for a draw: no two of a text are the same. */
typedef struct {
    int64_t text, place, step;
} UnmaskAt;

typedef struct {
    int64_t place;
    int32_t token;
    double confidence;           /* greater: sooner */
} UnmaskPick;

/* How many of n places that are hidden at first become tokens in step 0 .. steps - 1: n div steps,
 * in the first n mod steps of them one more. */
int64_t unmask_share(int64_t n, int64_t steps, int64_t step);
/* with (n) becomes without + (guidance + 1) (with - without): away from what is said without the
 * prompt. */
void unmask_guide(float *with, const float *without, int64_t n, double guidance);
/* The token of a place by its logits (vocab): that of the largest e^logit / (-ln u)^temperature, u
 * uniform, and how sure it is. */
UnmaskPick unmask_pick(const UnmaskRule *r, const float *logits, int64_t vocab, UnmaskAt at);
/* The surest k of n picks come first, of equals the one that stood before. */
void unmask_order(UnmaskPick *pick, int64_t n, int64_t k);

#endif
