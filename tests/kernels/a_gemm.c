/* a_gemm.c -- gemm.h and linear.h. */
#include <stdio.h>

#include "../../kernels/cpu/bias_rows.h"
#include "../../kernels/cpu/linear.h"
#include "../../kernels/reference/gemm.h"
#include "../../kernels/reference/linear.h"
#include "gemm_choose.h"
#include "harness.h"

typedef struct {
    int64_t m, n, k;
    GemmForm form;
    int bias, beta, out_f32;
    float scale;
    int spread;                  /* 1: every matrix lies in a wider one */
} Case;

/* Tails of every tile; rows of B a page apart; more depth, rows and columns than are packed at a time;
 * few rows, for which the operands change roles. */
static const Case cases[] = {
    { 1, 1, 1, GEMM_NT, 0, 0, 0, 0, 0 },       { 5, 7, 3, GEMM_NT, 1, 0, 0, 0, 0 },
    { 64, 192, 64, GEMM_NT, 1, 0, 0, 0, 0 },   { 33, 17, 129, GEMM_NT, 0, 0, 1, 0, 0 },
    { 1, 96, 64, GEMM_NT, 0, 0, 0, 0, 0 },     { 48, 40, 72, GEMM_NT, 1, 0, 0, 0, 1 },
    { 31, 65, 40, GEMM_NN, 0, 0, 0, 0, 0 },    { 40, 64, 24, GEMM_NN, 0, 1, 0, 0, 1 },
    { 64, 48, 200, GEMM_TN, 0, 0, 1, 0, 0 },   { 24, 33, 77, GEMM_TN, 0, 1, 1, 0, 1 },
    { 37, 40, 8, GEMM_NT, 1, 1, 0, 0.5f, 1 },  { 40, 8, 37, GEMM_NN, 0, 0, 0, 2, 1 },
    { 40, 8, 37, GEMM_TN, 0, 1, 1, 2, 1 },     { 50, 8, 7, GEMM_TN, 0, 0, 1, 0.25f, 0 },
    { 130, 1024, 65, GEMM_NN, 0, 0, 0, 0, 0 }, { 128, 1024, 2060, GEMM_TN, 0, 1, 1, 0, 0 },
    { 101, 259, 515, GEMM_NT, 1, 0, 0, 0, 0 },
    { 256, 24, 8, GEMM_NT, 1, 0, 0, 0, 0 },    { 256, 8, 32, GEMM_NN, 0, 0, 0, 0, 0 },  /* 8 wide */
    { 24, 8, 256, GEMM_TN, 0, 1, 1, 0, 0 },    { 197, 545, 300, GEMM_NT, 1, 0, 0, 0, 1 },
    { 197, 545, 300, GEMM_TN, 0, 1, 1, 2, 0 }, { 7, 70, 1090, GEMM_NT, 1, 1, 0, 0.5f, 1 },
    { 16, 33, 40, GEMM_NT, 1, 0, 1, 0, 1 },    { 3, 20, 257, GEMM_NT, 0, 1, 1, 0, 0 },
    { 7, 70, 530, GEMM_NN, 1, 1, 0, 0.5f, 1 }, { 205, 40, 1100, GEMM_NN, 1, 1, 0, 0, 1 },
    { 140, 70, 600, GEMM_TN, 0, 1, 1, 0, 1 },  /* read in place, but for 6 columns */
    { 130, 40, 1033, GEMM_NT, 0, 0, 0, 0, 0 }, /* odd: rows of A are packed */
    { 30, 40, 32100, GEMM_TN, 0, 1, 1, 2, 1 }, /* k in parts */
};

/* rows x cols of x, cols + pad elements apart; the padding stays as NEW left it. */
static void *spread(const void *x, int64_t rows, int64_t cols, int64_t pad, int64_t size)
{
    char *y = new_bytes(rows * (cols + pad) * size);
    for (int64_t i = 0; i < rows; i++)
        memcpy(y + i * (cols + pad) * size, (const char *)x + i * cols * size,
               (size_t)(cols * size));
    return y;
}

static void *gather(const void *x, int64_t rows, int64_t cols, int64_t pad, int64_t size)
{
    char *y = new_bytes(rows * cols * size);
    for (int64_t i = 0; i < rows; i++)
        memcpy(y + i * cols * size, (const char *)x + i * (cols + pad) * size,
               (size_t)(cols * size));
    return y;
}

