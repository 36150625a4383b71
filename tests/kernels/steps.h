/* steps.h -- records with marks, and sums whose slopes are known by differences, for the tests of every
 * target (C and C++).
 *
 * In:    random_below() of the harness, the reference in double. */
#ifndef DIECAST_TESTS_KERNELS_STEPS_H
#define DIECAST_TESTS_KERNELS_STEPS_H

#include <stdint.h>

#include "../../kernels/reference/prm.h"
#include "numbers.h"

/* Records of so many marks at most: one, more than a block has threads. */
static const int64_t steps_shapes[][2] = { { 1, 1 }, { 8, 4 }, { 5, 15 }, { 300, 4 } };
enum { STEPS_SHAPES = sizeof steps_shapes / sizeof steps_shapes[0], STEPS_MARKS = 15 };

typedef struct {
    int64_t S, first;                                /* sums are of records first .. S - 1 */
    int marks, kind, domains;
    const int32_t *rows, *record;
    const double *d, *rewards, *weights, *outcomes;  /* of marks; of records */
    const double *table, *net, *gradient;            /* gradient: of each weight */
} Steps;

/* Places of marks, -1 for the rest: record 0 has all it may have, others any number. */
static inline void steps_rows(int32_t *rows, int64_t S, int64_t marks)
{
    for (int64_t i = 0; i < S; i++) {
        const int64_t n = i ? random_below(marks + 1) : marks;
        for (int64_t j = 0; j < marks; j++)
            rows[i * marks + j] = j < n ? (int32_t)(i * 100 + j) : -1;
    }
}

/* Moves d (n) to where no unit of a net (its parameters as prm_net_ref() has them) is so near its kink that differences
 * would step over it: those of steps_grads() move a unit by 2e-4 at most. d stays what floats can hold. */
static inline void steps_off_kinks(double *d, int64_t n, const double *net)
{
    for (int64_t j = 0; j < n; j++)
        for (int u = 0, turns = 0; u < 10 && turns < 1000; u++) {
            const double p = 1 / (1 + exp(-d[j]));
            const double z = net[2 * u] * (1 - p) + net[2 * u + 1] * p + net[20 + u];
            if (z > -1e-3 && z < 1e-3)
                d[j] = d[j] > 4 ? -4 : (float)(d[j] + 0.0625), u = -1, turns++;
        }
}

/* Moves entries of a table (n) from where activations bend: -1, 0 and 3. */
static inline void steps_off_bends(double *table, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        for (int at = -1; at <= 3; at++)
            if (at != 1 && at != 2 && table[j] - at > -1e-3 && table[j] - at < 1e-3)
                table[j] = (float)(table[j] + 0.0625);
}

/* Moves marks of a record (d, S * marks) apart: of two that are as large, differences take one or the other for the
 * largest. */
static inline void steps_apart(double *d, int64_t n, int64_t marks)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t k = j / marks * marks; k < j; k++)
            if (d[j] - d[k] > -1e-3 && d[j] - d[k] < 1e-3)
                d[j] = (float)(d[j] + 0.0078125), k = j / marks * marks - 1;
}

/* A record's own numbers of x (S * marks), side by side; how many. */
static inline int steps_of(const Steps *s, int64_t i, const double *x, double *to)
{
    int n = 0;
    for (int64_t j = i * s->marks; j < (i + 1) * s->marks; j++)
        if (s->rows[j] >= 0)
            to[n++] = x[j];
    return n;
}

static inline double steps_loss(const Steps *s, int64_t i)
{
    double d[STEPS_MARKS], r[STEPS_MARKS];
    const int n = steps_of(s, i, s->d, d);
    steps_of(s, i, s->rewards, r);
    return n ? prm_loss_ref(d, r, n) : 0;
}

/* Of all losses, weighted. */
static inline double steps_losses(const Steps *s)
{
    double sum = 0;
    for (int64_t i = s->first; i < s->S; i++)
        sum += (s->weights ? s->weights[i] : 1) * steps_loss(s, i);
    return sum;
}

static inline double steps_score(const Steps *s, int64_t i)
{
    double d[STEPS_MARKS];
    const int n = steps_of(s, i, s->d, d);
    return n ? prm_score_ref(s->kind, d, n) : 0.5;
}

static inline double steps_outcomes(const Steps *s)
{
    double sum = 0;
    for (int64_t i = s->first; i < s->S; i++)
        sum += (steps_score(s, i) - s->outcomes[i]) * (steps_score(s, i) - s->outcomes[i]);
    return sum;
}

/* Of the table, of its domains, of the net. */
static inline double steps_weight(const Steps *s, int64_t i)
{
    double d[STEPS_MARKS];
    if (s->record[i] < 0)
        return 1;
    if (s->net) {
        const int n = steps_of(s, i, s->d, d);
        return n ? prm_net_ref(s->net, d, n) : 0.5;
    }
    return s->domains ? prm_domain_ref(s->table, s->domains, s->record[i])
                      : prm_weight_ref(s->kind, s->table[s->record[i]]);
}

/* Their gradients times them. */
static inline double steps_weights(const Steps *s)
{
    double sum = 0;
    for (int64_t i = s->first; i < s->S; i++)
        sum += s->gradient[i] * steps_weight(s, i);
    return sum;
}

/* Gradient of f with respect to each of x (n), one of its arrays; an element of d affects its own record alone. */
static inline void steps_grads(double *to, double (*f)(const Steps *s), const Steps *s, double *x,
                               int64_t n)
{
    const double h = 1e-4;
    Steps of = *s;
    for (int64_t k = 0; k < n; k++) {
        double at[4], was = x[k];
        if (x == s->d)
            of.first = k / s->marks, of.S = of.first + 1;
        for (int j = 0; j < 4; j++) {
            x[k] = was + GRADIENT_STEPS[j] * h;
            at[j] = f(&of);
        }
        x[k] = was;
        to[k] = gradient_slope(at, h);
    }
}

#endif
