/* prm.h -- process reward losses of step-labelled records, and per-record weights.
 *
 * In:    d, rewards (S * marks) fp32 and rows (S * marks) int32, those of record i from i *
 *        marks: margin, label and position of each step, position -1: none; table (K) fp32 and
 *        record (S) int32, its entry or -1; weights (S) fp32, NULL: 1; jvp (S) double: the
 *        gradient of a record's weight is -jvp * scale[0].
 * Keeps: in double, records in order; stored values are rounded to fp32. */
#ifndef DIECAST_KERNELS_PRM_H
#define DIECAST_KERNELS_PRM_H

#include "../../runtime/prm.h"
#include "types.h"

/* weights (S) = act(table[record]), kind: PRM_LEAKY ...; 1 without an entry. */
static inline void prm_weights(float *restrict weights, const float *restrict table,
                               const int32_t *restrict record, int64_t S, int kind)
{
    for (int64_t i = 0; i < S; i++)
        weights[i] = record[i] < 0 ? 1 : (float)prm_activation(kind, table[record[i]]);
}

/* The same for domains[0] domains. */
static inline void prm_domains(float *restrict weights, const float *restrict table,
                               const int32_t *restrict domains, const int32_t *restrict record,
                               int64_t S)
{
    const int n = domains[0];
    const double total = prm_domains_total(table, n);
    for (int64_t i = 0; i < S; i++)
        weights[i] = record[i] < 0 ? 1 : (float)prm_domain_weight(table[record[i]], total, n);
}

/* The same for a net with parameters w1 .. b2 as in PrmNet. */
static inline void prm_net(float *restrict weights, const float *restrict d,
                           const int32_t *restrict rows, const int32_t *restrict record,
                           const float *w1, const float *b1, const float *w2, const float *b2,
                           int64_t S, int marks)
{
    const PrmNet net = {w1, b1, w2, b2};
    for (int64_t i = 0; i < S; i++)
        weights[i] = record[i] < 0
                         ? 1
                         : (float)prm_net_weight(&net, d + i * marks, rows + i * marks, marks);
}

/* dtable (K); beta 1: accumulates, like the others. */
static inline void prm_weights_bwd(float *restrict dtable, const double *restrict jvp,
                                   const float *restrict scale, const float *restrict table,
                                   const int32_t *restrict record, int64_t S, int64_t K, int kind,
                                   int beta)
{
    if (!beta)
        memset(dtable, 0, sizeof *dtable * (size_t)K);
    for (int64_t i = 0; i < S; i++)
        if (record[i] >= 0)
            dtable[record[i]] -= (float)(jvp[i] * scale[0] *
                                         prm_activation_grad(kind, table[record[i]]));
}

static inline void prm_domains_bwd(float *restrict dtable, const double *restrict jvp,
                                   const float *restrict scale, const float *restrict table,
                                   const int32_t *restrict domains,
                                   const int32_t *restrict record, int64_t S, int64_t K, int beta)
{
    const int n = domains[0];
    const double total = prm_domains_total(table, n);
    double all = 0;
    for (int64_t i = 0; i < S; i++)
        if (record[i] >= 0)
            all -= jvp[i] * scale[0] * prm_domain_weight(table[record[i]], total, n);
    for (int64_t k = 0; k < K; k++) {
        double own = 0;
        for (int64_t i = 0; i < S; i++)
            own -= record[i] == k ? jvp[i] * scale[0] : 0;
        dtable[k] = (beta ? dtable[k] : 0) +
                    (k < n ? (float)prm_domain_grad(table[k], total, n, own, all) : 0);
    }
}

static inline void prm_net_bwd(float *restrict dw1, float *restrict db1, float *restrict dw2,
                               float *restrict db2, const double *restrict jvp,
                               const float *restrict scale, const float *restrict d,
                               const int32_t *restrict rows, const int32_t *restrict record,
                               const float *w1, const float *b1, const float *w2, const float *b2,
                               int64_t S, int marks, int beta)
{
    const PrmNet net = {w1, b1, w2, b2};
    for (int k = 0; k < PRM_NET_PARAMETERS; k++) {
        double sum = 0;
        for (int64_t i = 0; i < S; i++) {
            if (record[i] < 0)
                continue;
            const double weight = prm_net_weight(&net, d + i * marks, rows + i * marks, marks);
            sum -= jvp[i] * scale[0] *
                   prm_net_weight_grad(&net, d + i * marks, rows + i * marks, marks, k, weight);
        }
        float *to = k < PRM_NET_B1   ? dw1 + k
                    : k < PRM_NET_W2 ? db1 + (k - PRM_NET_B1)
                    : k < PRM_NET_B2 ? dw2 + (k - PRM_NET_W2)
                                     : db2;
        *to = (beta ? *to : 0) + (float)sum;
    }
}

/* Meta records with outcomes (S): dd (S * marks) of scale[0] * (score - outcome)^2; adds to
 * stats, the entries PRM_META_... of runtime/prm.h. */
static inline void prm_outcome(float *restrict dd, double *stats, const float *restrict d,
                               const int32_t *restrict rows, const float *restrict outcomes,
                               const float *restrict scale, int64_t S, int marks, int kind)
{
    for (int64_t i = 0; i < S; i++) {
        const float *of = d + i * marks;
        const int32_t *at = rows + i * marks;
        const double score = prm_aggregate(kind, of, at, marks);
        prm_count_outcome(stats, score, outcomes[i], prm_marks(at, marks));
        for (int j = 0; j < marks; j++)
            dd[i * marks + j] =
                at[j] < 0 ? 0
                          : (float)(scale[0] * 2 * (score - outcomes[i]) *
                                    prm_aggregate_grad(kind, of, at, marks, j, score));
    }
}

/* losses (S) */
static inline void prm_loss(float *restrict losses, const float *restrict d,
                            const float *restrict rewards, const int32_t *restrict rows, int64_t S,
                            int marks)
{
    for (int64_t i = 0; i < S; i++)
        losses[i] =
            (float)prm_record_loss(d + i * marks, rewards + i * marks, rows + i * marks, marks);
}

/* dd (N), the gradient of scale[0] * weight * loss of N / marks records. */
static inline void prm_loss_bwd(float *restrict dd, const float *restrict d,
                                const float *restrict rewards, const int32_t *restrict rows,
                                const float *restrict scale, const float *restrict weights,
                                int64_t N, int marks)
{
    for (int64_t i = 0; i < N / marks; i++) {
        const int n = prm_marks(rows + i * marks, marks);
        const double of_loss = (double)scale[0] * (weights ? weights[i] : 1);
        for (int64_t j = i * marks; j < (i + 1) * marks; j++)
            dd[j] = rows[j] < 0 ? 0 : (float)(of_loss * prm_record_grad(d[j], rewards[j], n));
    }
}

/* Adds to loss[0] and to stats, the entries of runtime/prm.h. */
static inline void prm_sums(double *loss, double *stats, const float *losses, const float *d,
                            const float *rewards, const int32_t *rows, const float *weights,
                            int64_t S, int marks)
{
    for (int64_t i = 0; i < S; i++) {
        const double weight = weights ? weights[i] : 1;
        loss[0] += weight * losses[i];
        prm_count(stats, d + i * marks, rewards + i * marks, rows + i * marks, marks, losses[i],
                  weight);
    }
}

#endif
