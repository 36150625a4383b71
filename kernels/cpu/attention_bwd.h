/* attention_bwd.h -- the gradient of attention of sequences.
 *
 * Method: probabilities are computed again from the logarithms of their sums, block by block. */
#ifndef DIECAST_KERNELS_ATTENTION_BWD_H
#define DIECAST_KERNELS_ATTENTION_BWD_H

#include "attention_block.h"

/* One key head of one sequence: where its rows begin and the strides between them. */
typedef struct {
    const act_t *q, *k, *v, *o, *dout;
    const act_t *kt;                     /* (D, T) with AMX, else NULL */
    act_t *dq;
    const float *lse;
    AttentionRule rule;
    float *dk, *dv;
    int64_t T, D, row, orow, ldd;        /* ldd: floats between rows of dk and dv */
    bool lanes;                          /* dk and dv: (T, D, TILE_LANES), the sum of each lane */
    float scale;
} AttentionHead;

/* As attention_block_ds_, of a vector of queries at lane i. */
static inline __attribute__((always_inline)) void
attention_vector_ds_(float *restrict s, float *restrict ds, TileVec lse, TileVec delta,
                     const AttentionRun *run, int64_t i, int64_t j0, const AttentionDrops *drops,
                     const DrawColumn *column)
{
    enum { N = ATTENTION_BLOCK };
    for (int64_t j = run->j, left = run->n; left > 0; j += 4, left -= 4) {
        TileVec kept[4], *at = (TileVec *)(s + j * N + i), *to = (TileVec *)(ds + j * N + i);
        if (drops)
            attention_kept_(kept, drops, column, j0 + j);
#pragma GCC unroll 4
        for (int w = 0; w < 4; w++, at += N / TILE_LANES, to += N / TILE_LANES) {
            if (w >= left)
                continue;
            const TileVec p = attention_exp2_(*at - lse);
            TileVec dp = *to;
            *at = p;
            if (drops) {
                *at *= kept[w];
                dp *= kept[w];
                __asm__("" : "+v"(dp));  /* rounded before delta is subtracted */
            }
            *to = p * (dp - delta);
        }
    }
}

/* s (keys, queries) -> probabilities, then dropped; ds (d of the dropped ones on entry) -> gradient
 * of q.k but for the scale; lse to base 2. j0: key of the block; drops: NULL: none. */
static inline void attention_block_ds_(float *restrict s, float *restrict ds,
                                       const float *restrict lse, const float *restrict delta,
                                       const AttentionRun *run, int64_t j0,
                                       const AttentionDrops *drops)
{
    for (int64_t i = run->from; i < run->to; i += TILE_LANES) {
        const TileVec of = *(const TileVec *)(lse + i), less = *(const TileVec *)(delta + i);
        if (drops) {
            const DrawColumn column = attention_column_(drops, i);
            attention_vector_ds_(s, ds, of, less, run, i, j0, drops, &column);
        } else
            attention_vector_ds_(s, ds, of, less, run, i, j0, NULL, NULL);
    }
}

/* delta (nq) = the sum of each row of dout (nq, D) times o, in the order of its elements. */
static inline void attention_delta_(float *restrict delta, const float *restrict dout,
                                    const act_t *restrict o, int64_t nq, int64_t D, int64_t orow)
{
    for (int64_t i = 0; i < nq; i += TILE_LANES) {
        TileVec sum = { 0 };
        for (int64_t d = 0; d < D; d += TILE_LANES) {
            TileVec v[TILE_LANES] = { { 0 } };
            for (int64_t r = i; r < i + TILE_LANES && r < nq; r++) {
                TileVec x = { 0 };
#ifndef ACT_BF16
                if (d + TILE_LANES <= D)
                    x = *(const TileVec *)(dout + r * D + d) * *(const TileVec *)(o + r * orow + d);
                else
#endif
                    for (int64_t l = 0; l < D - d && l < TILE_LANES; l++)
                        x[l] = dout[r * D + d + l] * act_load(o + r * orow + d + l);
                v[r - i] = x;
            }
            tile_transpose_square_(v);
#pragma GCC unroll 16
            for (int l = 0; l < TILE_LANES; l++)
                sum += v[l];
        }
        for (int64_t r = i; r < i + TILE_LANES && r < nq; r++)
            delta[r] = sum[r - i];
    }
}

