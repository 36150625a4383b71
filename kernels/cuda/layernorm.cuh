/* layernorm.cuh -- LayerNorm (Ba, Kiros, Hinton 2016), optionally fused with a residual
 * addition, of which one operand may be dropped, and its gradients.
 *
 * In:    x, a, r, dy, res (rows, C) act_t; w, b (C) wt_t; eps inside the root; biased
 *        variance.
 * Out:   y, sum, dx (rows, C); mean, rstd (rows) fp32, NULL if no backward follows; dw, db (C)
 *        fp32.
 * Keeps: fp32 inside, one rounding at the store. Order of sums: rows.cuh. sum may be a or r,
 *        dx may be dy or res; no other aliasing. */
#ifndef DIECAST_KERNELS_CUDA_LAYERNORM_CUH
#define DIECAST_KERNELS_CUDA_LAYERNORM_CUH

#include "rows.cuh"
#include "types.cuh"
#include "workspace.h"

/* Vectors a thread holds at most: registers. */
static constexpr int LAYERNORM_VECTORS = sizeof(act_t) == 2 ? 3 : 4;

/* One row per row_threads(C) threads. */
template <int W, bool ADD, typename DROP>
static __device__ __forceinline__ void
layernorm_fwd_walk(act_t *sum, act_t *y, float *mean, float *rstd, const act_t *a, const act_t *r,
                   const wt_t *w, const wt_t *b, int64_t rows, int64_t C, float eps, int64_t ldy,
                   const DROP &drop, float (&sums)[2][ROW_WARPS])
{
    const int64_t row = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
    const int n = row < rows ? (int)(C / W) : 0, round = (int)blockDim.x * (ROW_HELD<W> / W);
    const act_t *from = ADD ? sum + row * C : a + row * C;
    float x[ROW_HELD<W>], total = 0, squares = 0;
    for (int at = (int)threadIdx.x; at < n; at += round) {
        if (ADD)
            row_add<W>(x, sum + row * C, a + row * C, r + row * C, at, n, row, drop);
        else
            row_read<W>(x, from, at, n);
#pragma unroll
        for (int e = 0; e < ROW_HELD<W>; e++)
            total += x[e];
    }
    const float m = row_sum(total, sums[0]) / (float)C;
    for (int at = (int)threadIdx.x; at < n; at += round) {
        if (n > round)
            row_read<W>(x, from, at, n);
#pragma unroll
        for (int e = 0; e < ROW_HELD<W>; e++) {
            const float d = x[e] - m;
            squares += row_has<W>(e, at, n) ? d * d : 0.0f;
        }
    }
    const float rs = 1.0f / sqrtf(row_sum(squares, sums[1]) / (float)C + eps);
    for (int at = (int)threadIdx.x; at < n; at += round) {
        float scale[ROW_HELD<W>], shift[ROW_HELD<W>];
        if (n > round)
            row_read<W>(x, from, at, n);
        row_read<W>(scale, w, at, n);
        row_read<W>(shift, b, at, n);
#pragma unroll
        for (int e = 0; e < ROW_HELD<W>; e++)
            x[e] = (x[e] - m) * rs * scale[e] + shift[e];
        row_write<W>(y + row * ldy, x, at, n);
    }
    if (threadIdx.x == 0 && row < rows) {
        if (mean)
            mean[row] = m;
        if (rstd)
            rstd[row] = rs;
    }
}

