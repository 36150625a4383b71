/* linear.h -- linear layer and its gradients; w is stored (out, in) as in torch.
 *
 * In:    x (rows, in), dy (rows, out) act_t; the Gemms give the shapes and were passed to
 *        gemm_init.
 * Out:   y = x w^T + b; dx = dy w; dw = dy^T x and db = column sums of dy in fp32.
 * Keeps: fp32 sums, one rounding; the order in db does not depend on the number of threads. */
#ifndef DIECAST_KERNELS_LINEAR_H
#define DIECAST_KERNELS_LINEAR_H

#include "gemm.h"

/* mm: { .m = rows, .n = out, .k = in, .form = GEMM_NT } */
static inline void linear_fwd(act_t *y, const act_t *x, const wt_t *w, Gemm *mm, void *ws)
{
    gemm_run(mm, y, x, w, NULL, ws);
}

/* mm: as above with .bias = 1 */
static inline void linear_bias_fwd(act_t *y, const act_t *x, const wt_t *w, const wt_t *b, Gemm *mm,
                                   void *ws)
{
    gemm_run(mm, y, x, w, b, ws);
}

/* fp32 logits; mm: { .m = rows, .n = V, .k = in, .form = GEMM_NT, .out_f32 = 1 } */
static inline void logits_fwd(float *logits, const act_t *x, const wt_t *w, Gemm *mm, void *ws)
{
    gemm_run(mm, logits, x, w, NULL, ws);
}

/* The same with a bias; mm: as above with .bias = 1 */
static inline void logits_bias_fwd(float *logits, const act_t *x, const wt_t *w, const wt_t *b,
                                   Gemm *mm, void *ws)
{
    gemm_run(mm, logits, x, w, b, ws);
}

/* mm: { .m = rows, .n = in, .k = out, .form = GEMM_NN } */
static inline void linear_dx(act_t *dx, const act_t *dy, const wt_t *w, Gemm *mm, void *ws)
{
    gemm_run(mm, dx, dy, w, NULL, ws);
}

/* mm: { .m = out, .n = in, .k = rows, .form = GEMM_TN, .out_f32 = 1, .beta = 0 or 1 } */
static inline void linear_dw(float *dw, const act_t *dy, const act_t *x, Gemm *mm, void *ws)
{
    gemm_run(mm, dw, dy, x, NULL, ws);
}

/* Column sums are those of REDUCE_PARTS blocks of rows, each summed in order, then of the blocks in
 * order. parts: (REDUCE_PARTS, N). */
static inline int64_t bias_part_begin(int64_t p, int64_t rows)
{
    const int64_t begin = p * ((rows + REDUCE_PARTS - 1) / REDUCE_PARTS);
    return begin < rows ? begin : rows;
}

/* Returns the zeroed sums (N) of block p. */
static inline float *bias_part(float *parts, int64_t p, int64_t N)
{
    return memset(parts + p * N, 0, sizeof *parts * (size_t)N);
}

/* Called by all threads of a parallel region. */
static inline void bias_parts_sum(float *restrict db, const float *restrict parts, int64_t N,
                                  int beta)
{
#pragma omp for simd schedule(static)
    for (int64_t j = 0; j < N; j++) {
        float sum = beta ? db[j] : 0;
        for (int p = 0; p < REDUCE_PARTS; p++)
            sum += parts[p * N + j];
        db[j] = sum;
    }
}

/* db = column sums of dy (rows, N), or added to db (beta 1). */
static inline void bias_grad(float *restrict db, const act_t *restrict dy, int64_t rows, int64_t N,
                             int beta, void *restrict ws)
{
    float *parts = ws;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t p = 0; p < REDUCE_PARTS; p++) {
            float *part = bias_part(parts, p, N);
            for (int64_t i = bias_part_begin(p, rows); i < bias_part_begin(p + 1, rows); i++) {
#pragma omp simd
                for (int64_t j = 0; j < N; j++)
                    part[j] += act_load(dy + i * N + j);
            }
        }
        bias_parts_sum(db, parts, N, beta);
    }
}

#endif
