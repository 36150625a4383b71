/* fold_ranks.cuh -- adds the gradients of micro-batches of several ranks: fold.cuh.
 *
 * In:    as fold.cuh; ws: fold_cuda_workspace().
 * Out:   sum: of a divided gradient this rank's part of each tensor, else tensors as far apart as
 *        those of g, the same on every rank. */
#ifndef DIECAST_KERNELS_CUDA_FOLD_RANKS_CUH
#define DIECAST_KERNELS_CUDA_FOLD_RANKS_CUH

#include "fold.cuh"
#include "workspace.h"

#ifndef __CUDACC_RTC__
#include "../../runtime/ranks/comm.h"

/* stride: all parts of a tensor of g; the rank's parts begin `apart` elements after each other in
 * sum. */
static inline void fold_part(float *sum, const float *g, int64_t n, int64_t slots, int64_t stride,
                             int64_t apart, int beta, int rank, int ranks, void *ws, cudaStream_t s)
{
    float *const pieces = (float *)ws;
    const int64_t most = fold_cuda_piece(ranks), part = stride / ranks, left = n - rank * part;
    for (int64_t l = 0; l < slots; l++)
        for (int64_t at = 0; at < part; at += most) {
            const int64_t piece = part - at < most ? part - at : most,
                          own = left - at < piece ? left - at : piece;
            comm_exchange(pieces, g + l * stride, part, at, piece, s);
            fold_pieces(sum + l * apart + at, pieces, own, piece, ranks, beta, s);
        }
}

static inline void fold_whole(float *sum, const float *g, int64_t n, int64_t slots, int64_t stride,
                              int beta, int ranks, void *ws, cudaStream_t s)
{
    float *const pieces = (float *)ws;
    const int64_t most = fold_cuda_piece(ranks);
    for (int64_t l = 0; l < slots; l++)
        for (int64_t at = 0; at < n; at += most) {
            const int64_t piece = n - at < most ? n - at : most;
            comm_collect(pieces, g + l * stride + at, piece, s);
            fold_pieces(sum + l * stride + at, pieces, piece, piece, ranks, beta, s);
        }
}
#endif

#endif
