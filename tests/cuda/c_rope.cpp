/* c_rope.cpp -- rope.cuh. */
// same: the kernels are one source in fp32 and bf16
#include "../../kernels/cuda/rope.cuh"
#include "../kernels/rope_hf.h"
#include "harness.h"
#include "unwatched.h"
#include "../kernels/documents.h"

#include <math.h>

/* B, T, NH, KV, D: half heads in vectors and not, more heads than a block, several rows a block */
static const int64_t shapes[][5] = {
    { 1, 1, 1, 1, 2 },   { 2, 5, 3, 1, 6 },    { 2, 40, 4, 2, 16 }, { 1, 37, 6, 6, 64 },
    { 1, 9, 28, 4, 128 }, { 1, 3, 64, 8, 128 }, { 2, 7, 5, 5, 80 },  { 1, 2, 1, 1, 1026 },
};

/* Against the double reference with the same tables; the inverse; documents; v untouched. */
TEST(rope)
{
    for (auto &shape : shapes) {
        const int64_t T = shape[1], NH = shape[2], KV = shape[3], D = shape[4], pairs = D / 2;
        const int64_t rows = shape[0] * T, N = (NH + 2 * KV) * D, n = rows * N;
        float *cosine = NEW(float, T * pairs), *sine = NEW(float, T * pairs);
        act_t *qkv = act_normal(n, 0, 1);
        double *want = act_double(qkv, n);
        run([&] {
            rope_table(cosine, sine, T, D / 2, RopeRule{.theta = 10000}, stream);
            rope_fwd(qkv, cosine, sine, NULL, rows, T, NH, KV, D, stream);
        });
        double *c = f32_double(cosine, T * pairs), *s = f32_double(sine, T * pairs);
        rope_ref(want, c, s, NULL, rows, T, NH, KV, D, 0);
        check_act("forward", qkv, want, n, 2);

        want = act_double(qkv, n);
        rope_ref(want, c, s, NULL, rows, T, NH, KV, D, 1);
        run([&] { rope_bwd(qkv, cosine, sine, NULL, rows, T, NH, KV, D, stream); });
        check_act("backward", qkv, want, n, 2);

        int32_t *positions_ = HOST(int32_t, rows), *doc_ends_ = HOST(int32_t, rows);
        documents_draw(positions_, doc_ends_, shape[0], T);
        const int32_t *positions = upload(positions_, rows);
        want = act_double(qkv, n);
        rope_ref(want, c, s, positions_, rows, T, NH, KV, D, 0);
        run([&] { rope_fwd(qkv, cosine, sine, positions, rows, T, NH, KV, D, stream); });
        check_act("forward by places", qkv, want, n, 2);
        want = act_double(qkv, n);
        rope_ref(want, c, s, positions_, rows, T, NH, KV, D, 1);
        run([&] { rope_bwd(qkv, cosine, sine, positions, rows, T, NH, KV, D, stream); });
        check_act("backward by places", qkv, want, n, 2);
    }
}

/* In 16-bit types each product is rounded before the sum, as eager arithmetic does. */
TEST(rope_cast_order)
{
    const int64_t T = 8, D = 32, pairs = D / 2, N = 3 * D;
    float *cosine = NEW(float, T * pairs), *sine = NEW(float, T * pairs);
    act_t *qkv = act_normal(T * N, 0, 1);
    double *want = act_double(qkv, T * N);
    run([&] {
        rope_table(cosine, sine, T, D / 2, RopeRule{.theta = 100}, stream);
        rope_fwd(qkv, cosine, sine, NULL, T, T, 1, 1, D, stream);
    });
    const float *c = download(cosine, T * pairs), *s = download(sine, T * pairs);
    for (int64_t i = 0; i < T * 2 * pairs; i++) {
        const int64_t t = i / (2 * pairs), h = i / pairs % 2, j = i % pairs;
        double *x1 = want + t * N + h * D + j, *x2 = x1 + pairs;
        const float a = (float)*x1, b = (float)*x2, cj = c[t * pairs + j], sj = s[t * pairs + j];
        *x1 = act_round(a * cj) - act_round(b * sj);
        *x2 = act_round(b * cj) + act_round(a * sj);
    }
    if (sizeof(act_t) == 2)
        check_act_exact("forward", qkv, want, T * N);
    else
        check_act("forward", qkv, want, T * N, 2);
}

