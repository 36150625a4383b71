/* c_attention.cpp -- attention.cuh. */
#include <math.h>

#include "../../kernels/cuda/workspace.h"

/* Parts that the gradient divides the query heads of a key head among; 0: as many as the kernel itself takes. It takes
 * few only for hundreds of sequences, over which the simulator needs more time than for all other tests here. */
static int64_t given_parts;
#define attention_dkv_parts(...) (given_parts ? given_parts : attention_dkv_parts(__VA_ARGS__))

#include "../../kernels/cuda/attention.cuh"
#include "harness.h"
#include "masks.h"
#include "unwatched.h"
#include "variants.h"
#include "../kernels/documents.h"

struct Shape {
    int64_t B, T, H, K;
};

/* One token; within a tile; at, above and well above 64 keys; above 128 rows; grouped heads. */
static const Shape shapes[] = {
    {2, 1, 1, 1}, {1, 17, 4, 2}, {1, 64, 2, 2}, {1, 65, 3, 1}, {1, 130, 2, 1},
};

static int64_t qkv_size(const Shape &s, int64_t D)
{
    return s.B * s.T * (s.H + 2 * s.K) * D;
}

static int64_t out_size(const Shape &s, int64_t D)
{
    return s.B * s.T * s.H * D;
}

static const uint32_t noise_[4] = {1234567, 89, 3, 40};
constexpr uint32_t SITE = 6;
constexpr float P = 0.3f;

/* What each probability (B, H, T, T) is multiplied with. */
static double *kept_by(const Shape &s)
{
    double *kept = HOST(double, s.B * s.H * s.T * s.T);
    for (int64_t i = 0; i < s.B * s.H * s.T * s.T; i++) {
        const int64_t j = i % s.T, t = i / s.T % s.T, h = i / s.T / s.T % s.H;
        const int64_t b = i / s.T / s.T / s.H;
        const uint32_t element = (uint32_t)(h * ((s.T + 3) / 4 * 4) + j);
        const bool keeps = cpu::dropout_keep(noise_, 4 * SITE + 3, s.T, b * s.T + t, element, P);
        kept[i] = keeps ? 1 / (1 - P) : 0;
    }
    return kept;
}

/* Forward and backward of one shape against the reference; DROPS: with dropout; documents and limits
 * are drawn, PLACES: those of a context and as many queries. */
template <int D, AttentionMask MASK, int OWNED = DEFAULT_attention_rows, bool PLACES = false,
          bool DROPS = false>
