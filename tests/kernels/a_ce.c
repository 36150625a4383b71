/* a_ce.c -- ce.h. */
#include <math.h>
#include <stdio.h>

#include "../../kernels/cpu/ce.h"
#include "../../kernels/reference/ce.h"
#include "harness.h"
#include "terms.h"

typedef struct {
    int64_t rows, V, C, chunk;
} Shape;

static const Shape shapes[] = { { 1, 1, 1, 1 }, { 8, 5, 4, 8 }, { 12, 33, 8, 4 }, { 48, 100, 24,
        16 }, { 64, 257, 64, 64 }, { 24, 10005, 8, 12 } };

typedef struct {
    Shape s;
    double scale, *x, *w, *loss, *dx, *dw;
    int32_t *labels;
} Problem;

static double ce_total(void *ctx)
{
    Problem *p = ctx;
    double sum = 0;
    ce_ref(p->loss, NULL, NULL, p->x, p->w, p->labels, p->scale, p->s.rows, p->s.V, p->s.C, 0);
    for (int64_t i = 0; i < p->s.rows; i++)
        sum += p->loss[i] * p->scale;
    return sum;
}

/* About a quarter of the rows without a target; with skip, the first chunk without any. */
static int32_t *labels_random(const Shape *s, bool skip)
{
    int32_t *labels = tokens_random(s->rows, s->V);
    for (int64_t i = 0; i < s->rows; i++)
        if ((skip && i < s->chunk) || random_below(4) == 0)
            labels[i] = -100;
    return labels;
}

static void gemms(Gemm *logits, Gemm *dx, Gemm *dw, const Shape *s)
{
    *logits = (Gemm){ .name = "logits", .m = s->chunk, .n = s->V, .k = s->C, .form = GEMM_NT,
                      .out_f32 = 1 };
    *dx = (Gemm){ .name = "dx", .m = s->chunk, .n = s->C, .k = s->V, .form = GEMM_NN };
    *dw = (Gemm){ .name = "dw", .m = s->V, .n = s->C, .k = s->chunk, .form = GEMM_TN, .out_f32 = 1,
                  .beta = 1 };
    gemm_init(logits), gemm_init(dx), gemm_init(dw);
}

/* Errors of the gradient grow with the logits' own: these are about 1, or exact integers of some
 * tens. */
static void run_case(const Shape *s, bool skip, int beta, bool integers)
{
    const int64_t nx = s->rows * s->C, nw = s->V * s->C;
    act_t *x = integers ? act_integers(nx, 5) : act_normal(nx, 0, 1 / sqrt((double)s->C));
    act_t *w = integers ? act_integers(nw, 5) : act_normal(nw, 0, 1), *dx = NEW(act_t, nx);
    float *loss = NEW(float, s->rows), *dw = beta ? f32_normal(nw, 0, 1) : NEW(float, nw),
        scale = 0.37f;
    int32_t *labels = labels_random(s, skip);
    void *ws = new_bytes(ce_workspace(s->chunk, s->V, sizeof(act_t)));
    Gemm mm_logits, mm_dx, mm_dw;
    gemms(&mm_logits, &mm_dx, &mm_dw, s);
    Problem p = { *s, scale, act_double(x, nx), act_double(w, nw), NEW(double, s->rows), NEW(double,
            nx),
                  f32_double(dw, nw), labels };
    double *dx_terms = NEW(double, nx), *dw_terms = NEW(double, nw);
    ce_ref(p.loss, p.dx, p.dw, p.x, p.w, labels, scale, s->rows, s->V, s->C, beta);
    ce_terms(dx_terms, dw_terms, NULL, p.x, p.w, NULL, labels, NULL, scale, s->rows, s->V, s->C,
             integers || sizeof(act_t) == 2);

    ce_fwd(loss, x, w, labels, &(CeHead){ 0 }, s->rows, s->V, s->C, s->chunk, &mm_logits, ws);
    check_f32("loss", loss, p.loss, s->rows, s->C + s->V);
    ce_bwd(loss, dx, x, w, labels, &scale, &(CeHead){ .dw = dw }, s->rows, s->V, s->C, s->chunk, beta,
           &mm_logits, &mm_dx, &mm_dw, ws);
    check_f32("loss with gradient", loss, p.loss, s->rows, s->C + s->V);
    check_act_terms("dx", dx, p.dx, dx_terms, nx, s->C + s->V);
    check_via_act_terms("dw", dw, p.dw, dw_terms, nw, s->rows + s->C);
    act_t *frozen = NEW(act_t, nx);
    ce_bwd(loss, frozen, x, w, labels, &scale, &(CeHead){ 0 }, s->rows, s->V, s->C, s->chunk, 0,
           &mm_logits, &mm_dx, NULL, ws);
    check_same("dx with a frozen head", frozen, dx, nx * (int64_t)sizeof(act_t));
    for (int64_t i = 0; i < s->rows; i++)
        if (labels[i] < 0) {
            check_true("no loss without a target", loss[i] == 0);
            for (int64_t c = 0; c < s->C; c++)
                check_true("no gradient without a target", act_load(dx + i * s->C + c) == 0);
        }
}