static void run_case(const Case *t, bool integers)
{
    const int64_t asize = sizeof(act_t), csize = t->out_f32 ? (int64_t)sizeof(float) : asize,
        pad = t->spread ? 5 : 0;
    const int64_t arows = t->form == GEMM_TN ? t->k : t->m,
        acols = t->form == GEMM_TN ? t->m : t->k;
    const int64_t brows = t->form == GEMM_NT ? t->n : t->k,
        bcols = t->form == GEMM_NT ? t->k : t->n;
    act_t *a = integers ? act_integers(t->m * t->k, 3) : act_normal(t->m * t->k, 0.1, 1);
    act_t *b = integers ? act_integers(t->k * t->n, 3) : act_normal(t->k * t->n, 0, 1);
    act_t *bias = integers ? act_integers(t->n, 3) : act_normal(t->n, 0, 1);
    void *c = t->beta ? (t->out_f32 ? (void *)f32_integers(t->m * t->n,
                                                           3) : (void *)act_integers(t->m * t->n,
                                                                   3))
                      : new_bytes(t->m * t->n * csize);
    double *ref = t->out_f32 ? f32_double(c, t->m * t->n) : act_double(c, t->m * t->n);
    gemm_ref(ref, act_double(a, t->m * t->k), act_double(b, t->k * t->n), t->bias ? act_double(bias,
            t->n) : NULL, t->m,
             t->n, t->k, t->form, t->scale ? t->scale : 1, t->beta);

    Gemm g = { .name = "test", .m = t->m, .n = t->n, .k = t->k, .form = t->form, .bias = t->bias,
               .beta = t->beta,
               .out_f32 = t->out_f32, .scale = t->scale, .lda = pad ? acols + pad : 0,
                   .ldb = pad ? bcols + pad : 0,
               .ldc = pad ? t->n + pad : 0 };
    gemm_init(&g);
    void *cs = spread(c, t->m, t->n, pad, csize);
    gemm_run(&g, cs, spread(a, arows, acols, pad, asize), spread(b, brows, bcols, pad, asize),
             t->bias ? bias : NULL,
             new_bytes(GEMM_WORKSPACE));
    void *got = gather(cs, t->m, t->n, pad, csize);
    if (integers && t->out_f32)
        check_f32_exact("C", got, ref, t->m * t->n);
    else if (integers)
        check_act_exact("C", got, ref, t->m * t->n);
    else if (t->out_f32)
        check_f32("C", got, ref, t->m * t->n, t->k);
    else
        check_act("C", got, ref, t->m * t->n, t->k);
}

TEST(gemm_integers)
{
    gemm_setup();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i], true);
}

TEST(gemm_random)
{
    gemm_setup();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i], false);
}

/* Implementations before this one have the same bits. */
enum { FUSED = 2 };