TEST(rope_gradient)
{
    const int64_t T = 3, NH = 2, KV = 1, D = 8, n = T * (NH + 2 * KV) * D, angles = T * D / 2;
    float *cosine = NEW(float, angles), *sine = NEW(float, angles);
    act_t *x = act_normal(n, 0, 1), *dy = act_normal(n, 0, 1);
    double *x_ = act_double(x, n), *dy_ = act_double(dy, n), *grad = act_double(dy, n);
    double *y = HOST(double, n);
    run([&] {
        rope_table(cosine, sine, T, D / 2, RopeRule{.theta = 100}, stream);
        rope_bwd(dy, cosine, sine, NULL, T, T, NH, KV, D, stream);
    });
    double *c = f32_double(cosine, angles), *s = f32_double(sine, angles);
    rope_ref(grad, c, s, NULL, T, T, NH, KV, D, 1);
    auto loss = [&] {
        memcpy(y, x_, (size_t)n * sizeof *y);
        rope_ref(y, c, s, NULL, T, T, NH, KV, D, 0);
        return dot(y, dy_, n);
    };
    check_gradient("dqkv", loss, x_, grad, n);
    check_act("dqkv", dy, grad, n, 2);
}

static const double act_half_ulp = sizeof(act_t) == 2 ? 0x1p-9 : 0;

/* The paper's formula in double; the fp32 angle allows an error of T/2 ulp(1) in the angle. */
TEST(rope_table)
{
    const int64_t T = 100, D = 64;
    float *cosine = NEW(float, T * D / 2), *sine = NEW(float, T * D / 2);
    run([&] { rope_table(cosine, sine, T, D / 2, RopeRule{.theta = 500000}, stream); });
    double *c = f32_double(cosine, T * D / 2), *s = f32_double(sine, T * D / 2), worst = 0;
    for (int64_t t = 0; t < T; t++)
        for (int64_t j = 0; j < D / 2; j++) {
            const double angle = (double)t * pow(500000, -2.0 * (double)j / (double)D);
            worst = fmax(worst, fabs(c[t * D / 2 + j] - cos(angle)));
            worst = fmax(worst, fabs(s[t * D / 2 + j] - sin(angle)));
        }
    check_true("cos and sin", worst < (double)T * 0x1p-23 + act_half_ulp);
    check_same("cos", cosine, cosine, T * D / 2 * 4);
}

/* Llama 3.1: short wavelengths stay, long ones are divided by the factor, the middle moves smoothly
 * between. Seen through the angle of position 1, which is the frequency. */
TEST(rope_table_llama3)
{
    enum { T = 2, D = 128, HALF = D / 2 };
    const double theta = 500000, factor = 8, low = 1, high = 4, original = 8192;
    float *cosine = NEW(float, T * HALF), *sine = NEW(float, T * HALF);
    run([&] {
        rope_table(cosine, sine, T, D / 2, RopeRule{.theta = theta, .factor = factor, .low = low,
                   .high = high, .original = original}, stream);
    });
    const float *c = download(cosine, T * HALF), *s = download(sine, T * HALF);
    int kept = 0, divided = 0, between = 0;
    for (int j = 0; j < HALF; j++) {
        const double f = pow(theta, -2.0 * j / (int)D), turns = original * f / (2 * acos(-1));
        const double x = (turns - low) / (high - low), smooth = x < 0 ? 0 : x > 1 ? 1 : x;
        const double want = sin(f * (smooth + (1 - smooth) / factor));
        kept += smooth == 1;
        divided += smooth == 0;
        between += smooth > 0 && smooth < 1;
        /* a small sine is below the normal numbers of fp16, 2^-14, where its steps are 2^-24 */
        check_true("sin", fabs(s[HALF + j] - want) <= (1e-6 + 2 * act_half_ulp) * want + 0x1p-25);
        check_true("cos(0) and sin(0)", c[j] == 1 && s[j] == 0);
    }
    check_true("all three ranges are met", kept && divided && between);
}