/* True if dk and dv are summed by lanes: for heads that are no vector, in whole columns, the
 * products that sum over queries are slow. */
static inline bool attention_by_lanes_(int64_t T, int64_t D)
{
    return D < TILE_LANES && attention_fits(T * TILE_LANES, D);
}

/* Adds the products of queries i .. and keys of a run to sums (keys, D, TILE_LANES): rows of p
 * times a transposed operand (D, ATTENTION_BLOCK). */
static inline __attribute__((always_inline)) void
attention_lanes_add_(float *restrict sums, const float *restrict p, const float *restrict t,
                     const AttentionRun *run, int64_t i, int64_t D, const int vectors)
{
    enum { N = ATTENTION_BLOCK };
    for (int64_t d = 0; d < D; d++) {
        TileVec of[N / TILE_LANES];
        for (int v = 0; v < vectors; v++)
            of[v] = *(const TileVec *)(t + d * N + i + v * TILE_LANES);
        for (int64_t j = run->j; j < run->j + run->n; j++) {
            TileVec *sum = (TileVec *)(sums + ((j - run->j) * D + d) * TILE_LANES);
            TileVec all = *sum;
            for (int v = 0; v < vectors; v++)
                all += *(const TileVec *)(p + j * N + i + v * TILE_LANES) * of[v];
            *sum = all;
        }
    }
}

static inline void attention_add_by_lanes_(float *restrict sums, const float *restrict p,
                                           const float *restrict t, const AttentionRun *run,
                                           int64_t D)
{
    enum { ALL = ATTENTION_BLOCK / TILE_LANES };
    if (run->to - run->from == ATTENTION_BLOCK)
        attention_lanes_add_(sums, p, t, run, 0, D, ALL);
    else
        for (int64_t i = run->from; i < run->to; i += TILE_LANES)
            attention_lanes_add_(sums, p, t, run, i, D, 1);
}

/* sums (n) = scale times the sum of the lanes of each of n vectors there, in place; in the order of
 * lanes. */
static inline void attention_add_lanes_(float *sums, int64_t n, float scale)
{
    for (int64_t e = 0; e < n; e += TILE_LANES) {
        TileVec v[TILE_LANES], all = { 0 };
        for (int l = 0; l < TILE_LANES; l++)
            v[l] = *(const TileVec *)(sums + (e + (e + l < n ? l : 0)) * TILE_LANES);
        tile_transpose_square_(v);
        for (int l = 0; l < TILE_LANES; l++)
            all += v[l];
        *(TileVec *)(sums + e) = all * scale;
    }
}

