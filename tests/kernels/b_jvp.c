/* b_jvp.c -- jvp.h. */
#include "../../kernels/cpu/jvp.h"
#include "../../kernels/reference/jvp.h"
#include "harness.h"

/* l_i = (x - c_i)^2 / 2 with c = 0, 2 at x = 1, v the derivative 0.5 of (x - 0.5)^2 / 2: along v the
 * losses change by 0.5 and -0.5, for every eps. x comes back bit for bit. */
TEST(jvp_quadratic)
{
    static const float c[] = { 0, 2 }, eps[] = { 0, 0.5f, 1e-2f, 1e-3f };   /* 0: its own */
    for (int k = 0; k < 4; k++) {
        float x = 1, v = 0.5f, kept, tangent[TANGENT_ENTRIES], scale = 0.5f;
        double jvp[2] = { 0, 0 };
        tangent_init(tangent, &v, &scale);
        check_true("eps", tangent[TANGENT_EPS] == 0.01f / 0.5f);
        tangent[TANGENT_EPS] = eps[k] ? eps[k] : tangent[TANGENT_EPS];
        keep(&kept, &x, 1);
        for (int minus = 0; minus < 2; minus++) {
            float loss[2];
            side(tangent, minus);
            shift(&x, &v, &kept, tangent, 1);
            for (int i = 0; i < 2; i++)
                loss[i] = (x - c[i]) * (x - c[i]) / 2;
            jvp_loss(jvp, loss, tangent, 2);
        }
        keep(&x, &kept, 1);
        check_true("x", x == 1);
        /* x is rounded to 2^-24 of itself, and so are losses of 0.5, on either side */
        const double bound = 1.2e-7 / tangent[TANGENT_EPS];
        check_true("slopes", fabs(jvp[0] - 0.5) <= bound && fabs(jvp[1] + 0.5) <= bound);
    }
}

/* A gradient that is not finite, and a batch without samples. */
TEST(jvp_none)
{
    float tangent[TANGENT_ENTRIES], norm = 2, scale = 0, loss[] = { 1, 2 };
    tangent_init(tangent, &norm, &scale);
    check_true("no samples", tangent[TANGENT_BACK] == 0);
    scale = 0.5f;
    tangent_init(tangent, &norm, &scale);
    check_true("samples", tangent[TANGENT_BACK] == 2 && tangent[TANGENT_TAKEN] == 1);
    float unit[TANGENT_ENTRIES], nobody = 0;
    tangent_unit(unit, &scale);
    check_true("norm not known", unit[TANGENT_BACK] == 2 && unit[TANGENT_TAKEN] == 1);
    tangent_unit(unit, &nobody);
    check_true("norm not known, no samples", unit[TANGENT_BACK] == 0);
    norm = INFINITY;
    tangent_init(tangent, &norm, &scale);
    double jvp[] = { 0, 0 };
    jvp_loss(jvp, loss, tangent, 2);
    check_true("not finite", isnan(jvp[0]) && isnan(jvp[1]) && isnan(tangent[TANGENT_BACK]));
}

TEST(jvp_dot)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 3, 5 }, { 2, 64 }, { 4, 5001 } };     /* S, elements */
    for (int k = 0; k < 8; k++) {
        const int64_t S = shapes[k / 2][0], n = S * shapes[k / 2][1];
        const act_t *dy = act_integers(n, 9), *z = act_integers(n, 9);
        const float *dy32 = f32_integers(n, 9), *z32 = f32_integers(n, 9);
        const float tangent[TANGENT_ENTRIES] = { [TANGENT_BACK] = k % 2 ? 0.25f : 1 };
        double *jvp = NEW(double, S), *want = NEW(double, S), *want32 = NEW(double, S);
        for (int64_t b = 0; b < S; b++)
            jvp[b] = want[b] = (double)b;
        jvp_dot_ref(want, act_double(dy, n), act_double(z, n), tangent[TANGENT_BACK], n, S);
        memcpy(want32, want, sizeof *want * (size_t)S);
        jvp_dot_ref(want32, f32_double(dy32, n), f32_double(z32, n), tangent[TANGENT_BACK], n, S);
        jvp_dot(jvp, dy, z, tangent, n, S, new_bytes(jvp_dot_workspace(S)));
        check_same("slopes", jvp, want, S * 8);         /* integers: exact */
        jvp_dot_f32(jvp, dy32, z32, tangent, n, S);
        check_same("slopes of fp32", jvp, want32, S * 8);
    }
}

TEST(shift)
{
    const int64_t n = 20011;
    const float *v = f32_normal(n, 0, 1), *kept = f32_normal(n, 0, 1);
    const float tangent[TANGENT_ENTRIES] = { 0.5f, -1, 0.25f, 0 };
    float *w = NEW(float, n), *back = NEW(float, n);
    act_t *taken = NEW(act_t, n), *none = NEW(act_t, n);
    double *want = f32_double(kept, n), *quarter = f32_double(v, n), *zero = NEW(double, n);
    for (int64_t i = 0; i < n; i++) {
        want[i] -= 0.5 * v[i];
        quarter[i] *= 0.25;
        zero[i] = 0;
    }
    shift(w, v, kept, tangent, n);
    check_f32("moved", w, want, n, 1);
    keep(back, kept, n);
    check_same("kept", back, kept, n * 4);
    tangent_cast(taken, v, tangent, n);
    check_act_exact("taken", taken, quarter, n);
    zeros(none, n);
    check_act_exact("zeros", none, zero, n);
}
