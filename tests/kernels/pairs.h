/* pairs.h -- losses of pairs of answers, for the tests of every target (C and C++).
 *
 * In:    harness.h of the one that includes it, kernels' dpo.h.
 * Keeps: rules of every kind; what is known of them by hand. */
#ifndef DIECAST_TESTS_KERNELS_PAIRS_H
#define DIECAST_TESTS_KERNELS_PAIRS_H

#include <stdint.h>

#include "../../kernels/reference/dpo.h"

/* kind, beta, smoothing, margin, shift, penalty, kl, reward */
static const float pairs_rules[][8] = {
    { DPO_SIGMOID, 0.1f, 0, 0, 1, 0, 0, 1 },          { DPO_SIGMOID, 0.1f, 0, 0, 1, 0, 0.1f, 1 },
    { DPO_SIGMOID, 0.3f, 0.2f, 0, 1, 0, 0, 0.3f },    { DPO_SIGMOID, 0.5f, 0, 1.5f, 1, 0, 0, 1 },
    { DPO_SIGMOID, 0.3f, 0, 0, 1, 50, 0, 1 },         { DPO_SIGMOID, 0.3f, 0, 0, 0.75f, 0, 0, 1 },
    { DPO_SIGMOID, 0.2f, 0, 0, 0.75f, 5, 0.3f, 1 },   { DPO_IPO, 0.1f, 0, 0, 1, 0, 0, 1 },
    { DPO_SIGMOID, 4, 0, 0, 1, 0, 0, 1 },
};
enum { PAIRS_RULES = sizeof pairs_rules / sizeof pairs_rules[0] };

static inline DpoRef pairs_ref(const float *r)
{
    DpoRef ref = { (int)r[0] == DPO_IPO, r[1], r[2], r[3], r[4], r[5], r[6] };
    return ref;
}

/* The loss of the pair at 2i, of (n) log-probabilities; reference NULL: 0. */
static inline double pairs_loss(const float *rule, const double *lp, const double *reference,
                                int64_t i)
{
    const DpoRef r = pairs_ref(rule);
    return dpo_ref(&r, lp[2 * i], lp[2 * i + 1], reference ? reference[2 * i] : 0,
                   reference ? reference[2 * i + 1] : 0);
}

/* Its central difference by element k of lp. */
static inline double pairs_grad(const float *rule, double *lp, const double *reference, int64_t k)
{
    const double h = 1e-5, was = lp[k];
    lp[k] = was + h;
    const double above = pairs_loss(rule, lp, reference, k / 2);
    lp[k] = was - h;
    const double below = pairs_loss(rule, lp, reference, k / 2);
    lp[k] = was;
    return (above - below) / (2 * h);
}

/* Places of rows in (B, T), ascending, then -1: sequences of 0 to T rows. Returns how many. */
static inline int64_t pairs_rows(int32_t *rows, int64_t n, int64_t B, int64_t T)
{
    int64_t k = 0;
    for (int64_t b = 0; b < B; b++) {
        const int64_t begin = random_below(T + 1);
        for (int64_t t = begin; t < T && b % 5 != 3; t++)
            if (k < n && random_below(4))
                rows[k++] = (int32_t)(b * T + t);
    }
    for (int64_t i = k; i < n; i++)
        rows[i] = -1;
    return k;
}

#endif
