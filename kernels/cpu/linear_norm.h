/* linear_norm.h -- linear layers in fp32 and the residual sum or norm after them, forward and
 * backward, row by row.
 *
 * In:    x (rows, in), dy (rows, out), w (out, in); products that gemm_rows.h takes, passed to
 *        gemm_init. a, res, and the input of a norm: (rows, N), N columns of the product.
 * Out:   as of layernorm.h and rmsnorm.h; sums of products are not stored.
 * Keeps: the bits of linear_fwd or linear_dx, dropout_fwd, add_fwd, and these norms in turn. Of
 *        functions with column sums rows % REDUCE_PARTS is 0. */
#ifndef DIECAST_KERNELS_LINEAR_NORM_H
#define DIECAST_KERNELS_LINEAR_NORM_H

#include "dropout_rows.h"
#include "gemm_rows.h"
#include "rmsnorm.h"

/* ---- forward --------------------------------------------------------------------------------- */

/* Operands of the functions of rows. */
typedef struct {
    act_t *sum, *y;
    float *mean, *rstd;          /* or NULL */
    const act_t *a;
    const wt_t *w, *b;           /* of the norm */
    int64_t N, T;
    DrawMask mask;               /* of rows of T */
    float eps;
    int plus;                    /* see rmsnorm.h */
} LinearNorm;

/* Norm after the residual sum. */
typedef enum { LINEAR_NORM_NONE, LINEAR_NORM_LAYER, LINEAR_NORM_RMS } LinearNormForm;

/* Rows of c from row `first` on; `drops` and `form` are constants of the caller. */
static inline __attribute__((always_inline)) void
linear_norm_rows_(const LinearNorm *g, const act_t *restrict c, int64_t first, int64_t rows,
                  bool drops, LinearNormForm form)
{
    const int64_t N = g->N;
    for (int64_t i = first; i < first + rows; i++, c += N) {
        const act_t *a = g->a + i * N;
        act_t *sum = g->sum + i * N, *y = form ? g->y + i * N : NULL;
        float *rstd = g->rstd ? g->rstd + i : NULL;
        if (drops) {
            dropout_add_row_(sum, a, c, &g->mask, g->T, i, N);
        } else {
#pragma omp simd
            for (int64_t k = 0; k < N; k++)
                sum[k] = a[k] + c[k];
        }
        if (form == LINEAR_NORM_LAYER)
            layernorm_row(y, g->mean ? g->mean + i : NULL, rstd, sum, g->w, g->b, N, g->eps);
        else if (form == LINEAR_NORM_RMS)
            rmsnorm_row(y, rstd, sum, g->w, N, g->eps, g->plus);
    }
}

static inline void linear_norm_add_(const void *with, act_t *c, int64_t first, int64_t rows,
                                    int64_t part)
{
    (void)part;
    linear_norm_rows_(with, c, first, rows, false, LINEAR_NORM_NONE);
}

static inline void linear_norm_dropout_add_(const void *with, act_t *c, int64_t first, int64_t rows,
                                            int64_t part)
{
    (void)part;
    linear_norm_rows_(with, c, first, rows, true, LINEAR_NORM_NONE);
}

static inline void linear_norm_add_layernorm_(const void *with, act_t *c, int64_t first,
                                              int64_t rows, int64_t part)
{
    (void)part;
    linear_norm_rows_(with, c, first, rows, false, LINEAR_NORM_LAYER);
}

static inline void linear_norm_dropout_add_layernorm_(const void *with, act_t *c, int64_t first,
                                                      int64_t rows, int64_t part)
{
    (void)part;
    linear_norm_rows_(with, c, first, rows, true, LINEAR_NORM_LAYER);
}

static inline void linear_norm_add_rmsnorm_(const void *with, act_t *c, int64_t first, int64_t rows,
                                            int64_t part)
{
    (void)part;
    linear_norm_rows_(with, c, first, rows, false, LINEAR_NORM_RMS);
}

/* The functions of rows after x w^T + b; b: NULL: without; ws: GEMM_WORKSPACE bytes. */
static inline void linear_norm_run_(GemmRowsFunction *run, const LinearNorm *with, const act_t *x,
                                    const wt_t *w, const wt_t *b, Gemm *mm, void *ws)
{
    gemm_rows_run(mm, NULL, x, w, b,
                  &(GemmRows){ .run = run, .with = with, .reads = with->a, .width = mm->n }, ws);
}

/* sum = a + x w^T + b; sum may be a. mm, here and below: as of linear_bias_fwd, of linear_fwd
 * without b; ws: GEMM_WORKSPACE bytes. */
