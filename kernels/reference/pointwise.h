/* pointwise.h -- double-precision reference of GELU (tanh form), SwiGLU, GeGLU and their
 * gradients.
 *
 * In:    x, dy (n); rows of 2F = [gate | up], dh (rows, F). Out: y, dx; h, dgu. No aliasing. */
#ifndef DIECAST_KERNELS_REFERENCE_POINTWISE_H
#define DIECAST_KERNELS_REFERENCE_POINTWISE_H

#include <math.h>
#include <stdint.h>

static inline void gelu_fwd_ref(double *y, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = 0.5 * x[i] * (1 + tanh(sqrt(2 / acos(-1)) * (x[i] + 0.044715 * pow(x[i], 3))));
}

static inline void gelu_bwd_ref(double *dx, const double *dy, const double *x, int64_t n)
{
    const double a = sqrt(2 / acos(-1));
    for (int64_t i = 0; i < n; i++) {
        double t = tanh(a * (x[i] + 0.044715 * pow(x[i], 3)));
        double du = a * (1 + 3 * 0.044715 * x[i] * x[i]);
        dx[i] = dy[i] * (0.5 * (1 + t) + 0.5 * x[i] * (1 - t * t) * du);
    }
}

static inline void swiglu_fwd_ref(double *h, const double *gu, int64_t rows, int64_t F)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < F; i++) {
            double g = gu[r * 2 * F + i], u = gu[r * 2 * F + F + i];
            h[r * F + i] = g / (1 + exp(-g)) * u;
        }
}

static inline void swiglu_bwd_ref(double *dgu, const double *dh, const double *gu, int64_t rows,
                                  int64_t F)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < F; i++) {
            double g = gu[r * 2 * F + i], u = gu[r * 2 * F + F + i], s = 1 / (1 + exp(-g));
            dgu[r * 2 * F + i] = dh[r * F + i] * u * s * (1 + g * (1 - s));
            dgu[r * 2 * F + F + i] = dh[r * F + i] * g * s;
        }
}

static inline void geglu_fwd_ref(double *h, const double *gu, int64_t rows, int64_t F)
{
    for (int64_t r = 0; r < rows; r++) {
        gelu_fwd_ref(h + r * F, gu + r * 2 * F, F);
        for (int64_t i = 0; i < F; i++)
            h[r * F + i] *= gu[r * 2 * F + F + i];
    }
}

static inline void geglu_bwd_ref(double *dgu, const double *dh, const double *gu, int64_t rows,
                                 int64_t F)
{
    for (int64_t r = 0; r < rows; r++) {
        const double *gate = gu + r * 2 * F, *up = gate + F;
        double *dgate = dgu + r * 2 * F, *dup = dgate + F;
        gelu_fwd_ref(dup, gate, F);
        gelu_bwd_ref(dgate, dh + r * F, gate, F);
        for (int64_t i = 0; i < F; i++) {
            dgate[i] *= up[i];
            dup[i] *= dh[r * F + i];
        }
    }
}

#endif
