/* a_attention.c -- attention.h. */
#include <math.h>
#include <stdio.h>

#include "../../kernels/cpu/attention.h"
#include "../../kernels/cpu/gemm.h"
#include "../../kernels/reference/attention.h"
#include "../../kernels/reference/gemm.h"
#include "dropout_keep.h"
#include "harness.h"
#include "documents.h"
#include "terms.h"

typedef struct {
    int64_t B, T, NH, KV, D;
} Shape;

/* Below, at and above one block of 64; odd heads; grouped heads; heads wider than a vector tile; those of
 * very small models. */
static const Shape shapes[] = {
    { 1, 1, 1, 1, 1 }, { 2, 5, 3, 3, 3 }, { 1, 64, 2, 2, 64 }, { 2, 65, 2, 1, 16 }, { 1, 130, 4, 2,
            20 }, { 3, 17, 6, 2, 8 },
    { 1, 70, 1, 1, 128 }, { 1, 3, 2, 1, 256 }, { 1, 200, 2, 2, 32 }, { 2, 96, 4, 2, 64 }, { 1, 160,
            2, 1, 96 },
    { 2, 128, 4, 4, 2 }, { 8, 32, 2, 2, 4 },
};

static const AttentionPairs causal = { .causal = 1 };
static const AttentionRule causal_rule = { .mask = ATTENTION_CAUSAL };

static int64_t qkv_size(const Shape *s)
{
    return s->B * s->T * (s->NH + 2 * s->KV) * s->D;
}

static int64_t out_size(const Shape *s)
{
    return s->B * s->T * s->NH * s->D;
}

TEST(attention_fwd)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const Shape s = shapes[i];
        const float scale = 1 / sqrtf((float)s.D);
        act_t *qkv = act_normal(qkv_size(&s), 0, 1), *o = NEW(act_t, out_size(&s));
        float *lse = NEW(float, s.B * s.NH * s.T);
        double *ro = NEW(double, out_size(&s)), *rl = NEW(double, s.B * s.NH * s.T);
        double *x = act_double(qkv, qkv_size(&s));
        double *o_terms = NEW(double, out_size(&s)), *lse_terms = NEW(double, s.B * s.NH * s.T);
        attention_fwd_ref(ro, rl, x, &causal, s.B, s.T, s.NH, s.KV, s.D, scale);
        attention_fwd_terms(o_terms, lse_terms, rl, x, &causal, s.B, s.T, s.NH, s.KV, s.D, scale);
        attention_fwd(o, lse, qkv, &causal_rule, s.B, s.T, s.NH, s.KV, s.D, scale,
                      new_bytes(attention_fwd_workspace(s.B, s.T, s.KV, s.D, sizeof(act_t))));
        check_act_terms("o", o, ro, o_terms, out_size(&s), s.T + 2 * s.D);
        check_f32_terms("lse", lse, rl, lse_terms, s.B * s.NH * s.T, s.T + s.D);
    }
}

/* Equal scores: the output is the mean of the values so far, exact for integers and a power of two
 * of keys. */
TEST(attention_uniform)
{
    const Shape s = { 1, 128, 2, 1, 8 };
    const int64_t row = (s.NH + 2 * s.KV) * s.D;
    act_t *qkv = act_integers(qkv_size(&s), 2), *o = NEW(act_t, out_size(&s));
    float *lse = NEW(float, s.NH * s.T);
    for (int64_t t = 0; t < s.T; t++)
        for (int64_t d = 0; d < s.NH * s.D; d++)
            act_store(qkv + t * row + d, 0);
    attention_fwd(o, lse, qkv, &causal_rule, s.B, s.T, s.NH, s.KV, s.D, 1,
                  new_bytes(attention_fwd_workspace(s.B, s.T, s.KV, s.D, sizeof(act_t))));
    for (int64_t n = 1; n <= s.T; n *= 2) {
        double mean[8] = { 0 };
        for (int64_t j = 0; j < n; j++)
            for (int64_t d = 0; d < s.D; d++)
                mean[d] += act_load(qkv + j * row + (s.NH + s.KV) * s.D + d) / (double)n;
        for (int64_t h = 0; h < s.NH; h++)
            check_act_exact("mean", o + ((n - 1) * s.NH + h) * s.D, mean, s.D);
    }
}

