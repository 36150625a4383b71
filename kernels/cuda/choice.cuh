/* choice.cuh -- cross-entropy of an action and, optionally, of a token type from one row of
 * logits.
 *
 * In:    logits (n, O) act: DARKROOM_ACTIONS actions, then optionally CHOICE_TYPES token
 *        types; labels (n) and kinds (n) int32, -1: none; kinds NULL: no types; weight: of the
 *        type loss in `loss`.
 * Out:   adds to loss and stats, the entries of runtime/choice.h; dlogits (n, O) act, of
 *        scale[0] times the action losses and type_scale[0] times the type losses.
 * Keeps: in fp32, sums in double, in an order fixed by n. dlogits may alias logits.
 * Method: one block, as there are few rows. */
#ifndef DIECAST_KERNELS_CUDA_CHOICE_CUH
#define DIECAST_KERNELS_CUDA_CHOICE_CUH

#include "types.cuh"

#define DARKROOM_FUNCTION static inline __device__
#define CHOICE_FUNCTION static inline __device__
#include "../../runtime/choice.h"

enum { CHOICE_THREADS = 512 };

/* dlogits NULL: losses only */
__global__ void __launch_bounds__(CHOICE_THREADS)
    choice_kernel(double *loss, double *stats, act_t *dlogits, const act_t *logits,
                  const int32_t *__restrict__ labels, const float *__restrict__ scale,
                  const float *__restrict__ type_scale, const int32_t *__restrict__ kinds,
                  float weight, int64_t n, int O)
{
    double sum[CHOICE_STATS] = {};
    for (int64_t i = threadIdx.x; i < n; i += CHOICE_THREADS) {
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int first = k ? DARKROOM_ACTIONS : 0;
            const int size = k ? O - DARKROOM_ACTIONS : DARKROOM_ACTIONS;
            const int label = !k ? labels[i] : kinds ? kinds[i] : -1;
            float z[CHOICE_MOST], p[CHOICE_MOST] = {};
            int hit = 0;
            for (int c = 0; c < size; c++)
                z[c] = act_load(logits + i * O + first + c);
            if (label >= 0)
                sum[2 * k] += choice_loss_of(z, size, label, p, &hit);
            sum[2 * k + 1] += hit;
            for (int c = 0; c < size && dlogits; c++)
                act_store(dlogits + i * O + first + c, p[c] * (k ? type_scale : scale)[0]);
        }
    }
#pragma unroll
    for (int k = 0; k < CHOICE_STATS; k++) {
        const double all = block_sum(sum[k]);
        if (threadIdx.x == 0) {
            stats[k] += all;
            if (k % 2 == 0)
                loss[0] += (k == CHOICE_TYPE_LOSS ? weight : 1.0f) * all;
        }
    }
}

#ifndef __CUDACC_RTC__
static inline void choice_loss_bwd(double *loss, double *stats, act_t *dlogits,
                                   const act_t *logits, const int32_t *labels,
                                   const float *scale, const float *type_scale,
                                   const int32_t *kinds, float weight, int64_t n, int64_t O,
                                   cudaStream_t s)
{
    launch(choice_kernel, 1, CHOICE_THREADS, 0, s, loss, stats, dlogits, logits, labels, scale,
           type_scale, kinds, weight, n, (int)O);
}

static inline void choice_loss(double *loss, double *stats, const act_t *logits,
                               const int32_t *labels, const int32_t *kinds, float weight,
                               int64_t n, int64_t O, cudaStream_t s)
{
    choice_loss_bwd(loss, stats, NULL, logits, labels, NULL, NULL, kinds, weight, n, O, s);
}
#endif

#endif
