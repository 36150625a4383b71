/* b_pointwise.c -- pointwise.h and activation.h. */
#include "../../kernels/cpu/activation.h"
#include "../../kernels/cpu/pointwise.h"
#include "../../kernels/reference/activation.h"
#include "../../kernels/reference/pointwise.h"
#include "harness.h"
#include "terms.h"

enum { SIZES = 5 };
static const int64_t sizes[SIZES] = { 17, 31, 64, 1003, 20000 };

/* y = f(x) weighted by dy, in double, for the finite differences. */
typedef struct {
    int64_t rows, F;
    double *x, *y, *dy;
} Pointwise;

static double gelu_loss(void *ctx)
{
    Pointwise *p = ctx;
    gelu_fwd_ref(p->y, p->x, p->F);
    return dot(p->y, p->dy, p->F);
}

static double gelu_erf_loss(void *ctx)
{
    Pointwise *p = ctx;
    gelu_erf_fwd_ref(p->y, p->x, p->F);
    return dot(p->y, p->dy, p->F);
}

static double relu_loss(void *ctx)
{
    Pointwise *p = ctx;
    relu_fwd_ref(p->y, p->x, p->F);
    return dot(p->y, p->dy, p->F);
}

static double swiglu_loss(void *ctx)
{
    Pointwise *p = ctx;
    swiglu_fwd_ref(p->y, p->x, p->rows, p->F);
    return dot(p->y, p->dy, p->rows * p->F);
}

static double geglu_loss(void *ctx)
{
    Pointwise *p = ctx;
    geglu_fwd_ref(p->y, p->x, p->rows, p->F);
    return dot(p->y, p->dy, p->rows * p->F);
}

TEST(scale_fwd)
{
    for (int k = 0; k < SIZES; k++) {
        const int64_t n = sizes[k];
        act_t *x = act_normal(n, 0, 1), *y = NEW(act_t, n);
        double *want = act_double(x, n);
        for (int64_t i = 0; i < n; i++)
            want[i] = (float)want[i] * 55.5f;
        scale_fwd(y, x, 55.5f, n);
        check_act_exact("y", y, want, n);
        scale_fwd(x, x, 55.5f, n);
        check_same("in place", x, y, n * (int64_t)sizeof *y);
    }
}

TEST(add_fwd)
{
    for (int k = 0; k < SIZES; k++) {
        const int64_t n = sizes[k];
        act_t *a = act_normal(n, 0, 1), *b = act_normal(n, 0, 3), *y = NEW(act_t, n);
        double *want = act_double(a, n), *b_ = act_double(b, n);
        for (int64_t i = 0; i < n; i++)
            want[i] += b_[i];
        add_fwd(y, a, b, n);
        check_act_exact("y", y, want, n);
        add_fwd(a, a, b, n);
        check_same("in place", a, y, n * (int64_t)sizeof *y);
    }
}

typedef struct {
    double (*loss)(void *ctx);
    void (*bwd_ref)(double *dx, const double *dy, const double *x, int64_t n);
    void (*fwd)(act_t *y, const act_t *x, int64_t n);
    void (*bwd)(act_t *dx, const act_t *dy, const act_t *x, int64_t n);
} Activation;

static void check_activation(Activation f)
{
    for (int k = 0; k < SIZES; k++) {
        const int64_t n = sizes[k];
        act_t *x = act_normal(n, 0, 3), *dy = act_normal(n, 0, 1), *y = NEW(act_t, n);
        double *want = NEW(double, n), *grad = NEW(double, n);
        for (int64_t i = 0; i < n; i++)         /* no kink within a step of finite differences */
            if (act_load(x + i) * act_load(x + i) < 1e-4f)
                act_store(x + i, 1);
        Pointwise p = { 1, n, act_double(x, n), want, act_double(dy, n) };
        f.bwd_ref(grad, p.dy, p.x, n);
        check_gradient("dx", f.loss, &p, p.x, grad, n);
        f.loss(&p);
        f.fwd(y, x, n);
        check_act("y", y, want, n, 1);
        f.bwd(y, dy, x, n);
        check_act("dx", y, grad, n, 1);
        f.bwd(dy, dy, x, n);
        check_same("in place", dy, y, n * (int64_t)sizeof *y);
    }
}

TEST(cast_fwd)
{
    for (int k = 0; k < SIZES; k++) {
        const int64_t n = sizes[k];
        float *x = f32_normal(n, 0, 1);
        act_t *y = NEW(act_t, n);
        cast_fwd(y, x, n);
        check_act_exact("y", y, f32_double(x, n), n);
    }
}

