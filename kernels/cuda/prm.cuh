/* prm.cuh -- process reward losses of step-labelled records, and per-record weights.
 *
 * In:    d, rewards (S * marks) fp32 and rows (S * marks) int32, those of record i from i *
 *        marks: margin, label and position of each step, position -1: none; table (K) fp32 and
 *        record (S) int32, its entry or -1; weights (S) fp32, NULL: 1; jvp (S) double: the
 *        gradient of a record's weight is -jvp * scale[0].
 * Keeps: in double, in an order fixed by S; stored values are rounded to fp32.
 * Method: one thread per record; sums in one block, as there are few. */
#ifndef DIECAST_KERNELS_CUDA_PRM_CUH
#define DIECAST_KERNELS_CUDA_PRM_CUH

#include "types.cuh"

#define PRM_FUNCTION static inline __device__
#include "../../runtime/prm.h"

enum { PRM_THREADS = 128 };

static inline __device__ int64_t prm_record_(void)
{
    return blockIdx.x * (int64_t)PRM_THREADS + threadIdx.x;
}

__global__ void __launch_bounds__(PRM_THREADS)
    prm_weights_kernel(float *__restrict__ weights, const float *__restrict__ table,
                       const int32_t *__restrict__ record, int64_t S, int kind)
{
    const int64_t i = prm_record_();
    if (i < S)
        weights[i] = record[i] < 0 ? 1.0f : (float)prm_activation(kind, table[record[i]]);
}

__global__ void __launch_bounds__(PRM_THREADS)
    prm_domains_kernel(float *__restrict__ weights, const float *__restrict__ table,
                       const int32_t *__restrict__ domains, const int32_t *__restrict__ record,
                       int64_t S)
{
    const int64_t i = prm_record_();
    const int n = domains[0];
    if (i < S)
        weights[i] = record[i] < 0 ? 1.0f
                                   : (float)prm_domain_weight(table[record[i]],
                                                              prm_domains_total(table, n), n);
}

__global__ void __launch_bounds__(PRM_THREADS)
    prm_net_kernel(float *__restrict__ weights, const float *__restrict__ d,
                   const int32_t *__restrict__ rows, const int32_t *__restrict__ record, PrmNet net,
                   int64_t S, int marks)
{
    const int64_t i = prm_record_(), at = i * marks;
    if (i < S)
        weights[i] = record[i] < 0 ? 1.0f : (float)prm_net_weight(&net, d + at, rows + at, marks);
}

/* One thread per entry, which searches for its records. */
__global__ void __launch_bounds__(PRM_THREADS)
    prm_weights_bwd_kernel(float *__restrict__ dtable, const double *__restrict__ jvp,
                           const float *__restrict__ scale, const float *__restrict__ table,
                           const int32_t *__restrict__ record, int64_t S, int64_t K, int kind,
                           int beta)
{
    const int64_t k = prm_record_();
    if (k >= K)
        return;
    const double of_weight = scale[0] * prm_activation_grad(kind, table[k]);
    float sum = beta ? dtable[k] : 0.0f;
    for (int64_t i = 0; i < S; i++)
        if (record[i] == k)
            sum -= (float)(jvp[i] * of_weight);
    dtable[k] = sum;
}

__global__ void __launch_bounds__(PRM_THREADS)
    prm_domains_bwd_kernel(float *__restrict__ dtable, const double *__restrict__ jvp,
                           const float *__restrict__ scale, const float *__restrict__ table,
                           const int32_t *__restrict__ domains, const int32_t *__restrict__ record,
                           int64_t S, int64_t K, int beta)
{
    const int64_t k = prm_record_();
    if (k >= K)
        return;
    const int n = domains[0];
    const double total = prm_domains_total(table, n);
    double own = 0, all = 0;
    for (int64_t i = 0; i < S; i++) {
        if (record[i] < 0)
            continue;
        all -= jvp[i] * scale[0] * prm_domain_weight(table[record[i]], total, n);
        own -= record[i] == k ? jvp[i] * scale[0] : 0;
    }
    dtable[k] = (beta ? dtable[k] : 0.0f) +
                (k < n ? (float)prm_domain_grad(table[k], total, n, own, all) : 0.0f);
}

/* One thread per parameter; to: w1, b1, w2, b2. */
struct PrmNetGradients {
    float *w1, *b1, *w2, *b2;
};

