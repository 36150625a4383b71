/* transitions.cuh -- darkroom token embeddings, computed from the parts of a transition, and
 * their gradient.
 *
 * In:    w (C, 10), b (C), states (81, C); marks (2, C) and types (3, C), or NULL; start:
 *        start state of the environment.
 * Out:   table (DARKROOM_CODES, C): for a transition's code w f + b, with f its numbers of
 *        runtime/darkroom.h; for a query its state's row; both + types[0]; for marks marks[k]
 *        + types[1 + k], without marks 0.
 * Keeps: in fp32, rounded once; a gradient element is summed in an order of its own.
 * Method: backward, a block has 32 columns and each of its warps a range of the codes. */
#ifndef DIECAST_KERNELS_CUDA_TRANSITIONS_CUH
#define DIECAST_KERNELS_CUDA_TRANSITIONS_CUH

#include "types.cuh"

#ifndef DARKROOM_FUNCTION
#define DARKROOM_FUNCTION static inline __device__
#endif
#include "../../runtime/darkroom.h"

enum {
    TRANSITION_THREADS = 256,
    TRANSITION_PIECES = 16,
    TRANSITION_SUMS = DARKROOM_FEATURES + 2      /* numbers, b, types[0] of queries */
};

/* One thread per element. */
__global__ void __launch_bounds__(TRANSITION_THREADS)
    transition_table_kernel(act_t *__restrict__ table, const wt_t *__restrict__ w,
                            const wt_t *__restrict__ b, const wt_t *__restrict__ states,
                            const wt_t *__restrict__ marks, const wt_t *__restrict__ types,
                            int start, int64_t C)
{
    const int64_t i = blockIdx.x * (int64_t)TRANSITION_THREADS + threadIdx.x, c = i % C;
    const int code = (int)(i / C);
    if (code >= DARKROOM_CODES)
        return;
    const int type = code < DARKROOM_OPEN ? 0 : code - DARKROOM_OPEN + 1;
    float sum = types ? act_load(types + type * C + c) : 0;
    if (darkroom_is_transition(code)) {
        float f[DARKROOM_FEATURES];
        darkroom_features(start, code, f);
        sum += act_load(b + c);
#pragma unroll
        for (int k = 0; k < DARKROOM_FEATURES; k++)
            sum += f[k] * act_load(w + c * DARKROOM_FEATURES + k);
    } else if (code < DARKROOM_OPEN)
        sum += act_load(states + (code - DARKROOM_TRANSITIONS) * C + c);
    else if (marks)
        sum += act_load(marks + (code - DARKROOM_OPEN) * C + c);
    act_store(table + i, sum);
}

static inline __device__ void transition_add_(float *to, float d, int beta)
{
    *to = (beta ? *to : 0.0f) + d;
}

__global__ void __launch_bounds__(WARP * TRANSITION_PIECES)
    transition_table_bwd_kernel(float *__restrict__ dw, float *__restrict__ db,
                                float *__restrict__ dstates, float *__restrict__ dmarks,
                                float *__restrict__ dtypes, const float *__restrict__ dtable,
                                int start, int64_t C, int beta)
{
    __shared__ float part[TRANSITION_PIECES][TRANSITION_SUMS][WARP];
    const int64_t c = blockIdx.x * (int64_t)WARP + threadIdx.x;
    float sum[TRANSITION_SUMS] = {};
    if (c < C) {
        for (int code = (int)threadIdx.y; code < DARKROOM_TRANSITIONS; code += TRANSITION_PIECES) {
            const float d = dtable[code * C + c];
            float f[DARKROOM_FEATURES];
            darkroom_features(start, code, f);
#pragma unroll
            for (int k = 0; k < DARKROOM_FEATURES; k++)
                sum[k] += f[k] * d;
            sum[DARKROOM_FEATURES] += d;
        }
        for (int s = (int)threadIdx.y; s < DARKROOM_STATES; s += TRANSITION_PIECES) {
            const float d = dtable[(DARKROOM_TRANSITIONS + s) * C + c];
            transition_add_(dstates + s * C + c, d, beta);
            sum[DARKROOM_FEATURES + 1] += d;
        }
    }
#pragma unroll
    for (int k = 0; k < TRANSITION_SUMS; k++)
        part[threadIdx.y][k][threadIdx.x] = sum[k];
    __syncthreads();
    if (c >= C || threadIdx.y)
        return;
    for (int k = 0; k < TRANSITION_SUMS; k++)
        for (int p = 1; p < TRANSITION_PIECES; p++)
            sum[k] += part[p][k][threadIdx.x];
    for (int k = 0; k < DARKROOM_FEATURES; k++)
        transition_add_(dw + c * DARKROOM_FEATURES + k, sum[k], beta);
    transition_add_(db + c, sum[DARKROOM_FEATURES], beta);
    if (!dtypes)
        return;
    transition_add_(dtypes + c, sum[DARKROOM_FEATURES] + sum[DARKROOM_FEATURES + 1], beta);
    for (int k = 0; k < 2; k++) {
        const float d = dtable[(DARKROOM_OPEN + k) * C + c];
        transition_add_(dmarks + k * C + c, d, beta);
        transition_add_(dtypes + (k + 1) * C + c, d, beta);
    }
}

#ifndef __CUDACC_RTC__
static inline void transition_table_fwd(act_t *table, const wt_t *w, const wt_t *b,
                                        const wt_t *states, const wt_t *marks, const wt_t *types,
                                        int start, int64_t C, cudaStream_t s)
{
    launch(transition_table_kernel, blocks_over(DARKROOM_CODES * C, TRANSITION_THREADS),
           TRANSITION_THREADS, 0, s, table, w, b, states, marks, types, start, C);
}

/* Gradients from dtable (DARKROOM_CODES, C) fp32; beta 1: accumulates. */
static inline void transition_table_bwd(float *dw, float *db, float *dstates, float *dmarks,
                                        float *dtypes, const float *dtable, int start, int64_t C,
                                        int beta, cudaStream_t s)
{
    launch(transition_table_bwd_kernel, blocks_over(C, WARP), dim3(WARP, TRANSITION_PIECES), 0, s,
           dw, db, dstates, dmarks, dtypes, dtable, start, C, beta);
}
#endif

#endif
