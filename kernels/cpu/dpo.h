/* dpo.h -- preference losses (DPO and variants) from the log-probabilities of answer pairs.
 *
 * In:    lp (B) fp32, of the chosen answer of pair i at 2i, of the rejected one at 2i + 1;
 *        counts (B) int32, 0: not a pair; reference (B) fp32, NULL: 0.
 * Out:   coef (B) fp32: derivative of the loss by each log-probability (nat); adds to loss[0]
 *        and stats, the entries of runtime/dpo.h.
 * Keeps: in double, pairs in order; the loss of a pair is rounded to fp32. */
#ifndef DIECAST_KERNELS_DPO_H
#define DIECAST_KERNELS_DPO_H

#include "../../runtime/dpo.h"
#include "types.h"

static inline void dpo(float *coef, double *loss, double *stats, const float *lp,
                       const int32_t *counts, const float *reference, int64_t B,
                       const DpoRule *rule)
{
    double sum = 0;
    for (int64_t i = 0; i < B; i += 2) {
        coef[i] = coef[i + 1] = 0;
        if (!counts[i] || !counts[i + 1])
            continue;
        const DpoPair pair = {lp[i], lp[i + 1], reference ? reference[i] : 0,
                              reference ? reference[i + 1] : 0};
        sum += dpo_pair(coef + i, rule, &pair);
        dpo_count(stats, rule, &pair);
    }
    loss[0] += sum;
}

#endif
