/* c_ce.cpp -- ce.cuh. */
#include "../../kernels/cuda/ce.cuh"
#include "harness.h"
#include "unwatched.h"
#include "variants.h"

static constexpr int WIDE = DEFAULT_ce_threads;

struct Shape {
    int64_t rows, V, C, chunk;
};

/* Rows of a warp with and without whole vectors; rows of a block, with one and several rounds. */
static const Shape shapes[] = {
    { 1, 1, 1, 1 },     { 8, 5, 4, 8 },     { 12, 33, 8, 4 },   { 48, 100, 24, 16 },
    { 18, 257, 64, 9 }, { 6, 1023, 8, 3 },  { 6, 1025, 8, 6 },  { 4, 6151, 8, 2 },
};

/* About a quarter of the rows without a target; with skip, the first chunk without any. */
static int32_t *labels_random(const Shape &s, bool skip)
{
    int32_t *labels = HOST(int32_t, s.rows);
    for (int64_t i = 0; i < s.rows; i++) {
        const bool none = (skip && i < s.chunk) || random_below(4) == 0;
        labels[i] = none ? -100 : (int32_t)random_below(s.V);
    }
    return labels;
}

struct Gemms {
    Gemm logits, dx, dw;
};

static bool all_zero(const float *x, int64_t n)
{
    const float *host = n ? download(x, n) : NULL;
    int64_t i = 0;
    while (i < n && host[i] == 0)
        i++;
    return i == n;
}

/* As emitted: of ce_width(V) rows of the head, those from V on 0. */
static Gemms gemms(const Shape &s)
{
    const int64_t wide = ce_width(s.V);
    Gemms g = {
        { .name = "logits", .m = s.chunk, .n = wide, .k = s.C, .form = GEMM_NT, .out_f32 = 1 },
        { .name = "dx", .m = s.chunk, .n = s.C, .k = wide, .form = GEMM_NN },
        { .name = "dw", .m = wide, .n = s.C, .k = s.chunk, .form = GEMM_TN, .out_f32 = 1,
          .beta = 1 },
    };
    gemm_init(&g.logits), gemm_init(&g.dx), gemm_init(&g.dw);
    return g;
}

/* Errors of the gradient grow with the logits' own: these are about 1, or exact integers of some
 * tens. The scale keeps fp16 clear of its smallest numbers, as the scale of a loss does. */
