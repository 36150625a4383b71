/* attention.h -- attention of a sequence, its gradient, and one decoded token over a cache.
 *
 * In:    qkv (B, T, NH + 2 KV, D) act_t: q, k, v; query head h uses key head h / (NH / KV).
 * Out:   o (B, T, NH, D) = softmax(scale q k^T, masked) v; lse (B, NH, T) fp32 = log sum exp.
 * Keeps: scores live in a block only; fp32 sums in a fixed order; D <= ATTENTION_D.
 * Method: blocks with the softmax carried along (Dao et al. 2022); a vector lane is a query; scores
 *        are logarithms to base 2, whose powers are cheaper. */
#ifndef DIECAST_KERNELS_ATTENTION_H
#define DIECAST_KERNELS_ATTENTION_H

#include <omp.h>
#include <stdbool.h>

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
    ATTENTION_BLOCK = 64,        /* queries and keys of a block */
    ATTENTION_GROUP = 16,        /* keys of a block that are left out together */
    ATTENTION_RUNS = ATTENTION_BLOCK / ATTENTION_GROUP
};

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

/* Which keys a query attends to. */
typedef enum {
    ATTENTION_CAUSAL,            /* those up to itself */
    ATTENTION_FULL,              /* all */
    ATTENTION_DOCS,              /* those up to itself in its document */
    ATTENTION_DOCS_FULL,         /* all of its document */
    ATTENTION_SHARED,            /* those up to itself; after the hole, without those in it */
    ATTENTION_LENGTH,            /* before the length those before it; after it: itself */
    ATTENTION_LIMIT              /* those before a limit of its own, and itself */
} AttentionMask;

/* The mask with its arrays, NULL where it has none, and dropout of the probabilities; lse is that
 * of all scores, dropped or not. */
typedef struct {
    AttentionMask mask;
    const int32_t *positions;    /* docs (B, T): position of a token in its document */
    const int32_t *doc_ends;     /* docs (B, T): position after its document's last token */
    const int32_t *kv_limits;    /* length (B); limit (B, T); from 0 to T */
    const int32_t *prompt_gaps;  /* shared (B, 2): first position, and that after the last, <= T */
    const uint32_t *noise;       /* of dropout, see philox.h; NULL: none */
    int32_t site;                /* of dropout, as its op has it */
    float p;                     /* share of the probabilities that is dropped */
    int64_t sample, head;        /* of the block at work; callers leave them 0 */
} AttentionRule;

/* The keys that the queries of one block attend to: query i attends to begin[i] .. end[i] - 1.
 * Neither decreases as i grows, except that for queries with limits end[i] is the limit of query i,
 * which also attends to itself. Lanes without a query attend to all keys. */
typedef struct {
    int32_t begin[ATTENTION_BLOCK], end[ATTENTION_BLOCK];
    int64_t first, last;         /* first <= j < last: keys of at least one query, in whole 32
                                  * (AMX) */
    int64_t all_from, all_to;    /* of these, the keys of all queries */
    bool limits;
    int64_t own;                 /* the first query */
    int64_t own_first, own_last; /* keys after `last` that only the query itself attends to */
    int64_t hole_first, hole_last;       /* keys hidden from queries of lanes hole_from and up */
    int64_t hole_from;
} AttentionKeys;

/* Sets the keys of queries i0 .. i0 + nq - 1 of a sequence with limits. */
static inline void attention_limits_(AttentionKeys *k, const AttentionRule *rule, int64_t i0,
                                     int64_t nq, int64_t T)
{
    const int32_t *kv_limits = rule->kv_limits;
    int64_t most = 0;
    k->all_to = T;
    k->hole_first = k->hole_last = k->hole_from = 0;
    for (int64_t i = 0; i < ATTENTION_BLOCK; i++) {
        const int64_t t = i0 + i;
        k->begin[i] = 0;
        k->end[i] = (int32_t)T;
        if (i >= nq)
            continue;
        k->end[i] = rule->mask == ATTENTION_LIMIT ? kv_limits[t] : t < *kv_limits ? *kv_limits : 0;
        most = k->end[i] > most ? k->end[i] : most;
        k->all_to = k->end[i] < k->all_to ? k->end[i] : k->all_to;
    }
    k->limits = true;
    k->own = i0;
    k->first = k->all_from = 0;
    k->last = (most + 31) / 32 * 32 < T ? (most + 31) / 32 * 32 : T;
    k->own_first = k->last > i0 ? k->last : i0;
    k->own_last = (i0 + nq + 31) / 32 * 32 < T ? (i0 + nq + 31) / 32 * 32 : T;
}

