/* layernorm.cuh -- LayerNorm (Ba, Kiros, Hinton 2016), optionally fused with a residual
 * addition, and its gradients.
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

/* One row per blockDim.x threads, blockDim.y rows per block. ADD: x = sum = a + r; else x = a. */
template <int W, bool ADD>
__global__ void __launch_bounds__(ROW_THREADS, 1)
    layernorm_fwd_kernel(act_t *sum, act_t *__restrict__ y, float *mean, float *rstd,
                         const act_t *a, const act_t *r, const wt_t *__restrict__ w,
                         const wt_t *__restrict__ b, int64_t rows, int64_t C, float eps,
                         int64_t ldy)
{
    __shared__ float sums[2][ROW_WARPS];
    const int64_t row = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
    const int n = row < rows ? (int)(C / W) : 0, round = (int)blockDim.x * (ROW_HELD<W> / W);
    const act_t *from = ADD ? sum + row * C : a + row * C;
    float x[ROW_HELD<W>], total = 0, squares = 0;
    for (int at = (int)threadIdx.x; at < n; at += round) {
        if (ADD)
            row_add<W>(x, sum + row * C, a + row * C, r + row * C, at, n);
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

/* Rows of part blockIdx.x of gridDim.x, blockDim.y at a time. DW: parts (gridDim.x, 2, C) collects
 * dw then db; shared memory (C) fp32 where blockDim.y > 1. */
template <int W, bool DW>
__global__ void __launch_bounds__(ROW_THREADS, 1)
    layernorm_bwd_kernel(float *__restrict__ parts, act_t *dx, const act_t *dy,
                         const act_t *__restrict__ x, const wt_t *__restrict__ w,
                         const float *__restrict__ mean, const float *__restrict__ rstd,
                         const act_t *res, int64_t rows, int64_t C)
{
    DYNAMIC_SHARED(float, shared);
    __shared__ float2 sums[2][ROW_WARPS];
    const int64_t begin = part_begin(blockIdx.x, gridDim.x, rows);
    const int64_t end = part_begin(blockIdx.x + 1, gridDim.x, rows);
    const int n = (int)(C / W), round = (int)blockDim.x * (ROW_HELD<W> / W);
    const bool early = ROW_AHEAD<W> || !DW;         // res is loaded before the sums
    const bool wide = n > round;          // then blockDim.y is 1 and sums stay in parts meanwhile
    float *pw = parts + blockIdx.x * 2 * C, *pb = pw + C;
    float dw[ROW_HELD<W>] = {}, db[ROW_HELD<W>] = {};
    RowGrad<W> in, next;
    RowVec<W> held;                       // of res
    if (DW && ROW_AHEAD<W>)
        row_grad_load(next, dy, x, mean, rstd, begin + threadIdx.y, end, C);
    int turn = 0;                         // of sums: the other one may still be read
    for (int64_t t = begin; t < end; t += blockDim.y, turn ^= 1) {
        const int64_t row = t + threadIdx.y;
        const int mine = row < end ? n : 0;
        if (DW && ROW_AHEAD<W>) {
            in = next;
            row_grad_load(next, dy, x, mean, rstd, row + blockDim.y, end, C);
        } else {
            row_grad_load(in, dy, x, mean, rstd, row, end, C);
        }
        if (early)
            row_res_load(held, res, row * C, (int)threadIdx.x, wide ? 0 : mine);
        const float mu = in.mean, rs = in.rstd;
        float2 c = make_float2(0, 0);
        for (int at = (int)threadIdx.x; at < mine; at += round) {
            if (at >= round)
                row_grad_round(in, dy, x, row * C, at, n);
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
            if (!early || wide)
                row_res_load(held, res, row * C, at, n);
            if (wide) {
                row_grad_round(in, dy, x, row * C, at, n);
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

#ifndef __CUDACC_RTC__
static inline void layernorm_rows(act_t *sum, act_t *y, float *mean, float *rstd, const act_t *a,
                                  const act_t *r, const wt_t *w, const wt_t *b, int64_t rows,
                                  int64_t C, float eps, int64_t ldy, cudaStream_t s)
{
    const bool vector = row_width(C) > 1;
    const int threads = row_threads(C), groups = row_groups(threads, ROW_BLOCK);
    auto plain = vector ? layernorm_fwd_kernel<ACT_VECTOR, false> : layernorm_fwd_kernel<1, false>;
    auto add = vector ? layernorm_fwd_kernel<ACT_VECTOR, true> : layernorm_fwd_kernel<1, true>;
    launch(sum ? add : plain, blocks_over(rows, groups), dim3(threads, groups), 0, s, sum, y, mean,
           rstd, a, r, w, b, rows, C, eps, ldy ? ldy : C);
}

/* y = LN(x); ldy: elements from row to row of y, whole vectors; 0: C */
static inline void layernorm_fwd(act_t *y, float *mean, float *rstd, const act_t *x, const wt_t *w,
                                 const wt_t *b, int64_t rows, int64_t C, float eps, cudaStream_t s,
                                 int64_t ldy = 0)
{
    layernorm_rows(NULL, y, mean, rstd, x, NULL, w, b, rows, C, eps, ldy, s);
}

/* sum = a + r, rounded to act_t; y = LN(sum) */
static inline void add_layernorm_fwd(act_t *sum, act_t *y, float *mean, float *rstd, const act_t *a,
                                     const act_t *r, const wt_t *w, const wt_t *b, int64_t rows,
                                     int64_t C, float eps, cudaStream_t s, int64_t ldy = 0)
{
    layernorm_rows(sum, y, mean, rstd, a, r, w, b, rows, C, eps, ldy, s);
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
    const int threads = row_threads(C), groups = row_part_groups(threads, rows, PARTS);
    auto kernel =
        row_width(C) > 1 ? layernorm_bwd_kernel<ACT_VECTOR, true> : layernorm_bwd_kernel<1, true>;
    launch(kernel, PARTS, dim3(threads, groups), row_join_bytes(C), s, (float *)ws, dx, dy,
           x, w, mean, rstd, res, rows, C);
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
    const int threads = row_threads(C), groups = row_groups(threads, ROW_BLOCK);
    auto kernel =
        row_width(C) > 1 ? layernorm_bwd_kernel<ACT_VECTOR, false> : layernorm_bwd_kernel<1, false>;
    launch(kernel, blocks_over(rows, groups), dim3(threads, groups), 0, s, (float *)NULL, dx, dy, x,
           w, mean, rstd, res, rows, C);
}

static inline void layernorm_dx(act_t *dx, const act_t *dy, const act_t *x, const wt_t *w,
                                const float *mean, const float *rstd, int64_t rows, int64_t C,
                                cudaStream_t s)
{
    layernorm_dx_add(dx, dy, x, w, mean, rstd, NULL, rows, C, s);
}
#else
template __global__ void layernorm_fwd_kernel<row_width(C), false>(
    act_t *, act_t *, float *, float *, const act_t *, const act_t *, const wt_t *, const wt_t *,
    int64_t, int64_t, float, int64_t);
template __global__ void layernorm_fwd_kernel<row_width(C), true>(
    act_t *, act_t *, float *, float *, const act_t *, const act_t *, const wt_t *, const wt_t *,
    int64_t, int64_t, float, int64_t);
template __global__ void layernorm_bwd_kernel<row_width(C), false>(
    float *, act_t *, const act_t *, const act_t *, const wt_t *, const float *, const float *,
    const act_t *, int64_t, int64_t);
template __global__ void layernorm_bwd_kernel<row_width(C), true>(
    float *, act_t *, const act_t *, const act_t *, const wt_t *, const float *, const float *,
    const act_t *, int64_t, int64_t);
SHARED_BYTES(layernorm_bwd_kernel, row_join_bytes(C));
#endif

#endif
