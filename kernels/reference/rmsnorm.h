/* rmsnorm.h -- double-precision reference of RMSNorm and its gradients.
 *
 * In:    x, dy, res (rows, C); w (C); rstd (rows).
 * Method: plain loops, following the formulas of Zhang, Sennrich 2019. */
#ifndef DIECAST_KERNELS_REFERENCE_RMSNORM_H
#define DIECAST_KERNELS_REFERENCE_RMSNORM_H

#include <math.h>
#include <stdint.h>

static inline void rmsnorm_fwd_ref(double *y, double *rstd, const double *x, const double *w,
                                   int64_t rows, int64_t C, double eps)
{
    for (int64_t t = 0; t < rows; t++) {
        double s = 0;
        for (int64_t i = 0; i < C; i++)
            s += x[t * C + i] * x[t * C + i] / (double)C;
        rstd[t] = 1 / sqrt(s + eps);
        for (int64_t i = 0; i < C; i++)
            y[t * C + i] = x[t * C + i] * rstd[t] * w[i];
    }
}

/* res NULL: none. Overwrites dw. */
static inline void rmsnorm_bwd_ref(double *dw, double *dx, const double *dy, const double *x,
                                   const double *w, const double *rstd, const double *res,
                                   int64_t rows, int64_t C)
{
    for (int64_t i = 0; i < C; i++)
        dw[i] = 0;
    for (int64_t t = 0; t < rows; t++) {
        const double *g = dy + t * C, *xt = x + t * C;
        double c = 0;
        for (int64_t i = 0; i < C; i++) {
            c += g[i] * w[i] * xt[i] * rstd[t] / (double)C;
            dw[i] += g[i] * xt[i] * rstd[t];
        }
        for (int64_t i = 0; i < C; i++)
            dx[t * C + i] = rstd[t] * (g[i] * w[i] - xt[i] * rstd[t] * c) +
                            (res ? res[t * C + i] : 0);
    }
}

#endif
