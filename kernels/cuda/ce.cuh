/* ce.cuh -- cross-entropy with the head product, a chunk of rows at a time: no (rows, V) is stored.
 *
 * In:    x (rows, C), w (V, C), labels (rows), < 0: no target; chunk | rows; Gemms of one chunk.
 * Out:   loss (rows) fp32, 0 without target; dx (rows, C) and those of CeHead, of scale[0] loss.
 * Keeps: sums fp32, in an order that V decides; logit gradients act_t. Logits are fp32, or act_t:
 *        then their gradient takes their place.
 * Method: loss = log(sum exp(l - max)) - (l[label] - max); dl = (softmax - onehot) * scale. A block
 *         takes rows in turn. Shared memory holds the first logits of its row, or all, for the
 *         gradient, which makes room for those of the next row. */
#ifndef DIECAST_KERNELS_CE_CUH
#define DIECAST_KERNELS_CE_CUH

#include "gemm.cuh"
#include "ptx.cuh"
#include "types.cuh"
#include "workspace.h"

enum {
    CE_ROWS = 4,                 /* short rows of a block, a warp each */
    CE_SUM = 1024,               /* threads of loss_sum */
    CE_BIAS_ROWS = 8,            /* of threads, that sum every so many rows of a bias's gradient */
    CE_GROUPS = 7                /* groups of copies on their way that ce_wait_ can tell apart */
};

/* Logits of a vector of 16 bytes. */
template <typename Logit> static constexpr int CE_VECTOR = 16 / (int)sizeof(Logit);

static __device__ __forceinline__ void ce_load_(float *v, const float *l) { f32_load4(v, l); }
static __device__ __forceinline__ float ce_logit_(const float *l) { return *l; }
#if defined ACT_BF16 || defined ACT_F16
static __device__ __forceinline__ void ce_load_(float *v, const act_t *l) { act_load_vector(v, l); }
static __device__ __forceinline__ float ce_logit_(const act_t *l) { return act_load(l); }
#endif

/* Vectors of n logits of a row that each thread holds if a block may have `bytes` of shared memory:
 * all, or an even number. */
static __host__ __device__ constexpr int ce_held(int64_t V, int n, int threads, int64_t bytes)
{
    const int64_t all = (V / n + threads - 1) / threads, fit = (bytes - 1024) / (16 * threads);
    return (int)(all <= fit ? all : fit / 2 * 2);
}

/* Logits in shared memory: vector k of this thread is at[k * THREADS]. */
struct CeHeld {
    float4 *at = nullptr;
    int n = 0;
};

/* Waits until at most `pending` groups of this thread's copies are on their way. */
static __device__ __forceinline__ void ce_wait_(int pending)
{
    static_assert(CE_GROUPS == 7, "a case each");
    switch (pending) {
    case 0: return copy_wait<0>();
    case 1: return copy_wait<1>();
    case 2: return copy_wait<2>();
    case 3: return copy_wait<3>();
    case 4: return copy_wait<4>();
    case 5: return copy_wait<5>();
    case 6: return copy_wait<6>();
    default: return copy_wait<CE_GROUPS>();
    }
}

/* Begins to copy vectors k and k + 1 of a row, of those held: a group. l NULL: none. */
template <int THREADS, typename Logit>
static __device__ __forceinline__ void ce_copy_(const CeHeld &held, const Logit *l, int k,
                                                int vectors, int thread)
{
#pragma unroll
    for (int j = k; j < k + 2; j++) {
        const int i = thread + j * THREADS;
        if (l && j < held.n && i < vectors)
            copy16_async(shared_address(held.at + j * THREADS),
                         l + CE_VECTOR<Logit> * (int64_t)i, 16);
    }
    copy_commit();
}

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

/* Maximum and sum of a row, returned to every thread. THREADS: a warp, or the block; they read
 * vectors THREADS apart: those held, then the others. */
