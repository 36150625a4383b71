/* activation.h -- GELU (exact form) and ReLU, with their gradients.
 *
 * In, out: n elements. An output may be an input of its shape.
 * Keeps: fp32 inside, one rounding at the store. Element-wise: nothing to order.
 * Method: GELU (Hendrycks, Gimpel 2016) x Phi(x); the smaller tail of Phi at |x| is e^(-x^2/2)
 *        times a polynomial in t = 1 / (1 + 0.2121 |x|), relative error 2e-8 (see math.h). */
#ifndef DIECAST_KERNELS_ACTIVATION_H
#define DIECAST_KERNELS_ACTIVATION_H

#include "math.h"
#include "types.h"

/* Phi(x), the normal distribution function, and its density. Beyond |x| = 12.6 the tail is
 * below 1e-35 and clamped, so that nothing is denormal. */
typedef struct {
    float below, density;
} Normal;

static inline Normal activation_normal(float x)
{
    float h = 0.5f * x * x, t = 1.0f / (1.0f + 0.21213204f * __builtin_fabsf(x));
    h = h > 80.0f ? 80.0f : h;
    float e = math_exp_normal(-h), q = -0.0646698922f;
    q = q * t + 0.242300048f;
    q = q * t - 0.255052954f;
    q = q * t + 0.272490025f;
    q = q * t - 0.0462698601f;
    q = q * t + 0.106955163f;
    q = q * t + 0.0743184015f;
    q = q * t + 0.0853333697f;
    q = q * t + 0.0845956802f;
    float tail = e * t * q;
    return (Normal){ x < 0.0f ? tail : 1.0f - tail, 0.39894228f * e };
}

static inline float gelu_erf_value(float v)
{
    return v * activation_normal(v).below;
}

static inline void gelu_erf_fwd(act_t *y, const act_t *x, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(y + i, gelu_erf_value(act_load(x + i)));
}

/* The derivative of GELU at v. */
static inline float gelu_erf_slope(float v)
{
    Normal p = activation_normal(v);
    v = v < -13.0f ? -13.0f : v > 13.0f ? 13.0f : v;       /* inf times a density of 0 */
    return p.below + v * p.density;
}

static inline void gelu_erf_bwd(act_t *dx, const act_t *dy, const act_t *x, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(dx + i, act_load(dy + i) * gelu_erf_slope(act_load(x + i)));
}

static inline void relu_fwd(act_t *y, const act_t *x, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) {
        float v = act_load(x + i);
        act_store(y + i, v < 0.0f ? 0.0f : v);
    }
}

/* 0 at 0, as in PyTorch. */
static inline void relu_bwd(act_t *dx, const act_t *dy, const act_t *x, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(dx + i, act_load(x + i) <= 0.0f ? 0.0f : act_load(dy + i));
}

#endif
