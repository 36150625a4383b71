/* dropout_draw.h -- the draws of runtime/philox.h on vectors, many counters at once: dropout masks
 * of rows, and bits for stochastic rounding (adamw.h).
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

#define DRAW_BY0 0xD2511F53u     /* factors of the first and the third word in each round */
#define DRAW_BY1 0xCD9E8D57u

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

/* Sets the round keys, all that draw_words() reads. */
static inline void draw_keys(DrawMask *m, uint32_t key0, uint32_t key1)
{
    for (uint32_t round = 0; round < 10; round++) {
        m->key0[round] = (DrawWords){ 0 } + (key0 + round * 0x9E3779B9u);
        m->key1[round] = (DrawWords){ 0 } + (key1 + round * 0xBB67AE85u);
    }
}

/* noise, site, p: see philox.h. */
static inline void draw_mask(DrawMask *m, const uint32_t *noise, uint32_t site, float p)
{
    draw_keys(m, noise[0] ^ site * 0x9E3779B9u, noise[1]);
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

/* Counters in the middle of their rounds: those of even lanes, and of odd ones. */
typedef struct {
    DrawPairs a[2], b[2], c[2], d[2];
} DrawState;

/* Returns philox() of counters that are through their first rounds. */
static inline __attribute__((always_inline)) Draw draw_rounds_(const DrawMask *m, DrawState s,
                                                               const int first)
{
#pragma GCC unroll 10
    for (int round = first; round < 10; round++)
#pragma GCC unroll 2
        for (int odd = 0; odd < 2; odd++) {
            const DrawPairs p0 = draw_products_(s.a[odd], DRAW_BY0);
            const DrawPairs p1 = draw_products_(s.c[odd], DRAW_BY1);
            s.a[odd] = p1 >> 32 ^ s.b[odd] ^ (DrawPairs)m->key0[round];
            s.b[odd] = p1;
            s.c[odd] = p0 >> 32 ^ s.d[odd] ^ (DrawPairs)m->key1[round];
            s.d[odd] = p0;
        }
    const DrawPairs low = (DrawPairs){ 0 } + 0xffffffff;
    return (Draw){ { (DrawWords)((s.a[0] & low) | s.a[1] << 32),
                     (DrawWords)((s.b[0] & low) | s.b[1] << 32),
                     (DrawWords)((s.c[0] & low) | s.c[1] << 32),
                     (DrawWords)((s.d[0] & low) | s.d[1] << 32) } };
}

/* Returns philox() of each lane's counter. */
static inline __attribute__((always_inline)) Draw draw_words(const DrawMask *m, Draw counter)
{
    DrawState s;
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd++) {
        s.a[odd] = (DrawPairs)counter.word[0] >> 32 * odd;
        s.b[odd] = (DrawPairs)counter.word[1] >> 32 * odd;
        s.c[odd] = (DrawPairs)counter.word[2] >> 32 * odd;
        s.d[odd] = (DrawPairs)counter.word[3] >> 32 * odd;
    }
    return draw_rounds_(m, s, 0);
}

/* A vector of counters that differ in their second word only, for any first word: the product of
 * round 1, which the first word does not reach. */
typedef struct {
    DrawPairs product[2];
    uint32_t sample;
} DrawColumn;

/* row: the second words; sample: without that of the mask. */
static inline __attribute__((always_inline)) DrawColumn draw_column(const DrawMask *m,
                                                                    DrawWords row, uint32_t sample)
{
    DrawColumn column = { .sample = m->sample + sample };
    const uint32_t high = (uint32_t)((uint64_t)column.sample * DRAW_BY1 >> 32);
    const DrawPairs a = (DrawPairs)(row ^ m->key0[0] ^ ((DrawWords){ 0 } + high));
    column.product[0] = draw_products_(a, DRAW_BY0);
    column.product[1] = draw_products_(a >> 32, DRAW_BY0);
    return column;
}

/* Returns draw_words() of a column's counters with the first word `quad`: products of words that
 * all lanes share are scalar ones, a quarter of all. */
static inline __attribute__((always_inline)) Draw draw_column_words(const DrawMask *m,
                                                                    const DrawColumn *column,
                                                                    uint32_t quad)
{
    const uint64_t p0 = (uint64_t)quad * DRAW_BY0;
    const uint32_t b1 = column->sample * DRAW_BY1;
    const uint32_t c1 = (uint32_t)(p0 >> 32) ^ m->step ^ m->key1[0][0];
    const uint64_t p1 = (uint64_t)c1 * DRAW_BY1;
    const uint32_t a2 = (uint32_t)(p1 >> 32) ^ b1 ^ m->key0[1][0];
    const uint64_t q0 = (uint64_t)a2 * DRAW_BY0;
    const DrawPairs zero = { 0 };
    DrawState s;
#pragma GCC unroll 2
    for (int odd = 0; odd < 2; odd++) {
        const DrawPairs c2 = column->product[odd] >> 32 ^ (zero + ((uint32_t)p0 ^ m->key1[1][0]));
        s.b[odd] = draw_products_(c2, DRAW_BY1);
        s.a[odd] = s.b[odd] >> 32 ^ (zero + ((uint32_t)p1 ^ m->key0[2][0]));
        s.c[odd] = column->product[odd] ^ (zero + ((uint32_t)(q0 >> 32) ^ m->key1[2][0]));
        s.d[odd] = zero + (uint32_t)q0;
    }
    return draw_rounds_(m, s, 3);
}

/* Returns the mask factor of each word: 0 if it drops its element, else the scale. */
static inline __attribute__((always_inline)) DrawFloats draw_kept(const DrawMask *m, DrawWords word)
{
    const DrawWords scale = (DrawWords)((DrawFloats){ 0 } + m->scale);
    return (DrawFloats)((DrawWords)(word >= m->threshold) & scale);
}

/* Writes the words of DRAW_LANES quads to to[0..DRAW_WORDS-1], lane by lane. */
static inline __attribute__((always_inline)) void draw_store(void *to, const DrawWords v[4])
{
    typedef uint64_t Halves __attribute__((vector_size(DRAW_LANES * 4)));
    DrawWords low = { 0 }, high = { 0 }, *words = to;
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
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        const Halves ab = (Halves)__builtin_shuffle(v[0], v[1], half ? high : low);
        const Halves cd = (Halves)__builtin_shuffle(v[2], v[3], half ? high : low);
        words[2 * half] = (DrawWords)__builtin_shuffle(ab, cd, low2);
        words[2 * half + 1] = (DrawWords)__builtin_shuffle(ab, cd, high2);
    }
}

/* Writes kept (DRAW_WORDS), the mask factors of DRAW_LANES quads, one quad a lane of `counter`. */
static inline __attribute__((always_inline)) void draw_quads(float *kept, const DrawMask *m,
                                                             Draw counter)
{
    const Draw draw = draw_words(m, counter);
    DrawWords v[4];
#pragma GCC unroll 4
    for (int w = 0; w < 4; w++)
        v[w] = (DrawWords)draw_kept(m, draw.word[w]);
    draw_store(kept, v);
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