TEST(gemm_each)
{
    for (int j = 0; choose(j); j++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            run_case(&cases[i], i % 2 == (size_t)(j % 2));
}

/* Rows [from, from + m) of A times B. */
static void some_rows(void *c, const act_t *a, const act_t *b, const act_t *bias, const Case *t,
                      int64_t from, int64_t m, void *ws)
{
    Gemm g = { .name = "rows", .m = m, .n = t->n, .k = t->k, .form = t->form, .bias = t->bias,
               .out_f32 = t->out_f32 };
    gemm_init(&g);
    gemm_run(&g, c, a + from * t->k, b, bias, ws);
}

/* Any consecutive rows, multiplied without the others, have the bits that they have among all. */
static void rows_alone(const Case *t, void *ws)
{
    const int64_t row = t->n * (t->out_f32 ? 4 : (int64_t)sizeof(act_t));
    act_t *a = act_normal(t->m * t->k, 0, 1), *b = act_normal(t->k * t->n, 0, 1);
    act_t *bias = act_normal(t->n, 0, 1);
    char *all = new_bytes(t->m * row), *some = new_bytes(t->m * row);
    some_rows(all, a, b, bias, t, 0, t->m, ws);
    for (int64_t m = 1; m <= t->m; m += m < 26 ? 1 : 37)
        for (int64_t from = 0; from + m <= t->m; from += from < 2 ? 1 : 37) {
            some_rows(some, a, b, bias, t, from, m, ws);
            if (memcmp(some, all + from * row, (size_t)(m * row))) {
                char why[96];
                snprintf(why, sizeof why, "n %d k %d: rows %d to %d of %d", (int)t->n, (int)t->k,
                         (int)from, (int)(from + m - 1), (int)t->m);
                check_true(why, false);
                return;
            }
        }
    check_true("rows alone", true);
}

/* The products of the tiny programs; widths with tails, deeper than a block of k. */
static const Case by_rows[] = {
#include "products.inc"
    { 100, 5, 40, GEMM_NT, 1, 0, 1, 0, 0 },   { 100, 16, 1060, GEMM_NT, 0, 0, 0, 0, 0 },
    { 100, 48, 1060, GEMM_NN, 0, 0, 0, 0, 0 }, { 100, 2, 176, GEMM_NT, 0, 0, 1, 0, 0 },
};

TEST(gemm_rows_alone)
{
    void *ws = new_bytes(GEMM_WORKSPACE);
    for (int j = 0; choose(j); j++)
        for (size_t i = 0; i < sizeof by_rows / sizeof *by_rows; i++)
            rows_alone(&by_rows[i], ws);
}

/* Every implementation has the same bits on 1 to 4 threads, fused multiply-adds also with AVX2 and
 * AVX-512; `out_f32` and not. */
static void same_bits(const Case *t, int out_f32, void *ws)
{
    const int64_t n = t->m * t->n, size = out_f32 ? 4 : (int64_t)sizeof(act_t);
    act_t *a = act_normal(t->m * t->k, 0, 1), *b = act_normal(t->k * t->n, 0, 1);
    act_t *bias = act_normal(t->n, 0, 1);
    void *c = out_f32 ? (void *)f32_normal(n, 0, 1) : (void *)act_normal(n, 0, 1);
    void *first = NULL;
    for (int j = 0; choose(j); j++) {
        first = j < FUSED ? first : NULL;
        for (int threads = 1; threads <= 4; threads++) {
            Gemm g = { .name = "bits", .m = t->m, .n = t->n, .k = t->k, .form = t->form,
                       .bias = t->bias, .beta = t->beta, .out_f32 = out_f32, .scale = t->scale };
            void *to = new_bytes(n * size);
            memcpy(to, c, (size_t)(n * size));
            omp_set_num_threads(threads);
            gemm_init(&g);
            gemm_run(&g, to, a, b, bias, ws);
            first = first ? first : to;
            char what[64];
            snprintf(what, sizeof what, "%d x %d x %d, implementation %d on %d threads", (int)t->m,
                     (int)t->n, (int)t->k, j, threads);
            check_same(what, to, first, n * size);
        }
    }
}

TEST(gemm_same_bits)
{
    void *ws = new_bytes(GEMM_WORKSPACE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int out_f32 = 0; out_f32 < 2; out_f32++)
            same_bits(&cases[i], out_f32, ws);
}

/* More threads than the planned workspace has parts for. */
TEST(gemm_many_threads)
{
    int threads = omp_get_max_threads();
    omp_set_num_threads(96);
    Case t = { 300, 520, 500, GEMM_TN, 0, 0, 1, 0, 0 };
    Case parts = { 40, 24, 32000, GEMM_TN, 0, 0, 1, 0, 0 };
    for (int j = 0; choose(j); j++)
        run_case(&t, true), run_case(&parts, true);
    omp_set_num_threads(threads);
}

TEST(linear)
{
    gemm_setup();
    const int64_t R = 37, I = 24, O = 40;
    void *ws = new_bytes(GEMM_WORKSPACE);
    act_t *x = act_normal(R * I, 0, 1), *w = act_normal(O * I, 0, 1), *b = act_normal(O, 0, 1),
        *dy = act_normal(R * O, 0, 1);
    double *dx_ = NEW(double, R * I), *dw_ = NEW(double, O * I), *y_ = NEW(double, R * O),
        *xd = act_double(x, R * I);
    double *wd = act_double(w, O * I), *dyd = act_double(dy, R * O);
    Gemm fwd = { .name = "y", .m = R, .n = O, .k = I, .form = GEMM_NT }, with_b = fwd;
    Gemm dx = { .name = "dx", .m = R, .n = I, .k = O, .form = GEMM_NN };
    Gemm dw = { .name = "dw", .m = O, .n = I, .k = R, .form = GEMM_TN, .out_f32 = 1 };
    Gemm logits = with_b;
    with_b.bias = logits.bias = logits.out_f32 = 1;
    gemm_init(&logits), gemm_init(&fwd), gemm_init(&with_b), gemm_init(&dx), gemm_init(&dw);

    act_t *y = NEW(act_t, R * O), *gx = NEW(act_t, R * I);
    float *gw = NEW(float, O * I), *score = NEW(float, R * O);
    linear_fwd(y, x, w, &fwd, ws);
    gemm_ref(y_, xd, wd, NULL, R, O, I, GEMM_NT, 1, 0);
    check_act("y", y, y_, R * O, I);
    linear_bias_fwd(y, x, w, b, &with_b, ws);
    gemm_ref(y_, xd, wd, act_double(b, O), R, O, I, GEMM_NT, 1, 0);
    check_act("y with bias", y, y_, R * O, I);
    logits_bias_fwd(score, x, w, b, &logits, ws);
    check_f32("logits with bias", score, y_, R * O, I);
    linear_dx(gx, dy, w, &dx, ws);
    gemm_ref(dx_, dyd, wd, NULL, R, I, O, GEMM_NN, 1, 0);
    check_act("dx", gx, dx_, R * I, O);
    linear_dw(gw, dy, x, &dw, ws);
    gemm_ref(dw_, dyd, xd, NULL, O, I, R, GEMM_TN, 1, 0);
    check_f32("dw", gw, dw_, O * I, R);
}

TEST(bias_grad)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 31, 7 }, { 32, 64 }, { 33, 100 }, { 515,
            192 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int beta = 0; beta < 2; beta++)
            for (int integers = 0; integers < 2; integers++) {
                int64_t R = shapes[i][0], N = shapes[i][1];
                act_t *dy = integers ? act_integers(R * N, 9) : act_normal(R * N, 0.5, 1);
                float *db = beta ? f32_integers(N, 9) : NEW(float, N);
                double *ref = f32_double(db, N);
                bias_grad_ref(ref, act_double(dy, R * N), R, N, beta);
                bias_grad(db, dy, R, N, beta, new_bytes(bias_grad_workspace(N)));
                if (integers)
                    check_f32_exact("db", db, ref, N);
                else
                    check_f32("db", db, ref, N, R);
            }
}