/* Rows of K vectors per thread, in turn; the next one is loaded meanwhile. */
template <int K, bool ADD, typename DROP>
static __device__ __forceinline__ void
layernorm_fwd_held(act_t *sum, act_t *y, float *mean, float *rstd, const act_t *a, const act_t *r,
                   const wt_t *w, const wt_t *b, int64_t rows, int64_t C, float eps, int64_t ldy,
                   const DROP &drop, float (&sums)[2][ROW_WARPS])
{
    constexpr int W = ACT_VECTOR;
    const int64_t step = (int64_t)gridDim.x * blockDim.y;
    const float each = 1.0f / (float)C;
    HeldRow<K> next, next_r;
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    held_load(next, a, row, rows, C);
    if (ADD)
        held_load(next_r, r, row, rows, C);
    for (; row - threadIdx.y < rows; row += step) {
        float x[K * W], total = 0, squares = 0;
        held_next<K, ADD>(x, next, next_r, sum, a, r, row, step, rows, C, drop);
#pragma unroll
        for (int e = 0; e < K * W; e++)
            total += x[e];
        const float m = row_sum(total, sums[0]) * each;
#pragma unroll
        for (int e = 0; e < K * W; e++) {
            const bool has = (int)(threadIdx.x + e / W * blockDim.x) < (int)(C / W);
            x[e] = has ? x[e] - m : 0.0f;
            squares = fmaf(x[e], x[e], squares);
        }
        const float rs = 1.0f / sqrtf(row_sum(squares, sums[1]) * each + eps);
        if (row >= rows)
            continue;
        HeldRow<K> weight, bias;
        held_load(weight, w, 0, 1, C);
        held_load(bias, b, 0, 1, C);
#pragma unroll
        for (int k = 0; k < K; k++) {
            float scale[W], shift[W];
            act_load_vector(scale, (const act_t *)&weight.v[k]);
            act_load_vector(shift, (const act_t *)&bias.v[k]);
#pragma unroll
            for (int e = 0; e < W; e++)
                x[k * W + e] = x[k * W + e] * rs * scale[e] + shift[e];
        }
        held_store<K>(y + row * ldy, x, C);
        if (threadIdx.x == 0) {
            if (mean)
                mean[row] = m;
            if (rstd)
                rstd[row] = rs;
        }
    }
}

/* K: held_vectors; W: row_width. ADD: x = sum = a + r, where DROP drops of r; else x = a. */
template <int W, int K, bool ADD, typename DROP>
__global__ void __launch_bounds__(ROW_THREADS, 1)
    layernorm_fwd_kernel(act_t *sum, act_t *__restrict__ y, float *mean, float *rstd,
                         const act_t *a, const act_t *r, const wt_t *__restrict__ w,
                         const wt_t *__restrict__ b, int64_t rows, int64_t C, float eps,
                         int64_t ldy, DROP drop)
{
    __shared__ float sums[2][ROW_WARPS];
    if constexpr (K > 0)
        layernorm_fwd_held<K, ADD>(sum, y, mean, rstd, a, r, w, b, rows, C, eps, ldy, drop, sums);
    else
        layernorm_fwd_walk<W, ADD>(sum, y, mean, rstd, a, r, w, b, rows, C, eps, ldy, drop, sums);
}

/* Any row, by row_threads(C) threads; sums of rows longer than a block holds stay in parts
 * meanwhile. */
template <int W, bool DW>
static __device__ __forceinline__ void
layernorm_bwd_walk(float *parts, act_t *dx, const act_t *dy, const act_t *x, const wt_t *w,
                   const float *mean, const float *rstd, const act_t *res, int64_t begin,
                   int64_t end, int64_t C, float *shared, float2 (&sums)[2][ROW_WARPS])
{
    const int n = (int)(C / W), round = (int)blockDim.x * (ROW_HELD<W> / W);
    const bool wide = n > round;          // then blockDim.y is 1 and sums stay in parts meanwhile
    float *pw = parts, *pb = pw + C;
    float dw[ROW_HELD<W>] = {}, db[ROW_HELD<W>] = {};
    RowGrad<W> in;
    RowVec<W> held;                       // of res
    int turn = 0;                         // of sums: the other one may still be read
    for (int64_t t = begin; t < end; t += blockDim.y, turn ^= 1) {
        const int64_t row = t + threadIdx.y;
        const int mine = row < end ? n : 0;
        if (!wide)
            row_grad_load(in, dy, x, row * C, (int)threadIdx.x, mine);
        const float mu = mine ? mean[row] : 0, rs = mine ? rstd[row] : 0;
        float2 c = make_float2(0, 0);
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
                for (int e = 0; e < W; e++) {
                    c.x = fmaf(g[e], scale[e], c.x);      // as written, whatever DW is
                    c.y = fmaf(g[e] * scale[e], v[e] - mu, c.y);
                }
            }
        }
        c = row_sums(c, sums[turn]);
        const float c1 = c.x / (float)C, c2 = c.y * rs * rs / (float)C;
        for (int at = (int)threadIdx.x; at < mine; at += round) {
            row_res_load(held, res, row * C, at, n);
            if (wide) {
                row_grad_load(in, dy, x, row * C, at, n);
                row_kept<W>(dw, pw, at, DW && t > begin ? n : 0);
                row_kept<W>(db, pb, at, DW && t > begin ? n : 0);
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
                    if (DW) {
                        dw[k * W + e] = fmaf(g[e], (v[e] - mu) * rs, dw[k * W + e]);
                        db[k * W + e] += g[e];
                    }
                    const float dv = fmaf(mu - v[e], c2, fmaf(g[e], scale[e], -c1));
                    v[e] = fmaf(dv, rs, more[e]);
                }
                row_store<W>(dx + row * C, v, k, at, n);
            }
            if (DW && wide) {
                row_keep<W>(pw, dw, at, n);
                row_keep<W>(pb, db, at, n);
            }
        }
    }
    if (DW && (!wide || begin == end)) {
        if (blockDim.y > 1) {
            row_join<W>(dw, shared, n);
            row_join<W>(db, shared, n);
        }
        for (int at = (int)threadIdx.x; at < n && threadIdx.y == blockDim.y - 1; at += round) {
            row_keep<W>(pw, dw, at, n);
            row_keep<W>(pb, db, at, n);
        }
    }
}