template <int THREADS, typename Logit>
static __device__ __forceinline__ void ce_exp_sum_(float &max, float &sum, const Logit *l, int V,
                                                   int thread, const CeHeld &held = {})
{
    constexpr bool WIDE = THREADS > WARP;
    constexpr int N = CE_VECTOR<Logit>, K = 16 / N, H = 8 / N;
    const int vectors = V / N;
    float m = -3.4e38f, part = 0, v[16];
    int i = thread;
    if constexpr (WIDE)
        for (int k = 0; k < held.n; k += 2, i += 2 * THREADS) {
            ce_wait_((held.n + 1) / 2 - 1 - k / 2);
            if (i < vectors)
                ce_load_(v, (const Logit *)(held.at + k * THREADS));
            if (i + THREADS < vectors) {
                ce_load_(v + N, (const Logit *)(held.at + (k + 1) * THREADS));
#pragma unroll
                for (int j = 0; j < 2 * N; j += 8)
                    ce_take_<8>(m, part, v + j);
            } else if (i < vectors) {
                ce_take_<N>(m, part, v);
            }
        }
    for (; i + (K - 1) * THREADS < vectors; i += K * THREADS) {
#pragma unroll
        for (int k = 0; k < K; k++)
            ce_load_(v + N * k, l + N * (int64_t)(i + k * THREADS));
        ce_take_<8>(m, part, v);
        ce_take_<8>(m, part, v + 8);
    }
    for (; i + (H - 1) * THREADS < vectors; i += H * THREADS) {
#pragma unroll
        for (int k = 0; k < H; k++)
            ce_load_(v + N * k, l + N * (int64_t)(i + k * THREADS));
        ce_take_<8>(m, part, v);
    }
    if (H > 1 && i < vectors) {
        ce_load_(v, l + N * (int64_t)i);
        ce_take_<N>(m, part, v);
    }
    if (thread < V % N) {
        *v = ce_logit_(l + N * (int64_t)vectors + thread);
        ce_take_<1>(m, part, v);
    }
    if (!WIDE)
        __syncwarp();            // all have read before the first writes
    max = WIDE ? block_max(m) : warp_max(m);
    part *= __expf(m - max);
    sum = WIDE ? block_sum(part) : warp_sum(part);
}

/* The gradient of logits i to i + n, of a row. */
struct CeGradient {
    float max, factor, scale;        /* exp(l - max) * factor, less scale at the label */
    int label;
};

template <int n>
static __device__ __forceinline__ void ce_slope_(float *v, int i, const CeGradient &of)
{
#pragma unroll
    for (int j = 0; j < n; j++)
        v[j] = __expf(v[j] - of.max) * of.factor - (i + j == of.label ? of.scale : 0.0f);
}

/* Stores n gradients. streamed: their logits were read again; L2 keeps logits of long rows, not
 * these. */
template <int n>
static __device__ __forceinline__ void ce_store_(act_t *to, const float *v, bool streamed)
{
    if constexpr (n > 4)
        act_store_vector(to, v);
    else if (streamed)
        act_stream4(to, v);
    else
        act_store4(to, v);
}

/* g = the gradient of a row; g may be l. The last vectors, which are in the cache, come first, and
 * those held last: next, or NULL, is the row that takes their place. */
