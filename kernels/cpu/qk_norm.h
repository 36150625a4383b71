/* qk_norm.h -- QK norm: RMSNorm of each head of q and k (as in Qwen3), and its gradients.
 *
 * In:    x, dy (rows, (NH + 2 KV) D) act_t: q | k | v; w (2 D) wt_t, for heads of q, then of
 *        k.
 * Out:   y like x, v copied; rstd (rows, NH + KV) fp32, NULL if no backward follows; dw (2 D)
 *        fp32; dx overwrites dy.
 * Keeps: a head is a row of rmsnorm.h; in memory, q rows are separated by k and v. */
#ifndef DIECAST_KERNELS_QK_NORM_H
#define DIECAST_KERNELS_QK_NORM_H

#include "rmsnorm.h"

static inline void qk_norm_fwd(act_t *restrict y, float *restrict rstd, const act_t *restrict x,
                               const wt_t *restrict w, int64_t rows, int64_t NH, int64_t KV,
                               int64_t D, float eps, int plus)
{
    const int64_t N = (NH + 2 * KV) * D, heads = NH + KV;
#pragma omp parallel for schedule(static) if (rows * N >= PARALLEL_MIN)
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t h = 0; h < heads; h++)
            rmsnorm_row(y + r * N + h * D, rstd ? rstd + r * heads + h : NULL, x + r * N + h * D,
                        h < NH ? w : w + D, D, eps, plus);
        memcpy(y + r * N + heads * D, x + r * N + heads * D, (size_t)(KV * D) * sizeof *y);
    }
}

/* All heads of a row; pw (2 D) accumulates dw; NULL: frozen weights. */
static inline void qk_norm_bwd_row(float *restrict pw, act_t *d, const act_t *restrict x,
                                   const wt_t *restrict w, const float *restrict rstd, int64_t NH,
                                   int64_t KV, int64_t D, int plus)
{
    for (int64_t h = 0; h < NH + KV; h++) {
        const int64_t of = h < NH ? 0 : D;
        rmsnorm_bwd_row(pw ? pw + of : NULL, d + h * D, d + h * D, x + h * D, w + of, rstd[h], NULL,
                        D, plus);
    }
}

/* Overwrites dw (beta 0) or accumulates (1). ws: qk_norm_bwd_workspace(D) bytes. */
static inline void qk_norm_bwd(float *restrict dw, act_t *d, const act_t *restrict x,
                               const wt_t *restrict w, const float *restrict rstd, int64_t rows,
                               int64_t NH, int64_t KV, int64_t D, int plus, int beta,
                               void *restrict ws)
{
    const int64_t N = (NH + 2 * KV) * D;
    float *parts = ws;                  /* (REDUCE_PARTS, 2 D) */
#pragma omp parallel for schedule(static) if (rows * N >= PARALLEL_MIN)
    for (int64_t part = 0; part < REDUCE_PARTS; part++) {
        float *pw = parts + part * 2 * D;
        memset(pw, 0, (size_t)(2 * D) * sizeof *pw);
        for (int64_t r = part_begin(part, rows); r < part_begin(part + 1, rows); r++)
            qk_norm_bwd_row(pw, d + r * N, x + r * N, w, rstd + r * (NH + KV), NH, KV, D, plus);
    }
    part_sum(dw, parts, 2 * D, 2 * D, beta);
}

/* The same for frozen weights. */
static inline void qk_norm_dx(act_t *d, const act_t *restrict x, const wt_t *restrict w,
                              const float *restrict rstd, int64_t rows, int64_t NH, int64_t KV,
                              int64_t D, int plus)
{
    const int64_t N = (NH + 2 * KV) * D;
#pragma omp parallel for schedule(static) if (rows * N >= PARALLEL_MIN)
    for (int64_t r = 0; r < rows; r++)
        qk_norm_bwd_row(NULL, d + r * N, x + r * N, w, rstd + r * (NH + KV), NH, KV, D, plus);
}

#endif
