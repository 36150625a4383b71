/* layernorm.h -- double-precision reference of LayerNorm and its gradients.
 *
 * In:    x, dy, res (rows, C); w, b (C); mean, rstd (rows).
 * Method: plain loops, following the formulas of Ba, Kiros, Hinton 2016. */
#ifndef DIECAST_KERNELS_REFERENCE_LAYERNORM_H
#define DIECAST_KERNELS_REFERENCE_LAYERNORM_H

#include <math.h>
#include <stdint.h>

static inline void layernorm_fwd_ref(double *y, double *mean, double *rstd, const double *x,
                                     const double *w, const double *b, int64_t rows, int64_t C,
                                     double eps)
{
    for (int64_t t = 0; t < rows; t++) {
        double m = 0, v = 0;
        for (int64_t i = 0; i < C; i++)
            m += x[t * C + i] / (double)C;
        for (int64_t i = 0; i < C; i++)
            v += (x[t * C + i] - m) * (x[t * C + i] - m) / (double)C;
        mean[t] = m;
        rstd[t] = 1 / sqrt(v + eps);
        for (int64_t i = 0; i < C; i++)
            y[t * C + i] = (x[t * C + i] - m) * rstd[t] * w[i] + b[i];
    }
}

/* res NULL: none. dw and db overwritten. */
static inline void layernorm_bwd_ref(double *dw, double *db, double *dx, const double *dy,
                                     const double *x, const double *w, const double *mean,
                                     const double *rstd, const double *res, int64_t rows, int64_t C)
{
    for (int64_t i = 0; i < C; i++)
        dw[i] = db[i] = 0;
    for (int64_t t = 0; t < rows; t++) {
        const double *g = dy + t * C, *xt = x + t * C;
        double c1 = 0, c2 = 0;
        for (int64_t i = 0; i < C; i++) {
            double n = (xt[i] - mean[t]) * rstd[t];
            c1 += g[i] * w[i] / (double)C;
            c2 += g[i] * w[i] * n / (double)C;
            dw[i] += g[i] * n;
            db[i] += g[i];
        }
        for (int64_t i = 0; i < C; i++) {
            double n = (xt[i] - mean[t]) * rstd[t];
            dx[t * C + i] = rstd[t] * (g[i] * w[i] - c1 - n * c2) + (res ? res[t * C + i] : 0);
        }
    }
}

#endif
