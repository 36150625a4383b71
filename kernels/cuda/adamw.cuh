/* adamw.cuh -- AdamW (Loshchilov, Hutter 2017) over one block of parameters; the gradient norm
 * for clipping.
 *
 * In:    g (n) fp32; adamw_args, see runtime/adamw_args.h; norm[0] the L2 norm of all gradients;
 *        decay 0: no weight decay.
 * Out:   m, v (n) fp32 and the weights, in place: g *= min(1, clip / (norm + 1e-6));
 *        w *= 1 - lr wd; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
 *        w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps). Element-wise.
 * Keeps: a non-finite norm changes nothing. fp16: g is the scaled gradient. */
#ifndef DIECAST_KERNELS_CUDA_ADAMW_CUH
#define DIECAST_KERNELS_CUDA_ADAMW_CUH

#include "../../runtime/adamw_args.h"
#include "philox.cuh"
#include "types.cuh"

#define SPLIT_FUNCTION static inline __host__ __device__
#include "../../runtime/split.h"
#include "workspace.h"

enum {
    ADAMW_THREADS = 256,        /* of 4 elements each */
    NORM_THREADS = 256
};

/* Factors shared by all elements. */
typedef struct {
    float clip, keep, beta1, beta2, rest1, rest2, rate, root, eps;
    bool live;                  // false: nothing is stored
} AdamwStep;

static inline __device__ AdamwStep adamw_step(const float *adamw_args, float norm, int decay)
{
    const float clip = adamw_args[ADAMW_CLIP] / (norm + 1e-6f);
    AdamwStep s;
    s.clip = adamw_args[ADAMW_CLIP] > 0.0f && clip < 1.0f ? clip : 1.0f;
#ifdef ACT_F16
    s.clip *= adamw_args[ADAMW_UNSCALE];
#endif
    s.keep = decay ? 1.0f - adamw_args[ADAMW_LR] * adamw_args[ADAMW_DECAY] : 1.0f;
    s.beta1 = adamw_args[ADAMW_BETA1];
    s.beta2 = adamw_args[ADAMW_BETA2];
    s.rest1 = 1.0f - adamw_args[ADAMW_BETA1];
    s.rest2 = 1.0f - adamw_args[ADAMW_BETA2];
    s.rate = adamw_args[ADAMW_LR] / adamw_args[ADAMW_BIAS1];
    s.root = 1.0f / sqrtf(adamw_args[ADAMW_BIAS2]);
    s.eps = adamw_args[ADAMW_EPS];
    s.live = isfinite(norm);
    return s;
}

/* Returns the new weight; updates m and v. Each fma is written out: left to the compiler, they
 * differ from kernel to kernel, whose bits are to be the same. */
static inline __device__ float adamw_element(float w, float *m, float *v, float g, AdamwStep s)
{
    g *= s.clip;
    *m = fmaf(s.beta1, *m, s.rest1 * g);
    *v = fmaf(s.beta2, *v, s.rest2 * g * g);
    return fmaf(w, s.keep, -(s.rate * *m / fmaf(sqrtf(*v), s.root, s.eps)));
}

/* New values of four weights; loads and stores their moments, at aligned addresses. The loads do
 * not wait for the norm, which only guards the stores. */
static inline __device__ void adamw_moments(float w[4], float *m, float *v, const float *g,
                                            AdamwStep s)
{
    float m_[4], v_[4], g_[4];
    f32_load4(g_, g);
    f32_load4(m_, m);
    f32_load4(v_, v);
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = adamw_element(w[i], m_ + i, v_ + i, g_[i], s);
    if (!s.live)
        return;
    f32_store4(m, m_);
    f32_store4(v, v_);
}

/* Four elements at aligned addresses. */
static inline __device__ void adamw_quad(float *w, float *m, float *v, const float *g, AdamwStep s)
{
    float w_[4];
    f32_load4(w_, w);
    adamw_moments(w_, m, v, g, s);
    if (s.live)
        f32_store4(w, w_);
}

