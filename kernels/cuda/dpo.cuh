/* dpo.cuh -- preference losses (DPO and variants) from the log-probabilities of answer pairs.
 *
 * In:    lp (B) fp32, of the chosen answer of pair i at 2i, of the rejected one at 2i + 1;
 *        counts (B) int32, 0: not a pair; reference (B) fp32, NULL: 0.
 * Out:   coef (B) fp32: derivative of the loss by each log-probability (nat); adds to loss[0]
 *        and stats, the entries of runtime/dpo.h.
 * Keeps: in double, in an order fixed by B; the loss of a pair is rounded to fp32.
 * Method: one block, as there are few pairs. */
#ifndef DIECAST_KERNELS_CUDA_DPO_CUH
#define DIECAST_KERNELS_CUDA_DPO_CUH

#define DPO_FUNCTION static inline __device__
#include "../../runtime/dpo.h"
#include "types.cuh"

enum { DPO_THREADS = 128 };

__global__ void __launch_bounds__(DPO_THREADS)
    dpo_kernel(float *__restrict__ coef, double *loss, double *stats, const float *__restrict__ lp,
               const int32_t *__restrict__ counts, const float *__restrict__ reference, int64_t B,
               DpoRule rule)
{
    double sum = 0, part[DPO_STATS] = {};
    for (int64_t i = 2 * threadIdx.x; i < B; i += 2 * DPO_THREADS) {
        float c[2] = {0, 0};
        if (counts[i] && counts[i + 1]) {
            const DpoPair pair = {lp[i], lp[i + 1], reference ? reference[i] : 0.0f,
                                  reference ? reference[i + 1] : 0.0f};
            sum += dpo_pair(c, &rule, &pair);
            dpo_count(part, &rule, &pair);
        }
        coef[i] = c[0];
        coef[i + 1] = c[1];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        loss[0] += sum;
#pragma unroll
    for (int k = 0; k < DPO_STATS; k++) {
        const double all = block_sum(part[k]);
        if (threadIdx.x == 0)
            stats[k] += all;
    }
}

#ifndef __CUDACC_RTC__
static inline void dpo(float *coef, double *loss, double *stats, const float *lp,
                       const int32_t *counts, const float *reference, int64_t B,
                       DpoRule rule, cudaStream_t s)
{
    launch(dpo_kernel, 1, DPO_THREADS, 0, s, coef, loss, stats, lp, counts, reference, B, rule);
}
#endif

#endif