/* Scores far beyond the range of exp. */
TEST(attention_large_scores)
{
    const Shape s = { 1, 80, 1, 1, 16 };
    act_t *qkv = act_normal(qkv_size(&s), 0, 60), *o = NEW(act_t, out_size(&s));
    float *lse = NEW(float, s.T);
    double *ro = NEW(double, out_size(&s)), *rl = NEW(double, s.T);
    double *x = act_double(qkv, qkv_size(&s));
    double *o_terms = NEW(double, out_size(&s)), *lse_terms = NEW(double, s.T);
    attention_fwd_ref(ro, rl, x, &causal, s.B, s.T, s.NH, s.KV, s.D, 1);
    attention_fwd_terms(o_terms, lse_terms, rl, x, &causal, s.B, s.T, s.NH, s.KV, s.D, 1);
    attention_fwd(o, lse, qkv, &causal_rule, s.B, s.T, s.NH, s.KV, s.D, 1,
                  new_bytes(attention_fwd_workspace(s.B, s.T, s.KV, s.D, sizeof(act_t))));
    check_f32_terms("lse", lse, rl, lse_terms, s.T, s.T + s.D);
    for (int64_t i = 0; i < out_size(&s); i++)
        check_true("finite", isfinite(act_load(o + i)));
}

typedef struct {
    Shape s;
    AttentionPairs pairs;
    double scale, *qkv, *dout, *o, *lse;
} Gradient;

static double attention_loss(void *ctx)
{
    Gradient *g = ctx;
    attention_fwd_ref(g->o, g->lse, g->qkv, &g->pairs, g->s.B, g->s.T, g->s.NH, g->s.KV, g->s.D,
                      g->scale);
    return dot(g->o, g->dout, out_size(&g->s));
}

static const uint32_t noise[4] = { 1234567, 89, 3, 40 };
enum { SITE = 6 };

/* Factor of each probability (B, NH, T, T). */
static double *kept_by(const Shape *s, float p)
{
    double *kept = NEW(double, s->B * s->NH * s->T * s->T);
    for (int64_t i = 0; i < s->B * s->NH * s->T * s->T; i++) {
        const int64_t j = i % s->T, t = i / s->T % s->T, h = i / s->T / s->T % s->NH;
        const int64_t b = i / s->T / s->T / s->NH;
        const uint32_t element = (uint32_t)(h * ((s->T + 3) / 4 * 4) + j);
        kept[i] = dropout_keep(noise, 4 * SITE + 3, s->T, b * s->T + t, element, p) ? 1 / (1 - p) : 0;
    }
    return kept;
}

/* Forward and backward of one shape against the reference, and that against finite differences; p: share
 * of the probabilities that are dropped. */
