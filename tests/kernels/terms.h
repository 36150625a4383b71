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

#include "../../kernels/reference/attention.h"

/* Root of the mean square of a row: what its elements less the mean are off by, as x and the mean
 * round, is more than themselves where the row hardly deviates. RMSNorm (mean NULL): nothing. */
static inline double norm_off_(const double *x, const double *mean, int64_t C)
{
    double squares = 0;
    for (int64_t i = 0; mean && i < C; i++)
        squares += x[i] * x[i] / (double)C;
    return sqrt(squares);
}

/* LayerNorm: mean (rows), sums of x / C; y (rows, C) = (x - mean) rstd w + b. mean_: the result. */
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

/* A score s = scale q k: *score, and the square of what exp(s) is off by, relative to itself. */
static inline double dot_off_(double *score, const double *q, const double *k, int64_t D,
                              double scale)
{
    double s = 0, squares = 0;
    for (int64_t d = 0; d < D; d++) {
        s += scale * q[d] * k[d];
        squares += scale * q[d] * k[d] * scale * q[d] * k[d];
    }
    *score = s;
    return squares + s * s;
}

/* o (B, T, NH, D) = sums of p v; lse (B, NH, T) = the largest score + log sum, and of each score as
 * much as p. lse_: the result. */
static inline void attention_fwd_terms(double *o, double *lse, const double *lse_,
                                       const double *qkv, const AttentionPairs *pairs, int64_t B,
                                       int64_t T, int64_t NH, int64_t KV, int64_t D, double scale)
{
    const int64_t row = (NH + 2 * KV) * D;
    for (int64_t r = 0; r < B * NH * T; r++) {
        const int64_t t = r % T, h = r / T % NH, b = r / T / NH;
        const double *q = qkv + (b * T + t) * row + h * D;
        const double *k = qkv + b * T * row + (NH + h / (NH / KV)) * D;
        double *y = o + ((b * T + t) * NH + h) * D, squares = 0, max = -INFINITY, s;
        for (int64_t d = 0; d < D; d++)
            y[d] = 0;
        for (int64_t j = 0; j < T; j++) {
            if (!attention_meets_ref(pairs, b, t, j, T))
                continue;
            const double kept = attention_kept_ref(pairs, r, j, T);
            const double off = dot_off_(&s, q, k + j * row, D, scale), p = exp(s - lse_[r]);
            max = s > max ? s : max;
            squares += p * p * off;
            for (int64_t d = 0; d < D; d++) {
                const double v = kept * k[j * row + KV * D + d];
                y[d] += p * p * v * v * (1 + off);
            }
        }
        for (int64_t d = 0; d < D; d++)
            y[d] = sqrt(y[d]);
        lse[r] = sqrt(max * max + (lse_[r] - max) * (lse_[r] - max) + squares);
    }
}

/* dqkv = sums of p dout, ds k and ds q, where ds = scale p (dout v - dout o). o_off, lse_off: what
 * attention_fwd_terms says of the results o and lse, on which p and ds depend. */
