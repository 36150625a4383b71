/* ce.h -- cross-entropy with the head product, a chunk of rows at a time: no (rows, V) is stored.
 *
 * In:    x (rows, C), w (V, C), labels (rows), < 0: no target; chunk | rows; Gemms of one chunk.
 * Out:   loss (rows) fp32, 0 without target; dx (rows, C) and those of CeHead, of scale[0] loss.
 * Keeps: sums fp32 over CE_LANES fixed partial sums; logit gradients act_t.
 * Method: loss = log(sum exp(l - max)) - (l[label] - max); dl = (softmax - onehot) * scale. */
#ifndef DIECAST_KERNELS_CE_H
#define DIECAST_KERNELS_CE_H

#include "gemm.h"
#include "math.h"

enum { CE_LANES = 32 };

/* [GEMM_WORKSPACE | logits (chunk, V) fp32 | their gradient (chunk, V) act_t, in fp32 programs the
 * logits' place] */
static inline int ce_targets_(const int32_t *labels, int64_t n)
{
    int targets = 0;
    for (int64_t i = 0; i < n; i++)
        targets += labels[i] >= 0;
    return targets;
}

/* The sum of exp(l - max) is returned, the maximum stored. exps: NULL, or the place of each
 * exp(l - max), which may be l. */
static inline __attribute__((always_inline)) float ce_exp_sum_(float *max, float *exps,
                                                               const float *l, int64_t V)
{
    float most[CE_LANES], sum[CE_LANES];
    for (int j = 0; j < CE_LANES; j++)
        most[j] = l[0], sum[j] = 0;
    const int64_t even = V / CE_LANES * CE_LANES;
    for (int64_t v = 0; v < even; v += CE_LANES)
#pragma omp simd
        for (int j = 0; j < CE_LANES; j++)
            most[j] = l[v + j] > most[j] ? l[v + j] : most[j];
    for (int64_t v = even; v < V; v++)
        most[0] = l[v] > most[0] ? l[v] : most[0];
    for (int j = 1; j < CE_LANES; j++)
        most[0] = most[j] > most[0] ? most[j] : most[0];
    const float top = most[0];
    for (int64_t v = 0; v < even; v += CE_LANES)
#pragma omp simd
        for (int j = 0; j < CE_LANES; j++) {
            const float e = math_exp(l[v + j] - top);
            sum[j] += e;
            if (exps)
                exps[v + j] = e;
        }
    for (int64_t v = even; v < V; v++) {
        const float e = math_exp(l[v] - top);
        sum[0] += e;
        if (exps)
            exps[v] = e;
    }
    for (int n = CE_LANES / 2; n > 0; n /= 2)
        for (int j = 0; j < n; j++)
            sum[j] += sum[j + n];
    *max = top;
    return sum[0];
}

static inline float ce_row_loss_(float *max, float *sum, float *exps, const float *l, int32_t label,
                                 int64_t V)
{
    const float of_label = l[label];
    *sum = ce_exp_sum_(max, exps, l, V);
    return math_log(*sum) - (of_label - *max);
}

/* Losses of a chunk from its logits, times the weights unless NULL; hits unless NULL. */
static inline void ce_chunk_fwd_(float *restrict loss, float *restrict hits, const float *logits,
                                 const int32_t *labels, const float *weights, int64_t chunk,
                                 int64_t V)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunk; i++) {
        const float *l = logits + i * V;
        float max, sum;
        loss[i] = labels[i] < 0 ? 0 : ce_row_loss_(&max, &sum, NULL, l, labels[i], V);
        if (weights && labels[i] >= 0)
            loss[i] *= weights[i];
        if (hits)
            hits[i] = labels[i] >= 0 && l[labels[i]] >= max;
    }
}

/* Losses of a chunk and the gradient of its logits, which become exp(l - max) in rows with a label;
 * d may be their place. */
static inline void ce_chunk_bwd_(float *loss, act_t *d, float *logits, const int32_t *labels,
                                 const float *weights, float scale, int64_t chunk, int64_t V)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < chunk; i++) {
        float *l = logits + i * V;
        act_t *g = d + i * V;
        const int32_t label = labels[i];
        float max, sum;
        if (label < 0) {
            loss[i] = 0;
            memset(g, 0, sizeof(act_t) * (size_t)V);
            continue;
        }
        loss[i] = ce_row_loss_(&max, &sum, l, l, label, V);
        const float of_row = weights ? weights[i] * scale : scale;
        if (weights)
            loss[i] *= weights[i];
        const float factor = of_row / sum, target = l[label] * factor - of_row;
#pragma omp simd
        for (int64_t v = 0; v < V; v++)
            act_store(g + v, l[v] * factor);
        act_store(g + label, target);
    }
}

