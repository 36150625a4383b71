/* pointwise.cuh -- residual addition, scaling, input rounding; GELU (tanh form), SwiGLU, GeGLU
 * and their gradients.
 *
 * In, out: n elements, or rows of 2F = [gate | up] and F. An output may alias an input of its
 * shape.
 * Keeps: fp32 inside, one rounding at the store. An element is read before it is written.
 * Method: GELU (Hendrycks, Gimpel 2016) 0.5 x (1 + tanh u) is x sigmoid(2u), with u =
 *         sqrt(2/pi) (x + 0.044715 x^3); SwiGLU (Shazeer 2020) is silu(gate) up, GeGLU
 *         gelu(gate) up. */
#ifndef DIECAST_KERNELS_CUDA_POINTWISE_CUH
#define DIECAST_KERNELS_CUDA_POINTWISE_CUH

#include "types.cuh"

enum {
    POINTWISE_THREADS = 256,            /* of ACT_VECTOR elements each */
    POINTWISE_BLOCKS = 4                /* of a multiprocessor, at least; see pointwise_first */
};

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

static inline __device__ float gelu(float x)
{
    return x * logistic(GELU_2A * x * (1.0f + GELU_B * x * x)).value;
}

/* d gelu / dx */
static inline __device__ float gelu_grad(float x)
{
    const float b = GELU_B * x * x;
    const Logistic s = logistic(GELU_2A * x * (1.0f + b));
    return s.value + x * s.value * s.rest * GELU_2A * (1.0f + 3.0f * b);
}

static inline __device__ float silu(float x)
{
    return x * logistic(x).value;
}

/* The gate of a gated unit: template argument of its kernels. */
enum { SILU_GATE, GELU_GATE };

template <int GATE>
static inline __device__ float gate_value(float gate)
{
    return GATE == SILU_GATE ? silu(gate) : gelu(gate);
}

/* u becomes d / d gate, d becomes d / d up, of value(gate) up; u: up, d: gradient of the product */
template <int GATE>
static inline __device__ void gate_grads(float *d, float *u, float gate)
{
    if (GATE == SILU_GATE) {
        const Logistic s = logistic(gate);
        *u *= *d * s.value * (1.0f + gate * s.rest);
        *d *= gate * s.value;
    } else {
        *u *= *d * gelu_grad(gate);
        *d *= gelu(gate);
    }
}

/* Elements of a thread: ACT_VECTOR from `first` on, as far as there are n. Each kernel below issues
 * all its vector loads before it uses the first. That takes more than the 32 registers to which the
 * compiler keeps for eight blocks of 256 threads: POINTWISE_BLOCKS allows 64. */
static inline __device__ int64_t pointwise_first()
{
    return ((int64_t)blockIdx.x * POINTWISE_THREADS + threadIdx.x) * ACT_VECTOR;
}

__global__ void __launch_bounds__(POINTWISE_THREADS, POINTWISE_BLOCKS)
    add_fwd_kernel(act_t *y, const act_t *a, const act_t *b, int64_t n, bool vector)
{
    const int64_t first = pointwise_first(), end = first + ACT_VECTOR;
    if (vector && end <= n) {
        float u[ACT_VECTOR], v[ACT_VECTOR];
        act_load_vector(u, a + first);
        act_load_vector(v, b + first);
#pragma unroll
        for (int i = 0; i < ACT_VECTOR; i++)
            v[i] += u[i];
        act_store_vector(y + first, v);
    } else {
        for (int64_t i = first; i < end && i < n; i++)
            act_store(y + i, act_load(a + i) + act_load(b + i));
    }
}

__global__ void __launch_bounds__(POINTWISE_THREADS, POINTWISE_BLOCKS)
    scale_fwd_kernel(act_t *y, const act_t *x, float factor, int64_t n, bool vector)
{
    const int64_t first = pointwise_first(), end = first + ACT_VECTOR;
    if (vector && end <= n) {
        float v[ACT_VECTOR];
        act_load_vector(v, x + first);
#pragma unroll
        for (int i = 0; i < ACT_VECTOR; i++)
            v[i] *= factor;
        act_store_vector(y + first, v);
    } else {
        for (int64_t i = first; i < end && i < n; i++)
            act_store(y + i, act_load(x + i) * factor);
    }
}