/* ---- 16-bit weights ---- */

/* The higher precision of 16-bit weights w: one of these. */
struct Master {
    float *fp32 = NULL;         // master weights; w is their rounded copy
    int16_t *remainder = NULL;  // their remainders: runtime/split.h
    /* w alone, rounded stochastically: {seed low, seed high, update}; numbers of the parameter, of
     * its tensor (layer) and of the element in that which w[0] is, a multiple of 8. */
    const uint32_t *rounding = NULL;
    int site = 0, tensor = 0;
    int64_t first = 0;
};

/* Masters of tensor l, n elements each. */
static inline __device__ Master master_of(Master first, unsigned l, int64_t n)
{
    if (first.fp32)
        first.fp32 += l * n;
    if (first.remainder)
        first.remainder += l * n;
    first.tensor += (int)l;
    return first;
}

static inline __device__ float split_load(float w, int16_t remainder)
{
    return __uint_as_float(split_join(__float_as_uint(w), remainder));
}

/* v's bf16, and its remainder in the low half of *remainder. */
static inline __device__ float split_store(float v, uint32_t *remainder)
{
    const uint32_t bits = split_value(__float_as_uint(v));
    *remainder = (uint16_t)split_remainder(bits);
    return __uint_as_float(split_bf16(bits));
}

static inline __device__ float bf16_drawn(float v, uint32_t draw)
{
    return __uint_as_float(split_drawn(__float_as_uint(v), draw));
}

/* word = the draws of the eight elements among which element i of the tensor is, two a word. */
static inline __device__ void rounding_draw(uint32_t word[4], const Master &of, int64_t i)
{
    const uint64_t eight = (uint64_t)(of.first + i) / 8;
    const uint32_t key[2] = { rounding_key(of.rounding[0], (uint32_t)of.site), of.rounding[1] },
                   counter[4] = { (uint32_t)eight, (uint32_t)(eight >> 32), of.rounding[2],
                                  (uint32_t)of.tensor };
    philox(counter, key, word);
}

/* x = the four weights that an update starts from, w + i ..., at aligned addresses. */
static inline __device__ void master_load4(float x[4], const wt_t *w, const Master &from, int64_t i)
{
    if (from.fp32) {
        f32_load4(x, from.fp32 + i);
        return;
    }
    act_load4(x, w + i);
    if (!from.remainder)
        return;
    const uint2 low = *(const uint2 *)(from.remainder + i);
    x[0] = split_load(x[0], (int16_t)low.x), x[1] = split_load(x[1], (int16_t)(low.x >> 16));
    x[2] = split_load(x[2], (int16_t)low.y), x[3] = split_load(x[3], (int16_t)(low.y >> 16));
}

/* x: their new values. */
static inline __device__ void master_store4(wt_t *w, const Master &to, float x[4], int64_t i)
{
    uint32_t word[4];
    if (to.fp32) {
        f32_store4(to.fp32 + i, x);
    } else if (to.remainder) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            x[k] = split_store(x[k], word + k);
        __stwb((uint2 *)(to.remainder + i),
               make_uint2(word[0] | word[1] << 16, word[2] | word[3] << 16));
    } else {
        rounding_draw(word, to, i);
        const bool second = (to.first + i) / 4 % 2;
        const uint32_t draw[2] = { second ? word[2] : word[0], second ? word[3] : word[1] };
#pragma unroll
        for (int k = 0; k < 4; k++)
            x[k] = bf16_drawn(x[k], k % 2 ? draw[k / 2] >> 16 : draw[k / 2] & 0xffff);
    }
    act_store4(w + i, x);
}

/* The same of one weight. */
static inline __device__ float master_load(const wt_t *w, const Master &from, int64_t i)
{
    return from.fp32        ? from.fp32[i]
           : from.remainder ? split_load(act_load(w + i), from.remainder[i])
                            : act_load(w + i);
}

