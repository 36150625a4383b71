/* c_pointwise.cpp -- pointwise.cuh, activation.cuh, dropout.cuh and bias_rows.cuh. */
// same: the kernels are one source in fp32 and bf16
#include "../../kernels/cuda/activation.cuh"
#include "../../kernels/cuda/bias_rows.cuh"
#include "../../kernels/cuda/dropout.cuh"
#include "../../kernels/cuda/pointwise.cuh"
#include "harness.h"
#include "masks.h"
#include "unwatched.h"

/* Around a warp, a block; 20001: several blocks and a tail. */
static const int64_t sizes[] = { 31, 64, 255, 2048, 2051, 20001 };

/* The same in a buffer that begins one element off: no vectors. */
static act_t *act_shifted(const act_t *x, int64_t n)
{
    act_t *host = HOST(act_t, n + 1);
    memcpy(host + 1, download(x, n), (size_t)n * sizeof *x);
    host[0] = host[1];
    return upload(host, n + 1) + 1;
}

TEST(add_fwd)
{
    for (int64_t n : sizes) {
        act_t *a = act_normal(n, 0, 1), *b = act_normal(n, 0, 3), *y = NEW(act_t, n);
        double *want = act_double(a, n), *b_ = act_double(b, n);
        for (int64_t i = 0; i < n; i++)
            want[i] += b_[i];
        run([&] { add_fwd(y, a, b, n, stream); });
        check_act_exact("y", y, want, n);
        act_t *odd = act_shifted(a, n);
        run([&] { add_fwd(odd, odd, b, n, stream); });
        check_same("one element off, in place", odd, y, n * (int64_t)sizeof *y);
        run([&] { add_fwd(b, a, b, n, stream); });
        check_same("in place", b, y, n * (int64_t)sizeof *y);
    }
}

/* Rows of whole quads and not; the site's own mask; samples cut in two. */
TEST(dropout_fwd)
{
    static const int64_t columns[] = { 1, 3, 8, 24, 130, 1100 };
    constexpr int64_t T = 7, ROWS = 4 * T;
    constexpr float p = 0.3f;
    const uint32_t key[4] = { random_u32(), random_u32(), 7, 40 };
    const uint32_t later[4] = { key[0], key[1], 7, 42 };
    const uint32_t *noise = upload(key, 4), *second = upload(later, 4);
    for (int64_t C : columns) {
        const int64_t n = ROWS * C;
        act_t *x = act_normal(n, 0, 1), *y = NEW(act_t, n), *half = NEW(act_t, n);
        double *want = HOST(double, n), *kept = HOST(double, n), *x_ = act_double(x, n);
        for (int64_t i = 0; i < n; i++)
            kept[i] = cpu::dropout_keep(key, 4 * 5 + 3, T, i / C, (uint32_t)(i % C), p) ? 1 / (1 - p) : 0;
        dropout_fwd_ref(want, x_, kept, n);
        run([&] { dropout_fwd(y, x, noise, 5, p, ROWS, T, C, stream); });
        check_act("y", y, want, n, 1);
        run([&] {
            dropout_fwd(half, x, noise, 5, p, ROWS / 2, T, C, stream);
            dropout_fwd(half + n / 2, x + n / 2, second, 5, p, ROWS / 2, T, C, stream);
        });
        check_same("two halves", half, y, n * (int64_t)sizeof *y);
        act_t *odd = act_shifted(x, n);
        run([&] { dropout_fwd(odd, odd, noise, 5, p, ROWS, T, C, stream); });
        check_same("one element off, in place", odd, y, n * (int64_t)sizeof *y);
    }
}

/* Dropout joined to its neighbours, and the sums of a bias: the bits of the kernels in turn, also in
 * place. Rows: fewer than parts, and more. */
