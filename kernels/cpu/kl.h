/* kl.h -- cross-entropy and KL divergence of a policy and its reference model over the
 * vocabulary, including the heads, one chunk of rows at a time.
 *
 * In:    x (rows, C), w (V, C) of the policy Q; from, v likewise of the reference P; labels
 *        (rows), < 0: no target; weights (rows) fp32 of the divergences; chunk | rows; Gemms
 *        of one chunk.
 * Out:   loss, loss_from (rows) fp32, cross-entropies under Q and P; kl (rows) fp32, the
 *        weight times sum P ln(P / Q); 0 without target. Gradients of scale[0] times these, by
 *        Q only. */
#ifndef DIECAST_KERNELS_KL_H
#define DIECAST_KERNELS_KL_H

#include "ce.h"

/* Softmax of a row of logits: Q[v] = exp(l[v] - max) / sum. */
typedef struct {
    const float *l;
    float max, factor, log;      /* 1 / sum, ln sum */
} KlRow;

static inline KlRow kl_row_(const float *l, int64_t V)
{
    KlRow r = { .l = l };
    const float sum = ce_exp_sum_(&r.max, NULL, l, V);
    r.factor = 1 / sum;
    r.log = math_log(sum);
    return r;
}

/* sum P ln(P / Q); equal logits give 0 exactly. */
static inline float kl_divergence_(const KlRow *p, const KlRow *q, int64_t V)
{
    const float *restrict r = p->l, *restrict l = q->l;
    const float off = (p->max - q->max) + (p->log - q->log);
    const int64_t even = V / CE_LANES * CE_LANES;
    float sum[CE_LANES] = { 0 };
    for (int64_t v = 0; v < even; v += CE_LANES)
#pragma omp simd
        for (int j = 0; j < CE_LANES; j++)
            sum[j] += math_exp(r[v + j] - p->max) * (r[v + j] - l[v + j] - off);
    for (int64_t v = even; v < V; v++)
        sum[0] += math_exp(r[v] - p->max) * (r[v] - l[v] - off);
    for (int n = CE_LANES / 2; n > 0; n /= 2)
        for (int j = 0; j < n; j++)
            sum[j] += sum[j + n];
    return sum[0] * p->factor;
}

/* Gradients by the logits of coef times the loss, d (V), and of k times the divergence, dkl
 * (V); dkl NULL: d holds the sum. Both may alias the logits. */
static inline void kl_gradient_(act_t *d, act_t *dkl, const KlRow *q, const KlRow *p, float coef,
                                float k, int32_t label, int64_t V)
{
    const float *l = q->l, *r = p->l, of_q = (dkl ? coef : coef + k) * q->factor;
    const float kq = k * q->factor, kp = k * p->factor;
    const float at_q = math_exp(l[label] - q->max), at_p = math_exp(r[label] - p->max);
    if (dkl) {
#pragma omp simd
        for (int64_t v = 0; v < V; v++) {
            const float of_l = math_exp(l[v] - q->max), of_r = math_exp(r[v] - p->max);
            act_store(d + v, of_l * of_q);
            act_store(dkl + v, of_l * kq - of_r * kp);
        }
        act_store(d + label, at_q * of_q - coef);
        return;
    }
#pragma omp simd
    for (int64_t v = 0; v < V; v++)
        act_store(d + v, math_exp(l[v] - q->max) * of_q - math_exp(r[v] - p->max) * kp);
    act_store(d + label, at_q * of_q - at_p * kp - coef);
}

/* Outputs of a chunk's rows; NULL: not wanted. */
typedef struct {
    float *loss, *from, *kl;     /* (rows) */
} KlRows;

/* d and dkl (chunk, V) as in kl_gradient_(), NULL: not wanted; coef (rows), NULL: 1. */
static inline void kl_chunk_(const KlRows *to, act_t *d, act_t *dkl, const float *logits,
                             const float *of_from, const int32_t *labels, const float *weights,
                             const float *coef, float scale, int64_t chunk, int64_t V)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunk; i++) {
        const int32_t label = labels[i];
        if (label < 0) {
            if (to->kl)
                to->loss[i] = to->from[i] = to->kl[i] = 0;
            if (d)
                memset(d + i * V, 0, sizeof(act_t) * (size_t)V);
            if (dkl)
                memset(dkl + i * V, 0, sizeof(act_t) * (size_t)V);
            continue;
        }
        const KlRow q = kl_row_(logits + i * V, V), p = kl_row_(of_from + i * V, V);
        const float k = weights[i] * scale;
        if (to->kl) {
            to->loss[i] = q.log - (q.l[label] - q.max);
            to->from[i] = p.log - (p.l[label] - p.max);
            to->kl[i] = weights[i] * kl_divergence_(&p, &q, V);
        }
        if (d)
            kl_gradient_(d + i * V, dkl ? dkl + i * V : NULL, &q, &p,
                         coef ? coef[i] * scale : scale, k, label, V);
    }
}

