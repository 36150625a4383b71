/* a_lora.c -- lora.h. */
#include <math.h>
#include <omp.h>
#include <stdio.h>

#include "../../kernels/cpu/lora.h"
#include "../../kernels/reference/lora.h"
#include "dropout_keep.h"
#include "harness.h"

static const uint32_t noise[4] = { 0x1234567, 0x89abcdef, 17, 40 };

/* q, k, v of a grouped layer; one part; two parts with a gap between; rank 1 and odd sizes. */
static const Lora cases[] = {
    { .name = "qkv", .rows = 34, .in = 24, .out = 32, .rank = 4, .parts = 3, .col = { 0, 16, 24 },
      .width = { 16, 8, 8 },
      .scale = 2, .T = 17 },
    { .name = "o", .rows = 9, .in = 13, .out = 7, .rank = 1, .parts = 1, .col = { 0 },
      .width = { 7 }, .scale = 0.5f, .T = 9 },
    { .name = "q, v", .rows = 40, .in = 64, .out = 96, .rank = 8, .parts = 2, .col = { 0, 80 },
      .width = { 64, 16 },
      .scale = 1, .T = 8 },
    { .name = "large", .rows = 130, .in = 600, .out = 700, .rank = 5, .parts = 2, .col = { 8, 470 },
      .width = { 400, 230 },
      .scale = 1, .T = 65 },
    { .name = "wide", .rows = 100, .in = 300, .out = 520, .rank = 70, .parts = 1, .col = { 0 },
      .width = { 520 },
      .scale = 0.25f, .T = 50 },
};
enum { NCASES = sizeof cases / sizeof *cases };

static int64_t widths(const Lora *l)
{
    int64_t sum = 0;
    for (int64_t p = 0; p < l->parts; p++)
        sum += l->width[p];
    return sum;
}

/* (parts, rows, in), from the word of each element alone. */
static double *masks(const Lora *l, uint32_t site)
{
    double *mask = NEW(double, l->parts * l->rows * l->in);
    for (int64_t p = 0; p < l->parts; p++)
        for (int64_t i = 0; i < l->rows; i++)
            for (int64_t c = 0; c < l->in; c++) {
                int keep = dropout_keep(noise, site * LORA_PARTS + (uint32_t)p, l->T, i,
                                        (uint32_t)c, l->dropout);
                mask[(p * l->rows + i) * l->in + c] = keep ? 1 / (1 - (double)l->dropout) : 0;
            }
    return mask;
}

/* A layer and its adapters in one call. */
static void check_with_layer(const Lora *of, const act_t *x, const act_t *u, const act_t *dy, const act_t *a,
                             const act_t *b, const double *mask, uint32_t site)
{
    Lora l = *of;
    const int64_t nx = l.rows * l.in, ny = l.rows * l.out, all = l.parts * l.rank, nb = widths(&l) * l.rank;
    act_t *w = act_normal(l.out * l.in, 0, 1), *bias = act_normal(l.out, 0, 1), *y = NEW(act_t, ny);
    act_t *got_u = NEW(act_t, l.rows * all), *dx = NEW(act_t, nx);
    float *da = NEW(float, all * l.in), *db = NEW(float, nb);
    double *wd = act_double(w, l.out * l.in), *xd = act_double(x, nx), *dyd = act_double(dy, ny);
    double *ud = act_double(u, l.rows * all), *ad = act_double(a, all * l.in), *bd = act_double(b, nb);
    double *ry = NEW(double, ny), *rdx = NEW(double, nx);
    double *rda = NEW(double, all * l.in), *rdb = NEW(double, nb);
    memset(rdx, 0, sizeof(double) * (size_t)nx);
    for (int64_t i = 0; i < l.rows; i++)
        for (int64_t o = 0; o < l.out; o++) {
            ry[i * l.out + o] = act_load(bias + o);
            for (int64_t c = 0; c < l.in; c++) {
                ry[i * l.out + o] += xd[i * l.in + c] * wd[o * l.in + c];
                rdx[i * l.in + c] += dyd[i * l.out + o] * wd[o * l.in + c];
            }
        }
    Gemm fwd = { .name = "fwd", .m = l.rows, .n = l.out, .k = l.in, .form = GEMM_NT, .bias = 1 };
    Gemm bwd = { .name = "dx", .m = l.rows, .n = l.in, .k = l.out, .form = GEMM_NN };
    gemm_init(&fwd);
    gemm_init(&bwd);
    void *ws = new_bytes(lora_workspace(l.rows, l.in, l.out, l.rank, l.parts, l.dropout, sizeof(act_t)));
    linear_lora_fwd(y, got_u, x, w, bias, a, b, noise, site, &fwd, &l, ws);
    check_same("u in one call", got_u, u, l.rows * all * (int64_t)sizeof *u);
    lora_fwd_ref(ry, NEW(double, l.rows * all), xd, ad, bd, mask, &l);
    check_act("y in one call", y, ry, ny, 2 * l.in + l.rank);
    linear_lora_bwd(dx, da, db, dy, x, u, w, a, b, noise, site, &bwd, &l, ws);
    lora_bwd_ref(rdx, rda, rdb, dyd, xd, ud, ad, bd, mask, &l);
    check_act("dx in one call", dx, rdx, nx, 2 * l.out + l.rank);
}

