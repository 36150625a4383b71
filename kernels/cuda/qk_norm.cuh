/* qk_norm.cuh -- QK norm: RMSNorm of each head of q and k (as in Qwen3), and its gradients.
 *
 * In:    x, dy (rows, (NH + 2 KV) D) act_t: q | k | v; w (2 D) wt_t, for heads of q, then of
 *        k.
 * Out:   y like x, v copied; rstd (rows, NH + KV) fp32, NULL if no backward follows; dw (2 D)
 *        fp32; dx overwrites dy.
 * Keeps: arithmetic of rmsnorm.cuh, each head one row of rows.cuh; D is at most what a block
 *        holds. */
#ifndef DIECAST_KERNELS_CUDA_QK_NORM_CUH
#define DIECAST_KERNELS_CUDA_QK_NORM_CUH

#include "rmsnorm.cuh"
#include "rows.cuh"
#include "types.cuh"
#include "workspace.h"

/* A head for blockDim.x threads, blockDim.y heads, those of v among them. */
template <int W>
__global__ void __launch_bounds__(ROW_THREADS, 1)
    qk_norm_fwd_kernel(act_t *__restrict__ y, float *rstd, const act_t *__restrict__ x,
                       const wt_t *__restrict__ w, int64_t rows, int NH, int KV, int64_t D,
                       float eps, int plus)
{
    __shared__ float sums[ROW_WARPS];
    const int64_t i = blockIdx.x * (int64_t)blockDim.y + threadIdx.y, row = i / (NH + 2 * KV);
    const int head = (int)(i % (NH + 2 * KV));
    const int n = row < rows ? (int)(D / W) : 0;
    const bool normed = head < NH + KV;
    float v[ROW_HELD<W>], scale[ROW_HELD<W>], squares = 0;
    row_read<W>(v, x + i * D, (int)threadIdx.x, n);
#pragma unroll
    for (int e = 0; e < ROW_HELD<W>; e++)
        squares += v[e] * v[e];
    const float rs = 1.0f / sqrtf(row_sum(squares, sums) / (float)D + eps);
    row_read<W>(scale, head < NH ? w : w + D, (int)threadIdx.x, n);
#pragma unroll
    for (int e = 0; e < ROW_HELD<W>; e++)
        v[e] = normed ? rmsnorm_value(v[e] * rs, plus) * rmsnorm_scale(scale[e], plus) : v[e];
    row_write<W>(y + i * D, v, (int)threadIdx.x, n);
    if (threadIdx.x == 0 && row < rows && normed && rstd)
        rstd[row * (NH + KV) + head] = rs;
}

/* Heads of q where blockIdx.y is 0, of k where it is 1: part blockIdx.x of gridDim.x, blockDim.y at
 * a time. DW: parts (gridDim.x, 2, D) collects dw; shared memory (D) fp32 where blockDim.y > 1. */
template <int W, bool DW>
__global__ void __launch_bounds__(ROW_THREADS, 1)
    qk_norm_bwd_kernel(float *__restrict__ parts, act_t *d, const act_t *__restrict__ x,
                       const wt_t *__restrict__ w, const float *__restrict__ rstd, int64_t rows,
                       int NH, int KV, int64_t D, int plus)
{
    DYNAMIC_SHARED(float, shared);
    __shared__ float sums[2][ROW_WARPS];
    const int heads = blockIdx.y ? KV : NH, first = blockIdx.y ? NH : 0;
    const int64_t begin = part_begin(blockIdx.x, gridDim.x, rows * heads);
    const int64_t end = part_begin(blockIdx.x + 1, gridDim.x, rows * heads);
    const int n = (int)(D / W);
    float dw[ROW_HELD<W>] = {};
    RowVec<W> weight;                     // as memory has it: half the registers of floats
    row_load(weight, w + blockIdx.y * D, (int)threadIdx.x, n);
    int64_t row = (begin + threadIdx.y) / heads;
    int head = first + (int)((begin + threadIdx.y) % heads);
    const int next_row = (int)blockDim.y / heads, next_head = (int)blockDim.y % heads;
    int turn = 0;                         // of sums: the other one may still be read
    for (int64_t t = begin; t < end; t += blockDim.y, turn ^= 1) {
        const bool inside = t + threadIdx.y < end;
        const int64_t at = (row * (NH + 2 * KV) + head) * D;
        const int mine = inside ? n : 0;
        const float rs = inside ? rstd[row * (NH + KV) + head] : 0.0f;
        float g[ROW_HELD<W>], v[ROW_HELD<W>], scale[ROW_HELD<W>], c = 0;
        row_read<W>(g, d + at, (int)threadIdx.x, mine);
        row_read<W>(v, x + at, (int)threadIdx.x, mine);
        row_floats(scale, weight);
#pragma unroll
        for (int e = 0; e < ROW_HELD<W>; e++) {
            scale[e] = rmsnorm_scale(scale[e], plus);
            c += g[e] * scale[e] * v[e];
        }
        c = row_sum(c, sums[turn]) * rs * rs / (float)D;
#pragma unroll
        for (int e = 0; e < ROW_HELD<W>; e++) {
            if (DW)
                dw[e] += g[e] * rmsnorm_value(v[e] * rs, plus);
            v[e] = (g[e] * scale[e] - v[e] * c) * rs;
        }
        row_write<W>(d + at, v, (int)threadIdx.x, mine);
        row += next_row;
        head += next_head;
        if (head >= first + heads) {
            head -= heads;
            row++;
        }
    }
    if (DW) {
        if (blockDim.y > 1)
            row_join<W>(dw, shared, n);
        if (threadIdx.y == blockDim.y - 1)
            row_keep<W>(parts + (blockIdx.x * 2 + blockIdx.y) * D, dw, (int)threadIdx.x, n);
    }
}

