/* rmsnorm.cuh -- RMSNorm (Zhang, Sennrich 2019), optionally fused with a residual addition,
 * and its gradients.
 *
 * In:    x, a, r, dy, res (rows, C) act_t; w (C) wt_t; eps inside the square root.
 * Out:   y, sum, dx (rows, C); rstd (rows) fp32, NULL if no backward follows; dw (C) fp32.
 * Keeps: fp32 inside; plus 0 (Llama): the normalised value is rounded before it is multiplied
 *        by w; plus 1 (Gemma): it is multiplied, unrounded, by 1 + w in fp32. Order of sums:
 *        rows.cuh. sum may be a or r, dx may be dy or res; no other aliasing. */
#ifndef DIECAST_KERNELS_CUDA_RMSNORM_CUH
#define DIECAST_KERNELS_CUDA_RMSNORM_CUH

#include "rows.cuh"
#include "types.cuh"
#include "workspace.h"

/* The factor of a normalised value, and that value as it is multiplied. */
static __device__ __forceinline__ float rmsnorm_scale(float w, int plus)
{
    return plus ? 1.0f + w : w;
}

static __device__ __forceinline__ float rmsnorm_value(float normal, int plus)
{
    return plus ? normal : act_round(normal);
}

/* Vectors a thread holds at most: registers. */
static constexpr int RMSNORM_VECTORS = 4;

/* A row for row_threads(C) threads. */
template <int W, bool ADD>
static __device__ __forceinline__ void
rmsnorm_fwd_walk(act_t *sum, act_t *y, float *rstd, const act_t *a, const act_t *r, const wt_t *w,
                 int64_t rows, int64_t C, float eps, int plus, int64_t ldy,
                 float (&sums)[2][ROW_WARPS])
{
    const int64_t row = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
    const int n = row < rows ? (int)(C / W) : 0, round = (int)blockDim.x * (ROW_HELD<W> / W);
    const act_t *from = ADD ? sum + row * C : a + row * C;
    float x[ROW_HELD<W>], squares = 0;
    for (int at = (int)threadIdx.x; at < n; at += round) {
        if (ADD)
            row_add<W>(x, sum + row * C, a + row * C, r + row * C, at, n);
        else
            row_read<W>(x, from, at, n);
#pragma unroll
        for (int e = 0; e < ROW_HELD<W>; e++)
            squares += x[e] * x[e];
    }
    const float rs = 1.0f / sqrtf(row_sum(squares, sums[0]) / (float)C + eps);
    for (int at = (int)threadIdx.x; at < n; at += round) {
        float scale[ROW_HELD<W>];
        if (n > round)
            row_read<W>(x, from, at, n);
        row_read<W>(scale, w, at, n);
#pragma unroll
        for (int e = 0; e < ROW_HELD<W>; e++)
            x[e] = rmsnorm_value(x[e] * rs, plus) * rmsnorm_scale(scale[e], plus);
        row_write<W>(y + row * ldy, x, at, n);
    }
    if (threadIdx.x == 0 && row < rows && rstd)
        rstd[row] = rs;
}

/* Rows of K vectors per thread, in turn; the next one is loaded meanwhile. */
template <int K, bool ADD>
static __device__ __forceinline__ void
rmsnorm_fwd_held(act_t *sum, act_t *y, float *rstd, const act_t *a, const act_t *r, const wt_t *w,
                 int64_t rows, int64_t C, float eps, int plus, int64_t ldy,
                 float (&sums)[2][ROW_WARPS])
{
    constexpr int W = ACT_VECTOR;
    const int64_t step = (int64_t)gridDim.x * blockDim.y;
    const float each = 1.0f / (float)C;
    HeldRow<K> next, next_r;
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    held_load(next, a, row, rows, C);
    if (ADD)
        held_load(next_r, r, row, rows, C);
    int turn = 0;                         // of sums: the other one may still be read
    for (; row - threadIdx.y < rows; row += step, turn ^= 1) {
        float x[K * W], squares = 0;
        held_next<K, ADD>(x, next, next_r, sum, a, r, row, step, rows, C);
#pragma unroll
        for (int e = 0; e < K * W; e++)
            squares += x[e] * x[e];
        const float rs = 1.0f / sqrtf(row_sum(squares, sums[turn]) * each + eps);
        if (row >= rows)
            continue;
        HeldRow<K> weight;
        held_load(weight, w, 0, 1, C);
#pragma unroll
        for (int e = 0; e < K * W; e++)
            x[e] *= rs;
        if (!plus)
            act_round_all<K * W>(x);
#pragma unroll
        for (int k = 0; k < K; k++) {
            float scale[W];
            act_load_vector(scale, (const act_t *)&weight.v[k]);
#pragma unroll
            for (int e = 0; e < W; e++)
                x[k * W + e] *= rmsnorm_scale(scale[e], plus);
        }
        held_store<K>(y + row * ldy, x, C);
        if (threadIdx.x == 0 && rstd)
            rstd[row] = rs;
    }
}

