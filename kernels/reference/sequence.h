/* sequence.h -- double-precision reference of sequence log-probabilities.
 *
 * In:    loss (n), rows (n): positions in (B, T) ascending, then -1.
 * Out:   lp (B): minus the sum, or the mean, of a sequence's losses; counts (B): its targets. */
#ifndef DIECAST_KERNELS_REFERENCE_SEQUENCE_H
#define DIECAST_KERNELS_REFERENCE_SEQUENCE_H

#include <stdint.h>

static inline void seq_logp_ref(double *lp, int32_t *counts, const double *loss,
                                const int32_t *rows, int64_t n, int64_t B, int64_t T, int mean)
{
    for (int64_t b = 0; b < B; b++) {
        lp[b] = counts[b] = 0;
        for (int64_t i = 0; i < n; i++)
            if (rows[i] >= b * T && rows[i] < (b + 1) * T)
                lp[b] -= loss[i], counts[b]++;
        if (mean && counts[b])
            lp[b] /= counts[b];
    }
}

#endif
