/* activation.cuh -- GELU (exact form) and ReLU, with their gradients.
 *
 * In, out: n elements. An output may be an input of its shape.
 * Keeps: fp32 inside, one rounding at the store. An element is read before it is written.
 * Method: GELU (Hendrycks, Gimpel 2016) x Phi(x); the smaller tail of Phi at |x| is e^(-x^2/2)
 *        times a polynomial in t = 1 / (1 + 0.2121 |x|), relative error 2e-8. */
#ifndef DIECAST_KERNELS_CUDA_ACTIVATION_CUH
#define DIECAST_KERNELS_CUDA_ACTIVATION_CUH

#include "types.cuh"

enum {
    ACTIVATION_THREADS = 256,           /* of ACT_VECTOR elements each */
    ACTIVATION_BLOCKS = 4               /* of a multiprocessor, at least: as in pointwise.cuh */
};

/* Phi(x), the normal distribution function, and its density. Beyond |x| = 12.6 the tail is
 * below 1e-35 and clamped. */
typedef struct {
    float below, density;
} Normal;

static inline __device__ Normal activation_normal(float x)
{
    const float t = __fdividef(1.0f, 1.0f + 0.21213204f * fabsf(x));
    float h = 0.5f * x * x, q = -0.0646698922f;
    h = h > 80.0f ? 80.0f : h;
    const float e = expf(-h);
    q = q * t + 0.242300048f;
    q = q * t - 0.255052954f;
    q = q * t + 0.272490025f;
    q = q * t - 0.0462698601f;
    q = q * t + 0.106955163f;
    q = q * t + 0.0743184015f;
    q = q * t + 0.0853333697f;
    q = q * t + 0.0845956802f;
    const float tail = e * t * q;
    return { x < 0.0f ? tail : 1.0f - tail, 0.39894228f * e };
}

/* A kind of activation: template argument of the kernels. */
enum { GELU_ERF, RELU };

template <int KIND>
static inline __device__ float activation(float x)
{
    if (KIND == RELU)
        return x < 0.0f ? 0.0f : x;
    return x * activation_normal(x).below;
}

/* dy times the derivative at x. ReLU's is 0 at 0, as in PyTorch. */
template <int KIND>
static inline __device__ float activation_back(float dy, float x)
{
    if (KIND == RELU)
        return x <= 0.0f ? 0.0f : dy;
    const Normal p = activation_normal(x);
    x = x < -13.0f ? -13.0f : x > 13.0f ? 13.0f : x;       /* inf times a density of 0 */
    return __fmul_rn(dy, p.below + x * p.density);    /* not joined with a sum that follows */
}

template <int KIND>
__global__ void __launch_bounds__(ACTIVATION_THREADS, ACTIVATION_BLOCKS)
    activation_fwd_kernel(act_t *y, const act_t *x, int64_t n, bool vector)
{
    const int64_t first = ((int64_t)blockIdx.x * ACTIVATION_THREADS + threadIdx.x) * ACT_VECTOR;
    const int64_t end = first + ACT_VECTOR;
    if (vector && end <= n) {
        float v[ACT_VECTOR];
        act_load_vector(v, x + first);
#pragma unroll
        for (int i = 0; i < ACT_VECTOR; i++)
            v[i] = activation<KIND>(v[i]);
        act_store_vector(y + first, v);
    } else {
        for (int64_t i = first; i < end && i < n; i++)
            act_store(y + i, activation<KIND>(act_load(x + i)));
    }
}

template <int KIND>
__global__ void __launch_bounds__(ACTIVATION_THREADS, ACTIVATION_BLOCKS)
    activation_bwd_kernel(act_t *dx, const act_t *dy, const act_t *x, int64_t n, bool vector)
{
    const int64_t first = ((int64_t)blockIdx.x * ACTIVATION_THREADS + threadIdx.x) * ACT_VECTOR;
    const int64_t end = first + ACT_VECTOR;
    if (vector && end <= n) {
        float d[ACT_VECTOR], v[ACT_VECTOR];
        act_load_vector(d, dy + first);
        act_load_vector(v, x + first);
#pragma unroll
        for (int i = 0; i < ACT_VECTOR; i++)
            d[i] = activation_back<KIND>(d[i], v[i]);
        act_store_vector(dx + first, d);
    } else {
        for (int64_t i = first; i < end && i < n; i++)
            act_store(dx + i, activation_back<KIND>(act_load(dy + i), act_load(x + i)));
    }
}

#ifndef __CUDACC_RTC__
template <int KIND>
static inline void activation_fwd(act_t *y, const act_t *x, int64_t n, cudaStream_t s)
{
    const bool vector = aligned(y, 16) && aligned(x, 16);
    const unsigned blocks = blocks_over(n, ACTIVATION_THREADS * ACT_VECTOR);
    launch(activation_fwd_kernel<KIND>, blocks, ACTIVATION_THREADS, 0, s, y, x, n, vector);
}

template <int KIND>
static inline void activation_bwd(act_t *dx, const act_t *dy, const act_t *x, int64_t n,
                                  cudaStream_t s)
{
    const bool vector = aligned(dx, 16) && aligned(dy, 16) && aligned(x, 16);
    const unsigned blocks = blocks_over(n, ACTIVATION_THREADS * ACT_VECTOR);
    launch(activation_bwd_kernel<KIND>, blocks, ACTIVATION_THREADS, 0, s, dx, dy, x, n, vector);
}

static inline void gelu_erf_fwd(act_t *y, const act_t *x, int64_t n, cudaStream_t s)
{
    activation_fwd<GELU_ERF>(y, x, n, s);
}

static inline void gelu_erf_bwd(act_t *dx, const act_t *dy, const act_t *x, int64_t n,
                                cudaStream_t s)
{
    activation_bwd<GELU_ERF>(dx, dy, x, n, s);
}

static inline void relu_fwd(act_t *y, const act_t *x, int64_t n, cudaStream_t s)
{
    activation_fwd<RELU>(y, x, n, s);
}

static inline void relu_bwd(act_t *dx, const act_t *dy, const act_t *x, int64_t n, cudaStream_t s)
{
    activation_bwd<RELU>(dx, dy, x, n, s);
}
#else
#ifdef KERNEL_gelu_erf_fwd
template __global__ void activation_fwd_kernel<GELU_ERF>(
    act_t *, const act_t *, int64_t, bool);
#endif
#ifdef KERNEL_gelu_erf_bwd
template __global__ void activation_bwd_kernel<GELU_ERF>(
    act_t *, const act_t *, const act_t *, int64_t, bool);
#endif
#ifdef KERNEL_relu_fwd
template __global__ void activation_fwd_kernel<RELU>(
    act_t *, const act_t *, int64_t, bool);
#endif
#ifdef KERNEL_relu_bwd
template __global__ void activation_bwd_kernel<RELU>(
    act_t *, const act_t *, const act_t *, int64_t, bool);
#endif
#endif

#endif
