/* gather.h -- row gather, for a head that only processes rows with a target.
 *
 * In:    x (.., C); rows (n) int32: source row of each row of y, or -1.
 * Out:   y (n, C): copies of rows, zeros where rows is -1. */
#ifndef DIECAST_KERNELS_GATHER_H
#define DIECAST_KERNELS_GATHER_H

#include "types.h"

static inline void gather_rows(act_t *restrict y, const act_t *restrict x,
                               const int32_t *restrict rows, int64_t n, int64_t C)
{
    const size_t bytes = (size_t)C * sizeof *y;
#pragma omp parallel for schedule(static) if (n * C >= PARALLEL_MIN)
    for (int64_t r = 0; r < n; r++) {
        if (rows[r] < 0)
            memset(y + r * C, 0, bytes);
        else
            memcpy(y + r * C, x + rows[r] * C, bytes);
    }
}

#endif