static void run_case(Lora l, float dropout, int beta)
{
    l.dropout = dropout;
    l.beta = beta;
    const int64_t nx = l.rows * l.in, ny = l.rows * l.out, all = l.parts * l.rank,
        nu = l.rows * all, na = all * l.in;
    const int64_t nb = widths(&l) * l.rank;
    const uint32_t site = 5;
    act_t *x = act_normal(nx, 0, 1), *y = act_normal(ny, 0, 1), *dy = act_normal(ny, 0, 1),
        *dx = act_normal(nx, 0, 1);
    act_t *u = NEW(act_t, nu), *a = act_normal(na, 0, 1), *b = act_normal(nb, 0, 1);
    float *da = beta ? f32_normal(na, 0, 1) : NEW(float, na), *db = beta ? f32_normal(nb, 0,
            1) : NEW(float, nb);
    double *mask = masks(&l, site), *ry = act_double(y, ny), *ru = NEW(double, nu),
        *rdx = act_double(dx, nx);
    double *rda = f32_double(da, na), *rdb = f32_double(db, nb), *xd = act_double(x, nx),
        *ad = act_double(a, na);
    double *bd = act_double(b, nb);
    for (int64_t i = 0; !beta && i < na; i++)
        rda[i] = 0;
    for (int64_t i = 0; !beta && i < nb; i++)
        rdb[i] = 0;
    void *ws = new_bytes(lora_workspace(l.rows, l.in, l.out, l.rank, l.parts, dropout, sizeof(act_t)));
    lora_init(&l);

    lora_fwd(y, u, x, a, b, noise, site, &l, ws);
    lora_fwd_ref(ry, ru, xd, ad, bd, mask, &l);
    check_act("u", u, ru, nu, l.in);
    check_act("y", y, ry, ny, l.in + l.rank);
    lora_bwd(dx, da, db, dy, x, u, a, b, noise, site, &l, ws);
    lora_bwd_ref(rdx, rda, rdb, act_double(dy, ny), xd, act_double(u, nu), ad, bd, mask, &l);
    check_act("dx", dx, rdx, nx, l.out + l.rank);
    check_with_layer(&l, x, u, dy, a, b, mask, site);
    check_via_act("da", da, rda, na, l.rows + l.out);
    check_via_act("db", db, rdb, nb, l.rows);
}

TEST(lora)
{
    gemm_setup();
    for (int i = 0; i < NCASES; i++)
        for (int beta = 0; beta < 2; beta++) {
            run_case(cases[i], 0, beta);
            run_case(cases[i], 0.3f, beta);
        }
}

