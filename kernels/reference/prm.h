/* prm.h -- double-precision reference of process reward models, as the papers state them.
 *
 * In:    margins d of a record's n step labels and the labels r, contiguous; entries of the
 *        table; the net's parameters w1 (10, 2), b1 (10), w2 (10), b2, concatenated.
 * Out:   losses, weights and scores; tests take gradients by finite differences. */
#ifndef DIECAST_KERNELS_REFERENCE_PRM_H
#define DIECAST_KERNELS_REFERENCE_PRM_H

#include <math.h>

static inline double prm_p_ref(double d) { return 1 / (1 + exp(-d)); }

/* Mean binary cross-entropy of p = sigmoid(d). */
static inline double prm_loss_ref(const double *d, const double *r, int n)
{
    double sum = 0;
    for (int j = 0; j < n; j++)
        sum -= (r[j] * log(prm_p_ref(d[j])) + (1 - r[j]) * log(prm_p_ref(-d[j]))) / n;
    return sum;
}

/* kind: 0 leaky, 1 relu, 2 none, 3 clip */
static inline double prm_weight_ref(int kind, double a)
{
    const double least[] = { 0.01 * a, 0, a, -1 };
    return kind == 3 ? fmin(fmax(a, -1), 3) : fmax(a, least[kind]);
}

/* kind: 0 log_sum, 1 log_mean, 2 mean, 3 min, 4 max */
static inline double prm_score_ref(int kind, const double *d, int n)
{
    double sum = 0, p = 0, least = 1, most = 0;
    for (int j = 0; j < n; j++) {
        sum += d[j];
        p += prm_p_ref(d[j]);
        least = fmin(least, prm_p_ref(d[j]));
        most = fmax(most, prm_p_ref(d[j]));
    }
    const double score[] = { prm_p_ref(sum), prm_p_ref(sum / n), p / n, least, most };
    return score[kind];
}

/* Weight of entry k of n: softplus over the mean softplus. */
static inline double prm_domain_ref(const double *table, int n, int k)
{
    double mean = 0;
    for (int j = 0; j < n; j++)
        mean += log(1 + exp(table[j])) / n;
    return log(1 + exp(table[k])) / mean;
}

static inline double prm_net_ref(const double *net, const double *d, int n)
{
    const double *w1 = net, *b1 = net + 20, *w2 = net + 30, *b2 = net + 40;
    double mean = 0;
    for (int j = 0; j < n; j++) {
        const double pair[2] = { 1 / (1 + exp(d[j])), exp(d[j]) / (1 + exp(d[j])) };
        double y = *b2;
        for (int u = 0; u < 10; u++) {
            const double z = w1[2 * u] * pair[0] + w1[2 * u + 1] * pair[1] + b1[u];
            y += w2[u] * (z < 0 ? 0.01 * z : z);
        }
        mean += y / n;
    }
    return prm_p_ref(mean);
}

#endif