static void sequence(const Shape &s)
{
    constexpr bool DOCS = MASK == ATTENTION_DOCS || MASK == ATTENTION_DOCS_FULL;
    const int64_t n = qkv_size(s, D), m = out_size(s, D), L = s.B * s.H * s.T;
    const float scale = 1 / sqrtf((float)D);
    act_t *qkv = act_normal(n, 0, 1), *d_o = act_normal(m, 0, 1), *o = NEW(act_t, m);
    act_t *d = NEW(act_t, n);
    float *lse = NEW(float, L);
    void *ws = new_bytes(attention_drop_bwd_cuda_workspace(s.B, s.T, s.H, s.K, D, sizeof(act_t)));
    double *x = act_double(qkv, n), *dy = act_double(d_o, m), *want = HOST(double, m);
    double *want_lse = HOST(double, L), *want_d = HOST(double, n), *o_terms = HOST(double, m);
    double *lse_terms = HOST(double, L), *d_terms = HOST(double, n);
    int32_t *one_ = HOST(int32_t, s.B * s.T), *doc_ends_ = HOST(int32_t, s.B * s.T);
    AttentionPairs pairs = {};
    pairs.causal = MASK == ATTENTION_CAUSAL || MASK == ATTENTION_DOCS;
    if (DOCS) {
        documents_draw(one_, doc_ends_, s.B, s.T);
        pairs.positions = one_, pairs.doc_ends = doc_ends_;
    } else if (MASK == ATTENTION_LENGTH) {
        for (int64_t b = 0; b < s.B; b++)
            one_[b] = (int32_t)random_below(s.T + 1);
        pairs.lengths = one_;
    } else if (MASK == ATTENTION_LIMIT) {
        kv_limits_draw(one_, s.B, s.T, PLACES);
        pairs.kv_limits = one_;
    } else if (MASK == ATTENTION_SHARED) {
        prompt_gaps_draw(one_, s.B, s.T);
        pairs.prompt_gaps = one_, pairs.causal = 1;
    }
    if (DROPS)
        pairs.kept = kept_by(s);
    const int32_t *one = upload(one_, s.B * s.T), *doc_ends = upload(doc_ends_, s.B * s.T);
    [[maybe_unused]] const uint32_t *noise = upload(noise_, 4);
    attention_fwd_ref(want, want_lse, x, &pairs, s.B, s.T, s.H, s.K, D, scale);
    attention_bwd_ref(want_d, dy, want, want_lse, x, &pairs, s.B, s.T, s.H, s.K, D, scale);
    attention_fwd_terms(o_terms, lse_terms, want_lse, x, &pairs, s.B, s.T, s.H, s.K, D, scale);
    attention_bwd_terms(d_terms, o_terms, lse_terms, dy, want, want_lse, x, &pairs, s.B, s.T, s.H,
                        s.K, D, scale);
    run([&] {
        AttentionRule rule = {};
        rule.positions = DOCS ? one : nullptr, rule.doc_ends = DOCS ? doc_ends : nullptr;
        rule.kv_limits = MASK == ATTENTION_LENGTH || MASK == ATTENTION_LIMIT ? one : nullptr;
        rule.prompt_gaps = MASK == ATTENTION_SHARED ? one : nullptr;
        if constexpr (DROPS) {
            rule.noise = noise, rule.site = SITE, rule.p = P;
            attention_drop_fwd<D, MASK>(o, lse, qkv, rule, s.B, s.T, s.H, s.K, scale, nullptr, stream);
            attention_drop_bwd<D, MASK>(d, d_o, o, lse, qkv, rule, s.B, s.T, s.H, s.K, scale, ws,
                                        stream);
        } else {
            attention_fwd<D, MASK, OWNED>(o, lse, qkv, rule, s.B, s.T, s.H, s.K, scale, nullptr, stream);
            attention_bwd<D, MASK, OWNED>(d, d_o, o, lse, qkv, rule, s.B, s.T, s.H, s.K, scale, ws,
                                          stream);
        }
    });
    check_act_terms("o", o, want, o_terms, m, s.T + 2 * D);
    check_f32_terms("lse", lse, want_lse, lse_terms, L, s.T + D);
    check_act_terms("dqkv", d, want_d, d_terms, n, s.T * s.H / s.K + 3 * D);
}

/* Compiling is what these cost. Every form of every head size: FULL (make soak, on a GPU); else every form of one, the
 * usual one of sizes that differ in their tiles, and of fp16, which differs from bf16 in its conversions, two sizes. */
#if FULL
constexpr bool every_form(int) { return true; }
#elif defined ACT_F16
constexpr bool every_form(int) { return false; }
#else
constexpr bool every_form(int D) { return D == 16; }
#endif

template <int D> static void head_size(void)
{
    for (const Shape &s : shapes)
        sequence<D, ATTENTION_CAUSAL>(s);
    if constexpr (every_form(D)) {
        sequence<D, ATTENTION_FULL>(shapes[1]);
        sequence<D, ATTENTION_FULL>(shapes[4]);
        sequence<D, ATTENTION_DOCS>(shapes[4]);
        sequence<D, ATTENTION_DOCS_FULL>(shapes[3]);
        sequence<D, ATTENTION_LENGTH>(shapes[3]);
        sequence<D, ATTENTION_LIMIT>(shapes[4]);
    }
}

/* With dropout; T is no multiple of 4, rows and keys are of several blocks, documents begin anywhere. */
template <int D, AttentionMask MASK> static void dropped(const Shape &s)
{
    sequence<D, MASK, ATTENTION_ROWS, false, true>(s);
}

/* Forms of the fp32 form and of the tensor cores', which differ in who draws what; heads of one lane hand the bits that
 * dq drew to dkv where the mask is causal or full. */
