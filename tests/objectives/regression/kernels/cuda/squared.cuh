/* squared.cuh -- squared error and its gradient.
 *
 * In:    y (rows, V), target (rows, V) fp32, NaN: none.
 * Out:   loss (rows) fp32, the sum over V; dy (rows, V) of scale[0] * the losses, or NULL.
 * Keeps: fp32 inside, sums in order. dy may be y.
 * Method: a thread a row. */
#ifndef DIECAST_KERNELS_CUDA_SQUARED_CUH
#define DIECAST_KERNELS_CUDA_SQUARED_CUH

#include "types.cuh"

enum { SQUARED_THREADS = 256 };

static __global__ void __launch_bounds__(SQUARED_THREADS)
    squared_kernel(float *loss, act_t *dy, const act_t *y, const float *target, const float *scale,
                   int64_t rows, int64_t V)
{
    const int64_t i = (int64_t)blockIdx.x * SQUARED_THREADS + threadIdx.x;
    if (i >= rows)
        return;
    float sum = 0;
    for (int64_t v = i * V; v < (i + 1) * V; v++) {
        const float e = isnan(target[v]) ? 0 : act_load(y + v) - target[v];
        sum += e * e;
        if (dy)
            act_store(dy + v, 2 * e * scale[0]);
    }
    loss[i] = sum;
}

/* sum (B) of loss (B, T) */
static __global__ void __launch_bounds__(SQUARED_THREADS)
    sum_places_kernel(float *sum, const float *loss, int64_t B, int64_t T)
{
    const int64_t b = (int64_t)blockIdx.x * SQUARED_THREADS + threadIdx.x;
    float all = 0;
    for (int64_t t = 0; b < B && t < T; t++)
        all += loss[b * T + t];
    if (b < B)
        sum[b] = all;
}

#ifndef __CUDACC_RTC__
static inline void sum_places(float *sum, const float *loss, int64_t B, int64_t T, cudaStream_t s)
{
    launch(sum_places_kernel, blocks_over(B, SQUARED_THREADS), SQUARED_THREADS, 0, s, sum, loss, B,
           T);
}

static inline void squared_bwd(float *loss, act_t *dy, const act_t *y, const float *target,
                               const float *scale, int64_t rows, int64_t V, cudaStream_t s)
{
    launch(squared_kernel, blocks_over(rows, SQUARED_THREADS), SQUARED_THREADS, 0, s, loss, dy, y,
           target, scale, rows, V);
}

static inline void squared_fwd(float *loss, const act_t *y, const float *target, int64_t rows,
                               int64_t V, cudaStream_t s)
{
    squared_bwd(loss, NULL, y, target, NULL, rows, V, s);
}
#endif

#endif
