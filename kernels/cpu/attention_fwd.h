/* attention_fwd.h -- attention of sequences.
 *
 * Method: blocks with the softmax carried along (Dao et al. 2022). */
#ifndef DIECAST_KERNELS_ATTENTION_FWD_H
#define DIECAST_KERNELS_ATTENTION_FWD_H

#include "attention_block.h"

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

/* s, at vector i of a run, becomes 2^(s - top), which is added to `sum`, and then is dropped. j0:
 * key of the block; drops: NULL: none. */
static inline __attribute__((always_inline)) TileVec
attention_powers_(float *restrict s, const AttentionRun *run, int64_t i, TileVec top, TileVec sum,
                  int64_t j0, const AttentionDrops *drops, const DrawColumn *column)
{
    enum { N = ATTENTION_BLOCK };
    for (int64_t j = run->j, left = run->n; left > 0; j += 4, left -= 4) {
        TileVec kept[4], *at = (TileVec *)(s + j * N + i);
        if (drops)
            attention_kept_(kept, drops, column, j0 + j);
#pragma GCC unroll 4
        for (int w = 0; w < 4; w++, at += N / TILE_LANES) {
            if (w >= left)
                continue;
            *at = attention_exp2_(*at - top);
            sum += *at;
            if (drops)
                *at *= kept[w];
        }
    }
    return sum;
}

/* The softmax carried to the keys of n runs: s becomes 2^(s - max), then is dropped; ot (D, block),
 * the unfinished output, follows the maximum. j0, drops: as attention_powers_. */
static inline __attribute__((always_inline)) void
attention_softmax_(float *restrict s, float *restrict ot, float *restrict max, float *restrict sum,
                   const AttentionRun *run, int n, int64_t lanes, int64_t D, int64_t j0,
                   const AttentionDrops *drops)
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
        const DrawColumn column = drops ? attention_column_(drops, i) : (DrawColumn){ .sample = 0 };
        for (const AttentionRun *r = run; r < run + n; r++) {
            if (i < r->from || i >= r->to)
                continue;
            added = drops ? attention_powers_(s, r, i, top, added, j0, drops, &column)
                          : attention_powers_(s, r, i, top, added, j0, NULL, NULL);
        }
        *(TileVec *)(max + i) = top;
        *(TileVec *)(sum + i) = added;
        for (int64_t d = 0; d < D; d++)
            *(TileVec *)(ot + d * N + i) *= shrink;
    }
}

/* o and lse of n queries from the final state of the softmax; whole vectors of logarithms, so that
 * their bits do not depend on where a query is in its block. */
static inline void attention_finish_(act_t *o, float *lse, float *ot, const float *max, float *sum,
                                     int64_t n, int64_t D, int64_t orow)
{
    float log[ATTENTION_BLOCK];
    for (int64_t i = 0; i < n; i += TILE_LANES)
        for (int64_t l = i; l < i + TILE_LANES; l++) {
            log[l] = max[l] * ATTENTION_LN2 + math_log(sum[l]);
            sum[l] = 1.0f / sum[l];
        }
    memcpy(lse, log, sizeof *lse * (size_t)n);
    for (int64_t d = 0; d < D; d++)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            ot[d * ATTENTION_BLOCK + i] *= sum[i];
    attention_back_(o, ot, n, D, orow, 1);
}

/* Queries i0 .. i0 + nq - 1 of one head; o and lse at query i0, q at query i0, k at key 0, v = k +
 * to_v. packed: of this head or another. */
