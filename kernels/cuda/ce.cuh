/* ce.cuh -- cross-entropy with the head product, a chunk of rows at a time: no (rows, V) is stored.
 *
 * In:    x (rows, C), w (V, C), labels (rows), < 0: no target; chunk | rows; Gemms of one chunk.
 * Out:   loss (rows) fp32, 0 without target; dx (rows, C), dw (V, C) fp32 of scale[0] * the losses.
 * Keeps: logits and sums fp32, the latter in an order that V decides; logit gradients act_t.
 * Method: loss = log(sum exp(l - max)) - (l[label] - max); dl = (softmax - onehot) * scale. */
#ifndef DIECAST_KERNELS_CE_CUH
#define DIECAST_KERNELS_CE_CUH

#include "gemm.cuh"
#include "types.cuh"
#include "workspace.h"

enum {
    CE_ROWS = 4,                 /* short rows of a block, a warp each */
    CE_SUM = 1024                /* threads of loss_sum */
};

/* The running maximum and the sum of exp(l - maximum) take in n more logits. */
template <int n>
static __device__ __forceinline__ void ce_take_(float &max, float &sum, const float *l)
{
    float most = max, more = 0;
#pragma unroll
    for (int j = 0; j < n; j++)
        most = fmaxf(most, l[j]);
#pragma unroll
    for (int j = 0; j < n; j++)
        more += __expf(l[j] - most);
    sum = sum * __expf(max - most) + more;
    max = most;
}

/* Of a row, whose every thread gets them. THREADS: a warp, or the block; they take vectors of 4,
 * THREADS apart. */
template <int THREADS>
static __device__ __forceinline__ void ce_exp_sum_(float &max, float &sum, const float *l, int V,
                                                   int thread)
{
    constexpr bool WIDE = THREADS > WARP;
    const int vectors = V / 4;
    float m = -3.4e38f, part = 0, v[8];
    int i = thread;
    for (; i + THREADS < vectors; i += 2 * THREADS) {
        f32_load4(v, l + 4 * (int64_t)i);
        f32_load4(v + 4, l + 4 * (int64_t)(i + THREADS));
        ce_take_<8>(m, part, v);
    }
    if (i < vectors) {
        f32_load4(v, l + 4 * (int64_t)i);
        ce_take_<4>(m, part, v);
    }
    if (thread < V % 4)
        ce_take_<1>(m, part, l + 4 * (int64_t)vectors + thread);
    if (!WIDE)
        __syncwarp();            // all have read before the first writes
    max = WIDE ? block_max(m) : warp_max(m);
    part *= __expf(m - max);
    sum = WIDE ? block_sum(part) : warp_sum(part);
}

/* g = exp(l - max) * factor, less scale at the label; g may be l. The last vectors, which are in
 * the cache, come first. */
template <int THREADS>
static __device__ __forceinline__ void ce_gradient_(act_t *g, const float *l, float max,
                                                    float factor, float scale, int label, int V,
                                                    int thread)
{
    const int vectors = V / 4;
    float v[4];
    if (thread < V % 4) {
        const int i = 4 * vectors + thread;
        act_store(g + i, __expf(l[i] - max) * factor - (i == label ? scale : 0.0f));
    }
    const int last = vectors - 1 - thread;
#pragma unroll 2
    for (int i = last; i >= 0; i -= THREADS) {
        f32_load4(v, l + 4 * (int64_t)i);
#pragma unroll
        for (int j = 0; j < 4; j++)
            v[j] = __expf(v[j] - max) * factor - (4 * i + j == label ? scale : 0.0f);
        act_store4(g + 4 * (int64_t)i, v);
    }
}

/* Losses of a chunk from its logits (chunk, ld) and, with GRAD, their gradient d (chunk, ld), which
 * may be the logits' own place. ld: a multiple of 4. */
template <int THREADS, bool GRAD>
__global__ void __launch_bounds__(THREADS > WARP ? THREADS : WARP *CE_ROWS)
    ce_rows_kernel(float *__restrict__ loss, act_t *d, const float *logits,
                   const int32_t *__restrict__ labels, const float *__restrict__ scale,
                   int64_t chunk, int V, int64_t ld)
{
    constexpr bool WIDE = THREADS > WARP;
    const int64_t row = WIDE ? blockIdx.x : blockIdx.x * (int64_t)CE_ROWS + threadIdx.y;
    const int thread = threadIdx.x;
    if (!WIDE && row >= chunk)
        return;
    const float *l = logits + row * ld;
    const int label = labels[row];
    if (label < 0) {
        if (thread == 0)
            loss[row] = 0;
        if constexpr (GRAD) {
            const float zero[4] = { 0 };
            for (int i = thread; i < V / 4; i += blockDim.x)
                act_store4(d + row * ld + 4 * (int64_t)i, zero);
            if (thread < V % 4)
                act_store(d + row * ld + V / 4 * 4 + thread, 0);
        }
        return;
    }
    float max, sum;
    const float target = thread == 0 ? l[label] : 0.0f;
    ce_exp_sum_<THREADS>(max, sum, l, V, thread);
    if (thread == 0)
        loss[row] = logf(sum) - (target - max);
    if constexpr (GRAD)
        ce_gradient_<THREADS>(d + row * ld, l, max, scale[0] / sum, scale[0], label, V, thread);
}