static void check_dropped(const Shape s, AttentionPairs pairs, float p)
{
    const int64_t n = qkv_size(&s), m = out_size(&s), L = s.B * s.NH * s.T;
    const float scale = 1 / sqrtf((float)s.D);
    const AttentionRule rule = {
        .mask = pairs.lengths  ? ATTENTION_LENGTH
                : pairs.kv_limits ? ATTENTION_LIMIT
                : pairs.prompt_gaps ? ATTENTION_SHARED
                : pairs.positions ? pairs.causal ? ATTENTION_DOCS : ATTENTION_DOCS_FULL
                : pairs.causal ? ATTENTION_CAUSAL
                               : ATTENTION_FULL,
        .positions = pairs.positions, .doc_ends = pairs.doc_ends,
        .kv_limits = pairs.lengths ? pairs.lengths : pairs.kv_limits, .prompt_gaps = pairs.prompt_gaps,
        .noise = p > 0 ? noise : NULL, .site = SITE, .p = p };
    if (p > 0)
        pairs.kept = kept_by(&s, p);
    act_t *qkv = act_normal(n, 0, 1), *dout = act_normal(m, 0, 1), *o = NEW(act_t, m),
        *d = NEW(act_t, n);
    float *lse = NEW(float, L);
    Gradient g = { s, pairs, scale, act_double(qkv, n), act_double(dout, m), NEW(double, m),
                   NEW(double, L) };
    double *rd = NEW(double, n), *o_terms = NEW(double, m), *lse_terms = NEW(double, L);
    double *d_terms = NEW(double, n);
    attention_loss(&g);
    attention_bwd_ref(rd, g.dout, g.o, g.lse, g.qkv, &pairs, s.B, s.T, s.NH, s.KV, s.D, scale);
    attention_fwd_terms(o_terms, lse_terms, g.lse, g.qkv, &pairs, s.B, s.T, s.NH, s.KV, s.D,
                        scale);
    attention_bwd_terms(d_terms, o_terms, lse_terms, g.dout, g.o, g.lse, g.qkv, &pairs, s.B, s.T,
                        s.NH, s.KV, s.D, scale);
    attention_fwd(o, lse, qkv, &rule, s.B, s.T, s.NH, s.KV, s.D, scale,
                  new_bytes(attention_fwd_workspace(s.B, s.T, s.KV, s.D, sizeof(act_t))));
    attention_bwd(d, dout, o, lse, qkv, &rule, s.B, s.T, s.NH, s.KV, s.D, scale,
                  new_bytes(attention_bwd_workspace(s.B, s.T, s.KV, s.D, sizeof(act_t))));
    check_act_terms("o", o, g.o, o_terms, m, s.T + 2 * s.D);
    check_f32_terms("lse", lse, g.lse, lse_terms, L, s.T + s.D);
    /* scores, dp and delta are sums over D; dk and dv, over the query heads too */
    check_act_terms("dqkv", d, rd, d_terms, n, s.T * s.NH / s.KV + 3 * s.D);
    if (n < 6000)
        check_gradient("dqkv", attention_loss, &g, g.qkv, rd, n);
}

static void check_sequences(const Shape s, const AttentionPairs pairs)
{
    /* of each way to meet about every third shape with dropout, not always the same */
    const int form = pairs.causal + (pairs.positions ? 2 : 0) + (pairs.lengths ? 4 : 0) + (pairs.kv_limits ? 5 : 0);
    check_dropped(s, pairs, 0);
    if ((s.T + s.D + form) % 3 == 0)
        check_dropped(s, pairs, 0.3f);
}

TEST(attention_bwd)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_sequences(shapes[i], causal);
}

TEST(attention_both_ways)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_sequences(shapes[i], (AttentionPairs){ 0 });
}

TEST(attention_docs)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int up_to = 0; up_to < 2; up_to++) {
            const Shape s = shapes[i];
            int32_t *positions = NEW(int32_t, s.B * s.T), *doc_ends = NEW(int32_t, s.B * s.T);
            documents_draw(positions, doc_ends, s.B, s.T);
            check_sequences(s, (AttentionPairs){ .positions = positions, .doc_ends = doc_ends,
                                                 .causal = up_to });
        }
}

TEST(attention_length)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int32_t lengths[8];
        for (int64_t b = 0; b < shapes[i].B; b++)
            lengths[b] = (int32_t)random_below(shapes[i].T + 1);
        check_sequences(shapes[i], (AttentionPairs){ .lengths = lengths });
    }
}

/* Limits drawn at random; those of a context and as many queries after it, one for each of its
 * places. */
TEST(attention_limit)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 2; form++) {
            const Shape s = shapes[i];
            int32_t *kv_limits = NEW(int32_t, s.B * s.T);
            kv_limits_draw(kv_limits, s.B, s.T, form);
            check_sequences(s, (AttentionPairs){ .kv_limits = kv_limits });
        }
}

TEST(attention_shared)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const Shape s = shapes[i];
        int32_t *prompt_gaps = NEW(int32_t, 2 * s.B);
        prompt_gaps_draw(prompt_gaps, s.B, s.T);
        check_dropped(s, (AttentionPairs){ .prompt_gaps = prompt_gaps, .causal = 1 }, 0);
    }
}

