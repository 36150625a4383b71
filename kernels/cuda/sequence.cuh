/* sequence.cuh -- sequence log-probabilities from token losses, and their gradient.
 *
 * In:    loss (N) fp32 and rows (N) int32 of a head that only processes rows with a target:
 *        their positions in (B, T), ascending, -1 after the last; coef (B) fp32.
 * Out:   lp (B) fp32: minus the sum, or mean, of a sequence's losses, 0 without rows; counts
 *        (B) int32: its rows; weights (N) fp32: gradient by each row's loss where the gradient
 *        by lp is coef.
 * Keeps: sums in double, in an order fixed by the number of rows. */
#ifndef DIECAST_KERNELS_CUDA_SEQUENCE_CUH
#define DIECAST_KERNELS_CUDA_SEQUENCE_CUH

#include "rows.cuh"

enum { SEQ_THREADS = 256 };

/* Index of the first row at or after that position; -1 sorts last. */
static inline __device__ int64_t seq_first_(const int32_t *rows, int64_t n, int64_t place)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (rows[mid] >= 0 && rows[mid] < place)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* One block per sequence. */
__global__ void __launch_bounds__(SEQ_THREADS)
    seq_logp_kernel(float *__restrict__ lp, int32_t *__restrict__ counts,
                    const float *__restrict__ loss, const int32_t *__restrict__ rows, int64_t n,
                    int64_t T, int mean)
{
    const int64_t b = blockIdx.x, first = seq_first_(rows, n, b * T),
                  last = seq_first_(rows, n, (b + 1) * T);
    double sum = 0;
    for (int64_t i = first + threadIdx.x; i < last; i += SEQ_THREADS)
        sum += loss[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        counts[b] = (int32_t)(last - first);
        lp[b] = first == last ? 0.0f : (float)(-sum / (mean ? (double)(last - first) : 1.0));
    }
}

__global__ void __launch_bounds__(SEQ_THREADS)
    seq_spread_kernel(float *__restrict__ weights, const float *__restrict__ coef,
                      const int32_t *__restrict__ counts, const int32_t *__restrict__ rows,
                      int64_t n, int64_t T, int mean)
{
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const int64_t b = rows[i] < 0 ? 0 : rows[i] / T;
    weights[i] = rows[i] < 0 ? 0.0f : -coef[b] / (mean ? (float)counts[b] : 1.0f);
}

/* weights (n): weight divided by the number of the sequence's rows. */
__global__ void __launch_bounds__(SEQ_THREADS)
    seq_share_kernel(float *__restrict__ weights, const int32_t *__restrict__ rows, int64_t n,
                     int64_t T, float weight)
{
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const int64_t b = rows[i] < 0 ? 0 : rows[i] / T;
    const int64_t of = seq_first_(rows, n, (b + 1) * T) - seq_first_(rows, n, b * T);
    weights[i] = rows[i] < 0 ? 0.0f : weight / (float)of;
}

/* Several rows per block. */
template <int W>
__global__ void __launch_bounds__(ROW_BLOCK)
    scale_rows_kernel(act_t *y, const act_t *x, const float *__restrict__ weights, int64_t n,
                      int64_t C)
{
    const int64_t r = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
    const int vectors = (int)(C / W);
    if (r >= n)
        return;
    const float weight = weights[r];
    for (int at = (int)threadIdx.x; at < vectors; at += ROW_HELD<W> / W * (int)blockDim.x) {
        float v[ROW_HELD<W>];
        row_read<W>(v, x + r * C, at, vectors);
#pragma unroll
        for (int e = 0; e < ROW_HELD<W>; e++)
            v[e] *= weight;
        row_write<W>(y + r * C, v, at, vectors);
    }
}

#ifndef __CUDACC_RTC__
static inline void seq_logp(float *lp, int32_t *counts, const float *loss, const int32_t *rows,
                            int64_t n, int64_t B, int64_t T, int mean, cudaStream_t s)
{
    launch(seq_logp_kernel, (unsigned)B, SEQ_THREADS, 0, s, lp, counts, loss, rows, n, T, mean);
}

static inline void seq_spread(float *weights, const float *coef, const int32_t *counts,
                              const int32_t *rows, int64_t n, int64_t T, int mean, cudaStream_t s)
{
    launch(seq_spread_kernel, blocks_over(n, SEQ_THREADS), SEQ_THREADS, 0, s, weights, coef, counts,
           rows, n, T, mean);
}

static inline void seq_share(float *weights, const int32_t *rows, int64_t n, int64_t T,
                             float weight, cudaStream_t s)
{
    launch(seq_share_kernel, blocks_over(n, SEQ_THREADS), SEQ_THREADS, 0, s, weights, rows, n, T,
           weight);
}

/* y (n, C) = x, each row times its weight; y may be x. */
static inline void scale_rows(act_t *y, const act_t *x, const float *weights, int64_t n, int64_t C,
                              cudaStream_t s)
{
    const int threads = row_threads(C) < ROW_BLOCK ? row_threads(C) : ROW_BLOCK;
    const int groups = row_groups(threads, ROW_BLOCK);
    launch(row_width(C) > 1 ? scale_rows_kernel<ACT_VECTOR> : scale_rows_kernel<1>,
           blocks_over(n, groups), dim3(threads, groups), 0, s, y, x, weights, n, C);
}
#else
template __global__ void scale_rows_kernel<row_width(C)>(act_t *, const act_t *, const float *,
                                                         int64_t, int64_t);
#endif

#endif