static inline __device__ void master_store(wt_t *w, const Master &to, float x, int64_t i)
{
    uint32_t word[4];
    if (to.fp32) {
        to.fp32[i] = x;
    } else if (to.remainder) {
        x = split_store(x, word);
        to.remainder[i] = (int16_t)word[0];
    } else {
        rounding_draw(word, to, i);
        const int k = (int)((to.first + i) % 8);
        uint32_t draw = 0;
#pragma unroll
        for (int j = 0; j < 4; j++)
            draw = j == k / 2 ? word[j] : draw;
        x = bf16_drawn(x, k % 2 ? draw >> 16 : draw & 0xffff);
    }
    act_store(w + i, x);
}

__global__ void __launch_bounds__(ADAMW_THREADS)
    adamw_kernel(float *__restrict__ w, float *__restrict__ m, float *__restrict__ v,
                 const float *__restrict__ g, const float *__restrict__ adamw_args,
                 const float *__restrict__ norm, int64_t n, int decay, bool vector)
{
    const int64_t first = ((int64_t)blockIdx.x * ADAMW_THREADS + threadIdx.x) * 4, end = first + 4;
    const AdamwStep step = adamw_step(adamw_args, norm[0], decay);
    if (vector && end <= n) {
        adamw_quad(w + first, m + first, v + first, g + first, step);
    } else {
        for (int64_t i = first; i < end && i < n && step.live; i++)
            w[i] = adamw_element(w[i], m + i, v + i, g[i], step);
    }
}

/* Grid: quads of a tensor by tensors, of which those of w are `stride` and those of g `apart`
 * elements from one to the next; master and moments (tensors, n). */
__global__ void __launch_bounds__(ADAMW_THREADS)
    adamw_mixed_kernel(wt_t *__restrict__ w, Master master, float *__restrict__ m,
                       float *__restrict__ v, const float *__restrict__ g,
                       const float *__restrict__ adamw_args, const float *__restrict__ norm,
                       int64_t n, int64_t stride, int64_t apart, int decay, bool vector)
{
    const int64_t first = ((int64_t)blockIdx.x * ADAMW_THREADS + threadIdx.x) * 4, end = first + 4,
                  own = blockIdx.y * n;
    const AdamwStep step = adamw_step(adamw_args, norm[0], decay);
    const Master of = master_of(master, blockIdx.y, n);
    w += blockIdx.y * stride, m += own, v += own, g += blockIdx.y * apart;
    if (vector && end <= n) {
        float x[4];
        master_load4(x, w, of, first);
        adamw_moments(x, m + first, v + first, g + first, step);
        if (step.live)
            master_store4(w, of, x, first);
    } else {
        for (int64_t i = first; i < end && i < n && step.live; i++) {
            const float x = master_load(w, of, i);
            master_store(w, of, adamw_element(x, m + i, v + i, g[i], step), i);
        }
    }
}

/* parts (gridDim.x) = sum of squares of one range each; all but the last are whole quads. */
__global__ void __launch_bounds__(NORM_THREADS)
    grad_norm_parts_kernel(double *__restrict__ parts, const float *__restrict__ g, int64_t n,
                           bool vector)
{
    const int64_t quads = (n + 3) / 4, part = blockIdx.x;
    const int64_t begin = part * quads / gridDim.x, stop = (part + 1) * quads / gridDim.x;
    const int64_t end = 4 * stop < n ? 4 * stop : n, whole = vector ? end / 4 : begin;
    double sum[4] = { 0, 0, 0, 0 };
#pragma unroll 4
    for (int64_t q = begin + threadIdx.x; q < whole; q += NORM_THREADS) {
        float v[4];
        f32_load4(v, g + 4 * q);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] += (double)v[i] * v[i];
    }
    for (int64_t i = 4 * whole + threadIdx.x; i < end; i += NORM_THREADS)
        sum[0] += (double)g[i] * g[i];
    const double all = block_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    if (threadIdx.x == 0)
        parts[part] = all;
}

