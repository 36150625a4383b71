/* pointwise.cuh -- residual addition, GELU (tanh form) and SwiGLU, with their gradients.
 *
 * In, out: n elements, or rows of 2F = [gate | up] and F. An output may be an input of its shape.
 * Keeps: fp32 inside, one rounding at the store. A thread reads all its inputs before it writes.
 * Method: GELU (Hendrycks, Gimpel 2016) 0.5 x (1 + tanh u) is x sigmoid(2u), with
 *        u = sqrt(2/pi) (x + 0.044715 x^3); SwiGLU (Shazeer 2020) is silu(gate) up. */
#ifndef DIECAST_KERNELS_CUDA_POINTWISE_CUH
#define DIECAST_KERNELS_CUDA_POINTWISE_CUH

#include "types.cuh"

enum { POINTWISE_THREADS = 256 };       /* of ACT_VECTOR elements each */

#define GELU_2A 1.5957691216057308f     /* 2 sqrt(2/pi) */
#define GELU_B 0.044715f

/* value = 1 / (1 + e^-x), rest = 1 - value without cancellation. x beyond 60 counts as 60, so that
 * e^-x is finite; NaN stays. */
typedef struct {
    float value, rest;
} Logistic;

static inline __device__ Logistic logistic(float x)
{
    x = x < -60.0f ? -60.0f : x;
    x = x > 60.0f ? 60.0f : x;
    const float e = expf(-x), value = __fdividef(1.0f, 1.0f + e);
    return { value, e * value };
}

/* d silu / dx */
static inline __device__ float silu_slope(float x, Logistic s)
{
    return s.value * (1.0f + x * s.rest);
}

/* The first of the elements of this thread, of n. */
static inline __device__ int64_t pointwise_first()
{
    return ((int64_t)blockIdx.x * POINTWISE_THREADS + threadIdx.x) * ACT_VECTOR;
}

__global__ void __launch_bounds__(POINTWISE_THREADS)
    add_fwd_kernel(act_t *y, const act_t *a, const act_t *b, int64_t n, bool vector)
{
    const int64_t first = pointwise_first(), left = n - first;
    float u[ACT_VECTOR], v[ACT_VECTOR];
    if (left <= 0)
        return;
    act_load_part(u, a + first, left, vector);
    act_load_part(v, b + first, left, vector);
#pragma unroll
    for (int i = 0; i < ACT_VECTOR; i++)
        v[i] += u[i];
    act_store_part(y + first, v, left, vector);
}

__global__ void __launch_bounds__(POINTWISE_THREADS)
    gelu_fwd_kernel(act_t *y, const act_t *x, int64_t n, bool vector)
{
    const int64_t first = pointwise_first(), left = n - first;
    float v[ACT_VECTOR];
    if (left <= 0)
        return;
    act_load_part(v, x + first, left, vector);
#pragma unroll
    for (int i = 0; i < ACT_VECTOR; i++)
        v[i] *= logistic(GELU_2A * v[i] * (1.0f + GELU_B * v[i] * v[i])).value;
    act_store_part(y + first, v, left, vector);
}

__global__ void __launch_bounds__(POINTWISE_THREADS)
    gelu_bwd_kernel(act_t *dx, const act_t *dy, const act_t *x, int64_t n, bool vector)
{
    const int64_t first = pointwise_first(), left = n - first;
    float d[ACT_VECTOR], v[ACT_VECTOR];
    if (left <= 0)
        return;
    act_load_part(d, dy + first, left, vector);
    act_load_part(v, x + first, left, vector);
#pragma unroll
    for (int i = 0; i < ACT_VECTOR; i++) {
        const float b = GELU_B * v[i] * v[i];
        const Logistic s = logistic(GELU_2A * v[i] * (1.0f + b));
        d[i] *= s.value + v[i] * s.value * s.rest * GELU_2A * (1.0f + 3.0f * b);
    }
    act_store_part(dx + first, d, left, vector);
}

/* Where a thread stands in rows of F: `gate` in rows of 2F, `out` in rows of F, `left` of its row
 * from there on; left 0: behind the last row. */
typedef struct {
    int64_t gate, out, left;
} RowPlace;

