/* rope.h -- rotary positions (RoFormer, Su et al. 2021), half-split as in Llama, in place.
 *
 * In:    qkv (rows, (NH + 2 KV) D), row r at position r % T, with documents positions[r] < T; cos,
 *        sin (T, D/2) fp32, by HF transformers' fp32 formulas, rounded to act_t.
 * Out:   q and k, halves [x1, x2] of each head -> [x1 cos - x2 sin, x2 cos + x1 sin]; v untouched.
 * Keeps: each product is rounded to act_t, then their sum (eager bf16 arithmetic). */
#ifndef DIECAST_KERNELS_ROPE_H
#define DIECAST_KERNELS_ROPE_H

#include <math.h>

#include "types.h"

/* How frequencies are computed. factor 0: theta^(-2j/D). Otherwise these are divided by factor; if
 * `original` is not 0, as in Llama 3: wavelengths above original / low are divided, those below
 * original / high are kept, and those between are blended. local not 0: there are two tables, the
 * first of which has theta = local and no factor. */
typedef struct {
    double theta, local, factor, low, high, original;
} RopeRule;

/* Returns the rotary frequency of column j of `pairs`. */
static inline float rope_frequency(int64_t j, int64_t pairs, const RopeRule *by)
{
    float f = 1.0f / (float)pow(by->theta, (double)((float)(2 * j) / (float)(2 * pairs)));
    if (by->factor == 0)
        return f;
    if (by->original == 0)
        return f / (float)by->factor;
    const float longest = (float)(by->original / by->low);
    const float shortest = (float)(by->original / by->high), wavelength = 6.283185307179586f / f;
    const float smooth =
        ((float)by->original / wavelength - (float)by->low) / (float)(by->high - by->low);
    if (wavelength > longest)
        return f / (float)by->factor;
    if (wavelength < shortest)
        return f;
    volatile float kept = smooth * f;           /* rounded, not fused into the addition */
    return (1.0f - smooth) * f / (float)by->factor + kept;
}

static inline void rope_column(float *cosine, float *sine, int64_t T, int64_t pairs,
                               float frequency)
{
    for (int64_t t = 0; t < T; t++) {
        float angle = (float)t * frequency;
        cosine[t * pairs] = act_round((float)cos((double)angle));
        sine[t * pairs] = act_round((float)sin((double)angle));
    }
}

/* cosine, sine (T, pairs); of two tables T / 2 rows each. */
static inline void rope_table(float *cosine, float *sine, int64_t T, int64_t pairs,
                              const RopeRule *by)
{
    const int64_t tables = by->local != 0 ? 2 : 1, rows = T / tables;
    const RopeRule rule[] = {tables == 1 ? *by : (RopeRule){.theta = by->local}, *by};
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < tables * pairs; i++) {
        const int64_t k = i / pairs, j = i % pairs, at = k * rows * pairs + j;
        rope_column(cosine + at, sine + at, rows, pairs, rope_frequency(j, pairs, &rule[k]));
    }
}

/* Rotates, in place, the `heads` heads of D elements at x by the angles of one position; sign is 1,
 * or -1 for the inverse. */
static inline void rope_row(act_t *restrict x, const float *restrict cosine,
                            const float *restrict sine, int64_t heads, int64_t D, float sign)
{
    for (int64_t h = 0; h < heads; h++) {
        act_t *x1 = x + h * D, *x2 = x1 + D / 2;
#pragma omp simd
        for (int64_t j = 0; j < D / 2; j++) {
            float a = act_load(x1 + j), b = act_load(x2 + j), c = cosine[j], s = sign * sine[j];
            act_store(x1 + j, act_round(a * c) - act_round(b * s));
            act_store(x2 + j, act_round(b * c) + act_round(a * s));
        }
    }
}

/* positions NULL: row r at position r % T. */
static inline void rope_rows(act_t *restrict qkv, const float *restrict cosine,
                             const float *restrict sine, const int32_t *restrict positions,
                             int64_t rows, int64_t T, int64_t NH, int64_t KV, int64_t D, float sign)
{
    const int64_t N = (NH + 2 * KV) * D;
#pragma omp parallel for schedule(static) if (rows * N >= PARALLEL_MIN)
    for (int64_t r = 0; r < rows; r++) {
        const int64_t angle = (positions ? positions[r] : r % T) * (D / 2);
        rope_row(qkv + r * N, cosine + angle, sine + angle, NH + KV, D, sign);
    }
}

static inline void rope_fwd(act_t *restrict qkv, const float *restrict cosine,
                            const float *restrict sine, const int32_t *restrict positions,
                            int64_t rows, int64_t T, int64_t NH, int64_t KV, int64_t D)
{
    rope_rows(qkv, cosine, sine, positions, rows, T, NH, KV, D, 1.0f);
}

static inline void rope_bwd(act_t *restrict dqkv, const float *restrict cosine,
                            const float *restrict sine, const int32_t *restrict positions,
                            int64_t rows, int64_t T, int64_t NH, int64_t KV, int64_t D)
{
    rope_rows(dqkv, cosine, sine, positions, rows, T, NH, KV, D, -1.0f);
}

#endif