static inline void linear_add_fwd(act_t *sum, const act_t *a, const act_t *x, const wt_t *w,
                                  const wt_t *b, Gemm *mm, void *ws)
{
    linear_norm_run_(linear_norm_add_, &(LinearNorm){ .sum = sum, .a = a, .N = mm->n }, x, w, b, mm,
                     ws);
}

/* sum = a + dropout(x w^T + b), of rows of T; noise, site: see philox.h. */
static inline void linear_dropout_add_fwd(act_t *sum, const act_t *a, const act_t *x, const wt_t *w,
                                          const wt_t *b, const uint32_t *noise, uint32_t site,
                                          float p, int64_t T, Gemm *mm, void *ws)
{
    LinearNorm with = { .sum = sum, .a = a, .N = mm->n, .T = T };
    draw_mask(&with.mask, noise, dropout_site(site), p);
    linear_norm_run_(linear_norm_dropout_add_, &with, x, w, b, mm, ws);
}

/* y = LN(sum), sum = a + x w^T + b */
static inline void linear_add_layernorm_fwd(act_t *sum, act_t *y, float *mean, float *rstd,
                                            const act_t *a, const act_t *x, const wt_t *w,
                                            const wt_t *b, const wt_t *norm_w, const wt_t *norm_b,
                                            float eps, Gemm *mm, void *ws)
{
    const LinearNorm with = { .sum = sum, .y = y, .mean = mean, .rstd = rstd, .a = a, .w = norm_w,
                              .b = norm_b, .N = mm->n, .eps = eps };
    linear_norm_run_(linear_norm_add_layernorm_, &with, x, w, b, mm, ws);
}

static inline void linear_dropout_add_layernorm_fwd(act_t *sum, act_t *y, float *mean, float *rstd,
                                                    const act_t *a, const act_t *x, const wt_t *w,
                                                    const wt_t *b, const uint32_t *noise,
                                                    uint32_t site, float p, int64_t T,
                                                    const wt_t *norm_w, const wt_t *norm_b,
                                                    float eps, Gemm *mm, void *ws)
{
    LinearNorm with = { .sum = sum, .y = y, .mean = mean, .rstd = rstd, .a = a, .w = norm_w,
                        .b = norm_b, .N = mm->n, .T = T, .eps = eps };
    draw_mask(&with.mask, noise, dropout_site(site), p);
    linear_norm_run_(linear_norm_dropout_add_layernorm_, &with, x, w, b, mm, ws);
}