/* K: held_vectors; W: row_width. ADD: x = sum = a + r; else x = a. */
template <int W, int K, bool ADD>
__global__ void __launch_bounds__(ROW_THREADS, 1)
    rmsnorm_fwd_kernel(act_t *sum, act_t *__restrict__ y, float *rstd, const act_t *a,
                       const act_t *r, const wt_t *__restrict__ w, int64_t rows, int64_t C,
                       float eps, int plus, int64_t ldy)
{
    __shared__ float sums[2][ROW_WARPS];
    if constexpr (K > 0)
        rmsnorm_fwd_held<K, ADD>(sum, y, rstd, a, r, w, rows, C, eps, plus, ldy, sums);
    else
        rmsnorm_fwd_walk<W, ADD>(sum, y, rstd, a, r, w, rows, C, eps, plus, ldy, sums);
}

/* Any row, by row_threads(C) threads; sums of rows longer than a block holds stay in parts
 * meanwhile. */
template <int W, bool DW>
static __device__ __forceinline__ void
rmsnorm_bwd_walk(float *parts, act_t *dx, const act_t *dy, const act_t *x, const wt_t *w,
                 const float *rstd, const act_t *res, int64_t begin, int64_t end, int64_t C,
                 int plus, float *shared, float (&sums)[2][ROW_WARPS])
{
    const int n = (int)(C / W), round = (int)blockDim.x * (ROW_HELD<W> / W);
    const bool wide = n > round;          // then blockDim.y is 1 and sums stay in parts meanwhile
    float dw[ROW_HELD<W>] = {};
    RowGrad<W> in;
    RowVec<W> held;                       // of res
    int turn = 0;                         // of sums: the other one may still be read
    for (int64_t t = begin; t < end; t += blockDim.y, turn ^= 1) {
        const int64_t row = t + threadIdx.y;
        const int mine = row < end ? n : 0;
        if (!wide)
            row_grad_load(in, dy, x, row * C, (int)threadIdx.x, mine);
        const float rs = mine ? rstd[row] : 0;
        float c = 0;
        for (int at = (int)threadIdx.x; at < mine; at += round) {
            if (wide)
                row_grad_load(in, dy, x, row * C, at, n);
            RowVec<W> weight;
            row_load(weight, w, at, n);
#pragma unroll
            for (int k = 0; k < ROW_HELD<W> / W; k++) {       // a vector at a time: registers
                float g[W], v[W], scale[W];
                row_vector(g, in.dy, k);
                row_vector(v, in.x, k);
                row_vector(scale, weight, k);
#pragma unroll
                for (int e = 0; e < W; e++)                    // as written, whatever DW is
                    c = fmaf(g[e] * rmsnorm_scale(scale[e], plus), v[e], c);
            }
        }
        c = row_sum(c, sums[turn]) * rs * rs / (float)C;
        for (int at = (int)threadIdx.x; at < mine; at += round) {
            row_res_load(held, res, row * C, at, n);
            if (wide) {
                row_grad_load(in, dy, x, row * C, at, n);
                row_kept<W>(dw, parts, at, DW && t > begin ? n : 0);
            }
            RowVec<W> weight;
            row_load(weight, w, at, n);
#pragma unroll
            for (int k = 0; k < ROW_HELD<W> / W; k++) {
                float g[W], v[W], scale[W], more[W];
                row_vector(g, in.dy, k);
                row_vector(v, in.x, k);
                row_vector(scale, weight, k);
                row_vector(more, held, k);
#pragma unroll
                for (int e = 0; e < W; e++) {
                    if (DW)
                        dw[k * W + e] =
                            fmaf(g[e], rmsnorm_value(v[e] * rs, plus), dw[k * W + e]);
                    const float dv = fmaf(-v[e], c, g[e] * rmsnorm_scale(scale[e], plus));
                    v[e] = fmaf(dv, rs, more[e]);
                }
                row_store<W>(dx + row * C, v, k, at, n);
            }
            if (DW && wide)
                row_keep<W>(parts, dw, at, n);
        }
    }
    if (DW && (!wide || begin == end)) {
        if (blockDim.y > 1)
            row_join<W>(dw, shared, n);
        for (int at = (int)threadIdx.x; at < n && threadIdx.y == blockDim.y - 1; at += round)
            row_keep<W>(parts, dw, at, n);
    }
}