/* With a bias or weights or both; some weights are 0, some negative. Where the head is frozen dx is
 * the same. */
static void run_head(const Shape *s, bool with_bias, bool with_weights, int beta)
{
    const int64_t nx = s->rows * s->C, nw = s->V * s->C;
    act_t *x = act_normal(nx, 0, 1 / sqrt((double)s->C)), *w = act_normal(nw, 0, 1);
    act_t *bias = with_bias ? act_normal(s->V, 0, 1) : NULL, *dx = NEW(act_t, nx);
    float *weights = with_weights ? f32_normal(s->rows, 0.5, 1) : NULL;
    float *loss = NEW(float, s->rows), *again = NEW(float, s->rows);
    float *dw = beta ? f32_normal(nw, 0, 1) : NEW(float, nw), scale = 0.37f;
    float *db = !with_bias ? NULL : beta ? f32_normal(s->V, 0, 1) : NEW(float, s->V);
    float *hits = NEW(float, s->rows);
    int32_t *labels = labels_random(s, true), *best = NEW(int32_t, s->rows);
    double *above_ = NEW(double, s->rows);
    void *ws = new_bytes(ce_workspace(s->chunk, s->V, sizeof(act_t)));
    Gemm logits, mm_dx, mm_dw;
    gemms(&logits, &mm_dx, &mm_dw, s);
    logits.bias = with_bias;
    gemm_init(&logits);
    if (weights)
        weights[s->rows / 2] = 0;
    double *x_ = act_double(x, nx), *w_ = act_double(w, nw), *loss_ = NEW(double, s->rows);
    double *bias_ = bias ? act_double(bias, s->V) : NULL, *dx_ = NEW(double, nx);
    double *weights_ = weights ? f32_double(weights, s->rows) : NULL, *dw_ = f32_double(dw, nw);
    double *db_ = db ? f32_double(db, s->V) : NULL, *db_terms = NEW(double, s->V);
    double *dx_terms = NEW(double, nx), *dw_terms = NEW(double, nw);
    ce_best_ref(best, above_, x_, w_, bias_, s->rows, s->V, s->C);
    for (int64_t i = 0; i < s->rows; i += 2)
        labels[i] = labels[i] < 0 ? labels[i] : best[i];
    ce_head_ref(loss_, dx_, dw_, db_, x_, w_, bias_, labels, weights_, scale, s->rows, s->V, s->C,
                beta);
    ce_terms(dx_terms, dw_terms, db_terms, x_, w_, bias_, labels, weights_, scale, s->rows, s->V,
             s->C, sizeof(act_t) == 2);

    CeHead head = { .bias = bias, .weights = weights };
    ce_fwd(loss, x, w, labels, &head, s->rows, s->V, s->C, s->chunk, &logits, ws);
    check_f32("loss of a head", loss, loss_, s->rows, s->C + s->V);
    head.hits = hits;
    ce_fwd(again, x, w, labels, &head, s->rows, s->V, s->C, s->chunk, &logits, ws);
    check_same("loss with hits", again, loss, s->rows * (int64_t)sizeof(float));
    for (int64_t i = 0; i < s->rows; i++)
        check_true("hits", hits[i] == (labels[i] == best[i]) || (above_[i] < 1e-4 && labels[i] >= 0));
    head.dw = dw, head.db = db;
    ce_bwd(again, dx, x, w, labels, &scale, &head, s->rows, s->V, s->C, s->chunk, beta, &logits, &mm_dx,
           &mm_dw, ws);
    check_same("loss with gradient", again, loss, s->rows * (int64_t)sizeof(float));
    check_act_terms("dx", dx, dx_, dx_terms, nx, s->C + s->V);
    check_via_act_terms("dw", dw, dw_, dw_terms, nw, s->rows + s->C);
    if (db)
        check_via_act_terms("db", db, db_, db_terms, s->V, s->rows + s->C);
    act_t *frozen = NEW(act_t, nx);
    head.dw = head.db = NULL;
    ce_bwd(again, frozen, x, w, labels, &scale, &head, s->rows, s->V, s->C, s->chunk, 0, &logits, &mm_dx,
           NULL, ws);
    check_same("dx with a frozen head", frozen, dx, nx * (int64_t)sizeof(act_t));
}

