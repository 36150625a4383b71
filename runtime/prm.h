/* prm.h -- process reward models: step loss, meta loss, record weights.
 *
 * Sums over records: entries of the results `stats` and `meta_stats`, all doubles.
 * d is the margin of a mark's two logits; its logistic function is the probability that the step is
 * right.
 * Source: DreamPRM, Cao et al. 2025. */
#ifndef DIECAST_PRM_H
#define DIECAST_PRM_H

#ifndef __CUDACC_RTC__
#include <math.h>
#include <stdint.h>
#endif

enum {
    PRM_RECORDS,            /* records with a mark */
    PRM_LOSS,               /* their losses, unweighted */
    PRM_WEIGHT,             /* their weights */
    PRM_MARKS,
    PRM_RIGHT,              /* marks with d > 0 if and only if the label is above a half */
    PRM_REWARD,             /* their labels */
    PRM_STATS
};

enum {
    PRM_META_RECORDS,       /* meta records with a mark */
    PRM_META_LOSS,          /* (S - label)^2, of meta records like the rest */
    PRM_META_SCORE,         /* S */
    PRM_META_RIGHT,         /* S above a half if and only if the label is */
    PRM_META_STATS
};

enum { PRM_LEAKY, PRM_RELU, PRM_NONE, PRM_CLIP };                       /* activations of entries */
enum { PRM_LOG_SUM, PRM_LOG_MEAN, PRM_MEAN, PRM_MIN, PRM_MAX };         /* aggregates */

/* A kernel file may define it otherwise before including this one. */
#ifndef PRM_FUNCTION
#define PRM_FUNCTION static inline
#endif

/* ln(1 + e^x) */
PRM_FUNCTION double prm_softplus(double x)
{
    return log1p(exp(x < 0 ? x : -x)) + (x > 0 ? x : 0);
}