/* Rows of a layer with adapters, alone and by any number of threads, are those among all rows. */
TEST(lora_rows_with_layer)
{
    gemm_setup();
    const int threads = omp_get_max_threads();
    for (int i = 0; i < NCASES; i++) {
        Lora all = cases[i];
        const int64_t ranks = all.parts * all.rank, in = all.in, out = all.out, row = out * (int64_t)sizeof(act_t);
        act_t *x = act_normal(all.rows * in, 0, 1), *w = act_normal(out * in, 0, 1), *y = NEW(act_t, all.rows * out);
        act_t *a = act_normal(ranks * in, 0, 1), *b = act_normal(widths(&all) * all.rank, 0, 1);
        act_t *u = NEW(act_t, all.rows * ranks), *few = NEW(act_t, all.rows * out);
        Gemm base = { .name = "base", .m = all.rows, .n = out, .k = in, .form = GEMM_NT };
        void *ws = new_bytes(lora_workspace(all.rows, in, out, all.rank, all.parts, 0, sizeof(act_t)));
        gemm_init(&base);
        lora_init(&all);
        linear_lora_fwd(y, u, x, w, NULL, a, b, NULL, 0, &base, &all, ws);
        for (int64_t m = 1; m <= all.rows; m += m < 18 ? 1 : 29) {
            const int64_t from = all.rows - m;
            Gemm of_some = { .name = "some", .m = m, .n = out, .k = in, .form = GEMM_NT };
            Lora some = cases[i];
            some.rows = m;
            omp_set_num_threads((int)(1 + m % 4));
            gemm_init(&of_some);
            lora_init(&some);
            linear_lora_fwd(few, u, x + from * in, w, NULL, a, b, NULL, 0, &of_some, &some, ws);
            check_same("rows with a layer", few, y + from * out, m * row);
            omp_set_num_threads(threads);
        }
    }
}

/* Adapters of consecutive rows add what they add to these among all rows. */
TEST(lora_rows_alone)
{
    gemm_setup();
    for (int i = 0; i < NCASES; i++) {
        Lora all = cases[i];
        const int64_t ranks = all.parts * all.rank;
        act_t *x = act_normal(all.rows * all.in, 0, 1), *a = act_normal(ranks * all.in, 0, 1);
        act_t *b = act_normal(widths(&all) * all.rank, 0, 1), *before = act_normal(all.rows * all.out, 0, 1);
        act_t *u = NEW(act_t, all.rows * ranks), *y = NEW(act_t, all.rows * all.out);
        act_t *few = NEW(act_t, all.rows * all.out);
        void *ws = new_bytes(lora_workspace(all.rows, all.in, all.out, all.rank, all.parts, 0, sizeof(act_t)));
        memcpy(y, before, sizeof(act_t) * (size_t)(all.rows * all.out));
        lora_init(&all);
        lora_fwd(y, u, x, a, b, NULL, 0, &all, ws);
        for (int64_t m = 1; m <= all.rows && m < 20; m++) {
            const int64_t from = all.rows - m;
            Lora some = cases[i];
            some.rows = m;
            memcpy(few, before + from * all.out, sizeof(act_t) * (size_t)(m * all.out));
            lora_init(&some);
            lora_fwd(few, u, x + from * all.in, a, b, NULL, 0, &some, ws);
            check_true("rows alone", !memcmp(few, y + from * all.out, sizeof(act_t) * (size_t)(m * all.out)));
        }
    }
}

typedef struct {
    const Lora *l;
    double *y, *u, *x, *a, *b, *mask, *dy;
} Gradient;

static double lora_loss(void *ctx)
{
    Gradient *g = ctx;
    for (int64_t i = 0; i < g->l->rows * g->l->out; i++)
        g->y[i] = 0;
    lora_fwd_ref(g->y, g->u, g->x, g->a, g->b, g->mask, g->l);
    return dot(g->y, g->dy, g->l->rows * g->l->out);
}