TEST(ce)
{
    gemm_setup();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int v = 0; v < 4; v++)
            run_case(&shapes[i], v & 1, v >> 1, false);
}

TEST(ce_head)
{
    gemm_setup();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int v = 0; v < 4; v++)
            run_head(&shapes[i], v & 1, v >> 1, v == 3);
}

TEST(ce_large_logits)
{
    gemm_setup();
    run_case(&(Shape){ 16, 40, 16, 8 }, false, 0, true);
}

typedef struct {
    Problem p;
    double *bias, *weights;
} Head;

static double head_total(void *ctx)
{
    Head *h = ctx;
    const Shape s = h->p.s;
    double sum = 0;
    ce_head_ref(h->p.loss, NULL, NULL, NULL, h->p.x, h->p.w, h->bias, h->p.labels, h->weights,
                h->p.scale, s.rows, s.V, s.C, 0);
    for (int64_t i = 0; i < s.rows; i++)
        sum += h->p.loss[i] * h->p.scale;
    return sum;
}

/* The reference's gradients with a bias and weights, seen by finite differences. */
TEST(ce_head_gradient)
{
    Shape s = { 6, 11, 5, 6 };
    Head h = { { s, 0.37, act_double(act_normal(s.rows * s.C, 0, 1), s.rows * s.C),
                 act_double(act_normal(s.V * s.C, 0, 1), s.V * s.C), NEW(double, s.rows),
                 NEW(double, s.rows * s.C), NEW(double, s.V * s.C), labels_random(&s, false) },
               act_double(act_normal(s.V, 0, 1), s.V),
               f32_double(f32_normal(s.rows, 0, 1), s.rows) };
    double *db = NEW(double, s.V);
    ce_head_ref(h.p.loss, h.p.dx, h.p.dw, db, h.p.x, h.p.w, h.bias, h.p.labels, h.weights,
                h.p.scale, s.rows, s.V, s.C, 0);
    check_gradient("dx", head_total, &h, h.p.x, h.p.dx, s.rows * s.C);
    check_gradient("dw", head_total, &h, h.p.w, h.p.dw, s.V * s.C);
    check_gradient("db", head_total, &h, h.bias, db, s.V);
}

TEST(ce_gradient)
{
    Shape s = { 6, 11, 5, 6 };
    act_t *x = act_normal(s.rows * s.C, 0, 1), *w = act_normal(s.V * s.C, 0, 1);
    Problem p = { s, 0.37, act_double(x, s.rows * s.C), act_double(w, s.V * s.C), NEW(double,
            s.rows),
                  NEW(double, s.rows * s.C), NEW(double, s.V * s.C), labels_random(&s, false) };
    ce_ref(p.loss, p.dx, p.dw, p.x, p.w, p.labels, p.scale, s.rows, s.V, s.C, 0);
    check_gradient("dx", ce_total, &p, p.x, p.dx, s.rows * s.C);
    check_gradient("dw", ce_total, &p, p.w, p.dw, s.V * s.C);
}

