/* math.h -- branch-free exp, log and sigmoid in plain arithmetic, so that loops vectorise.
 *
 * Keeps: math_exp and math_log within 2 ulp over all of fp32, gradual underflow, overflow to
 *        inf; math_sigmoid within 4 ulp plus 2^-86. NaN in, NaN out. No branches, no state.
 * Method: range reduction by powers of two, then a minimax polynomial (reweighted least
 *         squares at Chebyshev nodes). */
#ifndef DIECAST_KERNELS_MATH_H
#define DIECAST_KERNELS_MATH_H

#include "types.h"

/* x + MATH_SHIFT rounds x to an integer and holds it in the low bits. */
#define MATH_SHIFT 0x1.8p23f
#define MATH_LOG2E 0x1.715476p0f

/* e^(x - n ln2) with n = t - MATH_SHIFT the integer nearest to x / ln2. */
static inline float math_exp_rest(float x, float t)
{
    t -= MATH_SHIFT;
    float r = x - t * 0x1.62e4p-1f;             /* 15 bits of ln2: the product is exact */
    r -= t * 0x1.7f7d1cp-20f;
    float q = 0.00138145941f;
    q = q * r + 0.00836871751f;
    q = q * r + 0.041668389f;
    q = q * r + 0.166665211f;
    q = q * r + 0.49999994f;
    return 1.0f + (r + r * r * q);
}

/* e^x for any x. The scale 2^n is applied as two factors: n from -150 to 129 is exact. */
static inline float math_exp(float x)
{
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float t = x * MATH_LOG2E + MATH_SHIFT, m = math_exp_rest(x, t);
    uint32_t n = float_bits(t) - float_bits(MATH_SHIFT);
    uint32_t half = (n + 256) / 2 - 128;        /* floor(n / 2) in unsigned arithmetic */
    return m * bits_float((half + 127) << 23) * bits_float((n - half + 127) << 23);
}

/* e^x for -87 <= x <= 88, where the result is a normal number: cheaper. */
static inline float math_exp_normal(float x)
{
    float t = x * MATH_LOG2E + MATH_SHIFT;
    return math_exp_rest(x, t) * bits_float((float_bits(t) << 23) + float_bits(1.0f));
}

/* Natural logarithm; log(0) = -inf, log(x < 0) = NaN, log(inf) = inf.
 * x = 2^e m, m in [sqrt(1/2), sqrt(2)). */
static inline float math_log(float x)
{
    float tiny = x < 0x1p-126f ? 0x1p23f : 1.0f;
    uint32_t u = float_bits(x * tiny) - 0x3f3504f3;         /* the bits of sqrt(1/2) */
    float e = (float)((int32_t)u >> 23) - (x < 0x1p-126f ? 23.0f : 0.0f);
    float f = bits_float((u & 0x7fffff) + 0x3f3504f3) - 1.0f;
    float q = -0.0763441995f;
    q = q * f + 0.127615452f;
    q = q * f - 0.131601959f;
    q = q * f + 0.142017633f;
    q = q * f - 0.166233569f;
    q = q * f + 0.200012267f;
    q = q * f - 0.250008225f;
    q = q * f + 0.333333313f;
    float s = f * f;
    float y = f + (e * 0x1.7f7d1cp-20f - 0.5f * s + f * s * q) + e * 0x1.62e4p-1f;
    y = x > 0x1.fffffep127f ? x : y;
    y = x == 0.0f ? -__builtin_inff() : y;
    return x < 0.0f || x != x ? __builtin_nanf("") : y;
}

/* value = 1 / (1 + e^-x), rest = 1 - value without cancellation. x is clamped to 60: gcc
 * precomputes the clamped case for every lane, and with a larger bound its products would be
 * denormal, which is ten times slower. */
typedef struct {
    float value, rest;
} Logistic;

static inline Logistic math_logistic(float x)
{
    x = x < -60.0f ? -60.0f : x;
    x = x > 60.0f ? 60.0f : x;
    float e = math_exp_normal(-x), value = 1.0f / (1.0f + e);
    return (Logistic){ value, e * value };
}

static inline float math_sigmoid(float x)
{
    return math_logistic(x).value;
}

#endif