TEST(lora_gradient)
{
    /* nothing of the reference depends on width */
    for (int i = 0; i < NCASES - 1; i++) {
        Lora l = cases[i];
        l.dropout = 0.3f;
        const int64_t nx = l.rows * l.in, ny = l.rows * l.out, na = l.parts * l.rank * l.in,
            nb = widths(&l) * l.rank;
        Gradient g = { &l, NEW(double, ny), NEW(double, l.rows * l.parts * l.rank),
                       act_double(act_normal(nx, 0, 1), nx),
                       act_double(act_normal(na, 0, 1), na), act_double(act_normal(nb, 0, 1), nb),
                           masks(&l, 5),
                       act_double(act_normal(ny, 0, 1), ny) };
        double *dx = NEW(double, nx), *da = NEW(double, na), *db = NEW(double, nb);
        memset(dx, 0, sizeof(double) * (size_t)nx);
        memset(da, 0, sizeof(double) * (size_t)na);
        memset(db, 0, sizeof(double) * (size_t)nb);
        lora_loss(&g);
        lora_bwd_ref(dx, da, db, g.dy, g.x, g.u, g.a, g.b, g.mask, &l);
        check_gradient("dx", lora_loss, &g, g.x, dx, nx);
        check_gradient("da", lora_loss, &g, g.a, da, na);
        check_gradient("db", lora_loss, &g, g.b, db, nb);
    }
}

/* The masks do not depend on how a global batch is cut into micro-batches, and drop about the share
 * asked for. */
TEST(lora_masks)
{
    enum { ROWS = 40, IN = 101, T = 10 };
    const int64_t n = ROWS * IN;
    act_t *x = act_normal(n, 3, 0.1), *all = NEW(act_t, n), *half = NEW(act_t, n);
    dropout_each(all, x, noise, NULL, 9, 0.25f, ROWS, T, IN);
    const uint32_t second[4] = { noise[0], noise[1], noise[2], noise[3] + 2 };
    dropout_each(half, x, noise, NULL, 9, 0.25f, ROWS / 2, T, IN);
    dropout_each(half + n / 2, x + n / 2, second, NULL, 9, 0.25f, ROWS / 2, T, IN);
    check_same("two halves", all, half, n * (int64_t)sizeof(act_t));
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        kept += act_load(all + i) != 0;
    check_true("share", fabs((double)kept / (double)n - 0.75) < 5 * sqrt(0.25 * 0.75 / (double)n));
}

typedef struct {
    Lora l;
    act_t *x, *y, *u, *a, *b;
    float *da, *db;
    void *ws;
} Bench;

static void run_fwd(void *ctx)
{
    Bench *t = ctx;
    lora_fwd(t->y, t->u, t->x, t->a, t->b, noise, 5, &t->l, t->ws);
}

static void run_bwd(void *ctx)
{
    Bench *t = ctx;
    lora_bwd(t->x, t->da, t->db, t->y, t->x, t->u, t->a, t->b, noise, 5, &t->l, t->ws);
}

BENCH(lora_speed)
{
    gemm_setup();
    for (int drop = 0; drop < 2; drop++)
        for (int i = 0; i < 2; i++) {
            Lora l = { .name = "bench", .rows = 1024, .in = 896, .out = i ? 9728 : 1152, .rank = 16,
                       .parts = i ? 2 : 3,
                       .col = { 0, i ? 4864 : 896, 1024 }, .width = { i ? 4864 : 896,
                               i ? 4864 : 128, 128 }, .scale = 2,
                       .dropout = drop ? 0.05f : 0, .T = 1024 };
            const int64_t all = l.rank * l.parts, w = widths(&l);
            Bench t = { l, act_normal(l.rows * l.in, 0, 1), act_normal(l.rows * l.out, 0, 1),
                        NEW(act_t, l.rows * all),
                        act_normal(all * l.in, 0, 1), act_normal(w * l.rank, 0, 1), NEW(float,
                                all * l.in),
                        NEW(float, w * l.rank), new_bytes(lora_workspace(l.rows, l.in, l.out,
                                l.rank, l.parts, l.dropout, sizeof(act_t))) };
            lora_init(&t.l);
            double flops = 2.0 * (double)(l.rows * (l.in * all + w * l.rank));
            char what[64];
            snprintf(what, sizeof what, "lora rows 1024 in 896 out %d dropout %g", (int)l.out,
                     (double)l.dropout);
            bench_report(what, bench_time(run_fwd, &t), 0, flops);
            bench_report("  backward", bench_time(run_bwd, &t), 0, 2 * flops);
        }
}