/* In ws, after GEMM_WORKSPACE: logits of both models (chunk, V) fp32, and their gradients
 * (chunk, V) act_t, which overwrite the logits in fp32 programs. */
typedef struct {
    float *logits, *of_from;
    act_t *d, *dkl;
} KlRoom;

static inline KlRoom kl_room_(void *ws, int64_t chunk, int64_t V)
{
    KlRoom r = { .logits = (float *)((char *)ws + GEMM_WORKSPACE) };
    r.of_from = r.logits + chunk * V;
    const int own = sizeof(act_t) != sizeof(float);
    r.d = (act_t *)(own ? r.of_from + chunk * V : r.logits);
    r.dkl = own ? r.d + chunk * V : (act_t *)r.of_from;
    return r;
}

/* mm_logits: { .m = chunk, .n = V, .k = C, .form = GEMM_NT, .out_f32 = 1 }; ws: kl_workspace(chunk,
 * V, sizeof(act_t)) bytes. */
static inline void kl_logits_(const KlRoom *to, const act_t *x, const wt_t *w, const act_t *from,
                              const wt_t *v, const int32_t *labels, int64_t chunk, Gemm *mm_logits,
                              void *ws)
{
    if (!ce_targets_(labels, chunk))
        return;
    gemm_run(mm_logits, to->logits, x, w, NULL, ws);
    gemm_run(mm_logits, to->of_from, from, v, NULL, ws);
}

static inline void kl_fwd(float *loss, float *loss_from, float *kl, const act_t *x, const wt_t *w,
                          const act_t *from, const wt_t *v, const int32_t *labels,
                          const float *weights, int64_t rows, int64_t V, int64_t C, int64_t chunk,
                          Gemm *mm_logits, void *ws)
{
    const KlRoom at = kl_room_(ws, chunk, V);
    for (int64_t i = 0; i < rows; i += chunk) {
        const KlRows to = { loss + i, loss_from + i, kl + i };
        kl_logits_(&at, x + i * C, w, from + i * C, v, labels + i, chunk, mm_logits, ws);
        kl_chunk_(&to, NULL, NULL, at.logits, at.of_from, labels + i, weights + i, NULL, 0, chunk,
                  V);
    }
}

/* Frozen heads: dx (rows, C) of the losses, dkl (rows, C) of the weighted divergences.
 * mm_dx: { .m = chunk, .n = C, .k = V, .form = GEMM_NN }. */
static inline void kl_fwd_dx(float *loss, float *loss_from, float *kl, act_t *dx, act_t *dkl,
                             const act_t *x, const wt_t *w, const act_t *from, const wt_t *v,
                             const int32_t *labels, const float *scale, const float *weights,
                             int64_t rows, int64_t V, int64_t C, int64_t chunk, Gemm *mm_logits,
                             Gemm *mm_dx, void *ws)
{
    const KlRoom at = kl_room_(ws, chunk, V);
    for (int64_t i = 0; i < rows; i += chunk) {
        const KlRows to = { loss + i, loss_from + i, kl + i };
        kl_logits_(&at, x + i * C, w, from + i * C, v, labels + i, chunk, mm_logits, ws);
        kl_chunk_(&to, at.d, at.dkl, at.logits, at.of_from, labels + i, weights + i, NULL, scale[0],
                  chunk, V);
        gemm_run(mm_dx, dx + i * C, at.d, w, NULL, ws);
        gemm_run(mm_dx, dkl + i * C, at.dkl, w, NULL, ws);
    }
}

/* Gradients of coef (rows) times the losses plus the weighted divergences: dx, and dw (V, C)
 * fp32, accumulated if beta. mm_dw: { .m = V, .n = C, .k = chunk, .form = GEMM_TN, .out_f32 =
 * 1, .beta = 1 }. */
static inline void kl_bwd(act_t *dx, float *dw, const act_t *x, const wt_t *w, const act_t *from,
                          const wt_t *v, const int32_t *labels, const float *scale,
                          const float *coef, const float *weights, int64_t rows, int64_t V,
                          int64_t C, int64_t chunk, int beta, Gemm *mm_logits, Gemm *mm_dx,
                          Gemm *mm_dw, void *ws)
{
    const KlRoom at = kl_room_(ws, chunk, V);
    const KlRows none = { NULL, NULL, NULL };
    if (!beta) {
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < V; i++)
            memset(dw + i * C, 0, sizeof(float) * (size_t)C);
    }
    for (int64_t i = 0; i < rows; i += chunk) {
        kl_logits_(&at, x + i * C, w, from + i * C, v, labels + i, chunk, mm_logits, ws);
        kl_chunk_(&none, at.d, NULL, at.logits, at.of_from, labels + i, weights + i, coef + i,
                  scale[0], chunk, V);
        gemm_run(mm_dx, dx + i * C, at.d, w, NULL, ws);
        gemm_run(mm_dw, dw, at.d, x + i * C, NULL, ws);
    }
}

#endif
