/* dropout.cuh -- dropout of rows (Srivastava et al. 2014) and its gradient, with the same
 * mask; alone, after an exact GELU or before a residual sum.
 *
 * In:    x, residual (rows, C) act_t; noise, site: see philox.cuh.
 * Out:   y = 0 where dropped, else x / (1 - p); y of gelu(x); residual + y. y may be an input.
 * Keeps: each step rounds to act_t as if it were stored; the mask is never stored. */
#ifndef DIECAST_KERNELS_CUDA_DROPOUT_CUH
#define DIECAST_KERNELS_CUDA_DROPOUT_CUH

#include "activation.cuh"
#include "philox.cuh"
#include "types.cuh"

enum { DROPOUT_THREADS = 256 };         /* of a quad each */

/* Operation fused with dropout, before or after it. */
enum DropoutForm { DROPOUT_ALONE, DROPOUT_OF_GELU_ERF, DROPOUT_PLUS };

/* n of the elements 4 quad .. of a row; v and residual hold them. */
template <DropoutForm FORM>
static __device__ __forceinline__ void dropout_of_quad(float v[4], const float residual[4],
                                                       const Dropped &drop, int64_t row,
                                                       int64_t quad)
{
    if constexpr (FORM == DROPOUT_OF_GELU_ERF) {
#pragma unroll
        for (int j = 0; j < 4; j++)
            v[j] = activation<GELU_ERF>(v[j]);
        act_round_all<4>(v);
    }
    drop.quad(v, row, (uint32_t)quad);
    if constexpr (FORM == DROPOUT_PLUS) {
        act_round_all<4>(v);
#pragma unroll
        for (int j = 0; j < 4; j++)
            v[j] = residual[j] + v[j];
    }
}

/* at: index of each row in the sequences; NULL: its own. quads: of a row; whole: rows are of whole
 * quads, 4 elements aligned for one load. residual: DROPOUT_PLUS. */
template <DropoutForm FORM>
__global__ void __launch_bounds__(DROPOUT_THREADS)
    dropout_fwd_kernel(act_t *y, const act_t *x, const act_t *residual, Dropped drop,
                       const int32_t *at, int64_t rows, int64_t C, int64_t quads, bool whole)
{
    const int64_t index = (int64_t)blockIdx.x * DROPOUT_THREADS + threadIdx.x, row = index / quads;
    const int64_t quad = index - row * quads, from = row * C + 4 * quad, left = C - 4 * quad;
    if (row >= rows)
        return;
    const int64_t drawn = at ? at[row] : row;
    float v[4], other[4] = {};
    if (whole) {
        act_load4(v, x + from);
        if (FORM == DROPOUT_PLUS)
            act_load4(other, residual + from);
        dropout_of_quad<FORM>(v, other, drop, drawn, quad);
        act_store4(y + from, v);
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            v[j] = j < left ? act_load(x + from + j) : 0.0f;
            if (FORM == DROPOUT_PLUS && j < left)
                other[j] = act_load(residual + from + j);
        }
        dropout_of_quad<FORM>(v, other, drop, drawn, quad);
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (j < left)
                act_store(y + from + j, v[j]);
    }
}

#ifndef __CUDACC_RTC__
template <DropoutForm FORM>
static inline void dropout_run_(act_t *y, const act_t *x, const act_t *residual, Dropped drop,
                                const int32_t *at, int64_t rows, int64_t C, cudaStream_t s)
{
    const int64_t quads = (C + 3) / 4;
    const bool whole = C % 4 == 0 && aligned(y, 16) && aligned(x, 16) && aligned(residual, 16);
    launch(dropout_fwd_kernel<FORM>, blocks_over(rows * quads, DROPOUT_THREADS), DROPOUT_THREADS, 0,
           s, y, x, residual, drop, at, rows, C, quads, whole);
}

/* site: of the place, as its op has it. */
static inline void dropout_fwd(act_t *y, const act_t *x, const uint32_t *noise, uint32_t site,
                               float p, int64_t rows, int64_t T, int64_t C, cudaStream_t s)
{
    dropout_run_<DROPOUT_ALONE>(y, x, NULL, dropped_at(noise, site, p, T), NULL, rows, C, s);
}

/* The same of chosen rows of the sequences: at (rows), their indices. */
static inline void dropout_rows_fwd(act_t *y, const act_t *x, const uint32_t *noise,
                                    const int32_t *at, uint32_t site, float p, int64_t rows,
                                    int64_t T, int64_t C, cudaStream_t s)
{
    dropout_run_<DROPOUT_ALONE>(y, x, NULL, dropped_at(noise, site, p, T), at, rows, C, s);
}

static inline void gelu_erf_dropout_fwd(act_t *y, const act_t *x, const uint32_t *noise,
                                        uint32_t site, float p, int64_t rows, int64_t T, int64_t C,
                                        cudaStream_t s)
{
    dropout_run_<DROPOUT_OF_GELU_ERF>(y, x, NULL, dropped_at(noise, site, p, T), NULL, rows, C, s);
}

/* y = residual + dropout(x) */
static inline void dropout_add_fwd(act_t *y, const act_t *x, const act_t *residual,
                                   const uint32_t *noise, uint32_t site, float p, int64_t rows,
                                   int64_t T, int64_t C, cudaStream_t s)
{
    dropout_run_<DROPOUT_PLUS>(y, x, residual, dropped_at(noise, site, p, T), NULL, rows, C, s);
}
#else
#define DROPOUT_KERNEL(form)                     \
    template __global__ void dropout_fwd_kernel<form>( \
        act_t *, const act_t *, const act_t *, Dropped, const int32_t *, int64_t, int64_t, \
        int64_t, bool);
#if defined(KERNEL_dropout_fwd) || defined(KERNEL_dropout_rows_fwd)
DROPOUT_KERNEL(DROPOUT_ALONE)
#endif
#ifdef KERNEL_gelu_erf_dropout_fwd
DROPOUT_KERNEL(DROPOUT_OF_GELU_ERF)
#endif
#ifdef KERNEL_dropout_add_fwd
DROPOUT_KERNEL(DROPOUT_PLUS)
#endif
#endif

#endif