/* db (V) += the column sums of d (chunk, V), rows in order. */
static inline void ce_bias_grad_(float *restrict db, const act_t *restrict d, int64_t chunk,
                                 int64_t V)
{
    enum { COLUMNS = 64 };
#pragma omp parallel for schedule(static)
    for (int64_t v0 = 0; v0 < V; v0 += COLUMNS) {
        const int64_t v1 = v0 + COLUMNS < V ? v0 + COLUMNS : V;
        for (int64_t i = 0; i < chunk; i++)
#pragma omp simd
            for (int64_t v = v0; v < v1; v++)
                db[v] += act_load(d + i * V + v);
    }
}

/* Operands that not every head has; NULL: none. */
typedef struct {
    const wt_t *bias;        /* (V), of the logits */
    const float *weights;    /* (rows), of the losses */
    float *hits;             /* forward, out: (rows), 1: none above the target's; else 0 */
    float *dw, *db;          /* backward, out: (V, C), (V); NULL: frozen */
} CeHead;

/* mm_logits: { .m = chunk, .n = V, .k = C, .form = GEMM_NT, .out_f32 = 1 }, .bias = 1 with a bias;
 * ws: ce_workspace(chunk, V) bytes. */
static inline void ce_fwd(float *loss, const act_t *x, const wt_t *w, const int32_t *labels,
                          const CeHead *head, int64_t rows, int64_t V, int64_t C, int64_t chunk,
                          Gemm *mm_logits, void *ws)
{
    float *logits = (float *)((char *)ws + GEMM_WORKSPACE);
    for (int64_t i = 0; i < rows; i += chunk) {
        if (ce_targets_(labels + i, chunk))
            gemm_run(mm_logits, logits, x + i * C, w, head->bias, ws);
        ce_chunk_fwd_(loss + i, head->hits ? head->hits + i : NULL, logits, labels + i,
                      head->weights ? head->weights + i : NULL, chunk, V);
    }
}

static inline void ce_zero_(float *dw, int64_t V, int64_t C)
{
#pragma omp parallel for schedule(static)
    for (int64_t v = 0; v < V; v++)
        memset(dw + v * C, 0, sizeof(float) * (size_t)C);
}

/* dw (V, C) = d^T x of a chunk; `onto`: added to dw. A product of oneDNN always adds. */
static inline void ce_dw_(float *dw, const act_t *d, const act_t *x, bool onto, Gemm *mm, void *ws)
{
    Gemm first = *mm;
    first.beta = first.library != NULL;
    if (!onto && first.beta)
        ce_zero_(dw, mm->m, mm->n);
    gemm_run(onto ? mm : &first, dw, d, x, NULL, ws);
}

/* mm_dx: { .m = chunk, .n = C, .k = V, .form = GEMM_NN }; mm_dw: { .m = V, .n = C, .k = chunk,
 * .form = GEMM_TN, .out_f32 = 1, .beta = 1 }, for chunks add up, NULL with a frozen head.
 * beta: the call adds to dw and db. */
static inline void ce_bwd(float *loss, act_t *dx, const act_t *x, const wt_t *w,
                          const int32_t *labels, const float *scale, const CeHead *head,
                          int64_t rows, int64_t V, int64_t C, int64_t chunk, int beta,
                          Gemm *mm_logits, Gemm *mm_dx, Gemm *mm_dw, void *ws)
{
    float *logits = (float *)((char *)ws + GEMM_WORKSPACE), *dw = head->dw, *db = head->db;
    act_t *d = (act_t *)(sizeof(act_t) == sizeof(float) ? logits : logits + chunk * V);
    bool onto = beta;
    if (db && !beta)
        memset(db, 0, sizeof(float) * (size_t)V);
    for (int64_t i = 0; i < rows; i += chunk) {
        if (!ce_targets_(labels + i, chunk)) {
            memset(loss + i, 0, sizeof(float) * (size_t)chunk);
            memset(dx + i * C, 0, sizeof(act_t) * (size_t)(chunk * C));
            continue;
        }
        gemm_run(mm_logits, logits, x + i * C, w, head->bias, ws);
        ce_chunk_bwd_(loss + i, d, logits, labels + i, head->weights ? head->weights + i : NULL,
                      scale[0], chunk, V);
        gemm_run(mm_dx, dx + i * C, d, w, NULL, ws);
        if (dw)
            ce_dw_(dw, d, x + i * C, onto, mm_dw, ws);
        if (db)
            ce_bias_grad_(db, d, chunk, V);
        onto = true;
    }
    if (dw && !onto)
        ce_zero_(dw, V, C);
}

/* acc[0] += the losses, in their order. */
static inline void loss_sum(double *acc, const float *loss, int64_t rows)
{
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        sum += loss[i];
    acc[0] += sum;
}

#endif