template <int THREADS>
static void run_case(const Shape &s, bool skip, int beta, bool integers)
{
    const int64_t nx = s.rows * s.C, nw = s.V * s.C, bytes = nx * (int64_t)sizeof(act_t);
    const int64_t nwide = ce_width(s.V) * s.C;
    const float scale_ = 37;
    act_t *x = integers ? act_integers(nx, 5) : act_normal(nx, 0, 1 / sqrt((double)s.C));
    act_t *w = padded(integers ? act_integers(nw, 5) : act_normal(nw, 0, 1), nw, nwide);
    act_t *dx = NEW(act_t, nx), *frozen = NEW(act_t, nx);
    float *loss = NEW(float, s.rows), *alone = NEW(float, s.rows), *last = NEW(float, s.rows);
    float *before = f32_normal(nw, 0, 1), *dw = beta ? padded(before, nw, nwide) : NEW(float, nwide);
    float *scale = upload(&scale_, 1);
    int32_t *labels_ = labels_random(s, skip), *labels = upload(labels_, s.rows);
    void *ws = new_bytes(ce_cuda_workspace(s.chunk, s.V, sizeof(act_t), 4));
    Gemms g = gemms(s);
    double *loss_ = HOST(double, s.rows), *dx_ = HOST(double, nx), *dw_ = f32_double(before, nw);
    double *x_ = act_double(x, nx), *w_ = act_double(w, nw);
    double *dx_terms = HOST(double, nx), *dw_terms = HOST(double, nw);
    ce_ref(loss_, dx_, dw_, x_, w_, labels_, scale_, s.rows, s.V, s.C, beta);
    ce_terms(dx_terms, dw_terms, NULL, x_, w_, NULL, labels_, NULL, scale_, s.rows, s.V, s.C,
             integers || sizeof(act_t) == 2);

    run([&] {
        ce_fwd<THREADS>(alone, x, w, labels, {}, s.rows, s.V, s.C, s.chunk, &g.logits, ws, stream);
        ce_bwd<THREADS>(loss, dx, x, w, labels, scale, {.dw = dw}, s.rows, s.V, s.C, s.chunk, beta,
                        &g.logits, &g.dx, &g.dw, ws, stream);
        ce_bwd<THREADS>(last, frozen, x, w, labels, scale, {}, s.rows, s.V, s.C, s.chunk, 0,
                        &g.logits, &g.dx, nullptr, ws, stream);
    });
    check_f32("loss", loss, loss_, s.rows, s.C + s.V);
    check_same("loss alone", alone, loss, s.rows * 4);
    check_same("loss with a frozen head", last, loss, s.rows * 4);
    check_act_terms("dx", dx, dx_, dx_terms, nx, s.C + s.V);
    check_same("dx with a frozen head", frozen, dx, bytes);
    check_via_act_terms("dw", dw, dw_, dw_terms, nw, s.rows + s.C);
    check_true("rows from V on stay 0", all_zero(dw + nw, nwide - nw));
    const float *got = download(loss, s.rows);
    const double *got_dx = act_double(dx, nx);
    for (int64_t i = 0; i < s.rows; i++)
        for (int64_t c = 0; labels_[i] < 0 && c < s.C; c++)
            check_true("nothing without a target", got[i] == 0 && got_dx[i * s.C + c] == 0);
}

TEST(ce)
{
    gemm_setup();
    for (const Shape &s : shapes)
        every_ce_threads([&](auto threads) {
            constexpr int THREADS = decltype(threads)::value;
            for (int v = 0; v < 4 && (THREADS == WIDE || s.V > CUDA_CE_SHORT); v++)
                run_case<THREADS>(s, v & 1, v >> 1, false);
        });
}

/* With a bias or weights or both; some weights are 0, some negative. Where the head is frozen dx is
 * the same. */
