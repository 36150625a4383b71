/* a_linear_rows.c -- linear_rows.h and linear_norm.h: the bits of a product and of what follows it,
 * one after the other. */
#ifndef ACT_BF16
#include "../../kernels/cpu/activation.h"
#include "../../kernels/cpu/linear.h"
#include "../../kernels/cpu/linear_norm.h"
#include "../../kernels/cpu/linear_rows.h"
#include "gemm_choose.h"
#include "harness.h"

/* Operands of the calls of linear_rows.h; other (R, 2 N): input of an activation, or residual. */
typedef struct {
    int64_t R, N, K;
    act_t *x, *w, *b, *other, *product, *want, *got;
    float *db, *want_db;
    void *ws;
} RowsCase;

/* Of dropout: a probability, rows of a sequence. */
static const uint32_t noise[4] = { 17, 5, 99, 3 };
static const float DROP = 0.25f;
enum { SITE = 3, LENGTH = 8 };

/* Sets mm and runs the product alone. */
static void rows_product(RowsCase *t, Gemm *mm, GemmForm form, int bias)
{
    *mm = (Gemm){ .name = "rows", .m = t->R, .n = t->N, .k = t->K, .form = form, .bias = bias };
    gemm_init(mm);
    gemm_run(mm, t->product, t->x, t->w, t->b, t->ws);
}

static void rows_forward(RowsCase *t)
{
    const int64_t n = t->R * t->N, bytes = n * (int64_t)sizeof(act_t);
    act_t *z = NEW(act_t, n);
    Gemm mm;
    rows_product(t, &mm, GEMM_NT, 1);
    gelu_fwd(t->want, t->product, n);
    linear_gelu_fwd(t->got, z, t->x, t->w, t->b, &mm, t->ws);
    check_same("product before gelu", z, t->product, bytes);
    check_same("gelu", t->got, t->want, bytes);
    gelu_erf_fwd(t->want, t->product, n);
    linear_gelu_erf_fwd(t->got, z, t->x, t->w, t->b, &mm, t->ws);
    check_same("product before gelu_erf", z, t->product, bytes);
    check_same("gelu_erf", t->got, t->want, bytes);
    gelu_erf_dropout_fwd(t->want, t->product, noise, SITE, DROP, t->R, LENGTH, t->N);
    linear_gelu_erf_dropout_fwd(t->got, z, t->x, t->w, t->b, noise, SITE, DROP, LENGTH, &mm, t->ws);
    check_same("product before gelu_erf and dropout", z, t->product, bytes);
    check_same("gelu_erf and dropout", t->got, t->want, bytes);
    rows_product(t, &mm, GEMM_NT, 0);
    swiglu_fwd(t->want, t->product, t->R, t->N / 2);
    linear_swiglu_fwd(t->got, z, t->x, t->w, &mm, t->ws);
    check_same("product before swiglu", z, t->product, bytes);
    check_same("swiglu", t->got, t->want, bytes / 2);
}

static void rows_backward(RowsCase *t)
{
    const int64_t n = t->R * t->N, bytes = n * (int64_t)sizeof(act_t);
    Gemm mm;
    rows_product(t, &mm, GEMM_NN, 0);
    add_fwd(t->want, t->product, t->other, n);
    linear_dx_add(t->got, t->x, t->w, t->other, &mm, t->ws);
    check_same("dx and a residual gradient", t->got, t->want, bytes);
    swiglu_bwd(t->want, t->product, t->other, t->R, t->N);
    linear_dx_swiglu_bwd(t->got, t->x, t->w, t->other, &mm, t->ws);
    check_same("swiglu backward", t->got, t->want, 2 * bytes);
    for (int erf = 0; erf < 2 && t->R % REDUCE_PARTS == 0; erf++)
        for (int beta = 0; beta < 2; beta++) {
            memcpy(t->want_db, t->db, sizeof *t->db * (size_t)t->N);
            (erf ? gelu_erf_bwd_bias : gelu_bwd_bias)(t->want_db, t->want, t->product, t->other,
                                                      t->R, t->N, beta, t->ws);
            (erf ? linear_dx_gelu_erf_bwd_bias : linear_dx_gelu_bwd_bias)(
                t->db, t->got, t->x, t->w, t->other, &mm, beta, t->ws);
            check_same("gelu backward", t->got, t->want, bytes);
            check_same("its column sums", t->db, t->want_db, t->N * 4);
        }
}

/* ---- residual sums and norms ----------------------------------------------------------------- */