/* One element per thread: the inputs are small compared with the output. */
__global__ void __launch_bounds__(POINTWISE_THREADS, POINTWISE_BLOCKS)
    cast_fwd_kernel(act_t *y, const float *x, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * POINTWISE_THREADS + threadIdx.x;
    if (i < n)
        act_store(y + i, x[i]);
}

__global__ void __launch_bounds__(POINTWISE_THREADS, POINTWISE_BLOCKS)
    gelu_fwd_kernel(act_t *y, const act_t *x, int64_t n, bool vector)
{
    const int64_t first = pointwise_first(), end = first + ACT_VECTOR;
    if (vector && end <= n) {
        float v[ACT_VECTOR];
        act_load_vector(v, x + first);
#pragma unroll
        for (int i = 0; i < ACT_VECTOR; i++)
            v[i] = gelu(v[i]);
        act_store_vector(y + first, v);
    } else {
        for (int64_t i = first; i < end && i < n; i++)
            act_store(y + i, gelu(act_load(x + i)));
    }
}

__global__ void __launch_bounds__(POINTWISE_THREADS, POINTWISE_BLOCKS)
    gelu_bwd_kernel(act_t *dx, const act_t *dy, const act_t *x, int64_t n, bool vector)
{
    const int64_t first = pointwise_first(), end = first + ACT_VECTOR;
    if (vector && end <= n) {
        float d[ACT_VECTOR], v[ACT_VECTOR];
        act_load_vector(d, dy + first);
        act_load_vector(v, x + first);
#pragma unroll
        for (int i = 0; i < ACT_VECTOR; i++)
            d[i] *= gelu_grad(v[i]);
        act_store_vector(dx + first, d);
    } else {
        for (int64_t i = first; i < end && i < n; i++)
            act_store(dx + i, act_load(dy + i) * gelu_grad(act_load(x + i)));
    }
}

/* Position of a thread in rows of F: `gate` in rows of 2F, `out` in rows of F, and the number of
 * its own elements; 0 after the last row. */
typedef struct {
    int64_t gate, out, count;
} RowPlace;

static inline __device__ RowPlace row_place(int64_t rows, int64_t F)
{
    const int64_t index = (int64_t)blockIdx.x * POINTWISE_THREADS + threadIdx.x;
    const int64_t vectors = (F + ACT_VECTOR - 1) / ACT_VECTOR, row = index / vectors;
    const int64_t column = (index - row * vectors) * ACT_VECTOR, left = F - column;
    const int64_t count = left < ACT_VECTOR ? left : ACT_VECTOR;
    return { row * 2 * F + column, row * F + column, row < rows ? count : 0 };
}

template <int GATE>
__global__ void __launch_bounds__(POINTWISE_THREADS, POINTWISE_BLOCKS)
    gated_fwd_kernel(act_t *h, const act_t *gu, int64_t rows, int64_t F, bool vector)
{
    const RowPlace at = row_place(rows, F);
    const act_t *gate = gu + at.gate, *up = gate + F;
    if (vector && at.count == ACT_VECTOR) {
        float g[ACT_VECTOR], u[ACT_VECTOR];
        act_load_vector(g, gate);
        act_load_vector(u, up);
#pragma unroll
        for (int i = 0; i < ACT_VECTOR; i++)
            u[i] *= gate_value<GATE>(g[i]);
        act_store_vector(h + at.out, u);
    } else {
        for (int i = 0; i < at.count; i++)
            act_store(h + at.out + i, act_load(up + i) * gate_value<GATE>(act_load(gate + i)));
    }
}

