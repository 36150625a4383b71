/* b_kl.c -- kl.h. */
#include <math.h>

#include "../../kernels/cpu/kl.h"
#include "../../kernels/reference/kl.h"
#include "harness.h"
#include "terms.h"

typedef struct {
    int64_t rows, V, C, chunk;
} Shape;

static const Shape shapes[] = { { 1, 2, 1, 1 }, { 8, 5, 4, 8 }, { 12, 33, 8, 4 }, { 48, 100, 24, 16 },
                                { 24, 5003, 8, 12 } };

/* In double, of a case. */
typedef struct {
    Shape s;
    double scale, *x, *w, *from, *v, *coef, *weights, *loss, *of_from, *kl, *dx, *dw;
    int32_t *labels;
} Problem;

static void solve(const Problem *p, const double *coef, const double *weights, int beta)
{
    kl_ref(p->loss, p->of_from, p->kl, p->dx, p->dw, p->x, p->w, p->from, p->v, p->labels, coef, weights,
           p->scale, p->s.rows, p->s.V, p->s.C, beta);
}

static double total(void *ctx)
{
    const Problem *p = ctx;
    double sum = 0;
    kl_ref(p->loss, p->of_from, p->kl, NULL, NULL, p->x, p->w, p->from, p->v, p->labels, p->coef,
           p->weights, p->scale, p->s.rows, p->s.V, p->s.C, 0);
    for (int64_t i = 0; i < p->s.rows; i++)
        sum += p->scale * (p->coef[i] * p->loss[i] + p->kl[i]);
    return sum;
}

static Problem problem(const Shape *s, act_t *x, act_t *w, act_t *from, act_t *v, float *coef,
                       float *weights)
{
    Problem p = { *s, 0.37, act_double(x, s->rows * s->C), act_double(w, s->V * s->C),
                  act_double(from, s->rows * s->C), act_double(v, s->V * s->C),
                  f32_double(coef, s->rows), f32_double(weights, s->rows), NEW(double, s->rows),
                  NEW(double, s->rows), NEW(double, s->rows), NEW(double, s->rows * s->C),
                  NEW(double, s->V * s->C), tokens_random(s->rows, s->V) };
    for (int64_t i = 0; i < s->rows; i++)
        if (random_below(4) == 0)
            p.labels[i] = -1;
    return p;
}

