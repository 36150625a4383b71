/* adamw8.h -- AdamW with moments in 8 bit: blocks of DYNAMIC_BLOCK elements of each tensor, each
 * with the largest magnitude of its values (Dettmers et al. 2022; ../../runtime/dynamic.h).
 *
 * In:    as adamw_parts.h: n elements of each of `slots` tensors, a tensor or this rank's part of
 *        one. From one tensor to the next are `stride` elements of weights, `apart` of gradients,
 *        `codes` of moments.
 * Out:   weights, codes m and v, and m_absmax, v_absmax (slots, blocks of n), in place. The weights
 *        are updated with the moments before these are quantised.
 * Keeps: a non-finite norm changes nothing. A NaN stays in its element: its block's magnitude is
 *        that of the finite ones. */
#ifndef DIECAST_KERNELS_ADAMW8_H
#define DIECAST_KERNELS_ADAMW8_H

#include <float.h>

#include "../../runtime/dynamic.h"
#include "adamw_parts.h"

/* Both moments of a block. */
typedef struct {
    uint8_t *m, *v;
    float *m_absmax, *v_absmax;
} Moments8;

/* x = the values of a block's codes; 0 where absmax is 0. */
static inline void dequantise(float *restrict x, const uint8_t *restrict code, float absmax,
                              DynamicMap map)
{
#pragma omp simd
    for (int i = 0; i < DYNAMIC_BLOCK; i++)
        x[i] = dynamic_map[map][code[i]] * absmax;
}

/* Quantises the n elements of a block. Its magnitude is that of the finite ones; if that is 0, all
 * codes are 0. */
static inline void quantise(uint8_t *restrict code, float *restrict absmax, const float *restrict x,
                            int n, DynamicMap map, const float *restrict mid)
{
    int wide[DYNAMIC_BLOCK];
    float most = 0;
#pragma omp simd reduction(max : most)
    for (int i = 0; i < n; i++) {
        const float size = fabsf(x[i]);
        most = size > most && size <= FLT_MAX ? size : most;
    }
#pragma omp simd
    for (int i = 0; i < DYNAMIC_BLOCK; i++)
        wide[i] = dynamic_code(x[i], most, map, mid);
    for (int i = 0; i < n; i++)
        code[i] = most > 0 ? (uint8_t)wide[i] : 0;
    *absmax = most;
}

/* Updates n weights, at most a block. */
static inline void adamw8_block(float *restrict w, Moments8 at, const float *restrict g, int n,
                                AdamwStep s, const DynamicTables *tables)
{
    uint8_t code[2][DYNAMIC_BLOCK] = {{0}};
    float m[DYNAMIC_BLOCK], v[DYNAMIC_BLOCK];
    for (int i = 0; i < n; i++)
        code[0][i] = at.m[i], code[1][i] = at.v[i];
    dequantise(m, code[0], *at.m_absmax, DYNAMIC_OF_M);
    dequantise(v, code[1], *at.v_absmax, DYNAMIC_OF_V);
#pragma omp simd
    for (int i = 0; i < n; i++)
        w[i] = adamw_element(w[i], m + i, v + i, g[i], s);
    quantise(at.m, at.m_absmax, m, n, DYNAMIC_OF_M, tables->mid[DYNAMIC_OF_M]);
    quantise(at.v, at.v_absmax, v, n, DYNAMIC_OF_V, tables->mid[DYNAMIC_OF_V]);
}

/* The moments of block b of tensor l; `codes` elements and `blocks` blocks a tensor. */
static inline Moments8 moments_at(Moments8 first, int64_t l, int64_t b, int64_t codes,
                                  int64_t blocks)
{
    const int64_t k = l * codes + b * DYNAMIC_BLOCK, block = l * blocks + b;
    return (Moments8){first.m + k, first.v + k, first.m_absmax + block, first.v_absmax + block};
}

static inline int block_length(int64_t b, int64_t n)
{
    const int64_t left = n - b * DYNAMIC_BLOCK;
    return left < DYNAMIC_BLOCK ? (int)left : DYNAMIC_BLOCK;
}

/* fp32 weights. */
static inline void adamw8(float *w, uint8_t *m, uint8_t *v, float *m_absmax, float *v_absmax,
                          const float *g, const float *adamw_args, const float *norm, int64_t n,
                          int64_t slots, int64_t stride, int64_t apart, int64_t codes, int decay)
{
    if (!isfinite(norm[0]))
        return;
    const AdamwStep s = adamw_step(adamw_args, norm, decay);
    const DynamicTables tables = dynamic_tables();
    const int64_t blocks = DYNAMIC_BLOCKS(n);
    const Moments8 first = {m, v, m_absmax, v_absmax};
#pragma omp parallel for schedule(static) collapse(2) if (n * slots >= PARALLEL_MIN)
    for (int64_t l = 0; l < slots; l++)
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t i = b * DYNAMIC_BLOCK;
            adamw8_block(w + l * stride + i, moments_at(first, l, b, codes, blocks),
                         g + l * apart + i, block_length(b, n), s, &tables);
        }
}

/* One block of 16-bit weights, from element i of a tensor on. */
static inline void adamw8_mixed_block(wt_t *w, const Master *of, Moments8 at, const float *g,
                                      int64_t i, int n, AdamwStep s, const DynamicTables *tables)
{
    const MasterKind kind = master_kind(of);
    float x[DYNAMIC_BLOCK];
    uint16_t draw[ADAMW_BLOCK] = {0};
    if (kind == MASTER_ROUNDING)
        rounding_draw(draw, of, of->first + i);
    for (int k = 0; k < n; k++)
        x[k] = master_load(w, of->fp32, of->remainder, i + k, kind);
    adamw8_block(x, at, g + i, n, s, tables);
    for (int k = 0; k < n; k++)
        master_store(w, of->fp32, of->remainder, i + k, x[k], draw[k], kind);
}

/* 16-bit weights; master: of the first tensor, (slots, `codes`). */
static inline void adamw8_mixed(wt_t *w, const Master *master, uint8_t *m, uint8_t *v,
                                float *m_absmax, float *v_absmax, const float *g,
                                const float *adamw_args, const float *norm, int64_t n,
                                int64_t slots, int64_t stride, int64_t apart, int64_t codes,
                                int decay)
{
    if (!isfinite(norm[0]))
        return;
    const AdamwStep s = adamw_step(adamw_args, norm, decay);
    const DynamicTables tables = dynamic_tables();
    const int64_t blocks = DYNAMIC_BLOCKS(n);
    const Moments8 first = {m, v, m_absmax, v_absmax};
#pragma omp parallel for schedule(static) collapse(2) if (n * slots >= PARALLEL_MIN)
    for (int64_t l = 0; l < slots; l++)
        for (int64_t b = 0; b < blocks; b++) {
            const Master of = master_of(master, l, codes);
            adamw8_mixed_block(w + l * stride, &of, moments_at(first, l, b, codes, blocks),
                               g + l * apart, b * DYNAMIC_BLOCK, block_length(b, n), s, &tables);
        }
}

#endif
