/* numbers.h -- random numbers and the tolerance of every kernel test, for all backends (C and C++).
 *
 * Keeps: |got - ref| <= eps * 4 * (1 + sqrt(depth)) * (|ref| + rms(ref)); depth: terms added up for
 *        one result (1 for element-wise); eps: half an ulp of the type that the result was rounded
 *        to on its way. */
#ifndef DIECAST_TESTS_KERNELS_NUMBERS_H
#define DIECAST_TESTS_KERNELS_NUMBERS_H

#include <math.h>
#include <stdint.h>

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

/* The largest error in units of the tolerance: NaN, or more than 1, is a failure. *at: where. */
static inline double numbers_worst(const double *got, const double *ref, int64_t n, int64_t depth,
                                   double eps, int64_t *at)
{
    const double bound = eps * 4 * (1 + sqrt((double)depth));
    double rms = 0, worst = 0;
    *at = -1;
    for (int64_t i = 0; i < n; i++)
        rms += ref[i] * ref[i];
    rms = n ? sqrt(rms / (double)n) : 0;
    for (int64_t i = 0; i < n; i++) {
        double over = fabs(got[i] - ref[i]) / (bound * (fabs(ref[i]) + rms) + 1e-37);
        if (!(over <= worst)) {             /* also true for NaN */
            worst = over;
            *at = i;
            if (isnan(over))
                break;
        }
    }
    return worst;
}

#endif