template <int GATE>
__global__ void __launch_bounds__(POINTWISE_THREADS, POINTWISE_BLOCKS)
    gated_bwd_kernel(act_t *dgu, const act_t *dh, const act_t *gu, int64_t rows, int64_t F,
                     bool vector)
{
    const RowPlace at = row_place(rows, F);
    const act_t *gate = gu + at.gate, *up = gate + F, *dy = dh + at.out;
    act_t *dgate = dgu + at.gate, *dup = dgate + F;
    if (vector && at.count == ACT_VECTOR) {
        float g[ACT_VECTOR], u[ACT_VECTOR], d[ACT_VECTOR];
        act_load_vector(g, gate);
        act_load_vector(u, up);
        act_load_vector(d, dy);
#pragma unroll
        for (int i = 0; i < ACT_VECTOR; i++)
            gate_grads<GATE>(d + i, u + i, g[i]);
        act_store_vector(dgate, u);
        act_store_vector(dup, d);
    } else {
        for (int i = 0; i < at.count; i++) {
            float u = act_load(up + i), d = act_load(dy + i);
            gate_grads<GATE>(&d, &u, act_load(gate + i));
            act_store(dgate + i, u);
            act_store(dup + i, d);
        }
    }
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

static inline void scale_fwd(act_t *y, const act_t *x, float factor, int64_t n, cudaStream_t s)
{
    const bool vector = aligned(y, 16) && aligned(x, 16);
    launch(scale_fwd_kernel, pointwise_blocks(n), POINTWISE_THREADS, 0, s, y, x, factor, n, vector);
}

/* y = x: fp32 inputs in the type of activations. */
static inline void cast_fwd(act_t *y, const float *x, int64_t n, cudaStream_t s)
{
    launch(cast_fwd_kernel, blocks_over(n, POINTWISE_THREADS), POINTWISE_THREADS, 0, s, y, x, n);
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

template <int GATE>
static inline void gated_fwd(act_t *h, const act_t *gu, int64_t rows, int64_t F, cudaStream_t s)
{
    const bool vector = F % ACT_VECTOR == 0 && aligned(h, 16) && aligned(gu, 16);
    launch(gated_fwd_kernel<GATE>, row_blocks(rows, F), POINTWISE_THREADS, 0, s, h, gu, rows, F,
           vector);
}

template <int GATE>
static inline void gated_bwd(act_t *dgu, const act_t *dh, const act_t *gu, int64_t rows, int64_t F,
                             cudaStream_t s)
{
    const bool vector =
        F % ACT_VECTOR == 0 && aligned(dgu, 16) && aligned(dh, 16) && aligned(gu, 16);
    launch(gated_bwd_kernel<GATE>, row_blocks(rows, F), POINTWISE_THREADS, 0, s, dgu, dh, gu, rows,
           F, vector);
}

static inline void swiglu_fwd(act_t *h, const act_t *gu, int64_t rows, int64_t F, cudaStream_t s)
{
    gated_fwd<SILU_GATE>(h, gu, rows, F, s);
}

static inline void swiglu_bwd(act_t *dgu, const act_t *dh, const act_t *gu, int64_t rows, int64_t F,
                              cudaStream_t s)
{
    gated_bwd<SILU_GATE>(dgu, dh, gu, rows, F, s);
}

static inline void geglu_fwd(act_t *h, const act_t *gu, int64_t rows, int64_t F, cudaStream_t s)
{
    gated_fwd<GELU_GATE>(h, gu, rows, F, s);
}

static inline void geglu_bwd(act_t *dgu, const act_t *dh, const act_t *gu, int64_t rows, int64_t F,
                             cudaStream_t s)
{
    gated_bwd<GELU_GATE>(dgu, dh, gu, rows, F, s);
}
#else
#ifdef KERNEL_swiglu_fwd
template __global__ void gated_fwd_kernel<SILU_GATE>(
    act_t *, const act_t *, int64_t, int64_t, bool);
#endif
#ifdef KERNEL_swiglu_bwd
template __global__ void gated_bwd_kernel<SILU_GATE>(
    act_t *, const act_t *, const act_t *, int64_t, int64_t, bool);
#endif
#ifdef KERNEL_geglu_fwd
template __global__ void gated_fwd_kernel<GELU_GATE>(
    act_t *, const act_t *, int64_t, int64_t, bool);
#endif
#ifdef KERNEL_geglu_bwd
template __global__ void gated_bwd_kernel<GELU_GATE>(
    act_t *, const act_t *, const act_t *, int64_t, int64_t, bool);
#endif
#endif

#endif