static __attribute__((noinline)) void
attention_block_fwd_(act_t *o, float *lse, const act_t *q, const act_t *k, int64_t to_v,
                     const AttentionRule *rule, int64_t i0, int64_t nq, int64_t T, int64_t D,
                     int64_t row, int64_t orow, float scale, AttentionPacked *packed,
                     AttentionAhead *ahead)
{
    enum { N = ATTENTION_BLOCK };
    _Alignas(64) float qt[ATTENTION_D * N], ot[ATTENTION_D * N], s[N * N];
    float max[N], sum[N];
    AttentionRun run[ATTENTION_RUNS];
    const int64_t lanes = attention_lanes_(nq);
    AttentionKeys keys;
    AttentionDrops space;
    const AttentionDrops *drops = attention_drops_(&space, rule, i0, T);
    attention_keys_(&keys, rule, i0, nq, T);
    attention_transpose_(qt, q, nq, D, row, scale * ATTENTION_LOG2E);
    attention_clear_(ot, N, D, lanes);
    for (int64_t i = 0; i < ATTENTION_BLOCK; i++)
        max[i] = -0x1p126f, sum[i] = 0;
    for (int64_t j0 = keys.first, nk; (nk = attention_next_(&keys, &j0)) > 0; j0 += nk) {
        const int64_t at = attention_pack_(packed, k, k + to_v, j0, nk, T, D, row);
        const int n = attention_runs_(run, &keys, j0, nk, lanes);
        for (const AttentionRun *r = run; r < run + n; r++) {
            attention_product_(&(Tile){ .c = s + r->j * N + r->from, .ldc = N,
                                        .a = packed->k + at + r->j * D, .lda = D,
                                        .b = qt + r->from, .ldb = N, .m = r->n,
                                        .n = r->to - r->from, .k = D }, ahead);
            attention_mask_(s, &keys, j0, r, 1);
        }
        attention_softmax_(s, ot, max, sum, run, n, lanes, D, j0, drops);
        for (const AttentionRun *r = run; r < run + n; r++)
            attention_product_(&(Tile){ .c = ot + r->from, .ldc = N, .a = packed->v + at + r->j * D,
                                        .lda = D, .transposed = true,
                                        .b = s + r->j * N + r->from, .ldb = N, .m = D,
                                        .n = r->to - r->from, .k = r->n, .add = true }, ahead);
    }
    attention_finish_(o, lse, ot, max, sum, nq, D, orow);
}

#ifdef ATTENTION_AMX
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
                                     int64_t nq, int64_t T, int64_t D, int64_t row, int64_t orow,
                                     float scale)
{
    enum { N = ATTENTION_BLOCK };
    _Alignas(64) uint32_t qt[ATTENTION_D / 2 * N], p[N / 2 * N];
    _Alignas(64) float ot[ATTENTION_D * N], s[N * N];
    float max[N], sum[N];
    AttentionKeys keys;
    AttentionDrops space;
    const AttentionDrops *drops = attention_drops_(&space, rule, i0, T);
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
        attention_softmax_(s, ot, max, sum, &whole, 1, nq, D, j0, drops);
        attention_round_pairs_(p, s, nk, nq);
        amx_product(ot, N, vt + j0, T, p, N, D, nq, nk, true);
    }
    amx_end();
    attention_finish_(o, lse, ot, max, sum, nq, D, orow);
}
#endif

/* bf16: the values transposed (B, KV, D, T). */
/* ws: attention_fwd_workspace(B, T, KV, D) bytes. */
static inline void attention_fwd(act_t *restrict o, float *restrict lse, const act_t *restrict qkv,
                                 const AttentionRule *rule, int64_t B, int64_t T, int64_t NH,
                                 int64_t KV, int64_t D, float scale, void *ws)
{
    const int64_t row = (NH + 2 * KV) * D, blocks = attention_blocks_(T);
#ifdef ATTENTION_AMX
    const bool amx = attention_amx_(T, D);
    if (amx)
        attention_heads_transpose_(ws, qkv + (NH + KV) * D, B, T, KV, D, row);
#else
    (void)ws;
#endif
    const int64_t chunk = attention_chunk_(B, NH * blocks);
#pragma omp parallel
    {
        AttentionPacked packed;
        packed.of = NULL;
#pragma omp for schedule(dynamic, chunk)
        for (int64_t task = 0; task < B * NH * blocks; task++) {
            const int64_t head = task / blocks, h = head % NH, b = head / NH, kv = h / (NH / KV);
            const AttentionRule of_b = attention_rule_(rule, b, h, T);
            int64_t nq, i0 = attention_queries_(blocks - 1 - task % blocks, T, &nq);
            attention_read_(&of_b, &i0, &nq);    /* the longest first */
            if (!nq)
                continue;
            act_t *to = o + ((b * T + i0) * NH + h) * D;
            const act_t *q = qkv + (b * T + i0) * row + h * D;
            const act_t *k = qkv + b * T * row + (NH + kv) * D;
#ifdef ATTENTION_AMX
            if (amx) {
                attention_block_fwd_amx_(to, lse + head * T + i0, q, k,
                                         (act_t *)ws + (b * KV + kv) * D * T, &of_b, i0, nq, T, D,
                                         row, NH * D, scale);
                continue;
            }
#endif
            AttentionAhead ahead = attention_after_(b, h, nq, B, NH, D);
            if (ahead.b >= 0) {
                attention_add_qkv_(&ahead, qkv, i0, T, NH, KV);
                attention_add_(&ahead, o + ((ahead.b * T + i0) * NH + ahead.h) * D, NH * D);
            }
            attention_block_fwd_(to, lse + head * T + i0, q, k, KV * D, &of_b, i0, nq, T, D, row,
                                 NH * D, scale, &packed, &ahead);
        }
    }
}

#endif
