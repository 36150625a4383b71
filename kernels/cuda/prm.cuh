/* prm.cuh -- losses of records whose steps have marks, and what each record counts.
 *
 * In:    d, rewards (S * marks) fp32 and rows (S * marks) int32, those of record i from i * marks:
 *        margin and label of each mark, its place, -1: it is none; table (K) fp32 and record (S)
 *        int32, its entry or -1; weights (S) fp32, NULL: 1.
 * Keeps: in double, in an order that S decides; what is stored is rounded to fp32.
 * Method: a thread a record; sums in one block: there are few. */
#ifndef DIECAST_KERNELS_CUDA_PRM_CUH
#define DIECAST_KERNELS_CUDA_PRM_CUH

#define PRM_FUNCTION static inline __device__
#include "../../runtime/prm.h"
#include "types.cuh"

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
        dd[j] = rows[j] < 0 ? 0.0f : (float)(of_loss * prm_record_slope(d[j], rewards[j], n));
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

/* losses (S) */
static inline void prm_loss(float *losses, const float *d, const float *rewards,
                            const int32_t *rows, int64_t S, int marks, cudaStream_t s)
{
    launch(prm_loss_kernel, blocks_over(S, PRM_THREADS), PRM_THREADS, 0, s, losses, d, rewards,
           rows, S, marks);
}

/* dd (S * marks): of scale[0] * weight * loss. */
static inline void prm_loss_bwd(float *dd, const float *d, const float *rewards,
                                const int32_t *rows, const float *scale, const float *weights,
                                int64_t S, int marks, cudaStream_t s)
{
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
