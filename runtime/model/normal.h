/* normal.h -- standard normal values from words of a counter-based generator.
 *
 * Keeps: the bits of normal_plain() with this machine's libm, on vectors of any width.
 * Method: Box, Muller (1958). Logarithm, sine and cosine are polynomials within 2^-46; if a value
 *        of a block lies within 2^-44 of the middle between two floats, libm computes the block. */
#ifndef DIECAST_NORMAL_H
#define DIECAST_NORMAL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { NORMAL_PAIRS = 64 };      /* of a block */

/* In (0, 1). */
static inline double normal_unit(uint32_t word)
{
    return ((double)word + 0.5) / 4294967296.0;
}

static inline double normal_angle_(uint32_t word)
{
    return 2 * M_PI * normal_unit(word);
}

/* Two values of standard deviation std from two words. */
static inline void normal_plain(float to[2], uint32_t u, uint32_t v, double std)
{
    const double radius = std * sqrt(-2 * log(normal_unit(u)));
    to[0] = (float)(radius * cos(normal_angle_(v)));
    to[1] = (float)(radius * sin(normal_angle_(v)));
}

static inline uint64_t normal_bits_(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double normal_double_(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* log(x) for 2^-64 < x < 1. x = 2^e m, m in [sqrt(1/2), sqrt(2)); log m = 2 atanh of s. */
static inline double normal_log_(double x)
{
    const uint64_t root = 0x3fe6a09e667f3bcd, fraction = 0xfffffffffffff;
    const uint64_t above = normal_bits_(x) - root + ((uint64_t)64 << 52);
    const double e = normal_double_(above >> 52 | 0x4330000000000000) - (0x1p52 + 64);
    const double m = normal_double_((above & fraction) + root);
    const double s = (m - 1) / (m + 1), z = s * s;
    double q = 1.0 / 17;
    q = q * z + 1.0 / 15;
    q = q * z + 1.0 / 13;
    q = q * z + 1.0 / 11;
    q = q * z + 1.0 / 9;
    q = q * z + 1.0 / 7;
    q = q * z + 1.0 / 5;
    q = q * z + 1.0 / 3;
    return e * 0x1.62e42fefa39efp-1 + (2 * s + 2 * s * z * q);
}

/* Sine and cosine of x - n pi/2, which is at most pi/4. pi/2 in two parts: the first product and
 * difference are exact. */
static inline void normal_sincos_(double x, double n, double *sine, double *cosine)
{
    const double r = (x - n * 0x1.921fb54442d0p0) - n * 0x1.8469898cc5170p-48, z = r * r;
    double s = -1.0 / 1307674368000, c = -1.0 / 87178291200;
    s = s * z + 1.0 / 6227020800;
    s = s * z - 1.0 / 39916800;
    s = s * z + 1.0 / 362880;
    s = s * z - 1.0 / 5040;
    s = s * z + 1.0 / 120;
    s = s * z - 1.0 / 6;
    c = c * z + 1.0 / 479001600;
    c = c * z - 1.0 / 3628800;
    c = c * z + 1.0 / 40320;
    c = c * z - 1.0 / 720;
    c = c * z + 1.0 / 24;
    c = c * z - 1.0 / 2;
    *sine = r + r * z * s;
    *cosine = 1 + z * c;
}

/* 0 if x rounds to the same float as every number within 2^-44 of it. */
static inline uint64_t normal_unsure_(double x)
{
    const uint64_t rest = 0x1fffffff, half = 0x10000000, near = 256, bits = normal_bits_(x);
    return ((bits - half + near) & rest) < 2 * near;
}

/* to[2 i], to[2 i + 1]: the pair of words u[i] and v[i]; std: 0 or at least 2^-60. */
static inline void normal_block(float *restrict to, const uint32_t *restrict u,
                                const uint32_t *restrict v, double std)
{
    double unit[NORMAL_PAIRS], angle[NORMAL_PAIRS], x[NORMAL_PAIRS], y[NORMAL_PAIRS];
    uint64_t unsure = 0;
    /* a loop of its own: a fused multiply-add must not skip the rounding of the angle */
#pragma omp simd
    for (int i = 0; i < NORMAL_PAIRS; i++)
        unit[i] = normal_unit(u[i]), angle[i] = normal_angle_(v[i]);
#pragma omp simd reduction(| : unsure)
    for (int i = 0; i < NORMAL_PAIRS; i++) {
        const uint64_t turns = ((uint64_t)v[i] + 0x20000000) >> 30;      /* 0..4 quarter turns */
        const uint64_t swap = 0 - (turns & 1);
        double sine, cosine;
        normal_sincos_(angle[i], normal_double_(turns | 0x4330000000000000) - 0x1p52, &sine,
                       &cosine);
        const double radius = std * sqrt(-2 * normal_log_(unit[i]));
        const uint64_t s = normal_bits_(radius * sine), c = normal_bits_(radius * cosine);
        x[i] = normal_double_(((s & swap) | (c & ~swap)) ^ ((turns + 1) & 2) << 62);
        y[i] = normal_double_(((c & swap) | (s & ~swap)) ^ (turns & 2) << 62);
        unsure |= normal_unsure_(x[i]) | normal_unsure_(y[i]);
    }
#pragma omp simd
    for (int i = 0; i < NORMAL_PAIRS; i++)
        to[2 * i] = (float)x[i], to[2 * i + 1] = (float)y[i];
    for (int i = 0; unsure && i < NORMAL_PAIRS; i++)
        normal_plain(to + 2 * i, u[i], v[i], std);
}

#endif
