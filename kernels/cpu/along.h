/* along.h -- derivatives of the losses of single samples along a gradient v: by differences of the
 * losses at moved parameters, or by products with what a layer gives of v.
 *
 * In:    norm[0] = |v|; scale[0]: what the losses of a backward pass are times.
 * Out:   along, the entries of runtime/along.h; slope (S) doubles, added to.
 * Keeps: a v that is not finite makes the slopes NaN. Sums in double, in an order that n and S decide. */
#ifndef DIECAST_KERNELS_ALONG_H
#define DIECAST_KERNELS_ALONG_H

#include <math.h>

#include "../../runtime/along.h"
#include "types.h"
#include "workspace.h"

#ifdef KERNEL_REFERENCE
#include "../reference/along.h"
#endif

/* scale[0] is 0 where there are no samples. */
static inline void direction(float *along, const float *norm, const float *scale)
{
    const int finite = isfinite(norm[0]);
    along[ALONG_EPS] = finite ? 0.01f / (norm[0] + 1e-15f) : NAN;
    along[ALONG_SIDE] = 1;
    along[ALONG_TAKEN] = 1;
    along[ALONG_BACK] = !finite ? NAN : scale[0] != 0 ? 1.0f / scale[0] : 0;
}

static inline void side(float *along, int minus)
{
    along[ALONG_SIDE] = minus ? -1 : 1;
}

/* y = x, bit for bit */
static inline void keep(float *restrict y, const float *restrict x, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
}

/* w = kept, moved along v to the side that is next */
static inline void shift(float *restrict w, const float *restrict v, const float *restrict kept,
                         const float *along, int64_t n)
{
    const float step = along[ALONG_SIDE] * along[ALONG_EPS];
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        w[i] = kept[i] + step * v[i];
}

/* v as products of 16-bit activations read it */
static inline void direction_cast(act_t *restrict y, const float *restrict v, const float *along,
                                  int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(y + i, along[ALONG_TAKEN] * v[i]);
}

/* The losses of samples at parameters moved to one side; behind both sides slope is the derivative. */
static inline void slope_loss(double *slope, const float *loss, const float *along, int64_t S)
{
    for (int64_t b = 0; b < S; b++)
        slope[b] += along[ALONG_SIDE] * (double)loss[b] / (2 * (double)along[ALONG_EPS]);
}

/* dy, z (n), a sample's elements side by side: the sum of dy z of each sample.
 * ws: slope_dot_workspace(S) */
static inline void slope_dot(double *slope, const act_t *dy, const act_t *z, const float *along,
                             int64_t n, int64_t S, void *ws)
{
    const int64_t each = n / S;
    double *parts = ws;
#pragma omp parallel for schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t p = 0; p < S * REDUCE_PARTS; p++) {
        const int64_t first = p / REDUCE_PARTS * each, part = p % REDUCE_PARTS;
        const int64_t end = first + (part + 1) * each / REDUCE_PARTS;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = first + part * each / REDUCE_PARTS; i < end; i++)
            sum += (double)act_load(dy + i) * (double)act_load(z + i);
        parts[p] = sum;
    }
    for (int64_t b = 0; b < S; b++) {
        double sum = 0;
        for (int64_t part = 0; part < REDUCE_PARTS; part++)
            sum += parts[b * REDUCE_PARTS + part];
        slope[b] += along[ALONG_BACK] * sum;
    }
}

/* The same of the few numbers that are fp32 beside 16-bit activations. */
static inline void slope_dot_f32(double *slope, const float *dy, const float *z, const float *along,
                                 int64_t n, int64_t S)
{
    for (int64_t b = 0; b < S; b++) {
        double sum = 0;
        for (int64_t i = b * (n / S); i < (b + 1) * (n / S); i++)
            sum += (double)dy[i] * z[i];
        slope[b] += along[ALONG_BACK] * sum;
    }
}

/* y = 0 (n) */
static inline void zeros(act_t *y, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(y + i, 0);
}

#endif