/* Rows of K vectors per thread, loaded ahead. */
template <int K, bool DW>
static __device__ __forceinline__ void
rmsnorm_bwd_held(float *parts, act_t *dx, const act_t *dy, const act_t *x, const wt_t *w,
                 const float *rstd, const act_t *res, int64_t begin, int64_t end, int64_t C,
                 int plus, int stages, float *shared, float (&sums)[2][ROW_WARPS])
{
    constexpr int W = ACT_VECTOR;
    const float each = 1.0f / (float)C;
    RowRing<K> ring = ring_begin<K>(shared, stages, dy, x, res, begin, end, C);
    float scale[K * W], dw[K * W] = {};
    held_weights<K>(scale, w, C);
#pragma unroll
    for (int e = 0; e < K * W; e++)
        scale[e] = rmsnorm_scale(scale[e], plus);
    int64_t row = begin + threadIdx.y;
    float rs = row < end ? rstd[row] : 0;
    int turn = 0;                         // of sums: the other one may still be read
    for (int64_t t = begin; t < end; t += blockDim.y, turn ^= 1) {
        const int64_t next = row + blockDim.y;
        const float next_rs = next < end ? rstd[next] : 0;
        ring_copy(ring, dy, x, res);
        ring_wait(ring);
        float c = 0;
#pragma unroll
        for (int k = 0; k < K && row < end; k++) {
            float g[W], v[W];
            ring_load(g, ring, 0, k);
            ring_load(v, ring, 1, k);
#pragma unroll
            for (int e = 0; e < W; e++)                   // as written, whatever DW is
                c = fmaf(g[e] * scale[k * W + e], v[e], c);
        }
        c = row_sum(c, sums[turn]) * rs * rs * each;
        act_t *to = dx + row * C + threadIdx.x * W;
#pragma unroll
        for (int k = 0; k < K && row < end; k++) {
            float g[W], v[W], more[W];
            ring_load(g, ring, 0, k);
            ring_load(v, ring, 1, k);
            ring_load(more, ring, 2, k);
            if (DW) {
                float normal[W];
#pragma unroll
                for (int e = 0; e < W; e++)
                    normal[e] = v[e] * rs;
                if (!plus)
                    act_round_all<W>(normal);
#pragma unroll
                for (int e = 0; e < W; e++)
                    dw[k * W + e] = fmaf(g[e], normal[e], dw[k * W + e]);
            }
#pragma unroll
            for (int e = 0; e < W; e++) {
                const float dv = fmaf(-v[e], c, g[e] * scale[k * W + e]);
                v[e] = fmaf(dv, rs, more[e]);
            }
            if (ring_has(ring, k))
                act_store_vector(to + k * (int)blockDim.x * W, v);
        }
        row = next, rs = next_rs;
    }
    if (DW)
        grad_join<K>(parts, dw, shared, C);
}

/* Rows of part blockIdx.x of gridDim.x, blockDim.y at a time. K: held_vectors; W: row_width;
 * stages: of a RowRing. DW: parts (gridDim.x, C) collects dw. */
