/* choice.h -- cross-entropy of actions and token types.
 *
 * Both choices come from one row of logits. Sums over rows: entries of the results `loss` and
 * `stats`, doubles.
 * Keeps: fp32; softmax subtracts the largest logit. */
#ifndef DIECAST_CHOICE_H
#define DIECAST_CHOICE_H

#ifndef __CUDACC_RTC__
#include <math.h>
#endif

#include "darkroom.h"

enum { CHOICE_TYPES = 3, CHOICE_MOST = DARKROOM_ACTIONS };   /* maximum number of logits */

enum {
    CHOICE_LOSS,             /* cross-entropies of actions */
    CHOICE_HITS,             /* labels with the largest logit */
    CHOICE_TYPE_LOSS,
    CHOICE_TYPE_HITS,
    CHOICE_STATS
};

/* A kernel file may define it otherwise before including this one. */
#ifndef CHOICE_FUNCTION
#define CHOICE_FUNCTION static inline
#endif

/* Returns the cross-entropy of the label among n logits. p (n): gradient, the probabilities with
 * that of the label less 1. hit: 1 if no logit is above the label's. */
CHOICE_FUNCTION float choice_loss_of(const float *z, int n, int label, float *p, int *hit)
{
    float most = z[0], sum = 0;
    for (int k = 1; k < n; k++)
        most = z[k] > most ? z[k] : most;
    for (int k = 0; k < n; k++)
        sum += p[k] = expf(z[k] - most);
    for (int k = 0; k < n; k++)
        p[k] = p[k] / sum - (k == label);
    *hit = z[label] == most;
    return logf(sum) + most - z[label];
}

#endif
