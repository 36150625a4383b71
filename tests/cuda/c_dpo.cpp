/* c_dpo.cpp -- sequence.cuh and dpo.cuh. */
// same: the kernels are one source in fp32 and bf16
#include "../../kernels/cuda/dpo.cuh"
#include "../../kernels/cuda/sequence.cuh"
#include "harness.h"
#include "unwatched.h"
#include "../../kernels/reference/sequence.h"
#include "../kernels/pairs.h"

#include <cmath>

/* rows, B, T: sequences longer than a block, and none at all. */
TEST(sequences)
{
    static const int64_t shapes[][3] = {
        { 1, 2, 1 }, { 40, 6, 9 }, { 200, 10, 33 }, { 12, 4, 64 }, { 1500, 4, 700 },
    };
    for (auto &shape : shapes)
        for (int mean = 0; mean < 2; mean++) {
            const int64_t n = shape[0], B = shape[1], T = shape[2];
            int32_t *rows_ = HOST(int32_t, n), *want_n = HOST(int32_t, B);
            const int64_t there = pairs_rows(rows_, n, B, T);
            int32_t *rows = upload(rows_, n), *counts = NEW(int32_t, B);
            float *loss = f32_normal(n, 4, 1), *lp = NEW(float, B), *coef = f32_normal(B, 0, 1);
            float *weights = NEW(float, n), *share = NEW(float, n);
            double *want = HOST(double, B);
            run([&] {
                seq_logp(lp, counts, loss, rows, n, B, T, mean, stream);
                seq_spread(weights, coef, counts, rows, n, T, mean, stream);
                seq_share(share, rows, n, T, 0.75f, stream);
            });
            seq_logp_ref(want, want_n, f32_double(loss, n), rows_, n, B, T, mean);
            check_f32("log-probabilities", lp, want, B, T);
            const int32_t *counts_ = download(counts, B);
            const float *coef_ = download(coef, B), *weights_ = download(weights, n);
            const float *share_ = download(share, n);
            for (int64_t b = 0; b < B; b++)
                check_true("rows", counts_[b] == want_n[b]);
            for (int64_t i = 0; i < n; i++) {
                const int64_t b = i < there ? rows_[i] / T : 0;
                const float of_row = -coef_[b] / (mean ? (float)counts_[b] : 1);
                check_true("what a row counts",
                           std::fabs(weights_[i] - (i < there ? of_row : 0)) <= 1e-6f * std::fabs(of_row));
                check_true("what a row of a mean counts",
                           std::fabs(share_[i] - (i < there ? 0.75f / (float)counts_[b] : 0)) <= 1e-7f);
            }
        }
}

TEST(scale_rows)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 5, 7 }, { 33, 64 }, { 40, 300 }, { 3, 5000 } };
    for (auto &shape : shapes) {
        const int64_t n = shape[0], C = shape[1];
        act_t *x = act_normal(n * C, 0, 1), *y = NEW(act_t, n * C), *same = act_copy(x, n * C);
        float *weights = f32_normal(n, 0, 1);
        double *want = act_double(x, n * C), *weights_ = f32_double(weights, n);
        for (int64_t i = 0; i < n * C; i++)
            want[i] *= weights_[i / C];
        run([&] { scale_rows(y, x, weights, n, C, stream); });
        check_act("scaled", y, want, n * C, 1);
        run([&] { scale_rows(same, same, weights, n, C, stream); });
        check_act("in place", same, want, n * C, 1);
    }
}

/* More pairs than a block has threads. */
TEST(dpo_pairs)
{
    for (int k = 0; k < 2 * PAIRS_RULES; k++) {
        const float *r = pairs_rules[k / 2];
        const int64_t B = k == 3 ? 600 : 14;
        float *lp = f32_normal(B, -3, 1), *reference = k % 2 ? f32_normal(B, -3, 1) : NULL;
        float *coef = NEW(float, B);
        int32_t *counts_ = HOST(int32_t, B);
        double start[1 + DPO_STATS] = {}, want = 0, *lp_ = f32_double(lp, B);
        double *rf_ = reference ? f32_double(reference, B) : NULL, *slope = HOST(double, B);
        int pairs = 0;
        for (int64_t i = 0; i < B; i++)
            counts_[i] = i == 4 || i == 9 ? 0 : 3;
        for (int64_t i = 0; i < B / 2; i++) {
            const bool there = i != 2 && i != 4;
            for (int j = 0; j < 2; j++)
                slope[2 * i + j] = there ? pairs_grad(r, lp_, rf_, 2 * i + j) : 0;
            want += there ? pairs_loss(r, lp_, rf_, i) : 0;
            pairs += there;
        }
        int32_t *counts = upload(counts_, B);
        double *sums = upload(start, 1 + DPO_STATS);
        run([&] {
            dpo(coef, sums, sums + 1, lp, counts, reference, B,
                DpoRule{.loss = (int)r[0], .beta = r[1], .smoothing = r[2], .margin = r[3],
                       .shift = r[4], .penalty = r[5], .kl = r[6], .reward = r[7]}, stream);
        });
        const double *sums_ = download(sums, 1 + DPO_STATS);
        const float *coef_ = download(coef, B);
        check_true("loss", std::fabs(sums_[0] - want) <= 1e-6 * (std::fabs(want) + 1));
        for (int64_t i = 0; i < B; i++)
            check_true("jvp", std::fabs(coef_[i] - slope[i]) <= 1e-4 * (std::fabs(slope[i]) + 1e-3));
        check_true("pairs", sums_[1 + DPO_PAIRS] == pairs);
    }
}
