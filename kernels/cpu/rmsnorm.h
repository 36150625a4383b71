/* rmsnorm.h -- RMSNorm (Zhang, Sennrich 2019), optionally fused with a residual addition, and
 * its gradients.
 *
 * In:    x, a, r, dy, res (rows, C) act_t; w (C) wt_t; eps inside the square root.
 * Out:   y, sum, dx (rows, C); rstd (rows) fp32, NULL if no backward follows; dw (C) fp32.
 * Keeps: fp32 inside; plus 0 (Llama): the normalised value is rounded before it is multiplied
 *        by w; plus 1 (Gemma): it is multiplied, unrounded, by 1 + w in fp32. Fixed order
 *        (types.h). sum may be a or r, dx may be dy or res; no other aliasing. */
#ifndef DIECAST_KERNELS_RMSNORM_H
#define DIECAST_KERNELS_RMSNORM_H

#include <math.h>

#include "types.h"

/* The factor of a normalised value, and that value as it is multiplied. */
static inline float rmsnorm_scale(const wt_t *w, int plus)
{
    return plus ? 1.0f + act_load(w) : act_load(w);
}

static inline float rmsnorm_value(float normal, int plus)
{
    return plus ? normal : act_round(normal);
}

static inline void rmsnorm_row(act_t *restrict y, float *rstd, const act_t *restrict x,
                               const wt_t *restrict w, int64_t C, float eps, int plus)
{
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < C; i++)
        squares += act_load(x + i) * act_load(x + i);
    const float rs = 1.0f / sqrtf(squares / (float)C + eps);
#pragma omp simd
    for (int64_t i = 0; i < C; i++)
        act_store(y + i, rmsnorm_value(act_load(x + i) * rs, plus) * rmsnorm_scale(w + i, plus));
    if (rstd)
        *rstd = rs;
}

/* dx of one row, plus res unless NULL. pw (C) accumulates dw; NULL: frozen weights. */
static inline void rmsnorm_bwd_row(float *restrict pw, act_t *dx, const act_t *dy,
                                   const act_t *restrict x, const wt_t *restrict w, float rstd,
                                   const act_t *res, int64_t C, int plus)
{
    float c = 0;
    const float one = plus ? 1.0f : 0.0f;        /* a branch would make two loops, one of scalars */
#pragma omp simd reduction(+ : c)
    for (int64_t i = 0; i < C; i++)
        c += act_load(dy + i) * (one + act_load(w + i)) * act_load(x + i);
    c = c * rstd * rstd / (float)C;
    if (pw) {
#pragma omp simd
        for (int64_t i = 0; i < C; i++)
            pw[i] += act_load(dy + i) * rmsnorm_value(act_load(x + i) * rstd, plus);
    }
    if (res) {
#pragma omp simd
        for (int64_t i = 0; i < C; i++) {
            float g = act_load(dy + i) * rmsnorm_scale(w + i, plus) - act_load(x + i) * c;
            act_store(dx + i, g * rstd + act_load(res + i));
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < C; i++) {
            float g = act_load(dy + i) * rmsnorm_scale(w + i, plus) - act_load(x + i) * c;
            act_store(dx + i, g * rstd);
        }
    }
}

/* y = RMS(x) w, or RMS(x) (1 + w) */
static inline void rmsnorm_fwd(act_t *restrict y, float *restrict rstd, const act_t *restrict x,
                               const wt_t *restrict w, int64_t rows, int64_t C, float eps, int plus)
{
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t t = 0; t < rows; t++)
        rmsnorm_row(y + t * C, rstd ? rstd + t : NULL, x + t * C, w, C, eps, plus);
}

/* sum = a + r, rounded to act_t; y as above, of sum */
static inline void add_rmsnorm_fwd(act_t *sum, act_t *restrict y, float *restrict rstd,
                                   const act_t *a, const act_t *r, const wt_t *restrict w,
                                   int64_t rows, int64_t C, float eps, int plus)
{
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t t = 0; t < rows; t++) {
#pragma omp simd
        for (int64_t i = t * C; i < t * C + C; i++)
            act_store(sum + i, act_load(a + i) + act_load(r + i));
        rmsnorm_row(y + t * C, rstd ? rstd + t : NULL, sum + t * C, w, C, eps, plus);
    }
}

/* dx = res + gradient of RMSNorm at x; dw overwritten (beta 0) or added to (1).
 * ws: rmsnorm_bwd_workspace(C) bytes. */
static inline void rmsnorm_bwd_add(float *restrict dw, act_t *dx, const act_t *dy,
                                   const act_t *restrict x, const wt_t *restrict w,
                                   const float *restrict rstd, const act_t *res, int64_t rows,
                                   int64_t C, int plus, int beta, void *restrict ws)
{
    float *parts = ws;                  /* (REDUCE_PARTS, C) */
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t part = 0; part < REDUCE_PARTS; part++) {
        float *pw = parts + part * C;
        memset(pw, 0, (size_t)C * sizeof *pw);
        for (int64_t t = part_begin(part, rows); t < part_begin(part + 1, rows); t++)
            rmsnorm_bwd_row(pw, dx + t * C, dy + t * C, x + t * C, w, rstd[t],
                            res ? res + t * C : NULL, C, plus);
    }
    part_sum(dw, parts, C, C, beta);
}

static inline void rmsnorm_bwd(float *restrict dw, act_t *dx, const act_t *dy,
                               const act_t *restrict x, const wt_t *restrict w,
                               const float *restrict rstd, int64_t rows, int64_t C, int plus,
                               int beta, void *restrict ws)
{
    rmsnorm_bwd_add(dw, dx, dy, x, w, rstd, NULL, rows, C, plus, beta, ws);
}

/* The same for frozen weights. */
static inline void rmsnorm_dx_add(act_t *dx, const act_t *dy, const act_t *restrict x,
                                  const wt_t *restrict w, const float *restrict rstd,
                                  const act_t *res, int64_t rows, int64_t C, int plus)
{
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t t = 0; t < rows; t++)
        rmsnorm_bwd_row(NULL, dx + t * C, dy + t * C, x + t * C, w, rstd[t],
                        res ? res + t * C : NULL, C, plus);
}

static inline void rmsnorm_dx(act_t *dx, const act_t *dy, const act_t *restrict x,
                              const wt_t *restrict w, const float *restrict rstd, int64_t rows,
                              int64_t C, int plus)
{
    rmsnorm_dx_add(dx, dy, x, w, rstd, NULL, rows, C, plus);
}

#endif