#if FULL || !defined ACT_F16
TEST(attention_drop_2)
{
    dropped<2, ATTENTION_LENGTH>({2, 70, 3, 3});
    dropped<2, ATTENTION_CAUSAL>({1, 150, 4, 2});
    dropped<2, ATTENTION_FULL>({2, 70, 2, 1});
}
TEST(attention_drop_64)
{
    dropped<64, ATTENTION_CAUSAL>({1, 150, 2, 1});
    dropped<64, ATTENTION_DOCS>({2, 130, 1, 1});
}
#endif
TEST(attention_drop_128)
{
    dropped<128, ATTENTION_FULL>({1, 130, FULL ? 2 : 1, 1});
}
#if FULL
TEST(attention_drop_forms)
{
    dropped<16, ATTENTION_DOCS_FULL>({2, 65, 4, 2});
    dropped<16, ATTENTION_LIMIT>({1, 130, 2, 1});
    dropped<32, ATTENTION_LENGTH>({3, 129, 2, 2});
    dropped<20, ATTENTION_CAUSAL>({1, 66, 4, 2});
    dropped<96, ATTENTION_LENGTH>({2, 130, 2, 1});
}
#endif

TEST(attention_16) { head_size<16>(); }
TEST(attention_64) { head_size<64>(); }
#if FULL || !defined ACT_F16
TEST(attention_6) { head_size<6>(); }
TEST(attention_128) { head_size<128>(); }
#endif
#if FULL || !defined ACT_F16 && !defined ACT_BF16
/* Wide heads: half a warp a row, in all types the fp32 form. */
TEST(attention_256)
{
    sequence<256, ATTENTION_CAUSAL>(shapes[1]);
    sequence<256, ATTENTION_CAUSAL>({2, 37, 4, 2});
#if FULL
    sequence<256, ATTENTION_FULL>(shapes[4]);
    sequence<256, ATTENTION_DOCS>(shapes[4]);
    sequence<200, ATTENTION_LIMIT>(shapes[4]);
    sequence<130, ATTENTION_LENGTH>(shapes[3]);
#endif
}
/* In 16 bit the same form as 6. */
TEST(attention_2) { head_size<2>(); }
TEST(attention_20) { head_size<20>(); }
#endif
#if FULL && defined ACT_F16 || defined ACT_BF16
/* Nothing of the fp32 form changes at these. */
TEST(attention_48) { head_size<48>(); }
#if FULL
TEST(attention_112) { head_size<112>(); }
TEST(attention_32) { head_size<32>(); }
TEST(attention_80) { head_size<80>(); }
#endif
#endif
#if FULL
TEST(attention_96) { head_size<96>(); }
#endif
#if defined ACT_BF16 || defined ACT_F16
/* Rows of a block, as gen tune may choose: those that are not the default of the tests above. */
template <int D> static void owned_rows(void)
{
    every_attention_rows([](auto rows) {
        if constexpr (decltype(rows)::value != DEFAULT_attention_rows) {
            sequence<D, ATTENTION_CAUSAL, decltype(rows)::value>(shapes[1]);
            sequence<D, ATTENTION_CAUSAL, decltype(rows)::value>(shapes[4]);
            sequence<D, ATTENTION_FULL, decltype(rows)::value>(shapes[3]);
        }
    });
}

#if FULL || defined ACT_BF16
TEST(attention_rows_64) { owned_rows<64>(); }
#endif
#if FULL
TEST(attention_rows_128) { owned_rows<128>(); }
TEST(attention_rows_16) { owned_rows<16>(); }
TEST(attention_rows_96) { owned_rows<96>(); }
#endif
#endif

/* Query heads of a key head in one block of tensor cores, which sums them in order: a half of them, and all, each in
 * one of the two forms (FULL: in both, of as many sequences as the kernel does so for). In other tests, which have
 * fewer blocks, each is a part of its own; in fp32 a block always has all. */