static void run_case(const Shape *s, int beta)
{
    const int64_t nx = s->rows * s->C, nw = s->V * s->C, rows = s->rows;
    const double spread = 1 / sqrt((double)s->C);
    act_t *x = act_normal(nx, 0, spread), *w = act_normal(nw, 0, 1);
    act_t *from = act_normal(nx, 0, spread), *v = act_normal(nw, 0, 1);
    float *coef = f32_normal(rows, -0.5, 1), *weights = f32_normal(rows, 0.5, 1), scale = 0.37f;
    weights[rows / 2] = coef[rows - 1] = 0;
    Problem p = problem(s, x, w, from, v, coef, weights);
    for (int64_t i = 0; s->rows > s->chunk && i < s->chunk; i++)
        p.labels[i] = -1;                    /* a chunk without a target */
    p.scale = scale;
    float *loss = NEW(float, rows), *of_from = NEW(float, rows), *kl = NEW(float, rows);
    float *again = NEW(float, rows), *dw = beta ? f32_normal(nw, 0, 1) : NEW(float, nw);
    act_t *dx = NEW(act_t, nx), *dkl = NEW(act_t, nx), *both = NEW(act_t, nx);
    void *ws = new_bytes(kl_workspace(s->chunk, s->V, sizeof(act_t)));
    double *dx_terms = NEW(double, nx), *dw_terms = NEW(double, nw), *room = NEW(double, 4 * s->V);
    double *kl_terms_ = NEW(double, rows);
    double *one = NEW(double, rows), *none = NEW(double, rows);
    for (int64_t i = 0; i < rows; i++)
        one[i] = 1, none[i] = 0;
    Gemm logits = { .name = "logits", .m = s->chunk, .n = s->V, .k = s->C, .form = GEMM_NT, .out_f32 = 1 };
    Gemm mm_dx = { .name = "dx", .m = s->chunk, .n = s->C, .k = s->V, .form = GEMM_NN };
    Gemm mm_dw = { .name = "dw", .m = s->V, .n = s->C, .k = s->chunk, .form = GEMM_TN, .out_f32 = 1,
                   .beta = 1 };
    gemm_init(&logits), gemm_init(&mm_dx), gemm_init(&mm_dw);
    const int exact = sizeof(act_t) == 2;
    const int64_t depth = s->C + s->V;

    kl_fwd(loss, of_from, kl, x, w, from, v, p.labels, weights, rows, s->V, s->C, s->chunk, &logits, ws);
    solve(&p, one, none, 0);
    check_f32("loss", loss, p.loss, rows, depth);
    check_f32("of the reference", of_from, p.of_from, rows, depth);
    kl_fwd_dx(again, of_from, kl, dx, dkl, x, w, from, v, p.labels, &scale, weights, rows, s->V, s->C,
              s->chunk, &logits, &mm_dx, ws);
    check_same("loss with gradients", again, loss, rows * (int64_t)sizeof(float));
    kl_terms(kl_terms_, dx_terms, dw_terms, room, p.x, p.w, p.from, p.v, p.labels, one, none, p.scale,
             rows, s->V, s->C, exact);
    check_act_terms("dx of the loss", dx, p.dx, dx_terms, nx, depth);
    solve(&p, none, p.weights, 0);
    kl_terms(kl_terms_, dx_terms, dw_terms, room, p.x, p.w, p.from, p.v, p.labels, none, p.weights,
             p.scale, rows, s->V, s->C, exact);
    check_f32_terms("divergence", kl, p.kl, kl_terms_, rows, depth);
    check_act_terms("dx of the divergence", dkl, p.dx, dx_terms, nx, depth);
    p.dw = f32_double(dw, nw);
    solve(&p, p.coef, p.weights, beta);
    kl_terms(kl_terms_, dx_terms, dw_terms, room, p.x, p.w, p.from, p.v, p.labels, p.coef, p.weights,
             p.scale, rows, s->V, s->C, exact);
    kl_bwd(both, dw, x, w, from, v, p.labels, &scale, coef, weights, rows, s->V, s->C, s->chunk, beta,
           &logits, &mm_dx, &mm_dw, ws);
    check_act_terms("dx of both", both, p.dx, dx_terms, nx, depth);
    check_via_act_terms("dw of both", dw, p.dw, dw_terms, nw, rows + s->C);
    for (int64_t i = 0; i < rows; i++)
        check_true("nothing without a target",
                   p.labels[i] >= 0 || (loss[i] == 0 && kl[i] == 0 && of_from[i] == 0 &&
                                        act_load(both + i * s->C) == 0));
    /* the reference itself: nothing diverges */
    kl_fwd_dx(loss, of_from, kl, dx, dkl, x, w, x, w, p.labels, &scale, weights, rows, s->V, s->C,
              s->chunk, &logits, &mm_dx, ws);
    for (int64_t i = 0; i < rows; i++)
        check_true("no divergence from itself", kl[i] == 0 && loss[i] == of_from[i]);
    for (int64_t i = 0; i < nx; i++)         /* but for the rounding of a product */
        check_true("nor a slope", fabs(act_load(dkl + i)) <= 0x1p-18 * scale);
}

TEST(kl)
{
    gemm_setup();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int beta = 0; beta < 2; beta++)
            run_case(&shapes[i], beta);
}

TEST(kl_gradient)
{
    const Shape s = { 6, 11, 5, 6 };
    const int64_t nx = s.rows * s.C, nw = s.V * s.C;
    Problem p = problem(&s, act_normal(nx, 0, 1), act_normal(nw, 0, 1), act_normal(nx, 0, 1),
                        act_normal(nw, 0, 1), f32_normal(s.rows, 0, 1), f32_normal(s.rows, 0, 1));
    solve(&p, p.coef, p.weights, 0);
    check_gradient("dx", total, &p, p.x, p.dx, nx);
    check_gradient("dw", total, &p, p.w, p.dw, nw);
}
