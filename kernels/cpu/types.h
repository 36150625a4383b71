/* types.h -- the storage types of a CPU program: activations (act_t) and weights (wt_t).
 *
 * In:    ACT_BF16 defined by the program that includes this, or not (then both types are float).
 * Keeps: arithmetic is always fp32; bf16 only exists in memory. Rounding is to nearest even, NaN stays NaN. */
#ifndef DIECAST_KERNELS_TYPES_H
#define DIECAST_KERNELS_TYPES_H

#include <stdint.h>
#include <string.h>

#ifdef ACT_BF16
typedef uint16_t act_t;
typedef uint16_t wt_t;
#else
typedef float act_t;
typedef float wt_t;
#endif

/* Column reductions (weight gradients of norms) add rows in this many fixed blocks, then add the blocks in order:
 * the order of the sum does not depend on the number of threads. */
enum { REDUCE_PARTS = 32 };

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
    *p = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u >> 16 | 0x40) : nearest);
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

/* v as it would come back from memory. */
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

#endif