/* Two continuations of one beginning in a row give what each gives in a row of its own. */
TEST(attention_shared_alone)
{
    enum { FROM = 70, FIRST = 150, ALL = 320 };
    const Shape s = { 1, ALL, 4, 2, 32 };
    const int64_t row = qkv_size(&s) / s.T, orow = out_size(&s) / s.T, size = sizeof(act_t);
    const int64_t second = ALL - FIRST, n = FROM + second;
    const int32_t hole[2] = { FROM, FIRST };
    act_t *qkv = act_normal(qkv_size(&s), 0, 1), *o = NEW(act_t, out_size(&s));
    act_t *one = NEW(act_t, qkv_size(&s)), *one_o = NEW(act_t, out_size(&s));
    float *lse = NEW(float, s.NH * s.T);
    void *ws = new_bytes(attention_fwd_workspace(1, s.T, s.KV, s.D, size));
    memcpy(one, qkv, (size_t)(FROM * row * size));
    memcpy(one + FROM * row, qkv + FIRST * row, (size_t)(second * row * size));
    attention_fwd(o, lse, qkv, &(AttentionRule){ .mask = ATTENTION_SHARED, .prompt_gaps = hole }, 1, s.T,
                  s.NH, s.KV, s.D, 0.2f, ws);
    attention_fwd(one_o, lse, one, &causal_rule, 1, n, s.NH, s.KV, s.D, 0.2f, ws);
    check_act("second alone", o + FIRST * orow, act_double(one_o + FROM * orow, second * orow),
              second * orow, 2 * (s.T + 2 * s.D));
    attention_fwd(one_o, lse, qkv, &causal_rule, 1, FIRST, s.NH, s.KV, s.D, 0.2f, ws);
    check_act("first alone", o, act_double(one_o, FIRST * orow), FIRST * orow,
              2 * (s.T + 2 * s.D));
}

/* A query of one pass over all places gives what it gives alone after its context, and what stands
 * after a length changes nothing before it. */
TEST(attention_limit_alone)
{
    enum { PLACES = 70 };
    const Shape s = { 1, 2 * PLACES, 4, 2, 32 };
    const int64_t row = qkv_size(&s) / s.T, orow = out_size(&s) / s.T, size = sizeof(act_t);
    int32_t kv_limits[2 * PLACES], length = PLACES;
    act_t *qkv = act_normal(qkv_size(&s), 0, 1), *o = NEW(act_t, out_size(&s));
    act_t *one = NEW(act_t, (PLACES + 1) * row), *one_o = NEW(act_t, out_size(&s));
    float *lse = NEW(float, s.NH * s.T);
    void *ws = new_bytes(attention_fwd_workspace(1, s.T, s.KV, s.D, size));
    kv_limits_draw(kv_limits, 1, s.T, 1);
    attention_fwd(o, lse, qkv, &(AttentionRule){ .mask = ATTENTION_LIMIT, .kv_limits = kv_limits }, 1,
                  s.T, s.NH, s.KV, s.D, 0.2f, ws);
    for (int64_t t = 0; t < PLACES; t += 23) {
        memcpy(one, qkv, (size_t)(t * row * size));
        memcpy(one + t * row, qkv + (PLACES + t) * row, (size_t)(row * size));
        attention_fwd(one_o, lse, one, &causal_rule, 1, t + 1, s.NH, s.KV, s.D, 0.2f, ws);
        check_act("query alone", o + (PLACES + t) * orow, act_double(one_o + t * orow, orow), orow,
                  2 * (s.T + 2 * s.D));
    }
    attention_fwd(o, lse, qkv, &(AttentionRule){ .mask = ATTENTION_LENGTH, .kv_limits = &length }, 1,
                  s.T, s.NH, s.KV, s.D, 0.2f, ws);
    attention_fwd(one_o, lse, qkv, &(AttentionRule){ .mask = ATTENTION_FULL }, 1, PLACES, s.NH,
                  s.KV, s.D, 0.2f, ws);
    check_act("without padding", o, act_double(one_o, PLACES * orow), PLACES * orow,
              2 * (s.T + 2 * s.D));
}