static void run_head(const Shape &s, bool with_bias, bool with_weights, int beta)
{
    const int64_t nx = s.rows * s.C, nw = s.V * s.C, bytes = nx * (int64_t)sizeof(act_t);
    const int64_t nwide = ce_width(s.V) * s.C;
    const float scale_ = 37;
    act_t *x = act_normal(nx, 0, 1 / sqrt((double)s.C)), *w = padded(act_normal(nw, 0, 1), nw, nwide);
    act_t *bias = with_bias ? act_normal(s.V, 0, 1) : NULL;
    act_t *dx = NEW(act_t, nx), *frozen = NEW(act_t, nx);
    double *weights_ = HOST(double, s.rows);
    for (int64_t i = 0; i < s.rows; i++)
        weights_[i] = i == s.rows / 2 ? 0 : 0.5 + random_normal();
    float *weights = with_weights ? f32_from(weights_, s.rows) : NULL;
    weights_ = weights ? f32_double(weights, s.rows) : NULL;
    float *loss = NEW(float, s.rows), *alone = NEW(float, s.rows);
    float *before = f32_normal(nw, 0, 1), *dw = beta ? padded(before, nw, nwide) : NEW(float, nwide);
    float *b_before = f32_normal(s.V, 0, 1), *db = NULL;
    if (with_bias)
        db = beta ? f32_copy(b_before, s.V) : NEW(float, s.V);
    float *scale = upload(&scale_, 1);
    int32_t *labels_ = labels_random(s, true), *best = HOST(int32_t, s.rows);
    void *ws = new_bytes(ce_cuda_workspace(s.chunk, s.V, sizeof(act_t), 4));
    Gemms g = gemms(s);
    double *loss_ = HOST(double, s.rows), *dx_ = HOST(double, nx), *dw_ = f32_double(before, nw);
    double *x_ = act_double(x, nx), *w_ = act_double(w, nw), *db_ = f32_double(b_before, s.V);
    double *bias_ = bias ? act_double(bias, s.V) : NULL, *db_terms = HOST(double, s.V);
    double *dx_terms = HOST(double, nx), *dw_terms = HOST(double, nw), *above_ = HOST(double, s.rows);
    float *hits = NEW(float, s.rows), *same = NEW(float, s.rows);
    ce_best_ref(best, above_, x_, w_, bias_, s.rows, s.V, s.C);
    for (int64_t i = 0; i < s.rows; i += 2)
        labels_[i] = labels_[i] < 0 ? labels_[i] : best[i];
    int32_t *labels = upload(labels_, s.rows);
    ce_head_ref(loss_, dx_, dw_, db_, x_, w_, bias_, labels_, weights_, scale_, s.rows, s.V, s.C,
                beta);
    ce_terms(dx_terms, dw_terms, db_terms, x_, w_, bias_, labels_, weights_, scale_, s.rows, s.V,
             s.C, sizeof(act_t) == 2);
    run([&] {
        CeHead head = {.bias = bias, .weights = weights};
        ce_fwd<WIDE>(alone, x, w, labels, head, s.rows, s.V, s.C, s.chunk, &g.logits, ws, stream);
        head.hits = hits;
        ce_fwd<WIDE>(same, x, w, labels, head, s.rows, s.V, s.C, s.chunk, &g.logits, ws, stream);
        head.dw = dw, head.db = db;
        ce_bwd<WIDE>(loss, dx, x, w, labels, scale, head, s.rows, s.V, s.C, s.chunk, beta, &g.logits,
                     &g.dx, &g.dw, ws, stream);
        head.dw = head.db = nullptr;
        ce_bwd<WIDE>(loss, frozen, x, w, labels, scale, head, s.rows, s.V, s.C, s.chunk, 0, &g.logits,
                     &g.dx, nullptr, ws, stream);
    });
    check_f32("loss of a head", loss, loss_, s.rows, s.C + s.V);
    check_same("loss alone", alone, loss, s.rows * 4);
    check_act_terms("dx", dx, dx_, dx_terms, nx, s.C + s.V);
    check_same("dx with a frozen head", frozen, dx, bytes);
    check_via_act_terms("dw", dw, dw_, dw_terms, nw, s.rows + s.C);
    if (db)
        check_via_act_terms("db", db, db_, db_terms, s.V, s.rows + s.C);
    check_same("loss with hits", same, alone, s.rows * 4);
    const float *hit = download(hits, s.rows);
    for (int64_t i = 0; i < s.rows; i++)
        check_true("hits",
                   hit[i] == (labels_[i] == best[i]) || (above_[i] < 1e-4 && labels_[i] >= 0));
}

TEST(ce_head)
{
    gemm_setup();
    for (int v = 1; v < 4; v++)
        for (int i = 0; i < 7; i += 3)
            run_head(shapes[i + (v == 2)], v & 1, v >> 1, v == 3);
    run_head({ 6, 10005, 8, 3 }, true, false, 0);
}

TEST(ce_large_logits)
{
    gemm_setup();
    run_case<WIDE>({ 16, 40, 16, 8 }, false, 0, true);
    run_case<WIDE>({ 4, 1500, 16, 2 }, false, 0, true);
}

/* Loss of a row of logits (V), and the largest error of its gradient `got` (width), of scale times the
 * loss: relative to a gradient and 1e-4. label < 0: both are 0. */
static double row_loss(const double *l, int64_t V, int32_t label, double scale, const double *got,
                       int64_t width, double *error)
{
    double most = -1e9, sum = 0;
    for (int64_t v = 0; v < V; v++)
        most = fmax(most, l[v]);
    for (int64_t v = 0; v < V; v++)
        sum += exp(l[v] - most);
    *error = 0;
    for (int64_t v = 0; v < width; v++) {
        double want = v < V ? scale * exp(l[v] - most) / sum : 0;
        want = label < 0 ? 0 : want - (v == label ? scale : 0);
        *error = fmax(*error, fabs(got[v] - want) / (fabs(want) + 1e-4));
    }
    return label < 0 ? 0 : log(sum) - (l[label] - most);
}

