/* c_prm.cpp -- margin.cuh and prm.cuh. */
// same: the kernels are one source in fp32 and bf16
#include "../../kernels/cuda/margin.cuh"
#include "../../kernels/cuda/prm.cuh"
#include "harness.h"
#include "unwatched.h"
#include "../../kernels/reference/margin.h"
#include "../kernels/steps.h"

#include <cmath>

TEST(margin)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 4, 7 }, { 32, 64 }, { 6, 600 } };
    for (auto &shape : shapes) {
        const int64_t n = shape[0], C = shape[1];
        act_t *x = act_normal(n * C, 0, 1), *w = act_normal(2 * C, 0, 1), *b = act_normal(2, 0, 1);
        act_t *dx = NEW(act_t, n * C);
        float *d = NEW(float, n), *dd = f32_normal(n, 0, 1), *dw = NEW(float, 2 * C);
        float *db = NEW(float, 2);
        double *want = HOST(double, n), *want_dx = HOST(double, n * C), want_db[2];
        double *want_dw = HOST(double, 2 * C), *x_ = act_double(x, n * C), *w_ = act_double(w, 2 * C);
        margin_ref(want, x_, w_, act_double(b, 2), n, C);
        margin_bwd_ref(want_dx, want_dw, want_db, f32_double(dd, n), x_, w_, n, C);
        for (int beta = 0; beta < 2; beta++) {
            run([&] {
                margin_fwd(d, x, w, b, n, C, stream);
                margin_dx(dx, dd, w, n, C, stream);
                margin_dw(dw, db, dd, x, n, C, 0, stream);
                if (beta)
                    margin_dw(dw, db, dd, x, n, C, 1, stream);
            });
            for (int64_t j = 0; j < 2 * C; j++)
                want_dw[j] *= beta + 1;
            want_db[0] *= beta + 1, want_db[1] *= beta + 1;
            check_f32("d", d, want, n, 2 * C);
            check_act("dx", dx, want_dx, n * C, 2);
            check_f32("dw", dw, want_dw, 2 * C, 2 * n);
            check_f32("db", db, want_db, 2, 2 * n);
        }
    }
}

/* Losses as the papers write them, their slopes by differences of these. */
TEST(prm_losses)
{
    for (int k = 0; k < 2 * STEPS_SHAPES; k++) {
        const int64_t S = steps_shapes[k / 2][0], marks = steps_shapes[k / 2][1], n = S * marks;
        const float scale_ = 0.125f;
        float *d = f32_normal(n, 0, 2), *rewards = f32_normal(n, 0.5, 0.2);
        float *weights = k % 2 ? f32_normal(S, 1, 1) : NULL, *losses = NEW(float, S);
        float *dd = NEW(float, n), *scale = upload(&scale_, 1);
        int32_t *rows_ = HOST(int32_t, n);
        double start[1 + PRM_STATS] = {}, *want = HOST(double, S), *slope = HOST(double, n);
        double *d_ = f32_double(d, n), *sums = upload(start, 1 + PRM_STATS);
        steps_rows(rows_, S, marks);
        int32_t *rows = upload(rows_, n);
        Steps s = {};
        s.S = S, s.marks = (int)marks, s.rows = rows_, s.d = d_;
        s.rewards = f32_double(rewards, n), s.weights = weights ? f32_double(weights, S) : NULL;
        double records = 0, plain = 0, held = 0, marked = 0, right = 0;
        for (int64_t i = 0; i < S; i++) {
            const bool there = rows_[i * marks] >= 0;
            want[i] = steps_loss(&s, i);
            records += there, plain += want[i];
            held += !there ? 0 : weights ? s.weights[i] : 1;
            for (int64_t j = i * marks; j < (i + 1) * marks && rows_[j] >= 0; j++)
                marked++, right += (d_[j] > 0) == (s.rewards[j] > 0.5);
        }
        run([&] {
            prm_loss(losses, d, rewards, rows, S, (int)marks, stream);
            prm_loss_bwd(dd, d, rewards, rows, scale, weights, S * marks, (int)marks, stream);
            prm_sums(sums, sums + 1, losses, d, rewards, rows, weights, S, (int)marks, stream);
        });
        steps_grads(slope, steps_losses, &s, d_, n);
        for (int64_t j = 0; j < n; j++)
            slope[j] *= scale_;
        check_f32("losses", losses, want, S, marks);
        check_f32("slopes", dd, slope, n, marks);
        const double all = steps_losses(&s), *got = download(sums, 1 + PRM_STATS);
        check_true("their sum", std::fabs(got[0] - all) <= 1e-6 * (std::fabs(all) + (double)S));
        got++;
        check_true("records, marks", got[PRM_RECORDS] == records && got[PRM_MARKS] == marked);
        check_true("marks that are right", got[PRM_RIGHT] == right);
        check_true("losses, weights", std::fabs(got[PRM_LOSS] - plain) <= 1e-6 * (plain + 1) &&
                   std::fabs(got[PRM_WEIGHT] - held) <= 1e-6 * (std::fabs(held) + 1));
    }
}

/* What a record counts, and what is learned of it: by differences. kind: of the table, 4: domains, 5: the
 * net. */
