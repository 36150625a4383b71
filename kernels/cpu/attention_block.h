/* attention_block.h -- shared by the forward and the backward pass of attention: powers of two,
 * rows and transposes of a block, dropout of its scores, packed keys and values, prefetches.
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

enum {
    ATTENTION_D = 256,           /* largest head */
    ATTENTION_LINE = 64 / sizeof(act_t), /* elements of a cache line */
    ATTENTION_AHEAD = 8          /* lines of an array that are fetched at once, at most */
};

_Static_assert(ATTENTION_ROOM == ATTENTION_BLOCK * ATTENTION_D, "a block of the largest head");

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

typedef float AttentionPair __attribute__((vector_size(8), aligned(4), may_alias));

/* to (n, D) = scale times n rows of D as floats: of rows that stay in place too few would fit into
 * the L1 sets that they map to. */
static inline void attention_rows_(float *restrict to, const act_t *restrict x, int64_t n,
                                   int64_t D, int64_t row, float scale)
{
    int64_t d = 0;
#ifndef ACT_BF16
    for (; d + TILE_LANES <= D; d += TILE_LANES)    /* down the rows: no memcpy for each */
        for (int64_t i = 0; i < n; i++)
            *(TileVec *)(to + i * D + d) = *(const TileVec *)(x + i * row + d) * scale;
    for (; d + 2 <= D; d += 2)
        for (int64_t i = 0; i < n; i++)
            *(AttentionPair *)(to + i * D + d) = *(const AttentionPair *)(x + i * row + d) * scale;
#endif
    for (; d < D; d++)
        for (int64_t i = 0; i < n; i++)
            to[i * D + d] = act_load(x + i * row + d) * scale;
}

/* t (D, ATTENTION_BLOCK) = scale times the transpose of n rows of D; lanes n.. of the last vector
 * are zero. */
