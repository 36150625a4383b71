/* c_norm.cpp -- layernorm.cuh, rmsnorm.cuh and qk_norm.cuh. */
// same: the kernels are one source in fp32 and bf16
#include "../../kernels/cuda/dropout.cuh"
#include "../../kernels/cuda/layernorm.cuh"
#include "../../kernels/cuda/qk_norm.cuh"
#include "../../kernels/cuda/rmsnorm.cuh"
#include "harness.h"
#include "unwatched.h"
#include "variants.h"

/* Single elements and vectors; one warp to all of a block a row; several rows a block, and so many
 * that a block walks them; rows wider than what a block holds. Where runs are dear, long rows are walked in
 * layernorm_bwd_integers alone. */
static const int64_t shapes[][2] = {
    { 1, 3 },    { 1, 17 },   { 3, 7 },    { 33, 64 },    { 257, 129 }, { 2500, 24 },
    { FULL ? 40 : 9, 768 }, { 5, 1544 }, { 2, 6016 }, { FULL ? 260 : 9, 1101 },
    { FULL ? 130 : 7, 2051 }, { 2, 16392 }, { 70, 8 }, { 70, 16 },
};

/* One problem: inputs, their double copies and double results. */
struct Norm {
    int64_t rows, C, n, bytes;
    bool rms;
    act_t *x, *dy, *res;
    wt_t *w, *b;
    double *x_, *dy_, *res_, *w_, *b_, *y_, *mean_, *rstd_, *dw_, *db_, *dx_, *dxr_;
    double *dw_terms, *db_terms, *dx_terms, *dxr_terms;      // see terms.h
    float *mean, *rstd;                  // the device's own, for the backward
};

static const float eps = 1e-5f;
static constexpr int PARTS = DEFAULT_norm_parts;

static double norm_loss(Norm &p)
{
    if (p.rms)
        rmsnorm_fwd_ref(p.y_, p.rstd_, p.x_, p.w_, p.rows, p.C, eps);
    else
        layernorm_fwd_ref(p.y_, p.mean_, p.rstd_, p.x_, p.w_, p.b_, p.rows, p.C, eps);
    return dot(p.y_, p.dy_, p.n);
}

static Norm norm_new(const int64_t shape[2], bool rms)
{
    Norm p = {};
    p.rows = shape[0], p.C = shape[1], p.n = p.rows * p.C, p.rms = rms;
    p.bytes = p.n * (int64_t)sizeof(act_t);
    p.x = act_normal(p.n, 0.5, 2), p.x_ = act_double(p.x, p.n);
    p.dy = act_normal(p.n, 0, 1), p.dy_ = act_double(p.dy, p.n);
    p.res = act_normal(p.n, 0, 1), p.res_ = act_double(p.res, p.n);
    p.w = act_normal(p.C, 1, 0.3), p.w_ = act_double(p.w, p.C);
    p.b = act_normal(p.C, 0, 1), p.b_ = act_double(p.b, p.C);
    p.y_ = HOST(double, p.n);
    p.mean_ = HOST(double, p.rows);
    p.rstd_ = HOST(double, p.rows);
    norm_loss(p);
    p.mean = NEW(float, p.rows);
    p.rstd = NEW(float, p.rows);
    return p;
}

/* Both forms; plus: weights around 0, which the reference has as 1 + w. Where runs are dear, of short rows. */
template <typename CASE> static void every_rms(CASE of_one)
{
    for (int plus = 0; plus < 2; plus++)
        for (auto &shape : shapes) {
            if (plus && !FULL && shape[0] * shape[1] > 3000)
                continue;
            Norm p = norm_new(shape, true);
            if (plus) {
                for (int64_t i = 0; i < p.C; i++)
                    p.w_[i] -= 1;
                p.w = act_from(p.w_, p.C);
                p.w_ = act_double(p.w, p.C);
                for (int64_t i = 0; i < p.C; i++)
                    p.w_[i] += 1;
                norm_loss(p);
            }
            of_one(p, plus);
        }
}

