/* b_ffn.c -- ffn.h and ffn_lora.h: layers in tiles against the same kernels over all rows, bit for bit; gradients
 * against double sums, those of adapters against those of one tile. */
#include <omp.h>
#include <string.h>

#include "../../kernels/cpu/ffn.h"
#include "../../kernels/cpu/ffn_lora.h"
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
    gemm_setup();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int beta = 0; beta < 2; beta++)
            run_case(&cases[i], beta != (int)(i % 2), beta);
}

enum { RANK = 4 };

/* Inputs of a layer with adapters, and the results of one way of computing it. */
typedef struct {
    const act_t *x, *dy;
    FfnWeights w;
    FfnAdapters a;
} Inputs;

typedef struct {
    act_t *y, *dx;
    float *grad[4];
} Results;

static Results adapted(const Case *c, const Inputs *in, const int64_t size[4], const float *const *before,
                       int64_t tile, int beta)
{
    const int64_t rows = c->rows, C = c->C, F = c->F, G = ffn_wide_(c->activation, F), gates = G / F;
    const bool first = in->a.up_a, second = in->a.down_a;
    Results r = { .y = NEW(act_t, rows * C), .dx = NEW(act_t, rows * C) };
    for (int i = 0; i < 4; i++)
        r.grad[i] = beta ? f32_copy(before[i], size[i]) : NEW(float, size[i]);
    Gemm up = { .name = "up", .m = tile, .n = G, .k = C, .form = GEMM_NT };
    Gemm down = { .name = "down", .m = tile, .n = C, .k = F, .form = GEMM_NT };
    Gemm down_dx = { .name = "down_dx", .m = tile, .n = F, .k = C, .form = GEMM_NN };
    Gemm up_dx = { .name = "up_dx", .m = tile, .n = C, .k = G, .form = GEMM_NN };
    Lora of_up[2] = { { .name = "up", .rows = tile, .in = C, .out = G, .rank = RANK, .parts = gates, .scale = 0.5f,
                        .col = { 0, F }, .width = { F, F } } };
    Lora of_down[2] = { { .name = "down", .rows = tile, .in = F, .out = C, .rank = RANK, .parts = 1,
                          .scale = 0.5f, .width = { C } } };
    of_up[1] = of_up[0], of_down[1] = of_down[0];
    of_up[1].beta = of_down[1].beta = 1;
    Gemm *const products[] = { &up, &down, &down_dx, &up_dx };
    for (int i = 0; i < 4; i++)
        gemm_init(products[i]);
    for (int i = 0; i < 2; i++)
        lora_init(&of_up[i]), lora_init(&of_down[i]);
    Lora *const u = first ? of_up : NULL, *const d = second ? of_down : NULL;
    void *ws = new_bytes(ffn_lora_workspace(tile, G, gates, C, RANK, first ? gates : 0, second, sizeof(act_t)));
    ffn_lora_fwd(r.y, in->x, &in->w, &in->a, c->activation, rows, C, F, tile, &up, &down, u, d, ws);
    ffn_lora_bwd(r.dx, in->dy, in->x, &in->w, &in->a,
                 &(FfnAdapterGrads){ r.grad[0], r.grad[1], r.grad[2], r.grad[3] }, c->activation, rows, C, F, tile,
                 beta, &up, &down_dx, &up_dx, u, d, first ? of_up + 1 : NULL, second ? of_down + 1 : NULL, ws);
    return r;
}

static void check_adapted(const Case *c, bool first, bool second, int beta)
{
    const int64_t rows = c->rows, C = c->C, F = c->F, G = ffn_wide_(c->activation, F), gates = G / F;
    const int64_t size[4] = { gates * RANK * C, G * RANK, RANK * F, C * RANK };
    act_t *adapter[4];
    const float *before[4];
    for (int i = 0; i < 4; i++)
        adapter[i] = act_normal(size[i], 0, 0.3), before[i] = f32_normal(size[i], 0, 1);
    const Inputs in = { act_normal(rows * C, 0, 1), act_normal(rows * C, 0, 1),
                        { .up = act_normal(G * C, 0, 0.2), .down = act_normal(C * F, 0, 0.2) },
                        { first ? adapter[0] : NULL, adapter[1], second ? adapter[2] : NULL, adapter[3] } };
    const Results one = adapted(c, &in, size, before, rows, beta), many = adapted(c, &in, size, before, c->tile, beta);
    check_same("y with adapters", many.y, one.y, rows * C * (int64_t)sizeof *one.y);
    check_same("dx with adapters", many.dx, one.dx, rows * C * (int64_t)sizeof *one.dx);
    for (int i = first ? 0 : 2; i < (second ? 4 : 2); i++)
        check_f32("gradient of an adapter", many.grad[i], f32_double(one.grad[i], size[i]), size[i], rows);
}

TEST(ffn_lora)
{
    gemm_setup();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_adapted(&cases[i], true, true, i % 2);
        check_adapted(&cases[i], i % 2, !(i % 2), 0);
    }
}