TEST(gelu)
{
    check_activation((Activation){ gelu_loss, gelu_bwd_ref, gelu_fwd, gelu_bwd });
}

TEST(gelu_erf)
{
    check_activation((Activation){ gelu_erf_loss, gelu_erf_bwd_ref, gelu_erf_fwd, gelu_erf_bwd });
}

TEST(relu)
{
    check_activation((Activation){ relu_loss, relu_bwd_ref, relu_fwd, relu_bwd });
}

/* torch 2.15.0 in float64: gelu(x, approximate="tanh") and silu(x); x erfc(-x / sqrt 2) / 2 by libm. */
TEST(activation_known)
{
    static const double rows[][4] = {       /* x, gelu, silu, gelu_erf */
        { -30, 0, -2.8072868906517896e-12, 0 },
        { -3, -0.0036373920817729943, -0.14227761953270035, -0.004049694094890287 },
        { -1, -0.15880800939172324, -0.2689414213699951, -0.15865525393145707 }, { 0, 0, 0, 0 },
        { 0.5, 0.34571400982514394, 0.3112296656009273, 0.34573123063700656 },
        { 1, 0.8411919906082768, 0.7310585786300049, 0.8413447460685429 },
        { 2, 1.954597694087775, 1.7615941559557646, 1.9544997361036416 },
        { 30, 30, 29.999999999997197, 30 },
    };
    enum { N = sizeof rows / sizeof rows[0] };
    act_t *x = NEW(act_t, N), *gu = NEW(act_t, 2 * N), *y = NEW(act_t, N);
    double gelu[N], silu[N], gelu_erf[N];
    for (int i = 0; i < N; i++) {
        act_store(x + i, (float)rows[i][0]);
        act_store(gu + i, (float)rows[i][0]);
        act_store(gu + N + i, 1);
        gelu[i] = rows[i][1];
        silu[i] = rows[i][2];
        gelu_erf[i] = rows[i][3];
    }
    gelu_fwd(y, x, N);
    check_act("gelu", y, gelu, N, 1);
    gelu_erf_fwd(y, x, N);
    check_act("gelu_erf", y, gelu_erf, N, 1);
    swiglu_fwd(y, gu, 1, N);
    check_act("silu", y, silu, N, 1);
    geglu_fwd(y, gu, 1, N);
    check_act("gelu of a gate", y, gelu, N, 1);
}

typedef struct {
    double (*loss)(void *ctx);
    void (*bwd_ref)(double *dgu, const double *dh, const double *gu, int64_t rows, int64_t F);
    void (*fwd)(act_t *h, const act_t *gu, int64_t rows, int64_t F);
    void (*bwd)(act_t *dgu, const act_t *dh, const act_t *gu, int64_t rows, int64_t F);
    void (*terms)(double *dgu, const double *dh, const double *gu, int64_t rows, int64_t F);
} Gated;

static void check_gated(Gated f)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 3, 5 }, { 7, 64 }, { 33, 688 } };
    for (int k = 0; k < 4; k++) {
        const int64_t rows = shapes[k][0], F = shapes[k][1], n = rows * F;
        act_t *gu = act_normal(2 * n, 0, 2), *dh = act_normal(n, 0, 1), *h = NEW(act_t, n);
        act_t *dgu = NEW(act_t, 2 * n);
        double *want = NEW(double, n), *grad = NEW(double, 2 * n);
        Pointwise p = { rows, F, act_double(gu, 2 * n), want, act_double(dh, n) };
        f.bwd_ref(grad, p.dy, p.x, rows, F);
        check_gradient("dgu", f.loss, &p, p.x, grad, 2 * n);
        f.loss(&p);
        f.fwd(h, gu, rows, F);
        check_act("h", h, want, n, 1);
        f.bwd(dgu, dh, gu, rows, F);
        double *dgu_terms = NEW(double, 2 * n);
        f.terms(dgu_terms, p.dy, p.x, rows, F);
        check_act_terms("dgu", dgu, grad, dgu_terms, 2 * n, 1);
        f.bwd(gu, dh, gu, rows, F);
        check_same("in place", gu, dgu, 2 * n * (int64_t)sizeof *gu);
    }
}

TEST(swiglu)
{
    check_gated((Gated){ swiglu_loss, swiglu_bwd_ref, swiglu_fwd, swiglu_bwd, swiglu_terms });
}

TEST(geglu)
{
    check_gated((Gated){ geglu_loss, geglu_bwd_ref, geglu_fwd, geglu_bwd, geglu_terms });
}