TEST(dropout_joined)
{
    constexpr int64_t T = 7;
    constexpr float p = 0.3f;
    const uint32_t key[4] = { random_u32(), random_u32(), 7, 40 };
    const uint32_t *noise = upload(key, 4);
    static const int64_t shapes[][2] = { { 4 * T, 8 }, { 91 * T, 24 }, { 3 * T, 264 }, { T, 130 } };
    for (auto &shape : shapes) {
        const int64_t rows = shape[0], C = shape[1], n = rows * C;
        const int64_t bytes = n * (int64_t)sizeof(act_t);
        act_t *x = act_normal(n, 0, 1), *r = act_normal(n, 0, 1), *kept = NEW(act_t, n);
        act_t *want = NEW(act_t, n), *y = NEW(act_t, n);
        run([&] {
            gelu_erf_fwd(want, x, n, stream);
            dropout_fwd(want, want, noise, 5, p, rows, T, C, stream);
            gelu_erf_dropout_fwd(y, x, noise, 5, p, rows, T, C, stream);
        });
        check_same("dropout of gelu", y, want, bytes);
        run([&] {
            dropout_fwd(kept, x, noise, 5, p, rows, T, C, stream);
            add_fwd(want, r, kept, n, stream);
            dropout_add_fwd(y, x, r, noise, 5, p, rows, T, C, stream);
        });
        check_same("dropout and sum", y, want, bytes);
        act_t *odd = act_shifted(x, n);
        run([&] { dropout_add_fwd(odd, odd, r, noise, 5, p, rows, T, C, stream); });
        check_same("dropout and sum, one element off, in place", odd, want, bytes);
        if (C % 8)
            continue;
        void *ws = new_bytes(bias_grad_cuda_workspace(C));
        float *before = f32_normal(C, 0, 1);
        for (int beta = 0; beta < 2; beta++) {
            float *want_db = f32_copy(before, C), *db = f32_copy(before, C);
            run([&] {
                bias_grad(want_db, kept, rows, C, beta, ws, stream);
                dropout_bias_grad(db, y, x, noise, 5, p, rows, T, C, beta, ws, stream);
            });
            check_same("masked gradient", y, kept, bytes);
            check_same("its sums", db, want_db, 4 * C);
        }
        float *want_db = NEW(float, C), *db = NEW(float, C);
        run([&] {
            gelu_erf_bwd(want, x, r, n, stream);
            bias_grad(want_db, want, rows, C, 0, ws, stream);
            gelu_erf_bwd_bias(db, y, x, r, rows, C, 0, ws, stream);
        });
        check_same("gradient of gelu", y, want, bytes);
        check_same("its sums", db, want_db, 4 * C);
        run([&] {
            gelu_erf_bwd(want, kept, r, n, stream);
            bias_grad(want_db, want, rows, C, 0, ws, stream);
            dropout_gelu_erf_bwd_bias(db, x, x, r, noise, 5, p, rows, T, C, 0, ws, stream);
        });
        check_same("masked gradient of gelu, in place", x, want, bytes);
        check_same("its sums", db, want_db, 4 * C);
    }
}

TEST(cast_fwd)
{
    for (int64_t n : sizes) {
        float *x = f32_normal(n, 0, 1);
        act_t *y = NEW(act_t, n);
        run([&] { cast_fwd(y, x, n, stream); });
        check_act_exact("y", y, f32_double(x, n), n);
    }
}

typedef struct {
    void (*fwd_ref)(double *y, const double *x, int64_t n);
    void (*bwd_ref)(double *dx, const double *dy, const double *x, int64_t n);
    void (*fwd)(act_t *y, const act_t *x, int64_t n, cudaStream_t s);
    void (*bwd)(act_t *dx, const act_t *dy, const act_t *x, int64_t n, cudaStream_t s);
} Activation;

static void check_activation(Activation f)
{
    for (int64_t n : sizes) {
        act_t *drawn = act_normal(n, 0, 3), *dy = act_normal(n, 0, 1), *y = NEW(act_t, n);
        act_t *dx = NEW(act_t, n);
        double *want = HOST(double, n), *grad = HOST(double, n);
        double *x_ = act_double(drawn, n), *dy_ = act_double(dy, n);
        for (int64_t i = 0; i < n; i++)         /* no kink within a step of finite differences */
            if (fabs(x_[i]) < 1e-2)
                x_[i] = 1;
        act_t *x = act_from(x_, n);
        f.bwd_ref(grad, dy_, x_, n);
        auto loss = [&] { return f.fwd_ref(want, x_, n), dot(want, dy_, n); };
        check_gradient("dx", loss, x_, grad, n);
        loss();
        run([&] { f.fwd(y, x, n, stream); });
        check_act("y", y, want, n, 1);
        run([&] { f.bwd(dx, dy, x, n, stream); });
        check_act("dx", dx, grad, n, 1);
        act_t *x1 = act_shifted(x, n), *dy1 = act_shifted(dy, n);
        run([&] { f.bwd(dy1, dy1, x1, n, stream); });
        check_same("one element off, in place", dy1, dx, n * (int64_t)sizeof *dx);
        run([&] { f.bwd(x1, dy, x1, n, stream); });
        check_same("over x", x1, dx, n * (int64_t)sizeof *dx);
        run([&] { f.fwd(x, x, n, stream); });
        check_same("y in place", x, y, n * (int64_t)sizeof *y);
    }
}

TEST(gelu) { check_activation({ gelu_fwd_ref, gelu_bwd_ref, gelu_fwd, gelu_bwd }); }

