/* margin.cuh -- two-class head reduced to its logit margin.
 *
 * In:    x (n, C) act, w (2, C) and b (2) of the layer; dd (n) fp32, gradients of d.
 * Out:   d (n) fp32 = x (w1 - w0) + b1 - b0; dx (n, C) act; dw (2, C), db (2) fp32.
 * Keeps: sums in fp32, over rows in order; only dx is rounded to act. */
#ifndef DIECAST_KERNELS_CUDA_MARGIN_CUH
#define DIECAST_KERNELS_CUDA_MARGIN_CUH

#include "types.cuh"

enum { MARGIN_THREADS = 256 };

/* One block per row. */
__global__ void __launch_bounds__(MARGIN_THREADS)
    margin_kernel(float *__restrict__ d, const act_t *__restrict__ x, const wt_t *__restrict__ w,
                  const wt_t *__restrict__ b, int64_t C)
{
    const act_t *row = x + blockIdx.x * C;
    float sum = 0;
    for (int64_t c = threadIdx.x; c < C; c += MARGIN_THREADS)
        sum += act_load(row + c) * (act_load(w + C + c) - act_load(w + c));
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        d[blockIdx.x] = sum + (act_load(b + 1) - act_load(b));
}

__global__ void __launch_bounds__(MARGIN_THREADS)
    margin_dx_kernel(act_t *__restrict__ dx, const float *__restrict__ dd,
                     const wt_t *__restrict__ w, int64_t C)
{
    const int64_t c = blockIdx.y * (int64_t)MARGIN_THREADS + threadIdx.x;
    if (c < C)
        act_store(dx + blockIdx.x * C + c,
                  dd[blockIdx.x] * (act_load(w + C + c) - act_load(w + c)));
}

/* One thread per column, and one more for the bias. */
__global__ void __launch_bounds__(MARGIN_THREADS)
    margin_dw_kernel(float *__restrict__ dw, float *__restrict__ db, const float *__restrict__ dd,
                     const act_t *__restrict__ x, int64_t n, int64_t C, int beta)
{
    const int64_t c = blockIdx.x * (int64_t)MARGIN_THREADS + threadIdx.x;
    if (c > C)
        return;
    float sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += c < C ? dd[i] * act_load(x + i * C + c) : dd[i];
    float *first = c < C ? dw + c : db, *second = c < C ? dw + C + c : db + 1;
    *first = (beta ? *first : 0.0f) - sum;
    *second = (beta ? *second : 0.0f) + sum;
}

#ifndef __CUDACC_RTC__
static inline void margin_fwd(float *d, const act_t *x, const wt_t *w, const wt_t *b, int64_t n,
                          int64_t C, cudaStream_t s)
{
    launch(margin_kernel, (unsigned)n, MARGIN_THREADS, 0, s, d, x, w, b, C);
}

static inline void margin_dx(act_t *dx, const float *dd, const wt_t *w, int64_t n, int64_t C,
                             cudaStream_t s)
{
    launch(margin_dx_kernel, dim3((unsigned)n, blocks_over(C, MARGIN_THREADS)), MARGIN_THREADS, 0,
           s, dx, dd, w, C);
}

/* beta 1: accumulates. */
static inline void margin_dw(float *dw, float *db, const float *dd, const act_t *x, int64_t n,
                             int64_t C, int beta, cudaStream_t s)
{
    launch(margin_dw_kernel, blocks_over(C + 1, MARGIN_THREADS), MARGIN_THREADS, 0, s, dw, db, dd,
           x, n, C, beta);
}
#endif

#endif