template <int W, int K, bool DW>
__global__ void __launch_bounds__(ROW_THREADS, 1)
    rmsnorm_bwd_kernel(float *__restrict__ parts, act_t *dx, const act_t *dy,
                       const act_t *__restrict__ x, const wt_t *__restrict__ w,
                       const float *__restrict__ rstd, const act_t *res, int64_t rows, int64_t C,
                       int plus, int stages)
{
    DYNAMIC_SHARED(float, shared);
    __shared__ float sums[2][ROW_WARPS];
    const int64_t begin = part_begin(blockIdx.x, gridDim.x, rows);
    const int64_t end = part_begin(blockIdx.x + 1, gridDim.x, rows);
    parts += blockIdx.x * C;
    if constexpr (K > 0)
        rmsnorm_bwd_held<K, DW>(parts, dx, dy, x, w, rstd, res, begin, end, C, plus, stages, shared,
                                sums);
    else
        rmsnorm_bwd_walk<W, DW>(parts, dx, dy, x, w, rstd, res, begin, end, C, plus, shared, sums);
}

#ifndef __CUDACC_RTC__
/* The kernel for rows of C elements. */
template <bool ADD>
static inline auto rmsnorm_fwd_of(int64_t C)
{
    static constexpr int LAST = RMSNORM_VECTORS;
    const decltype(&rmsnorm_fwd_kernel<1, 0, ADD>) of[] = {
        C % ACT_VECTOR ? rmsnorm_fwd_kernel<1, 0, ADD> : rmsnorm_fwd_kernel<ACT_VECTOR, 0, ADD>,
        rmsnorm_fwd_kernel<ACT_VECTOR, 1, ADD>, rmsnorm_fwd_kernel<ACT_VECTOR, 2, ADD>,
        rmsnorm_fwd_kernel<ACT_VECTOR, 3, ADD>, rmsnorm_fwd_kernel<ACT_VECTOR, LAST, ADD>,
    };
    return of[held_vectors(C, LAST)];
}

static inline void rmsnorm_rows(act_t *sum, act_t *y, float *rstd, const act_t *a, const act_t *r,
                                const wt_t *w, int64_t rows, int64_t C, float eps, int plus,
                                int64_t ldy, cudaStream_t s)
{
    const NormShape shape = norm_shape(rows, C, RMSNORM_VECTORS);
    launch(sum ? rmsnorm_fwd_of<true>(C) : rmsnorm_fwd_of<false>(C), shape.blocks, shape.block, 0,
           s, sum, y, rstd, a, r, w, rows, C, eps, plus, ldy ? ldy : C);
}

/* y = RMS(x) w, or RMS(x) (1 + w); ldy: elements from row to row of y, whole vectors; 0: C */
static inline void rmsnorm_fwd(act_t *y, float *rstd, const act_t *x, const wt_t *w, int64_t rows,
                               int64_t C, float eps, int plus, cudaStream_t s, int64_t ldy = 0)
{
    rmsnorm_rows(NULL, y, rstd, x, NULL, w, rows, C, eps, plus, ldy, s);
}

/* sum = a + r, rounded to act_t; y as above, of sum */
static inline void add_rmsnorm_fwd(act_t *sum, act_t *y, float *rstd, const act_t *a,
                                   const act_t *r, const wt_t *w, int64_t rows, int64_t C,
                                   float eps, int plus, cudaStream_t s, int64_t ldy = 0)
{
    rmsnorm_rows(sum, y, rstd, a, r, w, rows, C, eps, plus, ldy, s);
}

/* The kernel for rows of C elements. */
template <bool DW>
static inline auto rmsnorm_bwd_of(int64_t C)
{
    static constexpr int LAST = RMSNORM_VECTORS;
    const decltype(&rmsnorm_bwd_kernel<1, 0, DW>) of[] = {
        C % ACT_VECTOR ? rmsnorm_bwd_kernel<1, 0, DW> : rmsnorm_bwd_kernel<ACT_VECTOR, 0, DW>,
        rmsnorm_bwd_kernel<ACT_VECTOR, 1, DW>, rmsnorm_bwd_kernel<ACT_VECTOR, 2, DW>,
        rmsnorm_bwd_kernel<ACT_VECTOR, 3, DW>, rmsnorm_bwd_kernel<ACT_VECTOR, LAST, DW>,
    };
    return of[held_vectors(C, LAST)];
}

