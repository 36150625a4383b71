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
#include "types.cuh"
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

/* Returns the new weight; updates m and v. */
static inline __device__ float adamw_element(float w, float *m, float *v, float g, AdamwStep s)
{
    g *= s.clip;
    *m = s.beta1 * *m + s.rest1 * g;
    *v = s.beta2 * *v + s.rest2 * g * g;
    return w * s.keep - s.rate * *m / (sqrtf(*v) * s.root + s.eps);
}

/* Four elements at aligned addresses. copy: the rounded weights, or NULL. The loads do not wait for
 * the norm, which only guards the stores. */
static inline __device__ void adamw_quad(wt_t *copy, float *w, float *m, float *v, const float *g,
                                         AdamwStep s)
{
    float w_[4], m_[4], v_[4], g_[4];
    f32_load4(g_, g);
    f32_load4(m_, m);
    f32_load4(v_, v);
    f32_load4(w_, w);
#pragma unroll
    for (int i = 0; i < 4; i++)
        w_[i] = adamw_element(w_[i], m_ + i, v_ + i, g_[i], s);
    if (!s.live)
        return;
    f32_store4(m, m_);
    f32_store4(v, v_);
    f32_store4(w, w_);
    if (copy)
        act_store4(copy, w_);
}

__global__ void __launch_bounds__(ADAMW_THREADS)
    adamw_kernel(float *__restrict__ w, float *__restrict__ m, float *__restrict__ v,
                 const float *__restrict__ g, const float *__restrict__ adamw_args,
                 const float *__restrict__ norm, int64_t n, int decay, bool vector)
{
    const int64_t first = ((int64_t)blockIdx.x * ADAMW_THREADS + threadIdx.x) * 4, end = first + 4;
    const AdamwStep step = adamw_step(adamw_args, norm[0], decay);
    if (vector && end <= n) {
        adamw_quad(NULL, w + first, m + first, v + first, g + first, step);
    } else {
        for (int64_t i = first; i < end && i < n && step.live; i++)
            w[i] = adamw_element(w[i], m + i, v + i, g[i], step);
    }
}

__global__ void __launch_bounds__(ADAMW_THREADS)
    adamw_mixed_kernel(wt_t *__restrict__ w, float *__restrict__ master, float *__restrict__ m,
                       float *__restrict__ v, const float *__restrict__ g,
                       const float *__restrict__ adamw_args, const float *__restrict__ norm,
                       int64_t n, int decay, bool vector)
{
    const int64_t first = ((int64_t)blockIdx.x * ADAMW_THREADS + threadIdx.x) * 4, end = first + 4;
    const AdamwStep step = adamw_step(adamw_args, norm[0], decay);
    if (vector && end <= n) {
        adamw_quad(w + first, master + first, m + first, v + first, g + first, step);
    } else {
        for (int64_t i = first; i < end && i < n && step.live; i++) {
            master[i] = adamw_element(master[i], m + i, v + i, g[i], step);
            act_store(w + i, master[i]);
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

__global__ void __launch_bounds__(NORM_THREADS)
    grad_norm_kernel(float *__restrict__ norm, const double *__restrict__ parts, int nparts)
{
    double sum = 0;
    for (int part = threadIdx.x; part < nparts; part += NORM_THREADS)
        sum += parts[part];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        norm[0] = (float)sqrt(sum);
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

/* fp32 master weights; w is their rounded copy. */
static inline void adamw_mixed(wt_t *w, float *master, float *m, float *v, const float *g,
                               const float *adamw_args, const float *norm, int64_t n, int decay,
                               cudaStream_t s)
{
    const bool vector = aligned(w, 4 * sizeof(wt_t)) && aligned(master, 16) && aligned(m, 16) &&
                        aligned(v, 16) && aligned(g, 16);
    launch(adamw_mixed_kernel, blocks_over(n, 4 * ADAMW_THREADS), ADAMW_THREADS, 0, s, w, master, m,
           v, g, adamw_args, norm, n, decay, vector);
}

/* g[0..n-1] = 0 */
static inline void zero(float *g, int64_t n, cudaStream_t s)
{
    cuda_check(cudaMemsetAsync(g, 0, (size_t)n * sizeof *g, s), "clearing gradients");
}

/* norm[0] = |g|, squares added in double, range by range; their number depends only on n. ws:
 * grad_norm_cuda_workspace() */
static inline void grad_norm(float *norm, const float *g, int64_t n, void *ws, cudaStream_t s)
{
    double *parts = (double *)ws;
    const unsigned wanted = blocks_over(n, 32 * NORM_THREADS),
                   nparts = wanted < CUDA_NORM_PARTS ? wanted : (unsigned)CUDA_NORM_PARTS;
    launch(grad_norm_parts_kernel, nparts, NORM_THREADS, 0, s, parts, g, n, aligned(g, 16));
    launch(grad_norm_kernel, 1, NORM_THREADS, 0, s, norm, parts, (int)nparts);
}
#endif

#endif
