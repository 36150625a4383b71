/* linear_rows.h -- linear layers in fp32 and what follows them, row by row: activations, also with
 * dropout, and their gradients, residual gradients.
 *
 * In:    x (rows, in), dy (rows, out); products that gemm_rows.h takes, passed to gemm_init; of the
 *        functions with column sums rows % REDUCE_PARTS is 0.
 * Out:   as of the kernels in turn; the sum of a product is stored only where it is named.
 * Keeps: the bits of these kernels. */
#ifndef DIECAST_KERNELS_LINEAR_ROWS_H
#define DIECAST_KERNELS_LINEAR_ROWS_H

#include "bias_rows.h"
#include "dropout_rows.h"
#include "gemm_rows.h"
#include "pointwise.h"

/* Operands of the functions of rows; N: columns of the product. */
typedef struct {
    act_t *y;                    /* (rows, N), or of a gate (rows, N / 2) or (rows, 2 N) */
    const act_t *x;              /* the input of an activation, the other summand */
    float *parts;                /* (REDUCE_PARTS, N), zeroed */
    int64_t N, T;
    bool erf;                    /* the exact form of GELU, not tanh */
    DrawMask mask;               /* of rows of T */
} LinearRows;

/* ---- forward --------------------------------------------------------------------------------- */

static inline void linear_rows_gelu_(const void *with, act_t *c, int64_t first, int64_t rows,
                                     int64_t part)
{
    const LinearRows *g = with;
    const int64_t n = rows * g->N;
    act_t *restrict y = g->y + first * g->N;
    const act_t *restrict z = c;
    (void)part;
    if (g->erf) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = gelu_erf_value(z[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = gelu_value(z[i]);
    }
}

/* y = gelu(z) in its tanh form, z = x w^T + b; mm: as of linear_bias_fwd; ws: GEMM_WORKSPACE
 * bytes. */
static inline void linear_gelu_fwd(act_t *y, act_t *z, const act_t *x, const wt_t *w, const wt_t *b,
                                   Gemm *mm, void *ws)
{
    const LinearRows with = { .y = y, .N = mm->n };
    gemm_rows_run(mm, z, x, w, b, &(GemmRows){ .run = linear_rows_gelu_, .with = &with }, ws);
}

/* The same in its exact form. */
static inline void linear_gelu_erf_fwd(act_t *y, act_t *z, const act_t *x, const wt_t *w,
                                       const wt_t *b, Gemm *mm, void *ws)
{
    const LinearRows with = { .y = y, .N = mm->n, .erf = true };
    gemm_rows_run(mm, z, x, w, b, &(GemmRows){ .run = linear_rows_gelu_, .with = &with }, ws);
}

static inline void linear_rows_gelu_erf_dropout_(const void *with, act_t *c, int64_t first,
                                                 int64_t rows, int64_t part)
{
    const LinearRows *g = with;
    (void)part;
    for (int64_t i = first; i < first + rows; i++)
        dropout_gelu_erf_row_(g->y + i * g->N, c + (i - first) * g->N, &g->mask, g->T, i, g->N);
}

/* y = dropout(gelu(z)), of rows of T; noise, site: see philox.h. */
static inline void linear_gelu_erf_dropout_fwd(act_t *y, act_t *z, const act_t *x, const wt_t *w,
                                               const wt_t *b, const uint32_t *noise, uint32_t site,
                                               float p, int64_t T, Gemm *mm, void *ws)
{
    LinearRows with = { .y = y, .N = mm->n, .T = T };
    draw_mask(&with.mask, noise, dropout_site(site), p);
    gemm_rows_run(mm, z, x, w, b,
                  &(GemmRows){ .run = linear_rows_gelu_erf_dropout_, .with = &with }, ws);
}

static inline void linear_rows_swiglu_(const void *with, act_t *c, int64_t first, int64_t rows,
                                       int64_t part)
{
    const LinearRows *g = with;
    const int64_t F = g->N / 2;
    (void)part;
    for (int64_t i = 0; i < rows; i++)
        swiglu_row(g->y + (first + i) * F, c + i * g->N, F);
}

/* h (rows, F) = silu(gate) up, gate_up (rows, 2 F) = x w^T; mm: as of linear_fwd. */
static inline void linear_swiglu_fwd(act_t *h, act_t *gate_up, const act_t *x, const wt_t *w,
                                     Gemm *mm, void *ws)
{
    const LinearRows with = { .y = h, .N = mm->n };
    gemm_rows_run(mm, gate_up, x, w, NULL,
                  &(GemmRows){ .run = linear_rows_swiglu_, .with = &with }, ws);
}

/* ---- backward -------------------------------------------------------------------------------- */

static inline void linear_rows_add_(const void *with, act_t *c, int64_t first, int64_t rows,
                                    int64_t part)
{
    const LinearRows *g = with;
    const int64_t at = first * g->N;
    (void)part;
#pragma omp simd
    for (int64_t i = 0; i < rows * g->N; i++)
        g->y[at + i] = c[i] + g->x[at + i];
}

/* dx = dy w + r; mm: as of linear_dx. dx may be r. */
static inline void linear_dx_add(act_t *dx, const act_t *dy, const wt_t *w, const act_t *r,
                                 Gemm *mm, void *ws)
{
    const LinearRows with = { .y = dx, .x = r, .N = mm->n };
    gemm_rows_run(mm, NULL, dy, w, NULL,
                  &(GemmRows){ .run = linear_rows_add_, .with = &with, .reads = r,
                               .width = mm->n },
                  ws);
}

static inline void linear_rows_gelu_bwd_(const void *with, act_t *c, int64_t first, int64_t rows,
                                         int64_t part)
{
    const LinearRows *g = with;
    float *sums = g->parts + part * g->N;
    for (int64_t i = 0, at = first * g->N; i < rows; i++, at += g->N)
        if (g->erf)
            bias_rows_piece_(sums, g->y + at, c + i * g->N, g->x + at, NULL, g->N,
                             BIAS_ROWS_GELU_ERF);
        else
            bias_rows_piece_(sums, g->y + at, c + i * g->N, g->x + at, NULL, g->N, BIAS_ROWS_GELU);
}

/* dx = dy w, times a derivative at x; db = column sums of dx, or added to db (beta 1). */
static inline void linear_dx_sums_(float *db, LinearRows *with, const act_t *dy, const wt_t *w,
                                   GemmRowsFunction *run, Gemm *mm, int beta, void *ws)
{
    with->parts = (float *)(void *)((char *)ws + GEMM_WORKSPACE);
    with->N = mm->n;
    memset(with->parts, 0, (size_t)bias_grad_workspace(mm->n));
    gemm_rows_run(mm, NULL, dy, w, NULL,
                  &(GemmRows){ .run = run, .with = with, .reads = with->x, .width = mm->n,
                               .sums = true },
                  ws);
    bias_parts_sum(db, with->parts, mm->n, beta);
}

/* Of GELU in its tanh form. mm: as of linear_dx; ws: GEMM_WORKSPACE and bias_grad_workspace(in)
 * bytes. dx may be x. */
static inline void linear_dx_gelu_bwd_bias(float *db, act_t *dx, const act_t *dy, const wt_t *w,
                                           const act_t *x, Gemm *mm, int beta, void *ws)
{
    LinearRows with = { .y = dx, .x = x };
    linear_dx_sums_(db, &with, dy, w, linear_rows_gelu_bwd_, mm, beta, ws);
}

/* The same in its exact form. */
static inline void linear_dx_gelu_erf_bwd_bias(float *db, act_t *dx, const act_t *dy,
                                               const wt_t *w, const act_t *x, Gemm *mm, int beta,
                                               void *ws)
{
    LinearRows with = { .y = dx, .x = x, .erf = true };
    linear_dx_sums_(db, &with, dy, w, linear_rows_gelu_bwd_, mm, beta, ws);
}

static inline void linear_rows_swiglu_bwd_(const void *with, act_t *c, int64_t first, int64_t rows,
                                           int64_t part)
{
    const LinearRows *g = with;
    (void)part;
    for (int64_t i = 0, at = 2 * first * g->N; i < rows; i++, at += 2 * g->N)
        swiglu_bwd_row(g->y + at, c + i * g->N, g->x + at, g->N);
}

/* dgate_up (rows, 2 F) = the gradient of SwiGLU at gate_up, of dh = dy w; mm: as of linear_dx.
 * dgate_up may be gate_up. */
static inline void linear_dx_swiglu_bwd(act_t *dgate_up, const act_t *dy, const wt_t *w,
                                        const act_t *gate_up, Gemm *mm, void *ws)
{
    const LinearRows with = { .y = dgate_up, .x = gate_up, .N = mm->n };
    gemm_rows_run(mm, NULL, dy, w, NULL,
                  &(GemmRows){ .run = linear_rows_swiglu_bwd_, .with = &with, .reads = gate_up,
                               .width = 2 * mm->n },
                  ws);
}

#endif
