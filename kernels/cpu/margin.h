/* margin.h -- two-class head reduced to its logit margin.
 *
 * In:    x (n, C) act, w (2, C) and b (2) of the layer; dd (n) fp32, gradients of d.
 * Out:   d (n) fp32 = x (w1 - w0) + b1 - b0; dx (n, C) act; dw (2, C), db (2) fp32.
 * Keeps: sums in fp32, over rows in order; only dx is rounded to act. */
#ifndef DIECAST_KERNELS_MARGIN_H
#define DIECAST_KERNELS_MARGIN_H

#include "types.h"

static inline void margin_fwd(float *restrict d, const act_t *restrict x,
                              const wt_t *restrict w, const wt_t *restrict b, int64_t n, int64_t C)
{
    const float bias = act_load(b + 1) - act_load(b);
#pragma omp parallel for schedule(static) if (n * C >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < C; c++)
            sum += act_load(x + i * C + c) * (act_load(w + C + c) - act_load(w + c));
        d[i] = sum + bias;
    }
}

static inline void margin_dx(act_t *restrict dx, const float *restrict dd, const wt_t *restrict w,
                             int64_t n, int64_t C)
{
#pragma omp parallel for schedule(static) if (n * C >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
#pragma omp simd
        for (int64_t c = 0; c < C; c++)
            act_store(dx + i * C + c, dd[i] * (act_load(w + C + c) - act_load(w + c)));
}

/* beta 1: accumulates. */
static inline void margin_dw(float *restrict dw, float *restrict db, const float *restrict dd,
                             const act_t *restrict x, int64_t n, int64_t C, int beta)
{
#pragma omp parallel for schedule(static) if (n * C >= PARALLEL_MIN)
    for (int64_t c = 0; c < C; c++) {
        float sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += dd[i] * act_load(x + i * C + c);
        dw[c] = (beta ? dw[c] : 0) - sum;
        dw[C + c] = (beta ? dw[C + c] : 0) + sum;
    }
    float sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += dd[i];
    db[0] = (beta ? db[0] : 0) - sum;
    db[1] = (beta ? db[1] : 0) + sum;
}

#endif
