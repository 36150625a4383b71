/* b_ffn.c -- ffn.h: layers in tiles against the same kernels over all rows, bit for bit, and their gradients against
 * double sums. */
#include <omp.h>
#include <string.h>

#include "../../kernels/cpu/ffn.h"
#include "../../kernels/reference/linear.h"
#include "harness.h"

typedef struct {
    FfnActivation activation;
    int64_t rows, C, F, tile;
} Case;

static const Case cases[] = {
    { FFN_GELU, 24, 40, 56, 8 },     { FFN_GELU_ERF, 12, 16, 32, 4 }, { FFN_RELU, 6, 8, 24, 1 },
    { FFN_SWIGLU, 30, 32, 48, 10 },  { FFN_GEGLU, 21, 24, 40, 7 },    { FFN_SWIGLU, 16, 16, 16, 16 },
};

/* dw (m, n) = or += a^T b of a (rows, m), b (rows, n) */
static double *product(const float *before, const act_t *a, const act_t *b, int64_t rows, int64_t m, int64_t n)
{
    double *dw = NEW(double, m * n), *x = act_double(a, rows * m), *y = act_double(b, rows * n);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            dw[i * n + j] = before ? before[i * n + j] : 0;
            for (int64_t r = 0; r < rows; r++)
                dw[i * n + j] += x[r * m + i] * y[r * n + j];
        }
    return dw;
}

static void check_frozen(const Case *c, const act_t *dx, const act_t *dy, const act_t *x, const FfnWeights *w,
                         Gemm *up, Gemm *down_dx, Gemm *up_dx, void *ws)
{
    act_t *got = NEW(act_t, c->rows * c->C);
    ffn_bwd(got, dy, x, w, &(FfnGrads){ 0 }, c->activation, c->rows, c->C, c->F, c->tile, 0, up, NULL, down_dx, NULL,
            up_dx, ws);
    check_same("dx of frozen weights", got, dx, c->rows * c->C * (int64_t)sizeof *dx);
}

static void run_case(const Case *c, int bias, int beta)
{
    const int64_t rows = c->rows, C = c->C, F = c->F, tile = c->tile, G = ffn_wide_(c->activation, F);
    act_t *x = act_normal(rows * C, 0, 1), *dy = act_normal(rows * C, 0, 1), *up = act_normal(G * C, 0, 0.2);
    act_t *down = act_normal(C * F, 0, 0.2), *up_b = act_normal(G, 0, 1), *down_b = act_normal(C, 0, 1);
    const FfnWeights w = { up, down, bias ? up_b : NULL, bias ? down_b : NULL };
    void *ws = new_bytes(ffn_workspace(tile, G, G / F, sizeof(act_t)));
    void *room = new_bytes(ffn_products_workspace(G));

    /* all rows at once */
    Gemm all_up = { .name = "up", .m = rows, .n = G, .k = C, .form = GEMM_NT, .bias = bias };
    Gemm all_down = { .name = "down", .m = rows, .n = C, .k = F, .form = GEMM_NT, .bias = bias };
    Gemm all_down_dx = { .name = "down_dx", .m = rows, .n = F, .k = C, .form = GEMM_NN };
    Gemm all_up_dx = { .name = "up_dx", .m = rows, .n = C, .k = G, .form = GEMM_NN };
    Gemm *const alls[] = { &all_up, &all_down, &all_down_dx, &all_up_dx };
    const FfnTile t = { NEW(act_t, rows * G), NEW(act_t, rows * F) };
    act_t *y = NEW(act_t, rows * C), *dx = NEW(act_t, rows * C);
    for (int i = 0; i < 4; i++)
        gemm_init(alls[i]);
    gemm_run(&all_up, t.wide, x, up, w.up_bias, room);
    ffn_act_(t, c->activation, rows, F);
    gemm_run(&all_down, y, t.act, down, w.down_bias, room);
    act_t *act = act_copy(t.act, rows * F);
    gemm_run(&all_down_dx, t.act, dy, down, NULL, room);
    ffn_act_bwd_(t, c->activation, rows, F);
    gemm_run(&all_up_dx, dx, t.wide, up, NULL, room);

    /* in tiles */
    Gemm mm_up = all_up, mm_down = all_down, mm_down_dx = all_down_dx, mm_up_dx = all_up_dx;
    Gemm mm_down_dw = { .name = "down_dw", .m = C, .n = F, .k = tile, .form = GEMM_TN, .out_f32 = 1, .beta = 1 };
    Gemm mm_up_dw = { .name = "up_dw", .m = G, .n = C, .k = tile, .form = GEMM_TN, .out_f32 = 1, .beta = 1 };
    Gemm *const tiles[] = { &mm_up, &mm_down, &mm_down_dx, &mm_up_dx, &mm_down_dw, &mm_up_dw };
    for (int i = 0; i < 6; i++) {
        if (i < 4)
            *tiles[i] = (Gemm){ .name = alls[i]->name, .m = tile, .n = alls[i]->n, .k = alls[i]->k,
                                .form = alls[i]->form, .bias = alls[i]->bias };
        gemm_init(tiles[i]);
    }
    act_t *got = act_copy(x, rows * C);
    ffn_fwd(got, got, &w, c->activation, rows, C, F, tile, &mm_up, &mm_down, ws);
    check_same("y, in the place of x", got, y, rows * C * (int64_t)sizeof *y);
    float *dup = beta ? f32_normal(G * C, 0, 1) : NEW(float, G * C);
    float *ddown = beta ? f32_normal(C * F, 0, 1) : NEW(float, C * F);
    float *dup_b = beta ? f32_normal(G, 0, 1) : NEW(float, G);
    double *want_up = product(beta ? dup : NULL, t.wide, x, rows, G, C);
    double *want_down = product(beta ? ddown : NULL, dy, act, rows, C, F);
    double *want_b = beta ? f32_double(dup_b, G) : NEW(double, G);
    bias_grad_ref(want_b, act_double(t.wide, rows * G), rows, G, beta);
    const FfnGrads d = { dup, ddown, bias ? dup_b : NULL };
    got = act_copy(dy, rows * C);
    ffn_bwd(got, got, x, &w, &d, c->activation, rows, C, F, tile, beta, &mm_up, &mm_down_dw, &mm_down_dx, &mm_up_dw,
            &mm_up_dx, ws);
    check_same("dx, in the place of dy", got, dx, rows * C * (int64_t)sizeof *dx);
    check_f32("dup", dup, want_up, G * C, rows);
    check_f32("ddown", ddown, want_down, C * F, rows);
    if (bias)
        check_f32("dup_b", dup_b, want_b, G, rows);
    check_frozen(c, dx, dy, x, &w, &mm_up, &mm_down_dx, &mm_up_dx, ws);
}

TEST(ffn)
{
    harness_library();
    omp_set_num_threads(2);
    gemm_setup();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int beta = 0; beta < 2; beta++)
            run_case(&cases[i], beta != (int)(i % 2), beta);
}
