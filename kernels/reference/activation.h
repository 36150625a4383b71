/* activation.h -- double-precision reference of GELU (exact form), ReLU and their gradients.
 *
 * In:    x, dy (n). Out: y, dx. No aliasing. */
#ifndef DIECAST_KERNELS_REFERENCE_ACTIVATION_H
#define DIECAST_KERNELS_REFERENCE_ACTIVATION_H

#include <math.h>
#include <stdint.h>

static inline void gelu_erf_fwd_ref(double *y, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = 0.5 * x[i] * erfc(-x[i] / sqrt(2));
}

static inline void gelu_erf_bwd_ref(double *dx, const double *dy, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (0.5 * erfc(-x[i] / sqrt(2)) +
                         x[i] * exp(-x[i] * x[i] / 2) / sqrt(2 * acos(-1)));
}

static inline void relu_fwd_ref(double *y, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

static inline void relu_bwd_ref(double *dx, const double *dy, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dx[i] = x[i] > 0 ? dy[i] : 0;
}

#endif
