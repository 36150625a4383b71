/* linear.h -- double-precision reference of a bias gradient.
 *
 * In:    dy (rows, N).   Out: db (N), its column sums; beta 1: accumulated. */
#ifndef DIECAST_KERNELS_REFERENCE_LINEAR_H
#define DIECAST_KERNELS_REFERENCE_LINEAR_H

#include <stdint.h>

static inline void bias_grad_ref(double *db, const double *dy, int64_t rows, int64_t N, int beta)
{
    for (int64_t j = 0; j < N; j++) {
        double sum = beta ? db[j] : 0;
        for (int64_t i = 0; i < rows; i++)
            sum += dy[i * N + j];
        db[j] = sum;
    }
}

#endif
