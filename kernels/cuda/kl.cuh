/* kl.cuh -- cross-entropy and KL divergence of a policy and its reference model over the
 * vocabulary, including the heads, one chunk of rows at a time.
 *
 * In:    x (rows, C), w (V, C) of the policy Q; from, v likewise of the reference P; labels
 *        (rows), < 0: no target; weights (rows) fp32 of the divergences; chunk | rows; Gemms
 *        of one chunk.
 * Out:   loss, loss_from (rows) fp32, cross-entropies under Q and P; kl (rows) fp32, the
 *        weight times sum P ln(P / Q); 0 without target. Gradients of scale[0] times these, by
 *        Q only. */
#ifndef DIECAST_KERNELS_KL_CUH
#define DIECAST_KERNELS_KL_CUH

#include "ce.cuh"

enum { KL_THREADS = 512 };       /* for rows longer than CUDA_CE_SHORT */

/* Softmax of a row of logits: Q[v] = exp(l[v] - max) * factor. */
struct KlRow {
    const float *l;
    float max, factor, log;      /* 1 / sum, ln sum */
};

template <int THREADS>
static __device__ __forceinline__ KlRow kl_row_(const float *l, int V, int thread)
{
    KlRow r;
    float sum;
    r.l = l;
    ce_exp_sum_<THREADS>(r.max, sum, l, V, thread);
    r.factor = 1.0f / sum;
    r.log = logf(sum);
    return r;
}

/* sum P ln(P / Q) of a row, returned to every thread of it; equal logits give 0 exactly. */
template <int THREADS>
static __device__ __forceinline__ float kl_divergence_(const KlRow &p, const KlRow &q, int V,
                                                       int thread)
{
    const float off = (p.max - q.max) + (p.log - q.log);
    const int vectors = V / 4;
    float part = 0, r[4], l[4];
    for (int i = thread; i < vectors; i += THREADS) {
        f32_load4(r, p.l + 4 * (int64_t)i);
        f32_load4(l, q.l + 4 * (int64_t)i);
#pragma unroll
        for (int j = 0; j < 4; j++)
            part += __expf(r[j] - p.max) * (r[j] - l[j] - off);
    }
    if (thread < V % 4) {
        const int i = 4 * vectors + thread;
        part += __expf(p.l[i] - p.max) * (p.l[i] - q.l[i] - off);
    }
    return (THREADS > WARP ? block_sum(part) : warp_sum(part)) * p.factor;
}

/* Gradients by a logit: of coef times the loss, and of k times the divergence. */
static __device__ __forceinline__ void kl_grads_(float &of_loss, float &of_kl, const KlRow &q,
                                                 const KlRow &p, float l, float r, float coef,
                                                 float k, bool target)
{
    const float at_q = __expf(l - q.max) * q.factor;
    of_loss = coef * at_q - (target ? coef : 0.0f);
    of_kl = k * (at_q - __expf(r - p.max) * p.factor);
}

/* d of the sum, or with APART d of the loss and dkl of the divergence; both may alias the
 * logits. */
template <int THREADS, bool APART>
static __device__ __forceinline__ void kl_gradient_(act_t *d, act_t *dkl, const KlRow &q,
                                                    const KlRow &p, float coef, float k, int label,
                                                    int V, int thread)
{
    const int vectors = V / 4;
    float l[4], r[4], a, b;
    for (int i = thread; i < vectors; i += THREADS) {
        f32_load4(l, q.l + 4 * (int64_t)i);
        f32_load4(r, p.l + 4 * (int64_t)i);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            kl_grads_(a, b, q, p, l[j], r[j], coef, k, 4 * i + j == label);
            l[j] = APART ? a : a + b;
            r[j] = b;
        }
        act_store4(d + 4 * (int64_t)i, l);
        if constexpr (APART)
            act_store4(dkl + 4 * (int64_t)i, r);
    }
    if (thread < V % 4) {
        const int i = 4 * vectors + thread;
        kl_grads_(a, b, q, p, q.l[i], p.l[i], coef, k, i == label);
        act_store(d + i, APART ? a : a + b);
        if constexpr (APART)
            act_store(dkl + i, b);
    }
}

template <int THREADS>
static __device__ __forceinline__ void kl_clear_(act_t *d, int V, int64_t ld, int thread)
{
    const float zero[4] = { 0 };
    for (int i = thread; i < V / 4; i += THREADS)
        act_store4(d + 4 * (int64_t)i, zero);
    ce_pad_<THREADS>(d, V / 4 * 4, ld, thread);
}