/* A sample's masks do not depend on how a step is cut into micro-batches. */
TEST(attention_drop_cut)
{
    const Shape s = { 2, 70, 4, 2, 32 };
    const int64_t n = qkv_size(&s), m = out_size(&s), L = s.NH * s.T, size = sizeof(act_t);
    const uint32_t second[4] = { noise[0], noise[1], noise[2], noise[3] + 1 };
    const float scale = 0.2f, p = 0.5f;
    act_t *qkv = act_normal(n, 0, 1), *dout = act_normal(m, 0, 1);
    act_t *o[2] = { NEW(act_t, m), NEW(act_t, m) }, *d[2] = { NEW(act_t, n), NEW(act_t, n) };
    float *lse[2] = { NEW(float, 2 * L), NEW(float, 2 * L) };
    void *ws = new_bytes(attention_bwd_workspace(s.B, s.T, s.KV, s.D, size));
    for (int cut = 0; cut < 2; cut++)
        for (int64_t b = 0; b <= cut; b++) {
            const uint32_t *key = b ? second : noise;
            attention_fwd(o[cut] + b * m / 2, lse[cut] + b * L, qkv + b * n / 2,
                          &(AttentionRule){ .mask = ATTENTION_CAUSAL, .noise = key, .site = SITE, .p = p },
                          s.B - cut, s.T, s.NH, s.KV, s.D, scale, ws);
            attention_bwd(d[cut] + b * n / 2, dout + b * m / 2, o[cut] + b * m / 2,
                          lse[cut] + b * L, qkv + b * n / 2,
                          &(AttentionRule){ .mask = ATTENTION_CAUSAL, .noise = key, .site = SITE, .p = p },
                          s.B - cut, s.T, s.NH, s.KV, s.D, scale, ws);
        }
    check_same("o", o[0], o[1], m * size);
    check_same("dqkv", d[0], d[1], n * size);
}

/* Rows that are read have the same bits as without a list of them; gradients, too, if those of the other rows are zero
 * and a head is whole vectors (tile.h). The last sequence has no row that is read. */
TEST(attention_rows_read)
{
    static const AttentionMask masks[] = { ATTENTION_CAUSAL, ATTENTION_FULL, ATTENTION_LIMIT };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const Shape s = shapes[i];
        const int64_t n = qkv_size(&s), m = out_size(&s), orow = s.NH * s.D, size = sizeof(act_t);
        act_t *qkv = act_normal(n, 0, 1), *dout = act_normal(m, 0, 1);
        act_t *o[2] = { NEW(act_t, m), NEW(act_t, m) }, *d[2] = { NEW(act_t, n), NEW(act_t, n) };
        float *lse = NEW(float, s.B * s.NH * s.T);
        int32_t *rows_read = NEW(int32_t, s.B * s.T), *limits = NEW(int32_t, s.B * s.T);
        void *ws = new_bytes(attention_bwd_workspace(s.B, s.T, s.KV, s.D, size));
        kv_limits_draw(limits, s.B, s.T, 0);
        for (int64_t t = 0; t < s.B * s.T; t++)
            rows_read[t] = t * 7 % 31 < 2 && t < (s.B - (s.B > 1)) * s.T ? (int32_t)t : -1;
        memset(d[1], 0xff, (size_t)(n * size));
        for (int64_t t = 0; t < s.B * s.T; t++)
            if (rows_read[t] < 0)
                memset(dout + t * orow, 0, (size_t)(orow * size));
        for (int few = 0; few < 2; few++) {
            const AttentionMask mask = masks[i % 3];
            const AttentionRule rule = { .mask = mask, .noise = i % 2 ? noise : NULL, .site = SITE, .p = 0.3f,
                                         .kv_limits = mask == ATTENTION_LIMIT ? limits : NULL,
                                         .rows_read = few ? rows_read : NULL };
            attention_fwd(o[few], lse, qkv, &rule, s.B, s.T, s.NH, s.KV, s.D, 0.2f, ws);
            attention_bwd(d[few], dout, o[few], lse, qkv, &rule, s.B, s.T, s.NH, s.KV, s.D, 0.2f, ws);
        }
        for (int64_t t = 0; t < s.B * s.T; t++)
            if (rows_read[t] >= 0)
                check_same("o", o[0] + t * orow, o[1] + t * orow, orow * size);
        if (s.D % TILE_LANES == 0)
            check_same("dqkv", d[0], d[1], n * size);
        else
            check_act("dqkv", d[1], act_double(d[0], n), n, 12 * (s.T + 3 * s.D));
    }
}

