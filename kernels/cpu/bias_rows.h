/* bias_rows.h -- gradients of GELU and their column sums, the gradient of the bias before it.
 *
 * In:    dy, x (rows, N) act_t.
 * Out:   dx (rows, N), which may be dy or x; db (N) fp32, overwritten (beta 0) or added to (1).
 *        ws: bias_grad_workspace(N) bytes.
 * Keeps: the bits of gelu_bwd or gelu_erf_bwd, then bias_grad. */
#ifndef DIECAST_KERNELS_BIAS_ROWS_H
#define DIECAST_KERNELS_BIAS_ROWS_H

#include "activation.h"
#include "linear.h"
#include "pointwise.h"

/* Derivative of the op through which the gradient goes after the mask. */
typedef enum { BIAS_ROWS_PLAIN, BIAS_ROWS_GELU_ERF, BIAS_ROWS_GELU } BiasRowsForm;

/* dx (n) = dy, times kept unless NULL, times the derivative at x; added to part (n). */
static inline __attribute__((always_inline)) void
bias_rows_piece_(float *restrict part, act_t *dx, const act_t *dy, const act_t *x,
                 const float *kept, int64_t n, BiasRowsForm form)
{
    memset(part, 0, sizeof(float) * (size_t)N);
    for (int64_t at = begin * N; at < end * N; at += N)
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

static inline void bias_rows_bwd(float *restrict db, act_t *dx, const act_t *dy, const act_t *x,
                                 int64_t rows, int64_t N, int beta, float *restrict parts, int erf)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < REDUCE_PARTS; p++) {
            float *part = parts + p * N;
            const int64_t begin = bias_begin(p, rows), end = bias_begin(p + 1, rows);
            if (erf)
                bias_rows_part(part, dx, dy, x, begin, end, N, 1);
            else
                bias_rows_part(part, dx, dy, x, begin, end, N, 0);
        }
        bias_sum(db, parts, N, beta);
    }
}

static inline void gelu_bwd_bias(float *restrict db, act_t *dx, const act_t *dy, const act_t *x,
                                 int64_t rows, int64_t N, int beta, void *restrict ws)
{
    bias_rows_bwd(db, dx, dy, x, rows, N, beta, ws, 0);
}

static inline void gelu_erf_bwd_bias(float *restrict db, act_t *dx, const act_t *dy, const act_t *x,
                                     int64_t rows, int64_t N, int beta, void *restrict ws)
{
    bias_rows_bwd(db, dx, dy, x, rows, N, beta, ws, 1);
}

#endif
