/* dropout_draw.h -- the draws of runtime/philox.h on vectors: many counters at once, and dropout
 * masks of rows.
 *
 * Keeps: the words of philox(), bit for bit.
 * Method: a multiplication of x86 vectors takes the even 32-bit lanes and gives 64-bit products,
 *        so even and odd counters have vectors of their own, whose high halves are ignored. A
 *        compiler widens each word and multiplies 64 by 64 bits instead (five times as slow). */
#ifndef DIECAST_KERNELS_DROPOUT_DRAW_H
#define DIECAST_KERNELS_DROPOUT_DRAW_H

#include <immintrin.h>

#include "runtime/philox.h"
#include "types.h"

enum {
#ifdef __AVX512F__
    DRAW_LANES = 16,
#else
    DRAW_LANES = 8,
#endif
    DRAW_WORDS = 4 * DRAW_LANES  /* of a vector of counters */
};

typedef uint32_t DrawWords
    __attribute__((vector_size(DRAW_LANES * 4), aligned(4), may_alias));
typedef uint64_t DrawPairs __attribute__((vector_size(DRAW_LANES * 4)));
typedef float DrawFloats __attribute__((vector_size(DRAW_LANES * 4), aligned(4), may_alias));

/* A vector of counters, or of the words drawn from them. */
typedef struct {
    DrawWords word[4];
} Draw;

/* Constants of a dropout mask: round keys, offsets of the last two counter words, threshold. */
typedef struct {
    DrawWords key0[10], key1[10];
    uint32_t step, sample, threshold;
    float scale;                 /* factor of kept elements */
} DrawMask;

/* noise, site, p: see philox.h. */
static inline void draw_mask(DrawMask *m, const uint32_t *noise, uint32_t site, float p)
{
    for (uint32_t round = 0; round < 10; round++) {
        m->key0[round] = (DrawWords){ 0 } + ((noise[0] ^ site * 0x9E3779B9u) + round * 0x9E3779B9u);
        m->key1[round] = (DrawWords){ 0 } + (noise[1] + round * 0xBB67AE85u);
    }
    m->step = noise[2], m->sample = noise[3];
    m->threshold = dropout_threshold(p);
    m->scale = 1.0f / (1.0f - p);
}

/* Products of the even 32-bit lanes. */
static inline __attribute__((always_inline)) DrawPairs draw_products_(DrawPairs a, uint32_t by)
{
#ifdef __AVX512F__
    return (DrawPairs)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi32((int)by));
#else
    return (DrawPairs)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi32((int)by));
#endif
}

/* Returns philox() of each lane's counter. */
static inline __attribute__((always_inline)) Draw draw_words(const DrawMask *m, Draw counter)
{
    DrawPairs a[2], b[2], c[2], d[2];
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd++) {
        a[odd] = (DrawPairs)counter.word[0] >> 32 * odd;
        b[odd] = (DrawPairs)counter.word[1] >> 32 * odd;
        c[odd] = (DrawPairs)counter.word[2] >> 32 * odd;
        d[odd] = (DrawPairs)counter.word[3] >> 32 * odd;
    }
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++)
#pragma GCC unroll 2
        for (int odd = 0; odd < 2; odd++) {
            const DrawPairs p0 = draw_products_(a[odd], 0xD2511F53);
            const DrawPairs p1 = draw_products_(c[odd], 0xCD9E8D57);
            a[odd] = p1 >> 32 ^ b[odd] ^ (DrawPairs)m->key0[round];
            b[odd] = p1;
            c[odd] = p0 >> 32 ^ d[odd] ^ (DrawPairs)m->key1[round];
            d[odd] = p0;
        }
    const DrawPairs low = (DrawPairs){ 0 } + 0xffffffff;
    return (Draw){ { (DrawWords)((a[0] & low) | a[1] << 32), (DrawWords)((b[0] & low) | b[1] << 32),
                     (DrawWords)((c[0] & low) | c[1] << 32),
                     (DrawWords)((d[0] & low) | d[1] << 32) } };
}

/* Returns the mask factor of each word: 0 if it drops its element, else the scale. */
static inline __attribute__((always_inline)) DrawFloats draw_kept(const DrawMask *m, DrawWords word)
{
    const DrawWords scale = (DrawWords)((DrawFloats){ 0 } + m->scale);
    return (DrawFloats)((DrawWords)(word >= m->threshold) & scale);
}

/* Writes kept (DRAW_WORDS), the mask factors of DRAW_LANES quads, one quad a lane of `counter`. */
static inline __attribute__((always_inline)) void draw_quads(float *kept, const DrawMask *m,
                                                             Draw counter)
{
    typedef uint64_t Halves __attribute__((vector_size(DRAW_LANES * 4)));
    const Draw draw = draw_words(m, counter);
    DrawWords low = { 0 }, high = { 0 };
    Halves low2 = { 0 }, high2 = { 0 };
#pragma GCC unroll 16
    for (uint32_t i = 0; i < DRAW_LANES; i++) {
        low[i] = i / 2 + i % 2 * DRAW_LANES;
        high[i] = low[i] + DRAW_LANES / 2;
    }
#pragma GCC unroll 8
    for (uint32_t i = 0; i < DRAW_LANES / 2; i++) {
        low2[i] = i / 2 + i % 2 * (DRAW_LANES / 2);
        high2[i] = low2[i] + DRAW_LANES / 4;
    }
    DrawWords v[4];
#pragma GCC unroll 4
    for (int w = 0; w < 4; w++)
        v[w] = (DrawWords)draw_kept(m, draw.word[w]);
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        const Halves ab = (Halves)__builtin_shuffle(v[0], v[1], half ? high : low);
        const Halves cd = (Halves)__builtin_shuffle(v[2], v[3], half ? high : low);
        float *to = kept + half * 2 * DRAW_LANES;
        *(DrawFloats *)to = (DrawFloats)__builtin_shuffle(ab, cd, low2);
        *(DrawFloats *)(to + DRAW_LANES) = (DrawFloats)__builtin_shuffle(ab, cd, high2);
    }
}

/* Writes mask (n) for elements first .. first+n-1 of row `row` of a micro-batch with T positions a
 * sample: 0 where dropped, 1 / (1 - p) where kept. first is a multiple of 4. */
static inline void draw_row(float *restrict mask, const DrawMask *m, int64_t T, int64_t row,
                            int64_t first, int64_t n)
{
    const uint32_t t = (uint32_t)(row % T), sample = (uint32_t)(row / T);
    DrawWords quad = { 0 };
    for (uint32_t l = 0; l < DRAW_LANES; l++)
        quad[l] = (uint32_t)(first / 4) + l;
    const DrawWords zero = { 0 };
    for (int64_t i = 0; i < n; i += DRAW_WORDS, quad += DRAW_LANES) {
        const Draw counter = { { quad, zero + t, zero + (m->sample + sample), zero + m->step } };
        if (i + DRAW_WORDS <= n) {
            draw_quads(mask + i, m, counter);
            continue;
        }
        float kept[DRAW_WORDS];
        draw_quads(kept, m, counter);
        memcpy(mask + i, kept, sizeof *mask * (size_t)(n - i));
    }
}

#endif