#if FULL
TEST(attention_heads)
{
    sequence<16, ATTENTION_CAUSAL>({256, 34, 4, 1});
    sequence<80, ATTENTION_CAUSAL>({512, 2, 2, 1});
    sequence<16, ATTENTION_CAUSAL>({512, 34, 2, 1});
    sequence<80, ATTENTION_CAUSAL>({256, 34, 4, 1});
}
#elif defined ACT_BF16
TEST(attention_heads)
{
    check_true("parts of 256 sequences", attention_dkv_parts(256, 34, 4, 1, 16, sizeof(act_t)) == 2);
    check_true("parts of 512 sequences", attention_dkv_parts(512, 2, 2, 1, 80, sizeof(act_t)) == 1);
    given_parts = 2;
    sequence<16, ATTENTION_CAUSAL>({3, 34, 4, 1});
    given_parts = 1;
    sequence<80, ATTENTION_CAUSAL>({3, 34, 2, 1});
    given_parts = 0;
}
#endif

/* Very small models, as they are trained: in 16 bit too the fp32 form, with rows of any alignment. */
TEST(attention_length_2)
{
    sequence<2, ATTENTION_LENGTH>({2, 128, 4, 4});
}

/* More keys than several tiles, two batches, several blocks of rows, one head of keys for all. */
TEST(attention_long)
{
    constexpr int T = FULL ? 300 : 150, B = FULL ? 2 : 1;
    [[maybe_unused]] constexpr int OTHER = FULL ? 8 : 16;
    sequence<16, ATTENTION_CAUSAL>({2, T, 3, 1});
    sequence<16, ATTENTION_DOCS>({2, T, 3, 1});
    sequence<16, ATTENTION_SHARED>({2, 2 * T, 2, 1});
#if FULL || !defined ACT_F16
    sequence<OTHER, ATTENTION_FULL>({B, T, 2, 2});
    sequence<OTHER, ATTENTION_DOCS_FULL>({B, T, 2, 2});
    sequence<OTHER, ATTENTION_LENGTH>({B + 1, T, 2, 2});
    sequence<16, ATTENTION_LIMIT, ATTENTION_ROWS, true>({B, T + 28, 3, 1});
#endif
#if FULL
    sequence<8, ATTENTION_LIMIT, ATTENTION_ROWS, true>({2, 328, 2, 2});
#endif
}

/* Documents of one sequence give what each gives alone: the same bits where a document begins with
 * a block, for its keys and queries then meet in the same tiles. */
template <int D, AttentionMask MASK> static void documents_alone(void)
{
    static const int64_t borders[] = {0, 128, 200, 256, 257, 384, 449};
    const int64_t T = 449, H = 2, K = 1, row = (H + 2 * K) * D, orow = H * D;
    const int64_t size = (int64_t)sizeof(act_t);
    int32_t *positions_ = HOST(int32_t, T), *doc_ends_ = HOST(int32_t, T);
    for (int i = 0; i < 6; i++)
        documents_add(positions_, doc_ends_, borders[i], borders[i + 1]);
    const int32_t *positions = upload(positions_, T), *doc_ends = upload(doc_ends_, T);
    act_t *qkv = act_normal(T * row, 0, 1), *d_o = act_normal(T * orow, 0, 1);
    act_t *o = NEW(act_t, T * orow), *d = NEW(act_t, T * row);
    act_t *one_o = NEW(act_t, T * orow), *one_d = NEW(act_t, T * row);
    float *lse = NEW(float, H * T), *one_lse = NEW(float, H * T);
    void *ws = new_bytes(attention_bwd_cuda_workspace(1, T, H, K, D, size));
    run([&] {
        constexpr AttentionMask DOCS = MASK == ATTENTION_FULL ? ATTENTION_DOCS_FULL : ATTENTION_DOCS;
        const AttentionRule rule = {.positions = positions, .doc_ends = doc_ends};
        attention_fwd<D, DOCS>(o, lse, qkv, rule, 1, T, H, K, 0.2f, nullptr, stream);
        attention_bwd<D, DOCS>(d, d_o, o, lse, qkv, rule, 1, T, H, K, 0.2f, ws, stream);
        for (int i = 0; i < 6; i++) {
            const int64_t t = borders[i], n = borders[i + 1] - t;
            attention_fwd<D, MASK>(one_o + t * orow, one_lse, qkv + t * row, {}, 1, n, H, K, 0.2f,
                                   nullptr, stream);
            attention_bwd<D, MASK>(one_d + t * row, d_o + t * orow, one_o + t * orow, one_lse,
                                   qkv + t * row, {}, 1, n, H, K, 0.2f, ws, stream);
        }
    });
    check_act("o", o, act_double(one_o, T * orow), T * orow, 2 * (T + 2 * D));
    check_act("dqkv", d, act_double(one_d, T * row), T * row, 12 * (T + 3 * D));
    for (int i = 0; i < 6; i++) {
        const int64_t t = borders[i], n = borders[i + 1] - t;
        if (t % 128)
            continue;
        check_same("o alone", o + t * orow, one_o + t * orow, n * orow * size);
        check_same("dqkv alone", d + t * row, one_d + t * row, n * row * size);
    }
}

