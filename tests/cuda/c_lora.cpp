/* c_lora.cpp -- lora.cuh. */
#include "../../kernels/cuda/lora.cuh"
#include "harness.h"
#if defined ACT_BF16 || defined ACT_F16
#include "../../kernels/cuda/lora_dy.cuh"
#endif

/* One layer, as the reference takes it. */
struct LoraCase {
    const char *name;
    int64_t rows, in, out, rank, parts;
    int64_t col[LORA_PARTS], width[LORA_PARTS];
    float scale, dropout = 0;
    int64_t T;
    int beta = 0;
    bool folded = false;
};
#define Lora LoraCase
#define ALSO_UNWATCHED "../../kernels/reference/lora.h"
#include "unwatched.h"
#undef Lora

/* The layer's products as lora.def says, for both passes; where operands begin at a part's columns
 * the lowest bit set decides how well they are aligned. */
struct LoraProducts {
    Gemm u, y[LORA_PARTS], du[LORA_PARTS], db[LORA_PARTS], da, dx;
};

static Gemm *product_at(Gemm &once, int64_t) { return &once; }
static Gemm *product_at(Gemm (&each)[LORA_PARTS], int64_t p) { return &each[p]; }
static void keep_product(const Gemm *&to, const Gemm *g, int64_t) { to = g; }
static void keep_product(const Gemm *(&to)[LORA_PARTS], const Gemm *g, int64_t p) { to[p] = g; }

static Lora lora_of(const LoraCase &c, LoraProducts &made)
{
    const int64_t rows = c.rows, in = c.in, out = c.out, rank = c.rank, all = c.parts * c.rank;
    const int64_t row = c.folded ? in + all : in, some = c.dropout > 0 ? rank : all, dense = 0;
    const int64_t x = c.dropout > 0 ? in : row, u = c.folded ? row : all;
    Lora l = { .rows = rows, .in = in, .row = row, .out = out, .rank = rank, .parts = c.parts,
               .col = { 0 }, .width = { 0 }, .dropout = c.dropout, .T = c.T };
    memcpy(l.col, c.col, sizeof l.col);
    memcpy(l.width, c.width, sizeof l.width);
    made = {};
    for (int64_t p = 0; p < c.parts; p++) {
        const int64_t width = c.width[p], offset = c.col[p] | p * rank | rank | (row - all);
#define LORA_PRODUCT(member, pass, times, form_, m_, n_, k_, lda_, ldb_, ldc_, flags) \
        if (p == 0 || !strcmp(#times, "part")) { \
            Gemm *g = product_at(made.member, p); \
            *g = { .name = #member, .m = m_, .n = n_, .k = k_, .lda = lda_, .ldb = ldb_, \
                   .ldc = ldc_, .form = GEMM_##form_, .out_f32 = !!strstr(flags, "f32"), \
                   .beta = strstr(flags, "add") || (strstr(flags, "beta") && c.beta), \
                   .scale = strstr(flags, "scale") ? c.scale : 1.0f, .offset = offset }; \
            gemm_init(g); \
            keep_product(l.member, g, p); \
        }
#include "../../kernels/cuda/lora.def"
#undef LORA_PRODUCT
    }
    return l;
}

static const uint32_t noise_host[4] = { 0x1234567, 0x89abcdef, 17, 40 };
static const uint32_t site = 5;

/* q, k, v of a grouped layer; one part; two parts with a gap between; rank 1 and odd sizes; more
 * than one tile of rows, columns and ranks. */
static const LoraCase cases[] = {
    { .name = "qkv", .rows = 34, .in = 24, .out = 32, .rank = 4, .parts = 3, .col = { 0, 16, 24 },
      .width = { 16, 8, 8 }, .scale = 2, .T = 17 },
    { .name = "o", .rows = 9, .in = 13, .out = 7, .rank = 1, .parts = 1, .col = { 0 },
      .width = { 7 }, .scale = 0.5f, .T = 9 },
    { .name = "q, v", .rows = 40, .in = 64, .out = 96, .rank = 8, .parts = 2, .col = { 0, 80 },
      .width = { 64, 16 }, .scale = 1, .T = 8 },
    { .name = "wide", .rows = 50, .in = 140, .out = 72, .rank = 35, .parts = 1, .col = { 0 },
      .width = { 72 }, .scale = 0.25f, .T = 50 },
};

/* The four words of a counter, as philox.cuh defines them, written out once more. */
static void words(uint32_t out[4], uint32_t key0, int64_t T, int64_t row, uint32_t quad)
{
    uint32_t c[4] = { quad, (uint32_t)(row % T), noise_host[3] + (uint32_t)(row / T),
                      noise_host[2] };
    uint32_t k0 = key0, k1 = noise_host[1];
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const uint64_t p = (uint64_t)0xD2511F53 * c[0], q = (uint64_t)0xCD9E8D57 * c[2];
        const uint32_t next[4] = { (uint32_t)(q >> 32) ^ c[1] ^ k0, (uint32_t)q,
                                   (uint32_t)(p >> 32) ^ c[3] ^ k1, (uint32_t)p };
        memcpy(c, next, sizeof c);
    }
    memcpy(out, c, sizeof c);
}

