/* b_dpo.c -- sequence.h and dpo.h. */
#include <math.h>

#include "../../kernels/cpu/dpo.h"
#include "../../kernels/cpu/sequence.h"
#include "../../kernels/reference/sequence.h"
#include "harness.h"
#include "pairs.h"

static void apply(const float *r, float *coef, double *loss, double *stats, const float *lp,
                  const int32_t *counts, const float *reference, int64_t B)
{
    dpo(coef, loss, stats, lp, counts, reference, B,
        &(DpoRule){.loss = (int)r[0], .beta = r[1], .smoothing = r[2], .margin = r[3],
                  .shift = r[4], .penalty = r[5], .kl = r[6], .reward = r[7]});
}

TEST(sequences)
{
    static const int64_t shapes[][3] = {        /* rows, B, T */
        { 1, 2, 1 }, { 40, 6, 9 }, { 200, 10, 33 }, { 12, 4, 64 }, { 600, 8, 300 },
    };
    for (int k = 0; k < 5; k++)
        for (int mean = 0; mean < 2; mean++) {
            const int64_t n = shapes[k][0], B = shapes[k][1], T = shapes[k][2];
            int32_t *rows = NEW(int32_t, n), *counts = NEW(int32_t, B), *want_n = NEW(int32_t, B);
            const int64_t there = pairs_rows(rows, n, B, T);
            float *loss = f32_normal(n, 4, 1), *lp = NEW(float, B), *coef = f32_normal(B, 0, 1);
            float *weights = NEW(float, n);
            double *want = NEW(double, B);
            seq_logp(lp, counts, loss, rows, n, B, T, mean);
            seq_logp_ref(want, want_n, f32_double(loss, n), rows, n, B, T, mean);
            check_f32("log-probabilities", lp, want, B, T);
            check_same("rows", counts, want_n, B * (int64_t)sizeof *counts);
            seq_spread(weights, coef, counts, rows, n, T, mean);
            for (int64_t i = 0; i < n; i++) {
                const int64_t b = i < there ? rows[i] / T : 0;
                const float of_row = -coef[b] / (mean ? (float)counts[b] : 1);
                check_true("what a row counts", weights[i] == (i < there ? of_row : 0));
            }
            float *share = NEW(float, n);
            seq_share(share, rows, n, T, 0.75f);
            for (int64_t i = 0; i < n; i++)
                check_true("what a row of a mean counts",
                           share[i] == (i < there ? 0.75f / (float)counts[rows[i] / T] : 0));
        }
}

TEST(scale_rows)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 5, 7 }, { 33, 64 }, { 40, 300 } };
    for (int k = 0; k < 4; k++) {
        const int64_t n = shapes[k][0], C = shapes[k][1];
        act_t *x = act_normal(n * C, 0, 1), *y = NEW(act_t, n * C);
        float *weights = f32_normal(n, 0, 1);
        double *want = act_double(x, n * C);
        weights[n / 2] = 0;
        for (int64_t i = 0; i < n * C; i++)
            want[i] *= weights[i / C];
        scale_rows(y, x, weights, n, C);
        check_act("scaled", y, want, n * C, 1);
        scale_rows(x, x, weights, n, C);
        check_same("in place", x, y, n * C * (int64_t)sizeof *x);
    }
}

/* Losses against the formulas as they are written, their slopes against differences of these. */
TEST(dpo_pairs)
{
    for (int k = 0; k < 2 * PAIRS_RULES; k++) {
        const float *r = pairs_rules[k / 2];
        const int64_t B = 14;
        float *lp = f32_normal(B, -3, 1), *reference = k % 2 ? f32_normal(B, -3, 1) : NULL;
        float *coef = NEW(float, B);
        int32_t counts[14];
        double loss = 5, want = 5, stats[DPO_STATS] = {0}, *want_coef = NEW(double, B);
        double *lp_ = f32_double(lp, B), *rf_ = reference ? f32_double(reference, B) : NULL;
        int pairs = 0;
        for (int64_t i = 0; i < B; i++)
            counts[i] = i == 4 || i == 9 ? 0 : 3;
        for (int64_t i = 0; i < B / 2; i++) {
            const bool there = i != 2 && i != 4;
            for (int j = 0; j < 2; j++)
                want_coef[2 * i + j] = there ? pairs_grad(r, lp_, rf_, 2 * i + j) : 0;
            want += there ? pairs_loss(r, lp_, rf_, i) : 0;
            pairs += there;
        }
        apply(r, coef, &loss, stats, lp, counts, reference, B);
        check_true("loss", fabs(loss - want) <= 1e-6 * (fabs(want) + 1));
        for (int64_t i = 0; i < B; i++)
            check_true("jvp", fabs(coef[i] - want_coef[i]) <= 1e-4 * (fabs(want_coef[i]) + 1e-3));
        check_true("pairs", stats[DPO_PAIRS] == pairs);
    }
}

/* Values from the papers, or derived by hand. */
TEST(dpo_known)
{
    static const float plain[8] = { DPO_SIGMOID, 0.1f, 0, 0, 1, 0, 0.1f, 1 };
    const int32_t counts[2] = { 5, 2 };
    float coef[2], start[2] = { -2.5f, -1.25f }, apart[2] = { 0, 0 };
    double loss = 0, stats[DPO_STATS] = {0};
    apply(plain, coef, &loss, stats, start, counts, start, 2);
    check_true("ln 2 at first", (float)loss == 0.6931471824645996f);
    check_true("no margin", stats[DPO_REWARD_CHOSEN] == 0 && stats[DPO_REWARD_REJECTED] == 0);
    check_true("not accurate", stats[DPO_ACCURATE] == 0 && stats[DPO_PAIRS] == 1);
    check_true("chosen", fabs(coef[0] - (-0.05 - 0.1 * exp(-2.5))) < 1e-8);
    check_true("rejected", fabs(coef[1] - (0.05 - 0.1 * exp(-1.25))) < 1e-8);
    static const double known[][2] = { { 1, 0.313262 }, { -1, 1.313262 }, { 5, 0.006715 } };
    for (int k = 0; k < 3; k++) {
        static const float one[8] = { DPO_SIGMOID, 1, 0, 0, 1, 0, 0, 1 };
        apart[0] = (float)known[k][0];
        loss = 0;
        apply(one, coef, &loss, stats, apart, counts, NULL, 2);
        check_true("a known loss", fabs(loss - known[k][1]) < 5e-7);
    }
    static const float ipo[8] = { DPO_IPO, 0.1f, 0, 0, 1, 0, 0, 1 };
    loss = 0;
    apply(ipo, coef, &loss, stats, start, counts, start, 2);
    check_true("ipo at first", fabs(loss - 25) < 1e-5 && fabs(coef[0] + 10) < 1e-6);
    static const float all[8] = { DPO_SIGMOID, 0.1f, 0, 0, 1, 50, 0, 1 };
    float below[2] = { -3.5f, -1.25f };
    loss = 0;
    apply(all, coef, &loss, stats, below, counts, start, 2);      /* h = -1 - 50 */
    check_true("dpop below the reference", fabs(loss - log1p(exp(5.1))) < 1e-5);
}