/* acc[0] += the sum; a thread adds every CE_SUM-th loss. */
__global__ void __launch_bounds__(CE_SUM)
    loss_sum_kernel(double *acc, const float *__restrict__ loss, int64_t rows)
{
    double sum = 0;
#pragma unroll 8
    for (int64_t i = threadIdx.x; i < rows; i += CE_SUM)
        sum += loss[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        acc[0] += sum;
}

#ifndef __CUDACC_RTC__
/* d: NULL where only the losses are wanted. THREADS: of a row that is not short. */
template <int THREADS>
static inline void ce_rows(float *loss, act_t *d, const float *logits, const int32_t *labels,
                           const float *scale, int64_t chunk, int64_t V, cudaStream_t s)
{
    const bool wide = V > CUDA_CE_SHORT;
    auto kernel = d ? wide ? ce_rows_kernel<THREADS, true> : ce_rows_kernel<WARP, true>
                    : wide ? ce_rows_kernel<THREADS, false> : ce_rows_kernel<WARP, false>;
    launch(kernel, wide ? (unsigned)chunk : blocks_over(chunk, CE_ROWS),
           wide ? dim3(THREADS) : dim3(WARP, CE_ROWS), 0, s, loss, d, logits, labels, scale, chunk,
           (int)V, ce_width(V));
}

/* THREADS: see ce_rows.
 * mm_logits: { .m = chunk, .n = V, .k = C, .ldc = ce_width(V), .form = GEMM_NT, .out_f32 = 1 };
 * ws: ce_cuda_workspace(chunk, V) bytes. */
template <int THREADS>
static inline void ce_fwd(float *loss, const act_t *x, const wt_t *w, const int32_t *labels,
                          int64_t rows, int64_t V, int64_t C, int64_t chunk, const Gemm *mm_logits,
                          void *ws, cudaStream_t s)
{
    float *logits = (float *)((char *)ws + CUDA_GEMM_WORKSPACE);
    for (int64_t i = 0; i < rows; i += chunk) {
        gemm_run(mm_logits, logits, x + i * C, w, NULL, NULL, ws, s);
        ce_rows<THREADS>(loss + i, NULL, logits, labels + i, NULL, chunk, V, s);
    }
}

/* dw: NULL when the head is frozen; else the first chunk adds to it when beta. */
template <int THREADS>
static inline void ce_bwd_(float *loss, act_t *dx, float *dw, const act_t *x, const wt_t *w,
                           const int32_t *labels, const float *scale, int64_t rows, int64_t V,
                           int64_t C, int64_t chunk, int beta, const Gemm *mm_logits,
                           const Gemm *mm_dx, const Gemm *mm_dw, void *ws, cudaStream_t s)
{
    float *logits = (float *)((char *)ws + CUDA_GEMM_WORKSPACE);
    act_t *d = (act_t *)(sizeof(act_t) == sizeof(float) ? logits : logits + chunk * ce_width(V));
    for (int64_t i = 0; i < rows; i += chunk) {
        gemm_run(mm_logits, logits, x + i * C, w, NULL, NULL, ws, s);
        ce_rows<THREADS>(loss + i, d, logits, labels + i, scale, chunk, V, s);
        gemm_run(mm_dx, dx + i * C, d, w, NULL, NULL, ws, s);
        if (dw)
            gemm_run_beta(mm_dw, i || beta ? 1.0f : 0.0f, dw, d, x + i * C, NULL, NULL, ws, s);
    }
}

/* mm_dx: { .m = chunk, .n = C, .k = V, .lda = ce_width(V), .form = GEMM_NN }
 * mm_dw: { .m = V, .n = C, .k = chunk, .lda = ce_width(V), .form = GEMM_TN, .out_f32 = 1,
 *          .beta = 1 }: chunks add up; beta is the call's. */
template <int THREADS>
static inline void ce_fwd_bwd(float *loss, act_t *dx, float *dw, const act_t *x, const wt_t *w,
                              const int32_t *labels, const float *scale, int64_t rows, int64_t V,
                              int64_t C, int64_t chunk, int beta, const Gemm *mm_logits,
                              const Gemm *mm_dx, const Gemm *mm_dw, void *ws, cudaStream_t s)
{
    ce_bwd_<THREADS>(loss, dx, dw, x, w, labels, scale, rows, V, C, chunk, beta, mm_logits, mm_dx,
                     mm_dw, ws, s);
}

template <int THREADS>
static inline void ce_fwd_dx(float *loss, act_t *dx, const act_t *x, const wt_t *w,
                             const int32_t *labels, const float *scale, int64_t rows, int64_t V,
                             int64_t C, int64_t chunk, const Gemm *mm_logits, const Gemm *mm_dx,
                             void *ws, cudaStream_t s)
{
    ce_bwd_<THREADS>(loss, dx, NULL, x, w, labels, scale, rows, V, C, chunk, 0, mm_logits, mm_dx,
                     NULL, ws, s);
}

/* acc[0] += the losses, in an order that their number decides. */
static inline void loss_sum(double *acc, const float *loss, int64_t rows, cudaStream_t s)
{
    launch(loss_sum_kernel, 1, CE_SUM, 0, s, acc, loss, rows);
}
#else
#define CE_VARIANT(threads)                                                                    \
    template __global__ void ce_rows_kernel<(V > CUDA_CE_SHORT ? threads : WARP), true>(       \
        float *, act_t *, const float *, const int32_t *, const float *, int64_t, int, int64_t); \
    template __global__ void ce_rows_kernel<(V > CUDA_CE_SHORT ? threads : WARP), false>(      \
        float *, act_t *, const float *, const int32_t *, const float *, int64_t, int, int64_t);
VARIANTS_ce_threads(CE_VARIANT)
#endif

#endif
