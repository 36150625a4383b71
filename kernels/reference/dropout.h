/* dropout.h -- double-precision reference of dropout.
 *
 * In:    x (n); kept (n): 0 or 1 / (1 - p).   Out: y (n). */
#ifndef DIECAST_KERNELS_REFERENCE_DROPOUT_H
#define DIECAST_KERNELS_REFERENCE_DROPOUT_H

#include <stdint.h>

static inline void dropout_fwd_ref(double *y, const double *x, const double *kept, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * kept[i];
}

#endif