/* y = RMS(sum) w, or RMS(sum) (1 + w), sum = a + x w^T + b */
static inline void linear_add_rmsnorm_fwd(act_t *sum, act_t *y, float *rstd, const act_t *a,
                                          const act_t *x, const wt_t *w, const wt_t *b,
                                          const wt_t *norm_w, float eps, int plus, Gemm *mm,
                                          void *ws)
{
    const LinearNorm with = { .sum = sum, .y = y, .rstd = rstd, .a = a, .w = norm_w, .N = mm->n,
                              .eps = eps, .plus = plus };
    linear_norm_run_(linear_norm_add_rmsnorm_, &with, x, w, b, mm, ws);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Operands of the gradients; sums of a block of rows: parts (REDUCE_PARTS, stride). */
typedef struct {
    act_t *dx;
    const act_t *add, *res;      /* added before and after the norm's gradient, or NULL */
    const act_t *x;              /* input of the norm */
    const wt_t *w;
    const float *mean, *rstd;
    float *parts;
    int64_t N, stride;
    int plus;
} LinearNormBwd;

/* The gradient of LayerNorm of each row of c, its dw and db; dx's own column sums if `sums`. */
static inline __attribute__((always_inline)) void
linear_norm_layernorm_bwd_(const LinearNormBwd *g, act_t *c, int64_t first, int64_t rows,
                           int64_t part, bool sums)
{
    const int64_t N = g->N;
    float *dw = g->parts + part * g->stride, *db = dw + N, *restrict of_dx = db + N;
    for (int64_t i = first; i < first + rows; i++, c += N) {
        act_t *dx = g->dx + i * N;
        if (g->add) {
            const act_t *add = g->add + i * N;
#pragma omp simd
            for (int64_t k = 0; k < N; k++)
                c[k] += add[k];
        }
        layernorm_bwd_row(dw, db, dx, c, g->x + i * N, g->w, g->mean[i], g->rstd[i],
                          g->res ? g->res + i * N : NULL, N);
        if (sums) {
#pragma omp simd
            for (int64_t k = 0; k < N; k++)
                of_dx[k] += dx[k];
        }
    }
}

static inline void linear_norm_layernorm_bwd_rows_(const void *with, act_t *c, int64_t first,
                                                   int64_t rows, int64_t part)
{
    linear_norm_layernorm_bwd_(with, c, first, rows, part, false);
}

static inline void linear_norm_layernorm_bwd_bias_rows_(const void *with, act_t *c, int64_t first,
                                                        int64_t rows, int64_t part)
{
    linear_norm_layernorm_bwd_(with, c, first, rows, part, true);
}

static inline void linear_norm_rmsnorm_bwd_rows_(const void *with, act_t *c, int64_t first,
                                                 int64_t rows, int64_t part)
{
    const LinearNormBwd *g = with;
    const int64_t N = g->N;
    for (int64_t i = first; i < first + rows; i++, c += N)
        rmsnorm_bwd_row(g->parts + part * g->stride, g->dx + i * N, c, g->x + i * N, g->w,
                        g->rstd[i], g->res ? g->res + i * N : NULL, N, g->plus);
}

/* ws: GEMM_WORKSPACE bytes and those of the parts. */
static inline void linear_norm_bwd_(GemmRowsFunction *run, LinearNormBwd *with, const act_t *dy,
                                    const wt_t *w, Gemm *mm, void *ws)
{
    with->N = mm->n;
    with->parts = (float *)(void *)((char *)ws + GEMM_WORKSPACE);
    memset(with->parts, 0, sizeof(float) * REDUCE_PARTS * (size_t)with->stride);
    gemm_rows_run(mm, NULL, dy, w, NULL,
                  &(GemmRows){ .run = run, .with = with, .reads = with->x, .width = mm->n,
                               .sums = true },
                  ws);
}

/* dx = res + the gradient of LN at x, of its gradient dy w + add; add, res: NULL: without. dw, db:
 * of norm_w and the norm's bias, overwritten (beta 0) or added to (1). mm, here and below: as of
 * linear_dx; ws: linear_layernorm_bwd_workspace(N) bytes. dx may be add or res. */
static inline void linear_dx_layernorm_bwd(float *dw, float *db, act_t *dx, const act_t *dy,
                                           const wt_t *w, const act_t *add, const act_t *x,
                                           const wt_t *norm_w, const float *mean,
                                           const float *rstd, const act_t *res, Gemm *mm, int beta,
                                           void *ws)
{
    LinearNormBwd with = { .dx = dx, .add = add, .res = res, .x = x, .w = norm_w, .mean = mean,
                           .rstd = rstd, .stride = 2 * mm->n };
    linear_norm_bwd_(linear_norm_layernorm_bwd_rows_, &with, dy, w, mm, ws);
    part_sum(dw, with.parts, with.stride, with.N, beta);
    part_sum(db, with.parts + with.N, with.stride, with.N, beta);
}

/* And bias = column sums of dx, of bias_beta. ws: linear_layernorm_bwd_bias_workspace(N) bytes. */
static inline void linear_dx_layernorm_bwd_bias(float *bias, float *dw, float *db, act_t *dx,
                                                const act_t *dy, const wt_t *w, const act_t *add,
                                                const act_t *x, const wt_t *norm_w,
                                                const float *mean, const float *rstd,
                                                const act_t *res, Gemm *mm, int beta,
                                                int bias_beta, void *ws)
{
    LinearNormBwd with = { .dx = dx, .add = add, .res = res, .x = x, .w = norm_w, .mean = mean,
                           .rstd = rstd, .stride = 3 * mm->n };
    linear_norm_bwd_(linear_norm_layernorm_bwd_bias_rows_, &with, dy, w, mm, ws);
    part_sum(dw, with.parts, with.stride, with.N, beta);
    part_sum(db, with.parts + with.N, with.stride, with.N, beta);
    part_sum(bias, with.parts + 2 * with.N, with.stride, with.N, bias_beta);
}

/* dx = res + the gradient of RMSNorm at x, of its gradient dy w; dw: of norm_w. ws:
 * linear_rmsnorm_bwd_workspace(N) bytes. dx may be res. */
static inline void linear_dx_rmsnorm_bwd_add(float *dw, act_t *dx, const act_t *dy, const wt_t *w,
                                             const act_t *x, const wt_t *norm_w, const float *rstd,
                                             const act_t *res, int plus, Gemm *mm, int beta,
                                             void *ws)
{
    LinearNormBwd with = { .dx = dx, .res = res, .x = x, .w = norm_w, .rstd = rstd,
                           .stride = mm->n, .plus = plus };
    linear_norm_bwd_(linear_norm_rmsnorm_bwd_rows_, &with, dy, w, mm, ws);
    part_sum(dw, with.parts, with.stride, with.N, beta);
}

#endif