static void weights_of(int64_t S, int64_t marks, int kind)
{
    const int64_t n = S * marks, K = kind == 5 ? PRM_NET_PARAMETERS : kind == 4 ? 7 : 200;
    const int32_t domains_ = 5;
    const float scale_ = 0.25f;
    float *told = HOST(float, n), *known = HOST(float, K);
    float *weights = NEW(float, S), *grad = NEW(float, K), *scale = upload(&scale_, 1);
    int32_t *rows_ = HOST(int32_t, n), *record_ = HOST(int32_t, S), *domains = upload(&domains_, 1);
    double *jvp_ = HOST(double, S), *of = HOST(double, S), *want = HOST(double, S);
    double *learned_ = f32_double(f32_normal(K, kind == 5 ? 0 : 1, kind == 5 ? 0.5 : 2), K);
    double *d_ = f32_double(f32_normal(n, 0, 2), n);
    double *want_grad = HOST(double, K);
    steps_rows(rows_, S, marks);
    if (kind == 5)
        steps_off_kinks(d_, n, learned_);
    else
        steps_off_bends(learned_, K);
    for (int64_t i = 0; i < n; i++)
        told[i] = (float)d_[i];
    for (int64_t i = 0; i < K; i++)
        known[i] = (float)learned_[i];
    float *d = upload(told, n), *learned = upload(known, K);
    for (int64_t i = 0; i < S; i++) {
        record_[i] = i % 4 == 1 ? -1 : (int32_t)random_below(kind == 4 ? domains_ : kind == 5 ? 1 : K);
        jvp_[i] = random_normal();
        of[i] = kind == 5 && rows_[i * marks] < 0 ? 0 : -jvp_[i] * scale_;
    }
    int32_t *rows = upload(rows_, n), *record = upload(record_, S);
    double *slope = upload(jvp_, S);
    Steps s = {};
    s.S = S, s.marks = (int)marks, s.rows = rows_, s.record = record_, s.d = d_;
    s.kind = kind, s.domains = kind == 4 ? domains_ : 0, s.gradient = of;
    (kind == 5 ? s.net : s.table) = learned_;
    for (int64_t i = 0; i < S; i++)
        want[i] = steps_weight(&s, i);
    steps_grads(want_grad, steps_weights, &s, learned_, K);
    float *w1 = learned, *b1 = w1 + 20, *w2 = b1 + 10, *b2 = w2 + 10;
    for (int beta = 0; beta < 2; beta++) {
        run([&] {
            for (int adds = 0; adds <= beta; adds++)
                if (kind == 5)
                    prm_net_bwd(grad, grad + 20, grad + 30, grad + 40, slope, scale, d, rows, record,
                                w1, b1, w2, b2, S, (int)marks, adds, stream);
                else if (kind == 4)
                    prm_domains_bwd(grad, slope, scale, learned, domains, record, S, K, adds, stream);
                else
                    prm_weights_bwd(grad, slope, scale, learned, record, S, K, kind, adds, stream);
            if (kind == 5)
                prm_net(weights, d, rows, record, w1, b1, w2, b2, S, (int)marks, stream);
            else if (kind == 4)
                prm_domains(weights, learned, domains, record, S, stream);
            else
                prm_weights(weights, learned, record, S, kind, stream);
        });
        for (int64_t j = 0; j < K; j++)
            want_grad[j] *= beta + 1;
        check_f32("weights", weights, want, S, 10);
        check_f32("gradient", grad, want_grad, K, kind < 4 ? S + 1 : 10);
    }
}

TEST(prm_weights)
{
    for (int k = 0; k < STEPS_SHAPES; k++)
        for (int kind = 0; kind < 6; kind++)
            weights_of(steps_shapes[k][0], steps_shapes[k][1], kind);
}

TEST(prm_outcomes)
{
    for (int k = 0; k < 5 * STEPS_SHAPES; k++) {
        const int64_t S = steps_shapes[k / 5][0], marks = steps_shapes[k / 5][1], n = S * marks;
        const float scale_ = 0.25f;
        float *told = HOST(float, n), *outcomes_ = HOST(float, S), *dd = NEW(float, n);
        float *scale = upload(&scale_, 1);
        int32_t *rows_ = HOST(int32_t, n);
        double start[PRM_META_STATS] = {}, *d_ = f32_double(f32_normal(n, 0, 1), n), *slope = HOST(double, n);
        double *stats = upload(start, PRM_META_STATS), *y = HOST(double, S);
        double records = 0, loss = 0, score = 0, right = 0;
        steps_rows(rows_, S, marks);
        steps_apart(d_, n, marks);
        for (int64_t j = 0; j < n; j++)
            told[j] = (float)d_[j];
        float *d = upload(told, n);
        for (int64_t i = 0; i < S; i++)
            outcomes_[i] = (float)(i % 2), y[i] = (double)(i % 2);
        Steps s = {};
        s.S = S, s.marks = (int)marks, s.kind = k % 5, s.rows = rows_, s.d = d_, s.outcomes = y;
        for (int64_t i = 0; i < S; i++) {
            const double S_i = steps_score(&s, i), off = S_i - y[i];
            if (rows_[i * marks] < 0)
                continue;
            records++, loss += off * off, score += S_i, right += (S_i > 0.5) == (y[i] > 0.5);
        }
        int32_t *rows = upload(rows_, n);
        float *outcomes = upload(outcomes_, S);
        run([&] {
            prm_outcome(dd, stats, d, rows, outcomes, scale, S, (int)marks, k % 5, stream);
        });
        steps_grads(slope, steps_outcomes, &s, d_, n);
        for (int64_t j = 0; j < n; j++)
            slope[j] *= scale_;
        check_f32("slopes", dd, slope, n, marks);
        const double *got = download(stats, PRM_META_STATS);
        check_true("records", got[PRM_META_RECORDS] == records && got[PRM_META_RIGHT] == right);
        check_true("sums", std::fabs(got[PRM_META_LOSS] - loss) <= 1e-6 * (loss + 1) &&
                   std::fabs(got[PRM_META_SCORE] - score) <= 1e-6 * (score + 1));
    }
}