/* squares: the sum is added to it; or NULL. */
__global__ void __launch_bounds__(NORM_THREADS)
    grad_norm_kernel(float *__restrict__ norm, double *__restrict__ squares,
                     const double *__restrict__ parts, int nparts)
{
    double sum = 0;
    for (int part = threadIdx.x; part < nparts; part += NORM_THREADS)
        sum += parts[part];
    sum = block_sum(sum);
    if (threadIdx.x)
        return;
    norm[0] = (float)sqrt(sum);
    if (squares)
        squares[0] += sum;
}

__global__ void squares_root_kernel(float *__restrict__ norm, const double *__restrict__ squares)
{
    norm[0] = (float)sqrt(squares[0]);
}

#ifndef __CUDACC_RTC__
/* fp32 weights. */
static inline void adamw(float *w, float *m, float *v, const float *g, const float *adamw_args,
                         const float *norm, int64_t n, int decay, cudaStream_t s)
{
    const bool vector = aligned(w, 16) && aligned(m, 16) && aligned(v, 16) && aligned(g, 16);
    launch(adamw_kernel, blocks_over(n, 4 * ADAMW_THREADS), ADAMW_THREADS, 0, s, w, m, v, g,
           adamw_args, norm, n, decay, vector);
}

/* True if quads of these addresses, and of those a multiple of `apart` elements on, are vectors. */
static inline bool adamw_vectors(const wt_t *w, Master of, const float *m, const float *v,
                                 const float *g, int64_t apart)
{
    return aligned(w, 4 * sizeof(wt_t)) && aligned(of.fp32, 16) && aligned(of.remainder, 8) &&
           aligned(m, 16) && aligned(v, 16) && aligned(g, 16) && apart % 4 == 0;
}

/* 16-bit weights */
static inline void adamw_mixed(wt_t *w, Master master, float *m, float *v, const float *g,
                               const float *adamw_args, const float *norm, int64_t n, int decay,
                               cudaStream_t s)
{
    const int64_t none = 0;
    launch(adamw_mixed_kernel, blocks_over(n, 4 * ADAMW_THREADS), ADAMW_THREADS, 0, s, w, master, m,
           v, g, adamw_args, norm, n, none, none, decay, adamw_vectors(w, master, m, v, g, none));
}

/* g[0..n-1] = 0 */
static inline void zero(float *g, int64_t n, cudaStream_t s)
{
    cuda_check(cudaMemsetAsync(g, 0, (size_t)n * sizeof *g, s), "clearing gradients");
}

/* norm[0] = |g|, squares added in double, range by range; their number depends only on n. Adds
 * |g|^2 to squares[0]. ws: grad_norm_cuda_workspace() */
static inline void partial_norm(float *norm, double *squares, const float *g, int64_t n, void *ws,
                                cudaStream_t s)
{
    double *parts = (double *)ws;
    const unsigned wanted = blocks_over(n, 32 * NORM_THREADS),
                   nparts = wanted < CUDA_NORM_PARTS ? wanted : (unsigned)CUDA_NORM_PARTS;
    launch(grad_norm_parts_kernel, nparts, NORM_THREADS, 0, s, parts, g, n, aligned(g, 16));
    launch(grad_norm_kernel, 1, NORM_THREADS, 0, s, norm, squares, parts, (int)nparts);
}

/* The norm alone. */
static inline void grad_norm(float *norm, const float *g, int64_t n, void *ws, cudaStream_t s)
{
    double *none = NULL;
    partial_norm(norm, none, g, n, ws, s);
}

/* norm[0] = root of squares[0] */
static inline void squares_root(float *norm, const double *squares, cudaStream_t s)
{
    launch(squares_root_kernel, 1, 1, 0, s, norm, squares);
}
#endif

#endif
