/* prm.h -- process reward models: losses of steps and of outcomes, what a record counts, and what
 * is summed of records, the entries of the results `stats` and `meta_stats`, all doubles.
 *
 * d is the margin of a mark's two logits, the logistic function of d the step's probability to be right.
 * Source: DreamPRM, Cao et al. 2025. */
#ifndef DIECAST_PRM_H
#define DIECAST_PRM_H

#ifndef __CUDACC_RTC__
#include <math.h>
#include <stdint.h>
#endif

enum {
    PRM_RECORDS,            /* that have a mark */
    PRM_LOSS,               /* of their losses, unweighted */
    PRM_WEIGHT,             /* of their weights */
    PRM_MARKS,
    PRM_RIGHT,              /* marks with d > 0 just where the label is above a half */
    PRM_REWARD,             /* of their labels */
    PRM_STATS
};

enum {
    PRM_META_RECORDS,       /* meta records that have a mark */
    PRM_META_LOSS,          /* of (S - label)^2, of these like the rest */
    PRM_META_SCORE,         /* of S */
    PRM_META_RIGHT,         /* S above a half just where the label is */
    PRM_META_STATS
};

enum { PRM_LEAKY, PRM_RELU, PRM_NONE, PRM_CLIP };                       /* activations of entries */
enum { PRM_LOG_SUM, PRM_LOG_MEAN, PRM_MEAN, PRM_MIN, PRM_MAX };         /* aggregates */

/* A kernel's file says otherwise before it includes this one. */
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

/* Marks of a record: its rows that are not -1. */
PRM_FUNCTION int prm_marks(const int32_t *rows, int most)
{
    int n = 0;
    for (int j = 0; j < most; j++)
        n += rows[j] >= 0;
    return n;
}

/* The mean over its marks; 0 without any. */
PRM_FUNCTION double prm_record_loss(const float *d, const float *rewards, const int32_t *rows, int most)
{
    const int n = prm_marks(rows, most);
    double sum = 0;
    for (int j = 0; j < most; j++)
        sum += rows[j] < 0 ? 0 : prm_softplus(d[j]) - (double)rewards[j] * d[j];
    return n ? sum / n : 0;
}

/* What that changes by the d of one of n marks. */
PRM_FUNCTION double prm_record_slope(double d, double reward, int n)
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

/* Of an entry of the table. */
PRM_FUNCTION double prm_activation(int kind, double a)
{
    if (kind == PRM_CLIP)
        return a < -1 ? -1 : a > 3 ? 3 : a;
    return a > 0 || kind == PRM_NONE ? a : kind == PRM_LEAKY ? 0.01 * a : 0;
}

PRM_FUNCTION double prm_activation_slope(int kind, double a)
{
    if (kind == PRM_CLIP)
        return a >= -1 && a <= 3;
    return a > 0 || kind == PRM_NONE ? 1 : kind == PRM_LEAKY ? 0.01 : 0;
}

/* ---- the score of a solution ---- */

/* S of the marks of a record, those whose row is not -1; a half without any. */
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

/* What S, found as above, changes by the d of mark k; of equal least or largest the first has it. */
PRM_FUNCTION double prm_aggregate_slope(int kind, const float *d, const int32_t *rows, int most, int k,
                                        double score)
{
    const double p = prm_logistic(d[k]);
    const int n = prm_marks(rows, most);
    if (kind == PRM_LOG_SUM || kind == PRM_LOG_MEAN)
        return score * (1 - score) / (kind == PRM_LOG_SUM ? 1 : n);
    if (kind == PRM_MEAN)
        return p * (1 - p) / n;
    for (int j = 0; j < most; j++)
        if (rows[j] >= 0 && j != k &&
            (kind == PRM_MIN ? d[j] < d[k] : d[j] > d[k] ? 1 : 0))
            return 0;
    for (int j = 0; j < k; j++)
        if (rows[j] >= 0 && d[j] == d[k])
            return 0;
    return p * (1 - p);
}

#endif