/* Queries i0 .. i0 + nq - 1 of one query head: dq, and their share of dk and dv. */
static __attribute__((noinline)) void
attention_block_bwd_(const AttentionHead *g, int64_t i0, int64_t nq, AttentionPacked *packed,
                     AttentionAhead *ahead)
{
    enum { N = ATTENTION_BLOCK };
    _Alignas(64) float qt[ATTENTION_D * N], dot[ATTENTION_D * N], dqt[ATTENTION_D * N];
    _Alignas(64) float q[N * ATTENTION_D], dout[N * ATTENTION_D];
    _Alignas(64) float s[N * N], ds[N * N];
    float lse[N] = { 0 }, delta[N] = { 0 };
    AttentionRun run[ATTENTION_RUNS];
    const int64_t T = g->T, D = g->D, row = g->row, lanes = attention_lanes_(nq);
    AttentionKeys keys;
    AttentionDrops space;
    const AttentionDrops *drops = attention_drops_(&space, &g->rule, i0, T);
    attention_keys_(&keys, &g->rule, i0, nq, T);
    attention_rows_(q, g->q + i0 * row, nq, D, row, g->scale);
    attention_rows_(dout, g->dout + i0 * g->orow, nq, D, g->orow, 1);
    attention_transpose_(qt, g->q + i0 * row, nq, D, row, g->scale * ATTENTION_LOG2E);
    attention_transpose_(dot, g->dout + i0 * g->orow, nq, D, g->orow, 1);
    attention_delta_(delta, dout, g->o + i0 * g->orow, nq, D, g->orow);
    for (int64_t i = 0; i < nq; i++)
        lse[i] = g->lse[i0 + i] * ATTENTION_LOG2E;
    attention_clear_(dqt, N, D, lanes);
    for (int64_t j0 = keys.first, nk; (nk = attention_next_(&keys, &j0)) > 0; j0 += nk) {
        const int64_t there = attention_pack_(packed, g->k, g->v, j0, nk, T, D, row);
        const float *k = packed->k + there, *v = packed->v + there;
        const int n = attention_runs_(run, &keys, j0, nk, lanes);
        for (const AttentionRun *r = run; r < run + n; r++) {
            const int64_t at = r->j * N + r->from, width = r->to - r->from;
            const int64_t here = (r->to < nq ? r->to : nq) - r->from, to = (j0 + r->j) * g->ldd;
            attention_product_(&(Tile){ .c = s + at, .ldc = N, .a = k + r->j * D, .lda = D,
                                        .b = qt + r->from, .ldb = N, .m = r->n, .n = width,
                                        .k = D }, ahead);
            attention_product_(&(Tile){ .c = ds + at, .ldc = N, .a = v + r->j * D, .lda = D,
                                        .b = dot + r->from, .ldb = N, .m = r->n, .n = width,
                                        .k = D }, ahead);
            attention_mask_(s, &keys, j0, r, 1);
            attention_block_ds_(s, ds, lse, delta, r, j0, drops);
            if (g->lanes) {
                attention_add_by_lanes_(g->dv + to, s, dot, r, D);
                attention_add_by_lanes_(g->dk + to, ds, qt, r, D);
            } else {
                attention_product_(&(Tile){ .c = g->dv + to, .ldc = g->ldd, .a = s + at,
                                            .lda = N, .b = dout + r->from * D, .ldb = D,
                                            .m = r->n, .n = D, .k = here, .add = true }, ahead);
                attention_product_(&(Tile){ .c = g->dk + to, .ldc = g->ldd, .a = ds + at,
                                            .lda = N, .b = q + r->from * D, .ldb = D, .m = r->n,
                                            .n = D, .k = here, .add = true }, ahead);
            }
            attention_product_(&(Tile){ .c = dqt + r->from, .ldc = N, .a = k + r->j * D, .lda = D,
                                        .transposed = true, .b = ds + at, .ldb = N, .m = D,
                                        .n = width, .k = r->n, .add = true }, ahead);
        }
    }
    attention_back_(g->dq + i0 * row, dqt, nq, D, row, g->scale);
}

#ifdef ATTENTION_AMX
/* As attention_block_bwd_. */
static void attention_block_bwd_amx_(const AttentionHead *g, int64_t i0, int64_t nq)
{
    enum { N = ATTENTION_BLOCK };
    _Alignas(64) uint32_t qt[ATTENTION_D / 2 * N], dot[ATTENTION_D / 2 * N];
    _Alignas(64) uint32_t qp[N / 2 * ATTENTION_D], dop[N / 2 * ATTENTION_D];
    _Alignas(64) uint32_t dsp[N / 2 * N];
    _Alignas(64) uint16_t p16[N * N], ds16[N * N];
    _Alignas(64) float dqt[ATTENTION_D * N], s[N * N], ds[N * N];
    float lse[N] = { 0 }, delta[N] = { 0 };
    const int64_t T = g->T, D = g->D, row = g->row, orow = g->orow;
    const act_t *q = g->q + i0 * row, *dout = g->dout + i0 * orow, *o = g->o + i0 * orow;
    AttentionKeys keys;
    AttentionDrops space;
    const AttentionDrops *drops = attention_drops_(&space, &g->rule, i0, T);
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
        attention_block_ds_(s, ds, lse, delta, &whole, j0, drops);
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
    attention_back_(g->dq + i0 * row, dqt, nq, D, row, 1);
}
#endif

/* dqkv is overwritten; ws: attention_bwd_workspace(B, T, KV, D) bytes. dk and dv of a key head are
 * summed in fp32, in an array of the thread where they fit; else in place, or for bf16 in ws (B,
 * KV, 2, T, D), which is followed by the keys transposed (B, KV, D, T) bf16. */
