/* adamw_parts.cuh -- AdamW on this rank's parts of divided parameters (ZeRO; Rajbhandari et al.
 * 2020), and the gradient norm from sums of squares of shares: runtime/shares.h.
 *
 * In:    as adamw.cuh. Of `slots` tensors, each of the weights begins `stride` elements after the
 *        one before, of the gradients `apart`; w and g point to this rank's part of the first.
 *        Master weights and moments are (slots, n), n elements a part, a multiple of SHARE_UNIT.
 * Keeps: element by element the same operations as adamw.cuh. */
#ifndef DIECAST_KERNELS_CUDA_ADAMW_PARTS_CUH
#define DIECAST_KERNELS_CUDA_ADAMW_PARTS_CUH

#include "adamw.cuh"

#include "../../runtime/shares.h"

/* Grid: quads of a part by tensors. Five blocks: left alone, nvcc takes 32 registers and spills. */
__global__ void __launch_bounds__(ADAMW_THREADS, 5)
    adamw_parts_kernel(float *__restrict__ w, float *__restrict__ m, float *__restrict__ v,
                       const float *__restrict__ g, const float *__restrict__ adamw_args,
                       const float *__restrict__ norm, int64_t n, int64_t stride, int64_t apart,
                       int decay)
{
    const int64_t i = ((int64_t)blockIdx.x * ADAMW_THREADS + threadIdx.x) * 4,
                  whole = blockIdx.y * stride + i, own = blockIdx.y * n + i;
    const AdamwStep step = adamw_step(adamw_args, norm[0], decay);
    if (i < n)
        adamw_quad(w + whole, m + own, v + own, g + blockIdx.y * apart + i, step);
}

/* Grid: this rank's shares by tensors. */
__global__ void __launch_bounds__(NORM_THREADS)
    grad_squares_kernel(double *__restrict__ squares, const float *__restrict__ g, int64_t n,
                        int64_t share, int64_t stride, SquareColumns at, int64_t first)
{
    const int64_t begin = blockIdx.x * share, left = n - first * share,
                  end = begin + share < left ? begin + share : left;
    const float *from = g + blockIdx.y * stride;
    double sum = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += NORM_THREADS)
        sum += (double)from[i] * from[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        squares[blockIdx.x * at.all + at.first + blockIdx.y] = sum;
}

/* Element i, share by share, is the thread's i % NORM_THREADS: the same for any number of ranks. */
__global__ void __launch_bounds__(NORM_THREADS)
    squares_norm_kernel(float *__restrict__ norm, const double *__restrict__ squares, int64_t width,
                        int64_t part, int64_t count)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < SHARES * width; i += NORM_THREADS) {
        const int64_t s = i / width;
        sum += squares[s / count * part + s % count * width + i % width];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        norm[0] = (float)sqrt(sum);
}

#ifndef __CUDACC_RTC__
/* fp32 weights. */
static inline void adamw_parts(float *w, float *m, float *v, const float *g,
                               const float *adamw_args, const float *norm, int64_t n,
                               int64_t slots, int64_t stride, int64_t apart, int decay,
                               cudaStream_t s)
{
    const dim3 grid(blocks_over(n, 4 * ADAMW_THREADS), (unsigned)slots);
    launch(adamw_parts_kernel, grid, ADAMW_THREADS, 0, s, w, m, v, g, adamw_args, norm, n, stride,
           apart, decay);
}

/* 16-bit weights; also of whole tensors, one by one. */
static inline void adamw_mixed_parts(wt_t *w, Master master, float *m, float *v, const float *g,
                                     const float *adamw_args, const float *norm, int64_t n,
                                     int64_t slots, int64_t stride, int64_t apart, int decay,
                                     cudaStream_t s)
{
    const dim3 grid(blocks_over(n, 4 * ADAMW_THREADS), (unsigned)slots);
    launch(adamw_mixed_kernel, grid, ADAMW_THREADS, 0, s, w, master, m, v, g, adamw_args, norm, n,
           stride, apart, decay, adamw_vectors(w, master, m, v, g, n | stride | apart));
}

/* Sums of squares, in double, of this rank's shares of a gradient, `slots` tensors of n elements in
 * shares of `share`. g: the rank's part of the first, those of the others `stride` apart. Share s,
 * counted from the rank's first, of tensor l: squares[s * at.all + at.first + l]. */
static inline void grad_squares(double *squares, SquareColumns at, const float *g, int64_t n,
                                int64_t slots, int64_t stride, int64_t share, int rank, int ranks,
                                cudaStream_t s)
{
    const int64_t count = share_count(ranks);
    launch(grad_squares_kernel, dim3((unsigned)count, (unsigned)slots), NORM_THREADS, 0, s, squares,
           g, n, share, stride, at, rank * count);
}

/* The same of the n elements g of a whole gradient. */
static inline void grad_squares_whole(double *squares, SquareColumns at, const float *g, int64_t n,
                                      int rank, int ranks, cudaStream_t s)
{
    const int64_t count = share_count(ranks), share = share_elements(n), none = 0,
                  own = rank * count * share;
    launch(grad_squares_kernel, dim3((unsigned)count), NORM_THREADS, 0, s, squares,
           g + (own < n ? own : n), n, share, none, at, rank * count);
}

/* norm[0] = root of the sum of all ranks' squares, (ranks, stride / ranks). */
static inline void squares_norm(float *norm, const double *squares, int64_t width, int64_t stride,
                                int ranks, cudaStream_t s)
{
    launch(squares_norm_kernel, 1, NORM_THREADS, 0, s, norm, squares, width, stride / ranks,
           share_count(ranks));
}
#endif

#endif