/* Rows of equal logits: the loss is log V, whatever the lanes. The row sums are ours: same bits on
 * any threads. */
TEST(ce_rows)
{
    for (int64_t V = 1; V < 200; V += 13) {
        const int64_t rows = 9;
        float *logits = f32_normal(rows * V, 0, 3), *loss = NEW(float, rows), *again = NEW(float,
                rows);
        act_t *d = NEW(act_t, rows * V);
        int32_t *labels = tokens_random(rows, V);
        double log_v = log((double)V);
        for (int64_t v = 0; v < V; v++)
            logits[v] = 7.5f;
        labels[4] = -1;
        ce_chunk_fwd_(loss, NULL, logits, labels, NULL, rows, V);
        ce_chunk_bwd_(again, d, logits, labels, NULL, 1, rows, V);
        check_same("loss of forward and backward", loss, again, rows * (int64_t)sizeof(float));
        check_f32("log V", loss, &log_v, 1, V);
        for (int64_t i = 0; i < rows; i++) {
            double sum = 0, zero = 0;
            for (int64_t v = 0; v < V; v++)
                sum += act_load(d + i * V + v);
            check_true("a row's gradient sums to 0", fabs(sum - zero) < 0.02);
        }
        check_same("d", d, d, rows * V * (int64_t)sizeof(act_t));
    }
}

TEST(loss_sum)
{
    float *loss = f32_integers(1001, 1000);
    double want = 5, acc = 5;
    for (int i = 0; i < 1001; i++)
        want += loss[i];
    loss_sum(&acc, loss, 1001);
    check_true("sum", acc == want);
}

typedef struct {
    Shape s;
    act_t *x, *w, *dx;
    float *loss, *dw;
    int32_t *labels;
    Gemm logits, mm_dx, mm_dw;
    void *ws;
} Bench;

static void run_rows(void *ctx)
{
    Bench *t = ctx;
    ce_chunk_bwd_(t->loss, (act_t *)((char *)t->ws + GEMM_WORKSPACE),
                  (float *)((char *)t->ws + GEMM_WORKSPACE), t->labels, NULL, 1,
                  t->s.chunk, t->s.V);
}

static void run_all(void *ctx)
{
    Bench *t = ctx;
    const float scale = 1;
    ce_bwd(t->loss, t->dx, t->x, t->w, t->labels, &scale, &(CeHead){ .dw = t->dw }, t->s.rows, t->s.V,
           t->s.C, t->s.chunk, 1, &t->logits, &t->mm_dx, &t->mm_dw, t->ws);
}

BENCH(ce_speed)
{
    gemm_setup();
    static const Shape sizes[] = { { 256, 50257, 768, 256 }, { 1024, 50257, 768, 256 }, { 1024,
            50257, 768, 1024 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Shape s = sizes[i];
        Bench t = { s, act_normal(s.rows * s.C, 0, 1), act_normal(s.V * s.C, 0, 0.02), NEW(act_t,
                s.rows * s.C),
                    NEW(float, s.rows), f32_normal(s.V * s.C, 0, 1), tokens_random(s.rows, s.V),
                        { 0 }, { 0 }, { 0 },
                    new_bytes(ce_workspace(s.chunk, s.V, sizeof(act_t))) };
        gemms(&t.logits, &t.mm_dx, &t.mm_dw, &s);
        char what[64];
        snprintf(what, sizeof what, "ce rows %d V %d C %d chunk %d", (int)s.rows, (int)s.V,
                 (int)s.C, (int)s.chunk);
        bench_report(what, bench_time(run_all, &t), 0, 6.0 * (double)(s.rows * s.V * s.C));
        double bytes = (double)(s.chunk * s.V) * (3 * sizeof(float) + sizeof(act_t));
        bench_report("  softmax and gradient of a chunk", bench_time(run_rows, &t), bytes, 0);
    }
}
