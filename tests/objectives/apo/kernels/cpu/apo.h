/* apo.h -- losses of single answers that are desired or not: APO-zero, unpaired.
 *
 * In:    lp, reference (B) fp32: log-probabilities of the answers; counts (B) int32: their targets, 0: no answer;
 *        desired (B) int32.
 * Out:   coef (B) fp32: derivative of the loss by lp; loss[0] and stats[0..3] added to: desired answers, the others,
 *        sums of their rewards beta (lp - reference).
 * Source: D'Oosterlinck et al. 2024, equation 7; TRL's KTOTrainer. */
#ifndef DIECAST_KERNELS_APO_H
#define DIECAST_KERNELS_APO_H

#include <math.h>

#include "types.h"

static inline void apo(float *coef, double *loss, double *stats, const float *lp, const int32_t *counts,
                       const float *reference, const int32_t *desired, int64_t B, float beta)
{
    for (int64_t i = 0; i < B; i++) {
        const double reward = (double)beta * ((double)lp[i] - reference[i]), p = 1 / (1 + exp(-reward)),
                     sign = desired[i] ? -1 : 1;
        coef[i] = counts[i] ? (float)(sign * beta * p * (1 - p)) : 0;
        if (!counts[i])
            continue;
        loss[0] += desired[i] ? 1 - p : p;
        stats[desired[i] ? 0 : 1] += 1;
        stats[desired[i] ? 2 : 3] += reward;
    }
}

#endif