static inline __device__ RowPlace row_place(int64_t rows, int64_t F)
{
    const int64_t index = (int64_t)blockIdx.x * POINTWISE_THREADS + threadIdx.x;
    const int64_t vectors = (F + ACT_VECTOR - 1) / ACT_VECTOR, row = index / vectors;
    const int64_t column = (index - row * vectors) * ACT_VECTOR;
    return { row * 2 * F + column, row * F + column, row < rows ? F - column : 0 };
}

__global__ void __launch_bounds__(POINTWISE_THREADS)
    swiglu_fwd_kernel(act_t *h, const act_t *gu, int64_t rows, int64_t F, bool vector)
{
    const RowPlace at = row_place(rows, F);
    float g[ACT_VECTOR], u[ACT_VECTOR];
    if (at.left <= 0)
        return;
    act_load_part(g, gu + at.gate, at.left, vector);
    act_load_part(u, gu + at.gate + F, at.left, vector);
#pragma unroll
    for (int i = 0; i < ACT_VECTOR; i++)
        u[i] *= g[i] * logistic(g[i]).value;
    act_store_part(h + at.out, u, at.left, vector);
}

__global__ void __launch_bounds__(POINTWISE_THREADS)
    swiglu_bwd_kernel(act_t *dgu, const act_t *dh, const act_t *gu, int64_t rows, int64_t F,
                      bool vector)
{
    const RowPlace at = row_place(rows, F);
    float g[ACT_VECTOR], u[ACT_VECTOR], d[ACT_VECTOR];
    if (at.left <= 0)
        return;
    act_load_part(g, gu + at.gate, at.left, vector);
    act_load_part(u, gu + at.gate + F, at.left, vector);
    act_load_part(d, dh + at.out, at.left, vector);
#pragma unroll
    for (int i = 0; i < ACT_VECTOR; i++) {
        const Logistic s = logistic(g[i]);
        u[i] *= d[i] * silu_slope(g[i], s);
        d[i] *= g[i] * s.value;
    }
    act_store_part(dgu + at.gate, u, at.left, vector);
    act_store_part(dgu + at.gate + F, d, at.left, vector);
}

#ifndef __CUDACC_RTC__
static inline unsigned pointwise_blocks(int64_t n)
{
    return blocks_over(n, POINTWISE_THREADS * ACT_VECTOR);
}

static inline void add_fwd(act_t *y, const act_t *a, const act_t *b, int64_t n, cudaStream_t s)
{
    const bool vector = aligned(y, 16) && aligned(a, 16) && aligned(b, 16);
    launch(add_fwd_kernel, pointwise_blocks(n), POINTWISE_THREADS, 0, s, y, a, b, n, vector);
}

static inline void gelu_fwd(act_t *y, const act_t *x, int64_t n, cudaStream_t s)
{
    const bool vector = aligned(y, 16) && aligned(x, 16);
    launch(gelu_fwd_kernel, pointwise_blocks(n), POINTWISE_THREADS, 0, s, y, x, n, vector);
}

static inline void gelu_bwd(act_t *dx, const act_t *dy, const act_t *x, int64_t n, cudaStream_t s)
{
    const bool vector = aligned(dx, 16) && aligned(dy, 16) && aligned(x, 16);
    launch(gelu_bwd_kernel, pointwise_blocks(n), POINTWISE_THREADS, 0, s, dx, dy, x, n, vector);
}

/* Blocks for rows of whole vectors and a rest. */
static inline unsigned row_blocks(int64_t rows, int64_t F)
{
    return blocks_over(rows * ((F + ACT_VECTOR - 1) / ACT_VECTOR), POINTWISE_THREADS);
}

static inline void swiglu_fwd(act_t *h, const act_t *gu, int64_t rows, int64_t F, cudaStream_t s)
{
    const bool vector = F % ACT_VECTOR == 0 && aligned(h, 16) && aligned(gu, 16);
    launch(swiglu_fwd_kernel, row_blocks(rows, F), POINTWISE_THREADS, 0, s, h, gu, rows, F, vector);
}

static inline void swiglu_bwd(act_t *dgu, const act_t *dh, const act_t *gu, int64_t rows, int64_t F,
                              cudaStream_t s)
{
    const bool vector =
        F % ACT_VECTOR == 0 && aligned(dgu, 16) && aligned(dh, 16) && aligned(gu, 16);
    launch(swiglu_bwd_kernel, row_blocks(rows, F), POINTWISE_THREADS, 0, s, dgu, dh, gu, rows, F,
           vector);
}
#endif

#endif