enum { KL_LOSSES, KL_APART, KL_TOGETHER };      /* outputs: losses; losses, d and dkl; d of the
                                                   sum */

/* Inputs and outputs of a chunk's rows; logits, of_from, d and dkl: row stride ld, a multiple
 * of 4. */
typedef struct {
    float *loss, *from, *kl;     /* (chunk) */
    act_t *d, *dkl;
    const float *logits, *of_from;
    const int32_t *labels;       /* (chunk) */
    const float *weights, *coef; /* (chunk) */
    const float *scale;          /* one */
    int64_t chunk, ld;
    int V;
} KlChunk;

template <int THREADS, int WHAT>
__global__ void __launch_bounds__(THREADS > WARP ? THREADS : WARP *CE_ROWS)
    kl_rows_kernel(KlChunk c)
{
    constexpr bool WIDE = THREADS > WARP;
    const int64_t row = WIDE ? blockIdx.x : blockIdx.x * (int64_t)CE_ROWS + threadIdx.y;
    const int thread = threadIdx.x;
    if (!WIDE && row >= c.chunk)
        return;
    const int label = c.labels[row];
    if (label < 0) {
        if (WHAT != KL_TOGETHER && thread == 0)
            c.loss[row] = c.from[row] = c.kl[row] = 0;
        if constexpr (WHAT != KL_LOSSES)
            kl_clear_<THREADS>(c.d + row * c.ld, c.V, c.ld, thread);
        if constexpr (WHAT == KL_APART)
            kl_clear_<THREADS>(c.dkl + row * c.ld, c.V, c.ld, thread);
        return;
    }
    const KlRow q = kl_row_<THREADS>(c.logits + row * c.ld, c.V, thread),
                p = kl_row_<THREADS>(c.of_from + row * c.ld, c.V, thread);
    if constexpr (WHAT != KL_TOGETHER) {
        const float kl = kl_divergence_<THREADS>(p, q, c.V, thread);
        if (thread == 0) {
            c.loss[row] = q.log - (q.l[label] - q.max);
            c.from[row] = p.log - (p.l[label] - p.max);
            c.kl[row] = c.weights[row] * kl;
        }
    }
    if constexpr (WHAT != KL_LOSSES) {
        const float scale = c.scale[0], coef = WHAT == KL_APART ? scale : c.coef[row] * scale;
        if (WIDE)
            __syncthreads();     /* all have read the label's logit before it is overwritten */
        else
            __syncwarp();
        kl_gradient_<THREADS, WHAT == KL_APART>(c.d + row * c.ld, c.dkl + row * c.ld, q, p, coef,
                                                c.weights[row] * scale, label, c.V, thread);
        ce_pad_<THREADS>(c.d + row * c.ld, c.V, c.ld, thread);
        if constexpr (WHAT == KL_APART)
            ce_pad_<THREADS>(c.dkl + row * c.ld, c.V, c.ld, thread);
    }
}

#ifndef __CUDACC_RTC__
template <int WHAT>
static inline void kl_rows(const KlChunk &c, cudaStream_t s)
{
    const bool wide = c.V > CUDA_CE_SHORT;
    launch(wide ? kl_rows_kernel<KL_THREADS, WHAT> : kl_rows_kernel<WARP, WHAT>,
           wide ? (unsigned)c.chunk : blocks_over(c.chunk, CE_ROWS),
           wide ? dim3(KL_THREADS) : dim3(WARP, CE_ROWS), 0, s, c);
}

/* The chunk at row i of x and from: its logits, and its part of ws after CUDA_GEMM_WORKSPACE:
 * logits of both models fp32, their gradients act_t, which overwrite the logits in fp32
 * programs. */
static inline KlChunk kl_chunk_(int64_t i, const act_t *x, const wt_t *w, const act_t *from,
                                const wt_t *v, const int32_t *labels, const float *weights,
                                int64_t V, int64_t C, int64_t chunk, const Gemm *mm_logits,
                                void *ws, cudaStream_t s)
{
    const bool own = sizeof(act_t) != sizeof(float);
    const int64_t ld = ce_width(V);
    float *logits = (float *)((char *)ws + CUDA_GEMM_WORKSPACE), *of_from = logits + chunk * ld;
    gemm_run(mm_logits, logits, x + i * C, w, NULL, NULL, ws, s);
    gemm_run(mm_logits, of_from, from + i * C, v, NULL, NULL, ws, s);
    KlChunk c = {};
    c.d = (act_t *)(own ? of_from + chunk * ld : logits);
    c.dkl = own ? c.d + chunk * ld : (act_t *)of_from;
    c.logits = logits, c.of_from = of_from;
    c.labels = labels + i, c.weights = weights + i;
    c.chunk = chunk, c.ld = ld, c.V = (int)V;
    return c;
}