template <int THREADS, typename Logit>
static __device__ __forceinline__ void ce_gradient_(act_t *g, const Logit *l, const CeGradient &of,
                                                    int V, int thread, const CeHeld &held,
                                                    const Logit *next)
{
    constexpr bool WIDE = THREADS > WARP;
    constexpr int N = CE_VECTOR<Logit>, K = 16 / N;
    const int vectors = V / N, first = held.n * THREADS;
    float v[16];
    if (thread < V % N) {
        const int i = N * vectors + thread;
        *v = ce_logit_(l + i);
        ce_slope_<1>(v, i, of);
        act_store(g + i, *v);
    }
    int i = vectors - 1 - thread;
    for (; i - (K - 1) * THREADS >= first; i -= K * THREADS) {
#pragma unroll
        for (int k = 0; k < K; k++)
            ce_load_(v + N * k, l + N * (int64_t)(i - k * THREADS));
#pragma unroll
        for (int k = 0; k < K; k++) {
            ce_slope_<N>(v + N * k, N * (i - k * THREADS), of);
            ce_store_<N>(g + N * (int64_t)(i - k * THREADS), v + N * k, WIDE);
        }
    }
    for (; i >= first; i -= THREADS) {
        ce_load_(v, l + N * (int64_t)i);
        ce_slope_<N>(v, N * i, of);
        ce_store_<N>(g + N * (int64_t)i, v, WIDE);
    }
    for (int k = 0; k < held.n; k += 2) {
#pragma unroll
        for (int j = k; j < k + 2; j++) {
            const int at = thread + j * THREADS;
            if (j >= held.n || at >= vectors)
                continue;
            ce_load_(v, (const Logit *)(held.at + j * THREADS));
            ce_slope_<N>(v, N * at, of);
            ce_store_<N>(g + N * (int64_t)at, v, false);
        }
        ce_copy_<THREADS>(held, next, k, vectors, thread);
    }
}

/* Columns V to ld of a row of gradients become 0: the products that follow read whole rows. */
template <int THREADS>
static __device__ __forceinline__ void ce_pad_(act_t *d, int V, int64_t ld, int thread)
{
    for (int i = V + thread; i < (int)ld; i += THREADS)
        act_store(d + i, 0);
}

/* Losses of a chunk from its logits (chunk, ld) and, with GRAD, their gradient d (chunk, ld), which
 * may be the logits' own place. ld: a multiple of 8. weights: with WEIGHTED. A block takes every
 * gridDim.x-th row. held: ce_held; 0 without GRAD and for short rows. */
template <int THREADS, bool GRAD, bool WEIGHTED, typename Logit>
__global__ void __launch_bounds__(THREADS > WARP ? THREADS : WARP *CE_ROWS)
    ce_rows_kernel(float *__restrict__ loss, act_t *d, const Logit *logits,
                   const int32_t *__restrict__ labels, const float *__restrict__ scale,
                   const float *__restrict__ weights, int64_t chunk, int V, int64_t ld, int rounds)
{
    constexpr bool WIDE = THREADS > WARP;
    const int vectors = V / CE_VECTOR<Logit>;
    const Logit *const none = nullptr;
    DYNAMIC_SHARED(float4, shared);
    const int64_t step = WIDE ? gridDim.x : gridDim.x * (int64_t)CE_ROWS;
    int64_t row = WIDE ? blockIdx.x : blockIdx.x * (int64_t)CE_ROWS + threadIdx.y;
    const int thread = threadIdx.x;
    const CeHeld held = {shared + thread, GRAD && WIDE ? rounds : 0};
    int label = row < chunk ? labels[row] : -1;
    for (int k = 0; k < held.n; k += 2)
        ce_copy_<THREADS>(held, label < 0 ? none : logits + row * ld, k, vectors, thread);
    for (; row < chunk; row += step) {
        const Logit *l = logits + row * ld;
        const int next = row + step < chunk ? labels[row + step] : -1;
        const Logit *then = next < 0 ? none : l + step * ld;
        if (label < 0) {
            if (thread == 0)
                loss[row] = 0;
            if constexpr (GRAD) {
                const float zero[4] = { 0 };
                for (int i = thread; i < V / 4; i += blockDim.x)
                    act_store4(d + row * ld + 4 * (int64_t)i, zero);
                ce_pad_<THREADS>(d + row * ld, V / 4 * 4, ld, thread);
                for (int k = 0; k < held.n; k += 2)
                    ce_copy_<THREADS>(held, then, k, vectors, thread);
            }
            label = next;
            continue;
        }
        float max, sum;
        const float target = thread == 0 ? ce_logit_(l + label) : 0.0f;
        ce_exp_sum_<THREADS>(max, sum, l, V, thread, held);
        const float weight = WEIGHTED ? weights[row] : 1.0f;
        if (thread == 0)
            loss[row] =
                WEIGHTED ? weight * (logf(sum) - (target - max)) : logf(sum) - (target - max);
        if constexpr (GRAD) {
            const float of_row = WEIGHTED ? weight * scale[0] : scale[0];
            ce_gradient_<THREADS>(d + row * ld, l, {max, of_row / sum, of_row, label}, V, thread,
                                  held, then);
            ce_pad_<THREADS>(d + row * ld, V, ld, thread);
        }
        label = next;
    }
}

