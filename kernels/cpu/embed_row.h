/* embed_row.h -- a token whose row of the embedding is a parameter of its own.
 *
 * In:    x (rows, C), tok (rows) int32, row (C), dy (rows, C).
 * Out:   y (rows, C) = x, but row where tok is the token; drow (C) fp32: the sum of dy there.
 * Keeps: y may be x. An element of the gradient adds its rows in order, for any threads. */
#ifndef DIECAST_KERNELS_EMBED_ROW_H
#define DIECAST_KERNELS_EMBED_ROW_H

#include "types.h"

static inline void embed_row_fwd(act_t *y, const act_t *x, const int32_t *restrict tok,
                                 const wt_t *restrict row, int32_t token, int64_t rows, int64_t C)
{
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t r = 0; r < rows; r++)
        if (tok[r] == token)
            memcpy(y + r * C, row, (size_t)C * sizeof *y);
        else if (y != x)
            memcpy(y + r * C, x + r * C, (size_t)C * sizeof *y);
}

/* beta 1: added to what is there. */
static inline void embed_row_bwd(float *restrict drow, const act_t *restrict dy,
                                 const int32_t *restrict tok, int32_t token, int64_t rows,
                                 int64_t C, int beta)
{
    if (!beta)
        memset(drow, 0, sizeof *drow * (size_t)C);
    for (int64_t r = 0; r < rows; r++)
        if (tok[r] == token)
#pragma omp simd
            for (int64_t c = 0; c < C; c++)
                drow[c] += act_load(dy + r * C + c);
}

#endif
