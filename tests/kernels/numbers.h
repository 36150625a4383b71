/* numbers.h -- random numbers and the tolerance of every kernel test, for all backends (C and C++).
 *
 * Keeps: |got - ref| <= eps * 4 * (1 + sqrt(depth)) * (|ref| + max(terms, rms(ref))); depth: terms
 *        added up for one result (1 for element-wise); eps: of the type that the result was rounded
 *        to on its way; terms: how large those are (terms.h), where rms(ref) does not tell. */
#ifndef DIECAST_TESTS_KERNELS_NUMBERS_H
#define DIECAST_TESTS_KERNELS_NUMBERS_H

#include <math.h>
#include <stdint.h>

/* Half an ulp of 1 in fp32, a quarter in 16 bits: sums are in fp32, and few roundings to these. */
#define EPS_F32 0x1p-24
#define EPS_F16 0x1p-12
#define EPS_BF16 0x1p-9

/* splitmix64 */
static inline uint64_t numbers_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static inline double numbers_normal(uint64_t *state)
{
    double u = ((double)(numbers_next(state) >> 11) + 1) * 0x1p-53;
    double v = (double)(numbers_next(state) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* FNV-1a */
#define NUMBERS_HASH 0xcbf29ce484222325
static inline uint64_t numbers_hash(uint64_t hash, const void *data, int64_t bytes)
{
    const unsigned char *p = (const unsigned char *)data;
    for (int64_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3;
    return hash;
}

/* The largest error in units of the tolerance: NaN, or more than 1, is a failure. *at: where.
 * terms (n), or NULL. */
static inline double numbers_worst(const double *got, const double *ref, const double *terms,
                                   int64_t n, int64_t depth, double eps, int64_t *at)
{
    const double bound = eps * 4 * (1 + sqrt((double)depth));
    double rms = 0, worst = 0;
    *at = -1;
    for (int64_t i = 0; i < n; i++)
        rms += ref[i] * ref[i];
    rms = n ? sqrt(rms / (double)n) : 0;
    for (int64_t i = 0; i < n; i++) {
        const double size = terms && terms[i] > rms ? terms[i] : rms;
        double over = fabs(got[i] - ref[i]) / (bound * (fabs(ref[i]) + size) + 1e-37);
        if (!(over <= worst)) {             /* also true for NaN */
            worst = over;
            *at = i;
            if (isnan(over))
                break;
        }
    }
    return worst;
}

/* The slope of a loss from its values h * GRADIENT_STEPS away from a point, off by h^4 of its fifth
 * derivative: that of a norm is large where a row hardly deviates from its mean. */
static const int GRADIENT_STEPS[4] = { -2, -1, 1, 2 };
static inline double gradient_slope(const double at[4], double h)
{
    return (at[0] - at[3] + 8 * (at[2] - at[1])) / (12 * h);
}

#endif
