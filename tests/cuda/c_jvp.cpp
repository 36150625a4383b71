/* c_jvp.cpp -- jvp.cuh. */
// same: the kernels are one source in fp32 and bf16
#include "../../kernels/cuda/jvp.cuh"
#include "harness.h"
#include "unwatched.h"
#include "../../kernels/reference/jvp.h"

#include <cmath>

static float *tangent_entries(float eps, float side, float taken, float back)
{
    const float tangent[TANGENT_ENTRIES] = { eps, side, taken, back };
    return upload(tangent, TANGENT_ENTRIES);
}

static const float *known(float norm, float scale, float *scaler)
{
    float *tangent = NEW(float, TANGENT_ENTRIES);
    const float *n = upload(&norm, 1), *of = upload(&scale, 1);
    run([&] {
        if (scaler)
            tangent_init_scaled(tangent, scaler, n, of, stream);
        else
            tangent_init(tangent, n, of, stream);
    });
    return download(tangent, TANGENT_ENTRIES);
}

TEST(tangent_init)
{
    const float *a = known(0.5f, 0.25f, NULL);
    check_true("of two samples", a[TANGENT_EPS] == 0.01f / 0.5f && a[TANGENT_SIDE] == 1 &&
                                     a[TANGENT_TAKEN] == 1 && a[TANGENT_BACK] == 4);
    check_true("of none", known(0.5f, 0, NULL)[TANGENT_BACK] == 0);
    a = known(INFINITY, 0.25f, NULL);
    check_true("not finite", std::isnan(a[TANGENT_EPS]) && std::isnan(a[TANGENT_BACK]));
    const float of = 0.25f, *scale = upload(&of, 1);
    float *unit = NEW(float, TANGENT_ENTRIES);
    run([&] { tangent_unit(unit, scale, stream); });
    const float *u = download(unit, TANGENT_ENTRIES);
    check_true("norm not known", u[TANGENT_TAKEN] == 1 && u[TANGENT_BACK] == 4);
    /* scaled by 1024: |v| of the copy is 16, products are times 1024 and that */
    const float start[2] = { 1024, 7 };
    float *scaler = upload(start, 2);
    a = known(512, 0.25f, scaler);
    check_true("fp16", a[TANGENT_TAKEN] == 1.0f / 32 &&
                           a[TANGENT_BACK] == 1 / (0.25f * 1024 * 1024 / 32));
    check_true("fp16: the scale stays", download(scaler, 2)[0] == 1024 && download(scaler, 2)[1] == 7);
    check_true("fp16: not finite", std::isnan(known(NAN, 0.25f, scaler)[TANGENT_BACK]));
    check_true("fp16: the scale halves", download(scaler, 2)[0] == 512 && download(scaler, 2)[1] == 0);
}

/* c = 0, 2 of (x - c)^2 / 2 at x = 1, v = 0.5. */
TEST(jvp_loss)
{
    float *tangent = tangent_entries(0.02f, 0, 1, 1);
    const float up[2] = { 1.01f * 1.01f / 2, 0.99f * 0.99f / 2 }, down[2] = { up[1], up[0] };
    const float *up_ = upload(up, 2), *down_ = upload(down, 2);
    double none[2] = { 0, 0 }, *jvp = upload(none, 2);
    run([&] {
        side(tangent, 0, stream);
        jvp_loss(jvp, up_, tangent, 2, stream);
        side(tangent, 1, stream);
        jvp_loss(jvp, down_, tangent, 2, stream);
    });
    const double *got = download(jvp, 2);
    check_true("slopes", std::fabs(got[0] - 0.5) < 2e-6 && std::fabs(got[1] + 0.5) < 2e-6);
}

/* A range of a block, several, and more ranges than there are. */
TEST(jvp_dot)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 3, 5 }, { 2, 5001 }, { 1, 540000 } };
    for (auto &shape : shapes) {
        const int64_t S = shape[0], n = S * shape[1];
        const act_t *dy = act_integers(n, 9), *z = act_integers(n, 9);
        const float *dy32 = f32_integers(n, 9), *z32 = f32_integers(n, 9);
        const float *tangent = tangent_entries(0, 1, 1, 0.25f);
        double *start = HOST(double, S), *want = HOST(double, S);
        for (int64_t b = 0; b < S; b++)
            start[b] = want[b] = (double)b;
        double *jvp = upload(start, S);
        void *ws = new_bytes(jvp_dot_cuda_workspace(S));
        run([&] { jvp_dot(jvp, dy, z, tangent, n, S, ws, stream); });
        jvp_dot_ref(want, act_double(dy, n), act_double(z, n), 0.25, n, S);
        check_same("slopes", jvp, upload(want, S), S * 8);        /* integers: exact */
        run([&] { jvp_dot_f32(jvp, dy32, z32, tangent, n, S, stream); });
        jvp_dot_ref(want, f32_double(dy32, n), f32_double(z32, n), 0.25, n, S);
        check_same("slopes of fp32", jvp, upload(want, S), S * 8);
    }
}

TEST(shift)
{
    const int64_t n = 2003;
    const float *v = f32_normal(n, 0, 1), *kept = f32_normal(n, 0, 1);
    const float *tangent = tangent_entries(0.5f, -1, 0.25f, 0);
    float *w = NEW(float, n), *back = NEW(float, n);
    act_t *taken = NEW(act_t, n), *none = act_normal(n, 0, 1);
    double *want = f32_double(kept, n), *quarter = f32_double(v, n), *zero = HOST(double, n);
    for (int64_t i = 0; i < n; i++) {
        want[i] -= 0.5 * quarter[i];
        quarter[i] *= 0.25;
        zero[i] = 0;
    }
    run([&] {
        shift(w, v, kept, tangent, n, stream);
        keep(back, kept, n, stream);
        tangent_cast(taken, v, tangent, n, stream);
        zeros(none, n, stream);
    });
    check_f32("moved", w, want, n, 1);
    check_same("kept", back, kept, n * 4);
    check_act_exact("taken", taken, quarter, n);
    check_act_exact("zeros", none, zero, n);
}
