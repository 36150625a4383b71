/* kl.h -- double-precision reference of cross-entropy and KL divergence of a policy and its
 * reference model over the vocabulary.
 *
 * In:    x (rows, C), w (V, C) of the policy Q; from, v likewise of the reference P; labels
 *        (rows), < 0: no target; coef and weights (rows).
 * Out:   loss, loss_from (rows): -ln of the label's Q and P; kl (rows): weight * sum P ln(P /
 *        Q). dx (rows, C), dw (V, C) of scale * (coef loss + kl); NULL: not wanted. */
#ifndef DIECAST_KERNELS_REFERENCE_KL_H
#define DIECAST_KERNELS_REFERENCE_KL_H

#include <stddef.h>
#include <stdint.h>

static inline double kl_logit_ref_(const double *x, const double *w, int64_t C)
{
    double l = 0;
    for (int64_t c = 0; c < C; c++)
        l += x[c] * w[c];
    return l;
}

/* Log-sum-exp of a row's logits. */
static inline double kl_log_sum_ref_(const double *x, const double *w, int64_t V, int64_t C)
{
    double max = -__builtin_inf(), sum = 0;
    for (int64_t v = 0; v < V; v++) {
        const double l = kl_logit_ref_(x, w + v * C, C);
        max = l > max ? l : max;
    }
    for (int64_t v = 0; v < V; v++)
        sum += __builtin_exp(kl_logit_ref_(x, w + v * C, C) - max);
    return max + __builtin_log(sum);
}

/* beta: accumulates into dw. */
static inline void kl_ref(double *loss, double *loss_from, double *kl, double *dx, double *dw,
                          const double *x, const double *w, const double *from, const double *v,
                          const int32_t *labels, const double *coef, const double *weights,
                          double scale, int64_t rows, int64_t V, int64_t C, int beta)
{
    for (int64_t i = 0; dw && !beta && i < V * C; i++)
        dw[i] = 0;
    for (int64_t i = 0; i < rows; i++) {
        loss[i] = loss_from[i] = kl[i] = 0;
        for (int64_t c = 0; dx && c < C; c++)
            dx[i * C + c] = 0;
        if (labels[i] < 0)
            continue;
        const double of_q = kl_log_sum_ref_(x + i * C, w, V, C),
                     of_p = kl_log_sum_ref_(from + i * C, v, V, C);
        for (int64_t k = 0; k < V; k++) {
            const double q = kl_logit_ref_(x + i * C, w + k * C, C) - of_q,
                         p = kl_logit_ref_(from + i * C, v + k * C, C) - of_p;
            const double d = scale * (coef[i] * (__builtin_exp(q) - (k == labels[i])) +
                                      weights[i] * (__builtin_exp(q) - __builtin_exp(p)));
            kl[i] += weights[i] * __builtin_exp(p) * (p - q);
            if (k == labels[i])
                loss[i] = -q, loss_from[i] = -p;
            for (int64_t c = 0; dx && c < C; c++) {
                dx[i * C + c] += d * w[k * C + c];
                if (dw)
                    dw[k * C + c] += d * x[i * C + c];
            }
        }
    }
}

#endif