/* Rows of K vectors per thread, loaded ahead. */
template <int K, bool DW>
static __device__ __forceinline__ void
layernorm_bwd_held(float *parts, act_t *dx, const act_t *dy, const act_t *x, const wt_t *w,
                   const float *mean, const float *rstd, const act_t *res, int64_t begin,
                   int64_t end, int64_t C, int stages, float *shared,
                   float2 (&sums)[2][ROW_WARPS])
{
    constexpr int W = ACT_VECTOR;
    const float each = 1.0f / (float)C;
    RowRing<K> ring = ring_begin<K>(shared, stages, dy, x, res, begin, end, C);
    float scale[K * W], dw[K * W] = {}, db[K * W] = {};
    held_weights<K>(scale, w, C);
    int64_t row = begin + threadIdx.y;
    float mu = row < end ? mean[row] : 0, rs = row < end ? rstd[row] : 0;
    int turn = 0;                         // of sums: the other one may still be read
    for (int64_t t = begin; t < end; t += blockDim.y, turn ^= 1) {
        const int64_t next = row + blockDim.y;
        const float next_mu = next < end ? mean[next] : 0, next_rs = next < end ? rstd[next] : 0;
        ring_copy(ring, dy, x, res);
        ring_wait(ring);
        float2 c = make_float2(0, 0);
#pragma unroll
        for (int k = 0; k < K && row < end; k++) {
            float g[W], v[W];
            ring_load(g, ring, 0, k);
            ring_load(v, ring, 1, k);
#pragma unroll
            for (int e = 0; e < W; e++) {
                const float s = scale[k * W + e];
                c.x = fmaf(g[e], s, c.x);                 // as written, whatever DW is
                c.y = fmaf(g[e] * s, v[e] - mu, c.y);
            }
        }
        c = row_sums(c, sums[turn]);
        const float c1 = c.x * each, c2 = c.y * rs * rs * each;
        act_t *to = dx + row * C + threadIdx.x * W;
#pragma unroll
        for (int k = 0; k < K && row < end; k++) {
            float g[W], v[W], more[W];
            ring_load(g, ring, 0, k);
            ring_load(v, ring, 1, k);
            ring_load(more, ring, 2, k);
#pragma unroll
            for (int e = 0; e < W; e++) {
                const int i = k * W + e;
                const float d = v[e] - mu;
                if (DW) {
                    dw[i] = fmaf(g[e], d * rs, dw[i]);
                    db[i] += g[e];
                }
                const float dv = fmaf(-d, c2, fmaf(g[e], scale[i], -c1));
                v[e] = fmaf(dv, rs, more[e]);
            }
            if (ring_has(ring, k))
                act_store_vector(to + k * (int)blockDim.x * W, v);
        }
        row = next, mu = next_mu, rs = next_rs;
    }
    if (DW) {
        grad_join<K>(parts, dw, shared, C);
        grad_join<K>(parts + C, db, shared, C);
    }
}

/* Rows of part blockIdx.x of gridDim.x, blockDim.y at a time. K: held_vectors; W: row_width;
 * stages: of a RowRing. DW: parts (gridDim.x, 2, C) collects dw then db. */
