/* jvp.h -- double-precision reference of per-sample dot products of gradients.
 *
 * In:    dy, z (S, n / S).   Out: jvp (S), accumulated. */
#ifndef DIECAST_KERNELS_REFERENCE_JVP_H
#define DIECAST_KERNELS_REFERENCE_JVP_H

#include <stdint.h>

static inline void jvp_dot_ref(double *jvp, const double *dy, const double *z, double back,
                               int64_t n, int64_t S)
{
    for (int64_t i = 0; i < n; i++)
        jvp[i / (n / S)] += back * dy[i] * z[i];
}

#endif