TEST(layernorm_fwd)
{
    for (auto &shape : shapes) {
        Norm p = norm_new(shape, false);
        act_t *y = NEW(act_t, p.n), *eval = NEW(act_t, p.n);
        run([&] {
            layernorm_fwd(y, p.mean, p.rstd, p.x, p.w, p.b, p.rows, p.C, eps, stream);
            layernorm_fwd(eval, NULL, NULL, p.x, p.w, p.b, p.rows, p.C, eps, stream);
        });
        double *y_terms = HOST(double, p.n), *mean_terms = HOST(double, p.rows);
        layernorm_fwd_terms(y_terms, mean_terms, p.x_, p.w_, p.b_, p.mean_, p.rstd_, p.rows, p.C);
        check_act_terms("y", y, p.y_, y_terms, p.n, p.C);
        check_f32_terms("mean", p.mean, p.mean_, mean_terms, p.rows, p.C);
        check_f32("rstd", p.rstd, p.rstd_, p.rows, p.C);
        check_same("without statistics", eval, y, p.bytes);
    }
}

TEST(rmsnorm_fwd)
{
    every_rms([](Norm &p, int plus) {
        act_t *y = NEW(act_t, p.n), *eval = NEW(act_t, p.n);
        run([&] {
            rmsnorm_fwd(y, p.rstd, p.x, p.w, p.rows, p.C, eps, plus, stream);
            rmsnorm_fwd(eval, NULL, p.x, p.w, p.rows, p.C, eps, plus, stream);
        });
        check_act("y", y, p.y_, p.n, p.C);
        check_f32("rstd", p.rstd, p.rstd_, p.rows, p.C);
        check_same("without statistics", eval, y, p.bytes);
    });
}

/* wide (rows, ld) has y (rows, C) in its first columns and after them what was there before. */
static void check_wide(const char *what, const act_t *wide, const act_t *y, const double *before,
                       const Norm &p, int64_t ld)
{
    double *want = HOST(double, p.rows * ld), *y_ = act_double(y, p.n);
    for (int64_t i = 0; i < p.rows * ld; i++)
        want[i] = i % ld < p.C ? y_[i / ld * p.C + i % ld] : before[i];
    check_act_exact(what, wide, want, p.rows * ld);
}

/* Rows of y with room after them are those without, bit for bit, and the room is left alone. */
TEST(norm_wide_rows)
{
    for (auto &shape : shapes) {
        Norm p = norm_new(shape, false);
        const int64_t rows = p.rows, C = p.C, ld = C + 3 * ACT_VECTOR;
        act_t *wide = act_normal(rows * ld, 0, 1), *y = NEW(act_t, p.n), *sum = NEW(act_t, p.n);
        double *before = act_double(wide, rows * ld);
        run([&] {
            layernorm_fwd(y, NULL, NULL, p.x, p.w, p.b, rows, C, eps, stream);
            layernorm_fwd(wide, NULL, NULL, p.x, p.w, p.b, rows, C, eps, stream, ld);
        });
        check_wide("layernorm", wide, y, before, p, ld);
        run([&] {
            add_layernorm_fwd(sum, y, NULL, NULL, p.x, p.res, p.w, p.b, rows, C, eps, stream);
            add_layernorm_fwd(sum, wide, NULL, NULL, p.x, p.res, p.w, p.b, rows, C, eps, stream,
                              ld);
        });
        check_wide("add_layernorm", wide, y, before, p, ld);
        run([&] {
            rmsnorm_fwd(y, NULL, p.x, p.w, rows, C, eps, 0, stream);
            rmsnorm_fwd(wide, NULL, p.x, p.w, rows, C, eps, 0, stream, ld);
        });
        check_wide("rmsnorm", wide, y, before, p, ld);
        run([&] {
            add_rmsnorm_fwd(sum, y, NULL, p.x, p.res, p.w, rows, C, eps, 0, stream);
            add_rmsnorm_fwd(sum, wide, NULL, p.x, p.res, p.w, rows, C, eps, 0, stream, ld);
        });
        check_wide("add_rmsnorm", wide, y, before, p, ld);
    }
}

