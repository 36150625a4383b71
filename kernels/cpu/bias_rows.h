/* bias_rows.h -- gradients through dropout and GELU (exact or tanh form), and their column sums,
 * which are the gradient of the bias before them.
 *
 * In:    dy, x (rows, N) act_t; noise, site: see philox.h.
 * Out:   dx (rows, N) act_t, which may be dy or x; db (N) fp32, overwritten (beta 0) or added to.
 * Keeps: the bits of dropout_fwd, gelu_erf_bwd or gelu_bwd, and bias_grad in turn: each rounds to
 *        act_t. ws of all: bias_grad_workspace(N) bytes. */
#ifndef DIECAST_KERNELS_BIAS_ROWS_H
#define DIECAST_KERNELS_BIAS_ROWS_H

#include "activation.h"
#include "dropout.h"
#include "linear.h"
#include "pointwise.h"

/* Derivative of the op through which the gradient goes after the mask. */
typedef enum { BIAS_ROWS_PLAIN, BIAS_ROWS_GELU_ERF, BIAS_ROWS_GELU } BiasRowsForm;

/* dx (n) = dy, times kept unless NULL, times the derivative at x; added to part (n). */
static inline __attribute__((always_inline)) void
bias_rows_piece_(float *restrict part, act_t *dx, const act_t *dy, const act_t *x,
                 const float *kept, int64_t n, BiasRowsForm form)
{
#pragma omp simd
    for (int64_t k = 0; k < n; k++) {
        float d = act_load(dy + k);
        if (kept)
            d = act_round(d * kept[k]);
        if (form == BIAS_ROWS_GELU_ERF)
            d *= gelu_erf_slope(act_load(x + k));
        else if (form == BIAS_ROWS_GELU)
            d *= gelu_at(act_load(x + k)).slope;
        d = act_round(d);
        act_store(dx + k, d);
        part[k] += d;
    }
}

/* Block p of the rows. mask NULL: nothing is dropped; x NULL: BIAS_ROWS_PLAIN. */
static inline __attribute__((always_inline)) void
bias_rows_block_(float *parts, int64_t p, act_t *dx, const act_t *dy, const act_t *x,
                 const DrawMask *mask, int64_t rows, int64_t T, int64_t N, BiasRowsForm form)
{
    float *part = bias_part(parts, p, N);
    for (int64_t i = bias_part_begin(p, rows); i < bias_part_begin(p + 1, rows); i++)
        for (int64_t c = 0; c < N; c += DROPOUT_COLS) {
            const int64_t n = N - c < DROPOUT_COLS ? N - c : DROPOUT_COLS, at = i * N + c;
            float kept[DROPOUT_COLS];
            if (mask)
                draw_row(kept, mask, T, i, c, n);
            bias_rows_piece_(part + c, dx + at, dy + at, x ? x + at : NULL, mask ? kept : NULL, n,
                             form);
        }
}

static inline void dropout_bias_grad(float *db, act_t *dx, const act_t *dy, const uint32_t *noise,
                                     uint32_t site, float p, int64_t rows, int64_t T, int64_t N,
                                     int beta, void *ws)
{
    DrawMask mask;
    draw_mask(&mask, noise, dropout_site(site), p);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t b = 0; b < REDUCE_PARTS; b++)
            bias_rows_block_(ws, b, dx, dy, NULL, &mask, rows, T, N, BIAS_ROWS_PLAIN);
        bias_parts_sum(db, ws, N, beta);
    }
}

static inline void gelu_erf_bwd_bias(float *db, act_t *dx, const act_t *dy, const act_t *x,
                                     int64_t rows, int64_t N, int beta, void *ws)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t b = 0; b < REDUCE_PARTS; b++)
            bias_rows_block_(ws, b, dx, dy, x, NULL, rows, 0, N, BIAS_ROWS_GELU_ERF);
        bias_parts_sum(db, ws, N, beta);
    }
}

static inline void gelu_bwd_bias(float *db, act_t *dx, const act_t *dy, const act_t *x,
                                 int64_t rows, int64_t N, int beta, void *ws)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t b = 0; b < REDUCE_PARTS; b++)
            bias_rows_block_(ws, b, dx, dy, x, NULL, rows, 0, N, BIAS_ROWS_GELU);
        bias_parts_sum(db, ws, N, beta);
    }
}

static inline void dropout_gelu_erf_bwd_bias(float *db, act_t *dx, const act_t *dy, const act_t *x,
                                             const uint32_t *noise, uint32_t site, float p,
                                             int64_t rows, int64_t T, int64_t N, int beta, void *ws)
{
    DrawMask mask;
    draw_mask(&mask, noise, dropout_site(site), p);
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t b = 0; b < REDUCE_PARTS; b++)
            bias_rows_block_(ws, b, dx, dy, x, &mask, rows, T, N, BIAS_ROWS_GELU_ERF);
        bias_parts_sum(db, ws, N, beta);
    }
}

#endif