__global__ void __launch_bounds__(PRM_THREADS)
    prm_net_bwd_kernel(PrmNetGradients to, const double *__restrict__ jvp,
                       const float *__restrict__ scale, const float *__restrict__ d,
                       const int32_t *__restrict__ rows, const int32_t *__restrict__ record,
                       PrmNet net, int64_t S, int marks, int beta)
{
    const int k = threadIdx.x;
    if (k >= PRM_NET_PARAMETERS)
        return;
    double sum = 0;
    for (int64_t i = 0; i < S; i++) {
        const int64_t at = i * marks;
        if (record[i] < 0)
            continue;
        const double weight = prm_net_weight(&net, d + at, rows + at, marks);
        sum -= jvp[i] * scale[0] *
               prm_net_weight_grad(&net, d + at, rows + at, marks, k, weight);
    }
    float *out = k < PRM_NET_B1   ? to.w1 + k
                 : k < PRM_NET_W2 ? to.b1 + (k - PRM_NET_B1)
                 : k < PRM_NET_B2 ? to.w2 + (k - PRM_NET_W2)
                                  : to.b2;
    *out = (beta ? *out : 0.0f) + (float)sum;
}

__global__ void __launch_bounds__(PRM_THREADS)
    prm_outcome_kernel(float *__restrict__ dd, double *stats, const float *__restrict__ d,
                       const int32_t *__restrict__ rows, const float *__restrict__ outcomes,
                       const float *__restrict__ scale, int64_t S, int marks, int kind)
{
    double part[PRM_META_STATS] = {};
    for (int64_t i = threadIdx.x; i < S; i += PRM_THREADS) {
        const float *of = d + i * marks;
        const int32_t *at = rows + i * marks;
        const double score = prm_aggregate(kind, of, at, marks);
        prm_count_outcome(part, score, outcomes[i], prm_marks(at, marks));
        for (int j = 0; j < marks; j++)
            dd[i * marks + j] =
                at[j] < 0 ? 0.0f
                          : (float)(scale[0] * 2 * (score - outcomes[i]) *
                                    prm_aggregate_grad(kind, of, at, marks, j, score));
    }
#pragma unroll
    for (int k = 0; k < PRM_META_STATS; k++) {
        const double all = block_sum(part[k]);
        if (threadIdx.x == 0)
            stats[k] += all;
    }
}

__global__ void __launch_bounds__(PRM_THREADS)
    prm_loss_kernel(float *__restrict__ losses, const float *__restrict__ d,
                    const float *__restrict__ rewards, const int32_t *__restrict__ rows, int64_t S,
                    int marks)
{
    const int64_t i = prm_record_(), at = i * marks;
    if (i < S)
        losses[i] = (float)prm_record_loss(d + at, rewards + at, rows + at, marks);
}

__global__ void __launch_bounds__(PRM_THREADS)
    prm_loss_bwd_kernel(float *__restrict__ dd, const float *__restrict__ d,
                        const float *__restrict__ rewards, const int32_t *__restrict__ rows,
                        const float *__restrict__ scale, const float *__restrict__ weights,
                        int64_t S, int marks)
{
    const int64_t i = prm_record_();
    if (i >= S)
        return;
    const int n = prm_marks(rows + i * marks, marks);
    const double of_loss = (double)scale[0] * (weights ? weights[i] : 1.0f);
    for (int64_t j = i * marks; j < (i + 1) * marks; j++)
        dd[j] = rows[j] < 0 ? 0.0f : (float)(of_loss * prm_record_grad(d[j], rewards[j], n));
}