/* hits of a chunk from its logits (chunk, ld), a warp a row. */
template <typename Logit>
__global__ void __launch_bounds__(WARP *CE_ROWS)
    ce_hits_kernel(float *__restrict__ hits, const Logit *__restrict__ logits,
                   const int32_t *__restrict__ labels, int64_t chunk, int V, int64_t ld)
{
    const int64_t row = blockIdx.x * (int64_t)CE_ROWS + threadIdx.y;
    if (row >= chunk)
        return;
    const Logit *l = logits + row * ld;
    const int label = labels[row];
    float max = -3.4e38f;
    for (int v = threadIdx.x; label >= 0 && v < V; v += WARP)
        max = fmaxf(max, ce_logit_(l + v));
    max = warp_max(max);
    if (threadIdx.x == 0)
        hits[row] = label >= 0 && ce_logit_(l + label) >= max;
}

static __device__ __forceinline__ void ce_set_(float *l, float v) { *l = v; }
#if defined ACT_BF16 || defined ACT_F16
static __device__ __forceinline__ void ce_set_(act_t *l, float v) { act_store(l, v); }
#endif

/* logits (chunk, ld) += bias (V); grid (rows, blocks of columns). */
template <typename Logit>
__global__ void ce_bias_kernel(Logit *__restrict__ logits, const wt_t *__restrict__ bias, int V,
                               int64_t ld)
{
    const int v = (int)(blockIdx.y * blockDim.x + threadIdx.x);
    Logit *l = logits + blockIdx.x * ld + v;
    if (v < V)
        ce_set_(l, ce_logit_(l) + act_load(bias + v));
}

/* db (V) = or += the column sums of d (chunk, ld): each of CE_BIAS_ROWS threads adds every so many
 * rows, then these in order. */