/* Results of one call and of the calls one after the other. */
typedef struct {
    act_t *sum, *y;
    float *mean, *rstd;
} NormResults;

static NormResults norm_results(const RowsCase *t)
{
    return (NormResults){ NEW(act_t, t->R * t->N), NEW(act_t, t->R * t->N), NEW(float, t->R),
                          NEW(float, t->R) };
}

static void check_norms(const char *what, const RowsCase *t, const NormResults *got,
                        const NormResults *want, bool mean, bool norm)
{
    const int64_t bytes = t->R * t->N * (int64_t)sizeof(act_t);
    check_same(what, got->sum, want->sum, bytes);
    if (norm)
        check_same(what, got->y, want->y, bytes);
    if (norm)
        check_same(what, got->rstd, want->rstd, 4 * t->R);
    if (mean)
        check_same(what, got->mean, want->mean, 4 * t->R);
}

/* t->other: the residual; the first rows of t->w: weights of the norm. */
static void norms_forward(RowsCase *t)
{
    enum { PLUS = 1 };
    const float eps = 1e-5f;
    const int64_t n = t->R * t->N;
    NormResults got = norm_results(t), want = norm_results(t);
    act_t *dropped = NEW(act_t, n);
    Gemm mm;
    for (int bias = 0; bias < 2; bias++) {
        const wt_t *b = bias ? t->b : NULL;
        rows_product(t, &mm, GEMM_NT, bias);
        add_fwd(want.sum, t->other, t->product, n);
        linear_add_fwd(got.sum, t->other, t->x, t->w, b, &mm, t->ws);
        check_norms("residual sum", t, &got, &want, false, false);
        add_rmsnorm_fwd(want.sum, want.y, want.rstd, t->other, t->product, t->b, t->R, t->N, eps,
                        PLUS);
        linear_add_rmsnorm_fwd(got.sum, got.y, got.rstd, t->other, t->x, t->w, b, t->b, eps, PLUS,
                               &mm, t->ws);
        check_norms("RMSNorm", t, &got, &want, false, true);
        add_layernorm_fwd(want.sum, want.y, want.mean, want.rstd, t->other, t->product, t->b, t->w,
                          t->R, t->N, eps);
        linear_add_layernorm_fwd(got.sum, got.y, got.mean, got.rstd, t->other, t->x, t->w, b, t->b,
                                 t->w, eps, &mm, t->ws);
        check_norms("LayerNorm", t, &got, &want, true, true);
        linear_add_layernorm_fwd(got.sum, got.y, NULL, NULL, t->other, t->x, t->w, b, t->b, t->w,
                                 eps, &mm, t->ws);
        check_norms("LayerNorm without a backward pass", t, &got, &want, true, true);
        dropout_fwd(dropped, t->product, noise, SITE, DROP, t->R, LENGTH, t->N);
        add_fwd(want.sum, t->other, dropped, n);
        linear_dropout_add_fwd(got.sum, t->other, t->x, t->w, b, noise, SITE, DROP, LENGTH, &mm,
                               t->ws);
        check_norms("residual sum after dropout", t, &got, &want, false, false);
        layernorm_fwd(want.y, want.mean, want.rstd, want.sum, t->b, t->w, t->R, t->N, eps);
        linear_dropout_add_layernorm_fwd(got.sum, got.y, got.mean, got.rstd, t->other, t->x, t->w,
                                         b, noise, SITE, DROP, LENGTH, t->b, t->w, eps, &mm, t->ws);
        check_norms("LayerNorm after dropout", t, &got, &want, true, true);
        memcpy(got.sum, t->other, (size_t)n * sizeof *got.sum);
        linear_dropout_add_layernorm_fwd(got.sum, got.y, got.mean, got.rstd, got.sum, t->x, t->w,
                                         b, noise, SITE, DROP, LENGTH, t->b, t->w, eps, &mm, t->ws);
        check_norms("in place of the residual", t, &got, &want, true, true);
    }
}

/* Operands and results of gradients; column sums (3, N): dw and db of a norm, sums of dx. */
typedef struct {
    act_t *dx, *dy;
    float *start, *sums;
    float *dw, *db, *bias;       /* in sums */
} NormGradients;

static NormGradients norm_gradients(const RowsCase *t, float *start)
{
    const int64_t N = t->N;
    float *sums = f32_copy(start, 3 * N);
    return (NormGradients){ NEW(act_t, t->R * N), NEW(act_t, t->R * N), start, sums, sums, sums + N,
                            sums + 2 * N };
}