/* The cast order of the Llama family: round, times weight, round; of Gemma: times 1 + weight, round. */
TEST(rmsnorm_cast_order)
{
    const int64_t C = 256;
    act_t *x = act_normal(C, 0, 1), *w = act_normal(C, 1, 0.3), *y = NEW(act_t, C), *z = NEW(act_t, C);
    float *rstd = NEW(float, 1);
    run([&] {
        rmsnorm_fwd(y, rstd, x, w, 1, C, eps, 0, stream);
        rmsnorm_fwd(z, rstd, x, w, 1, C, eps, 1, stream);
    });
    double *x_ = act_double(x, C), *w_ = act_double(w, C), *want = HOST(double, C);
    const float rs = *download(rstd, 1);
    for (int64_t i = 0; i < C; i++)
        want[i] = act_round((float)x_[i] * rs) * (float)w_[i];
    check_act_exact("y", y, want, C);
    for (int64_t i = 0; i < C; i++)
        want[i] = (float)x_[i] * rs * (1.0f + (float)w_[i]);
    check_act_exact("y of 1 + w", z, want, C);
}

/* The fused addition is the addition followed by the norm, bit for bit, also in place. */
TEST(add_norm_fwd)
{
    for (auto &shape : shapes) {
        Norm p = norm_new(shape, false);
        const int64_t rows = p.rows, C = p.C;
        double *want = HOST(double, p.n);
        for (int64_t i = 0; i < p.n; i++)
            want[i] = p.x_[i] + p.res_[i];
        act_t *sum = NEW(act_t, p.n), *y = NEW(act_t, p.n), *plain = NEW(act_t, p.n);
        act_t *a = act_copy(p.x, p.n), *again = NEW(act_t, p.n);
        float *rstd = NEW(float, rows), *mean = NEW(float, rows);
        run([&] {
            add_layernorm_fwd(sum, y, p.mean, p.rstd, p.x, p.res, p.w, p.b, rows, C, eps, stream);
            layernorm_fwd(plain, mean, rstd, sum, p.w, p.b, rows, C, eps, stream);
            add_layernorm_fwd(a, again, NULL, NULL, a, p.res, p.w, p.b, rows, C, eps, stream);
        });
        check_act_exact("sum", sum, want, p.n);
        check_same("layernorm y", y, plain, p.bytes);
        check_same("layernorm mean", p.mean, mean, rows * 4);
        check_same("layernorm rstd", p.rstd, rstd, rows * 4);
        check_same("in place sum", a, sum, p.bytes);
        check_same("in place y", again, y, p.bytes);

        a = act_copy(p.res, p.n);
        run([&] {
            add_rmsnorm_fwd(sum, y, p.rstd, p.x, p.res, p.w, rows, C, eps, 0, stream);
            rmsnorm_fwd(plain, rstd, sum, p.w, rows, C, eps, 0, stream);
            add_rmsnorm_fwd(a, again, NULL, p.x, a, p.w, rows, C, eps, 0, stream);
        });
        check_act_exact("sum", sum, want, p.n);
        check_same("rmsnorm y", y, plain, p.bytes);
        check_same("rmsnorm rstd", p.rstd, rstd, rows * 4);
        check_same("in place sum", a, sum, p.bytes);
        check_same("in place y", again, y, p.bytes);
    }
}

/* Dropout before it is the same as dropout alone, bit for bit, also in place. */
TEST(dropout_add_norm_fwd)
{
    constexpr float p_dropped = 0.3f;
    const uint32_t key[4] = { random_u32(), random_u32(), 7, 40 };
    const uint32_t *noise = upload(key, 4);
    for (auto &shape : shapes) {
        const int64_t T = shape[0] % 7 ? shape[0] : 7;
        if (shape[1] % 8)
            continue;
        Norm p = norm_new(shape, false);
        const int64_t rows = p.rows, C = p.C;
        act_t *kept = NEW(act_t, p.n), *want_sum = NEW(act_t, p.n), *want = NEW(act_t, p.n);
        act_t *r = act_copy(p.res, p.n), *y = NEW(act_t, p.n);
        float *rstd = NEW(float, rows), *mean = NEW(float, rows);
        run([&] {
            dropout_fwd(kept, p.res, noise, 5, p_dropped, rows, T, C, stream);
            add_layernorm_fwd(want_sum, want, mean, rstd, p.x, kept, p.w, p.b, rows, C, eps, stream);
            dropout_add_layernorm_fwd(r, y, p.mean, p.rstd, p.x, r, noise, 5, p_dropped, T, p.w, p.b,
                                      rows, C, eps, stream);
        });
        check_same("sum", r, want_sum, p.bytes);
        check_same("y", y, want, p.bytes);
        check_same("mean", p.mean, mean, rows * 4);
        check_same("rstd", p.rstd, rstd, rows * 4);
    }
}