TEST(attention_docs_alone)
{
    documents_alone<16, ATTENTION_CAUSAL>();
#if FULL || !defined ACT_F16
    documents_alone<FULL ? 64 : 16, ATTENTION_FULL>();
#endif
}

/* Equal scores: the output is the mean of the values so far, exact for integers and a power of two
 * of keys. */
template <int D> static void uniform(void)
{
    const Shape s = {1, 128, 2, 1};
    const int64_t row = (s.H + 2 * s.K) * D;
    act_t *values = act_integers(qkv_size(s, D), 2), *o = NEW(act_t, out_size(s, D));
    double *x = act_double(values, qkv_size(s, D)), *y, *want = HOST(double, out_size(s, D));
    float *lse = NEW(float, s.H * s.T);
    for (int64_t t = 0; t < s.T; t++)
        for (int64_t d = 0; d < s.H * D; d++)
            x[t * row + d] = 0;
    act_t *qkv = act_from(x, qkv_size(s, D));
    run([&] {
        attention_fwd<D>(o, lse, qkv, {}, s.B, s.T, s.H, s.K, 1.0f, nullptr, stream);
    });
    y = act_double(o, out_size(s, D));
    for (int64_t n = 1; n <= s.T; n *= 2)
        for (int64_t i = 0; i < s.H * D; i++) {
            want[i] = 0;
            for (int64_t j = 0; j < n; j++)
                want[i] += x[j * row + (s.H + s.K) * D + i % D] / (double)n;
            check_true("mean of the values", y[(n - 1) * s.H * D + i] == want[i]);
        }
}

TEST(attention_uniform)
{
    uniform<64>();
#if FULL || !defined ACT_F16
    uniform<6>();
    uniform<128>();
#endif
}

/* Scores far beyond the range of exp. */
template <int D> static void large_scores(void)
{
    const Shape s = {1, 80, 1, 1};
    const int64_t n = qkv_size(s, D), m = out_size(s, D);
    act_t *qkv = act_normal(n, 0, 60), *o = NEW(act_t, m), *d = NEW(act_t, n);
    act_t *d_o = act_normal(m, 0, 1);
    float *lse = NEW(float, s.T);
    void *ws = new_bytes(attention_bwd_cuda_workspace(s.B, s.T, s.H, s.K, D, sizeof(act_t)));
    double *want = HOST(double, m), *want_lse = HOST(double, s.T), *y, *dx;
    double *x = act_double(qkv, n), *o_terms = HOST(double, m), *lse_terms = HOST(double, s.T);
    AttentionPairs causal = {};
    causal.causal = 1;
    attention_fwd_ref(want, want_lse, x, &causal, s.B, s.T, s.H, s.K, D, 1);
    attention_fwd_terms(o_terms, lse_terms, want_lse, x, &causal, s.B, s.T, s.H, s.K, D, 1);
    run([&] {
        attention_fwd<D>(o, lse, qkv, {}, s.B, s.T, s.H, s.K, 1.0f, nullptr, stream);
        attention_bwd<D>(d, d_o, o, lse, qkv, {}, s.B, s.T, s.H, s.K, 1.0f, ws, stream);
    });
    check_f32_terms("lse", lse, want_lse, lse_terms, s.T, s.T + D);
    y = act_double(o, m), dx = act_double(d, n);
    for (int64_t i = 0; i < m; i++)
        check_true("finite output", isfinite(y[i]));
    for (int64_t i = 0; i < n; i++)
        check_true("finite gradient", isfinite(dx[i]));
}

