/* c_kl.cpp -- kl.cuh. */
#include "../../kernels/cuda/kl.cuh"
#include "harness.h"
#include "unwatched.h"
#include "../../kernels/reference/kl.h"

struct Shape {
    int64_t rows, V, C, chunk;
};

/* Rows of a warp with and without whole vectors; rows of a block, with one and several rounds. */
static const Shape shapes[] = {
    { 1, 2, 1, 1 }, { 8, 5, 4, 8 }, { 12, 130, 8, 4 }, { 6, 1025, 8, 3 }, { 4, 6151, 8, 2 },
};

static void run_case(const Shape &s, int beta)
{
    const int64_t rows = s.rows, nx = rows * s.C, nw = s.V * s.C, depth = s.C + s.V;
    const double spread = 1 / sqrt((double)s.C);
    const int64_t wide = ce_width(s.V), nwide = wide * s.C;      /* as emitted: rows from V on are 0 */
    const float scale_ = 37;             /* clear of fp16's smallest numbers */
    const int exact = sizeof(act_t) == 2;
    act_t *x = act_normal(nx, 0, spread), *w = padded(act_normal(nw, 0, 1), nw, nwide);
    act_t *from = act_normal(nx, 0, spread), *v = padded(act_normal(nw, 0, 1), nw, nwide);
    act_t *dx = NEW(act_t, nx), *dkl = NEW(act_t, nx), *both = NEW(act_t, nx), *same = NEW(act_t, nx);
    float *coef = f32_normal(rows, -0.5, 1), *weights = f32_normal(rows, 0.5, 1);
    float *loss = NEW(float, rows), *of_from = NEW(float, rows), *kl = NEW(float, rows);
    float *alone = NEW(float, rows), *none = NEW(float, rows), *own = NEW(float, rows);
    float *before = f32_normal(nw, 0, 1), *dw = beta ? padded(before, nw, nwide) : NEW(float, nwide);
    float *scale = upload(&scale_, 1);
    int32_t *labels_ = HOST(int32_t, rows);
    for (int64_t i = 0; i < rows; i++)
        labels_[i] = random_below(4) == 0 || (rows > s.chunk && i < s.chunk) ? -1
                                                                             : (int32_t)random_below(s.V);
    int32_t *labels = upload(labels_, rows);
    void *ws = new_bytes(kl_cuda_workspace(s.chunk, s.V, sizeof(act_t)));
    Gemm logits = { .name = "logits", .m = s.chunk, .n = wide, .k = s.C, .form = GEMM_NT, .out_f32 = 1 };
    Gemm mm_dx = { .name = "dx", .m = s.chunk, .n = s.C, .k = wide, .form = GEMM_NN };
    Gemm mm_dw = { .name = "dw", .m = wide, .n = s.C, .k = s.chunk, .form = GEMM_TN, .out_f32 = 1, .beta = 1 };
    gemm_init(&logits), gemm_init(&mm_dx), gemm_init(&mm_dw);
    double *x_ = act_double(x, nx), *w_ = act_double(w, nw), *from_ = act_double(from, nx);
    double *v_ = act_double(v, nw), *coef_ = f32_double(coef, rows), *weights_ = f32_double(weights, rows);
    double *one = HOST(double, rows), *zero = HOST(double, rows), *loss_ = HOST(double, rows);
    double *of_from_ = HOST(double, rows), *kl_ = HOST(double, rows), *dx_ = HOST(double, nx);
    double *dw_ = f32_double(before, nw), *room = HOST(double, 4 * s.V);
    double *dx_terms = HOST(double, nx), *dw_terms = HOST(double, nw), *kl_terms_ = HOST(double, rows);
    for (int64_t i = 0; i < rows; i++)
        one[i] = 1, zero[i] = 0;
    run([&] {
        kl_fwd(alone, none, kl, x, w, from, v, labels, weights, rows, s.V, s.C, s.chunk, &logits, ws,
               stream);
        kl_fwd_dx(loss, of_from, kl, dx, dkl, x, w, from, v, labels, scale, weights, rows, s.V, s.C,
                  s.chunk, &logits, &mm_dx, ws, stream);
        kl_bwd(both, dw, x, w, from, v, labels, scale, coef, weights, rows, s.V, s.C, s.chunk, beta,
               &logits, &mm_dx, &mm_dw, ws, stream);
    });
    auto solve = [&](double *gradient, const double *a, const double *b) {
        kl_ref(loss_, of_from_, kl_, dx_, gradient, x_, w_, from_, v_, labels_, a, b, scale_, rows, s.V,
               s.C, beta);
        kl_terms(kl_terms_, dx_terms, dw_terms, room, x_, w_, from_, v_, labels_, a, b, scale_, rows, s.V,
                 s.C, exact);
    };
    solve(NULL, one, zero);
    check_f32("loss", loss, loss_, rows, depth);
    check_f32("of the reference", of_from, of_from_, rows, depth);
    check_same("loss alone", alone, loss, rows * 4);
    check_same("of the reference alone", none, of_from, rows * 4);
    check_act_terms("dx of the loss", dx, dx_, dx_terms, nx, depth);
    solve(NULL, zero, weights_);
    check_f32_terms("divergence", kl, kl_, kl_terms_, rows, depth);
    check_act_terms("dx of the divergence", dkl, dx_, dx_terms, nx, depth);
    solve(dw_, coef_, weights_);
    check_act_terms("dx of both", both, dx_, dx_terms, nx, depth);
    check_via_act_terms("dw of both", dw, dw_, dw_terms, nw, rows + s.C);
    /* the reference itself: nothing diverges */
    run([&] {
        kl_fwd_dx(loss, of_from, own, dx, same, x, w, x, w, labels, scale, weights, rows, s.V, s.C,
                  s.chunk, &logits, &mm_dx, ws, stream);
    });
    const float *got = download(own, rows), *got_loss = download(alone, rows);
    const double *slope = act_double(same, nx), *of_both = act_double(both, nx);
    for (int64_t i = 0; i < rows; i++)
        check_true("no divergence from itself", got[i] == 0);
    for (int64_t i = 0; i < nx; i++)         /* but for the rounding of a product */
        check_true("nor a slope", fabs(slope[i]) <= 0x1p-18 * scale_);
    for (int64_t i = 0; i < rows; i++)
        check_true("nothing without a target",
                   labels_[i] >= 0 || (got_loss[i] == 0 && of_both[i * s.C] == 0));
}

TEST(kl)
{
    gemm_setup();
    for (const Shape &s : shapes)
        for (int beta = 0; beta < 2; beta++)
            run_case(s, beta);
}
