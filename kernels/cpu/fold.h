/* fold.h -- adds the gradients of micro-batches in the order of their numbers, which is that of the
 * ranks: each rank has one of every N.
 *
 * In:    g: a micro-batch's gradient of this rank, `slots` tensors of n elements, `stride` apart.
 *        beta: OVERWRITE: the sum begins with 0.
 * Out:   sum: tensors as far apart as those of g.
 * Keeps: per element ((sum + g of rank 0) + g of rank 1) + ..., so the sum of all micro-batches of
 *        an update has the same bits on any number of ranks. Elements after a tensor's n stay. */
#ifndef DIECAST_KERNELS_FOLD_H
#define DIECAST_KERNELS_FOLD_H

#include "types.h"

/* sum[i] += of each of `ranks` pieces element i, in their order; pieces begin `apart` elements
 * after each other. */
static inline void fold_pieces(float *restrict sum, const float *restrict pieces, int64_t n,
                               int64_t apart, int ranks, int beta)
{
#pragma omp parallel for schedule(static) if (n * ranks >= PARALLEL_MIN)
    for (int64_t i = 0; i < n; i++) {
        float s = beta ? sum[i] : 0.0f;
        for (int r = 0; r < ranks; r++)
            s += pieces[r * apart + i];
        sum[i] = s;
    }
}

/* sum[i] += this rank's part of g, which is summed over ranks: `slots` tensors of n elements, a
 * stride has the parts of all ranks; those of the sum begin `apart` elements after each other. */
static inline void add_part(float *sum, const float *g, int64_t n, int64_t slots, int64_t stride,
                            int64_t apart, int beta, int rank, int ranks)
{
    const int64_t part = stride / ranks, left = n - rank * part;
    for (int64_t l = 0; l < slots; l++)
        fold_pieces(sum + l * apart, g + l * stride + rank * part, left < part ? left : part, 0, 1,
                    beta);
}

/* One rank. */
static inline void fold(float *sum, const float *g, int64_t n, int64_t slots, int64_t stride,
                        int beta)
{
    for (int64_t l = 0; l < slots; l++)
        fold_pieces(sum + l * stride, g + l * stride, n, 0, 1, beta);
}

#endif