#if defined ACT_BF16 || defined ACT_F16
/* Logits of 16 bit, whose gradient takes their place: where they are exact integers, the losses of
 * fp32 ones up to the order of sums, and the gradient of the reference; zeros are written, too. */
TEST(ce_short_logits)
{
    gemm_setup();
    for (const Shape &s : shapes) {
        const int64_t nx = s.rows * s.C, nw = s.V * s.C, nwide = ce_width(s.V) * s.C;
        const float scale_ = 37;
        act_t *x = act_integers(nx, 1), *w = padded(act_integers(nw, 1), nw, nwide);
        act_t *bias = act_integers(s.V, 2), *dx = NEW(act_t, nx);
        float *loss = NEW(float, s.rows), *alone = NEW(float, s.rows), *hits = NEW(float, s.rows);
        float *dw = NEW(float, nwide), *db = NEW(float, s.V), *scale = upload(&scale_, 1);
        int32_t *labels_ = labels_random(s, false), *labels = upload(labels_, s.rows);
        int32_t *best = HOST(int32_t, s.rows);
        void *ws = new_bytes(ce_cuda_workspace(s.chunk, s.V, sizeof(act_t), sizeof(act_t)));
        Gemms g = gemms(s);
        g.logits.out_f32 = 0;
        gemm_init(&g.logits);
        double *loss_ = HOST(double, s.rows), *dx_ = HOST(double, nx), *dw_ = HOST(double, nw);
        double *db_ = HOST(double, s.V), *above = HOST(double, s.rows);
        double *dx_terms = HOST(double, nx), *dw_terms = HOST(double, nw), *db_terms = HOST(double, s.V);
        double *x_ = act_double(x, nx), *w_ = act_double(w, nw), *bias_ = act_double(bias, s.V);
        ce_head_ref(loss_, dx_, dw_, db_, x_, w_, bias_, labels_, NULL, scale_, s.rows, s.V, s.C, 0);
        ce_terms(dx_terms, dw_terms, db_terms, x_, w_, bias_, labels_, NULL, scale_, s.rows, s.V, s.C,
                 true);
        ce_best_ref(best, above, x_, w_, bias_, s.rows, s.V, s.C);
        run([&] {
            ce_fwd<WIDE, act_t>(alone, x, w, labels, {.bias = bias, .hits = hits}, s.rows, s.V, s.C,
                                s.chunk, &g.logits, ws, stream);
            ce_bwd<WIDE, act_t>(loss, dx, x, w, labels, scale, {.bias = bias, .dw = dw, .db = db},
                                s.rows, s.V, s.C, s.chunk, 0, &g.logits, &g.dx, &g.dw, ws, stream);
        });
        check_f32("loss", loss, loss_, s.rows, s.C + s.V);
        check_same("loss alone", alone, loss, s.rows * 4);
        check_act_terms("dx", dx, dx_, dx_terms, nx, s.C + s.V);
        check_via_act_terms("dw", dw, dw_, dw_terms, nw, s.rows + s.C);
        check_via_act_terms("db", db, db_, db_terms, s.V, s.rows);
        check_true("rows from V on stay 0", all_zero(dw + nw, nwide - nw));
        const float *hit = download(hits, s.rows);
        for (int64_t i = 0; i < s.rows; i++)
            check_true("hits", labels_[i] >= 0 || hit[i] == 0);
    }
}

/* Rounded logits that a block reads from shared memory, from memory or both: the same bits, in place
 * and elsewhere, and the gradient of these logits. */