/* Sets the keys of queries i0 .. i0 + nq - 1 of a sequence, from the arrays of the rule. */
static inline void attention_keys_(AttentionKeys *k, const AttentionRule *rule, int64_t i0,
                                   int64_t nq, int64_t T)
{
    if (rule->kv_limits) {
        attention_limits_(k, rule, i0, nq, T);
        return;
    }
    const bool causal =
        rule->mask == ATTENTION_CAUSAL || rule->mask == ATTENTION_DOCS || rule->prompt_gaps;
    for (int64_t i = 0; i < ATTENTION_BLOCK; i++) {
        const int64_t t = i0 + i;
        const bool here = i < nq;
        k->begin[i] = here && rule->positions ? (int32_t)t - rule->positions[t] : 0;
        k->end[i] = (int32_t)(!here ? T : causal ? t + 1 : rule->doc_ends ? rule->doc_ends[t] : T);
    }
    k->first = k->begin[0] / 32 * 32;
    k->last = (k->end[nq - 1] + 31) / 32 * 32;
    k->last = k->last < T ? k->last : T;
    k->all_from = k->begin[nq - 1], k->all_to = k->end[0];
    k->limits = false;
    k->own_first = k->own_last = 0;
    k->hole_first = k->hole_last = k->hole_from = 0;
    if (rule->prompt_gaps && i0 + nq > rule->prompt_gaps[1]) {
        k->hole_first = rule->prompt_gaps[0], k->hole_last = rule->prompt_gaps[1];
        k->hole_from = rule->prompt_gaps[1] > i0 ? rule->prompt_gaps[1] - i0 : 0;
    }
}

/* Keys of the next block, which *j is moved to: at most ATTENTION_BLOCK; 0: none is left. */
static inline int64_t attention_next_(const AttentionKeys *k, int64_t *j)
{
    const int64_t beyond = k->hole_last / 32 * 32;
    if (*j >= k->hole_first && *j < beyond && !k->hole_from)
        *j = beyond;
    const bool own = *j >= k->last;
    if (own && *j < k->own_first)
        *j = k->own_first;
    const int64_t n = (own ? k->own_last : k->last) - *j;
    return n > ATTENTION_BLOCK ? ATTENTION_BLOCK : n > 0 ? n : 0;
}

/* Keys j .. j + n - 1 of a block with lanes from .. to - 1: whole vectors with every query of the
 * block that attends to one of these keys. */
typedef struct {
    int64_t j, n, from, to;
} AttentionRun;

/* Returns true if a query in the vector at lane i attends to one of the keys j0 .. j1 - 1. */
static inline bool attention_vector_meets_(const AttentionKeys *keys, int64_t i, int64_t j0,
                                           int64_t j1)
{
    bool meets = false;
    for (int64_t l = i; l < i + TILE_LANES; l++) {
        const int64_t own = keys->own + l;
        meets |= keys->begin[l] < j1 && keys->end[l] > j0;
        meets |= keys->limits && own >= j0 && own < j1;
    }
    return meets;
}

/* The runs of keys j0 .. j0 + nk - 1, in order; returns how many. */
static inline int attention_runs_(AttentionRun run[ATTENTION_RUNS], const AttentionKeys *keys,
                                  int64_t j0, int64_t nk, int64_t lanes)
{
    int n = 0;
    run[0] = (AttentionRun){ .n = nk, .to = lanes };
    if (keys->all_from <= j0 && j0 + nk <= keys->all_to)
        return 1;
    for (int64_t j = 0; j < nk; j += ATTENTION_GROUP) {
        AttentionRun r = { j, nk - j < ATTENTION_GROUP ? nk - j : ATTENTION_GROUP, 0, lanes };
        const int64_t key = j0 + j, end = key + r.n;
        while (r.from < r.to && !attention_vector_meets_(keys, r.from, key, end))
            r.from += TILE_LANES;
        while (r.from < r.to && !attention_vector_meets_(keys, r.to - TILE_LANES, key, end))
            r.to -= TILE_LANES;
        if (r.from == r.to)
            continue;
        if (n > 0 && run[n - 1].from == r.from && run[n - 1].to == r.to &&
            run[n - 1].j + run[n - 1].n == j)
            run[n - 1].n += r.n;
        else
            run[n++] = r;
    }
    return n;
}

