/* along.h -- double-precision reference of per-sample dot products of gradients.
 *
 * In:    dy, z (S, n / S).   Out: slope (S), accumulated. */
#ifndef DIECAST_KERNELS_REFERENCE_ALONG_H
#define DIECAST_KERNELS_REFERENCE_ALONG_H

#include <stdint.h>

static inline void slope_dot_ref(double *slope, const double *dy, const double *z, double back,
                                 int64_t n, int64_t S)
{
    for (int64_t i = 0; i < n; i++)
        slope[i / (n / S)] += back * dy[i] * z[i];
}

#endif
