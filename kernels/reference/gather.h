/* gather.h -- double-precision reference of a row gather.
 *
 * In:    x (.., C); rows (n): source row of each row of y (n, C); -1: zeros. */
#ifndef DIECAST_KERNELS_REFERENCE_GATHER_H
#define DIECAST_KERNELS_REFERENCE_GATHER_H

#include <stdint.h>

static inline void gather_ref(double *y, const double *x, const int32_t *rows, int64_t n, int64_t C)
{
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < C; i++)
            y[r * C + i] = rows[r] < 0 ? 0 : x[rows[r] * C + i];
}

#endif
