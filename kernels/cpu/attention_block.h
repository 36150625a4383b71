/* attention_block.h -- what the forward and the backward pass of attention share: powers of two,
 * rows and transposes of a block, dropout of its scores.
 *
 * Keeps: a block of scores is (keys, ATTENTION_BLOCK): a vector lane is a query. Scores are
 *        logarithms to base 2, whose powers are cheaper. */
#ifndef DIECAST_KERNELS_ATTENTION_BLOCK_H
#define DIECAST_KERNELS_ATTENTION_BLOCK_H

#include <omp.h>

#include "attention_mask.h"
#include "dropout_draw.h"
#include "math.h"
#include "tile.h"
#if defined __AMX_BF16__ && defined ACT_BF16
/* bf16 products on matrix tiles where T and D are multiples of 32, else fp32 ones */
#define ATTENTION_AMX 1
#include "amx.h"
#endif

enum { ATTENTION_D = 256 };      /* largest head */

#define ATTENTION_LOG2E 0x1.715476p0f
#define ATTENTION_LN2 0x1.62e430p-1f

/* Returns 2^x for x <= 0 within 2 ulp, 0 below 2^-125. 2^r on [-1/2, 1/2] is a minimax polynomial,
 * exact at 0. */
static inline __attribute__((always_inline)) TileVec attention_exp2_(TileVec x)
{
    const TileVec shifted = x + MATH_SHIFT, r = x - (shifted - MATH_SHIFT);
    TileVec q = r * 0.00015353362f + 0.0013398875f;
    q = q * r + 0.00961843692f;
    q = q * r + 0.0555033237f;
    q = q * r + 0.240226477f;
    q = q * r + 0.693147182f;
    const TileInts power = ((TileInts)shifted << 23) + 0x3f800000;
    const TileVec y = (q * r + 1.0f) * (TileVec)power;
    return (TileVec)((TileInts)y & ~(TileInts)(x < -125.0f));
}

/* n rows of D as floats, copied to (n, D): of rows that stay in place too few would fit into the L1
 * sets that they map to. Prefetches the next head's. */
static inline const float *attention_rows_(float *to, const act_t *x, int64_t n, int64_t D,
                                           int64_t row)
{
    int64_t d = 0;
#ifndef ACT_BF16
    for (; d + TILE_LANES <= D; d += TILE_LANES)    /* down the rows: no memcpy for each */
        for (int64_t i = 0; i < n; i++) {
            __builtin_prefetch(x + i * row + d + D);
            *(TileVec *)(to + i * D + d) = *(const TileVec *)(x + i * row + d);
        }
    for (; d + 2 <= D; d += 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * D + d, x + i * row + d, 2 * sizeof *to);
#endif
    for (int64_t i = 0; i < n && d < D; i++)
        act_to_float(to + i * D + d, x + i * row + d, D - d);
    return to;
}

/* t (D, ATTENTION_BLOCK) = scale times the transpose of x (n, D); lanes n.. of the last vector are
 * zero. */
static inline void attention_transpose_(float *restrict t, const float *restrict x, int64_t n,
                                        int64_t D, float scale)
{
    const int64_t lanes = (n + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
    tile_transpose(t, ATTENTION_BLOCK, x, D, n, D, scale);
    for (int64_t d = 0; d < D; d++)
        for (int64_t i = n; i < lanes; i++)
            t[d * ATTENTION_BLOCK + i] = 0;
}

/* x (n, D) = the transpose of t (D, ATTENTION_BLOCK) */
static inline void attention_back_(act_t *restrict x, const float *restrict t, int64_t n, int64_t D,
                                   int64_t row)
{
#ifdef ACT_BF16
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d++)
            act_store(x + i * row + d, t[d * ATTENTION_BLOCK + i]);
#else
    tile_transpose(x, row, t, ATTENTION_BLOCK, D, n, 1);
#endif
}

/* n rows of D zeros; down the rows too, for calls of memset cost more than rows this short. */
static inline void attention_clear_(float *x, int64_t row, int64_t n, int64_t D)
{
    int64_t d = 0;
    for (; d + TILE_LANES <= D; d += TILE_LANES)
        for (int64_t i = 0; i < n; i++)
            *(TileVec *)(x + i * row + d) = (TileVec){ 0 };
    for (; d < D; d++)
        for (int64_t i = 0; i < n; i++)
            x[i * row + d] = 0;
}

/* Tasks that a thread takes at once: those of a sequence, where there are many. */
static inline int64_t attention_chunk_(int64_t B, int64_t tasks)
{
    return B >= 4 * omp_get_max_threads() ? tasks : 1;
}

/* Dropout of the probabilities of a block of queries. */
typedef struct {
    DrawMask mask;
    uint32_t query, sample;      /* the first query; the sequence */
    uint32_t quad;               /* of key 0 */
} AttentionDrops;

/* Prepares the dropout of queries i0.. ; returns drops, or NULL where the rule has none. */
static inline const AttentionDrops *attention_drops_(AttentionDrops *drops,
                                                     const AttentionRule *rule, int64_t i0,
                                                     int64_t T)
{
    if (!rule->noise)
        return NULL;
    draw_mask(&drops->mask, rule->noise, dropout_site(rule->site), rule->p);
    drops->query = (uint32_t)i0, drops->sample = (uint32_t)rule->sample;
    drops->quad = dropout_quad_of_key(T, rule->head, 0);
    return drops;
}

/* Draws of a vector of queries, at lane i. */
static inline __attribute__((always_inline)) DrawColumn
attention_column_(const AttentionDrops *drops, int64_t i)
{
    DrawWords query = { 0 };
    for (uint32_t l = 0; l < DRAW_LANES; l++)
        query[l] = l;
    return draw_column(&drops->mask, query + (drops->query + (uint32_t)i), drops->sample);
}

/* kept: the mask factors of four keys, the first a multiple of 4: the words of a draw. */
static inline __attribute__((always_inline)) void
attention_kept_(TileVec kept[4], const AttentionDrops *drops, const DrawColumn *column, int64_t key)
{
    const Draw draw = draw_column_words(&drops->mask, column, drops->quad + (uint32_t)key / 4);
#pragma GCC unroll 4
    for (int w = 0; w < 4; w++)
        kept[w] = (TileVec)draw_kept(&drops->mask, draw.word[w]);
}

static inline int64_t attention_lanes_(int64_t n)
{
    return (n + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
}

#ifdef ATTENTION_AMX
static inline bool attention_amx_(int64_t T, int64_t D)
{
    return T % 32 == 0 && D % 32 == 0 && amx_allowed();
}

/* to (B, KV, D, T): the transposed heads of the KV that begin at x in every row. */
static inline void attention_heads_transpose_(act_t *restrict to, const act_t *restrict x,
                                              int64_t B, int64_t T, int64_t KV, int64_t D,
                                              int64_t row)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t head = 0; head < B * KV; head++)
        for (int64_t t0 = 0; t0 < T; t0 += 32)
            for (int64_t d = 0; d < D; d++)
                for (int64_t t = t0; t < t0 + 32; t++)
                    to[(head * D + d) * T + t] = x[(head / KV * T + t) * row + head % KV * D + d];
}

#endif

#endif
