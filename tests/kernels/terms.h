/* terms.h -- how large the terms are that kernels add up for a result (C and C++).
 *
 * In:    as the references of kernels/reference, and their results.
 * Out:   for each result the root of the sum of the squares of its terms, for the tolerance of
 *        numbers.h: a sum whose terms cancel is off by what they round to, not by what is left.
 * Keeps: a term that was itself computed counts with the terms that it was computed from. */
#ifndef DIECAST_TESTS_KERNELS_TERMS_H
#define DIECAST_TESTS_KERNELS_TERMS_H

#include <math.h>
#include <stdint.h>

/* Root of the mean square of a row: what its elements less the mean are off by, as x and the mean
 * round, is more than themselves where the row hardly deviates. RMSNorm (mean NULL): nothing. */
static inline double norm_off_(const double *x, const double *mean, int64_t C)
{
    double squares = 0;
    for (int64_t i = 0; mean && i < C; i++)
        squares += x[i] * x[i] / (double)C;
    return sqrt(squares);
}

/* LayerNorm: mean (rows) = sums of x / C; y (rows, C) = (x - mean) rstd w + b. mean_: the result. */
static inline void layernorm_fwd_terms(double *y, double *mean, const double *x, const double *w,
                                       const double *b, const double *mean_, const double *rstd,
                                       int64_t rows, int64_t C)
{
    for (int64_t t = 0; t < rows; t++) {
        const double off = norm_off_(x + t * C, mean_, C);
        mean[t] = off / sqrt((double)C);
        for (int64_t i = 0; i < C; i++) {
            const double d = x[t * C + i] - mean_[t], scale = rstd[t] * w[i];
            y[t * C + i] = sqrt(scale * scale * (d * d + off * off) + b[i] * b[i]);
        }
    }
}

/* n = (x - mean) rstd: dx (rows, C) = rstd (g - mean(g) - n mean(g n)) + res where g = dy w; dw (C)
 * = sums of dy n; db (C) of dy. res NULL: none; mean and db NULL: RMSNorm, without mean(g). */
static inline void norm_bwd_terms(double *dw, double *db, double *dx, const double *dy,
                                  const double *x, const double *w, const double *mean,
                                  const double *rstd, const double *res, int64_t rows, int64_t C)
{
    for (int64_t i = 0; i < C; i++) {
        dw[i] = 0;
        if (db)
            db[i] = 0;
    }
    for (int64_t t = 0; t < rows; t++) {
        const double off = rstd[t] * norm_off_(x + t * C, mean, C);
        const double m = mean ? mean[t] : 0;
        double g1 = 0, g2 = 0;          /* mean squares; a mean is off by their root */
        for (int64_t i = 0; i < C; i++) {
            const double n = (x[t * C + i] - m) * rstd[t], d = dy[t * C + i], g = d * w[i];
            g1 += g * g / (double)C;
            g2 += g * g * n * n / (double)C;
            dw[i] += d * d * (n * n + off * off);
            if (db)
                db[i] += d * d;
        }
        for (int64_t i = 0; i < C; i++) {
            const double n = (x[t * C + i] - m) * rstd[t], g = dy[t * C + i] * w[i];
            const double r = res ? res[t * C + i] : 0;
            const double sum = g * g + (mean ? g1 : 0) + n * n * (g2 + off * off * g1) +
                               off * off * g2;
            dx[t * C + i] = sqrt(rstd[t] * rstd[t] * sum + r * r);
        }
    }
    for (int64_t i = 0; i < C; i++) {
        dw[i] = sqrt(dw[i]);
        if (db)
            db[i] = sqrt(db[i]);
    }
}

#endif
