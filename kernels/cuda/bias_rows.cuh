/* bias_rows.cuh -- gradients through dropout and an exact GELU, and their column sums, which
 * are the gradient of the bias before them.
 *
 * In:    dy, x (rows, N) act_t, N a multiple of 8; noise, site: see philox.cuh.
 * Out:   dx (rows, N) act_t, which may be dy or x; db (N) fp32, overwritten (beta 0) or added to.
 * Keeps: the bits of dropout_fwd, gelu_erf_bwd and bias_grad in turn: each rounds to act_t. */
#ifndef DIECAST_KERNELS_CUDA_BIAS_ROWS_CUH
#define DIECAST_KERNELS_CUDA_BIAS_ROWS_CUH

#include "activation.cuh"
#include "linear.cuh"
#include "philox.cuh"
#include "types.cuh"

/* Rows dx = dy under a mask (DROPS), times the GELU's derivative at x (GELU): made, stored and
 * added up at once. */
template <bool DROPS, bool GELU> struct BackwardRows {
    static constexpr int W = ACT_VECTOR;
    act_t *dx;
    const act_t *dy, *x;
    Dropped drop;
    struct Held {
        RowVector<W> dy, x;
    };

    __device__ __forceinline__ void load(Held &held, int64_t row, int64_t column, int64_t N) const
    {
        held.dy.load(dy + row * N + column);
        if (GELU)
            held.x.load(x + row * N + column);
    }

    __device__ __forceinline__ void make(float (&v)[W], const Held &held, int64_t row,
                                         int64_t column, int64_t N) const
    {
        held.dy.floats(v);
        if constexpr (DROPS)
            drop.vector<W>(v, row, column);
        if constexpr (GELU) {
            float z[W];
            held.x.floats(z);
#pragma unroll
            for (int k = 0; k < W; k++)
                v[k] = activation_back<GELU_ERF>(v[k], z[k]);
            act_round_all<W>(v);
        }
        act_store_vector(dx + row * N + column, v);
    }
};

#ifndef __CUDACC_RTC__
/* ws of these: bias_grad_cuda_workspace(N) bytes */
static inline void dropout_bias_grad(float *db, act_t *dx, const act_t *dy, const uint32_t *noise,
                                     uint32_t site, float p, int64_t rows, int64_t T, int64_t N,
                                     int beta, void *ws, cudaStream_t s)
{
    const BackwardRows<true, false> from = {dx, dy, NULL, dropped_at(noise, site, p, T)};
    bias_grad_of<ACT_VECTOR>(db, from, rows, N, beta, ws, s);
}

static inline void gelu_erf_bwd_bias(float *db, act_t *dx, const act_t *dy, const act_t *x,
                                     int64_t rows, int64_t N, int beta, void *ws, cudaStream_t s)
{
    const BackwardRows<false, true> from = {dx, dy, x, {}};
    bias_grad_of<ACT_VECTOR>(db, from, rows, N, beta, ws, s);
}

static inline void dropout_gelu_erf_bwd_bias(float *db, act_t *dx, const act_t *dy, const act_t *x,
                                             const uint32_t *noise, uint32_t site, float p,
                                             int64_t rows, int64_t T, int64_t N, int beta, void *ws,
                                             cudaStream_t s)
{
    const BackwardRows<true, true> from = {dx, dy, x, dropped_at(noise, site, p, T)};
    bias_grad_of<ACT_VECTOR>(db, from, rows, N, beta, ws, s);
}
#else
#define BIAS_ROWS_KERNEL(drops, gelu)                                                       \
    template __global__ void bias_grad_kernel<ACT_VECTOR>(float *, BackwardRows<drops, gelu>, \
                                                          int64_t, int64_t);
#ifdef KERNEL_dropout_bias_grad
BIAS_ROWS_KERNEL(true, false)
#endif
#ifdef KERNEL_gelu_erf_bwd_bias
BIAS_ROWS_KERNEL(false, true)
#endif
#ifdef KERNEL_dropout_gelu_erf_bwd_bias
BIAS_ROWS_KERNEL(true, true)
#endif
#endif

#endif
