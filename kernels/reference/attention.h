/* attention.h -- attention of a sequence and its gradient in double, for the tests of every target.
 *
 * In:    qkv (B, T, NH + 2 KV, D): q, k, v; query head h uses key head h / (NH / KV).
 * Out:   o (B, T, NH, D) = softmax(scale q k^T) v over the keys that the query attends to, with
 *        dropout; lse (B, NH, T). */
#ifndef DIECAST_KERNELS_REFERENCE_ATTENTION_H
#define DIECAST_KERNELS_REFERENCE_ATTENTION_H

#include <stdint.h>

/* Keys visible to each query of a sequence, by the members that are not NULL.
 * lengths (B): positions before the length see each other, later ones only themselves.
 * kv_limits (B, T): query t sees the keys before kv_limits[t], and itself.
 * positions, doc_ends (B, T): t sees its document, t - positions .. doc_ends - 1.
 * prompt_gaps (B, 2): queries from a sequence's second value on do not see the keys from its first
 * value up to the second.
 * None of them: all keys.
 * causal, with documents, gaps or none of them: only keys up to the query. */
typedef struct {
    const int32_t *positions, *doc_ends, *lengths, *kv_limits, *prompt_gaps;
    int causal;
    const double *kept;      /* (B, NH, T, T): what each probability is multiplied with; NULL: 1 */
} AttentionPairs;

/* r: of (B, NH, T) */
static inline double attention_kept_ref(const AttentionPairs *p, int64_t r, int64_t j, int64_t T)
{
    return p->kept ? p->kept[r * T + j] : 1;
}

static inline int attention_meets_ref(const AttentionPairs *p, int64_t b, int64_t t, int64_t j,
                                      int64_t T)
{
    if (p->lengths)
        return j == t || (t < p->lengths[b] && j < p->lengths[b]);
    if (p->kv_limits)
        return j == t || j < p->kv_limits[b * T + t];
    if (p->prompt_gaps && t >= p->prompt_gaps[2 * b + 1] && j >= p->prompt_gaps[2 * b] &&
        j < p->prompt_gaps[2 * b + 1])
        return 0;
    const int64_t begin = p->positions ? t - p->positions[b * T + t] : 0;
    const int64_t end = p->causal ? t + 1 : p->doc_ends ? p->doc_ends[b * T + t] : T;
    return begin <= j && j < end;
}

/* Scores one by one, three passes over the keys. */
static inline void attention_fwd_ref(double *o, double *lse, const double *qkv,
                                     const AttentionPairs *pairs, int64_t B, int64_t T, int64_t NH,
                                     int64_t KV, int64_t D, double scale)
{
    const int64_t row = (NH + 2 * KV) * D;
    for (int64_t r = 0; r < B * NH * T; r++) {
        const int64_t t = r % T, h = r / T % NH, b = r / T / NH;
        const double *q = qkv + (b * T + t) * row + h * D;
        const double *k = qkv + b * T * row + (NH + h / (NH / KV)) * D;
        double sum = 0, *y = o + ((b * T + t) * NH + h) * D, max = -__builtin_inf();
        for (int64_t d = 0; d < D; d++)
            y[d] = 0;
        for (int pass = 0; pass < 3; pass++)
            for (int64_t j = 0; j < T; j++) {
                double s = 0;
                if (!attention_meets_ref(pairs, b, t, j, T))
                    continue;
                for (int64_t d = 0; d < D; d++)
                    s += scale * q[d] * k[j * row + d];
                if (pass == 0)
                    max = s > max ? s : max;
                else if (pass == 1)
                    sum += __builtin_exp(s - max);
                const double kept = attention_kept_ref(pairs, r, j, T);
                const double p = pass == 2 ? __builtin_exp(s - max) / sum * kept : 0;
                for (int64_t d = 0; pass == 2 && d < D; d++)
                    y[d] += p * k[j * row + KV * D + d];
            }
        lse[r] = max + __builtin_log(sum);
    }
}

static inline void attention_bwd_ref(double *dqkv, const double *dout, const double *o,
                                     const double *lse, const double *qkv,
                                     const AttentionPairs *pairs, int64_t B, int64_t T, int64_t NH,
                                     int64_t KV, int64_t D, double scale)
{
    const int64_t row = (NH + 2 * KV) * D;
    for (int64_t i = 0; i < B * T * row; i++)
        dqkv[i] = 0;
    for (int64_t r = 0; r < B * NH * T; r++) {
        const int64_t t = r % T, h = r / T % NH, b = r / T / NH;
        const int64_t q = (b * T + t) * row + h * D, k0 = b * T * row + (NH + h / (NH / KV)) * D;
        const int64_t y = ((b * T + t) * NH + h) * D;
        for (int64_t j = 0; j < T; j++) {
            const int64_t k = k0 + j * row, v = k + KV * D;
            const double kept = attention_kept_ref(pairs, r, j, T);
            double s = 0, dp = 0;
            if (!attention_meets_ref(pairs, b, t, j, T))
                continue;
            for (int64_t d = 0; d < D; d++) {
                s += scale * qkv[q + d] * qkv[k + d];
                dp += dout[y + d] * (kept * qkv[v + d] - o[y + d]);
            }
            const double p = __builtin_exp(s - lse[r]), ds = p * dp * scale;
            for (int64_t d = 0; d < D; d++) {
                dqkv[v + d] += p * kept * dout[y + d];
                dqkv[q + d] += ds * qkv[k + d];
                dqkv[k + d] += ds * qkv[q + d];
            }
        }
    }
}

#endif
