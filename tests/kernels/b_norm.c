/* b_norm.c -- layernorm.h, rmsnorm.h and qk_norm.h. */
#include "../../kernels/cpu/layernorm.h"
#include "../../kernels/cpu/qk_norm.h"
#include "../../kernels/cpu/rmsnorm.h"
#include "../../kernels/reference/layernorm.h"
#include "../../kernels/reference/qk_norm.h"
#include "../../kernels/reference/rmsnorm.h"
#include "harness.h"
#include "terms.h"

enum { SHAPES = 8 };
static const int64_t shapes[SHAPES][2] = { { 1, 17 },   { 3, 7 },     { 33, 64 },
                                           { 100, 96 }, { 257, 129 }, { 40, 768 }, { 300, 8 },
                                           { 130, 24 } };

/* One problem: inputs, their double copies and double results. */
typedef struct {
    int64_t rows, C;
    act_t *x, *dy, *res;
    wt_t *w, *b;
    double *dx_, *x_, *dy_, *res_, *w_, *b_, *y_, *mean_, *rstd_, *dw_, *db_;
    bool rms;
} Norm;

static const float eps = 1e-5f;

static double norm_loss(void *ctx)
{
    Norm *n = ctx;
    if (n->rms)
        rmsnorm_fwd_ref(n->y_, n->rstd_, n->x_, n->w_, n->rows, n->C, eps);
    else
        layernorm_fwd_ref(n->y_, n->mean_, n->rstd_, n->x_, n->w_, n->b_, n->rows, n->C, eps);
    return dot(n->y_, n->dy_, n->rows * n->C);
}

static Norm norm_new(int64_t rows, int64_t C, bool rms)
{
    const int64_t n = rows * C;
    Norm p = { .rows = rows, .C = C, .rms = rms };
    p.x = act_normal(n, 0.5, 2);
    p.dy = act_normal(n, 0, 1);
    p.res = act_normal(n, 0, 1);
    p.w = act_normal(C, 1, 0.3);
    p.b = act_normal(C, 0, 1);
    p.x_ = act_double(p.x, n);
    p.dy_ = act_double(p.dy, n);
    p.res_ = act_double(p.res, n);
    p.w_ = act_double(p.w, C);
    p.b_ = act_double(p.b, C);
    p.y_ = NEW(double, n);
    p.dx_ = NEW(double, n);
    p.mean_ = NEW(double, rows);
    p.rstd_ = NEW(double, rows);
    p.dw_ = NEW(double, C);
    p.db_ = NEW(double, C);
    norm_loss(&p);
    return p;
}

/* plus: weights around 0, which the reference has as 1 + w. */
static Norm rms_new(int64_t rows, int64_t C, int plus)
{
    Norm p = norm_new(rows, C, true);
    for (int64_t i = 0; i < C && plus; i++) {
        act_store(p.w + i, act_load(p.w + i) - 1.0f);
        p.w_[i] = 1.0 + (double)act_load(p.w + i);
    }
    norm_loss(&p);
    return p;
}

TEST(layernorm_fwd)
{
    for (int k = 0; k < SHAPES; k++) {
        Norm p = norm_new(shapes[k][0], shapes[k][1], false);
        const int64_t n = p.rows * p.C;
        act_t *y = NEW(act_t, n), *eval = NEW(act_t, n);
        float *mean = NEW(float, p.rows), *rstd = NEW(float, p.rows);
        double *y_terms = NEW(double, n), *mean_terms = NEW(double, p.rows);
        layernorm_fwd_terms(y_terms, mean_terms, p.x_, p.w_, p.b_, p.mean_, p.rstd_, p.rows, p.C);
        layernorm_fwd(y, mean, rstd, p.x, p.w, p.b, p.rows, p.C, eps);
        layernorm_fwd(eval, NULL, NULL, p.x, p.w, p.b, p.rows, p.C, eps);
        check_act_terms("y", y, p.y_, y_terms, n, p.C);
        check_f32_terms("mean", mean, p.mean_, mean_terms, p.rows, p.C);
        check_f32("rstd", rstd, p.rstd_, p.rows, p.C);
        check_same("without statistics", eval, y, n * (int64_t)sizeof *y);
    }
}

