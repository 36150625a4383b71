/* b_rope.c -- rope.h. */
#include "../../kernels/cpu/rope.h"
#include "../../kernels/reference/rope.h"
#include "harness.h"
#include "documents.h"
#include "rope_hf.h"

static const int64_t shapes[][5] = {        /* B, T, NH, KV, D */
    { 1, 1, 1, 1, 2 }, { 2, 5, 3, 1, 6 }, { 2, 40, 4, 2, 16 }, { 1, 37, 6, 6, 64 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Against the double reference with the same tables; the inverse; documents; v untouched. */
TEST(rope)
{
    for (int k = 0; k < SHAPES; k++) {
        const int64_t T = shapes[k][1], NH = shapes[k][2], KV = shapes[k][3], D = shapes[k][4];
        const int64_t rows = shapes[k][0] * T, N = (NH + 2 * KV) * D, n = rows * N;
        float *cosine = NEW(float, T * D / 2), *sine = NEW(float, T * D / 2);
        rope_table(cosine, sine, T, D / 2, &(RopeRule){.theta = 10000});
        act_t *qkv = act_normal(n, 0, 1);
        double *want = act_double(qkv, n);
        double *c = f32_double(cosine, T * D / 2), *s = f32_double(sine, T * D / 2);
        rope_ref(want, c, s, NULL, rows, T, NH, KV, D, 0);
        rope_fwd(qkv, cosine, sine, NULL, rows, T, NH, KV, D);
        check_act("forward", qkv, want, n, 2);

        want = act_double(qkv, n);
        rope_ref(want, c, s, NULL, rows, T, NH, KV, D, 1);
        rope_bwd(qkv, cosine, sine, NULL, rows, T, NH, KV, D);
        check_act("backward", qkv, want, n, 2);

        int32_t *positions = NEW(int32_t, rows), *doc_ends = NEW(int32_t, rows);
        documents_draw(positions, doc_ends, shapes[k][0], T);
        want = act_double(qkv, n);
        rope_ref(want, c, s, positions, rows, T, NH, KV, D, 0);
        rope_fwd(qkv, cosine, sine, positions, rows, T, NH, KV, D);
        check_act("forward by places", qkv, want, n, 2);
        want = act_double(qkv, n);
        rope_ref(want, c, s, positions, rows, T, NH, KV, D, 1);
        rope_bwd(qkv, cosine, sine, positions, rows, T, NH, KV, D);
        check_act("backward by places", qkv, want, n, 2);
    }
}

typedef struct {
    double *qkv, *y, *dy, *cosine, *sine;
} Rope;

enum { FT = 3, FNH = 2, FKV = 1, FD = 8, FN = FT * (FNH + 2 * FKV) * FD };

static double rope_loss(void *ctx)
{
    Rope *p = ctx;
    memcpy(p->y, p->qkv, FN * sizeof *p->y);
    rope_ref(p->y, p->cosine, p->sine, NULL, FT, FT, FNH, FKV, FD, 0);
    return dot(p->y, p->dy, FN);
}

TEST(rope_gradient)
{
    float cosine[FT * FD / 2], sine[FT * FD / 2];
    rope_table(cosine, sine, FT, FD / 2, &(RopeRule){.theta = 100});
    act_t *x = act_normal(FN, 0, 1), *dy = act_normal(FN, 0, 1);
    Rope p = { act_double(x, FN), NEW(double, FN), act_double(dy, FN),
               f32_double(cosine, FT * FD / 2), f32_double(sine, FT * FD / 2) };
    double *grad = act_double(dy, FN);
    rope_ref(grad, p.cosine, p.sine, NULL, FT, FT, FNH, FKV, FD, 1);
    check_gradient("dqkv", rope_loss, &p, p.qkv, grad, FN);
    rope_bwd(dy, cosine, sine, NULL, FT, FT, FNH, FKV, FD);
    check_act("dqkv", dy, grad, FN, 2);
}

/* The paper's formula in double; the fp32 angle allows an error of T/2 ulp(1) in the angle. */
TEST(rope_table)
{
    const int64_t T = 100, D = 64;
    float *cosine = NEW(float, T * D / 2), *sine = NEW(float, T * D / 2);
    rope_table(cosine, sine, T, D / 2, &(RopeRule){.theta = 500000});
    double worst = 0;
    for (int64_t t = 0; t < T; t++)
        for (int64_t j = 0; j < D / 2; j++) {
            double angle = (double)t * pow(500000, -2.0 * (double)j / (double)D);
            worst = fmax(worst, fabs(cosine[t * D / 2 + j] - cos(angle)));
            worst = fmax(worst, fabs(sine[t * D / 2 + j] - sin(angle)));
        }
    check_true("cos and sin", worst < (double)T * 0x1p-23 + (sizeof(act_t) == 2 ? 0x1p-9 : 0));
    check_same("cos", cosine, cosine, T * D / 2 * 4);
}

/* Llama 3.1: short wavelengths stay, long ones are divided by the factor, the middle moves smoothly
 * between. Seen through the angle of position 1, which is the frequency. */
TEST(rope_table_llama3)
{
    enum { T = 2, D = 128 };
    const double theta = 500000, factor = 8, low = 1, high = 4, original = 8192;
    float cosine[T * D / 2], sine[T * D / 2];
    rope_table(cosine, sine, T, D / 2, &(RopeRule){.theta = theta, .factor = factor, .low = low,
                   .high = high, .original = original});
    int kept = 0, divided = 0, between = 0;
    for (int j = 0; j < D / 2; j++) {
        double f = pow(theta, -2.0 * j / D), turns = original * f / (2 * acos(-1)), want;
        double smooth = (turns - low) / (high - low);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        want = f * (smooth + (1 - smooth) / factor);
        kept += smooth == 1;
        divided += smooth == 0;
        between += smooth > 0 && smooth < 1;
        double tolerance = 1e-6 + (sizeof(act_t) == 2 ? 0x1p-8 : 0);
        check_true("sin", fabs(sine[D / 2 + j] - sin(want)) <= tolerance * sin(want));
        check_true("cos(0) and sin(0)", cosine[j] == 1 && sine[j] == 0);
    }
    check_true("all three ranges are met", kept && divided && between);
}

/* Linear scaling: place 4 t stands where t did; 4 is a power of two, so bit for bit. */
TEST(rope_table_linear)
{
    enum { T = 41, HALF = 32 };
    float *cosine = NEW(float, T * HALF), *sine = NEW(float, T * HALF);
    float *c = NEW(float, T * HALF), *s = NEW(float, T * HALF);
    rope_table(cosine, sine, T, HALF, &(RopeRule){.theta = 10000});
    rope_table(c, s, T, HALF, &(RopeRule){.theta = 10000, .factor = 4});
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
    rope_table(both, sines, 2 * T, HALF, &(RopeRule){.theta = 1000000, .local = 10000});
    for (int k = 0; k < 2; k++) {
        rope_table(cosine, sine, T, HALF, &(RopeRule){.theta = k ? 1000000 : 10000});
        check_same("cos", both + k * TABLE, cosine, TABLE * 4);
        check_same("sin", sines + k * TABLE, sine, TABLE * 4);
    }
}

TEST(rope_table_hf)
{
    enum { T = 1001, LONG = 64, SHORT = 32 };
    float *cosine = NEW(float, T * LONG), *sine = NEW(float, T * LONG);
    const double tolerance = sizeof(act_t) == 2 ? 0x1p-9 : 0x1p-23;
    rope_table(cosine, sine, T, LONG, &(RopeRule){.theta = 500000, .factor = 8, .low = 1, .high = 4,
                   .original = 8192});
    for (int j = 0; j < LONG; j++)
        check_true("llama3", fabsf(cosine[1000 * LONG + j] - hf_llama3_cos[j]) <= tolerance);
    rope_table(cosine, sine, T, SHORT, &(RopeRule){.theta = 10000});
    for (int j = 0; j < SHORT; j++)
        check_true("plain", fabsf(sine[1000 * SHORT + j] - hf_plain_sin[j]) <= tolerance);
}