/* mm_logits: { .m = chunk, .n = ce_width(V), .k = C, .form = GEMM_NT, .out_f32 = 1 };
 * ws: kl_cuda_workspace(chunk, V) bytes. */
static inline void kl_fwd(float *loss, float *loss_from, float *kl, const act_t *x, const wt_t *w,
                          const act_t *from, const wt_t *v, const int32_t *labels,
                          const float *weights, int64_t rows, int64_t V, int64_t C, int64_t chunk,
                          const Gemm *mm_logits, void *ws, cudaStream_t s)
{
    for (int64_t i = 0; i < rows; i += chunk) {
        KlChunk c = kl_chunk_(i, x, w, from, v, labels, weights, V, C, chunk, mm_logits, ws, s);
        c.loss = loss + i, c.from = loss_from + i, c.kl = kl + i;
        kl_rows<KL_LOSSES>(c, s);
    }
}

/* Frozen heads: dx (rows, C) of the losses, dkl (rows, C) of the weighted divergences.
 * mm_dx: { .m = chunk, .n = C, .k = ce_width(V), .form = GEMM_NN } */
static inline void kl_fwd_dx(float *loss, float *loss_from, float *kl, act_t *dx, act_t *dkl,
                             const act_t *x, const wt_t *w, const act_t *from, const wt_t *v,
                             const int32_t *labels, const float *scale, const float *weights,
                             int64_t rows, int64_t V, int64_t C, int64_t chunk,
                             const Gemm *mm_logits, const Gemm *mm_dx, void *ws, cudaStream_t s)
{
    for (int64_t i = 0; i < rows; i += chunk) {
        KlChunk c = kl_chunk_(i, x, w, from, v, labels, weights, V, C, chunk, mm_logits, ws, s);
        c.loss = loss + i, c.from = loss_from + i, c.kl = kl + i, c.scale = scale;
        kl_rows<KL_APART>(c, s);
        gemm_run(mm_dx, dx + i * C, c.d, w, NULL, NULL, ws, s);
        gemm_run(mm_dx, dkl + i * C, c.dkl, w, NULL, NULL, ws, s);
    }
}

/* Gradients of coef (rows) times the losses plus the weighted divergences: dx, and dw (V, C)
 * fp32, accumulated if beta. mm_dw: { .m = ce_width(V), .n = C, .k = chunk, .form = GEMM_TN,
 * .out_f32 = 1, .beta = 1 }. */
static inline void kl_bwd(act_t *dx, float *dw, const act_t *x, const wt_t *w, const act_t *from,
                          const wt_t *v, const int32_t *labels, const float *scale,
                          const float *coef, const float *weights, int64_t rows, int64_t V,
                          int64_t C, int64_t chunk, int beta, const Gemm *mm_logits,
                          const Gemm *mm_dx, const Gemm *mm_dw, void *ws, cudaStream_t s)
{
    for (int64_t i = 0; i < rows; i += chunk) {
        KlChunk c = kl_chunk_(i, x, w, from, v, labels, weights, V, C, chunk, mm_logits, ws, s);
        c.scale = scale, c.coef = coef + i;
        kl_rows<KL_TOGETHER>(c, s);
        gemm_run(mm_dx, dx + i * C, c.d, w, NULL, NULL, ws, s);
        gemm_run_beta(mm_dw, i || beta ? 1.0f : 0.0f, dw, c.d, x + i * C, NULL, NULL, ws, s);
    }
}
#else
enum { KL_ROW_THREADS = V > CUDA_CE_SHORT ? KL_THREADS : WARP };
template __global__ void kl_rows_kernel<KL_ROW_THREADS, KL_LOSSES>(KlChunk);
#ifdef KERNEL_kl_fwd_dx
template __global__ void kl_rows_kernel<KL_ROW_THREADS, KL_APART>(KlChunk);
#endif
#ifdef KERNEL_kl_bwd
template __global__ void kl_rows_kernel<KL_ROW_THREADS, KL_TOGETHER>(KlChunk);
#endif
#endif

#endif