static double *add_copy(const double *a, const double *b, int64_t n)
{
    double *y = HOST(double, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
    return y;
}

/* The reference, checked by finite differences, and its terms; dxr_ has the residual gradient. */
static void norm_gradients(Norm &p)
{
    p.dw_ = HOST(double, p.C);
    p.db_ = HOST(double, p.C);
    p.dx_ = HOST(double, p.n);
    if (p.rms)
        rmsnorm_bwd_ref(p.dw_, p.dx_, p.dy_, p.x_, p.w_, p.rstd_, NULL, p.rows, p.C);
    else
        layernorm_bwd_ref(p.dw_, p.db_, p.dx_, p.dy_, p.x_, p.w_, p.mean_, p.rstd_, NULL, p.rows,
                          p.C);
    p.dxr_ = add_copy(p.dx_, p.res_, p.n);
    p.dw_terms = HOST(double, p.C);
    p.db_terms = p.rms ? NULL : HOST(double, p.C);
    p.dx_terms = HOST(double, p.n);
    p.dxr_terms = HOST(double, p.n);
    norm_bwd_terms(p.dw_terms, p.db_terms, p.dx_terms, p.dy_, p.x_, p.w_, p.rms ? NULL : p.mean_,
                   p.rstd_, NULL, p.rows, p.C);
    norm_bwd_terms(p.dw_terms, p.db_terms, p.dxr_terms, p.dy_, p.x_, p.w_, p.rms ? NULL : p.mean_,
                   p.rstd_, p.res_, p.rows, p.C);
}

/* The double results themselves, by finite differences. */
static void norm_differences(Norm &p)
{
    if (p.n > 3000)
        return;
    check_gradient("dx", [&] { return norm_loss(p); }, p.x_, p.dx_, p.n);
    check_gradient("dw", [&] { return norm_loss(p); }, p.w_, p.dw_, p.C);
    if (!p.rms)
        check_gradient("db", [&] { return norm_loss(p); }, p.b_, p.db_, p.C);
}

TEST(layernorm_bwd)
{
    for (auto &shape : shapes) {
        Norm p = norm_new(shape, false);
        const int64_t rows = p.rows, C = p.C;
        norm_gradients(p);
        norm_differences(p);
        act_t *y = NEW(act_t, p.n), *dx = NEW(act_t, p.n), *frozen = NEW(act_t, p.n);
        act_t *frozen_res = NEW(act_t, p.n), *res = act_copy(p.res, p.n), *dy = act_copy(p.dy, p.n);
        float *dw = NEW(float, C), *db = NEW(float, C), *more = f32_normal(C, 0, 1);
        double *sum = add_copy(f32_double(more, C), p.dw_, C);
        void *ws = new_bytes(layernorm_bwd_cuda_workspace(C));
        run([&] {
            layernorm_fwd(y, p.mean, p.rstd, p.x, p.w, p.b, rows, C, eps, stream);
            layernorm_bwd<PARTS>(dw, db, dx, p.dy, p.x, p.w, p.mean, p.rstd, rows, C, 0, ws,
                                 stream);
            layernorm_dx(frozen, p.dy, p.x, p.w, p.mean, p.rstd, rows, C, stream);
            layernorm_dx_add(frozen_res, p.dy, p.x, p.w, p.mean, p.rstd, p.res, rows, C, stream);
        });
        check_act_terms("dx", dx, p.dx_, p.dx_terms, p.n, C);
        check_f32_terms("dw", dw, p.dw_, p.dw_terms, C, rows);
        check_f32_terms("db", db, p.db_, p.db_terms, C, rows);
        check_same("frozen dx", frozen, dx, p.bytes);
        run([&] {
            layernorm_bwd_add<PARTS>(more, db, res, p.dy, p.x, p.w, p.mean, p.rstd, res, rows, C, 1,
                                     ws, stream);
            layernorm_dx(dy, dy, p.x, p.w, p.mean, p.rstd, rows, C, stream);
        });
        check_act_terms("res + dx in place", res, p.dxr_, p.dxr_terms, p.n, C);
        check_f32_terms("dw added", more, sum, p.dw_terms, C, rows);
        check_f32_terms("db twice", db, add_copy(p.db_, p.db_, C), p.db_terms, C, rows);
        check_same("frozen res + dx", frozen_res, res, p.bytes);
        check_same("dx in the place of dy", dy, dx, p.bytes);
    }
}

TEST(rmsnorm_bwd)
{
    every_rms([](Norm &p, int plus) {
        const int64_t rows = p.rows, C = p.C;
        norm_gradients(p);
        norm_differences(p);
        act_t *y = NEW(act_t, p.n), *dx = NEW(act_t, p.n), *frozen = NEW(act_t, p.n);
        act_t *frozen_res = NEW(act_t, p.n), *res = act_copy(p.res, p.n), *dy = act_copy(p.dy, p.n);
        float *dw = NEW(float, C), *more = f32_normal(C, 0, 1);
        double *sum = add_copy(f32_double(more, C), p.dw_, C);
        void *ws = new_bytes(rmsnorm_bwd_cuda_workspace(C));
        run([&] {
            rmsnorm_fwd(y, p.rstd, p.x, p.w, rows, C, eps, plus, stream);
            rmsnorm_bwd<PARTS>(dw, dx, p.dy, p.x, p.w, p.rstd, rows, C, plus, 0, ws, stream);
            rmsnorm_dx(frozen, p.dy, p.x, p.w, p.rstd, rows, C, plus, stream);
            rmsnorm_dx_add(frozen_res, p.dy, p.x, p.w, p.rstd, p.res, rows, C, plus, stream);
        });
        check_act_terms("dx", dx, p.dx_, p.dx_terms, p.n, C);
        (plus ? check_f32_terms : check_via_act_terms)("dw", dw, p.dw_, p.dw_terms, C, rows);
        check_same("frozen dx", frozen, dx, p.bytes);
        run([&] {
            rmsnorm_bwd_add<PARTS>(more, res, p.dy, p.x, p.w, p.rstd, res, rows, C, plus, 1, ws,
                                   stream);
            rmsnorm_dx(dy, dy, p.x, p.w, p.rstd, rows, C, plus, stream);
        });
        check_act_terms("res + dx in place", res, p.dxr_, p.dxr_terms, p.n, C);
        check_via_act_terms("dw added", more, sum, p.dw_terms, C, rows);
        check_same("frozen res + dx", frozen_res, res, p.bytes);
        check_same("dx in the place of dy", dy, dx, p.bytes);
    });
}

/* Heads of q and k: rows, NH, KV, D. Vectors and single elements; heads of several warps; fewer rows than
 * parts and more than a block has at a time. Also: rmsnorm's values, head by head; v as it is. */
TEST(qk_norm)
{
    static const int64_t heads[][4] = {
        { 1, 1, 1, 17 }, { 3, 2, 1, 8 }, { 40, 4, 2, 16 }, { 9, 6, 2, 128 }, { 2, 2, 2, 135 },
        { 3, 2, 1, 1024 }, { FULL ? 900 : 300, 3, 3, 24 },
    };
    for (size_t k = 0; k < 2 * sizeof heads / sizeof heads[0]; k++) {
        const int plus = (int)k % 2;
        const int64_t *shape = heads[k / 2];
        const int64_t rows = shape[0], NH = shape[1], KV = shape[2], D = shape[3];
        const int64_t N = (NH + 2 * KV) * D, n = rows * N, normed = rows * (NH + KV);
        const int64_t bytes = n * (int64_t)sizeof(act_t), last = (rows - 1) * N;
        act_t *x = act_normal(n, 0.5, 2), *w = act_normal(2 * D, 1 - plus, 0.3), *y = NEW(act_t, n);
        act_t *dx = act_normal(n, 0, 1), *frozen = act_copy(dx, n), *twice = act_copy(dx, n);
        act_t *eval = NEW(act_t, n), *one = NEW(act_t, (NH + KV) * D);
        float *rstd = NEW(float, normed), *dw = NEW(float, 2 * D), *more = f32_normal(2 * D, 0, 1);
        double *x_ = act_double(x, n), *w_ = act_double(w, 2 * D), *dy_ = act_double(dx, n);
        double *y_ = HOST(double, n), *rstd_ = HOST(double, normed), *dw_ = HOST(double, 2 * D);
        double *dx_ = HOST(double, n), *head = HOST(double, D), *terms = HOST(double, n);
        double *dw_terms = HOST(double, 2 * D), *before = f32_double(more, 2 * D);
        if (plus && rows * N > 3000)
            continue;
        for (int64_t i = 0; i < 2 * D; i++)
            w_[i] += plus;
        auto loss = [&] {
            qk_norm_fwd_ref(y_, rstd_, x_, w_, rows, NH, KV, D, eps);
            return dot(y_, dy_, n);
        };
        loss();
        qk_norm_bwd_ref(dw_, dx_, dy_, x_, w_, rstd_, head, rows, NH, KV, D);
        if (n <= 3000) {
            check_gradient("dx", loss, x_, dx_, n);
            check_gradient("dw", loss, w_, dw_, 2 * D);
            loss();
        }
        memset(dw_terms, 0, (size_t)(2 * D) * sizeof *dw_terms);
        for (int64_t i = 0; i < rows * (NH + 2 * KV); i++) {
            const int64_t h = i % (NH + 2 * KV), of = h < NH ? 0 : D, at = i * D;
            for (int64_t j = 0; j < D; j++)
                terms[at + j] = fabs(dy_[at + j]);
            if (h >= NH + KV)
                continue;
            norm_bwd_terms(head, NULL, terms + at, dy_ + at, x_ + at, w_ + of, NULL,
                           rstd_ + i / (NH + 2 * KV) * (NH + KV) + h, NULL, 1, D);
            for (int64_t j = 0; j < D; j++)
                dw_terms[of + j] += head[j];
        }
        void *ws = new_bytes(qk_norm_bwd_cuda_workspace(D));
        run([&] {
            qk_norm_fwd(y, rstd, x, w, rows, NH, KV, D, eps, plus, stream);
            qk_norm_fwd(eval, NULL, x, w, rows, NH, KV, D, eps, plus, stream);
            rmsnorm_fwd(one, NULL, x + last, w, NH, D, eps, plus, stream);
            rmsnorm_fwd(one + NH * D, NULL, x + last + NH * D, w + D, KV, D, eps, plus, stream);
            qk_norm_bwd(dw, dx, x, w, rstd, rows, NH, KV, D, plus, 0, ws, stream);
            qk_norm_dx(frozen, x, w, rstd, rows, NH, KV, D, plus, stream);
            qk_norm_bwd(more, twice, x, w, rstd, rows, NH, KV, D, plus, 1, ws, stream);
        });
        check_act("y", y, y_, n, D);
        check_f32("rstd", rstd, rstd_, normed, D);
        check_same("without statistics", eval, y, bytes);
        check_act("heads by rmsnorm", one, y_ + last, (NH + KV) * D, D);
        check_act_terms("dx", dx, dx_, terms, n, D);
        (plus ? check_f32_terms : check_via_act_terms)("dw", dw, dw_, dw_terms, 2 * D, rows * NH);
        check_same("frozen dx", frozen, dx, bytes);
        (plus ? check_f32_terms : check_via_act_terms)
            ("dw added", more, add_copy(dw_, before, 2 * D), dw_terms, 2 * D, rows * NH);
    }
}

#if FULL || defined ACT_BF16        /* what is added up is float in all types */
/* Blocks that the rows are divided among, as many as gen tune may choose: more than there are rows,
 * and so few that each walks. */
TEST(norm_parts)
{
    static const int64_t walked[][2] = {
        { 3, 7 }, { 2500, 24 },
#if FULL
        { 257, 129 }, { 40, 768 }, { 66, 2051 },
#endif
    };
    for (auto &shape : walked) {
        Norm l = norm_new(shape, false), r = norm_new(shape, true);
        const int64_t rows = l.rows, C = l.C, n = l.n;
        norm_gradients(l);
        norm_gradients(r);
        act_t *y = NEW(act_t, n);
        void *ws = new_bytes(layernorm_bwd_cuda_workspace(C));
        run([&] {
            layernorm_fwd(y, l.mean, l.rstd, l.x, l.w, l.b, rows, C, eps, stream);
            rmsnorm_fwd(y, r.rstd, r.x, r.w, rows, C, eps, 0, stream);
        });
        every_norm_parts([&](auto parts) {
            constexpr int MANY = decltype(parts)::value;
            if (C == 2051 && MANY >= rows)
                return;
            act_t *dx = NEW(act_t, n), *rdx = NEW(act_t, n);
            float *dw = NEW(float, C), *db = NEW(float, C), *rdw = NEW(float, C);
            run([&] {
                layernorm_bwd<MANY>(dw, db, dx, l.dy, l.x, l.w, l.mean, l.rstd, rows, C, 0, ws,
                                    stream);
                rmsnorm_bwd_add<MANY>(rdw, rdx, r.dy, r.x, r.w, r.rstd, r.res, rows, C, 0, 0, ws,
                                      stream);
            });
            check_act_terms("dx", dx, l.dx_, l.dx_terms, n, C);
            check_f32_terms("dw", dw, l.dw_, l.dw_terms, C, rows);
            check_f32_terms("db", db, l.db_, l.db_terms, C, rows);
            check_act_terms("res + dx of RMSNorm", rdx, r.dxr_, r.dxr_terms, n, C);
            check_via_act_terms("dw of RMSNorm", rdw, r.dw_, r.dw_terms, C, rows);
        });
    }
}
#endif

/* db adds integers: exact in any order, so it must be exact here. */
TEST(layernorm_bwd_integers)
{
    for (int64_t C : { 48, 47, 2053, 8200 }) {
        const int64_t rows = C > 2053 ? 3 : C > 100 ? 140 : FULL ? 3000 : 1300, n = rows * C;
        act_t *x = act_normal(n, 0, 1), *dy = act_integers(n, 8), *w = act_normal(C, 1, 0);
        act_t *dx = NEW(act_t, n), *y = NEW(act_t, n);
        float *mean = NEW(float, rows), *rstd = NEW(float, rows), *dw = f32_normal(C, 0, 1);
        float *db = f32_integers(C, 1000);
        double *want = f32_double(db, C), *dy_ = act_double(dy, n);
        void *ws = new_bytes(layernorm_bwd_cuda_workspace(C));
        run([&] {
            layernorm_fwd(y, mean, rstd, x, w, w, rows, C, eps, stream);
            layernorm_bwd<PARTS>(dw, db, dx, dy, x, w, mean, rstd, rows, C, 1, ws, stream);
        });
        for (int64_t i = 0; i < n; i++)
            want[i % C] += dy_[i];
        check_f32_exact("db", db, want, C);
    }
}

BENCH(norm)
{
    const int64_t rows = 8192;
    for (int64_t C : { 768, 2048, 4096, 8192 }) {
        const int64_t n = rows * C, bytes = n * (int64_t)sizeof(act_t);
        act_t *x = act_normal(C, 0, 1), *a = NEW(act_t, n), *r = NEW(act_t, n), *y = NEW(act_t, n);
        act_t *sum = NEW(act_t, n);
        float *mean = NEW(float, rows), *rstd = NEW(float, rows), *dw = NEW(float, C);
        void *ws = new_bytes(layernorm_bwd_cuda_workspace(C));
        fill_bytes(a, 0x3c, bytes);
        fill_bytes(r, 0x3b, bytes);
        auto report = [&](const char *what, double arrays, const std::function<void()> &work) {
            char line[64];
            snprintf(line, sizeof line, "%s %lld x %lld", what, (long long)rows, (long long)C);
            bench_report(line, bench_time(work), arrays * (double)bytes, 0);
        };
        report("layernorm_fwd", 2, [&] {
            layernorm_fwd(y, mean, rstd, a, x, x, rows, C, eps, stream);
        });
        report("add_layernorm_fwd", 4, [&] {
            add_layernorm_fwd(sum, y, mean, rstd, a, r, x, x, rows, C, eps, stream);
        });
        report("layernorm_bwd_add", 4, [&] {
            layernorm_bwd_add<PARTS>(dw, dw, y, a, sum, x, mean, rstd, r, rows, C, 0, ws, stream);
        });
        report("rmsnorm_fwd", 2, [&] { rmsnorm_fwd(y, rstd, a, x, rows, C, eps, 0, stream); });
        report("add_rmsnorm_fwd", 4, [&] {
            add_rmsnorm_fwd(sum, y, rstd, a, r, x, rows, C, eps, 0, stream);
        });
        report("rmsnorm_bwd_add", 4, [&] {
            rmsnorm_bwd_add<PARTS>(dw, y, a, sum, x, rstd, r, rows, C, 0, 0, ws, stream);
        });
        report("rmsnorm_dx_add", 4, [&] {
            rmsnorm_dx_add(y, a, sum, x, rstd, r, rows, C, 0, stream);
        });
    }
}
