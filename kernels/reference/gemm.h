/* gemm.h -- double-precision reference of matrix products.
 *
 * In:    A (m, k), B (k, n), C (m, n), stored as GemmForm says; dense.
 * Keeps: include after the target's GemmForm. */
#ifndef DIECAST_KERNELS_REFERENCE_GEMM_H
#define DIECAST_KERNELS_REFERENCE_GEMM_H

/* Dense; bias may be NULL. */
static inline void gemm_ref(double *c, const double *a, const double *b, const double *bias,
                            int64_t m, int64_t n, int64_t k, GemmForm form, double scale, int beta)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++)
            c[i * n + j] = (bias ? scale * bias[j] : 0) + (beta ? c[i * n + j] : 0);
        for (int64_t l = 0; l < k; l++) {
            const double f = scale * a[form == GEMM_TN ? l * m + i : i * k + l];
            for (int64_t j = 0; j < n; j++)
                c[i * n + j] += f * b[form == GEMM_NT ? j * k + l : l * n + j];
        }
    }
}

#endif