static inline void attention_bwd(act_t *restrict dqkv, const act_t *restrict dout,
                                 const act_t *restrict o, const float *restrict lse,
                                 const act_t *restrict qkv, const AttentionRule *rule, int64_t B,
                                 int64_t T, int64_t NH, int64_t KV, int64_t D, float scale,
                                 void *ws)
{
    const int64_t row = (NH + 2 * KV) * D, group = NH / KV, blocks = attention_blocks_(T);
    const bool in_place = sizeof(act_t) == sizeof(float), fits = attention_fits(T, D);
    const bool lanes = attention_by_lanes_(T, D);
    const act_t *kt = NULL;
#ifdef ATTENTION_AMX
    if (attention_amx_(T, D)) {
        act_t *to = (act_t *)((char *)ws + attention_sums_workspace(B, T, KV, D, sizeof(act_t)));
        attention_heads_transpose_(to, qkv + NH * D, B, T, KV, D, row);
        kt = to;
    }
#endif
    const int64_t chunk = attention_chunk_(B, KV);
#pragma omp parallel
    {
        AttentionPacked packed;
        _Alignas(64) float sums[2][ATTENTION_ROOM];
        packed.of = NULL;
#pragma omp for schedule(dynamic, chunk)
        for (int64_t task = 0; task < B * KV; task++) {
            const int64_t b = task / KV, kv = task % KV, at = b * T * row, k = at + (NH + kv) * D;
            AttentionHead g = { .k = qkv + k, .v = qkv + k + KV * D, .dk = sums[0], .dv = sums[1],
                                .T = T, .D = D, .row = row, .orow = NH * D,
                                .ldd = lanes ? D * TILE_LANES : D, .lanes = lanes,
                                .scale = scale, .rule = attention_rule_(rule, b, 0, T),
                                .kt = kt ? kt + task * D * T : NULL };
            if (!fits && in_place)
                g.dk = (float *)dqkv + k, g.dv = g.dk + KV * D, g.ldd = row;
            else if (!fits)
                g.dk = (float *)ws + task * 2 * T * D, g.dv = g.dk + T * D;
            attention_clear_(g.dk, g.ldd, T, lanes ? g.ldd : D);
            attention_clear_(g.dv, g.ldd, T, lanes ? g.ldd : D);
            for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
                g.rule.head = h;
                g.q = qkv + at + h * D;
                g.dq = dqkv + at + h * D;
                g.o = o + b * T * NH * D + h * D;
                g.dout = dout + b * T * NH * D + h * D;
                g.lse = lse + (b * NH + h) * T;
                for (int64_t block = 0; block < blocks; block++) {
                    int64_t nq, i0 = attention_queries_(block, T, &nq);
                    for (int64_t i = i0; rule->rows_read && i < i0 + nq; i++)
                        memset(g.dq + i * row, 0, sizeof(act_t) * (size_t)D);
                    attention_read_(&g.rule, &i0, &nq);
                    if (!nq)
                        continue;
#ifdef ATTENTION_AMX
                    if (g.kt) {
                        attention_block_bwd_amx_(&g, i0, nq);
                        continue;
                    }
#endif
                    AttentionAhead ahead = attention_after_(b, h, nq, B, NH, D);
                    if (ahead.b >= 0) {
                        const int64_t first = ((ahead.b * T + i0) * NH + ahead.h) * D;
                        attention_add_qkv_(&ahead, qkv, i0, T, NH, KV);
                        attention_add_qkv_(&ahead, dqkv, i0, T, NH, KV);
                        attention_add_(&ahead, o + first, NH * D);
                        attention_add_(&ahead, dout + first, NH * D);
                    }
                    attention_block_bwd_(&g, i0, nq, &packed, &ahead);
                }
            }
            if (!fits && in_place)
                continue;
            if (lanes) {
                attention_add_lanes_(g.dk, T * D, ATTENTION_LN2);
                attention_add_lanes_(g.dv, T * D, 1);
            }
            attention_put_(dqkv + k, g.dk, T, D, row);
            attention_put_(dqkv + k + KV * D, g.dv, T, D, row);
        }
    }
}

#endif