/* (parts, rows, in), from the word of each element alone. */
static double *masks(const LoraCase &l)
{
    double *mask = HOST(double, l.parts * l.rows * l.in);
    for (int64_t p = 0; p < l.parts; p++)
        for (int64_t i = 0; i < l.rows; i++)
            for (int64_t c = 0; c < l.in; c++) {
                uint32_t w[4];
                words(w, noise_host[0] ^ (site * 4 + (uint32_t)p) * 0x9E3779B9u, l.T, i,
                      (uint32_t)(c / 4));
                const bool drop = w[c % 4] < (double)l.dropout * 4294967296.0;
                mask[(p * l.rows + i) * l.in + c] = drop ? 0 : 1 / (1 - (double)l.dropout);
            }
    return mask;
}

static int64_t widths(const LoraCase &l)
{
    int64_t sum = 0;
    for (int64_t p = 0; p < l.parts; p++)
        sum += l.width[p];
    return sum;
}

static double *cleared(double *x, int64_t n, bool clear)
{
    for (int64_t i = 0; clear && i < n; i++)
        x[i] = 0;
    return x;
}

/* Columns from .. from + n of rows ld apart, close together. */
static act_t *columns(const act_t *m, int64_t rows, int64_t ld, int64_t from, int64_t n)
{
    double *all = act_double(m, rows * ld), *some = HOST(double, rows * n);
    for (int64_t i = 0; i < rows * n; i++)
        some[i] = all[i / n * ld + from + i % n];
    return act_from(some, rows * n);
}

/* [w | b] as the product of a folded layer reads it: w, and after it b's parts in their rows. */
static double *placed(const LoraCase &l, const double *wide, const double *b)
{
    const int64_t all = l.parts * l.rank, row = l.in + all;
    double *want = HOST(double, l.out * row);
    for (int64_t i = 0; i < l.out * row; i++)
        want[i] = i % row < l.in ? wide[i] : 0;
    for (int64_t p = 0; p < l.parts; b += l.width[p++] * l.rank)
        for (int64_t i = 0; i < l.width[p] * l.rank; i++)
            want[(l.col[p] + i / l.rank) * row + l.in + p * l.rank + i % l.rank] = b[i];
    return want;
}

/* Operands of a case; x with room after its rows where u stands there. */
struct LoraOperands {
    act_t *x, *u, *a, *b, *y, *w;
    double *y_, *x_, *u_, *w_;           // y_: before the adapters
    int64_t row;
    void *ws;
    uint32_t *noise;
};

