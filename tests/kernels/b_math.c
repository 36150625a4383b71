/* b_math.c -- types.h, math.h, philox.h, dropout.h, dropout_rows.h and bias_rows.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../kernels/cpu/bias_rows.h"
#include "../../kernels/cpu/dropout_rows.h"
#include "../../kernels/cpu/workspace.h"
#include "../../kernels/cpu/math.h"
#include "../../kernels/reference/dropout.h"
#include "dropout_keep.h"
#include "harness.h"

/* Error of got beyond slack, in units in the last place of the float nearest to want. */
static double ulps(float got, double want, double slack)
{
    float near = (float)want;
    if (isnan(want) || isinf(near) || isinf(want))
        return isnan(want) ? (isnan(got) ? 0 : INFINITY) : (got == near ? 0 : INFINITY);
    double ulp = fabs((double)nextafterf(fabsf(near), INFINITY) - fabs((double)near));
    return fmax(fabs((double)got - want) - slack, 0) / ulp;
}

/* Every 997th float. */
#define SWEEP(name, function, reference, bound, slack)                                        \
    TEST(name)                                                                               \
    {                                                                                        \
        double worst = 0;                                                                    \
        for (uint64_t u = (uint64_t)random_below(997); u < 0x100000000; u += 997) {          \
            float x = bits_float((uint32_t)u);                                               \
            double e = ulps(function(x), reference, slack);                                  \
            worst = e > worst ? e : worst;                                                   \
        }                                                                                    \
        if (getenv("VERBOSE"))                                                               \
            printf("# %s: %.3f ulp\n", #name, worst);                                        \
        check_true("within " #bound " ulp", worst <= bound);                                 \
    }
SWEEP(math_exp, math_exp, exp((double)x), 2, 0)
SWEEP(math_log, math_log, log((double)x), 2, 0)
SWEEP(math_sigmoid, math_sigmoid, 1 / (1 + exp(-(double)x)), 4, 0x1p-86)

TEST(math_specials)
{
    for (float x = -87; x <= 88; x += 0.01f)
        check_true("exp_normal == exp", math_exp_normal(x) == math_exp(x));
    check_true("exp(0) == 1", math_exp(0) == 1);
    check_true("exp(-inf) == 0", math_exp(-INFINITY) == 0);
    check_true("exp(inf) == inf", math_exp(INFINITY) == INFINITY);
    check_true("log(1) == 0", math_log(1) == 0);
    check_true("log(0) == -inf", math_log(0) == -INFINITY);
    check_true("log(-1) is NaN", isnan(math_log(-1)));
}

/* Known answers of the Random123 distribution's kat_vectors. */
TEST(philox_known)
{
    static const uint32_t rows[3][10] = {
        { 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
        { ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
        { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
          0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 },
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        philox(rows[i], rows[i] + 4, out);
        check_same("philox", out, rows[i] + 6, sizeof out);
    }
}

/* A sample's rows do not depend on its place in the micro-batch; rows agree with single draws. */
TEST(dropout)
{
    enum { T = 5, N = 103 };
    const float p = 0.3f;
    uint32_t noise[4] = { random_u32(), random_u32(), 7, 40 };
    uint32_t later[4] = { noise[0], noise[1], 7, 42 };
    float *a = NEW(float, N), *b = NEW(float, N);
    DrawMask mask, of_later, other_site;
    draw_mask(&mask, noise, 3, p);
    draw_mask(&of_later, later, 3, p);
    draw_mask(&other_site, noise, 4, p);
    int64_t kept = 0, differ = 0;
    for (int64_t row = 0; row < 400 * T; row++) {
        draw_row(a, &mask, T, row + 2 * T, 0, N);
        draw_row(b, &of_later, T, row, 0, N);
        check_same("sample 2 of 40.. is sample 0 of 42..", a, b, N * sizeof *a);
        draw_row(b, &other_site, T, row + 2 * T, 0, N);
        for (int i = 0; i < N; i++) {
            int keep = dropout_keep(noise, 3, T, row + 2 * T, (uint32_t)i, p);
            check_true("dropout_keep", keep == (a[i] != 0));
            check_true("scale", a[i] == 0 || a[i] == 1 / (1 - p));
            kept += a[i] != 0;
            differ += a[i] != b[i];
        }
    }
    double n = 400.0 * T * N;
    check_true("share kept", fabs((double)kept / n - 0.7) < 6 * sqrt(0.21 / n));
    check_true("sites are independent", fabs((double)differ / n - 0.42) < 6 * sqrt(0.25 / n));
}

/* Rows much narrower and wider than what is drawn at once; the site's own mask; samples cut in two. */
TEST(dropout_rows)
{
    static const int64_t columns[] = { 1, 3, 8, 24, 64, 127, 130, 600 };
    enum { T = 7, ROWS = 4 * T };
    const float p = 0.3f;
    const uint32_t noise[4] = { random_u32(), random_u32(), 7, 40 };
    const uint32_t second[4] = { noise[0], noise[1], 7, 42 };
    for (size_t k = 0; k < sizeof columns / sizeof *columns; k++) {
        const int64_t C = columns[k], n = ROWS * C;
        act_t *x = act_normal(n, 0, 1), *y = NEW(act_t, n), *half = NEW(act_t, n);
        double *want = NEW(double, n), *kept = NEW(double, n);
        for (int64_t i = 0; i < n; i++)
            kept[i] = dropout_keep(noise, 4 * 5 + 3, T, i / C, (uint32_t)(i % C), p) ? 1 / (1 - p) : 0;
        dropout_fwd_ref(want, act_double(x, n), kept, n);
        dropout_fwd(y, x, noise, 5, p, ROWS, T, C);
        check_act("y", y, want, n, 1);
        for (int64_t i = 0; i < n; i++)
            check_true("zeros", kept[i] != 0 || act_load(y + i) == 0);
        dropout_fwd(half, x, noise, 5, p, ROWS / 2, T, C);
        dropout_fwd(half + n / 2, x + n / 2, second, 5, p, ROWS / 2, T, C);
        check_same("two halves", half, y, n * (int64_t)sizeof *y);
        enum { CHOSEN = 5 };
        static const int32_t at[CHOSEN] = { 20, 0, -1, ROWS - 1, 8 };
        act_t *few = NEW(act_t, CHOSEN * C);
        for (int r = 0; r < CHOSEN; r++)
            memcpy(few + r * C, x + (at[r] < 0 ? 0 : at[r]) * C, (size_t)C * sizeof *few);
        dropout_rows_fwd(few, few, noise, at, 5, p, CHOSEN, T, C);
        for (int r = 0; r < CHOSEN; r++)
            if (at[r] >= 0)
                check_same("chosen rows", few + r * C, y + at[r] * C, C * (int64_t)sizeof *y);
        dropout_fwd(x, x, noise, 5, p, ROWS, T, C);
        check_same("in place", x, y, n * (int64_t)sizeof *y);
    }
}

/* Dropout joined to its neighbours, and the sums of a bias: the bits of the kernels in turn, also in place. Rows: fewer
 * than the parts of a sum, and more; wider than what is drawn at once. */
TEST(dropout_joined)
{
    static const int64_t shapes[][2] = { { 4, 8 }, { 91, 24 }, { 23, 130 }, { 3, 600 } };
    enum { T = 7 };
    const float p = 0.3f;
    const uint32_t noise[4] = { random_u32(), random_u32(), 7, 40 };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const int64_t rows = shapes[k][0] * T, C = shapes[k][1], n = rows * C, bytes = n * (int64_t)sizeof(act_t);
        act_t *x = act_normal(n, 0, 1), *r = act_normal(n, 0, 1), *kept = NEW(act_t, n), *want = NEW(act_t, n);
        act_t *sum = NEW(act_t, n), *y = NEW(act_t, n), *in_place = act_copy(r, n);
        act_t *w = act_normal(C, 1, 0.3), *b = act_normal(C, 0, 0.3);
        float *mean = NEW(float, rows), *rstd = NEW(float, rows), *want_rstd = NEW(float, rows);
        float *before = f32_normal(C, 0, 1);
        void *ws = new_bytes(bias_grad_workspace(C));
        gelu_erf_fwd(want, x, n);
        dropout_fwd(want, want, noise, 5, p, rows, T, C);
        gelu_erf_dropout_fwd(y, x, noise, 5, p, rows, T, C);
        check_same("dropout of gelu", y, want, bytes);

        dropout_fwd(kept, x, noise, 5, p, rows, T, C);
        add_fwd(want, r, kept, n);
        dropout_add_fwd(in_place, x, in_place, noise, 5, p, rows, T, C);
        check_same("dropout and sum, in place", in_place, want, bytes);
        dropout_add_layernorm_fwd(sum, y, mean, rstd, r, x, noise, 5, p, T, w, b, rows, C, 1e-5f);
        check_same("dropout, sum and norm", sum, want, bytes);
        layernorm_fwd(want, mean, want_rstd, sum, w, b, rows, C, 1e-5f);
        check_same("the norm", y, want, bytes);
        check_same("its rstd", rstd, want_rstd, rows * 4);

        for (int beta = 0; beta < 2; beta++) {
            float *want_db = f32_copy(before, C), *db = f32_copy(before, C);
            bias_grad(want_db, kept, rows, C, beta, ws);
            dropout_bias_grad(db, y, x, noise, 5, p, rows, T, C, beta, ws);
            check_same("masked gradient", y, kept, bytes);
            check_same("its sums", db, want_db, 4 * C);
        }
        float *want_db = NEW(float, C), *db = NEW(float, C);
        gelu_erf_bwd(want, kept, r, n);
        bias_grad(want_db, want, rows, C, 0, ws);
        dropout_gelu_erf_bwd_bias(db, x, x, r, noise, 5, p, rows, T, C, 0, ws);
        check_same("masked gradient of gelu, in place", x, want, bytes);
        check_same("its sums", db, want_db, 4 * C);
    }
}

TEST(act_round_trip)
{
    for (uint64_t u = (uint64_t)random_below(997); u < 0x100000000; u += 997) {
        float x = bits_float((uint32_t)u), y = act_round(x);
        if (isnan(x)) {
            check_true("NaN stays", isnan(y));
            continue;
        }
        check_true("idempotent", act_round(y) == y);
        if (sizeof(act_t) == 2) {               /* the nearer of the neighbours, even on ties */
            float low = bits_float((uint32_t)u & 0xffff0000);
            float high = bits_float(((uint32_t)u & 0xffff0000) + 0x10000);
            double below = fabs((double)x - low);
            double above = isinf(high) ? 0x1p128 - fabs(x) : fabs((double)high - x);
            bool down = below < above || (below == above && !(u >> 16 & 1));
            check_true("nearest", isinf(x) || y == (down ? low : high));
        } else {
            check_true("exact", y == x);
        }
    }
}
