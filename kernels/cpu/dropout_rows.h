/* dropout_rows.h -- dropout fused with its neighbours: after an exact GELU, before a residual sum,
 * before a residual sum and a LayerNorm.
 *
 * In:    x, a, r (rows, C) act_t; noise, site: see philox.h; site of the place, as its op has it.
 * Out:   y, sum (rows, C), which may be inputs, except the norm's y; mean, rstd (rows) or NULL.
 * Keeps: the bits of gelu_erf_fwd, dropout_fwd, add_fwd and layernorm_fwd in turn: each rounds to
 *        act_t. */
#ifndef DIECAST_KERNELS_DROPOUT_ROWS_H
#define DIECAST_KERNELS_DROPOUT_ROWS_H

#include "activation.h"
#include "dropout.h"
#include "layernorm.h"

/* y (C) = dropout of the GELU of x, row `row` of the micro-batch. */
static inline void dropout_gelu_erf_row_(act_t *y, const act_t *x, const DrawMask *m, int64_t T,
                                         int64_t row, int64_t C)
{
    for (int64_t c = 0; c < C; c += DROPOUT_COLS) {
        const int64_t n = C - c < DROPOUT_COLS ? C - c : DROPOUT_COLS;
        float kept[DROPOUT_COLS];
        draw_row(kept, m, T, row, c, n);
#pragma omp simd
        for (int64_t k = c; k < c + n; k++) {
            const float v = act_load(x + k);
            act_store(y + k, act_round(v * activation_normal(v).below) * kept[k - c]);
        }
    }
}

/* sum (C) = a + dropout(r) of such a row. */
static inline void dropout_add_row_(act_t *sum, const act_t *a, const act_t *r, const DrawMask *m,
                                    int64_t T, int64_t row, int64_t C)
{
    for (int64_t c = 0; c < C; c += DROPOUT_COLS) {
        const int64_t n = C - c < DROPOUT_COLS ? C - c : DROPOUT_COLS;
        float kept[DROPOUT_COLS];
        draw_row(kept, m, T, row, c, n);
#pragma omp simd
        for (int64_t k = 0; k < n; k++)          /* by itself: no fused multiply-add of both */
            kept[k] = act_round(act_load(r + c + k) * kept[k]);
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            act_store(sum + c + k, act_load(a + c + k) + kept[k]);
    }
}

static inline void gelu_erf_dropout_fwd(act_t *y, const act_t *x, const uint32_t *noise,
                                        uint32_t site, float p, int64_t rows, int64_t T, int64_t C)
{
    DrawMask m;
    draw_mask(&m, noise, dropout_site(site), p);
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t i = 0; i < rows; i++)
        dropout_gelu_erf_row_(y + i * C, x + i * C, &m, T, i, C);
}

static inline void dropout_add_fwd(act_t *sum, const act_t *r, const act_t *a,
                                   const uint32_t *noise, uint32_t site, float p, int64_t rows,
                                   int64_t T, int64_t C)
{
    DrawMask m;
    draw_mask(&m, noise, dropout_site(site), p);
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t i = 0; i < rows; i++)
        dropout_add_row_(sum + i * C, a + i * C, r + i * C, &m, T, i, C);
}

/* y = LN(sum) */
static inline void dropout_add_layernorm_fwd(act_t *sum, act_t *restrict y, float *restrict mean,
                                             float *restrict rstd, const act_t *a, const act_t *r,
                                             const uint32_t *noise, uint32_t site, float p,
                                             int64_t T, const wt_t *restrict w,
                                             const wt_t *restrict b, int64_t rows, int64_t C,
                                             float eps)
{
    DrawMask m;
    draw_mask(&m, noise, dropout_site(site), p);
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t i = 0; i < rows; i++) {
        dropout_add_row_(sum + i * C, a + i * C, r + i * C, &m, T, i, C);
        layernorm_row(y + i * C, mean ? mean + i : NULL, rstd ? rstd + i : NULL, sum + i * C, w, b,
                      C, eps);
    }
}

#endif