TEST(attention_large_scores)
{
    large_scores<64>();
#if FULL || !defined ACT_F16
    large_scores<6>();
    large_scores<128>();
#endif
}

/* The reference's gradient, seen by finite differences, of every way to meet. */
TEST(attention_reference)
{
    for (int form = 0; form < 6; form++) {
        const Shape s = {2, 7, 4, 2};
        int32_t drawn[2][14], lengths[2] = {0, 5};
        documents_draw(drawn[0], drawn[1], s.B, s.T);
        AttentionPairs pairs = {};
        pairs.causal = form % 2;
        if (form / 2 == 1)
            pairs.positions = drawn[0], pairs.doc_ends = drawn[1];
        if (form == 4)
            pairs.lengths = lengths;
        if (form == 5)
            kv_limits_draw(drawn[0], s.B, s.T, 0), pairs.kv_limits = drawn[0];
        const int64_t D = 6, n = qkv_size(s, D), m = out_size(s, D), L = s.B * s.H * s.T;
        double *x = act_double(act_normal(n, 0, 1), n), *dy = act_double(act_normal(m, 0, 1), m);
        double *y = HOST(double, m), *lse = HOST(double, L), *d = HOST(double, n);
        auto loss = [&] {
            attention_fwd_ref(y, lse, x, &pairs, s.B, s.T, s.H, s.K, D, 0.4);
            return dot(y, dy, m);
        };
        loss();
        attention_bwd_ref(d, dy, y, lse, x, &pairs, s.B, s.T, s.H, s.K, D, 0.4);
        check_gradient("dqkv", loss, x, d, n);
    }
}

/* Token by token over the caches, against the whole sequences: several texts, each a place after the one before; any
 * of them alone has the same bits. */
template <int D> static void decode(int64_t T, int64_t H, int64_t K)
{
    enum { N = 3 };
    const Shape s = {N, T, H, K};
    const int64_t row = (H + 2 * K) * D, n = qkv_size(s, D), m = out_size(s, D), out = H * D, turns = T + N - 1;
    act_t *qkv = act_normal(n, 0, 1), *y = NEW(act_t, turns * N * out), *alone = NEW(act_t, turns * out);
    act_t *keys = NEW(act_t, N * K * T * D), *values = NEW(act_t, N * K * T * D);
    const act_t *all = download(qkv, n);
    act_t *now_ = HOST(act_t, turns * N * row), *o_ = HOST(act_t, m);
    int32_t *place_ = HOST(int32_t, turns * N);
    for (int64_t i = 0; i < turns * N; i++) {
        const int64_t t = i / N - i % N;
        place_[i] = (int32_t)(t < 0 ? 0 : t < T ? t : T - 1);
        memcpy(now_ + i * row, all + (i % N * T + place_[i]) * row, sizeof(act_t) * (size_t)row);
    }
    const int32_t *place = upload(place_, turns * N);
    const act_t *now = upload(now_, turns * N * row);
    void *ws = new_bytes(attention_decode_cuda_workspace(N, T, H));
    double *want = HOST(double, m), *lse = HOST(double, N * H * T), *x = act_double(qkv, n);
    double *o_terms = HOST(double, m), *lse_terms = HOST(double, N * H * T);
    const double scale = 1 / sqrt((double)D);
    AttentionPairs causal = {};
    causal.causal = 1;
    attention_fwd_ref(want, lse, x, &causal, N, T, H, K, D, scale);
    attention_fwd_terms(o_terms, lse_terms, lse, x, &causal, N, T, H, K, D, scale);
    run([&] {
        for (int64_t t = 0; t < turns; t++) {
            attention_decode<D>(y + t * N * out, keys, values, now + t * N * row, place + t * N, N, T, H, K,
                                1 / sqrtf((float)D), ws, stream);
            attention_decode<D>(alone + t * out, keys + K * T * D, values + K * T * D, now + (t * N + 1) * row,
                                place + t * N + 1, 1, T, H, K, 1 / sqrtf((float)D), ws, stream);
        }
    });
    const act_t *y_ = download(y, turns * N * out);
    for (int64_t i = 0; i < turns * N; i++) {
        memcpy(o_ + (i % N * T + place_[i]) * out, y_ + i * out, sizeof(act_t) * (size_t)out);
        if (i % N == 1)
            check_same("one text alone", alone + i / N * out, y + i * out, (int64_t)sizeof(act_t) * out);
    }
    check_act_terms("o", upload(o_, m), want, o_terms, m, T + 2 * D);
    for (int64_t h = 0; h < N * K; h++)
        for (int64_t t = 0; t < T; t++) {
            const act_t *k = qkv + (h / K * T + t) * row + (H + h % K) * D;
            check_same("cached k", keys + (h * T + t) * D, k, (int64_t)sizeof(act_t) * D);
            check_same("cached v", values + (h * T + t) * D, k + K * D, (int64_t)sizeof(act_t) * D);
        }
}

