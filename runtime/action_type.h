/* action_type.h -- cross-entropy of actions and token types.
 *
 * Both choices come from one row of logits. Sums over rows: entries of the results `loss` and
 * `stats`, doubles.
 * Keeps: fp32; softmax subtracts the largest logit. */
#ifndef DIECAST_ACTION_TYPE_H
#define DIECAST_ACTION_TYPE_H

#ifndef __CUDACC_RTC__
#include <math.h>
#endif

#include "darkroom.h"

enum { ACTION_TYPE_TYPES = 3, ACTION_TYPE_MOST = DARKROOM_ACTIONS };  /* maximum number of logits */

enum {
    ACTION_TYPE_LOSS,        /* cross-entropies of actions */
    ACTION_TYPE_HITS,        /* labels with the largest logit */
    ACTION_TYPE_TYPE_LOSS,
    ACTION_TYPE_TYPE_HITS,
    ACTION_TYPE_STATS
};

/* A kernel file may define it otherwise before including this one. */
#ifndef ACTION_TYPE_FUNCTION
#define ACTION_TYPE_FUNCTION static inline
#endif

/* Returns the cross-entropy of the label among n logits. p (n): gradient, the probabilities with
 * that of the label less 1. hit: 1 if no logit is above the label's. */
ACTION_TYPE_FUNCTION float action_type_loss_of(const float *z, int n, int label, float *p, int *hit)
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
