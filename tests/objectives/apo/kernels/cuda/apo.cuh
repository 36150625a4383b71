/* apo.cuh -- losses of single answers that are desired or not: APO-zero, unpaired.
 *
 * In, Out: as cpu/apo.h.
 * Method: one thread: there are few answers. */
#ifndef DIECAST_KERNELS_CUDA_APO_CUH
#define DIECAST_KERNELS_CUDA_APO_CUH

#define APO_FUNCTION static inline __device__
#include "../../runtime/apo.h"
#include "types.cuh"

static __global__ void apo_kernel(float *coef, double *loss, double *stats, const float *lp, const int32_t *counts,
                                  const float *reference, const int32_t *desired, int64_t B, float beta)
{
    for (int64_t i = 0; i < B; i++)
        coef[i] = counts[i] ? apo_answer(loss, stats, lp[i], reference[i], desired[i], beta) : 0;
}

#ifndef __CUDACC_RTC__
static inline void apo(float *coef, double *loss, double *stats, const float *lp, const int32_t *counts,
                       const float *reference, const int32_t *desired, int64_t B, float beta, cudaStream_t s)
{
    launch(apo_kernel, 1, 1, 0, s, coef, loss, stats, lp, counts, reference, desired, B, beta);
}
#endif

#endif
