/* attention.h -- attention of a sequence, its gradient, and one decoded token over a cache.
 *
 * In:    qkv (B, T, NH + 2 KV, D) act_t: q, k, v; query head h uses key head h / (NH / KV).
 * Out:   o (B, T, NH, D) = softmax(scale q k^T, masked) v; lse (B, NH, T) fp32 = log sum exp.
 * Keeps: scores live in a block only; fp32 sums in a fixed order; D <= ATTENTION_D.
 * Method: blocks with the softmax carried along (Dao et al. 2022); a vector lane is a query; scores
 *        are logarithms to base 2, whose powers are cheaper. */
#ifndef DIECAST_KERNELS_ATTENTION_H
#define DIECAST_KERNELS_ATTENTION_H

#include "attention_bwd.h"
#include "attention_fwd.h"

/* A token of each of `rows` texts: qkv (rows, NH + 2 KV, D) at positions pos (rows) < T; their k
 * and v go into the caches (rows, KV, T, D); o (rows, NH, D). What a row gets does not depend on
 * the others. ws: attention_decode_workspace(rows, T, NH) bytes, scores. */
static inline void attention_decode(act_t *restrict o, act_t *restrict kcache,
                                    act_t *restrict vcache, const act_t *restrict qkv,
                                    const int32_t *pos, int64_t rows, int64_t T, int64_t NH,
                                    int64_t KV, int64_t D, float scale, void *ws)
{
    const int64_t group = NH / KV;
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < rows * KV; i++) {
        const int64_t row = i / KV, kv = i % KV, t = pos[row];
        const act_t *x = qkv + row * (NH + 2 * KV) * D;
        act_t *k = kcache + i * T * D, *v = vcache + i * T * D;
        memcpy(k + t * D, x + (NH + kv) * D, sizeof(act_t) * (size_t)D);
        memcpy(v + t * D, x + (NH + KV + kv) * D, sizeof(act_t) * (size_t)D);
        for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
            float *s = (float *)ws + (row * NH + h) * T, y[ATTENTION_D] = { 0 };
            float max = -0x1p126f, sum = 0;
            for (int64_t j = 0; j <= t; j++) {
                float d0 = 0;
#pragma omp simd reduction(+ : d0)
                for (int64_t d = 0; d < D; d++)
                    d0 += act_load(x + h * D + d) * act_load(k + j * D + d);
                s[j] = d0 * scale;
                max = s[j] > max ? s[j] : max;
            }
            for (int64_t j = 0; j <= t; j++) {
                const float p = math_exp(s[j] - max);
                sum += p;
#pragma omp simd
                for (int64_t d = 0; d < D; d++)
                    y[d] += p * act_load(v + j * D + d);
            }
            for (int64_t d = 0; d < D; d++)
                act_store(o + (row * NH + h) * D + d, y[d] / sum);
        }
    }
}

#endif
