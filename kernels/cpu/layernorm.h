/* layernorm.h -- LayerNorm (Ba, Kiros, Hinton 2016), optionally fused with a residual
 * addition, and its gradients.
 *
 * In:    x, a, r, dy, res (rows, C) act_t; w, b (C) wt_t; eps inside the root; biased
 *        variance.
 * Out:   y, sum, dx (rows, C); mean, rstd (rows) fp32 or NULL (no backward follows); dw, db
 *        (C) fp32.
 * Keeps: fp32 inside, one rounding at the store; sums in fixed order (types.h). sum may be a
 *        or r, dx may be dy or res; no other aliasing. */
#ifndef DIECAST_KERNELS_LAYERNORM_H
#define DIECAST_KERNELS_LAYERNORM_H

#include <math.h>

#include "types.h"

static inline void layernorm_row(act_t *restrict y, float *mean, float *rstd,
                                 const act_t *restrict x, const wt_t *restrict w,
                                 const wt_t *restrict b, int64_t C, float eps)
{
    float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < C; i++)
        sum += act_load(x + i);
    const float m = sum / (float)C;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < C; i++) {
        float d = act_load(x + i) - m;
        squares += d * d;
    }
    const float rs = 1.0f / sqrtf(squares / (float)C + eps);
#pragma omp simd
    for (int64_t i = 0; i < C; i++)
        act_store(y + i, (act_load(x + i) - m) * rs * act_load(w + i) + act_load(b + i));
    if (mean)
        *mean = m;
    if (rstd)
        *rstd = rs;
}

/* dx of one row, plus res unless NULL. pw, pb (C) collect dw and db; pw NULL: frozen weights. */
static inline void layernorm_bwd_row(float *restrict pw, float *restrict pb, act_t *dx,
                                     const act_t *dy, const act_t *restrict x,
                                     const wt_t *restrict w, float mean, float rstd,
                                     const act_t *res, int64_t C)
{
    float c1 = 0, c2 = 0;
#pragma omp simd reduction(+ : c1, c2)
    for (int64_t i = 0; i < C; i++) {
        float g = act_load(dy + i) * act_load(w + i);
        c1 += g;
        c2 += g * (act_load(x + i) - mean);
    }
    c1 = c1 / (float)C;
    c2 = c2 * rstd * rstd / (float)C;
    if (pw) {
#pragma omp simd
        for (int64_t i = 0; i < C; i++) {
            float g = act_load(dy + i);
            pw[i] += g * ((act_load(x + i) - mean) * rstd);
            pb[i] += g;
        }
    }
    if (res) {
#pragma omp simd
        for (int64_t i = 0; i < C; i++) {
            float g = act_load(dy + i) * act_load(w + i) - c1 - (act_load(x + i) - mean) * c2;
            act_store(dx + i, g * rstd + act_load(res + i));
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < C; i++) {
            float g = act_load(dy + i) * act_load(w + i) - c1 - (act_load(x + i) - mean) * c2;
            act_store(dx + i, g * rstd);
        }
    }
}

/* y = LN(x) */
static inline void layernorm_fwd(act_t *restrict y, float *restrict mean, float *restrict rstd,
                                 const act_t *restrict x, const wt_t *restrict w,
                                 const wt_t *restrict b, int64_t rows, int64_t C, float eps)
{
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t t = 0; t < rows; t++)
        layernorm_row(y + t * C, mean ? mean + t : NULL, rstd ? rstd + t : NULL, x + t * C, w, b, C,
                      eps);
}

/* sum = a + r, rounded to act_t; y = LN(sum) */
static inline void add_layernorm_fwd(act_t *sum, act_t *restrict y, float *restrict mean,
                                     float *restrict rstd, const act_t *a, const act_t *r,
                                     const wt_t *restrict w, const wt_t *restrict b, int64_t rows,
                                     int64_t C, float eps)
{
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t t = 0; t < rows; t++) {
#pragma omp simd
        for (int64_t i = t * C; i < t * C + C; i++)
            act_store(sum + i, act_load(a + i) + act_load(r + i));
        layernorm_row(y + t * C, mean ? mean + t : NULL, rstd ? rstd + t : NULL, sum + t * C, w, b,
                      C, eps);
    }
}

/* dx = res + gradient of LN at x; dw, db overwritten (beta 0) or added to (1).
 * ws: layernorm_bwd_workspace(C) bytes. */
static inline void layernorm_bwd_add(float *restrict dw, float *restrict db, act_t *dx,
                                     const act_t *dy, const act_t *restrict x,
                                     const wt_t *restrict w, const float *restrict mean,
                                     const float *restrict rstd, const act_t *res, int64_t rows,
                                     int64_t C, int beta, void *restrict ws)
{
    float *parts = ws;                  /* (REDUCE_PARTS, 2, C): dw then db of each block of rows */
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t part = 0; part < REDUCE_PARTS; part++) {
        float *pw = parts + part * 2 * C, *pb = pw + C;
        memset(pw, 0, (size_t)(2 * C) * sizeof *pw);
        for (int64_t t = part_begin(part, rows); t < part_begin(part + 1, rows); t++)
            layernorm_bwd_row(pw, pb, dx + t * C, dy + t * C, x + t * C, w, mean[t], rstd[t],
                              res ? res + t * C : NULL, C);
    }
    part_sum(dw, parts, 2 * C, C, beta);
    part_sum(db, parts + C, 2 * C, C, beta);
}

static inline void layernorm_bwd(float *restrict dw, float *restrict db, act_t *dx, const act_t *dy,
                                 const act_t *restrict x, const wt_t *restrict w,
                                 const float *restrict mean, const float *restrict rstd,
                                 int64_t rows, int64_t C, int beta, void *restrict ws)
{
    layernorm_bwd_add(dw, db, dx, dy, x, w, mean, rstd, NULL, rows, C, beta, ws);
}

/* The same for frozen weights. */
static inline void layernorm_dx_add(act_t *dx, const act_t *dy, const act_t *restrict x,
                                    const wt_t *restrict w, const float *restrict mean,
                                    const float *restrict rstd, const act_t *res, int64_t rows,
                                    int64_t C)
{
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t t = 0; t < rows; t++)
        layernorm_bwd_row(NULL, NULL, dx + t * C, dy + t * C, x + t * C, w, mean[t], rstd[t],
                          res ? res + t * C : NULL, C);
}

static inline void layernorm_dx(act_t *dx, const act_t *dy, const act_t *restrict x,
                                const wt_t *restrict w, const float *restrict mean,
                                const float *restrict rstd, int64_t rows, int64_t C)
{
    layernorm_dx_add(dx, dy, x, w, mean, rstd, NULL, rows, C);
}

#endif