/* Documents of one sequence give what each gives alone: in fp32 the same bits where a document
 * begins with a block, for its keys and queries then meet in the same blocks. */
TEST(attention_docs_alone)
{
    static const int64_t borders[] = { 0, 64, 160, 192, 193, 256, 320, 321, 325 };
    enum { DOCUMENTS = sizeof borders / sizeof *borders - 1 };
    const Shape s = { 1, borders[DOCUMENTS], 4, 2, 32 };
    const int64_t n = qkv_size(&s), m = out_size(&s), row = n / s.T, orow = m / s.T;
    const int64_t size = (int64_t)sizeof(act_t);
    int32_t *positions = NEW(int32_t, s.T), *doc_ends = NEW(int32_t, s.T);
    act_t *qkv = act_normal(n, 0, 1), *dout = act_normal(m, 0, 1);
    act_t *o = NEW(act_t, m), *d = NEW(act_t, n), *one_o = NEW(act_t, m), *one_d = NEW(act_t, n);
    float *lse = NEW(float, s.NH * s.T), *one_lse = NEW(float, s.NH * s.T);
    void *ws = new_bytes(attention_bwd_workspace(1, s.T, s.KV, s.D, size));
    for (int i = 0; i < DOCUMENTS; i++)
        documents_add(positions, doc_ends, borders[i], borders[i + 1]);
    attention_fwd(o, lse, qkv,
                  &(AttentionRule){ .mask = ATTENTION_DOCS, .positions = positions, .doc_ends = doc_ends }, 1,
                  s.T, s.NH, s.KV, s.D, 0.2f, ws);
    attention_bwd(d, dout, o, lse, qkv,
                  &(AttentionRule){ .mask = ATTENTION_DOCS, .positions = positions, .doc_ends = doc_ends }, 1,
                  s.T, s.NH, s.KV, s.D, 0.2f, ws);
    for (int i = 0; i < DOCUMENTS; i++) {
        const int64_t t = borders[i], T = borders[i + 1] - t;
        const act_t *o_t = o + t * orow, *d_t = d + t * row;
        attention_fwd(one_o, one_lse, qkv + t * row, &causal_rule, 1, T, s.NH, s.KV, s.D, 0.2f, ws);
        attention_bwd(one_d, dout + t * orow, one_o, one_lse, qkv + t * row, &causal_rule, 1, T,
                      s.NH, s.KV, s.D, 0.2f, ws);
        if (size == 4 && t % ATTENTION_BLOCK == 0) {
            check_same("o alone", o_t, one_o, T * orow * size);
            check_same("dqkv alone", d_t, one_d, T * row * size);
        } else {
            check_act("o", o_t, act_double(one_o, T * orow), T * orow, 2 * (T + 2 * s.D));
            check_act("dqkv", d_t, act_double(one_d, T * row), T * row, 12 * (T + 3 * s.D));
        }
    }
}