template <int W, int K, bool DW>
__global__ void __launch_bounds__(ROW_THREADS, 1)
    layernorm_bwd_kernel(float *__restrict__ parts, act_t *dx, const act_t *dy,
                         const act_t *__restrict__ x, const wt_t *__restrict__ w,
                         const float *__restrict__ mean, const float *__restrict__ rstd,
                         const act_t *res, int64_t rows, int64_t C, int stages)
{
    DYNAMIC_SHARED(float, shared);
    __shared__ float2 sums[2][ROW_WARPS];
    const int64_t begin = part_begin(blockIdx.x, gridDim.x, rows);
    const int64_t end = part_begin(blockIdx.x + 1, gridDim.x, rows);
    parts += blockIdx.x * 2 * C;
    if constexpr (K > 0)
        layernorm_bwd_held<K, DW>(parts, dx, dy, x, w, mean, rstd, res, begin, end, C, stages,
                                  shared, sums);
    else
        layernorm_bwd_walk<W, DW>(parts, dx, dy, x, w, mean, rstd, res, begin, end, C, shared,
                                  sums);
}

#ifndef __CUDACC_RTC__
/* The kernel for rows of C elements. SINGLE: their width where C is of no whole vectors. */
template <bool ADD, typename DROP, int SINGLE>
static inline auto layernorm_fwd_of(int64_t C)
{
    static constexpr int W = ACT_VECTOR, LAST = LAYERNORM_VECTORS;
    const decltype(&layernorm_fwd_kernel<W, 0, ADD, DROP>) of[] = {
        C % W ? layernorm_fwd_kernel<SINGLE, 0, ADD, DROP> : layernorm_fwd_kernel<W, 0, ADD, DROP>,
        layernorm_fwd_kernel<W, 1, ADD, DROP>, layernorm_fwd_kernel<W, 2, ADD, DROP>,
        layernorm_fwd_kernel<W, 3, ADD, DROP>, layernorm_fwd_kernel<W, LAST, ADD, DROP>,
    };
    return of[held_vectors(C, LAST)];
}

template <bool ADD, int SINGLE = 1, typename DROP = Undropped>
static inline void layernorm_rows(act_t *sum, act_t *y, float *mean, float *rstd, const act_t *a,
                                  const act_t *r, const wt_t *w, const wt_t *b, int64_t rows,
                                  int64_t C, float eps, int64_t ldy, cudaStream_t s, DROP drop = {})
{
    const NormShape shape = norm_shape(rows, C, LAYERNORM_VECTORS);
    launch(layernorm_fwd_of<ADD, DROP, SINGLE>(C), shape.blocks, shape.block, 0, s, sum, y, mean,
           rstd, a, r, w, b, rows, C, eps, ldy ? ldy : C, drop);
}

/* y = LN(x); ldy: elements from row to row of y, whole vectors; 0: C */
static inline void layernorm_fwd(act_t *y, float *mean, float *rstd, const act_t *x, const wt_t *w,
                                 const wt_t *b, int64_t rows, int64_t C, float eps, cudaStream_t s,
                                 int64_t ldy = 0)
{
    act_t *none = NULL;
    layernorm_rows<false>(none, y, mean, rstd, x, none, w, b, rows, C, eps, ldy, s);
}

/* sum = a + r, rounded to act_t; y = LN(sum) */
static inline void add_layernorm_fwd(act_t *sum, act_t *y, float *mean, float *rstd, const act_t *a,
                                     const act_t *r, const wt_t *w, const wt_t *b, int64_t rows,
                                     int64_t C, float eps, cudaStream_t s, int64_t ldy = 0)
{
    layernorm_rows<true>(sum, y, mean, rstd, a, r, w, b, rows, C, eps, ldy, s);
}

/* The same with dropout of r, see dropout.cuh; C is a multiple of 8. */
static inline void dropout_add_layernorm_fwd(act_t *sum, act_t *y, float *mean, float *rstd,
                                             const act_t *a, const act_t *r, const uint32_t *noise,
                                             uint32_t site, float p, int64_t T, const wt_t *w,
                                             const wt_t *b, int64_t rows, int64_t C, float eps,
                                             cudaStream_t s)
{
    layernorm_rows<true, ACT_VECTOR>(sum, y, mean, rstd, a, r, w, b, rows, C, eps, C, s,
                                     dropped_at(noise, site, p, T));
}

/* The kernel for rows of C elements. */
template <bool DW>
static inline auto layernorm_bwd_of(int64_t C)
{
    static constexpr int LAST = LAYERNORM_VECTORS;
    const decltype(&layernorm_bwd_kernel<1, 0, DW>) of[] = {
        C % ACT_VECTOR ? layernorm_bwd_kernel<1, 0, DW> : layernorm_bwd_kernel<ACT_VECTOR, 0, DW>,
        layernorm_bwd_kernel<ACT_VECTOR, 1, DW>, layernorm_bwd_kernel<ACT_VECTOR, 2, DW>,
        layernorm_bwd_kernel<ACT_VECTOR, 3, DW>, layernorm_bwd_kernel<ACT_VECTOR, LAST, DW>,
    };
    return of[held_vectors(C, LAST)];
}