/* The layer's product after lora_fold, which leaves x and w as they were, and B where it belongs. */
static void fold_and_multiply(const LoraCase &l, const Lora &layer, const LoraOperands &o,
                              const double *b_)
{
    const int64_t nx = l.rows * l.in;
    double *want = placed(l, o.w_, b_);
    Gemm base = { .name = "folded", .m = l.rows, .n = l.out, .k = o.row, .form = GEMM_NT };
    gemm_init(&base);
    run([&] {
        lora_fold(o.x, o.w, o.a, o.b, o.noise, site, &layer, o.ws, stream);
        gemm_run(&base, o.y, o.x, o.w, NULL, NULL, o.ws, stream);
    });
    check_act_exact("w", o.w, want, l.out * o.row);
    check_act_exact("x", columns(o.x, l.rows, o.row, 0, l.in), o.x_, nx);
}

static LoraOperands lora_operands(const LoraCase &l)
{
    const int64_t all = l.parts * l.rank, ny = l.rows * l.out;
    LoraOperands o = {};
    o.row = l.in + (l.folded ? all : 0);
    o.x = act_normal(l.rows * o.row, 0, 1), o.w = act_normal(l.out * o.row, 0, 1);
    o.x_ = act_double(columns(o.x, l.rows, o.row, 0, l.in), l.rows * l.in);
    o.w_ = act_double(o.w, l.out * o.row);
    o.u = l.folded ? o.x + l.in : NEW(act_t, l.rows * all), o.u_ = HOST(double, l.rows * all);
    o.a = act_normal(all * l.in, 0, 1), o.b = act_normal(widths(l) * l.rank, 0, 1);
    o.y = act_normal(ny, 0, 1), o.y_ = act_double(o.y, ny);
    for (int64_t i = 0; i < ny && l.folded; i++) {
        o.y_[i] = 0;
        for (int64_t c = 0; c < l.in; c++)
            o.y_[i] += o.x_[i / l.out * l.in + c] * o.w_[i % l.out * o.row + c];
    }
    o.noise = upload(noise_host, 4);
    o.ws = new_bytes(lora_cuda_workspace(l.rows, l.in, l.rank, l.parts, l.dropout, sizeof(act_t)));
    return o;
}

static void run_case(LoraCase l, float dropout, int beta, bool folded)
{
    l.dropout = dropout, l.beta = beta, l.folded = folded;
    const int64_t nx = l.rows * l.in, ny = l.rows * l.out, all = l.parts * l.rank;
    const int64_t nu = l.rows * all, na = all * l.in, nb = widths(l) * l.rank;
    const LoraOperands o = lora_operands(l);
    act_t *dy = act_normal(ny, 0, 1), *dx = act_normal(nx, 0, 1);
    float *da0 = f32_normal(na, 0, 1), *da = beta ? f32_copy(da0, na) : NEW(float, na);
    float *db0 = f32_normal(nb, 0, 1), *db = beta ? f32_copy(db0, nb) : NEW(float, nb);
    double *mask = masks(l), *dx_ = act_double(dx, nx);
    double *a_ = act_double(o.a, na), *b_ = act_double(o.b, nb);
    double *da_ = cleared(f32_double(da0, na), na, !beta),
           *db_ = cleared(f32_double(db0, nb), nb, !beta);
    LoraProducts made;
    const Lora layer = lora_of(l, made);

    if (folded)
        fold_and_multiply(l, layer, o, b_);
    else
        run([&] {
            lora_fwd(o.y, o.u, o.x, o.a, o.b, o.noise, site, &layer, o.ws, stream);
        });
    lora_fwd_ref(o.y_, o.u_, o.x_, a_, b_, mask, &l);
    act_t *u = folded ? columns(o.x, l.rows, o.row, l.in, all) : o.u;
    check_act("u", u, o.u_, nu, l.in);
    check_act("y", o.y, o.y_, ny, l.in + l.rank);
    run([&] {
        lora_bwd(dx, da, db, dy, o.x, o.u, o.a, o.b, o.noise, site, &layer, o.ws, stream);
    });
    lora_bwd_ref(dx_, da_, db_, act_double(dy, ny), o.x_, act_double(u, nu), a_, b_, mask, &l);
    check_act("dx", dx, dx_, nx, l.out + l.rank);
    check_via_act("da", da, da_, na, l.rows + l.out);
    check_via_act("db", db, db_, nb, l.rows);
}