/* Scales the scores of a run of the block at key j0; sets masked ones to -inf. */
static inline void attention_mask_(float *s, const AttentionKeys *keys, int64_t j0,
                                   const AttentionRun *run, float scale)
{
    const int32_t *begin = keys->begin, *end = keys->end;
    const int64_t first = j0 + run->j, from = run->from, to = run->to;
    const bool gap = first < keys->hole_last && first + run->n > keys->hole_first;
    const bool all = !gap && keys->all_from <= first && first + run->n <= keys->all_to;
    for (int64_t j = run->j; j < run->j + run->n && !(all && scale == 1); j++) {
        float *row = s + j * ATTENTION_BLOCK;
        const int32_t key = (int32_t)(j0 + j);
        if (all) {
#pragma omp simd
            for (int64_t i = from; i < to; i++)
                row[i] *= scale;
        } else if (keys->limits) {
            const int64_t own = key - keys->own;
#pragma omp simd
            for (int64_t i = from; i < to; i++)
                row[i] = key >= end[i] && i != own ? -__builtin_inff() : row[i] * scale;
        } else if (key >= keys->hole_first && key < keys->hole_last) {
            const int64_t hole_from = keys->hole_from;
#pragma omp simd
            for (int64_t i = from; i < to; i++)
                row[i] = key >= end[i] || i >= hole_from ? -__builtin_inff() : row[i] * scale;
        } else {
#pragma omp simd
            for (int64_t i = from; i < to; i++)
                row[i] = key < begin[i] || key >= end[i] ? -__builtin_inff() : row[i] * scale;
        }
    }
}

/* The dropout mask of a rule; without dropout all zero, and not read. */
static inline DrawMask attention_draws_(const AttentionRule *rule)
{
    DrawMask m = { .threshold = 0 };
    if (rule->noise)
        draw_mask(&m, rule->noise, dropout_site(rule->site), rule->p);
    return m;
}

/* kept (.., ATTENTION_BLOCK) = 0 where dropped, else 1 / (1 - p), of a run of the block at query i0
 * and key j0, a multiple of 4. A lane is a query, the four words of a draw its next four keys. */
static inline void attention_kept_(float *restrict kept, const DrawMask *m,
                                   const AttentionRule *rule, int64_t i0, int64_t j0,
                                   const AttentionRun *run, int64_t T)
{
    enum { N = ATTENTION_BLOCK };
    const DrawWords zero = { 0 }, sample = zero + (m->sample + (uint32_t)rule->sample);
    DrawWords lane = { 0 };
    for (uint32_t l = 0; l < DRAW_LANES; l++)
        lane[l] = (uint32_t)i0 + l;
    for (int64_t j = run->j; j < run->j + run->n; j += 4) {
        const DrawWords quad = zero + dropout_quad_of_key(T, rule->head, j0 + j);
        for (int64_t i = run->from; i < run->to; i += DRAW_LANES) {
            const Draw draw =
                draw_words(m, (Draw){ { quad, lane + (uint32_t)i, sample, zero + m->step } });
#pragma GCC unroll 4
            for (int w = 0; w < 4; w++)
                *(DrawFloats *)(kept + (j + w) * N + i) = draw_kept(m, draw.word[w]);
        }
    }
}

static inline void attention_drop_(float *restrict s, const float *restrict kept,
                                   const AttentionRun *run)
{
    for (int64_t j = run->j; j < run->j + run->n; j++)
#pragma omp simd
        for (int64_t i = run->from; i < run->to; i++)
            s[j * ATTENTION_BLOCK + i] *= kept[j * ATTENTION_BLOCK + i];
}

