/* ce.h -- cross-entropy with the head product in double, for the tests of every target.
 *
 * In:    x (rows, C), w (V, C), bias (V) or NULL; labels (rows), < 0: no target; weights (rows) or
 *        NULL: 1.
 * Out:   loss (rows), times its weight; dx (rows, C), dw (V, C), db (V) of scale * the losses. */
#ifndef DIECAST_KERNELS_REFERENCE_CE_H
#define DIECAST_KERNELS_REFERENCE_CE_H

#include <stddef.h>
#include <stdint.h>

/* dx, dw and db may be NULL; dw and db are added to when beta. */
static inline void ce_head_ref(double *loss, double *dx, double *dw, double *db, const double *x,
                               const double *w, const double *bias, const int32_t *labels,
                               const double *weights, double scale, int64_t rows, int64_t V,
                               int64_t C, int beta)
{
    for (int64_t v = 0; db && !beta && v < V; v++)
        db[v] = 0;
    for (int64_t i = 0; dw && !beta && i < V * C; i++)
        dw[i] = 0;
    for (int64_t i = 0; i < rows; i++) {
        const double weight = weights ? weights[i] : 1;
        double max = -__builtin_inf(), sum = 0;
        loss[i] = 0;
        for (int64_t c = 0; dx && c < C; c++)
            dx[i * C + c] = 0;
        for (int pass = 0; labels[i] >= 0 && pass < 3; pass++) {
            for (int64_t v = 0; v < V; v++) {
                double l = bias ? bias[v] : 0;
                for (int64_t c = 0; c < C; c++)
                    l += x[i * C + c] * w[v * C + c];
                if (pass == 0)
                    max = l > max ? l : max;
                else if (pass == 1)
                    sum += __builtin_exp(l - max);
                if (pass == 1 && v == labels[i])
                    loss[i] = max - l;
                double d = (__builtin_exp(l - max) / sum - (v == labels[i])) * scale * weight;
                if (pass == 2 && db)
                    db[v] += d;
                for (int64_t c = 0; pass == 2 && dx && c < C; c++) {
                    dx[i * C + c] += d * w[v * C + c];
                    if (dw)
                        dw[v * C + c] += d * x[i * C + c];
                }
            }
        }
        if (labels[i] >= 0)
            loss[i] = weight * (loss[i] + __builtin_log(sum));
    }
}

/* best (rows): the likeliest of a row; above (rows): by how much its logit is above all others. */
static inline void ce_best_ref(int32_t *best, double *above, const double *x, const double *w,
                               const double *bias, int64_t rows, int64_t V, int64_t C)
{
    for (int64_t i = 0; i < rows; i++) {
        double most = -__builtin_inf(), second = most;
        for (int64_t v = 0; v < V; v++) {
            double l = bias ? bias[v] : 0;
            for (int64_t c = 0; c < C; c++)
                l += x[i * C + c] * w[v * C + c];
            if (l > most) {
                second = most;
                most = l;
                best[i] = (int32_t)v;
            } else if (l > second) {
                second = l;
            }
        }
        above[i] = most - second;
    }
}

static inline void ce_ref(double *loss, double *dx, double *dw, const double *x, const double *w,
                          const int32_t *labels, double scale, int64_t rows, int64_t V, int64_t C,
                          int beta)
{
    ce_head_ref(loss, dx, dw, NULL, x, w, NULL, labels, NULL, scale, rows, V, C, beta);
}

#endif