TEST(gelu_erf)
{
    check_activation({ gelu_erf_fwd_ref, gelu_erf_bwd_ref, gelu_erf_fwd, gelu_erf_bwd });
}

TEST(relu) { check_activation({ relu_fwd_ref, relu_bwd_ref, relu_fwd, relu_bwd }); }

/* torch 2.15.0 in float64: gelu(x, approximate="tanh") and silu(x); x erfc(-x / sqrt 2) / 2 by
 * libm. */
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
    const int N = sizeof rows / sizeof rows[0];
    double x[N], gu[2 * N], gelu[N], silu[N], gelu_erf[N];
    for (int i = 0; i < N; i++) {
        x[i] = gu[i] = rows[i][0];
        gu[N + i] = 1;
        gelu[i] = rows[i][1];
        silu[i] = rows[i][2];
        gelu_erf[i] = rows[i][3];
    }
    act_t *x_ = act_from(x, N), *gu_ = act_from(gu, 2 * N), *y = NEW(act_t, N);
    run([&] { gelu_fwd(y, x_, N, stream); });
    check_act("gelu", y, gelu, N, 1);
    run([&] { gelu_erf_fwd(y, x_, N, stream); });
    check_act("gelu_erf", y, gelu_erf, N, 1);
    run([&] { swiglu_fwd(y, gu_, 1, N, stream); });
    check_act("silu", y, silu, N, 1);
    run([&] { geglu_fwd(y, gu_, 1, N, stream); });
    check_act("gelu of a gate", y, gelu, N, 1);
}

/* A NaN stays one, in its place; infinities have their limits. */
TEST(activation_nonfinite)
{
    const int N = 16;
    double x[2 * N], one[N];
    for (int i = 0; i < 2 * N; i++)
        x[i] = 1, one[i % N] = 1;
    x[3] = NAN;
    x[5] = INFINITY;
    x[N + 6] = NAN;
    act_t *x_ = act_from(x, 2 * N), *dy = act_from(one, N);
    act_t *out[] = { NEW(act_t, N), NEW(act_t, N), NEW(act_t, N), NEW(act_t, N), NEW(act_t, 2 * N) };
    act_t *erf[] = { NEW(act_t, N), NEW(act_t, N) }, *relu = NEW(act_t, N);
    run([&] {
        gelu_fwd(out[0], x_, N, stream);
        gelu_bwd(out[1], dy, x_, N, stream);
        swiglu_fwd(out[2], x_, 1, N, stream);
        geglu_fwd(out[3], x_, 1, N, stream);
        swiglu_bwd(out[4], dy, x_, 1, N, stream);
        gelu_erf_fwd(erf[0], x_, N, stream);
        gelu_erf_bwd(erf[1], dy, x_, N, stream);
        relu_fwd(relu, x_, N, stream);
    });
    double *got[5];
    for (int k = 0; k < 5; k++)
        got[k] = act_double(out[k], k == 4 ? 2 * N : N);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 5; k++) {
            bool want = i == 3 || (i == 6 && k >= 2), have = isnan(got[k][i]);
            if (i != 5)
                check_true("NaN where it came in", have == want);
        }
    for (act_t *y : { erf[0], erf[1], relu }) {
        double *have = act_double(y, N);
        for (int i = 0; i < N; i++)
            check_true("NaN where it came in", isnan(have[i]) == (i == 3));
        check_true("y(inf), slope(inf)", have[5] == (y == erf[1] ? 1 : INFINITY));
    }
    check_true("gelu(inf)", got[0][5] == INFINITY);
    check_true("silu(inf)", got[2][5] == INFINITY && got[3][5] == INFINITY);
}

struct Gated {
    void (*fwd_ref)(double *h, const double *gu, int64_t rows, int64_t F);
    void (*bwd_ref)(double *dgu, const double *dh, const double *gu, int64_t rows, int64_t F);
    void (*terms)(double *dgu, const double *dh, const double *gu, int64_t rows, int64_t F);
    void (*fwd)(act_t *h, const act_t *gu, int64_t rows, int64_t F, cudaStream_t s);
    void (*bwd)(act_t *dgu, const act_t *dh, const act_t *gu, int64_t rows, int64_t F, cudaStream_t s);
};

