/* b_adamw.c -- adamw.h. */
#include "../../kernels/cpu/adamw.h"
#include "../../kernels/reference/adamw.h"
#include "harness.h"
#include "terms.h"

/* Three steps of both kernels against the double reference, with and without decay and clipping. */
TEST(adamw)
{
    static const int64_t sizes[] = { 17, 64, 1000, 20011 };
    for (int k = 0; k < 16; k++) {
        const int64_t n = sizes[k / 4];
        const int decay = k & 1;
        float *w = f32_normal(n, 0, 0.5), *m = f32_normal(n, 0, 0.1), *v = f32_normal(n, 0, 0.1);
        for (int64_t i = 0; i < n; i++)
            v[i] = v[i] * v[i];
        float *master = f32_copy(w, n), *m2 = f32_copy(m, n), *v2 = f32_copy(v, n);
        wt_t *stored = NEW(wt_t, n);
        double *w_ = f32_double(w, n), *m_ = f32_double(m, n), *v_ = f32_double(v, n);
        double *w_terms = f32_double(f32_integers(n, 0), n);
        for (int t = 1; t <= 3; t++) {
            float adamw_args[8] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0, 0, k & 2 ? 1.0f : 0.0f };
            adamw_args[5] = (float)(1 - pow(adamw_args[1], t));
            adamw_args[6] = (float)(1 - pow(adamw_args[2], t));
            float *g = f32_normal(n, 0, 0.3), norm;
            grad_norm(&norm, g, n, new_bytes(grad_norm_workspace()));
            double adamw_args_[8];
            for (int i = 0; i < 8; i++)
                adamw_args_[i] = adamw_args[i];
            adamw_terms(w_terms, w_, n);
            adamw_ref(w_, m_, v_, f32_double(g, n), adamw_args_, norm, n, decay);
            adamw(w, m, v, g, adamw_args, &norm, n, decay);
            adamw_mixed(stored, master, m2, v2, g, adamw_args, &norm, n, decay);
            check_f32_terms("w", w, w_, w_terms, n, t);
            check_f32("m", m, m_, n, t);
            check_f32("v", v, v_, n, t);
            check_same("master", master, w, n * 4);
            check_same("moments", v2, v, n * 4);
            double *rounded = f32_double(w, n);
            check_act_exact("stored", stored, rounded, n);
        }
    }
}

/* The first step moves every weight by lr against the sign of its gradient, whatever the gradient's
 * size (Kingma, Ba 2014, section 2.1). */
TEST(adamw_first_step)
{
    const int64_t n = 1000;
    float *g = f32_normal(n, 0, 1), *w = f32_integers(n, 0), *m = f32_integers(n, 0);
    float *v = f32_integers(n, 0), norm = 0;
    float adamw_args[8] = { 0.25f, 0.9f, 0.999f, 0, 0, 0, 0, 0 };
    adamw_args[5] = 1 - adamw_args[1];
    adamw_args[6] = 1 - adamw_args[2];
    double *want = NEW(double, n);
    for (int64_t i = 0; i < n; i++)
        want[i] = g[i] > 0 ? -0.25 : 0.25;
    adamw(w, m, v, g, adamw_args, &norm, n, 0);
    check_f32("w", w, want, n, 1);
}

TEST(grad_norm)
{
    static const int64_t sizes[] = { 1, 2, 255, 1023, 100003 };
    for (int k = 0; k < 5; k++) {
        const int64_t n = sizes[k];
        float *g = f32_normal(n, 0, 1), norm = 0;
        void *ws = new_bytes(grad_norm_workspace());
        grad_norm(&norm, g, n, ws);
        double want = grad_norm_ref(f32_double(g, n), n);
        check_f32("norm", &norm, &want, 1, 1);
    }
    float g[4] = { 1e-25f, 0, 0, 0 }, norm;         /* squares out of range of fp32 */
    grad_norm(&norm, g, 4, new_bytes(grad_norm_workspace()));
    check_true("tiny", norm == 1e-25f);
    g[0] = 3e30f, g[3] = -4e30f;
    grad_norm(&norm, g, 4, new_bytes(grad_norm_workspace()));
    check_true("huge", fabsf(norm / 5e30f - 1) < 1e-6f);
}