#ifndef __CUDACC_RTC__
static inline void qk_norm_fwd(act_t *y, float *rstd, const act_t *x, const wt_t *w, int64_t rows,
                               int64_t NH, int64_t KV, int64_t D, float eps, int plus,
                               cudaStream_t s)
{
    const int threads = row_threads(D), groups = row_groups(threads, ROW_BLOCK);
    auto kernel = row_width(D) > 1 ? qk_norm_fwd_kernel<ACT_VECTOR> : qk_norm_fwd_kernel<1>;
    launch(kernel, blocks_over(rows * (NH + 2 * KV), groups), dim3(threads, groups), 0, s, y, rstd,
           x, w, rows, (int)NH, (int)KV, D, eps, plus);
}

/* dw overwritten (beta 0) or added to (1). ws: qk_norm_bwd_cuda_workspace(D) bytes. */
static inline void qk_norm_bwd(float *dw, act_t *d, const act_t *x, const wt_t *w,
                               const float *rstd, int64_t rows, int64_t NH, int64_t KV, int64_t D,
                               int plus, int beta, void *ws, cudaStream_t s)
{
    const int threads = row_threads(D);
    const int groups = row_part_groups(threads, rows * NH, CUDA_REDUCE_PARTS);
    auto kernel =
        row_width(D) > 1 ? qk_norm_bwd_kernel<ACT_VECTOR, true> : qk_norm_bwd_kernel<1, true>;
    launch(kernel, dim3(CUDA_REDUCE_PARTS, 2), dim3(threads, groups), row_join_bytes(D), s,
           (float *)ws, d, x, w, rstd, rows, (int)NH, (int)KV, D, plus);
    part_sum<CUDA_REDUCE_PARTS>(dw, dw + D, (float *)ws, D, beta, s);
}

/* The same for frozen weights. */
static inline void qk_norm_dx(act_t *d, const act_t *x, const wt_t *w, const float *rstd,
                              int64_t rows, int64_t NH, int64_t KV, int64_t D, int plus,
                              cudaStream_t s)
{
    const int threads = row_threads(D), groups = row_groups(threads, ROW_BLOCK);
    auto kernel =
        row_width(D) > 1 ? qk_norm_bwd_kernel<ACT_VECTOR, false> : qk_norm_bwd_kernel<1, false>;
    launch(kernel, dim3(blocks_over(rows * NH, groups), 2), dim3(threads, groups), 0, s,
           (float *)NULL, d, x, w, rstd, rows, (int)NH, (int)KV, D, plus);
}
#else
template __global__ void qk_norm_fwd_kernel<row_width(D)>(
    act_t *, float *, const act_t *, const wt_t *, int64_t, int, int, int64_t, float, int);
template __global__ void qk_norm_bwd_kernel<row_width(D), true>(
    float *, act_t *, const act_t *, const wt_t *, const float *, int64_t, int, int, int64_t,
    int);
template __global__ void qk_norm_bwd_kernel<row_width(D), false>(
    float *, act_t *, const act_t *, const wt_t *, const float *, int64_t, int, int, int64_t,
    int);
SHARED_BYTES(qk_norm_bwd_kernel, row_join_bytes(D));
#endif

#endif
