/* choice.h -- two choices from one row of logits, an action and a type of token: losses, and what is summed
 * of rows, the entries of the results `loss` and `stats`, doubles.
 *
 * Keeps: fp32; softmax less its largest logit. */
#ifndef DIECAST_CHOICE_H
#define DIECAST_CHOICE_H

#ifndef __CUDACC_RTC__
#include <math.h>
#endif

#include "darkroom.h"

enum { CHOICE_TYPES = 3, CHOICE_MOST = DARKROOM_ACTIONS };   /* logits of a choice, at most */

enum {
    CHOICE_LOSS,             /* cross-entropies of actions */
    CHOICE_HITS,             /* labels that no logit is above */
    CHOICE_TYPE_LOSS,
    CHOICE_TYPE_HITS,
    CHOICE_STATS
};

/* A kernel's file says otherwise before it includes this one. */
#ifndef CHOICE_FUNCTION
#define CHOICE_FUNCTION static inline
#endif

/* The cross-entropy of one of n logits; p (n): what the others' probabilities are, that one's less 1:
 * the gradient. hit: whether no logit is above it. */
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