__global__ void __launch_bounds__(WARP *CE_BIAS_ROWS)
    ce_bias_grad_kernel(float *__restrict__ db, const act_t *__restrict__ d, int64_t chunk, int V,
                        int64_t ld, int beta)
{
    __shared__ float parts[CE_BIAS_ROWS][WARP];
    const int v = (int)(blockIdx.x * WARP + threadIdx.x);
    float sum = 0;
    if (v < V) {
#pragma unroll 4
        for (int64_t i = threadIdx.y; i < chunk; i += CE_BIAS_ROWS)
            sum += act_load(d + i * ld + v);
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || v >= V)
        return;
    for (int y = 1; y < CE_BIAS_ROWS; y++)
        sum += parts[y][threadIdx.x];
    db[v] = beta ? db[v] + sum : sum;
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
template <int THREADS, bool WEIGHTED = false, typename Logit>
static inline void ce_rows(float *loss, act_t *d, const Logit *logits, const int32_t *labels,
                           const float *scale, const float *weights, int64_t chunk, int64_t V,
                           cudaStream_t s)
{
    const bool wide = V > CUDA_CE_SHORT;
    auto kernel = d ? wide ? ce_rows_kernel<THREADS, true, WEIGHTED, Logit>
                           : ce_rows_kernel<WARP, true, WEIGHTED, Logit>
                    : wide ? ce_rows_kernel<THREADS, false, WEIGHTED, Logit>
                           : ce_rows_kernel<WARP, false, WEIGHTED, Logit>;
    int64_t blocks = wide ? chunk : blocks_over(chunk, CE_ROWS);
    int held = 0;
    if (wide && d) {             // a block for each multiprocessor
        const int64_t processors = device_limit(cudaDevAttrMultiProcessorCount);
        held = ce_held(V, CE_VECTOR<Logit>, THREADS,
                       device_limit(cudaDevAttrMaxSharedMemoryPerBlockOptin));
        blocks = chunk < processors ? chunk : processors;
    }
    launch(kernel, (unsigned)blocks, wide ? dim3(THREADS) : dim3(WARP, CE_ROWS),
           16 * (int64_t)held * THREADS, s, loss, d, logits, labels, scale, weights, chunk, (int)V,
           ce_width(V), held);
}

/* Operands that not every head has; nullptr: none. */
struct CeHead {
    const wt_t *bias = nullptr;      /* (V), of the logits */
    const float *weights = nullptr;  /* (rows), of the losses */
    float *hits = nullptr;           /* forward, out: (rows), 1: none above the target's; else 0 */
    float *dw = nullptr, *db = nullptr;      /* backward, out: (V, C), (V); nullptr: frozen */
};

/* A chunk's logits, then losses and, unless d is NULL, the gradient of its logits. */
template <int THREADS, bool WEIGHTED, typename Logit>
static inline void ce_chunk_(float *loss, act_t *d, Logit *logits, const act_t *x, const wt_t *w,
                             const int32_t *labels, const float *scale, const CeHead *h,
                             int64_t first, int64_t V, int64_t C, int64_t chunk,
                             const Gemm *mm_logits, void *ws, cudaStream_t s)
{
    enum { THREADS_OF_BIAS = 256 };
    gemm_run(mm_logits, logits, x + first * C, w, NULL, NULL, ws, s);
    if (h->bias)
        launch(ce_bias_kernel<Logit>, dim3((unsigned)chunk, blocks_over(V, THREADS_OF_BIAS)),
               dim3(THREADS_OF_BIAS), 0, s, logits, h->bias, (int)V, ce_width(V));
    ce_rows<THREADS, WEIGHTED>(loss + first, d, logits, labels + first, scale,
                               WEIGHTED ? h->weights + first : NULL, chunk, V, s);
}

template <int THREADS, bool WEIGHTED, typename Logit>
static inline void ce_fwd_(float *loss, const act_t *x, const wt_t *w, const int32_t *labels,
                           const CeHead *h, int64_t rows, int64_t V, int64_t C, int64_t chunk,
                           const Gemm *mm_logits, void *ws, cudaStream_t s)
{
    Logit *logits = (Logit *)((char *)ws + CUDA_GEMM_WORKSPACE);
    for (int64_t i = 0; i < rows; i += chunk) {
        ce_chunk_<THREADS, WEIGHTED>(loss, NULL, logits, x, w, labels, NULL, h, i, V, C, chunk,
                                     mm_logits, ws, s);
        if (h->hits)
            launch(ce_hits_kernel<Logit>, blocks_over(chunk, CE_ROWS), dim3(WARP, CE_ROWS), 0, s,
                   h->hits + i, (const Logit *)logits, labels + i, chunk, (int)V, ce_width(V));
    }
}

/* The first chunk adds to dw and db when beta. */
template <int THREADS, bool WEIGHTED, typename Logit>
static inline void ce_bwd_(float *loss, act_t *dx, const act_t *x, const wt_t *w,
                           const int32_t *labels, const float *scale, const CeHead *h, int64_t rows,
                           int64_t V, int64_t C, int64_t chunk, int beta, const Gemm *mm_logits,
                           const Gemm *mm_dx, const Gemm *mm_dw, void *ws, cudaStream_t s)
{
    Logit *logits = (Logit *)((char *)ws + CUDA_GEMM_WORKSPACE);
    const bool in_place = sizeof(act_t) == sizeof(Logit);
    act_t *d = (act_t *)(in_place ? logits : logits + chunk * ce_width(V));
    for (int64_t i = 0; i < rows; i += chunk) {
        ce_chunk_<THREADS, WEIGHTED>(loss, d, logits, x, w, labels, scale, h, i, V, C, chunk,
                                     mm_logits, ws, s);
        gemm_run(mm_dx, dx + i * C, d, w, NULL, NULL, ws, s);
        if (h->dw)
            gemm_run_beta(mm_dw, i || beta ? 1.0f : 0.0f, h->dw, d, x + i * C, NULL, NULL, ws, s);
        if (h->db)
            launch(ce_bias_grad_kernel, blocks_over(V, WARP), dim3(WARP, CE_BIAS_ROWS), 0, s, h->db,
                   (const act_t *)d, chunk, (int)V, ce_width(V), i || beta);
    }
}

/* THREADS: see ce_rows. Logit: float or act_t.
 * mm_logits: { .m = chunk, .n = ce_width(V), .k = C, .form = GEMM_NT, .out_f32 = Logit is float };
 * ws: ce_cuda_workspace(chunk, V, sizeof(act_t), sizeof(Logit)) bytes. */
template <int THREADS, typename Logit = float>
static inline void ce_fwd(float *loss, const act_t *x, const wt_t *w, const int32_t *labels,
                          const CeHead &head, int64_t rows, int64_t V, int64_t C, int64_t chunk,
                          const Gemm *mm_logits, void *ws, cudaStream_t s)
{
    auto run = head.weights ? ce_fwd_<THREADS, true, Logit> : ce_fwd_<THREADS, false, Logit>;
    run(loss, x, w, labels, &head, rows, V, C, chunk, mm_logits, ws, s);
}

/* mm_dx: { .m = chunk, .n = C, .k = ce_width(V), .form = GEMM_NN }
 * mm_dw: { .m = ce_width(V), .n = C, .k = chunk, .form = GEMM_TN, .out_f32 = 1, .beta = 1 }, for
 * chunks add up; nullptr with a frozen head. beta: the call adds to dw and db. */
template <int THREADS, typename Logit = float>
static inline void ce_bwd(float *loss, act_t *dx, const act_t *x, const wt_t *w,
                          const int32_t *labels, const float *scale, const CeHead &head,
                          int64_t rows, int64_t V, int64_t C, int64_t chunk, int beta,
                          const Gemm *mm_logits, const Gemm *mm_dx, const Gemm *mm_dw, void *ws,
                          cudaStream_t s)
{
    auto run = head.weights ? ce_bwd_<THREADS, true, Logit> : ce_bwd_<THREADS, false, Logit>;
    run(loss, dx, x, w, labels, scale, &head, rows, V, C, chunk, beta, mm_logits, mm_dx, mm_dw, ws,
        s);
}

/* acc[0] += the losses, in an order that their number decides. */
static inline void loss_sum(double *acc, const float *loss, int64_t rows, cudaStream_t s)
{
    launch(loss_sum_kernel, 1, CE_SUM, 0, s, acc, loss, rows);
}
#else
#define CE_VARIANT_OF(threads, weighted, gradient, Logit)                                 \
    template __global__ void                                                              \
    ce_rows_kernel<(V > CUDA_CE_SHORT ? threads : WARP), gradient, weighted, Logit>(      \
        float *, act_t *, const Logit *, const int32_t *, const float *, const float *, int64_t,\
        int, int64_t, int);
#define CE_VARIANTS(threads, Logit)                                                       \
    CE_VARIANT_OF(threads, false, true, Logit) CE_VARIANT_OF(threads, false, false, Logit) \
    CE_VARIANT_OF(threads, true, true, Logit) CE_VARIANT_OF(threads, true, false, Logit)
#if defined ACT_BF16 || defined ACT_F16
#define CE_VARIANT(threads) CE_VARIANTS(threads, float) CE_VARIANTS(threads, act_t)
#else
#define CE_VARIANT(threads) CE_VARIANTS(threads, float)
#endif
VARIANTS_ce_threads(CE_VARIANT)
static constexpr int64_t CE_SHARED_KIB = __CUDA_ARCH__ < 860   ? 163
                                         : __CUDA_ARCH__ < 900  ? 99
                                         : __CUDA_ARCH__ < 1200 ? 227
                                                                : 99;
SHARED_BYTES(ce_rows_kernel,
             V > CUDA_CE_SHORT ? 16 * 1024 * ce_held(V, 4, 1024, CE_SHARED_KIB << 10) : 0);
#endif

#endif
