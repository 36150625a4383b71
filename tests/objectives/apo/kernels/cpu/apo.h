/* apo.h -- losses of single answers that are desired or not: APO-zero, unpaired.
 *
 * In:    lp, reference (B) fp32: log-probabilities of the answers; counts (B) int32: their targets, 0: no answer;
 *        desired (B) int32.
 * Out:   coef (B) fp32: derivative of the loss by lp; loss[0] and stats[0..3] added to: desired answers, the others,
 *        sums of their rewards beta (lp - reference).
 * Source: runtime/apo.h. */
#ifndef DIECAST_KERNELS_APO_H
#define DIECAST_KERNELS_APO_H

#include <stdbool.h>

#include "../../runtime/apo.h"
#include "types.h"

static inline void apo(float *coef, double *loss, double *stats, const float *lp, const int32_t *counts,
                       const float *reference, const int32_t *desired, int64_t B, float beta)
{
    for (int64_t i = 0; i < B; i++)
        coef[i] = counts[i] ? apo_answer(loss, stats, lp[i], reference[i], desired[i], beta) : 0;
}

#endif