/* oneDNN and attention both configure a thread's matrix tiles: neither may disturb the other. */
TEST(attention_between_products)
{
    const Shape s = { 2, 128, 4, 2, 64 };
    const int64_t n = 256;
    gemm_setup();
    Gemm g = { .name = "test", .m = n, .n = n, .k = 96, .form = GEMM_NT }, narrow = g;
    narrow.n = 24;
    gemm_init(&g), gemm_init(&narrow);
    act_t *a = act_normal(n * 96, 0, 1), *b = act_normal(n * 96, 0, 1);
    act_t *qkv = act_normal(qkv_size(&s), 0, 1);
    act_t *c[2], *d[2], *o[2];
    float *lse = NEW(float, s.B * s.NH * s.T);
    void *ws = new_bytes(GEMM_WORKSPACE);
    void *ws2 = new_bytes(attention_fwd_workspace(s.B, s.T, s.KV, s.D, sizeof(act_t)));
    for (int i = 0; i < 2; i++) {
        c[i] = NEW(act_t, n * n), d[i] = NEW(act_t, n * 24), o[i] = NEW(act_t, out_size(&s));
        gemm_run(&g, c[i], a, b, NULL, ws);
        attention_fwd(o[i], lse, qkv, &causal_rule, s.B, s.T, s.NH, s.KV, s.D, 0.125f, ws2);
        gemm_run(&narrow, d[i], a, b, NULL, ws);
    }
    double *ref = NEW(double, n * n);
    gemm_ref(ref, act_double(a, n * 96), act_double(b, n * 96), NULL, n, n, 96, GEMM_NT, 1, 0);
    check_act("product", c[1], ref, n * n, 96);
    check_same("products", c[0], c[1], n * n * (int64_t)sizeof(act_t));
    check_same("narrow products", d[0], d[1], n * 24 * (int64_t)sizeof(act_t));
    check_same("attention", o[0], o[1], out_size(&s) * (int64_t)sizeof(act_t));
}

/* Row r of x (texts, row), of the text that is `behind` its first by r places. */
static act_t *decode_rows(const act_t *x, int64_t texts, int64_t row, int64_t T, const int32_t *pos)
{
    act_t *y = NEW(act_t, texts * row);
    for (int64_t r = 0; r < texts; r++)
        memcpy(y + r * row, x + (r * T + pos[r]) * row, sizeof(act_t) * (size_t)row);
    return y;
}

/* Token by token over the caches, against the whole sequences: several texts, each at another place, and in addition
 * one that stays at its first; any of them alone has the same bits. */
TEST(attention_decode)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        enum { DECODE_B = 3 };
        const Shape s = { DECODE_B, shapes[i].T, shapes[i].NH, shapes[i].KV, shapes[i].D };
        const int64_t row = (s.NH + 2 * s.KV) * s.D, out = s.NH * s.D, held = s.KV * s.T * s.D;
        const float scale = 1 / sqrtf((float)s.D);
        act_t *qkv = act_normal(qkv_size(&s), 0, 1), *o = NEW(act_t, out_size(&s));
        act_t *k = NEW(act_t, DECODE_B * held), *v = NEW(act_t, DECODE_B * held);
        double *ro = NEW(double, out_size(&s)), *rl = NEW(double, DECODE_B * s.NH * s.T);
        double *x = act_double(qkv, qkv_size(&s));
        double *o_terms = NEW(double, out_size(&s)), *lse_terms = NEW(double, DECODE_B * s.NH * s.T);
        void *ws = new_bytes(attention_decode_workspace(DECODE_B, s.T, s.NH));
        attention_fwd_ref(ro, rl, x, &causal, DECODE_B, s.T, s.NH, s.KV, s.D, scale);
        attention_fwd_terms(o_terms, lse_terms, rl, x, &causal, DECODE_B, s.T, s.NH, s.KV, s.D, scale);
        for (int32_t t = 0; t < s.T + DECODE_B - 1; t++) {          /* text r begins r turns later */
            int32_t pos[DECODE_B];
            for (int32_t r = 0; r < DECODE_B; r++)
                pos[r] = t < r ? 0 : t - r < s.T ? t - r : (int32_t)s.T - 1;
            act_t *y = NEW(act_t, DECODE_B * out), *alone = NEW(act_t, out), *now = decode_rows(qkv, DECODE_B,
                                                            row, s.T, pos);
            attention_decode(y, k, v, now, pos, DECODE_B, s.T, s.NH, s.KV, s.D, scale, ws);
            for (int64_t r = 0; r < DECODE_B; r++)
                memcpy(o + (r * s.T + pos[r]) * out, y + r * out, sizeof(act_t) * (size_t)out);
            attention_decode(alone, k + held, v + held, now + row, pos + 1, 1, s.T, s.NH, s.KV, s.D, scale, ws);
            check_same("one text alone", alone, y + out, (int64_t)sizeof(act_t) * out);
        }
        check_act_terms("o", o, ro, o_terms, out_size(&s), s.T + 2 * s.D);
        for (int64_t h = 0; h < DECODE_B * s.KV; h++)
            for (int64_t t = 0; t < s.T; t++) {
                const act_t *kt = qkv + (h / s.KV * s.T + t) * row + (s.NH + h % s.KV) * s.D;
                check_same("cached k", k + (h * s.T + t) * s.D, kt, (int64_t)sizeof(act_t) * s.D);
                check_same("cached v", v + (h * s.T + t) * s.D, kt + s.KV * s.D,
                           (int64_t)sizeof(act_t) * s.D);
            }
    }
}