TEST(lora)
{
    gemm_setup();
    for (const LoraCase &l : cases)
        for (int beta = 0; beta < 2; beta++)
            run_case(l, 0, beta, false);
}

TEST(lora_dropout)
{
    gemm_setup();
    for (const LoraCase &l : cases)
        for (int beta = 0; beta < 2; beta++)
            run_case(l, 0.3f, beta, false);
}

TEST(lora_fold)
{
    gemm_setup();
    for (const LoraCase &l : cases)
        for (int beta = 0; beta < 2; beta++)
            for (float dropout : { 0.0f, 0.3f })
                run_case(l, dropout, beta, true);
}

#if defined ACT_BF16 || defined ACT_F16
/* du and db in one pass, of each rank: parts of one stripe and of several, with a gap between, and
 * tiles that are not whole. */
static const LoraCase dy_cases[] = {
    { .name = "rank 8", .rows = 70, .in = 8, .out = 120, .rank = 8, .parts = 3,
      .col = { 0, 64, 104 }, .width = { 64, 24, 16 }, .scale = 2, .T = 70 },
    { .name = "rank 16", .rows = 330, .in = 16, .out = 1120, .rank = 16, .parts = 2,
      .col = { 8, 544 }, .width = { 464, 576 }, .scale = 0.5f, .T = 330 },
    { .name = "rank 24", .rows = 64, .in = 8, .out = 200, .rank = 24, .parts = 1, .col = { 0 },
      .width = { 200 }, .scale = 1, .T = 64 },
    { .name = "rank 32", .rows = 49, .in = 8, .out = 400, .rank = 32, .parts = 2,
      .col = { 0, 200 }, .width = { 200, 200 }, .scale = 0.25f, .T = 49 },
};

static Lora dy_layer(const LoraCase &c)
{
    const int64_t all = c.parts * c.rank, before = c.folded ? c.in : 0;
    Lora l = { .rows = c.rows, .in = before, .row = before + all, .out = c.out, .rank = c.rank,
               .parts = c.parts, .col = { 0 }, .width = { 0 }, .scale = c.scale };
    memcpy(l.col, c.col, sizeof l.col);
    memcpy(l.width, c.width, sizeof l.width);
    return l;
}

static int64_t dy_workspace(const LoraCase &c)
{
    int64_t stripes = 0;
    for (int64_t p = 0; p < c.parts; p++)
        stripes += lora_dy_stripes(c.width[p], c.rank);
    return lora_dy_cuda_workspace(c.rows, stripes, widths(c), c.rank);
}

/* du (rows, parts * rank) = scale dy b */
UNWATCHED static double *dy_times_b(const LoraCase &l, const double *dy, const double *b)
{
    double *du = HOST(double, l.rows * l.parts * l.rank);
    for (int64_t p = 0; p < l.parts; b += l.width[p++] * l.rank)
        for (int64_t i = 0; i < l.rows; i++)
            for (int64_t r = 0; r < l.rank; r++) {
                double sum = 0;
                for (int64_t j = 0; j < l.width[p]; j++)
                    sum += dy[i * l.out + l.col[p] + j] * b[j * l.rank + r];
                du[(i * l.parts + p) * l.rank + r] = l.scale * sum;
            }
    return du;
}

template <int RANK> static void run_dy_case(LoraCase l, int beta, bool folded)
{
    l.folded = folded;
    const Lora layer = dy_layer(l);
    const int64_t all = l.parts * RANK, nu = l.rows * all, nb = widths(l) * RANK;
    const int64_t ny = l.rows * l.out, nx = l.rows * l.in, na = all * l.in;
    act_t *dy = act_normal(ny, 0, 1), *u = act_normal(l.rows * layer.row, 0, 1);
    act_t *b = act_normal(nb, 0, 1), *du = NEW(act_t, nu);
    float *db0 = f32_normal(nb, 0, 1), *db = beta ? f32_copy(db0, nb) : NEW(float, nb);
    double *dy_ = act_double(dy, ny), *b_ = act_double(b, nb);
    double *db_ = cleared(f32_double(db0, nb), nb, !beta);
    void *ws = new_bytes(dy_workspace(l));
    run([&] { lora_dy<RANK>(du, db, dy, u, b, beta, &layer, ws, stream); });
    lora_bwd_ref(HOST(double, nx), HOST(double, na), db_, dy_, HOST(double, nx),
                 act_double(columns(u, l.rows, layer.row, layer.in, all), nu), HOST(double, na), b_,
                 HOST(double, l.parts * nx), &l);
    check_act(l.name, du, dy_times_b(l, dy_, b_), nu, l.out);
    check_via_act("db", db, db_, nb, l.rows);
}

