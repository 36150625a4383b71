/* jvp.h -- per-sample Jacobian-vector products: derivatives of the samples' losses along a
 * gradient v, by finite differences of the losses at shifted parameters, or by dot products
 * with a layer's response to v.
 *
 * In:    norm[0] = |v|; scale[0]: the loss scale of a backward pass.
 * Out:   tangent, the entries of runtime/jvp.h; jvp (S) doubles, accumulated.
 * Keeps: a non-finite v gives NaN products. Sums in double, in an order fixed by n and S. */
#ifndef DIECAST_KERNELS_JVP_H
#define DIECAST_KERNELS_JVP_H

#include <math.h>

#include "../../runtime/jvp.h"
#include "types.h"
#include "workspace.h"

/* scale[0] is 0 if there are no samples. */
static inline void tangent_init(float *tangent, const float *norm, const float *scale)
{
    const int finite = isfinite(norm[0]);
    tangent[TANGENT_EPS] = finite ? 0.01f / (norm[0] + 1e-15f) : NAN;
    tangent[TANGENT_SIDE] = 1;
    tangent[TANGENT_TAKEN] = 1;
    tangent[TANGENT_BACK] = !finite ? NAN : scale[0] != 0 ? 1.0f / scale[0] : 0;
}

/* The same of a v whose norm is not known: for products, which are NaN if v is. */
static inline void tangent_unit(float *tangent, const float *scale)
{
    const float unknown = 1;
    tangent_init(tangent, &unknown, scale);
}

static inline void side(float *tangent, int minus)
{
    tangent[TANGENT_SIDE] = minus ? -1 : 1;
}

/* y = x, bit for bit */
static inline void keep(float *restrict y, const float *restrict x, int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
}

/* w = kept, shifted along v to the next side */
static inline void shift(float *restrict w, const float *restrict v, const float *restrict kept,
                         const float *tangent, int64_t n)
{
    const float step = tangent[TANGENT_SIDE] * tangent[TANGENT_EPS];
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        w[i] = kept[i] + step * v[i];
}

/* The same of `slots` tensors of which this rank has the part, n elements each: those of y and w
 * are `apart` elements after each other, those of x and v `stride`, those of kept n. */
static inline void keep_part(float *y, const float *x, int64_t n, int64_t slots, int64_t apart,
                             int64_t stride)
{
    for (int64_t l = 0; l < slots; l++)
        keep(y + l * apart, x + l * stride, n);
}

static inline void shift_part(float *w, const float *v, const float *kept, const float *tangent,
                              int64_t n, int64_t slots, int64_t apart, int64_t stride)
{
    for (int64_t l = 0; l < slots; l++)
        shift(w + l * apart, v + l * stride, kept + l * n, tangent, n);
}

/* v as read by products of 16-bit activations */
static inline void tangent_cast(act_t *restrict y, const float *restrict v, const float *tangent,
                                int64_t n)
{
#pragma omp parallel for simd schedule(static) if (n >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++)
        act_store(y + i, tangent[TANGENT_TAKEN] * v[i]);
}

/* Adds the samples' losses at parameters shifted to one side; after both sides jvp is the
 * derivative. */
static inline void jvp_loss(double *jvp, const float *loss, const float *tangent, int64_t S)
{
    for (int64_t b = 0; b < S; b++)
        jvp[b] += tangent[TANGENT_SIDE] * (double)loss[b] / (2 * (double)tangent[TANGENT_EPS]);
}

/* dy, z (n), a sample's elements contiguous: adds the sum of dy z of each sample. ws:
 * jvp_dot_workspace(S) */
static inline void jvp_dot(double *jvp, const act_t *dy, const act_t *z, const float *tangent,
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
        jvp[b] += tangent[TANGENT_BACK] * sum;
    }
}

/* The same for the few values that are fp32 in programs with 16-bit activations. */
static inline void jvp_dot_f32(double *jvp, const float *dy, const float *z, const float *tangent,
                               int64_t n, int64_t S)
{
    for (int64_t b = 0; b < S; b++) {
        double sum = 0;
        for (int64_t i = b * (n / S); i < (b + 1) * (n / S); i++)
            sum += (double)dy[i] * z[i];
        jvp[b] += tangent[TANGENT_BACK] * sum;
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
