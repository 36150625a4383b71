/* fold.cuh -- adds the gradients of micro-batches in the order of their numbers, which is that of
 * the ranks: each rank has one of every N.
 *
 * In:    g: a micro-batch's gradient of this rank, `slots` tensors of n elements, `stride` apart.
 *        beta: OVERWRITE: the sum begins with 0.
 * Out:   sum: tensors as far apart as those of g.
 * Keeps: per element ((sum + g of rank 0) + g of rank 1) + ..., so the sum of all micro-batches of
 *        an update has the same bits on any number of ranks. Elements after a tensor's n stay. */
#ifndef DIECAST_KERNELS_CUDA_FOLD_CUH
#define DIECAST_KERNELS_CUDA_FOLD_CUH

#include "types.cuh"

enum { FOLD_THREADS = 256 };

/* sum[i] += of each of `ranks` pieces element i, in their order; pieces begin `apart` elements
 * after each other. Grid: elements by tensors, which are `stride` apart in sum and pieces. */
__global__ void __launch_bounds__(FOLD_THREADS)
    fold_kernel(float *__restrict__ sum, const float *__restrict__ pieces, int64_t n, int64_t apart,
                int64_t stride, int ranks, int beta)
{
    const int64_t i = (int64_t)blockIdx.x * FOLD_THREADS + threadIdx.x,
                  at = blockIdx.y * stride + i;
    if (i >= n)
        return;
    float total = beta ? sum[at] : 0.0f;
    for (int r = 0; r < ranks; r++)
        total += pieces[r * apart + at];
    sum[at] = total;
}

#ifndef __CUDACC_RTC__
static inline void fold_pieces(float *sum, const float *pieces, int64_t n, int64_t apart, int ranks,
                               int beta, cudaStream_t s)
{
    const int64_t none = 0;
    if (n > 0)
        launch(fold_kernel, dim3(blocks_over(n, FOLD_THREADS)), FOLD_THREADS, 0, s, sum, pieces, n,
               apart, none, ranks, beta);
}

/* sum[i] += this rank's part of g, which is summed over ranks: `slots` tensors of n elements, a
 * stride has the parts of all ranks; those of the sum begin `apart` elements after each other. */
static inline void add_part(float *sum, const float *g, int64_t n, int64_t slots, int64_t stride,
                            int64_t apart, int beta, int rank, int ranks, cudaStream_t s)
{
    const int64_t part = stride / ranks, left = n - rank * part;
    for (int64_t l = 0; l < slots; l++)
        fold_pieces(sum + l * apart, g + l * stride + rank * part, left < part ? left : part, 0, 1,
                    beta, s);
}

/* One rank. */
static inline void fold(float *sum, const float *g, int64_t n, int64_t slots, int64_t stride,
                        int beta, cudaStream_t s)
{
    const int64_t none = 0;
    launch(fold_kernel, dim3(blocks_over(n, FOLD_THREADS), (unsigned)slots), FOLD_THREADS, 0, s,
           sum, g, n, none, stride, 1, beta);
}
#endif

#endif
