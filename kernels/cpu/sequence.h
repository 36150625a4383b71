/* sequence.h -- sequence log-probabilities from token losses, and their gradient.
 *
 * In:    loss (N) fp32 and rows (N) int32 of a head that only processes rows with a target:
 *        their positions in (B, T), ascending, -1 after the last; coef (B) fp32.
 * Out:   lp (B) fp32: minus the sum, or mean, of a sequence's losses, 0 without rows; counts
 *        (B) int32: its rows; weights (N) fp32: gradient by each row's loss where the gradient
 *        by lp is coef.
 * Keeps: sums in double, rows in order. */
#ifndef DIECAST_KERNELS_SEQUENCE_H
#define DIECAST_KERNELS_SEQUENCE_H

#include "types.h"

/* Index of the first row at or after that position; -1 sorts last. */
static inline int64_t seq_first_(const int32_t *rows, int64_t n, int64_t place)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t mid = (low + high) / 2;
        if (rows[mid] >= 0 && rows[mid] < place)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static inline void seq_logp(float *restrict lp, int32_t *restrict counts,
                            const float *restrict loss, const int32_t *restrict rows, int64_t n,
                            int64_t B, int64_t T, int mean)
{
    for (int64_t b = 0; b < B; b++) {
        const int64_t first = seq_first_(rows, n, b * T), last = seq_first_(rows, n, (b + 1) * T);
        double sum = 0;
        for (int64_t i = first; i < last; i++)
            sum += loss[i];
        counts[b] = (int32_t)(last - first);
        lp[b] = first == last ? 0 : (float)(-sum / (mean ? (double)(last - first) : 1));
    }
}

static inline void seq_spread(float *restrict weights, const float *restrict coef,
                              const int32_t *restrict counts, const int32_t *restrict rows,
                              int64_t n, int64_t T, int mean)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t b = rows[i] < 0 ? 0 : rows[i] / T;
        weights[i] = rows[i] < 0 ? 0 : -coef[b] / (mean ? (float)counts[b] : 1);
    }
}

/* weights (n): weight divided by the number of the sequence's rows. */
static inline void seq_share(float *restrict weights, const int32_t *restrict rows, int64_t n,
                             int64_t T, float weight)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t b = rows[i] < 0 ? 0 : rows[i] / T;
        const int64_t of = seq_first_(rows, n, (b + 1) * T) - seq_first_(rows, n, b * T);
        weights[i] = rows[i] < 0 ? 0 : weight / (float)of;
    }
}

/* y (n, C) = x, each row times its weight; y may be x. */
static inline void scale_rows(act_t *y, const act_t *x, const float *weights, int64_t n, int64_t C)
{
#pragma omp parallel for schedule(static) if (n * C >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
#pragma omp simd
        for (int64_t c = i * C; c < (i + 1) * C; c++)
            act_store(y + c, weights[i] * act_load(x + c));
}

#endif