TEST(attention_decode)
{
    decode<2>(17, 1, 1);
    decode<20>(9, 4, 2);
    decode<64>(33, 6, 1);
    decode<112>(5, 2, 2);
    decode<128>(3, 4, 4);
    decode<256>(3, 2, 1);
    decode<200>(7, 2, 2);
}

/* FLOPs counted causally: 2 T^2 D a head forward, 5 T^2 D backward; the same a document. */
template <int D> static void speed(int64_t B, int64_t T, int64_t H, int64_t K)
{
    const Shape s = {B, T, H, K};
    act_t *qkv = act_normal(qkv_size(s, D), 0, 1), *o = NEW(act_t, out_size(s, D));
    act_t *d_o = act_normal(out_size(s, D), 0, 1), *d = NEW(act_t, qkv_size(s, D));
    float *lse = NEW(float, B * H * T);
    void *ws = new_bytes(attention_bwd_cuda_workspace(B, T, H, K, D, sizeof(act_t)));
    const float scale = 1 / sqrtf((float)D);
    const double flops = 2.0 * (double)(B * H * T * T * D);
    char what[64];
    snprintf(what, sizeof what, "attention B %d T %d H %d K %d D %d", (int)B, (int)T, (int)H,
             (int)K, D);
    bench_report(what, bench_time([&] {
                     attention_fwd<D>(o, lse, qkv, {}, B, T, H, K, scale, nullptr, stream);
                 }), 0, flops);
    bench_report("  backward", bench_time([&] {
                     attention_bwd<D>(d, d_o, o, lse, qkv, {}, B, T, H, K, scale, ws, stream);
                 }), 0, 2.5 * flops);
    for (int64_t n = 1; n <= 8; n *= 8) {
        int32_t *positions_ = HOST(int32_t, B * T), *doc_ends_ = HOST(int32_t, B * T);
        documents_equal(positions_, doc_ends_, B, T, n);
        const int32_t *positions = upload(positions_, B * T), *doc_ends = upload(doc_ends_, B * T);
        const AttentionRule rule = {.positions = positions, .doc_ends = doc_ends};
        snprintf(what, sizeof what, "  %d documents a row", (int)n);
        bench_report(what, bench_time([&] {
                         attention_fwd<D, ATTENTION_DOCS>(o, lse, qkv, rule, B, T, H, K, scale,
                                                          nullptr, stream);
                     }), 0, flops / (double)n);
        bench_report("  backward", bench_time([&] {
                         attention_bwd<D, ATTENTION_DOCS>(d, d_o, o, lse, qkv, rule, B, T, H, K,
                                                          scale, ws, stream);
                     }), 0, 2.5 * flops / (double)n);
    }
}

BENCH(attention_speed)
{
    speed<64>(64, 1024, 12, 12);
    speed<64>(8, 2048, 14, 2);
    speed<128>(4, 2048, 28, 4);
    speed<128>(2, 4096, 28, 4);
    speed<16>(512, 240, 4, 4);
}