typedef struct {
    Shape s;
    act_t *qkv, *o, *d, *dout;
    float *lse;
    void *ws;
    int32_t *positions, *doc_ends;
} Bench;

static void run_fwd(void *ctx)
{
    Bench *t = ctx;
    attention_fwd(t->o, t->lse, t->qkv, &causal_rule, t->s.B, t->s.T, t->s.NH, t->s.KV, t->s.D,
                  0.125f, t->ws);
}

static void run_bwd(void *ctx)
{
    Bench *t = ctx;
    attention_bwd(t->d, t->dout, t->o, t->lse, t->qkv, &causal_rule, t->s.B, t->s.T, t->s.NH,
                  t->s.KV, t->s.D, 0.125f, t->ws);
}

static void run_docs_fwd(void *ctx)
{
    Bench *t = ctx;
    attention_fwd(t->o, t->lse, t->qkv,
                  &(AttentionRule){ .mask = ATTENTION_DOCS, .positions = t->positions, .doc_ends = t->doc_ends },
                  t->s.B, t->s.T, t->s.NH, t->s.KV, t->s.D, 0.125f, t->ws);
}

static void run_docs_bwd(void *ctx)
{
    Bench *t = ctx;
    attention_bwd(t->d, t->dout, t->o, t->lse, t->qkv,
                  &(AttentionRule){ .mask = ATTENTION_DOCS, .positions = t->positions, .doc_ends = t->doc_ends },
                  t->s.B, t->s.T, t->s.NH, t->s.KV, t->s.D, 0.125f, t->ws);
}

/* FLOPs counted causally: 2 T^2 D a head forward, 5 T^2 D backward; the same a document. */
BENCH(attention_speed)
{
    static const Shape sizes[] = { { 1, 1024, 12, 12, 64 }, { 1, 1024, 14, 2, 64 }, { 4, 256, 12,
            12, 64 }, { 64, 240, 4, 4, 16 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const Shape s = sizes[i];
        Bench t = { s, act_normal(qkv_size(&s), 0, 1), NEW(act_t, out_size(&s)), NEW(act_t,
                qkv_size(&s)),
                    act_normal(out_size(&s), 0, 1), NEW(float, s.B * s.NH * s.T),
                    new_bytes(attention_bwd_workspace(s.B, s.T, s.KV,
                                                      s.D, sizeof(act_t)) + attention_fwd_workspace(s.B, s.T, s.KV,
                                                              s.D, sizeof(act_t))),
                    NEW(int32_t, s.B * s.T), NEW(int32_t, s.B * s.T) };
        double flops = 2.0 * (double)(s.B * s.NH * s.T * s.T * s.D);
        char what[64];
        snprintf(what, sizeof what, "B %d T %d NH %d KV %d D %d", (int)s.B, (int)s.T, (int)s.NH,
                 (int)s.KV, (int)s.D);
        bench_report(what, bench_time(run_fwd, &t), 0, flops);
        bench_report("  backward", bench_time(run_bwd, &t), 0, 2.5 * flops);
        documents_equal(t.positions, t.doc_ends, s.B, s.T, 8);
        bench_report("  of 8 documents", bench_time(run_docs_fwd, &t), 0, flops / 8);
        bench_report("  backward", bench_time(run_docs_bwd, &t), 0, 2.5 * flops / 8);
    }
}