static inline int64_t attention_lanes_(int64_t n)
{
    return (n + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
}

/* The maximum of top and n keys' scores; four at a time, or each comparison waits for the last. */
static inline __attribute__((always_inline)) TileVec attention_top_(const float *s, int64_t n,
                                                                    TileVec top)
{
    const TileVec *at = (const TileVec *)s;
    enum { ROW = ATTENTION_BLOCK / TILE_LANES };
    for (; n >= 4; n -= 4, at += 4 * ROW)
        top = tile_max(tile_max(tile_max(at[0], at[ROW]), tile_max(at[2 * ROW], at[3 * ROW])), top);
    for (; n > 0; n--, at += ROW)
        top = tile_max(*at, top);
    return top;
}

/* The softmax carried to the keys of n runs: s becomes 2^(s - max); ot (D, block), the unfinished
 * output, follows the maximum. */
static inline void attention_softmax_(float *restrict s, float *restrict ot, float *restrict max,
                                      float *restrict sum, const AttentionRun *run, int n,
                                      int64_t lanes, int64_t D)
{
    enum { N = ATTENTION_BLOCK };
    for (int64_t i = 0; i < lanes; i += TILE_LANES) {
        const TileVec before = *(TileVec *)(max + i);
        TileVec top = before, added = *(TileVec *)(sum + i);
        for (const AttentionRun *r = run; r < run + n; r++)
            if (r->from <= i && i < r->to)
                top = attention_top_(s + r->j * N + i, r->n, top);
        const TileVec shrink = attention_exp2_(before - top);
        added *= shrink;
        for (const AttentionRun *r = run; r < run + n; r++)
            for (int64_t j = r->j; j < r->j + r->n && r->from <= i && i < r->to; j++) {
                const TileVec p = attention_exp2_(*(TileVec *)(s + j * N + i) - top);
                *(TileVec *)(s + j * N + i) = p;
                added += p;
            }
        *(TileVec *)(max + i) = top;
        *(TileVec *)(sum + i) = added;
        for (int64_t d = 0; d < D; d++)
            *(TileVec *)(ot + d * N + i) *= shrink;
    }
}

/* o and lse of n queries from what the softmax left. */
static inline void attention_finish_(act_t *o, float *lse, float *ot, const float *max, float *sum,
                                     int64_t n, int64_t D, int64_t orow)
{
    for (int64_t i = 0; i < n; i++) {
        lse[i] = max[i] * ATTENTION_LN2 + math_log(sum[i]);
        sum[i] = 1.0f / sum[i];
    }
    for (int64_t d = 0; d < D; d++)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            ot[d * ATTENTION_BLOCK + i] *= sum[i];
    attention_back_(o, ot, n, D, orow);
}

/* Queries i0.. of one head; o and lse at query i0, q at query i0, k at key 0, v = k + to_v. */
static void attention_block_fwd_(act_t *o, float *lse, const act_t *q, const act_t *k, int64_t to_v,
                                 const AttentionRule *rule, int64_t i0, int64_t T, int64_t D,
                                 int64_t row, int64_t orow, float scale)
{
    enum { N = ATTENTION_BLOCK };
    _Alignas(64) float qt[ATTENTION_D * N], ot[ATTENTION_D * N], kv[2][N * ATTENTION_D];
    _Alignas(64) float s[N * N], kept[N * N];
    float max[N], sum[N];
    AttentionRun run[ATTENTION_RUNS];
    const int64_t nq = T - i0 < ATTENTION_BLOCK ? T - i0 : ATTENTION_BLOCK;
    const int64_t lanes = attention_lanes_(nq);
    AttentionKeys keys;
    const DrawMask draws = attention_draws_(rule);
    attention_keys_(&keys, rule, i0, nq, T);
    const float *qf = attention_rows_(kv[0], q, nq, D, row);
    attention_transpose_(qt, qf, nq, D, scale * ATTENTION_LOG2E);
    attention_clear_(ot, N, D, lanes);
    for (int64_t i = 0; i < ATTENTION_BLOCK; i++)
        max[i] = -0x1p126f, sum[i] = 0;
    for (int64_t j0 = keys.first, nk; (nk = attention_next_(&keys, &j0)) > 0; j0 += nk) {
        const float *kf = attention_rows_(kv[0], k + j0 * row, nk, D, row);
        const float *vf = attention_rows_(kv[1], k + to_v + j0 * row, nk, D, row);
        const int n = attention_runs_(run, &keys, j0, nk, lanes);
        for (const AttentionRun *r = run; r < run + n; r++) {
            tile_product(&(Tile){ .c = s + r->j * N + r->from, .ldc = N, .a = kf + r->j * D,
                                  .lda = D, .b = qt + r->from, .ldb = N, .m = r->n,
                                  .n = r->to - r->from, .k = D });
            attention_mask_(s, &keys, j0, r, 1);
        }
        attention_softmax_(s, ot, max, sum, run, n, lanes, D);
        for (const AttentionRun *r = run; r < run + n; r++) {
            if (rule->noise) {
                attention_kept_(kept, &draws, rule, i0, j0, r, T);
                attention_drop_(s, kept, r);
            }
            tile_product(&(Tile){ .c = ot + r->from, .ldc = N, .a = vf + r->j * D, .lda = D,
                                  .transposed = true, .b = s + r->j * N + r->from, .ldb = N,
                                  .m = D, .n = r->to - r->from, .k = r->n, .add = true });
        }
    }
    attention_finish_(o, lse, ot, max, sum, nq, D, orow);
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

/* Rows of ATTENTION_BLOCK floats, rounded to bf16, in pairs. */
static inline void attention_round_pairs_(uint32_t *restrict to, const float *restrict s, int64_t n,
                                          int64_t lanes)
{
    for (int64_t j = 0; j < n; j += 2) {
        const float *even = s + j * ATTENTION_BLOCK, *odd = even + ATTENTION_BLOCK;
        uint16_t lo[ATTENTION_BLOCK], hi[ATTENTION_BLOCK];
        act_from_float(lo, even, lanes);
        act_from_float(hi, odd, lanes);
#pragma omp simd
        for (int64_t i = 0; i < lanes; i++)
            to[j / 2 * ATTENTION_BLOCK + i] = lo[i] | (uint32_t)hi[i] << 16;
    }
}

/* As attention_block_fwd_; vt (D, T): the values transposed. */
static void attention_block_fwd_amx_(act_t *o, float *lse, const act_t *q, const act_t *k,
                                     const act_t *vt, const AttentionRule *rule, int64_t i0,
                                     int64_t T, int64_t D, int64_t row, int64_t orow, float scale)
{
    enum { N = ATTENTION_BLOCK };
    _Alignas(64) uint32_t qt[ATTENTION_D / 2 * N], p[N / 2 * N];
    _Alignas(64) float ot[ATTENTION_D * N], s[N * N], kept[N * N];
    float max[N], sum[N];
    const int64_t nq = T - i0 < N ? T - i0 : N;
    AttentionKeys keys;
    const DrawMask draws = attention_draws_(rule);
    attention_keys_(&keys, rule, i0, nq, T);
    amx_begin();
    amx_transposed_pairs(qt, N, q, nq, D, row);
    attention_clear_(ot, N, D, nq);
    for (int64_t i = 0; i < N; i++)
        max[i] = -0x1p126f, sum[i] = 0;
    for (int64_t j0 = keys.first, nk; (nk = attention_next_(&keys, &j0)) > 0; j0 += nk) {
        amx_product(s, N, k + j0 * row, row, qt, N, nk, nq, D, false);
        const AttentionRun whole = { .n = nk, .to = nq };
        attention_mask_(s, &keys, j0, &whole, scale * ATTENTION_LOG2E);
        attention_softmax_(s, ot, max, sum, &whole, 1, nq, D);
        if (rule->noise) {
            attention_kept_(kept, &draws, rule, i0, j0, &whole, T);
            attention_drop_(s, kept, &whole);
        }
        attention_round_pairs_(p, s, nk, nq);
        amx_product(ot, N, vt + j0, T, p, N, D, nq, nk, true);
    }
    amx_end();
    attention_finish_(o, lse, ot, max, sum, nq, D, orow);
}
#endif

/* The rule of sequence b and query head h. */
static inline AttentionRule attention_rule_(const AttentionRule *rule, int64_t b, int64_t h,
                                            int64_t T)
{
    AttentionRule of_b = *rule;
    of_b.sample = b, of_b.head = h;
    if (of_b.positions)
        of_b.positions += b * T, of_b.doc_ends += b * T;
    if (of_b.kv_limits)
        of_b.kv_limits += of_b.mask == ATTENTION_LENGTH ? b : b * T;
    if (of_b.prompt_gaps)
        of_b.prompt_gaps += 2 * b;
    return of_b;
}

/* bf16: the values transposed (B, KV, D, T). */
/* ws: attention_fwd_workspace(B, T, KV, D) bytes. */
static inline void attention_fwd(act_t *restrict o, float *restrict lse, const act_t *restrict qkv,
                                 const AttentionRule *rule, int64_t B, int64_t T, int64_t NH,
                                 int64_t KV, int64_t D, float scale, void *ws)
{
    const int64_t row = (NH + 2 * KV) * D, blocks = (T + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
#ifdef ATTENTION_AMX
    const bool amx = attention_amx_(T, D);
    if (amx)
        attention_heads_transpose_(ws, qkv + (NH + KV) * D, B, T, KV, D, row);
#else
    (void)ws;
#endif
    const int64_t chunk = attention_chunk_(B, NH * blocks);
#pragma omp parallel for schedule(dynamic, chunk)
    for (int64_t task = 0; task < B * NH * blocks; task++) {
        const int64_t head = task / blocks, h = head % NH, b = head / NH, kv = h / (NH / KV);
        /* the longest first */
        const int64_t i0 = (blocks - 1 - task % blocks) * ATTENTION_BLOCK;
        act_t *to = o + ((b * T + i0) * NH + h) * D;
        const act_t *q = qkv + (b * T + i0) * row + h * D, *k = qkv + b * T * row + (NH + kv) * D;
        const AttentionRule of_b = attention_rule_(rule, b, h, T);
#ifdef ATTENTION_AMX
        if (amx) {
            attention_block_fwd_amx_(to, lse + head * T + i0, q, k,
                                     (act_t *)ws + (b * KV + kv) * D * T, &of_b, i0, T, D, row,
                                     NH * D, scale);
            continue;
        }
#endif
        attention_block_fwd_(to, lse + head * T + i0, q, k, KV * D, &of_b, i0, T, D, row, NH * D,
                             scale);
    }
}

/* dk and dv of a (batch, key head) are summed in fp32: in place, or for bf16 in ws (B, KV, 2, T,
 * D), which is followed by the keys transposed (B, KV, D, T) bf16. */
/* One key head of one sequence: where its rows begin and the strides between them. */
typedef struct {
    const act_t *q, *k, *v, *o, *dout;
    const act_t *kt;                     /* (D, T) with AMX, else NULL */
    act_t *dq;
    const float *lse;
    AttentionRule rule;
    float *dk, *dv;
    int64_t T, D, row, orow, ldd;        /* ldd: floats between rows of dk and dv */
    float scale;
} AttentionHead;

/* s (keys, queries) -> probabilities; ds (d probabilities on entry) -> gradient of q.k but for the
 * scale; lse to base 2. */
static inline void attention_block_ds_(float *restrict s, float *restrict ds,
                                       const float *restrict lse, const float *restrict delta,
                                       const AttentionRun *run)
{
    for (int64_t j = run->j; j < run->j + run->n; j++)
        for (int64_t i = run->from; i < run->to; i += TILE_LANES) {
            TileVec *at = (TileVec *)(s + j * ATTENTION_BLOCK + i);
            TileVec *to = (TileVec *)(ds + j * ATTENTION_BLOCK + i);
            const TileVec p = attention_exp2_(*at - *(const TileVec *)(lse + i));
            *at = p;
            *to = p * (*to - *(const TileVec *)(delta + i));
        }
}

/* Queries i0.. of one query head: dq, and their share of dk and dv. */
static void attention_block_bwd_(const AttentionHead *g, int64_t i0)
{
    enum { N = ATTENTION_BLOCK };
    _Alignas(64) float qt[ATTENTION_D * N], dot[ATTENTION_D * N], dqt[ATTENTION_D * N];
    _Alignas(64) float s[N * N], ds[N * N], kept[N * N];
    _Alignas(64) float rows[4][N * ATTENTION_D];
    float lse[N] = { 0 }, delta[N] = { 0 };
    AttentionRun run[ATTENTION_RUNS];
    const int64_t T = g->T, D = g->D, row = g->row, nq = T - i0 < N ? T - i0 : N;
    const int64_t lanes = attention_lanes_(nq);
    AttentionKeys keys;
    const DrawMask draws = attention_draws_(&g->rule);
    attention_keys_(&keys, &g->rule, i0, nq, T);
    const float *o = attention_rows_(rows[1], g->o + i0 * g->orow, nq, D, g->orow);
    const float *q = attention_rows_(rows[0], g->q + i0 * row, nq, D, row);
    const float *dout = attention_rows_(rows[2], g->dout + i0 * g->orow, nq, D, g->orow);
    attention_transpose_(qt, q, nq, D, g->scale * ATTENTION_LOG2E);
    attention_transpose_(dot, dout, nq, D, 1);
    for (int64_t i = 0; i < nq * D; i++)
        rows[0][i] *= g->scale;
    for (int64_t i = 0; i < nq; i++) {
        lse[i] = g->lse[i0 + i] * ATTENTION_LOG2E;
        for (int64_t d = 0; d < D; d++)
            delta[i] += dout[i * D + d] * o[i * D + d];
    }
    attention_clear_(dqt, N, D, lanes);
    for (int64_t j0 = keys.first, nk; (nk = attention_next_(&keys, &j0)) > 0; j0 += nk) {
        const float *k = attention_rows_(rows[1], g->k + j0 * row, nk, D, row);
        const float *v = attention_rows_(rows[3], g->v + j0 * row, nk, D, row);
        const int n = attention_runs_(run, &keys, j0, nk, lanes);
        for (const AttentionRun *r = run; r < run + n; r++) {
            const int64_t at = r->j * N + r->from, width = r->to - r->from;
            const int64_t here = (r->to < nq ? r->to : nq) - r->from, to = (j0 + r->j) * g->ldd;
            tile_product(&(Tile){ .c = s + at, .ldc = N, .a = k + r->j * D, .lda = D,
                                  .b = qt + r->from, .ldb = N, .m = r->n, .n = width, .k = D });
            tile_product(&(Tile){ .c = ds + at, .ldc = N, .a = v + r->j * D, .lda = D,
                                  .b = dot + r->from, .ldb = N, .m = r->n, .n = width, .k = D });
            attention_mask_(s, &keys, j0, r, 1);
            if (g->rule.noise) {
                attention_kept_(kept, &draws, &g->rule, i0, j0, r, T);
                attention_drop_(ds, kept, r);
            }
            attention_block_ds_(s, ds, lse, delta, r);
            if (g->rule.noise)
                attention_drop_(s, kept, r);
            tile_product(&(Tile){ .c = g->dv + to, .ldc = g->ldd, .a = s + at, .lda = N,
                                  .b = dout + r->from * D, .ldb = D, .m = r->n, .n = D, .k = here,
                                  .add = true });
            tile_product(&(Tile){ .c = g->dk + to, .ldc = g->ldd, .a = ds + at, .lda = N,
                                  .b = q + r->from * D, .ldb = D, .m = r->n, .n = D, .k = here,
                                  .add = true });
            tile_product(&(Tile){ .c = dqt + r->from, .ldc = N, .a = k + r->j * D, .lda = D,
                                  .transposed = true, .b = ds + at, .ldb = N, .m = D, .n = width,
                                  .k = r->n, .add = true });
        }
    }
    for (int64_t i = 0; i < D * N; i++)
        dqt[i] *= g->scale;
    attention_back_(g->dq + i0 * row, dqt, nq, D, row);
}

#ifdef ATTENTION_AMX
/* As attention_block_bwd_. */
static void attention_block_bwd_amx_(const AttentionHead *g, int64_t i0)
{
    enum { N = ATTENTION_BLOCK };
    _Alignas(64) uint32_t qt[ATTENTION_D / 2 * N], dot[ATTENTION_D / 2 * N];
    _Alignas(64) uint32_t qp[N / 2 * ATTENTION_D], dop[N / 2 * ATTENTION_D];
    _Alignas(64) uint32_t dsp[N / 2 * N];
    _Alignas(64) uint16_t p16[N * N], ds16[N * N];
    _Alignas(64) float dqt[ATTENTION_D * N], s[N * N], ds[N * N], kept[N * N];
    float lse[N] = { 0 }, delta[N] = { 0 };
    const int64_t T = g->T, D = g->D, row = g->row, orow = g->orow, nq = T - i0 < N ? T - i0 : N;
    const act_t *q = g->q + i0 * row, *dout = g->dout + i0 * orow, *o = g->o + i0 * orow;
    AttentionKeys keys;
    const DrawMask draws = attention_draws_(&g->rule);
    attention_keys_(&keys, &g->rule, i0, nq, T);
    amx_begin();
    amx_transposed_pairs(qt, N, q, nq, D, row);
    amx_transposed_pairs(dot, N, dout, nq, D, orow);
    amx_pairs(qp, q, nq, D, row);
    amx_pairs(dop, dout, nq, D, orow);
    for (int64_t i = 0; i < nq; i++) {
        lse[i] = g->lse[i0 + i] * ATTENTION_LOG2E;
        for (int64_t d = 0; d < D; d++)
            delta[i] += act_load(dout + i * orow + d) * act_load(o + i * orow + d);
    }
    attention_clear_(dqt, N, D, nq);
    for (int64_t j0 = keys.first, nk; (nk = attention_next_(&keys, &j0)) > 0; j0 += nk) {
        amx_product(s, N, g->k + j0 * row, row, qt, N, nk, nq, D, false);
        amx_product(ds, N, g->v + j0 * row, row, dot, N, nk, nq, D, false);
        const AttentionRun whole = { .n = nk, .to = nq };
        attention_mask_(s, &keys, j0, &whole, g->scale * ATTENTION_LOG2E);
        if (g->rule.noise) {
            attention_kept_(kept, &draws, &g->rule, i0, j0, &whole, T);
            attention_drop_(ds, kept, &whole);
        }
        attention_block_ds_(s, ds, lse, delta, &whole);
        if (g->rule.noise)
            attention_drop_(s, kept, &whole);
        for (int64_t i = 0; i < nk * N; i++)
            ds[i] *= g->scale;
        for (int64_t j = 0; j < nk; j++) {
            act_from_float(p16 + j * N, s + j * N, nq);
            act_from_float(ds16 + j * N, ds + j * N, nq);
        }
        amx_pairs(dsp, ds16, nk, N, N);
        amx_product(g->dv + j0 * g->ldd, g->ldd, p16, N, dop, D, nk, D, nq, true);
        amx_product(g->dk + j0 * g->ldd, g->ldd, ds16, N, qp, D, nk, D, nq, true);
        amx_product(dqt, N, g->kt + j0, T, dsp, N, D, nq, nk, true);
    }
    amx_end();
    attention_back_(g->dq + i0 * row, dqt, nq, D, row);
}
#endif

/* dqkv is overwritten; ws: attention_bwd_workspace(B, T, KV, D) bytes. */
static inline void attention_bwd(act_t *restrict dqkv, const act_t *restrict dout,
                                 const act_t *restrict o, const float *restrict lse,
                                 const act_t *restrict qkv, const AttentionRule *rule, int64_t B,
                                 int64_t T, int64_t NH, int64_t KV, int64_t D, float scale,
                                 void *ws)
{
    const int64_t row = (NH + 2 * KV) * D, group = NH / KV;
    const int in_place = sizeof(act_t) == sizeof(float);
    const act_t *kt = NULL;
#ifdef ATTENTION_AMX
    if (attention_amx_(T, D)) {
        act_t *to = (act_t *)((float *)ws + B * KV * 2 * T * D);
        attention_heads_transpose_(to, qkv + NH * D, B, T, KV, D, row);
        kt = to;
    }
#endif
    const int64_t chunk = attention_chunk_(B, KV);
#pragma omp parallel for schedule(dynamic, chunk)
    for (int64_t task = 0; task < B * KV; task++) {
        const int64_t b = task / KV, kv = task % KV, at = b * T * row, k = at + (NH + kv) * D;
        float *sums = in_place ? (float *)dqkv + k : (float *)ws + task * 2 * T * D;
        AttentionHead g = { .k = qkv + k, .v = qkv + k + KV * D, .dk = sums,
                            .dv = sums + (in_place ? KV * D : T * D), .T = T, .D = D, .row = row,
                            .orow = NH * D, .ldd = in_place ? row : D, .scale = scale,
                            .rule = attention_rule_(rule, b, 0, T),
                            .kt = kt ? kt + task * D * T : NULL };
        attention_clear_(g.dk, g.ldd, T, D);
        attention_clear_(g.dv, g.ldd, T, D);
        for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
            g.rule.head = h;
            g.q = qkv + at + h * D;
            g.dq = dqkv + at + h * D;
            g.o = o + b * T * NH * D + h * D;
            g.dout = dout + b * T * NH * D + h * D;
            g.lse = lse + (b * NH + h) * T;
            for (int64_t i0 = 0; i0 < T; i0 += ATTENTION_BLOCK) {
#ifdef ATTENTION_AMX
                if (g.kt) {
                    attention_block_bwd_amx_(&g, i0);
                    continue;
                }
#endif
                attention_block_bwd_(&g, i0);
            }
        }
        for (int64_t t = 0; !in_place && t < T; t++) {
            act_from_float(dqkv + k + t * row, g.dk + t * D, D);
            act_from_float(dqkv + k + KV * D + t * row, g.dv + t * D, D);
        }
    }
}

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
