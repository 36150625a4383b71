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

/* dx of rows begin .. end - 1; part (N): their sum. `erf` is a constant. */
static inline __attribute__((always_inline)) void
bias_rows_part(float *restrict part, act_t *dx, const act_t *dy, const act_t *x, int64_t begin,
               int64_t end, int64_t N, int erf)
{
    memset(part, 0, sizeof(float) * (size_t)N);
    for (int64_t at = begin * N; at < end * N; at += N)
#pragma omp simd
        for (int64_t j = 0; j < N; j++) {
            const float v = act_load(x + at + j);
            const float slope = erf ? gelu_erf_slope(v) : gelu_at(v).slope;
            const float d = act_round(act_load(dy + at + j) * slope);
            act_store(dx + at + j, d);
            part[j] += d;
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