TEST(rmsnorm_fwd)
{
    for (int k = 0; k < 2 * SHAPES; k++) {
        const int plus = k / SHAPES;
        Norm p = rms_new(shapes[k % SHAPES][0], shapes[k % SHAPES][1], plus);
        const int64_t n = p.rows * p.C;
        act_t *y = NEW(act_t, n), *eval = NEW(act_t, n);
        float *rstd = NEW(float, p.rows);
        rmsnorm_fwd(y, rstd, p.x, p.w, p.rows, p.C, eps, plus);
        rmsnorm_fwd(eval, NULL, p.x, p.w, p.rows, p.C, eps, plus);
        check_act("y", y, p.y_, n, p.C);
        check_f32("rstd", rstd, p.rstd_, p.rows, p.C);
        check_same("without statistics", eval, y, n * (int64_t)sizeof *y);
    }
}

/* The cast order of the Llama family: round, times weight, round; of Gemma: times 1 + weight, round. */
TEST(rmsnorm_cast_order)
{
    const int64_t C = 256;
    act_t *x = act_normal(C, 0, 1), *w = act_normal(C, 1, 0.3), *y = NEW(act_t, C);
    float rstd;
    rmsnorm_fwd(y, &rstd, x, w, 1, C, eps, 0);
    double *want = NEW(double, C);
    for (int64_t i = 0; i < C; i++)
        want[i] = act_round(act_load(x + i) * rstd) * act_load(w + i);
    check_act_exact("y", y, want, C);
    rmsnorm_fwd(y, &rstd, x, w, 1, C, eps, 1);
    for (int64_t i = 0; i < C; i++)
        want[i] = act_load(x + i) * rstd * (1.0f + act_load(w + i));
    check_act_exact("y of 1 + w", y, want, C);
}

/* The fused addition is the addition followed by the norm, bit for bit, also in place. */
TEST(add_norm_fwd)
{
    for (int k = 0; k < SHAPES; k++) {
        Norm p = norm_new(shapes[k][0], shapes[k][1], false);
        const int64_t rows = p.rows, C = p.C, n = rows * C, bytes = n * (int64_t)sizeof(act_t);
        double *want = NEW(double, n);
        act_t *sum = NEW(act_t, n), *y = NEW(act_t, n), *plain = NEW(act_t, n);
        act_t *a = act_copy(p.x, n);
        float *mean = NEW(float, rows), *rstd = NEW(float, rows), *rstd2 = NEW(float, rows);
        for (int64_t i = 0; i < n; i++)
            want[i] = p.x_[i] + p.res_[i];
        add_layernorm_fwd(sum, y, mean, rstd, p.x, p.res, p.w, p.b, rows, C, eps);
        check_act_exact("sum", sum, want, n);
        layernorm_fwd(plain, mean, rstd2, sum, p.w, p.b, rows, C, eps);
        check_same("layernorm y", y, plain, bytes);
        check_same("layernorm rstd", rstd, rstd2, rows * 4);
        add_layernorm_fwd(a, plain, NULL, NULL, a, p.res, p.w, p.b, rows, C, eps);
        check_same("in place sum", a, sum, bytes);
        check_same("in place y", plain, y, bytes);

        add_rmsnorm_fwd(sum, y, rstd, p.x, p.res, p.w, rows, C, eps, 0);
        check_act_exact("sum", sum, want, n);
        rmsnorm_fwd(plain, rstd2, sum, p.w, rows, C, eps, 0);
        check_same("rmsnorm y", y, plain, bytes);
        check_same("rmsnorm rstd", rstd, rstd2, rows * 4);
        a = act_copy(p.res, n);
        add_rmsnorm_fwd(a, plain, NULL, p.x, a, p.w, rows, C, eps, 0);
        check_same("in place sum", a, sum, bytes);
        check_same("in place y", plain, y, bytes);
        add_rmsnorm_fwd(sum, y, NULL, p.x, p.res, p.w, rows, C, eps, 1);
        rmsnorm_fwd(plain, NULL, sum, p.w, rows, C, eps, 1);
        check_same("rmsnorm y of 1 + w", y, plain, bytes);
    }
}