/* The bits of a GELU's gradient and a bias gradient, one after the other. */
TEST(gelu_bwd_bias)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 31, 7 }, { 33, 100 }, { 515, 192 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int beta = 0; beta < 2; beta++)
            for (int erf = 0; erf < 2; erf++) {
                const int64_t R = shapes[i][0], N = shapes[i][1], bytes = R * N * sizeof(act_t);
                act_t *x = act_normal(R * N, 0, 2), *dy = act_normal(R * N, 0.5, 1);
                act_t *dx = NEW(act_t, R * N), *want = NEW(act_t, R * N);
                float *db = f32_integers(N, 9), *want_db = NEW(float, N);
                void *ws = new_bytes(bias_grad_workspace(N));
                memcpy(want_db, db, sizeof *db * (size_t)N);
                (erf ? gelu_erf_bwd : gelu_bwd)(want, dy, x, R * N);
                bias_grad(want_db, want, R, N, beta, ws);
                (erf ? gelu_erf_bwd_bias : gelu_bwd_bias)(db, dx, dy, x, R, N, beta, ws);
                check_same("dx", dx, want, bytes);
                check_same("db", db, want_db, N * 4);
                (erf ? gelu_erf_bwd_bias : gelu_bwd_bias)(db, dy, dy, x, R, N, 0, ws);
                check_same("in place of dy", dy, want, bytes);
            }
}

typedef struct {
    Gemm g;
    void *a, *b, *c, *ws;
} Bench;

static void run_bench(void *ctx)
{
    Bench *t = ctx;
    gemm_run(&t->g, t->c, t->a, t->b, NULL, t->ws);
}

BENCH(gemm_speed)
{
    gemm_setup();
    static const int64_t shapes[][3] = {           /* rows, out, in */
        /* GPT-2 124M */
        { 2048, 2304, 768 }, { 2048, 768, 768 }, { 2048, 3072, 768 }, { 2048, 768, 3072 },
        { 1024, 1152, 896 }, { 1024, 9728, 896 }, { 1024, 896, 4864 },  /* Qwen2.5 0.5B */
        { 1024, 16, 896 }, { 1024, 896, 16 },  /* rank 16 */
        { 1920, 192, 64 }, { 1920, 256, 64 }, { 1920, 64, 256 },  /* 64 wide */
        { 1, 2304, 768 },  /* one token */
    };
    static const char *const forms[] = { "y", "dx", "dw" };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 3; form++) {
            const int64_t r = shapes[i][0], o = shapes[i][1], n = shapes[i][2];
            Bench t = { .ws = new_bytes(GEMM_WORKSPACE) };
            t.g = form == 0 ? (Gemm){ .m = r, .n = o, .k = n, .form = GEMM_NT }
                  : form == 1 ? (Gemm){ .m = r, .n = n, .k = o, .form = GEMM_NN }
                              : (Gemm){ .m = o, .n = n, .k = r, .form = GEMM_TN, .out_f32 = 1,
                                        .beta = 1 };
            t.g.name = "bench";
            gemm_init(&t.g);
            t.a = act_normal(t.g.m * t.g.k, 0, 1);
            t.b = act_normal(t.g.k * t.g.n, 0, 1);
            t.c = f32_normal(t.g.m * t.g.n, 0, 1);
            char what[64];
            snprintf(what, sizeof what, "%s rows %d out %d in %d", forms[form], (int)r, (int)o,
                     (int)n);
            bench_report(what, bench_time(run_bench, &t), 0, 2.0 * (double)(r * o * n));
        }
}
