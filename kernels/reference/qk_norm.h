/* qk_norm.h -- double-precision reference of per-head QK RMSNorm and its gradients.
 *
 * In:    x, dy (rows, (NH + 2 KV) D); w (2 D), for heads of q, then of k; rstd (rows, NH +
 *        KV).
 * Method: rmsnorm.h with one row per head; v is copied. */
#ifndef DIECAST_KERNELS_REFERENCE_QK_NORM_H
#define DIECAST_KERNELS_REFERENCE_QK_NORM_H

#include "rmsnorm.h"

static inline void qk_norm_fwd_ref(double *y, double *rstd, const double *x, const double *w,
                                   int64_t rows, int64_t NH, int64_t KV, int64_t D, double eps)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < NH + 2 * KV; h++) {
            const int64_t at = (r * (NH + 2 * KV) + h) * D;
            if (h < NH + KV)
                rmsnorm_fwd_ref(y + at, rstd + r * (NH + KV) + h, x + at, h < NH ? w : w + D, 1, D,
                                eps);
            for (int64_t i = 0; i < D && h >= NH + KV; i++)
                y[at + i] = x[at + i];
        }
}

/* Overwrites dw; one (D): scratch for one head's sums. */
static inline void qk_norm_bwd_ref(double *dw, double *dx, const double *dy, const double *x,
                                   const double *w, const double *rstd, double *one, int64_t rows,
                                   int64_t NH, int64_t KV, int64_t D)
{
    for (int64_t i = 0; i < 2 * D; i++)
        dw[i] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < NH + 2 * KV; h++) {
            const int64_t at = (r * (NH + 2 * KV) + h) * D, of = h < NH ? 0 : D;
            if (h < NH + KV)
                rmsnorm_bwd_ref(one, dx + at, dy + at, x + at, w + of, rstd + r * (NH + KV) + h,
                                NULL, 1, D);
            for (int64_t i = 0; i < D; i++)
                if (h < NH + KV)
                    dw[of + i] += one[i];
                else
                    dx[at + i] = dy[at + i];
        }
}

#endif