static inline void attention_bwd_terms(double *dqkv, const double *o_off, const double *lse_off,
                                       const double *dout, const double *o, const double *lse,
                                       const double *qkv, const AttentionPairs *pairs, int64_t B,
                                       int64_t T, int64_t NH, int64_t KV, int64_t D, double scale)
{
    const int64_t row = (NH + 2 * KV) * D;
    for (int64_t i = 0; i < B * T * row; i++)
        dqkv[i] = 0;
    for (int64_t r = 0; r < B * NH * T; r++) {
        const int64_t t = r % T, h = r / T % NH, b = r / T / NH;
        const int64_t q = (b * T + t) * row + h * D, k0 = b * T * row + (NH + h / (NH / KV)) * D;
        const int64_t y = ((b * T + t) * NH + h) * D;
        for (int64_t j = 0; j < T; j++) {
            if (!attention_meets_ref(pairs, b, t, j, T))
                continue;
            const int64_t k = k0 + j * row, v = k + KV * D;
            const double kept = attention_kept_ref(pairs, r, j, T);
            double s, dp = 0, squares = 0;
            const double off = 1 + dot_off_(&s, qkv + q, qkv + k, D, scale) +
                               lse_off[r] * lse_off[r];
            for (int64_t d = 0; d < D; d++) {
                const double g = dout[y + d], x = kept * qkv[v + d];
                dp += g * (x - o[y + d]);
                squares += g * g * (x * x + o[y + d] * o[y + d] + o_off[y + d] * o_off[y + d]);
            }
            const double p = exp(s - lse[r]), pp = p * p;
            const double ds = scale * scale * pp * (squares + dp * dp * off);
            for (int64_t d = 0; d < D; d++) {
                dqkv[v + d] += pp * kept * kept * dout[y + d] * dout[y + d] * off;
                dqkv[q + d] += ds * qkv[k + d] * qkv[k + d];
                dqkv[k + d] += ds * qkv[q + d] * qkv[q + d];
            }
        }
    }
    for (int64_t i = 0; i < B * T * row; i++)
        dqkv[i] = sqrt(dqkv[i]);
}

/* dx (rows, C) = sums of d w, dw (V, C) of d x, db (V) of d, where d = scale weight (p - 1 at the
 * label). exact: logits are integers, or in fp32 and d in 16 bits; else p is off by what they are.
 * bias, weights, db: NULL without. */
static inline void ce_terms(double *dx, double *dw, double *db, const double *x, const double *w,
                            const double *bias, const int32_t *labels, const double *weights,
                            double scale, int64_t rows, int64_t V, int64_t C, int exact)
{
    for (int64_t i = 0; i < rows * C; i++)
        dx[i] = 0;
    for (int64_t i = 0; i < V * C; i++)
        dw[i] = 0;
    for (int64_t v = 0; db && v < V; v++)
        db[v] = 0;
    for (int64_t i = 0; i < rows; i++) {
        const double of_row = weights ? weights[i] * scale : scale;
        double sum = 0, max = -INFINITY, l;
        for (int pass = 0; labels[i] >= 0 && pass < 3; pass++)
            for (int64_t v = 0; v < V; v++) {
                const double off = dot_off_(&l, x + i * C, w + v * C, C, 1);
                l += bias ? bias[v] : 0;
                if (pass == 0)
                    max = l > max ? l : max;
                else if (pass == 1)
                    sum += exp(l - max);
                if (pass < 2)
                    continue;
                const double p = exp(l - max) / sum;
                const double d =
                    of_row * of_row * (p * p * (1 + (exact ? 0 : off)) + (v == labels[i]));
                for (int64_t c = 0; c < C; c++) {
                    dx[i * C + c] += d * w[v * C + c] * w[v * C + c];
                    dw[v * C + c] += d * x[i * C + c] * x[i * C + c];
                }
                if (db)
                    db[v] += d;
            }
    }
    for (int64_t i = 0; i < rows * C; i++)
        dx[i] = sqrt(dx[i]);
    for (int64_t i = 0; i < V * C; i++)
        dw[i] = sqrt(dw[i]);
    for (int64_t v = 0; db && v < V; v++)
        db[v] = sqrt(db[v]);
}

/* The logits of a row l (V), less the log of their sum; off (V): what dot_off_ says of them, 0 when
 * exact. */
static inline void kl_row_terms_(double *l, double *off, const double *x, const double *w, int64_t V,
                                 int64_t C, int exact)
{
    double max = -INFINITY, sum = 0;
    for (int64_t v = 0; v < V; v++) {
        off[v] = dot_off_(&l[v], x, w + v * C, C, 1) * (exact ? 0 : 1);
        max = l[v] > max ? l[v] : max;
    }
    for (int64_t v = 0; v < V; v++)
        sum += exp(l[v] - max);
    for (int64_t v = 0; v < V; v++)
        l[v] -= max + log(sum);
}

