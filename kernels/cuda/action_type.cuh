/* action_type.cuh -- cross-entropy of an action and, optionally, of a token type from one row of
 * logits.
 *
 * In:    logits (n, O) act: DARKROOM_ACTIONS actions, then optionally ACTION_TYPE_TYPES token
 *        types; labels (n) and kinds (n) int32, -1: none; kinds NULL: no types; weight: of the
 *        type loss in `loss`.
 * Out:   adds to loss and stats, the entries of runtime/action_type.h; dlogits (n, O) act, of
 *        scale[0] times the action losses and type_scale[0] times the type losses.
 * Keeps: in fp32, sums in double, in an order fixed by n. dlogits may alias logits.
 * Method: one block, as there are few rows. */
#ifndef DIECAST_KERNELS_CUDA_ACTION_TYPE_CUH
#define DIECAST_KERNELS_CUDA_ACTION_TYPE_CUH

#include "types.cuh"

#define DARKROOM_FUNCTION static inline __device__
#define ACTION_TYPE_FUNCTION static inline __device__
#include "../../runtime/action_type.h"

enum { ACTION_TYPE_THREADS = 512 };

/* dlogits NULL: losses only */
__global__ void __launch_bounds__(ACTION_TYPE_THREADS)
    action_type_kernel(double *loss, double *stats, act_t *dlogits, const act_t *logits,
                       const int32_t *__restrict__ labels, const float *__restrict__ scale,
                       const float *__restrict__ type_scale, const int32_t *__restrict__ kinds,
                       float weight, int64_t n, int O)
{
    double sum[ACTION_TYPE_STATS] = {};
    for (int64_t i = threadIdx.x; i < n; i += ACTION_TYPE_THREADS) {
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const int first = k ? DARKROOM_ACTIONS : 0;
            const int size = k ? O - DARKROOM_ACTIONS : DARKROOM_ACTIONS;
            const int label = !k ? labels[i] : kinds ? kinds[i] : -1;
            float z[ACTION_TYPE_MOST], p[ACTION_TYPE_MOST] = {};
            int hit = 0;
            for (int c = 0; c < size; c++)
                z[c] = act_load(logits + i * O + first + c);
            if (label >= 0)
                sum[2 * k] += action_type_loss_of(z, size, label, p, &hit);
            sum[2 * k + 1] += hit;
            for (int c = 0; c < size && dlogits; c++)
                act_store(dlogits + i * O + first + c, p[c] * (k ? type_scale : scale)[0]);
        }
    }
#pragma unroll
    for (int k = 0; k < ACTION_TYPE_STATS; k++) {
        const double all = block_sum(sum[k]);
        if (threadIdx.x == 0) {
            stats[k] += all;
            if (k % 2 == 0)
                loss[0] += (k == ACTION_TYPE_TYPE_LOSS ? weight : 1.0f) * all;
        }
    }
}

#ifndef __CUDACC_RTC__
static inline void action_type_loss_bwd(double *loss, double *stats, act_t *dlogits,
                                        const act_t *logits, const int32_t *labels,
                                        const float *scale, const float *type_scale,
                                        const int32_t *kinds, float weight, int64_t n, int64_t O,
                                        cudaStream_t s)
{
    launch(action_type_kernel, 1, ACTION_TYPE_THREADS, 0, s, loss, stats, dlogits, logits, labels,
           scale,
           type_scale, kinds, weight, n, (int)O);
}

static inline void action_type_loss(double *loss, double *stats, const act_t *logits,
                                    const int32_t *labels, const int32_t *kinds, float weight,
                                    int64_t n, int64_t O, cudaStream_t s)
{
    action_type_loss_bwd(loss, stats, NULL, logits, labels, NULL, NULL, kinds, weight, n, O, s);
}
#endif

#endif
