/* bias_rows.h -- gradients through dropout and GELU (exact or tanh form), and their column sums,
 * which are the gradient of the bias before them.
 *
 * In:    dy, x (rows, N) act_t; noise, site: see philox.h.
 * Out:   dx (rows, N) act_t, which may be dy or x; db (N) fp32, overwritten (beta 0) or added to.
 * Keeps: the bits of dropout_fwd, gelu_erf_bwd or gelu_bwd, and bias_grad in turn: each rounds to
 *        act_t. ws of all: bias_grad_workspace(N) bytes. */
#ifndef DIECAST_KERNELS_BIAS_ROWS_H
#define DIECAST_KERNELS_BIAS_ROWS_H

#include <stdbool.h>

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

/* Operands of a call. */
typedef struct {
    act_t *dx;
    const act_t *dy, *x;         /* x: NULL: BIAS_ROWS_PLAIN */
    DrawMask mask;
    int64_t rows, T, N;
} BiasRows;

/* Block p of the rows; `drops` and `form` are constants of the caller. */
static inline __attribute__((always_inline)) void
bias_rows_block_(float *parts, int64_t p, const BiasRows *g, bool drops, BiasRowsForm form)
{
    const int64_t N = g->N;
    float *part = bias_part(parts, p, N);
    for (int64_t i = bias_part_begin(p, g->rows); i < bias_part_begin(p + 1, g->rows); i++)
        for (int64_t c = 0; c < N; c += DROPOUT_COLS) {
            const int64_t n = N - c < DROPOUT_COLS ? N - c : DROPOUT_COLS, at = i * N + c;
            float kept[DROPOUT_COLS];
            if (drops)
                draw_row(kept, &g->mask, g->T, i, c, n);
            bias_rows_piece_(part + c, g->dx + at, g->dy + at, g->x ? g->x + at : NULL,
                             drops ? kept : NULL, n, form);
        }
}

/* All blocks, by block(), and their sum. */
static inline void bias_rows_(float *db, const BiasRows *g,
                              void (*block)(float *parts, int64_t p, const BiasRows *g), int beta,
                              void *ws)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < REDUCE_PARTS; p++)
            block(ws, p, g);
        bias_parts_sum(db, ws, g->N, beta);
    }
}

static inline void dropout_block_(float *parts, int64_t p, const BiasRows *g)
{
    bias_rows_block_(parts, p, g, true, BIAS_ROWS_PLAIN);
}

static inline void dropout_bias_grad(float *db, act_t *dx, const act_t *dy, const uint32_t *noise,
                                     uint32_t site, float p, int64_t rows, int64_t T, int64_t N,
                                     int beta, void *ws)
{
    BiasRows g = { .dx = dx, .dy = dy, .rows = rows, .T = T, .N = N };
    draw_mask(&g.mask, noise, dropout_site(site), p);
    bias_rows_(db, &g, dropout_block_, beta, ws);
}

static inline void gelu_erf_block_(float *parts, int64_t p, const BiasRows *g)
{
    bias_rows_block_(parts, p, g, false, BIAS_ROWS_GELU_ERF);
}

static inline void gelu_erf_bwd_bias(float *db, act_t *dx, const act_t *dy, const act_t *x,
                                     int64_t rows, int64_t N, int beta, void *ws)
{
    const BiasRows g = { .dx = dx, .dy = dy, .x = x, .rows = rows, .N = N };
    bias_rows_(db, &g, gelu_erf_block_, beta, ws);
}

static inline void gelu_block_(float *parts, int64_t p, const BiasRows *g)
{
    bias_rows_block_(parts, p, g, false, BIAS_ROWS_GELU);
}

static inline void gelu_bwd_bias(float *db, act_t *dx, const act_t *dy, const act_t *x,
                                 int64_t rows, int64_t N, int beta, void *ws)
{
    const BiasRows g = { .dx = dx, .dy = dy, .x = x, .rows = rows, .N = N };
    bias_rows_(db, &g, gelu_block_, beta, ws);
}

static inline void dropout_gelu_erf_block_(float *parts, int64_t p, const BiasRows *g)
{
    bias_rows_block_(parts, p, g, true, BIAS_ROWS_GELU_ERF);
}

static inline void dropout_gelu_erf_bwd_bias(float *db, act_t *dx, const act_t *dy, const act_t *x,
                                             const uint32_t *noise, uint32_t site, float p,
                                             int64_t rows, int64_t T, int64_t N, int beta, void *ws)
{
    BiasRows g = { .dx = dx, .dy = dy, .x = x, .rows = rows, .T = T, .N = N };
    draw_mask(&g.mask, noise, dropout_site(site), p);
    bias_rows_(db, &g, dropout_gelu_erf_block_, beta, ws);
}

#endif