/* dx = res + gradient of LN at x; dw, db overwritten (beta 0) or added to (1).
 * ws: layernorm_bwd_cuda_workspace(C) bytes. PARTS: blocks that the rows are divided among. */
template <int PARTS>
static inline void layernorm_bwd_add(float *dw, float *db, act_t *dx, const act_t *dy,
                                     const act_t *x, const wt_t *w, const float *mean,
                                     const float *rstd, const act_t *res, int64_t rows, int64_t C,
                                     int beta, void *ws, cudaStream_t s)
{
    static_assert(PARTS <= CUDA_NORM_BWD_PARTS, "the workspace has no more");
    const GradShape shape = grad_shape(rows, C, PARTS, LAYERNORM_VECTORS);
    launch(layernorm_bwd_of<true>(C), PARTS, shape.block, shape.shared, s, (float *)ws, dx, dy,
           x, w, mean, rstd, res, rows, C, shape.stages);
    part_sum<PARTS>(dw, db, (float *)ws, C, beta, s);
}

template <int PARTS>
static inline void layernorm_bwd(float *dw, float *db, act_t *dx, const act_t *dy, const act_t *x,
                                 const wt_t *w, const float *mean, const float *rstd, int64_t rows,
                                 int64_t C, int beta, void *ws, cudaStream_t s)
{
    layernorm_bwd_add<PARTS>(dw, db, dx, dy, x, w, mean, rstd, NULL, rows, C, beta, ws, s);
}

/* The same for frozen weights. */
static inline void layernorm_dx_add(act_t *dx, const act_t *dy, const act_t *x, const wt_t *w,
                                    const float *mean, const float *rstd, const act_t *res,
                                    int64_t rows, int64_t C, cudaStream_t s)
{
    const int parts = rows < CUDA_NORM_BWD_PARTS ? (int)rows : CUDA_NORM_BWD_PARTS;
    const GradShape shape = grad_shape(rows, C, parts, LAYERNORM_VECTORS);
    launch(layernorm_bwd_of<false>(C), parts, shape.block, shape.shared, s, (float *)NULL, dx, dy,
           x, w, mean, rstd, res, rows, C, shape.stages);
}

static inline void layernorm_dx(act_t *dx, const act_t *dy, const act_t *x, const wt_t *w,
                                const float *mean, const float *rstd, int64_t rows, int64_t C,
                                cudaStream_t s)
{
    layernorm_dx_add(dx, dy, x, w, mean, rstd, NULL, rows, C, s);
}
#else
template __global__ void
layernorm_fwd_kernel<row_width(C), held_vectors(C, LAYERNORM_VECTORS), false>(
    act_t *, act_t *, float *, float *, const act_t *, const act_t *, const wt_t *, const wt_t *,
    int64_t, int64_t, float, int64_t, Undropped);
template __global__ void
layernorm_fwd_kernel<row_width(C), held_vectors(C, LAYERNORM_VECTORS), true>(
    act_t *, act_t *, float *, float *, const act_t *, const act_t *, const wt_t *, const wt_t *,
    int64_t, int64_t, float, int64_t, Undropped);
#ifdef KERNEL_dropout_add_layernorm_fwd
template __global__ void
layernorm_fwd_kernel<row_width(C), held_vectors(C, LAYERNORM_VECTORS), true>(
    act_t *, act_t *, float *, float *, const act_t *, const act_t *, const wt_t *, const wt_t *,
    int64_t, int64_t, float, int64_t, Dropped);
#endif
template __global__ void
layernorm_bwd_kernel<row_width(C), held_vectors(C, LAYERNORM_VECTORS), false>(
    float *, act_t *, const act_t *, const act_t *, const wt_t *, const float *, const float *,
    const act_t *, int64_t, int64_t, int);
template __global__ void
layernorm_bwd_kernel<row_width(C), held_vectors(C, LAYERNORM_VECTORS), true>(
    float *, act_t *, const act_t *, const act_t *, const wt_t *, const float *, const float *,
    const act_t *, int64_t, int64_t, int);
SHARED_BYTES(layernorm_bwd_kernel, grad_bytes(C, LAYERNORM_VECTORS));
#endif

#endif
