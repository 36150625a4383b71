/* squared.h -- squared error and its gradient.
 *
 * In:    y (rows, V), target (rows, V) fp32, NaN: none.
 * Out:   loss (rows) fp32, the sum over V; dy (rows, V) of scale[0] * the losses.
 * Keeps: fp32 inside, sums in order. dy may be y. */
#ifndef DIECAST_KERNELS_SQUARED_H
#define DIECAST_KERNELS_SQUARED_H

#include "types.h"

/* y - target; 0 without one. */
static inline float squared_error_(const act_t *y, float target)
{
    return target == target ? act_load(y) - target : 0;
}

static inline void squared_fwd(float *loss, const act_t *y, const float *target, int64_t rows,
                               int64_t V)
{
#pragma omp parallel for schedule(static) if (rows * V >= PARALLEL_MIN)
    for (int64_t i = 0; i < rows; i++) {
        float sum = 0;
        for (int64_t v = i * V; v < (i + 1) * V; v++) {
            float e = squared_error_(y + v, target[v]);
            sum += e * e;
        }
        loss[i] = sum;
    }
}

static inline void squared_bwd(float *loss, act_t *dy, const act_t *y, const float *target,
                               const float *scale, int64_t rows, int64_t V)
{
#pragma omp parallel for schedule(static) if (rows * V >= PARALLEL_MIN)
    for (int64_t i = 0; i < rows; i++) {
        float sum = 0;
        for (int64_t v = i * V; v < (i + 1) * V; v++) {
            float e = squared_error_(y + v, target[v]);
            sum += e * e;
            act_store(dy + v, 2 * e * scale[0]);
        }
        loss[i] = sum;
    }
}

/* sum (B) of loss (B, T) */
static inline void sum_places(float *sum, const float *loss, int64_t B, int64_t T)
{
    for (int64_t b = 0; b < B; b++) {
        sum[b] = 0;
        for (int64_t t = 0; t < T; t++)
            sum[b] += loss[b * T + t];
    }
}

#endif