static double *add_copy(const double *a, const double *b, int64_t n)
{
    double *y = NEW(double, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
    return y;
}

TEST(layernorm_bwd)
{
    for (int k = 0; k < SHAPES; k++) {
        Norm p = norm_new(shapes[k][0], shapes[k][1], false);
        const int64_t rows = p.rows, C = p.C, n = rows * C, bytes = n * (int64_t)sizeof(act_t);
        double *dxr = NEW(double, n), *dx_terms = NEW(double, n), *dxr_terms = NEW(double, n);
        double *dw_terms = NEW(double, C), *db_terms = NEW(double, C);
        layernorm_bwd_ref(p.dw_, p.db_, p.dx_, p.dy_, p.x_, p.w_, p.mean_, p.rstd_, NULL, rows, C);
        check_gradient("dx", norm_loss, &p, p.x_, p.dx_, n);
        check_gradient("dw", norm_loss, &p, p.w_, p.dw_, C);
        check_gradient("db", norm_loss, &p, p.b_, p.db_, C);
        layernorm_bwd_ref(p.dw_, p.db_, dxr, p.dy_, p.x_, p.w_, p.mean_, p.rstd_, p.res_, rows, C);
        norm_bwd_terms(dw_terms, db_terms, dx_terms, p.dy_, p.x_, p.w_, p.mean_, p.rstd_, NULL,
                       rows, C);
        norm_bwd_terms(dw_terms, db_terms, dxr_terms, p.dy_, p.x_, p.w_, p.mean_, p.rstd_, p.res_,
                       rows, C);

        float *mean = NEW(float, rows), *rstd = NEW(float, rows);
        layernorm_fwd(NEW(act_t, n), mean, rstd, p.x, p.w, p.b, rows, C, eps);
        act_t *dx = NEW(act_t, n), *frozen = NEW(act_t, n), *res = act_copy(p.res, n);
        float *dw = NEW(float, C), *db = NEW(float, C);
        void *ws = new_bytes(layernorm_bwd_workspace(C));
        layernorm_bwd(dw, db, dx, p.dy, p.x, p.w, mean, rstd, rows, C, 0, ws);
        check_act_terms("dx", dx, p.dx_, dx_terms, n, C);
        check_f32_terms("dw", dw, p.dw_, dw_terms, C, rows);
        check_f32_terms("db", db, p.db_, db_terms, C, rows);
        layernorm_dx(frozen, p.dy, p.x, p.w, mean, rstd, rows, C);
        check_same("frozen dx", frozen, dx, bytes);

        float *before = f32_normal(C, 0, 1);
        double *sum = add_copy(f32_double(before, C), p.dw_, C);
        memcpy(dw, before, (size_t)C * 4);
        layernorm_bwd_add(dw, db, res, p.dy, p.x, p.w, mean, rstd, res, rows, C, 1, ws);
        check_act_terms("res + dx in place", res, dxr, dxr_terms, n, C);
        check_f32_terms("dw added", dw, sum, dw_terms, C, rows);
        check_f32_terms("db twice", db, add_copy(p.db_, p.db_, C), db_terms, C, rows);
        layernorm_dx_add(frozen, p.dy, p.x, p.w, mean, rstd, p.res, rows, C);
        check_same("frozen res + dx", frozen, res, bytes);
    }
}

TEST(rmsnorm_bwd)
{
    for (int k = 0; k < 2 * SHAPES; k++) {
        const int plus = k / SHAPES;
        Norm p = rms_new(shapes[k % SHAPES][0], shapes[k % SHAPES][1], plus);
        const int64_t rows = p.rows, C = p.C, n = rows * C, bytes = n * (int64_t)sizeof(act_t);
        double *dxr = NEW(double, n), *dx_terms = NEW(double, n), *dxr_terms = NEW(double, n);
        double *dw_terms = NEW(double, C);
        rmsnorm_bwd_ref(p.dw_, p.dx_, p.dy_, p.x_, p.w_, p.rstd_, NULL, rows, C);
        check_gradient("dx", norm_loss, &p, p.x_, p.dx_, n);
        check_gradient("dw", norm_loss, &p, p.w_, p.dw_, C);
        rmsnorm_bwd_ref(p.dw_, dxr, p.dy_, p.x_, p.w_, p.rstd_, p.res_, rows, C);
        norm_bwd_terms(dw_terms, NULL, dx_terms, p.dy_, p.x_, p.w_, NULL, p.rstd_, NULL,
                       rows, C);
        norm_bwd_terms(dw_terms, NULL, dxr_terms, p.dy_, p.x_, p.w_, NULL, p.rstd_, p.res_,
                       rows, C);

        float *rstd = NEW(float, rows);
        rmsnorm_fwd(NEW(act_t, n), rstd, p.x, p.w, rows, C, eps, plus);
        act_t *dx = NEW(act_t, n), *frozen = NEW(act_t, n), *res = act_copy(p.res, n);
        float *dw = NEW(float, C);
        void *ws = new_bytes(rmsnorm_bwd_workspace(C));
        rmsnorm_bwd(dw, dx, p.dy, p.x, p.w, rstd, rows, C, plus, 0, ws);
        check_act_terms("dx", dx, p.dx_, dx_terms, n, C);
        (plus ? check_f32_terms : check_via_act_terms)("dw", dw, p.dw_, dw_terms, C, rows);
        rmsnorm_dx(frozen, p.dy, p.x, p.w, rstd, rows, C, plus);
        check_same("frozen dx", frozen, dx, bytes);

        rmsnorm_bwd_add(dw, res, p.dy, p.x, p.w, rstd, res, rows, C, plus, 1, ws);
        check_act_terms("res + dx in place", res, dxr, dxr_terms, n, C);
        check_via_act_terms("dw twice", dw, add_copy(p.dw_, p.dw_, C), dw_terms, C, rows);
        rmsnorm_dx_add(frozen, p.dy, p.x, p.w, rstd, p.res, rows, C, plus);
        check_same("frozen res + dx", frozen, res, bytes);
    }
}

/* Heads of q and k: rows, NH, KV, D */
static const int64_t heads[][4] = { { 1, 1, 1, 17 }, { 3, 2, 1, 8 }, { 40, 4, 2, 16 }, { 33, 3, 3, 64 } };

typedef struct {
    int64_t rows, NH, KV, D;
    double *x_, *w_, *y_, *rstd_, *dy_;
} Heads;

static double heads_loss(void *ctx)
{
    Heads *p = ctx;
    qk_norm_fwd_ref(p->y_, p->rstd_, p->x_, p->w_, p->rows, p->NH, p->KV, p->D, eps);
    return dot(p->y_, p->dy_, p->rows * (p->NH + 2 * p->KV) * p->D);
}

/* Also: v as it is; frozen weights; in the place of dy. */
TEST(qk_norm)
{
    const size_t n_heads = sizeof heads / sizeof heads[0];
    for (size_t k = 0; k < 2 * n_heads; k++) {
        const int plus = k >= n_heads;
        const int64_t *shape = heads[k % n_heads];
        const int64_t rows = shape[0], NH = shape[1], KV = shape[2], D = shape[3];
        const int64_t N = (NH + 2 * KV) * D, n = rows * N, normed = rows * (NH + KV);
        const int64_t bytes = n * (int64_t)sizeof(act_t);
        act_t *x = act_normal(n, 0.5, 2), *w = act_normal(2 * D, 1 - plus, 0.3), *y = NEW(act_t, n);
        act_t *dy = act_normal(n, 0, 1), *frozen = act_copy(dy, n);
        float *rstd = NEW(float, normed), *dw = f32_normal(2 * D, 0, 1), *more = NEW(float, 2 * D);
        Heads p = { rows, NH, KV, D, act_double(x, n), act_double(w, 2 * D), NEW(double, n),
                    NEW(double, normed), act_double(dy, n) };
        for (int64_t i = 0; i < 2 * D; i++)
            p.w_[i] += plus;
        heads_loss(&p);
        qk_norm_fwd(y, rstd, x, w, rows, NH, KV, D, eps, plus);
        check_act("y", y, p.y_, n, D);
        check_f32("rstd", rstd, p.rstd_, normed, D);
        act_t *eval = NEW(act_t, n);
        qk_norm_fwd(eval, NULL, x, w, rows, NH, KV, D, eps, plus);
        check_same("without statistics", eval, y, bytes);
        for (int64_t r = 0; r < rows; r++) {
            const int64_t at = r * N + (NH + KV) * D;
            check_same("v", y + at, x + at, KV * D * (int64_t)sizeof *y);
        }

        double *dw_ = NEW(double, 2 * D), *dx_ = NEW(double, n), *one = NEW(double, D);
        double *terms = NEW(double, n), *dw_terms = NEW(double, 2 * D), *before = f32_double(dw, 2 * D);
        qk_norm_bwd_ref(dw_, dx_, p.dy_, p.x_, p.w_, p.rstd_, one, rows, NH, KV, D);
        check_gradient("dx", heads_loss, &p, p.x_, dx_, n);
        check_gradient("dw", heads_loss, &p, p.w_, dw_, 2 * D);
        memset(dw_terms, 0, (size_t)(2 * D) * sizeof *dw_terms);
        for (int64_t i = 0; i < rows * (NH + 2 * KV); i++) {
            const int64_t h = i % (NH + 2 * KV), of = h < NH ? 0 : D, at = i * D;
            for (int64_t j = 0; j < D; j++)
                terms[at + j] = fabs(p.dy_[at + j]);
            if (h >= NH + KV)
                continue;
            norm_bwd_terms(one, NULL, terms + at, p.dy_ + at, p.x_ + at, p.w_ + of, NULL,
                           p.rstd_ + i / (NH + 2 * KV) * (NH + KV) + h, NULL, 1, D);
            for (int64_t j = 0; j < D; j++)
                dw_terms[of + j] += one[j];
        }
        void *ws = new_bytes(qk_norm_bwd_workspace(D));
        act_t *dx = act_copy(dy, n);
        qk_norm_bwd(more, dx, x, w, rstd, rows, NH, KV, D, plus, 0, ws);
        check_act_terms("dx", dx, dx_, terms, n, D);
        (plus ? check_f32_terms : check_via_act_terms)("dw", more, dw_, dw_terms, 2 * D, rows * NH);
        qk_norm_dx(frozen, x, w, rstd, rows, NH, KV, D, plus);
        check_same("frozen dx", frozen, dx, bytes);
        qk_norm_bwd(dw, dy, x, w, rstd, rows, NH, KV, D, plus, 1, ws);
        (plus ? check_f32_terms : check_via_act_terms)
            ("dw added", dw, add_copy(dw_, before, 2 * D), dw_terms, 2 * D, rows * NH);
    }
}

/* db adds integers: exact in any order, so it must be exact here. */
TEST(layernorm_bwd_integers)
{
    const int64_t rows = 500, C = 48, n = rows * C;
    act_t *x = act_normal(n, 0, 1), *dy = act_integers(n, 8), *w = act_normal(C, 1, 0);
    float *mean = NEW(float, rows), *rstd = NEW(float, rows), *dw = NEW(float, C);
    float *db = f32_integers(C, 1000);
    double *want = f32_double(db, C);
    layernorm_fwd(NEW(act_t, n), mean, rstd, x, w, w, rows, C, eps);
    layernorm_bwd_add(dw, db, NEW(act_t, n), dy, x, w, mean, rstd, NULL, rows, C, 1,
                      new_bytes(layernorm_bwd_workspace(C)));
    for (int64_t i = 0; i < n; i++)
        want[i % C] += act_load(dy + i);
    check_f32_exact("db", db, want, C);
}