/* kl (rows) = weight times sums of p (ln p - ln q); dx (rows, C) = sums of d w, dw (V, C) of d x, where
 * d = scale (coef (q - 1 at the label) + weight (q - p)); exact: as of ce_terms. room: (4, V). */
static inline void kl_terms(double *kl, double *dx, double *dw, double *room, const double *x,
                            const double *w, const double *from, const double *v,
                            const int32_t *labels, const double *coef, const double *weights,
                            double scale, int64_t rows, int64_t V, int64_t C, int exact)
{
    double *q = room, *p = q + V, *q_off = p + V, *p_off = q_off + V;
    for (int64_t i = 0; i < rows * C; i++)
        dx[i] = 0;
    for (int64_t i = 0; i < V * C; i++)
        dw[i] = 0;
    for (int64_t i = 0; i < rows; i++) {
        kl[i] = 0;
        if (labels[i] < 0)
            continue;
        kl_row_terms_(q, q_off, x + i * C, w, V, C, exact);
        kl_row_terms_(p, p_off, from + i * C, v, V, C, exact);
        for (int64_t k = 0; k < V; k++) {
            const double qq = exp(2 * q[k]) * (1 + q_off[k]), pp = exp(2 * p[k]) * (1 + p_off[k]);
            kl[i] += pp * (1 + q[k] * q[k] + p[k] * p[k]) + qq * q_off[k];
            const double d = scale * scale * (coef[i] * coef[i] * (qq + (k == labels[i])) +
                                              weights[i] * weights[i] * (qq + pp));
            for (int64_t c = 0; c < C; c++) {
                dx[i * C + c] += d * w[k * C + c] * w[k * C + c];
                dw[k * C + c] += d * x[i * C + c] * x[i * C + c];
            }
        }
        kl[i] = fabs(weights[i]) * sqrt(kl[i]);
    }
    for (int64_t i = 0; i < rows * C; i++)
        dx[i] = sqrt(dx[i]);
    for (int64_t i = 0; i < V * C; i++)
        dw[i] = sqrt(dw[i]);
}

/* AdamW: w, with the steps so far, whose differences the steps themselves are: the largest |w| that
 * there was. Called before each step; terms begin as 0. */
static inline void adamw_terms(double *terms, const double *w, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        terms[i] = fmax(terms[i], fabs(w[i]));
}

/* dgu, rows of 2F = [dh u s (1 + g (1 - s)) | dh g s] with s = 1 / (1 + exp(-g)): in the first the
 * terms cancel where g is about -1.3. */
static inline void swiglu_terms(double *dgu, const double *dh, const double *gu, int64_t rows,
                                int64_t F)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < F; i++) {
            const double g = gu[r * 2 * F + i], u = gu[r * 2 * F + F + i], s = 1 / (1 + exp(-g));
            dgu[r * 2 * F + i] = fabs(dh[r * F + i] * u * s) * sqrt(1 + g * g * (1 - s) * (1 - s));
            dgu[r * 2 * F + F + i] = fabs(dh[r * F + i] * g * s);
        }
}

/* The same of gelu(g) = g s, s = 1 / (1 + exp(-a (g + 0.044715 g^3))). */
static inline void geglu_terms(double *dgu, const double *dh, const double *gu, int64_t rows,
                               int64_t F)
{
    const double a = 2 * sqrt(2 / acos(-1));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < F; i++) {
            const double g = gu[r * 2 * F + i], u = gu[r * 2 * F + F + i], b = 0.044715 * g * g;
            const double s = 1 / (1 + exp(-a * g * (1 + b))), k = g * (1 - s) * a * (1 + 3 * b);
            dgu[r * 2 * F + i] = fabs(dh[r * F + i] * u * s) * sqrt(1 + k * k);
            dgu[r * 2 * F + F + i] = fabs(dh[r * F + i] * g * s);
        }
}

#endif