static inline void attention_transpose_(float *restrict t, const act_t *restrict x, int64_t n,
                                        int64_t D, int64_t row, float scale)
{
    const int64_t lanes = (n + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
#ifdef ACT_BF16
    _Alignas(64) float rows[ATTENTION_BLOCK * ATTENTION_D];
    attention_rows_(rows, x, n, D, row, 1);
    tile_transpose(t, ATTENTION_BLOCK, rows, D, n, D, scale);
#else
    tile_transpose(t, ATTENTION_BLOCK, x, row, n, D, scale);
#endif
    for (int64_t d = 0; d < D; d++)
        for (int64_t i = n; i < lanes; i++)
            t[d * ATTENTION_BLOCK + i] = 0;
}

/* n rows of D at x = those of from (n, D). */
static inline void attention_put_(act_t *restrict x, const float *restrict from, int64_t n,
                                  int64_t D, int64_t row)
{
    int64_t d = 0;
#ifndef ACT_BF16
    for (; d + TILE_LANES <= D; d += TILE_LANES)
        for (int64_t i = 0; i < n; i++)
            *(TileVec *)(x + i * row + d) = *(const TileVec *)(from + i * D + d);
    for (; d + 2 <= D; d += 2)
        for (int64_t i = 0; i < n; i++)
            *(AttentionPair *)(x + i * row + d) = *(const AttentionPair *)(from + i * D + d);
#endif
    for (int64_t i = 0; i < n && d < D; i++)
        act_from_float(x + i * row + d, from + i * D + d, D - d);
}

/* n rows of D = scale times the transpose of t (D, ATTENTION_BLOCK) */
static inline void attention_back_(act_t *restrict x, const float *restrict t, int64_t n, int64_t D,
                                   int64_t row, float scale)
{
#ifdef ACT_BF16
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < D; d++)
            act_store(x + i * row + d, t[d * ATTENTION_BLOCK + i] * scale);
#else
    tile_transpose(x, row, t, ATTENTION_BLOCK, D, n, scale);
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

/* Rows of the head that a thread probably works on next. They are fetched between products, a few
 * at a time: fetches of a whole block at once wait for each other. */
typedef struct {
    const act_t *x[8];           /* the first row of each array */
    int64_t stride[8];           /* between rows of each */
    int arrays;
    int64_t n, D;                /* rows, and elements of a row */
    int64_t i, d;                /* the row and the element that are fetched next */
    int64_t b, h;                /* sequence and query head; b < 0: there is none */
} AttentionAhead;

/* n rows of the head after head h of sequence b, of no arrays yet. */
static inline AttentionAhead attention_after_(int64_t b, int64_t h, int64_t n, int64_t B,
                                              int64_t NH, int64_t D)
{
    AttentionAhead a = { .n = n, .D = D, .b = b, .h = h + 1 };
    if (a.h == NH)
        a.b += omp_get_num_threads(), a.h = 0;
    else if (a.h * D % ATTENTION_LINE != 0)      /* of the same lines as this head */
        a.b = -1;
    a.b = a.b < B ? a.b : -1;
    return a;
}

static inline void attention_add_(AttentionAhead *a, const act_t *x, int64_t stride)
{
    a->x[a->arrays] = x, a->stride[a->arrays++] = stride;
}

/* Adds the query, key and value rows of x (B, T, NH + 2 KV, D). */
static inline void attention_add_qkv_(AttentionAhead *a, const act_t *x, int64_t i0, int64_t T,
                                      int64_t NH, int64_t KV)
{
    const int64_t D = a->D, row = (NH + 2 * KV) * D, k = NH + a->h / (NH / KV);
    x += (a->b * T + i0) * row;
    attention_add_(a, x + a->h * D, row);
    attention_add_(a, x + k * D, row);
    attention_add_(a, x + (k + KV) * D, row);
}

/* Fetches the next lines of each array, D in all: a core has room for some 20 lines on their way,
 * and the product that follows, which hides them, takes as long as D is wide. */
static inline void attention_ahead_(AttentionAhead *a)
{
    if (!a->arrays)
        return;
    const int64_t each = a->D / a->arrays, most = each < ATTENTION_AHEAD ? each : ATTENTION_AHEAD;
    for (int64_t lines = most > 1 ? most : 1; lines > 0 && a->d < a->D; lines--) {
        for (int k = 0; k < a->arrays; k++)
            __builtin_prefetch(a->x[k] + a->i * a->stride[k] + a->d, 0, 2);
        if (++a->i == a->n)
            a->i = 0, a->d += ATTENTION_LINE;
    }
}

static inline void attention_product_(const Tile *p, AttentionAhead *ahead)
{
    attention_ahead_(ahead);
    tile_product(p);
}

/* Keys and values of a head as floats, (n, D) each: of a whole head where it fits, copied once for
 * all queries; else of a block. */
typedef struct {
    _Alignas(64) float k[ATTENTION_ROOM], v[ATTENTION_ROOM];
    const act_t *of;             /* the head's first key; NULL: none */
    int64_t from, to;            /* keys that are there, where the head fits */
} AttentionPacked;

/* Copies keys j0 .. j0 + n - 1 of the head with keys at k and values at v, unless they are there.
 * Returns the offset of key j0. */
static inline int64_t attention_pack_(AttentionPacked *p, const act_t *k, const act_t *v,
                                      int64_t j0, int64_t n, int64_t T, int64_t D, int64_t row)
{
    const bool fits = attention_fits(T, D);
    const int64_t at = fits ? j0 * D : 0;
    if (fits && p->of == k && p->from <= j0 && j0 + n <= p->to)
        return at;
    if (p->of != k || j0 != p->to)
        p->from = j0;
    p->of = k, p->to = j0 + n;
    attention_rows_(p->k + at, k + j0 * row, n, D, row, 1);
    attention_rows_(p->v + at, v + j0 * row, n, D, row, 1);
    return at;
}

static inline int64_t attention_blocks_(int64_t T)
{
    return (T + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
}

/* Returns the first query of block `block` and sets *n to how many it has. Where T is no whole
 * number of vectors the first block is the short one: under a causal mask the vector that is not
 * full then has few keys. */
static inline int64_t attention_queries_(int64_t block, int64_t T, int64_t *n)
{
    const int64_t before = T % TILE_LANES ? attention_blocks_(T) * ATTENTION_BLOCK - T : 0;
    const int64_t i0 = block ? block * ATTENTION_BLOCK - before : 0;
    const int64_t end = (block + 1) * ATTENTION_BLOCK - before;
    *n = (end < T ? end : T) - i0;
    return i0;
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