PRM_FUNCTION double prm_logistic(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

/* ---- records ---- */

/* Returns the number of marks of a record: rows other than -1. */
PRM_FUNCTION int prm_marks(const int32_t *rows, int most)
{
    int n = 0;
    for (int j = 0; j < most; j++)
        n += rows[j] >= 0;
    return n;
}

/* Returns the mean over its marks; 0: no marks. */
PRM_FUNCTION double prm_record_loss(const float *d, const float *rewards, const int32_t *rows,
                                    int most)
{
    const int n = prm_marks(rows, most);
    double sum = 0;
    for (int j = 0; j < most; j++)
        sum += rows[j] < 0 ? 0 : prm_softplus(d[j]) - (double)rewards[j] * d[j];
    return n ? sum / n : 0;
}

/* Returns the derivative of that mean by the d of one of n marks. */
PRM_FUNCTION double prm_record_grad(double d, double reward, int n)
{
    return (prm_logistic(d) - reward) / n;
}

/* Adds a record to the sums. */
PRM_FUNCTION void prm_count(double stats[PRM_STATS], const float *d, const float *rewards,
                            const int32_t *rows, int most, double loss, double weight)
{
    if (!prm_marks(rows, most))
        return;
    stats[PRM_RECORDS] += 1;
    stats[PRM_LOSS] += loss;
    stats[PRM_WEIGHT] += weight;
    for (int j = 0; j < most; j++)
        if (rows[j] >= 0) {
            stats[PRM_MARKS] += 1;
            stats[PRM_RIGHT] += (d[j] > 0) == (rewards[j] > 0.5f);
            stats[PRM_REWARD] += rewards[j];
        }
}

/* ---- what a record counts ---- */

/* Weight of an entry of the table. */
PRM_FUNCTION double prm_activation(int kind, double a)
{
    if (kind == PRM_CLIP)
        return a < -1 ? -1 : a > 3 ? 3 : a;
    return a > 0 || kind == PRM_NONE ? a : kind == PRM_LEAKY ? 0.01 * a : 0;
}

PRM_FUNCTION double prm_activation_grad(int kind, double a)
{
    if (kind == PRM_CLIP)
        return a >= -1 && a <= 3;
    return a > 0 || kind == PRM_NONE ? 1 : kind == PRM_LEAKY ? 0.01 : 0;
}

/* Returns the sum of softplus over the entries of n domains; a domain has the weight n softplus(a)
 * / sum. */
PRM_FUNCTION double prm_domains_total(const float *table, int n)
{
    double sum = 0;
    for (int k = 0; k < n; k++)
        sum += prm_softplus(table[k]);
    return sum;
}

PRM_FUNCTION double prm_domain_weight(double a, double total, int n)
{
    return n * prm_softplus(a) / total;
}

/* Returns the gradient of entry a from those of weights: `own`, summed over its records, and `all`,
 * weight times gradient summed over all records. */
PRM_FUNCTION double prm_domain_grad(double a, double total, int n, double own, double all)
{
    return n * prm_logistic(a) / total * (own - all / n);
}

/* A net for all records: the pair 1 - p, p of each mark goes through PRM_NET_UNITS units; the
 * logistic function of the mean over the marks is the weight. w1 (units, 2), b1, w2 (units), b2
 * (1). */
enum { PRM_NET_UNITS = 10, PRM_NET_INPUTS = 2 };

typedef struct {
    const float *w1, *b1, *w2, *b2;
} PrmNet;

/* Its parameters by number: w1, b1, w2, b2. */
enum {
    PRM_NET_B1 = PRM_NET_UNITS * PRM_NET_INPUTS,
    PRM_NET_W2 = PRM_NET_B1 + PRM_NET_UNITS,
    PRM_NET_B2 = PRM_NET_W2 + PRM_NET_UNITS,
    PRM_NET_PARAMETERS
};

PRM_FUNCTION double prm_net_unit_(const PrmNet *net, int unit, double p)
{
    return net->b1[unit] + (1 - p) * net->w1[PRM_NET_INPUTS * unit] +
           p * net->w1[PRM_NET_INPUTS * unit + 1];
}

/* Output for one mark. */
PRM_FUNCTION double prm_net_mark(const PrmNet *net, double p)
{
    double sum = net->b2[0];
    for (int unit = 0; unit < PRM_NET_UNITS; unit++)
        sum += net->w2[unit] * prm_activation(PRM_LEAKY, prm_net_unit_(net, unit, p));
    return sum;
}

/* Returns its derivative by parameter k. */
PRM_FUNCTION double prm_net_mark_grad(const PrmNet *net, double p, int k)
{
    if (k == PRM_NET_B2)
        return 1;
    const int unit = k < PRM_NET_B1   ? k / PRM_NET_INPUTS
                     : k < PRM_NET_W2 ? k - PRM_NET_B1
                                      : k - PRM_NET_W2;
    const double z = prm_net_unit_(net, unit, p);
    if (k >= PRM_NET_W2)
        return prm_activation(PRM_LEAKY, z);
    const double of_unit = net->w2[unit] * prm_activation_grad(PRM_LEAKY, z);
    return k >= PRM_NET_B1 ? of_unit : of_unit * (k % PRM_NET_INPUTS ? p : 1 - p);
}

/* Weight of a record; a half without a mark. */
PRM_FUNCTION double prm_net_weight(const PrmNet *net, const float *d, const int32_t *rows, int most)
{
    const int n = prm_marks(rows, most);
    double sum = 0;
    for (int j = 0; j < most; j++)
        sum += rows[j] < 0 ? 0 : prm_net_mark(net, prm_logistic(d[j])) / n;
    return prm_logistic(sum);
}

/* Returns the derivative of that weight by parameter k. */
PRM_FUNCTION double prm_net_weight_grad(const PrmNet *net, const float *d, const int32_t *rows,
                                        int most, int k, double weight)
{
    const int n = prm_marks(rows, most);
    double sum = 0;
    for (int j = 0; j < most; j++)
        sum += rows[j] < 0 ? 0 : prm_net_mark_grad(net, prm_logistic(d[j]), k) / n;
    return weight * (1 - weight) * sum;
}

/* ---- the score of a solution ---- */

/* Returns S from the marks of a record, rows other than -1; a half without a mark. */
PRM_FUNCTION double prm_aggregate(int kind, const float *d, const int32_t *rows, int most)
{
    const int n = prm_marks(rows, most);
    double sum = 0, mean = 0, least = 1, largest = 0;
    for (int j = 0; j < most; j++) {
        if (rows[j] < 0)
            continue;
        const double p = prm_logistic(d[j]);
        sum += d[j];
        mean += p / n;
        least = p < least ? p : least;
        largest = p > largest ? p : largest;
    }
    return !n                    ? 0.5
           : kind == PRM_LOG_SUM  ? prm_logistic(sum)
           : kind == PRM_LOG_MEAN ? prm_logistic(sum / n)
           : kind == PRM_MEAN     ? mean
           : kind == PRM_MIN      ? least
                                  : largest;
}

/* Returns the derivative of that S by the d of mark k; among equal minima or maxima only the first
 * has one. */
PRM_FUNCTION double prm_aggregate_grad(int kind, const float *d, const int32_t *rows, int most,
                                       int k, double score)
{
    const double p = prm_logistic(d[k]);
    const int n = prm_marks(rows, most);
    if (kind == PRM_LOG_SUM || kind == PRM_LOG_MEAN)
        return score * (1 - score) / (kind == PRM_LOG_SUM ? 1 : n);
    if (kind == PRM_MEAN)
        return p * (1 - p) / n;
    for (int j = 0; j < most; j++) {
        const int beyond = kind == PRM_MIN ? d[j] < d[k] : d[j] > d[k];
        if (rows[j] >= 0 && (beyond || (j < k && d[j] == d[k])))
            return 0;
    }
    return p * (1 - p);
}

/* Adds a meta record with that many marks to the sums. */
PRM_FUNCTION void prm_count_outcome(double stats[PRM_META_STATS], double score, double outcome,
                                    int marks)
{
    if (!marks)
        return;
    stats[PRM_META_RECORDS] += 1;
    stats[PRM_META_LOSS] += (score - outcome) * (score - outcome);
    stats[PRM_META_SCORE] += score;
    stats[PRM_META_RIGHT] += (score > 0.5) == (outcome > 0.5);
}

#endif