__global__ void __launch_bounds__(PRM_THREADS)
    prm_sums_kernel(double *loss, double *stats, const float *__restrict__ losses,
                    const float *__restrict__ d, const float *__restrict__ rewards,
                    const int32_t *__restrict__ rows, const float *__restrict__ weights, int64_t S,
                    int marks)
{
    double sum = 0, part[PRM_STATS] = {};
    for (int64_t i = threadIdx.x; i < S; i += PRM_THREADS) {
        const int64_t at = i * marks;
        const double weight = weights ? weights[i] : 1.0f;
        sum += weight * losses[i];
        prm_count(part, d + at, rewards + at, rows + at, marks, losses[i], weight);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        loss[0] += sum;
#pragma unroll
    for (int k = 0; k < PRM_STATS; k++) {
        const double all = block_sum(part[k]);
        if (threadIdx.x == 0)
            stats[k] += all;
    }
}

#ifndef __CUDACC_RTC__
/* weights (S) = act(table[record]), kind: PRM_LEAKY ...; 1 without an entry. */
static inline void prm_weights(float *weights, const float *table, const int32_t *record, int64_t S,
                               int kind, cudaStream_t s)
{
    launch(prm_weights_kernel, blocks_over(S, PRM_THREADS), PRM_THREADS, 0, s, weights, table,
           record, S, kind);
}

/* The same for domains[0] domains. */
static inline void prm_domains(float *weights, const float *table, const int32_t *domains,
                               const int32_t *record, int64_t S, cudaStream_t s)
{
    launch(prm_domains_kernel, blocks_over(S, PRM_THREADS), PRM_THREADS, 0, s, weights, table,
           domains, record, S);
}

/* The same for a net with parameters w1 .. b2 as in PrmNet. */
static inline void prm_net(float *weights, const float *d, const int32_t *rows,
                           const int32_t *record, const float *w1, const float *b1,
                           const float *w2, const float *b2, int64_t S, int marks, cudaStream_t s)
{
    const PrmNet net = {w1, b1, w2, b2};
    launch(prm_net_kernel, blocks_over(S, PRM_THREADS), PRM_THREADS, 0, s, weights, d, rows, record,
           net, S, marks);
}

/* dtable (K); beta 1: accumulates, like the others. */
static inline void prm_weights_bwd(float *dtable, const double *jvp, const float *scale,
                                   const float *table, const int32_t *record, int64_t S, int64_t K,
                                   int kind, int beta, cudaStream_t s)
{
    launch(prm_weights_bwd_kernel, blocks_over(K, PRM_THREADS), PRM_THREADS, 0, s, dtable, jvp,
           scale, table, record, S, K, kind, beta);
}

static inline void prm_domains_bwd(float *dtable, const double *jvp, const float *scale,
                                   const float *table, const int32_t *domains,
                                   const int32_t *record, int64_t S, int64_t K, int beta,
                                   cudaStream_t s)
{
    launch(prm_domains_bwd_kernel, blocks_over(K, PRM_THREADS), PRM_THREADS, 0, s, dtable, jvp,
           scale, table, domains, record, S, K, beta);
}

static inline void prm_net_bwd(float *dw1, float *db1, float *dw2, float *db2, const double *jvp,
                               const float *scale, const float *d, const int32_t *rows,
                               const int32_t *record, const float *w1, const float *b1,
                               const float *w2, const float *b2, int64_t S, int marks, int beta,
                               cudaStream_t s)
{
    const PrmNet net = {w1, b1, w2, b2};
    const PrmNetGradients to = {dw1, db1, dw2, db2};
    launch(prm_net_bwd_kernel, 1, PRM_THREADS, 0, s, to, jvp, scale, d, rows, record, net, S,
           marks, beta);
}

/* Meta records with outcomes (S): dd (S * marks) of scale[0] * (score - outcome)^2; adds to
 * stats, the entries PRM_META_... of runtime/prm.h. */
static inline void prm_outcome(float *dd, double *stats, const float *d, const int32_t *rows,
                               const float *outcomes, const float *scale, int64_t S, int marks,
                               int kind, cudaStream_t s)
{
    launch(prm_outcome_kernel, 1, PRM_THREADS, 0, s, dd, stats, d, rows, outcomes, scale, S, marks,
           kind);
}

/* losses (S) */
static inline void prm_loss(float *losses, const float *d, const float *rewards,
                            const int32_t *rows, int64_t S, int marks, cudaStream_t s)
{
    launch(prm_loss_kernel, blocks_over(S, PRM_THREADS), PRM_THREADS, 0, s, losses, d, rewards,
           rows, S, marks);
}

/* dd (N), the gradient of scale[0] * weight * loss of N / marks records. */
static inline void prm_loss_bwd(float *dd, const float *d, const float *rewards,
                                const int32_t *rows, const float *scale, const float *weights,
                                int64_t N, int marks, cudaStream_t s)
{
    const int64_t S = N / marks;
    launch(prm_loss_bwd_kernel, blocks_over(S, PRM_THREADS), PRM_THREADS, 0, s, dd, d, rewards,
           rows, scale, weights, S, marks);
}

/* Adds to loss[0] and to stats, the entries of runtime/prm.h. */
static inline void prm_sums(double *loss, double *stats, const float *losses, const float *d,
                            const float *rewards, const int32_t *rows, const float *weights,
                            int64_t S, int marks, cudaStream_t s)
{
    launch(prm_sums_kernel, 1, PRM_THREADS, 0, s, loss, stats, losses, d, rewards, rows, weights, S,
           marks);
}
#endif

#endif