/* The same results; then sums as at the start. */
static void check_gradients(const char *what, const RowsCase *t, NormGradients *got,
                            NormGradients *want)
{
    const size_t bytes = sizeof(float) * 3 * (size_t)t->N;
    check_same(what, got->dx, want->dx, t->R * t->N * (int64_t)sizeof(act_t));
    check_same(what, got->sums, want->sums, (int64_t)bytes);
    memcpy(got->sums, got->start, bytes);
    memcpy(want->sums, want->start, bytes);
}

static void norms_backward(RowsCase *t, int beta)
{
    const int64_t R = t->R, N = t->N;
    const act_t *res = t->other, *x = t->other + R * N, *w = t->b;
    const float *mean = f32_normal(R, 0, 0.1), *rstd = f32_normal(R, 1, 0.1);
    float *start = f32_normal(3 * N, 0, 1);
    NormGradients got = norm_gradients(t, start), want = norm_gradients(t, start);
    Gemm mm;
    rows_product(t, &mm, GEMM_NN, 0);
    rmsnorm_bwd_add(want.dw, want.dx, t->product, x, w, rstd, res, R, N, 0, beta, t->ws);
    linear_dx_rmsnorm_bwd_add(got.dw, got.dx, t->x, t->w, x, w, rstd, res, 0, &mm, beta, t->ws);
    check_gradients("RMSNorm backward", t, &got, &want);

    layernorm_bwd_add(want.dw, want.db, want.dx, t->product, x, w, mean, rstd, res, R, N, beta,
                      t->ws);
    linear_dx_layernorm_bwd(got.dw, got.db, got.dx, t->x, t->w, NULL, x, w, mean, rstd, res, &mm,
                            beta, t->ws);
    check_gradients("LayerNorm backward", t, &got, &want);
    layernorm_bwd_add(want.dw, want.db, want.dx, t->product, x, w, mean, rstd, res, R, N, beta,
                      t->ws);
    bias_grad(want.bias, want.dx, R, N, !beta, t->ws);
    linear_dx_layernorm_bwd_bias(got.bias, got.dw, got.db, got.dx, t->x, t->w, NULL, x, w, mean,
                                 rstd, res, &mm, beta, !beta, t->ws);
    check_gradients("LayerNorm backward and column sums", t, &got, &want);

    add_fwd(want.dy, t->product, res, R * N);
    layernorm_bwd(want.dw, want.db, want.dx, want.dy, x, w, mean, rstd, R, N, beta, t->ws);
    linear_dx_layernorm_bwd(got.dw, got.db, got.dx, t->x, t->w, res, x, w, mean, rstd, NULL, &mm,
                            beta, t->ws);
    check_gradients("LayerNorm backward of a sum", t, &got, &want);
    layernorm_bwd(want.dw, want.db, want.dx, want.dy, x, w, mean, rstd, R, N, beta, t->ws);
    bias_grad(want.bias, want.dx, R, N, !beta, t->ws);
    memcpy(got.dx, res, sizeof *res * (size_t)(R * N));
    linear_dx_layernorm_bwd_bias(got.bias, got.dw, got.db, got.dx, t->x, t->w, got.dx, x, w, mean,
                                 rstd, NULL, &mm, beta, !beta, t->ws);
    check_gradients("in place, and column sums", t, &got, &want);
}

/* Tails of every tile, two
 * depths, one thread and several. */
TEST(linear_rows)
{
    static const int64_t shapes[][3] = { { 544, 40, 24 }, { 515, 96, 300 }, { 96, 512, 256 } };
    const int all = omp_get_max_threads();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t R = shapes[i][0], N = shapes[i][1], K = shapes[i][2];
        RowsCase t = { R, N, K, act_normal(R * K, 0, 1), act_normal(N * K, 0, 0.1),
                       act_normal(N, 0, 1), act_normal(2 * R * N, 0, 2), NEW(act_t, R * N),
                       NEW(act_t, 2 * R * N), NEW(act_t, 2 * R * N), f32_integers(N, 9),
                       NEW(float, N), new_bytes(linear_layernorm_bwd_bias_workspace(N)) };
        for (int j = 0; choose(j); j++)
            for (int threads = 1; threads <= 3; threads += 2) {
                omp_set_num_threads(threads);
                rows_forward(&t);
                rows_backward(&t);
                norms_forward(&t);
                for (int beta = 0; beta < 2 && R % REDUCE_PARTS == 0; beta++)
                    norms_backward(&t, beta);
            }
    }
    omp_set_num_threads(all);
}
#endif