TEST(ce_short_rows)
{
    for (int64_t V : { 30, 1030, 5003, 40006 }) {
        const int64_t rows = 5, width = ce_width(V), n = rows * width;
        const float one = 3;
        const int32_t some[rows] = { -1, 2, (int32_t)V - 1, -1, (int32_t)V / 2 };
        act_t *logits = act_normal(n, 0, 3), *d = NEW(act_t, n), *in_place = NEW(act_t, n);
        float *loss = NEW(float, rows), *again = NEW(float, rows), *scale = upload(&one, 1);
        const int32_t *labels = upload(some, rows);
        const double *of = act_double(logits, n);
        double *want = HOST(double, rows);
        run([&] {
            cudaMemcpyAsync(in_place, logits, (size_t)n * sizeof *d, cudaMemcpyDeviceToDevice, stream);
            ce_rows<WIDE>(loss, d, logits, labels, scale, NULL, rows, V, stream);
            ce_rows<WIDE>(again, in_place, in_place, labels, scale, NULL, rows, V, stream);
        });
        check_same("loss in place", again, loss, rows * 4);
        check_same("gradient in place", in_place, d, n * (int64_t)sizeof *d);
        const double *got = act_double(d, n);
        for (int64_t i = 0; i < rows; i++) {
            double error;
            want[i] = row_loss(of + i * width, V, some[i], one, got + i * width, width, &error);
            check_true("gradient", error < 0.01);
        }
        check_f32("loss", loss, want, rows, V);
    }
}
#endif

/* Rows of equal logits: the loss is log V, whatever the vectors; a row's gradient adds up to 0. */
TEST(ce_rows)
{
    for (int64_t V : { 1, 3, 64, 130, 1024, 1030, 4096, 5003 }) {
        const int64_t rows = 5, width = ce_width(V);
        double *logits_ = HOST(double, rows * width), *want = HOST(double, rows);
        for (int64_t i = 0; i < rows * width; i++)
            logits_[i] = 7.5;
        for (int64_t i = 0; i < rows; i++)
            want[i] = log((double)V);
        const float one = 1;
        float *logits = f32_from(logits_, rows * width), *loss = NEW(float, rows);
        float *scale = upload(&one, 1);
        act_t *d = NEW(act_t, rows * width);
        int32_t *labels = tokens_random(rows, V);
        run([&] { ce_rows<WIDE>(loss, d, logits, labels, scale, NULL, rows, V, stream); });
        check_f32("log V", loss, want, rows, V);
        for (int64_t i = 0; i < rows; i++) {
            double sum = 0;
            const double *row = act_double(d + i * width, V);
            for (int64_t v = 0; v < V; v++)
                sum += row[v];
            check_true("a row's gradient adds up to 0", fabs(sum) < 0.02);
        }
    }
}

/* Rows that a block takes in turn, with some, all or none of their logits in shared memory: the same bits
 * as a block each, and the gradient of the reference. */
TEST(ce_rows_in_turn)
{
    for (int64_t V : { 1030, 5003, 20006 }) {
        const int64_t rows = 5, width = ce_width(V), n = rows * width;
        const float one = 3;
        const int32_t some[rows] = { -1, 2, (int32_t)V - 1, -1, (int32_t)V / 2 };
        float *logits = f32_normal(n, 0, 3), *loss = NEW(float, rows), *again = NEW(float, rows);
        float *scale = upload(&one, 1);
        const int32_t *labels = upload(some, rows);
        act_t *d = NEW(act_t, n), *turn = NEW(act_t, n);
        run([&] { ce_rows<WIDE>(loss, d, logits, labels, scale, NULL, rows, V, stream); });
        const double *of = f32_double(logits, n), *got = act_double(d, n);
        for (int64_t i = 0; i < rows; i++) {
            double error;
            row_loss(of + i * width, V, some[i], one, got + i * width, width, &error);
            check_true("gradient", error < 0.01);
        }
        const int all = ce_held(V, 4, WIDE, 227 << 10);
        for (int held = 0; held <= all; held = held + 2 < all || held == all ? held + 2 : all)
            for (unsigned blocks = 1; blocks < 3; blocks++) {
                run([&] {
                    launch(ce_rows_kernel<WIDE, true, false, float>, blocks, WIDE, 16 * WIDE * held, stream,
                           again, turn, logits, labels, scale, (const float *)NULL, rows, (int)V,
                           width, held);
                });
                check_same("loss in turn", again, loss, rows * 4);
                check_same("gradient in turn", turn, d, n * (int64_t)sizeof *d);
            }
    }
}

