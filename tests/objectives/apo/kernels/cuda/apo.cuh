/* apo.cuh -- losses of single answers that are desired or not: APO-zero, unpaired.
 *
 * In, Out: as cpu/apo.h.
 * Method: one thread: there are few answers. */
#ifndef DIECAST_KERNELS_CUDA_APO_CUH
#define DIECAST_KERNELS_CUDA_APO_CUH

#include "types.cuh"

static __global__ void apo_kernel(float *coef, double *loss, double *stats, const float *lp, const int32_t *counts,
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

#ifndef __CUDACC_RTC__
static inline void apo(float *coef, double *loss, double *stats, const float *lp, const int32_t *counts,
                       const float *reference, const int32_t *desired, int64_t B, float beta, cudaStream_t s)
{
    launch(apo_kernel, 1, 1, 0, s, coef, loss, stats, lp, counts, reference, desired, B, beta);
}
#endif

#endif
