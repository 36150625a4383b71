/* fold_ranks.h -- adds the gradients of micro-batches of several ranks: fold.h.
 *
 * In:    as fold.h; ws: fold_workspace().
 * Out:   sum: of a divided gradient this rank's part of each tensor, else tensors as far apart as
 *        those of g, the same on every rank. */
#ifndef DIECAST_KERNELS_FOLD_RANKS_H
#define DIECAST_KERNELS_FOLD_RANKS_H

#include "../../runtime/ranks/comm.h"
#include "fold.h"
#include "workspace.h"

/* stride: all parts of a tensor of g; the rank's parts begin `apart` elements after each other in
 * sum. */
static inline void fold_part(float *sum, const float *g, int64_t n, int64_t slots, int64_t stride,
                             int64_t apart, int beta, int rank, int ranks, void *ws)
{
    const int64_t most = fold_piece(ranks), part = stride / ranks, left = n - rank * part;
    for (int64_t l = 0; l < slots; l++)
        for (int64_t at = 0; at < part; at += most) {
            const int64_t piece = part - at < most ? part - at : most,
                          own = left - at < piece ? left - at : piece;
            comm_exchange(ws, g + l * stride, part, at, piece);
            fold_pieces(sum + l * apart + at, ws, own, piece, ranks, beta);
        }
}

static inline void fold_whole(float *sum, const float *g, int64_t n, int64_t slots, int64_t stride,
                              int beta, int ranks, void *ws)
{
    const int64_t most = fold_piece(ranks);
    for (int64_t l = 0; l < slots; l++)
        for (int64_t at = 0; at < n; at += most) {
            const int64_t piece = n - at < most ? n - at : most;
            comm_collect(ws, g + l * stride + at, piece);
            fold_pieces(sum + l * stride + at, ws, piece, piece, ranks, beta);
        }
}

#endif
