/* adamw.h -- AdamW (Loshchilov, Hutter 2017) over one block of parameters; the gradient norm
 * for clipping.
 *
 * In:    g (n) fp32; adamw_args, see runtime/adamw_args.h; norm[0] the L2 norm of all gradients;
 *        decay 0: no weight decay.
 * Out:   m, v (n) fp32 and the weights, in place: g *= min(1, clip / (norm + 1e-6));
 *        w *= 1 - lr wd; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
 *        w -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps). Element-wise.
 * Keeps: a non-finite norm changes nothing. */
#ifndef DIECAST_KERNELS_ADAMW_H
#define DIECAST_KERNELS_ADAMW_H

#include <math.h>

#include "../../runtime/adamw_args.h"
#include "types.h"

/* Factors shared by all elements. */
typedef struct {
    float clip, keep, beta1, beta2, rest1, rest2, rate, root, eps;
} AdamwStep;

static inline AdamwStep adamw_step(const float *adamw_args, const float *norm, int decay)
{
    float clip = adamw_args[ADAMW_CLIP] / (norm[0] + 1e-6f);
    return (AdamwStep){
        .clip = adamw_args[ADAMW_CLIP] > 0 && clip < 1.0f ? clip : 1.0f,
        .keep = decay ? 1.0f - adamw_args[ADAMW_LR] * adamw_args[ADAMW_DECAY] : 1.0f,
        .beta1 = adamw_args[ADAMW_BETA1],
        .beta2 = adamw_args[ADAMW_BETA2],
        .rest1 = 1.0f - adamw_args[ADAMW_BETA1],
        .rest2 = 1.0f - adamw_args[ADAMW_BETA2],
        .rate = adamw_args[ADAMW_LR] / adamw_args[ADAMW_BIAS1],
        .root = 1.0f / sqrtf(adamw_args[ADAMW_BIAS2]),
        .eps = adamw_args[ADAMW_EPS],
    };
}

/* Returns the new weight; updates m and v. */
static inline float adamw_element(float w, float *m, float *v, float g, AdamwStep s)
{
    g *= s.clip;
    *m = s.beta1 * *m + s.rest1 * g;
    *v = s.beta2 * *v + s.rest2 * g * g;
    return w * s.keep - s.rate * *m / (sqrtf(*v) * s.root + s.eps);
}

/* fp32 weights. */
static inline void adamw(float *restrict w, float *restrict m, float *restrict v,
                         const float *restrict g, const float *adamw_args, const float *norm,
                         int64_t n, int decay)
{
    if (!isfinite(norm[0]))
        return;
    const AdamwStep s = adamw_step(adamw_args, norm, decay);
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        w[i] = adamw_element(w[i], m + i, v + i, g[i], s);
}

/* fp32 master weights; w is their rounded copy. */
static inline void adamw_mixed(wt_t *restrict w, float *restrict master, float *restrict m,
                               float *restrict v, const float *restrict g, const float *adamw_args,
                               const float *norm, int64_t n, int decay)
{
    if (!isfinite(norm[0]))
        return;
    const AdamwStep s = adamw_step(adamw_args, norm, decay);
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) {
        master[i] = adamw_element(master[i], m + i, v + i, g[i], s);
        act_store(w + i, master[i]);
    }
}

/* g[0..n-1] = 0 */
static inline void zero(float *g, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        g[i] = 0;
}

/* norm[0] = |g|, squares added in double: NORM_PARTS ranges, each in two halves, then in order. */
static inline void grad_norm(float *norm, const float *restrict g, int64_t n, void *ws)
{
    double *parts = ws;
#pragma omp parallel for schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t part = 0; part < NORM_PARTS; part++) {
        const int64_t begin = part * n / NORM_PARTS, end = (part + 1) * n / NORM_PARTS;
        const int64_t half = (end - begin) / 2;
        const float *a = g + begin, *b = a + half;
        double s0 = 0, s1 = 0;
#pragma omp simd reduction(+ : s0, s1)
        for (int64_t i = 0; i < half; i++) {
            s0 += (double)a[i] * a[i];
            s1 += (double)b[i] * b[i];
        }
        if ((end - begin) % 2)
            s0 += (double)g[end - 1] * g[end - 1];
        parts[part] = s0 + s1;
    }
    double sum = 0;
    for (int64_t part = 0; part < NORM_PARTS; part++)
        sum += parts[part];
    *norm = (float)sqrt(sum);
}

#endif