/* A row that is not finite gives a loss that is not: the step then does nothing. */
TEST(ce_not_finite)
{
    for (int64_t V : { 30, 1100 }) {
        const int64_t width = ce_width(V);
        const float one = 1;
        float *host = HOST(float, width), *loss = NEW(float, 1), *scale = upload(&one, 1);
        for (int64_t v = 0; v < V; v++)
            host[v] = (float)random_normal();
        host[random_below(V)] = random_below(2) ? NAN : INFINITY;
        float *logits = upload(host, width);
        act_t *d = NEW(act_t, width);
        int32_t *labels = tokens_random(1, V);
        run([&] { ce_rows<WIDE>(loss, d, logits, labels, scale, NULL, 1, V, stream); });
        check_true("the loss is not finite", !isfinite(download(loss, 1)[0]));
    }
}

TEST(loss_sum)
{
    for (int64_t rows : { 1, 1001, 5000 }) {
        float *loss = f32_integers(rows, 1000);
        const double start = 5, *loss_ = f32_double(loss, rows);
        double want = start, *acc = upload(&start, 1);
        run([&] { loss_sum(acc, loss, rows, stream); });
        for (int64_t i = 0; i < rows; i++)
            want += loss_[i];
        check_true("sum", download(acc, 1)[0] == want);
    }
}

/* GPT-2 and Qwen2.5: the rows of a chunk, and the whole head. */
BENCH(ce)
{
    gemm_setup();
    for (const Shape &s : { Shape{ 8192, 50257, 768, 4096 }, Shape{ 4096, 152064, 3584, 2048 } }) {
        act_t *x = act_normal(s.rows * s.C, 0, 1), *w = act_normal(ce_width(s.V) * s.C, 0, 0.02);
        act_t *dx = NEW(act_t, s.rows * s.C);
        float *loss = NEW(float, s.rows), *dw = f32_normal(ce_width(s.V) * s.C, 0, 1);
        const float one = 1;
        float *scale = upload(&one, 1);
        int32_t *labels = tokens_random(s.rows, s.V);
        char *ws = (char *)new_bytes(ce_cuda_workspace(s.chunk, s.V, sizeof(act_t), 4));
        Gemms g = gemms(s);
        char what[80];
        snprintf(what, sizeof what, "ce rows %d V %d C %d chunk %d", (int)s.rows, (int)s.V,
                 (int)s.C, (int)s.chunk);
        bench_report(what, bench_time([&] {
                         ce_bwd<WIDE>(loss, dx, x, w, labels, scale, {.dw = dw}, s.rows, s.V, s.C,
                                      s.chunk, 1, &g.logits, &g.dx, &g.dw, ws, stream);
                     }),
                     0, 6.0 * (double)(s.rows * s.V * s.C));
        float *logits = (float *)(ws + CUDA_GEMM_WORKSPACE);
        act_t *d =
            sizeof(act_t) == 4 ? (act_t *)logits : (act_t *)(logits + s.chunk * ce_width(s.V));
        bench_report("  softmax and gradient of a chunk", bench_time([&] {
                         ce_rows<WIDE>(loss, d, logits, labels, scale, NULL, s.chunk, s.V, stream);
                     }),
                     (double)(s.chunk * s.V) * (2 * 4 + sizeof(act_t)), 0);
        act_t *in_place = (act_t *)logits;
        bench_report("  the same, in the place of logits of 16 bit", bench_time([&] {
                         ce_rows<WIDE>(loss, in_place, in_place, labels, scale, NULL, s.chunk, s.V,
                                       stream);
                     }),
                     (double)(s.chunk * s.V) * 3 * sizeof(act_t), 0);
    }
}
