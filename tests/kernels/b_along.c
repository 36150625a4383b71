/* b_along.c -- along.h. */
#include "../../kernels/cpu/along.h"
#include "harness.h"

/* l_i = (x - c_i)^2 / 2 with c = 0, 2 at x = 1, v the derivative 0.5 of (x - 0.5)^2 / 2: along v the
 * losses change by 0.5 and -0.5, for every eps. x comes back bit for bit. */
TEST(slope_quadratic)
{
    static const float c[] = { 0, 2 }, eps[] = { 0, 0.5f, 1e-2f, 1e-3f };   /* 0: its own */
    for (int k = 0; k < 4; k++) {
        float x = 1, v = 0.5f, kept, along[ALONG_ENTRIES], scale = 0.5f;
        double slope[2] = { 0, 0 };
        direction(along, &v, &scale);
        check_true("eps", along[ALONG_EPS] == 0.01f / 0.5f);
        along[ALONG_EPS] = eps[k] ? eps[k] : along[ALONG_EPS];
        keep(&kept, &x, 1);
        for (int minus = 0; minus < 2; minus++) {
            float loss[2];
            side(along, minus);
            shift(&x, &v, &kept, along, 1);
            for (int i = 0; i < 2; i++)
                loss[i] = (x - c[i]) * (x - c[i]) / 2;
            slope_loss(slope, loss, along, 2);
        }
        keep(&x, &kept, 1);
        check_true("x", x == 1);
        /* x is rounded to 2^-24 of itself, and so are losses of 0.5, on either side */
        const double bound = 1.2e-7 / along[ALONG_EPS];
        check_true("slopes", fabs(slope[0] - 0.5) <= bound && fabs(slope[1] + 0.5) <= bound);
    }
}

/* A gradient that is not finite, and a batch without samples. */
TEST(slope_none)
{
    float along[ALONG_ENTRIES], norm = 2, scale = 0, loss[] = { 1, 2 };
    direction(along, &norm, &scale);
    check_true("no samples", along[ALONG_BACK] == 0);
    scale = 0.5f;
    direction(along, &norm, &scale);
    check_true("samples", along[ALONG_BACK] == 2 && along[ALONG_TAKEN] == 1);
    norm = INFINITY;
    direction(along, &norm, &scale);
    double slope[] = { 0, 0 };
    slope_loss(slope, loss, along, 2);
    check_true("not finite", isnan(slope[0]) && isnan(slope[1]) && isnan(along[ALONG_BACK]));
}

TEST(slope_dot)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 3, 5 }, { 2, 64 }, { 4, 5001 } };     /* S, elements */
    for (int k = 0; k < 8; k++) {
        const int64_t S = shapes[k / 2][0], n = S * shapes[k / 2][1];
        const act_t *dy = act_integers(n, 9), *z = act_integers(n, 9);
        const float *dy32 = f32_integers(n, 9), *z32 = f32_integers(n, 9);
        const float along[ALONG_ENTRIES] = { [ALONG_BACK] = k % 2 ? 0.25f : 1 };
        double *slope = NEW(double, S), *want = NEW(double, S), *want32 = NEW(double, S);
        for (int64_t b = 0; b < S; b++)
            slope[b] = want[b] = (double)b;
        slope_dot_ref(want, act_double(dy, n), act_double(z, n), along[ALONG_BACK], n, S);
        memcpy(want32, want, sizeof *want * (size_t)S);
        slope_dot_ref(want32, f32_double(dy32, n), f32_double(z32, n), along[ALONG_BACK], n, S);
        slope_dot(slope, dy, z, along, n, S, new_bytes(slope_dot_workspace(S)));
        check_same("slopes", slope, want, S * 8);       /* integers: exact */
        slope_dot_f32(slope, dy32, z32, along, n, S);
        check_same("slopes of fp32", slope, want32, S * 8);
    }
}

TEST(shift)
{
    const int64_t n = 20011;
    const float *v = f32_normal(n, 0, 1), *kept = f32_normal(n, 0, 1);
    const float along[ALONG_ENTRIES] = { 0.5f, -1, 0.25f, 0 };
    float *w = NEW(float, n), *back = NEW(float, n);
    act_t *taken = NEW(act_t, n), *none = NEW(act_t, n);
    double *want = f32_double(kept, n), *quarter = f32_double(v, n), *zero = NEW(double, n);
    for (int64_t i = 0; i < n; i++) {
        want[i] -= 0.5 * v[i];
        quarter[i] *= 0.25;
        zero[i] = 0;
    }
    shift(w, v, kept, along, n);
    check_f32("moved", w, want, n, 1);
    keep(back, kept, n);
    check_same("kept", back, kept, n * 4);
    direction_cast(taken, v, along, n);
    check_act_exact("taken", taken, quarter, n);
    zeros(none, n);
    check_act_exact("zeros", none, zero, n);
}