static void check_gated(Gated f)
{
    static const int64_t shapes[][2] = { { 1, 33 }, { 7, 5 }, { 7, 64 }, { 5, 257 }, { 33, 688 } };
    for (const int64_t *shape : shapes) {
        const int64_t rows = shape[0], F = shape[1], n = rows * F, size = sizeof(act_t);
        act_t *gu = act_normal(2 * n, 0, 2), *dh = act_normal(n, 0, 1), *h = NEW(act_t, n);
        act_t *dgu = NEW(act_t, 2 * n);
        double *want = HOST(double, n), *grad = HOST(double, 2 * n);
        double *gu_ = act_double(gu, 2 * n), *dh_ = act_double(dh, n);
        f.bwd_ref(grad, dh_, gu_, rows, F);
        auto loss = [&] { return f.fwd_ref(want, gu_, rows, F), dot(want, dh_, n); };
        check_gradient("dgu", loss, gu_, grad, 2 * n);
        loss();
        run([&] { f.fwd(h, gu, rows, F, stream); });
        check_act("h", h, want, n, 1);
        run([&] { f.bwd(dgu, dh, gu, rows, F, stream); });
        double *dgu_terms = HOST(double, 2 * n);
        f.terms(dgu_terms, dh_, gu_, rows, F);
        check_act_terms("dgu", dgu, grad, dgu_terms, 2 * n, 1);
        act_t *odd = act_shifted(gu, 2 * n), *h1 = NEW(act_t, n);
        run([&] { f.fwd(h1, odd, rows, F, stream); });
        check_same("one element off", h1, h, n * size);
        run([&] { f.bwd(odd, dh, odd, rows, F, stream); });
        check_same("one element off, in place", odd, dgu, 2 * n * size);
        run([&] { f.bwd(gu, dh, gu, rows, F, stream); });
        check_same("in place", gu, dgu, 2 * n * size);
    }
}

TEST(swiglu)
{
    check_gated({ swiglu_fwd_ref, swiglu_bwd_ref, swiglu_terms, swiglu_fwd, swiglu_bwd });
}

TEST(geglu)
{
    check_gated({ geglu_fwd_ref, geglu_bwd_ref, geglu_terms, geglu_fwd, geglu_bwd });
}

TEST(scale_fwd)
{
    for (int64_t n : { 1, 33, 64, 1003 }) {
        act_t *x = act_normal(n, 0, 1), *y = NEW(act_t, n), *odd = act_shifted(x, n);
        double *want = act_double(x, n);
        for (int64_t i = 0; i < n; i++)
            want[i] = (float)want[i] * 55.5f;
        run([&] { scale_fwd(y, x, 55.5f, n, stream), scale_fwd(odd, odd, 55.5f, n, stream); });
        check_act_exact("y", y, want, n);
        check_act_exact("one element off, in place", odd, want, n);
    }
}

/* Around a vector: as the first elements of more. The tolerance needs more to mean something. */
TEST(pointwise_few)
{
    const int64_t N = 32, size = sizeof(act_t);
    act_t *a = act_normal(N, 0, 2), *b = act_normal(N, 0, 1), *all[3], *few[3];
    for (act_t *&y : all)
        y = NEW(act_t, N);
    run([&] {
        add_fwd(all[0], a, b, N, stream);
        gelu_fwd(all[1], a, N, stream);
        gelu_bwd(all[2], b, a, N, stream);
    });
    for (int64_t n : { 1, 3, 4, 5, 7, 8, 9 }) {
        for (act_t *&y : few)
            y = NEW(act_t, n);
        run([&] {
            add_fwd(few[0], a, b, n, stream);
            gelu_fwd(few[1], a, n, stream);
            gelu_bwd(few[2], b, a, n, stream);
        });
        for (int k = 0; k < 3; k++)
            check_same("first elements", few[k], all[k], n * size);
    }
}

BENCH(pointwise)
{
    const int64_t rows = 8192, F = 8192, n = rows * F, size = sizeof(act_t);
    act_t *gu = act_normal(2 * n, 0, 1), *h = NEW(act_t, n), *dh = act_copy(gu, n);
    act_t *dgu = NEW(act_t, 2 * n);
    const double bytes = (double)(n * size);
    bench_report("add_fwd", bench_time([&] { add_fwd(h, gu, dh, n, stream); }), 3 * bytes, 0);
    bench_report("gelu_fwd", bench_time([&] { gelu_fwd(h, gu, n, stream); }), 2 * bytes, 0);
    bench_report("gelu_bwd", bench_time([&] { gelu_bwd(h, dh, gu, n, stream); }), 3 * bytes, 0);
    bench_report("swiglu_fwd", bench_time([&] { swiglu_fwd(h, gu, rows, F, stream); }),
                 3 * bytes, 0);
    bench_report("swiglu_bwd", bench_time([&] { swiglu_bwd(dgu, dh, gu, rows, F, stream); }),
                 5 * bytes, 0);
}
