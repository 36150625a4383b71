/* margin.h -- double-precision reference of a two-class head's logit margin.
 *
 * In:    x (n, C), w (2, C), b (2).
 * Out:   d (n); gradients of sum dd d by x, w and b, through both logits. */
#ifndef DIECAST_KERNELS_REFERENCE_MARGIN_H
#define DIECAST_KERNELS_REFERENCE_MARGIN_H

#include <stdint.h>

static inline void margin_ref(double *d, const double *x, const double *w, const double *b,
                              int64_t n, int64_t C)
{
    for (int64_t i = 0; i < n; i++) {
        double z[2] = { b[0], b[1] };
        for (int k = 0; k < 2; k++)
            for (int64_t c = 0; c < C; c++)
                z[k] += x[i * C + c] * w[k * C + c];
        d[i] = z[1] - z[0];
    }
}

static inline void margin_bwd_ref(double *dx, double *dw, double *db, const double *dd,
                                  const double *x, const double *w, int64_t n, int64_t C)
{
    for (int64_t j = 0; j < 2 * C; j++)
        dw[j] = 0;
    db[0] = db[1] = 0;
    for (int64_t i = 0; i < n; i++) {
        const double dz[2] = { -dd[i], dd[i] };
        for (int64_t c = 0; c < C; c++)
            dx[i * C + c] = dz[0] * w[c] + dz[1] * w[C + c];
        for (int k = 0; k < 2; k++) {
            db[k] += dz[k];
            for (int64_t c = 0; c < C; c++)
                dw[k * C + c] += dz[k] * x[i * C + c];
        }
    }
}

#endif