/* dx = res + gradient of RMSNorm at x; dw overwritten (beta 0) or added to (1).
 * ws: rmsnorm_bwd_cuda_workspace(C) bytes. PARTS: blocks that the rows are divided among. */
template <int PARTS>
static inline void rmsnorm_bwd_add(float *dw, act_t *dx, const act_t *dy, const act_t *x,
                                   const wt_t *w, const float *rstd, const act_t *res, int64_t rows,
                                   int64_t C, int plus, int beta, void *ws, cudaStream_t s)
{
    static_assert(PARTS <= CUDA_NORM_BWD_PARTS, "the workspace has no more");
    const GradShape shape = grad_shape(rows, C, PARTS, RMSNORM_VECTORS);
    launch(rmsnorm_bwd_of<true>(C), PARTS, shape.block, shape.shared, s, (float *)ws, dx, dy,
           x, w, rstd, res, rows, C, plus, shape.stages);
    part_sum<PARTS>(dw, NULL, (float *)ws, C, beta, s);
}

template <int PARTS>
static inline void rmsnorm_bwd(float *dw, act_t *dx, const act_t *dy, const act_t *x, const wt_t *w,
                               const float *rstd, int64_t rows, int64_t C, int plus, int beta,
                               void *ws, cudaStream_t s)
{
    rmsnorm_bwd_add<PARTS>(dw, dx, dy, x, w, rstd, NULL, rows, C, plus, beta, ws, s);
}

/* The same for frozen weights. */
static inline void rmsnorm_dx_add(act_t *dx, const act_t *dy, const act_t *x, const wt_t *w,
                                  const float *rstd, const act_t *res, int64_t rows, int64_t C,
                                  int plus, cudaStream_t s)
{
    const int parts = rows < CUDA_NORM_BWD_PARTS ? (int)rows : CUDA_NORM_BWD_PARTS;
    const GradShape shape = grad_shape(rows, C, parts, RMSNORM_VECTORS);
    launch(rmsnorm_bwd_of<false>(C), parts, shape.block, shape.shared, s, (float *)NULL, dx, dy,
           x, w, rstd, res, rows, C, plus, shape.stages);
}

static inline void rmsnorm_dx(act_t *dx, const act_t *dy, const act_t *x, const wt_t *w,
                              const float *rstd, int64_t rows, int64_t C, int plus, cudaStream_t s)
{
    rmsnorm_dx_add(dx, dy, x, w, rstd, NULL, rows, C, plus, s);
}
#else
template __global__ void
rmsnorm_fwd_kernel<row_width(C), held_vectors(C, RMSNORM_VECTORS), false>(
    act_t *, act_t *, float *, const act_t *, const act_t *, const wt_t *, int64_t, int64_t, float,
    int, int64_t);
template __global__ void
rmsnorm_fwd_kernel<row_width(C), held_vectors(C, RMSNORM_VECTORS), true>(
    act_t *, act_t *, float *, const act_t *, const act_t *, const wt_t *, int64_t, int64_t, float,
    int, int64_t);
template __global__ void
rmsnorm_bwd_kernel<row_width(C), held_vectors(C, RMSNORM_VECTORS), false>(
    float *, act_t *, const act_t *, const act_t *, const wt_t *, const float *, const act_t *,
    int64_t, int64_t, int, int);
template __global__ void
rmsnorm_bwd_kernel<row_width(C), held_vectors(C, RMSNORM_VECTORS), true>(
    float *, act_t *, const act_t *, const act_t *, const wt_t *, const float *, const act_t *,
    int64_t, int64_t, int, int);
SHARED_BYTES(rmsnorm_bwd_kernel, grad_bytes(C, RMSNORM_VECTORS));
#endif

#endif
