/* attention.h -- attention of a sequence and its gradient in double, for the tests of every target.
 *
 * In:    qkv (B, T, NH + 2 KV, D): q, k, v; query head h uses key head h / (NH / KV). places, ends
 *        (B, T): t is of the document t - places .. ends - 1; both NULL: one document a row.
 * Out:   o (B, T, NH, D) = softmax(scale q k^T) v over the keys of the document, causal: up to t;
 *        lse (B, NH, T). */
#ifndef DIECAST_KERNELS_REFERENCE_ATTENTION_H
#define DIECAST_KERNELS_REFERENCE_ATTENTION_H

#include <stdint.h>

/* Scores one by one, three passes over the keys. */
static inline void attention_fwd_ref(double *o, double *lse, const double *qkv,
                                     const int32_t *places, const int32_t *ends, int64_t B,
                                     int64_t T, int64_t NH, int64_t KV, int64_t D, double scale,
                                     int causal)
{
    const int64_t row = (NH + 2 * KV) * D;
    for (int64_t r = 0; r < B * NH * T; r++) {
        const int64_t t = r % T, h = r / T % NH, b = r / T / NH;
        const double *q = qkv + (b * T + t) * row + h * D;
        const double *k = qkv + b * T * row + (NH + h / (NH / KV)) * D;
        const int64_t begin = places ? t - places[b * T + t] : 0;
        const int64_t end = causal ? t + 1 : ends ? ends[b * T + t] : T;
        double sum = 0, *y = o + ((b * T + t) * NH + h) * D, max = -__builtin_inf();
        for (int pass = 0; pass < 3; pass++)
            for (int64_t j = begin; j < end; j++) {
                double s = 0;
                for (int64_t d = 0; d < D; d++)
                    s += scale * q[d] * k[j * row + d];
                if (pass == 0)
                    max = s > max ? s : max;
                else if (pass == 1)
                    sum += __builtin_exp(s - max);
                const double p = pass == 2 ? __builtin_exp(s - max) / sum : 0;
                for (int64_t d = 0; pass == 2 && d < D; d++)
                    y[d] = (j > begin ? y[d] : 0) + p * k[j * row + KV * D + d];
            }
        lse[r] = max + __builtin_log(sum);
    }
}

static inline void attention_bwd_ref(double *dqkv, const double *dout, const double *o,
                                     const double *lse, const double *qkv, const int32_t *places,
                                     const int32_t *ends, int64_t B, int64_t T, int64_t NH,
                                     int64_t KV, int64_t D, double scale, int causal)
{
    const int64_t row = (NH + 2 * KV) * D;
    for (int64_t i = 0; i < B * T * row; i++)
        dqkv[i] = 0;
    for (int64_t r = 0; r < B * NH * T; r++) {
        const int64_t t = r % T, h = r / T % NH, b = r / T / NH;
        const int64_t q = (b * T + t) * row + h * D, k0 = b * T * row + (NH + h / (NH / KV)) * D;
        const int64_t y = ((b * T + t) * NH + h) * D;
        const int64_t begin = places ? t - places[b * T + t] : 0;
        const int64_t end = causal ? t + 1 : ends ? ends[b * T + t] : T;
        for (int64_t j = begin; j < end; j++) {
            const int64_t k = k0 + j * row, v = k + KV * D;
            double s = 0, dp = 0;
            for (int64_t d = 0; d < D; d++) {
                s += scale * qkv[q + d] * qkv[k + d];
                dp += dout[y + d] * (qkv[v + d] - o[y + d]);
            }
            const double p = __builtin_exp(s - lse[r]), ds = p * dp * scale;
            for (int64_t d = 0; d < D; d++) {
                dqkv[v + d] += p * dout[y + d];
                dqkv[q + d] += ds * qkv[k + d];
                dqkv[k + d] += ds * qkv[q + d];
            }
        }
    }
}

#endif