template <int RANK> static void run_dy_cases()
{
    for (const LoraCase &l : dy_cases)
        for (int variant = 0; l.rank == RANK && variant < 4; variant++)
            run_dy_case<RANK>(l, variant & 1, variant >> 1);
}

TEST(lora_dy)
{
    run_dy_cases<8>();
    run_dy_cases<16>();
    run_dy_cases<24>();
    run_dy_cases<32>();
}

/* dx0 + du a, rounded once, of numbers whose sums are exact in fp32. */
UNWATCHED static act_t *exact_sum(const act_t *dx0, const act_t *du, const act_t *a, int64_t rows, int64_t F,
                        int64_t rank)
{
    double *sum = act_double(dx0, rows * F), *du_ = act_double(du, rows * rank);
    double *a_ = act_double(a, rank * F);
    for (int64_t i = 0; i < rows * F; i++)
        for (int64_t r = 0; r < rank; r++)
            sum[i] += du_[i / F * rank + r] * a_[r * F + i % F];
    return act_from(sum, rows * F);
}

/* -3 .. 3 units */
static act_t *few_units(int64_t n, double unit)
{
    double *x = HOST(double, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = unit * ((double)(random_u32() % 7) - 3);
    return act_from(x, n);
}

/* Inside the gradient of a gated unit, whose dh may be a sum: the bits of the kernels in turn. */
template <int RANK, int GATE>
static void run_gated_case(int64_t rows, int64_t F, bool in_place, bool dx)
{
    const LoraCase l = { .name = "gated", .rows = rows, .in = 16, .out = 2 * F, .rank = RANK,
                         .parts = 2, .col = { 0, F }, .width = { F, F }, .scale = 2, .T = rows,
                         .beta = 1, .folded = true };
    const Lora layer = dy_layer(l);
    const int64_t nu = rows * 2 * RANK, nb = 2 * F * RANK, ny = rows * 2 * F;
    act_t *du_h = few_units(rows * RANK, 1), *a_h = few_units(RANK * F, 1);
    act_t *dx0 = dx ? few_units(ny / 2, 0.125) : act_normal(ny / 2, 0, 1);
    const act_t *dh = dx ? exact_sum(dx0, du_h, a_h, rows, F, RANK) : dx0;
    act_t *gu = act_normal(ny, 0, 2);
    act_t *u = act_normal(rows * layer.row, 0, 1), *b = act_normal(nb, 0, 1);
    act_t *want = NEW(act_t, ny), *du_ = NEW(act_t, nu), *du = NEW(act_t, nu);
    float *db0 = f32_normal(nb, 0, 1), *db_ = f32_copy(db0, nb), *db = f32_copy(db0, nb);
    void *ws = new_bytes(dy_workspace(l));
    run([&] {
        gated_bwd<GATE>(want, dh, gu, rows, F, stream);
        lora_dy<RANK>(du_, db_, want, u, b, ACCUMULATE, &layer, ws, stream);
    });
    act_t *dy = in_place ? gu : NEW(act_t, ny);
    run([&] {
        if (dx)
            gated_bwd_lora_dx<RANK, GATE>(dy, du, db, dx0, du_h, a_h, gu, u, b, ACCUMULATE, &layer,
                                          ws, stream);
        else
            gated_bwd_lora<RANK, GATE>(dy, du, db, dh, gu, u, b, ACCUMULATE, &layer, ws, stream);
    });
    check_same("dy", dy, want, ny * (int64_t)sizeof *dy);
    check_same("du", du, du_, nu * (int64_t)sizeof *du);
    check_same("db", db, db_, nb * (int64_t)sizeof *db);
}

TEST(lora_dy_inside)
{
    run_gated_case<16, SILU_GATE>(270, 520, false, false);
    run_gated_case<16, GELU_GATE>(128, 64, true, false);
    run_gated_case<32, SILU_GATE>(65, 200, true, false);
    run_gated_case<8, GELU_GATE>(20, 72, false, false);
}

TEST(lora_dx_inside)
{
    run_gated_case<16, SILU_GATE>(270, 520, false, true);
    run_gated_case<16, GELU_GATE>(128, 64, true, true);
    run_gated_case<24, SILU_GATE>(65, 200, true, true);
    run_gated_case<8, GELU_GATE>(20, 72, false, true);
}
#endif

/* The masks do not depend on how a global batch is cut into micro-batches, and drop about the share
 * asked for. */
TEST(lora_masks)
{
    const Lora l = { .rows = 40, .in = 101, .row = 101, .rank = 1, .parts = 1, .col = { 0 }, .width = { 1 },
                     .dropout = 0.25f, .T = 10 };
    const int64_t n = l.rows * l.in;
    Lora part = l;
    part.rows = 20;
    const uint32_t next[4] = { noise_host[0], noise_host[1], noise_host[2], noise_host[3] + 2 };
    uint32_t *noise = upload(noise_host, 4), *second = upload(next, 4);
    act_t *x = act_normal(n, 3, 0.1), *all = NEW(act_t, n), *half = NEW(act_t, n);
    run([&] {
        lora_drop_(all, x, noise, 9, &l, stream);
        lora_drop_(half, x, noise, 9, &part, stream);
        lora_drop_(half + n / 2, x + n / 2, second, 9, &part, stream);
    });
    check_same("two halves", all, half, n * (int64_t)sizeof(act_t));
    const double *got = act_double(all, n);
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        kept += got[i] != 0;
    check_true("share", fabs((double)kept / (double)n - 0.75) < 5 * sqrt(0.25 * 0.75 / (double)n));
}

/* Qwen2.5-7B: q, k, v and gate, up of 8192 tokens. */
static const LoraCase bench_layers[] = {
    { .name = "qkv", .rows = 8192, .in = 3584, .out = 4608, .rank = 16, .parts = 3,
      .col = { 0, 3584, 4096 }, .width = { 3584, 512, 512 }, .scale = 2, .T = 2048 },
    { .name = "gate, up", .rows = 8192, .in = 3584, .out = 37888, .rank = 16, .parts = 2,
      .col = { 0, 18944 }, .width = { 18944, 18944 }, .scale = 2, .T = 2048 },
};

/* The layer with its adapters, forward: its own product is part of both ways. */
static void bench_forward(const LoraCase &l)
{
    const int64_t all = l.parts * l.rank, row = l.in + (l.folded ? all : 0);
    uint32_t *noise = upload(noise_host, 4);
    act_t *x = act_normal(l.rows * row, 0, 1), *w = act_normal(l.out * row, 0, 0.01);
    act_t *a = act_normal(all * l.in, 0, 0.01), *b = act_normal(widths(l) * l.rank, 0, 0.01);
    act_t *y = NEW(act_t, l.rows * l.out), *u = NEW(act_t, l.rows * all);
    void *ws =
        new_bytes(lora_cuda_workspace(l.rows, l.in, l.rank, l.parts, l.dropout, sizeof(act_t)));
    LoraProducts made;
    const Lora layer = lora_of(l, made);
    Gemm base = { .name = "base", .m = l.rows, .n = l.out, .k = row, .form = GEMM_NT };
    gemm_init(&base);
    char what[80];
    snprintf(what, sizeof what, "%s with adapters%s, dropout %g", l.name,
             l.folded ? " folded" : "", (double)l.dropout);
    bench_report(what, bench_time([&] {
                     if (l.folded)
                         lora_fold(x, w, a, b, noise, site, &layer, ws, stream);
                     gemm_run(&base, y, x, w, NULL, NULL, ws, stream);
                     if (!l.folded)
                         lora_fwd(y, u, x, a, b, noise, site, &layer, ws, stream);
                 }),
                 0, 2 * (double)l.rows * (double)l.out * (double)l.in);
}

static void bench_backward(const LoraCase &l)
{
    const int64_t nx = l.rows * l.in, ny = l.rows * l.out, all = l.parts * l.rank;
    const int64_t nb = widths(l) * l.rank;
    uint32_t *noise = upload(noise_host, 4);
    act_t *x = act_normal(nx, 0, 1), *dy = act_normal(ny, 0, 1), *dx = act_normal(nx, 0, 1);
    act_t *u = act_normal(l.rows * all, 0, 1);
    act_t *a = act_normal(all * l.in, 0, 0.01), *b = act_normal(nb, 0, 0.01);
    float *da = NEW(float, all * l.in), *db = NEW(float, nb);
    void *ws =
        new_bytes(lora_cuda_workspace(l.rows, l.in, l.rank, l.parts, l.dropout, sizeof(act_t)));
    LoraProducts made;
    const Lora layer = lora_of(l, made);
    char what[80];
    snprintf(what, sizeof what, "lora_bwd %s, dropout %g", l.name, (double)l.dropout);
    bench_report(what, bench_time([&] {
                     lora_bwd(dx, da, db, dy, x, u, a, b, noise, site, &layer, ws, stream);
                 }),
                 (double)(3 * nx + 2 * ny) * sizeof(act_t), 0);
}

#if defined ACT_BF16 || defined ACT_F16
/* What lora_bwd reads dy for; of gate, up with the gradient of the gated unit, and without. */
static void bench_dy(const LoraCase &l)
{
    const Lora layer = dy_layer(l);
    const int64_t ny = l.rows * l.out, nu = l.rows * l.parts * l.rank, nb = widths(l) * l.rank;
    act_t *dy = act_normal(ny, 0, 1), *u = act_normal(nu, 0, 1), *b = act_normal(nb, 0, 0.01);
    act_t *du = NEW(act_t, nu), *dh = act_normal(ny / 2, 0, 1), *gu = act_normal(ny, 0, 1);
    act_t *du_h = act_normal(l.rows * l.rank, 0, 1), *a_h = act_normal(l.rank * l.out / 2, 0, 0.01);
    float *db = NEW(float, nb);
    void *ws = new_bytes(dy_workspace(l));
    const double bytes = (double)ny * sizeof(act_t);
    char what[80];
    snprintf(what, sizeof what, "lora_dy %s", l.name);
    bench_report(what, bench_time([&] {
                     lora_dy<16>(du, db, dy, u, b, OVERWRITE, &layer, ws, stream);
                 }),
                 bytes, 0);
    if (l.parts != 2)
        return;
    bench_report("gated_bwd_lora", bench_time([&] {
                     gated_bwd_lora<16, SILU_GATE>(dy, du, db, dh, gu, u, b, OVERWRITE, &layer, ws,
                                                   stream);
                 }),
                 2.5 * bytes, 0);
    bench_report("gated_bwd_lora_dx", bench_time([&] {
                     gated_bwd_lora_dx<16, SILU_GATE>(dy, du, db, dh, du_h, a_h, gu, u, b,
                                                      OVERWRITE, &layer, ws, stream);
                 }),
                 2.5 * bytes, 0);
}

BENCH(lora_dy)
{
    for (const LoraCase &l : bench_layers)
        bench_dy(l);
}
#endif

BENCH(lora)
{
    gemm_setup();
    for (LoraCase l : bench_layers)
        for (float dropout : { 0.0f, 0.05f }) {
            l.dropout = dropout;
            for (bool folded : { false, true }) {
                l.folded = folded;
                bench_forward(l);
            }
            l.folded = false;
            bench_backward(l);
        }
}