/* Linear scaling: place 4 t stands where t did; 4 is a power of two, so bit for bit. */
TEST(rope_table_linear)
{
    enum { T = 41, HALF = 32 };
    float *cosine = NEW(float, T * HALF), *sine = NEW(float, T * HALF);
    float *c = NEW(float, T * HALF), *s = NEW(float, T * HALF);
    run([&] {
        rope_table(cosine, sine, T, HALF, RopeRule{.theta = 10000}, stream);
        rope_table(c, s, T, HALF, RopeRule{.theta = 10000, .factor = 4}, stream);
    });
    for (int64_t t = 0; 4 * t < T; t++) {
        check_same("cos", c + 4 * t * HALF, cosine + t * HALF, HALF * 4);
        check_same("sin", s + 4 * t * HALF, sine + t * HALF, HALF * 4);
    }
}

/* Two tables below each other: that of theta local, and the other. */
TEST(rope_table_local)
{
    enum { T = 9, HALF = 4, TABLE = T * HALF };
    float *both = NEW(float, 2 * TABLE), *sines = NEW(float, 2 * TABLE);
    float *cosine = NEW(float, TABLE), *sine = NEW(float, TABLE);
    run([&] { rope_table(both, sines, 2 * T, HALF, RopeRule{.theta = 1000000, .local = 10000}, stream); });
    for (int k = 0; k < 2; k++) {
        const double theta = k ? 1000000 : 10000;
        run([&] { rope_table(cosine, sine, T, HALF, RopeRule{.theta = theta}, stream); });
        check_same("cos", both + k * TABLE, cosine, TABLE * 4);
        check_same("sin", sines + k * TABLE, sine, TABLE * 4);
    }
}

TEST(rope_table_hf)
{
    enum { T = 1001, LONG = 64, SHORT = 32 };
    float *cosine = NEW(float, T * LONG), *sine = NEW(float, T * LONG);
    const double tolerance = act_half_ulp > 0 ? act_half_ulp : 0x1p-23;
    run([&] {
        rope_table(cosine, sine, T, LONG, RopeRule{.theta = 500000, .factor = 8, .low = 1, .high = 4,
                   .original = 8192}, stream);
    });
    const float *c = download(cosine + 1000 * LONG, LONG);
    for (int j = 0; j < LONG; j++)
        check_true("llama3", fabs(c[j] - hf_llama3_cos[j]) <= tolerance);
    run([&] { rope_table(cosine, sine, T, SHORT, RopeRule{.theta = 10000}, stream); });
    const float *s = download(sine + 1000 * SHORT, SHORT);
    for (int j = 0; j < SHORT; j++)
        check_true("plain", fabs(s[j] - hf_plain_sin[j]) <= tolerance);
}

BENCH(rope)
{
    const int64_t B = 8, T = 2048, NH = 32, KV = 8, D = 128, N = (NH + 2 * KV) * D;
    float *cosine = NEW(float, T * D / 2), *sine = NEW(float, T * D / 2);
    act_t *qkv = NEW(act_t, B * T * N);
    fill_bytes(qkv, 0, B * T * N * (int64_t)sizeof *qkv);
    run([&] { rope_table(cosine, sine, T, D / 2, RopeRule{.theta = 500000}, stream); });
    bench_report("rope_fwd 8 x 2048, 32 + 8 heads of 128",
                 bench_time([&] { rope_fwd(qkv, cosine, sine, NULL, B * T, T, NH, KV, D, stream); }),
                 2.0 * (double)(B * T * (NH + KV) * D) * sizeof(act_t), 0);
}
