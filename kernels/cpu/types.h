/* types.h -- storage types of a CPU program, activations (act_t) and weights (wt_t); order of
 * sums.
 *
 * In:    ACT_BF16 defined or not by the including program (if not, both types are float).
 * Keeps: arithmetic is fp32; bf16 exists only in memory. Rounds to nearest even, NaN stays
 *        NaN. */
#ifndef DIECAST_KERNELS_TYPES_H
#define DIECAST_KERNELS_TYPES_H

#include <stdint.h>
#include <string.h>

#include "../arguments.h"
#include "workspace.h"

#ifdef ACT_BF16
typedef uint16_t act_t;
typedef uint16_t wt_t;
#else
typedef float act_t;
typedef float wt_t;
#endif

enum {
    /* Below this many elements, one thread: waking a second costs more than it saves. */
    PARALLEL_MIN = 8192,
};

static inline uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float bf16_load(const uint16_t *p)
{
    return bits_float((uint32_t)*p << 16);
}

static inline void bf16_store(uint16_t *p, float v)
{
    uint32_t u = float_bits(v);
    uint32_t nearest = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    *p = (uint16_t)(v != v ? 0x7fc0 : nearest);
}

static inline float act_load(const act_t *p)
{
#ifdef ACT_BF16
    return bf16_load(p);
#else
    return *p;
#endif
}

static inline void act_store(act_t *p, float v)
{
#ifdef ACT_BF16
    bf16_store(p, v);
#else
    *p = v;
#endif
}

/* v after a store and a load. */
static inline float act_round(float v)
{
    act_t t;
    act_store(&t, v);
    return act_load(&t);
}

/* Rows of n elements; y and x do not overlap. */
static inline void act_to_float(float *restrict y, const act_t *restrict x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = act_load(x + i);
}

static inline void act_from_float(act_t *restrict y, const float *restrict x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        act_store(y + i, x[i]);
}

/* First row of block part (0..REDUCE_PARTS) of rows. */
static inline int64_t part_begin(int64_t part, int64_t rows)
{
    return part * rows / REDUCE_PARTS;
}

/* y (C) = sum over the blocks of ws (REDUCE_PARTS, stride); beta 1: added to y. */
static inline void part_sum(float *restrict y, const float *restrict ws, int64_t stride, int64_t C,
                            int beta)
{
    for (int64_t part = 0; part < REDUCE_PARTS; part++) {
        const float *row = ws + part * stride;
        const int overwrite = part == 0 && !beta;
#pragma omp simd
        for (int64_t i = 0; i < C; i++)
            y[i] = overwrite ? row[i] : y[i] + row[i];
    }
}

#endif
