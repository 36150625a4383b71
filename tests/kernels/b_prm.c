/* b_prm.c -- margin.h and prm.h. */
#include <math.h>

#include "../../kernels/cpu/margin.h"
#include "../../kernels/cpu/prm.h"
#include "../../kernels/reference/margin.h"
#include "harness.h"
#include "steps.h"

TEST(margin)
{
    static const int64_t shapes[][2] = { { 1, 1 }, { 4, 7 }, { 32, 64 }, { 60, 300 } };
    for (int k = 0; k < 4; k++) {
        const int64_t n = shapes[k][0], C = shapes[k][1];
        act_t *x = act_normal(n * C, 0, 1), *w = act_normal(2 * C, 0, 1), *b = act_normal(2, 0, 1);
        act_t *dx = NEW(act_t, n * C);
        float *d = NEW(float, n), *dd = f32_normal(n, 0, 1), *dw = NEW(float, 2 * C);
        float *db = NEW(float, 2);
        double *want = NEW(double, n), *want_dx = NEW(double, n * C), *want_dw = NEW(double, 2 * C);
        double want_db[2];
        margin_fwd(d, x, w, b, n, C);
        margin_ref(want, act_double(x, n * C), act_double(w, 2 * C), act_double(b, 2), n, C);
        check_f32("d", d, want, n, 2 * C);
        margin_dx(dx, dd, w, n, C);
        margin_bwd_ref(want_dx, want_dw, want_db, f32_double(dd, n), act_double(x, n * C),
                       act_double(w, 2 * C), n, C);
        check_act("dx", dx, want_dx, n * C, 2);
        for (int beta = 0; beta < 2; beta++) {
            margin_dw(dw, db, dd, x, n, C, beta);
            for (int64_t j = 0; j < 2 * C; j++)
                want_dw[j] *= beta + 1;
            want_db[0] *= beta + 1, want_db[1] *= beta + 1;
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
        float *d = f32_normal(n, 0, 2), *rewards = f32_normal(n, 0.5, 0.2);
        float *weights = k % 2 ? f32_normal(S, 1, 1) : NULL, *losses = NEW(float, S);
        float *dd = NEW(float, n), scale = 0.125f;
        int32_t *rows = NEW(int32_t, n);
        double loss = 3, stats[PRM_STATS] = {0}, *want = NEW(double, S), *slope = NEW(double, n);
        double *d_ = f32_double(d, n);
        steps_rows(rows, S, marks);
        const Steps s = { .S = S, .marks = (int)marks, .rows = rows, .d = d_,
                          .rewards = f32_double(rewards, n),
                          .weights = weights ? f32_double(weights, S) : NULL };
        double records = 0, plain = 0, held = 0, right = 0, marked = 0, labels = 0;
        for (int64_t i = 0; i < S; i++) {
            want[i] = steps_loss(&s, i);
            const bool there = rows[i * marks] >= 0;
            records += there, plain += want[i], held += !there ? 0 : weights ? weights[i] : 1;
            for (int64_t j = i * marks; j < (i + 1) * marks && rows[j] >= 0; j++) {
                marked++, labels += rewards[j];
                right += (d[j] > 0) == (rewards[j] > 0.5f);
            }
        }
        prm_loss(losses, d, rewards, rows, S, (int)marks);
        check_f32("losses", losses, want, S, marks);
        prm_loss_bwd(dd, d, rewards, rows, &scale, weights, S * marks, (int)marks);
        steps_grads(slope, steps_losses, &s, d_, n);
        for (int64_t j = 0; j < n; j++)
            slope[j] *= scale;
        check_f32("slopes", dd, slope, n, marks);
        prm_sums(&loss, stats, losses, d, rewards, rows, weights, S, (int)marks);
        const double all = steps_losses(&s) + 3;
        check_true("their sum", fabs(loss - all) <= 1e-6 * (fabs(all) + (double)S));
        check_true("records, marks", stats[PRM_RECORDS] == records && stats[PRM_MARKS] == marked);
        check_true("marks that are right", stats[PRM_RIGHT] == right);
        check_true("losses, weights, labels", fabs(stats[PRM_LOSS] - plain) <= 1e-6 * (plain + 1) &&
                   fabs(stats[PRM_WEIGHT] - held) <= 1e-6 * (fabs(held) + 1) &&
                   fabs(stats[PRM_REWARD] - labels) <= 1e-6 * (labels + 1));
    }
}

/* The weight of a record and its gradient for the table, by finite differences. */
TEST(prm_weights)
{
    for (int k = 0; k < 4 * STEPS_SHAPES; k++) {
        const int64_t S = steps_shapes[k / 4][0], K = k % 4 == 2 ? 3 : 200;
        const int kind = k % 4;
        float *table = f32_normal(K, 1, 2), *weights = NEW(float, S), *grad = NEW(float, K);
        const float scale = 0.25f;
        int32_t *record = NEW(int32_t, S);
        double *slope = f32_double(f32_normal(S, 0, 1), S), *table_ = f32_double(table, K);
        double *want = NEW(double, S), *want_grad = NEW(double, K), *of = NEW(double, S);
        steps_off_bends(table_, K);
        for (int64_t j = 0; j < K; j++)
            table[j] = (float)table_[j];
        for (int64_t i = 0; i < S; i++) {
            record[i] = i % 4 == 1 ? -1 : (int32_t)random_below(K);
            of[i] = -slope[i] * scale;
        }
        const Steps s = { .S = S, .kind = kind, .record = record, .table = table_, .gradient = of };
        prm_weights(weights, table, record, S, kind);
        for (int64_t i = 0; i < S; i++)
            want[i] = steps_weight(&s, i);
        check_f32("weights", weights, want, S, 1);
        steps_grads(want_grad, steps_weights, &s, table_, K);
        for (int beta = 0; beta < 2; beta++) {
            prm_weights_bwd(grad, slope, &scale, table, record, S, K, kind, beta);
            for (int64_t j = 0; j < K; j++)
                want_grad[j] *= beta + 1;
            check_f32("gradient", grad, want_grad, K, S + 1);
        }
    }
}

TEST(prm_domains)
{
    for (int k = 0; k < STEPS_SHAPES; k++) {
        const int64_t S = steps_shapes[k][0], K = 7;
        const int32_t domains = 5;
        const float scale = 0.25f;
        float *table = f32_normal(K, 0, 2), *weights = NEW(float, S), *grad = NEW(float, K);
        int32_t *record = NEW(int32_t, S);
        double *slope = f32_double(f32_normal(S, 0, 1), S), *table_ = f32_double(table, K);
        double *want = NEW(double, S), *want_grad = NEW(double, K), *of = NEW(double, S);
        for (int64_t i = 0; i < S; i++) {
            record[i] = i % 4 == 1 ? -1 : (int32_t)random_below(domains);
            of[i] = -slope[i] * scale;
        }
        const Steps s = { .S = S, .domains = domains, .record = record, .table = table_,
                          .gradient = of };
        prm_domains(weights, table, &domains, record, S);
        for (int64_t i = 0; i < S; i++)
            want[i] = steps_weight(&s, i);
        check_f32("weights", weights, want, S, 4);
        steps_grads(want_grad, steps_weights, &s, table_, K);
        for (int beta = 0; beta < 2; beta++) {
            prm_domains_bwd(grad, slope, &scale, table, &domains, record, S, K, beta);
            for (int64_t j = 0; j < K; j++)
                want_grad[j] *= beta + 1;
            check_f32("gradient", grad, want_grad, K, 4);
        }
    }
}

TEST(prm_net)
{
    for (int k = 0; k < STEPS_SHAPES; k++) {
        const int64_t S = steps_shapes[k][0], marks = steps_shapes[k][1], n = S * marks;
        const float scale = 0.25f;
        float *net = f32_normal(PRM_NET_PARAMETERS, 0, 0.5), *d = f32_normal(n, 0, 2);
        float *weights = NEW(float, S), *grad = NEW(float, PRM_NET_PARAMETERS);
        int32_t *rows = NEW(int32_t, n), *record = NEW(int32_t, S);
        double *slope = f32_double(f32_normal(S, 0, 1), S), *of = NEW(double, S), *d_ = f32_double(d, n);
        double *net_ = f32_double(net, PRM_NET_PARAMETERS), *want = NEW(double, S);
        double *want_grad = NEW(double, PRM_NET_PARAMETERS);
        steps_rows(rows, S, marks);
        steps_off_kinks(d_, n, net_);
        for (int64_t i = 0; i < n; i++)
            d[i] = (float)d_[i];
        for (int64_t i = 0; i < S; i++) {
            record[i] = i % 4 == 1 ? -1 : 0;
            of[i] = rows[i * marks] < 0 ? 0 : -slope[i] * scale;
        }
        const Steps s = { .S = S, .marks = (int)marks, .rows = rows, .record = record,
                          .d = d_, .net = net_, .gradient = of };
        prm_net(weights, d, rows, record, net, net + 20, net + 30, net + 40, S, (int)marks);
        for (int64_t i = 0; i < S; i++)
            want[i] = steps_weight(&s, i);
        check_f32("weights", weights, want, S, 10);
        steps_grads(want_grad, steps_weights, &s, net_, PRM_NET_PARAMETERS);
        for (int beta = 0; beta < 2; beta++) {
            prm_net_bwd(grad, grad + 20, grad + 30, grad + 40, slope, &scale, d, rows, record, net,
                        net + 20, net + 30, net + 40, S, (int)marks, beta);
            for (int64_t j = 0; j < PRM_NET_PARAMETERS; j++)
                want_grad[j] *= beta + 1;
            check_f32("gradient", grad, want_grad, PRM_NET_PARAMETERS, 10);
        }
    }
}

TEST(prm_outcomes)
{
    for (int k = 0; k < 5 * STEPS_SHAPES; k++) {
        const int64_t S = steps_shapes[k / 5][0], marks = steps_shapes[k / 5][1], n = S * marks;
        const float scale = 0.25f;
        float *d = f32_normal(n, 0, 1), *outcomes = NEW(float, S), *dd = NEW(float, n);
        int32_t *rows = NEW(int32_t, n);
        double stats[PRM_META_STATS] = {0}, *d_ = f32_double(d, n), *slope = NEW(double, n);
        double records = 0, loss = 0, score = 0, right = 0;
        steps_rows(rows, S, marks);
        steps_apart(d_, n, marks);
        for (int64_t j = 0; j < n; j++)
            d[j] = (float)d_[j];
        for (int64_t i = 0; i < S; i++)
            outcomes[i] = (float)(i % 2);
        const Steps s = { .S = S, .marks = (int)marks, .kind = k % 5, .rows = rows, .d = d_,
                          .outcomes = f32_double(outcomes, S) };
        for (int64_t i = 0; i < S; i++) {
            const double S_i = steps_score(&s, i), off = S_i - outcomes[i];
            if (rows[i * marks] < 0)
                continue;
            records++, loss += off * off, score += S_i, right += (S_i > 0.5) == (i % 2 == 1);
        }
        prm_outcome(dd, stats, d, rows, outcomes, &scale, S, (int)marks, k % 5);
        steps_grads(slope, steps_outcomes, &s, d_, n);
        for (int64_t j = 0; j < n; j++)
            slope[j] *= scale;
        check_f32("slopes", dd, slope, n, marks);
        check_true("records", stats[PRM_META_RECORDS] == records && stats[PRM_META_RIGHT] == right);
        check_true("sums", fabs(stats[PRM_META_LOSS] - loss) <= 1e-6 * (loss + 1) &&
                   fabs(stats[PRM_META_SCORE] - score) <= 1e-6 * (score + 1));
    }
}

/* Derived by hand: at d = 0 any labels cost ln 2, a score of any kind but the log_ ones' is a
 * half; entries at first count 1; the quadratic toy. */
TEST(prm_known)
{
    const float d[4] = {0}, rewards[4] = { 0, 0.25f, 0.9f, 1 }, scale = 1, ones[2] = { 1, 1 };
    const float zeros[3] = {0}, outcome[2] = { 1, 0 };
    const int32_t rows[4] = { 5, 6, 9, 11 }, record[2] = { 0, 1 }, three = 3;
    float losses[2], dd[4], weights[2], grad[2];
    double loss = 0, stats[PRM_STATS] = {0}, meta[PRM_META_STATS] = {0};
    prm_loss(losses, d, rewards, rows, 1, 4);
    check_true("ln 2", losses[0] == (float)M_LN2);
    prm_loss_bwd(dd, d, rewards, rows, &scale, NULL, 4, 4);
    for (int j = 0; j < 4; j++)
        check_true("(p - r) / n", fabs(dd[j] - (0.5 - rewards[j]) / 4) < 1e-7);
    prm_sums(&loss, stats, losses, d, rewards, rows, NULL, 1, 4);
    check_true("the sum", fabs(loss - M_LN2) < 1e-7 && stats[PRM_WEIGHT] == 1);
    for (int kind = PRM_LEAKY; kind <= PRM_CLIP; kind++) {
        prm_weights(weights, ones, record, 2, kind);
        check_true("1 at first", weights[0] == 1 && weights[1] == 1);
    }
    prm_domains(weights, zeros, &three, record, 2);
    check_true("domains count 1 at first", weights[0] == 1 && weights[1] == 1);
    for (int kind = PRM_LOG_SUM; kind <= PRM_MAX; kind++) {
        memset(meta, 0, sizeof meta);
        prm_outcome(dd, meta, d, rows, outcome, &scale, 2, 2, kind);
        check_true("a quarter", meta[PRM_META_LOSS] == 0.5 && meta[PRM_META_RECORDS] == 2);
    }
    /* l_i = (x - c_i)^2 / 2, c = (0, 2), along v = 0.5 at x = 1: 0.5 and -0.5; g = -slope / 2 */
    const double slope[2] = { 0.5, -0.5 };
    const float half = 0.5f;
    prm_weights_bwd(grad, slope, &half, ones, record, 2, 2, PRM_LEAKY, 0);
    check_true("the quadratic toy", grad[0] == -0.25f && grad[1] == 0.25f);
}
