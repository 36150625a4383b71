/* attention.cuh -- attention of a sequence, its gradient, and one decoded token over a cache.
 *
 * In:    qkv (B, T, H + 2 K, D) act_t: q, k, v; query head h uses key head h / (H / K); scale > 0.
 * Out:   o (B, T, H, D) = softmax(scale q k^T, masked) v; lse (B, H, T) fp32 = log sum exp.
 * Keeps: D even, at most 256, with dropout 128. Scores live in registers only; sums in a fixed
 *        order, no atomics.
 * Method: attention_mma.cuh, attention_mma_bwd.cuh (16-bit types, D a multiple of 16, at most 128),
 *         attention_f32.cuh. */
#ifndef DIECAST_KERNELS_ATTENTION_CUH
#define DIECAST_KERNELS_ATTENTION_CUH

#include "attention_f32.cuh"
#include "types.cuh"
#include "workspace.h"

#if defined ACT_BF16 || defined ACT_F16
#include "attention_mma_bwd.cuh"
#endif

/* MASK: which keys a query attends to; positions and doc_ends of a kernel: arrays of the mask, see
 * AttentionDocs. Blocks skip keys that none of their rows attends to. */

enum { ATTENTION_DECODE_THREADS = 256 };

/* The form that a head size takes, and what its launches need: rows of a block (OWNED on tensor
 * cores), threads, blocks for which the registers of a multiprocessor must do, dynamic shared
 * memory. */
template <int D, int OWNED = ATTENTION_ROWS,
          bool MMA = sizeof(act_t) == 2 && D % 16 == 0 && D <= 128>
struct AttentionForm {
    typedef AttentionLanes<D, ATTENTION_FWD_ROWS> F;
    typedef AttentionLanes<D> L;
    static constexpr int ROWS = L::ROWS, BLOCKS = L::LANES == 1 ? 4 : 3;
    static constexpr int FWD_THREADS = F::THREADS, FWD_BLOCKS = BLOCKS * F::HOLDS, FWD_SHARED = 0;
    static constexpr int DQ_THREADS = L::THREADS, DQ_BLOCKS = BLOCKS, DQ_SHARED = 0;
    static constexpr int DKV_THREADS = L::THREADS, DKV_BLOCKS = BLOCKS, DKV_SHARED = 0;
    template <AttentionMask MASK, typename... A>
    static __device__ __forceinline__ void fwd(A... a)
    {
        attention_fwd_f32<D, MASK>(a...);
    }
    template <AttentionMask MASK, typename... A>
    static __device__ __forceinline__ void dq(A... a)
    {
        attention_dq_f32<D, MASK>(a...);
    }
    template <AttentionMask MASK, typename... A>
    static __device__ __forceinline__ void dkv(act_t *dqkv, float *, A... a)
    {
        attention_dkv_f32<D, MASK>(dqkv, a...);
    }
};

#if defined ACT_BF16 || defined ACT_F16
template <int D, int OWNED> struct AttentionForm<D, OWNED, true> {
    typedef AttentionMma<D, OWNED> M;
    static constexpr int ROWS = M::OWNED;
    static constexpr int FWD_THREADS = M::FWD_WARPS * WARP, FWD_BLOCKS = M::FWD_BLOCKS;
    static constexpr int DQ_THREADS = M::DQ_WARPS * WARP, DQ_BLOCKS = M::DQ_BLOCKS;
    static constexpr int DKV_THREADS = M::DKV_WARPS * WARP, DKV_BLOCKS = M::DKV_BLOCKS;
    static constexpr int FWD_SHARED = M::FWD_SHARED, DQ_SHARED = M::DQ_SHARED;
    static constexpr int DKV_SHARED = M::DKV_SHARED;
    template <AttentionMask MASK, typename... A>
    static __device__ __forceinline__ void fwd(A... a)
    {
        attention_fwd_mma<D, OWNED, MASK>(a...);
    }
    template <AttentionMask MASK, typename... A>
    static __device__ __forceinline__ void dq(A... a)
    {
        attention_dq_mma<D, OWNED, MASK>(a...);
    }
    template <AttentionMask MASK, typename... A>
    static __device__ __forceinline__ void dkv(A... a)
    {
        attention_dkv_mma<D, MASK>(a...);
    }
};
#endif

/* grid (H, B, blocks of ROWS queries). With a causal mask blocks differ in their work. The slowest
 * dimension of the grid is theirs, and those with the most work come first, so that the last ones
 * to run are the shortest of all heads and sequences. */
template <int D, AttentionMask MASK, int OWNED, bool DROPS = false>
__global__ void __launch_bounds__(AttentionForm<D, OWNED>::FWD_THREADS,
                                  AttentionForm<D, OWNED>::FWD_BLOCKS)
    attention_fwd_kernel(act_t *__restrict__ o, float *__restrict__ lse,
                         const act_t *__restrict__ qkv, int T, int H, int K, float scale,
                         const int32_t *__restrict__ positions,
                         const int32_t *__restrict__ doc_ends,
                         AttentionDrop<DROPS> drop)
{
    AttentionForm<D, OWNED>::template fwd<MASK>(o, lse, qkv, T, H, K, scale, positions, doc_ends,
                                                      drop);
}

/* dq, and delta (B, H, T) fp32 = row sums of d_o * o; grid (H, B, blocks of ROWS queries) */
template <int D, AttentionMask MASK, int OWNED, bool DROPS = false>
__global__ void __launch_bounds__(AttentionForm<D, OWNED>::DQ_THREADS,
                                  AttentionForm<D, OWNED>::DQ_BLOCKS)
    attention_dq_kernel(act_t *__restrict__ dqkv, float *__restrict__ delta,
                        const act_t *__restrict__ d_o, const act_t *__restrict__ o,
                        const float *__restrict__ lse, const act_t *__restrict__ qkv, int T, int H,
                        int K, float scale, const int32_t *__restrict__ positions,
                        const int32_t *__restrict__ doc_ends, AttentionDrop<DROPS> drop)
{
    AttentionForm<D, OWNED>::template dq<MASK>(dqkv, delta, d_o, o, lse, qkv, T, H, K,
                                                     scale, positions, doc_ends, drop);
}

/* dk and dv, summed over the query heads of a key head in order; grid (K parts, B, blocks of keys).
 * Several parts, on tensor cores alone, go to sums, see attention_dkv_store_. */
template <int D, AttentionMask MASK, bool DROPS = false>
__global__ void __launch_bounds__(AttentionForm<D>::DKV_THREADS, AttentionForm<D>::DKV_BLOCKS)
    attention_dkv_kernel(act_t *__restrict__ dqkv, float *__restrict__ sums,
                         const float *__restrict__ delta, const act_t *__restrict__ d_o,
                         const float *__restrict__ lse, const act_t *__restrict__ qkv, int T, int H,
                         int K, float scale, const int32_t *__restrict__ positions,
                         const int32_t *__restrict__ doc_ends, AttentionDrop<DROPS> drop)
{
    AttentionForm<D>::template dkv<MASK>(dqkv, sums, delta, d_o, lse, qkv, T, H, K, scale,
                                               positions, doc_ends, drop);
}

/* One token of head blockIdx.x of text blockIdx.y. The first head of a group writes the caches' row
 * place[blockIdx.y], which all heads read from qkv. The threads that share an element each sum
 * every so many keys. */
template <int D>
__global__ void __launch_bounds__(ATTENTION_DECODE_THREADS, 4)
    attention_decode_kernel(act_t *__restrict__ o, act_t *__restrict__ keys,
                            act_t *__restrict__ values, const act_t *__restrict__ qkv,
                            const int32_t *__restrict__ place, int T, int H, int K, float scale,
                            float *__restrict__ scores)
{
    constexpr int THREADS = ATTENTION_DECODE_THREADS, SHARES = THREADS / D;
    constexpr int WIDTH = D % ACT_VECTOR ? D % 4 ? 2 : 4 : ACT_VECTOR;
    __shared__ float q[D], sums[SHARES * D];
    const int h = (int)blockIdx.x, group = H / K, kv = h / group, thread = (int)threadIdx.x;
    const int64_t row = blockIdx.y;
    const int t = place[row];
    qkv += row * (H + 2 * K) * D;
    const act_t *new_k = qkv + (H + kv) * D, *new_v = new_k + K * D;
    act_t *k = keys + (row * K + kv) * T * D, *v = values + (row * K + kv) * T * D;
    float *s = scores + (row * H + h) * T, top = ATTENTION_NONE, sum = 0.0f, y = 0.0f;
    for (int d = thread; d < D; d += THREADS) {
        q[d] = act_load(qkv + h * D + d) * (scale * ATTENTION_LOG2E);
        if (h % group == 0) {
            k[(int64_t)t * D + d] = new_k[d];
            v[(int64_t)t * D + d] = new_v[d];
        }
    }
    __syncthreads();
    for (int j = thread; j <= t; j += THREADS) {
        const act_t *key = j < t ? k + (int64_t)j * D : new_k;
        float score = 0.0f, x[WIDTH];
#pragma unroll 2
        for (int d = 0; d < D; d += WIDTH) {
            attention_load_<WIDTH>(x, key + d);
#pragma unroll
            for (int e = 0; e < WIDTH; e++)
                score += q[d + e] * x[e];
        }
        s[j] = score;
        top = fmaxf(top, score);
    }
    top = block_max(top);
    for (int j = thread; j <= t; j += THREADS) {
        s[j] = exp2f(s[j] - top);
        sum += s[j];
    }
    sum = block_sum(sum);          // its barriers publish s
    const int d = thread % D, share = thread / D;
    if (share < SHARES) {
        for (int j = share; j <= t; j += SHARES)
            y += s[j] * act_load(j < t ? v + (int64_t)j * D + d : new_v + d);
        sums[share * D + d] = y;
    }
    __syncthreads();
    if (thread < D) {
        y = 0.0f;
        for (int i = 0; i < SHARES; i++)
            y += sums[i * D + d];
        act_store(o + (row * H + h) * D + d, y / sum);
    }
}

/* ---- launchers ---- */

#ifndef __CUDACC_RTC__

static inline AttentionDrop<true> attention_drop_(const AttentionRule &rule, uint32_t *kept)
{
    return {rule.noise, dropout_site(rule.site), dropout_threshold(rule.p), 1.0f / (1.0f - rule.p),
            kept};
}

/* The array of the mask that its kernels take as places. */
static inline const int32_t *attention_array_(const AttentionRule &rule)
{
    return rule.kv_limits ? rule.kv_limits : rule.prompt_gaps ? rule.prompt_gaps : rule.positions;
}

template <int D, AttentionMask MASK, int OWNED, bool DROPS>
static inline void attention_run_fwd_(act_t *o, float *lse, const act_t *qkv,
                                      const AttentionRule &rule, AttentionDrop<DROPS> drop,
                                      int64_t B, int64_t T, int64_t H, int64_t K, float scale,
                                      cudaStream_t s)
{
    typedef AttentionForm<D, OWNED> F;
    launch(attention_fwd_kernel<D, MASK, OWNED, DROPS>,
           dim3((unsigned)H, (unsigned)B, blocks_over(T, F::ROWS)), dim3(F::FWD_THREADS),
           F::FWD_SHARED, s, o, lse, qkv, (int)T, (int)H, (int)K, scale, attention_array_(rule),
           rule.doc_ends, drop);
}

template <int D, AttentionMask MASK, int OWNED, bool DROPS>
static inline void attention_run_bwd_(act_t *dqkv, const act_t *d_o, const act_t *o,
                                      const float *lse, const act_t *qkv, const AttentionRule &rule,
                                      AttentionDrop<DROPS> drop, int64_t B, int64_t T, int64_t H,
                                      int64_t K, float scale, void *ws, cudaStream_t s)
{
    typedef AttentionForm<D, OWNED> F;
    typedef AttentionForm<D> G;
    const int64_t parts = attention_dkv_parts(B, T, H, K, D, sizeof(act_t));
    float *delta = (float *)ws;
    float *sums = (float *)((char *)ws + cuda_workspace_round(4 * B * H * T));
    launch(attention_dq_kernel<D, MASK, OWNED, DROPS>,
           dim3((unsigned)H, (unsigned)B, blocks_over(T, F::ROWS)), dim3(F::DQ_THREADS),
           F::DQ_SHARED, s, dqkv, delta, d_o, o, lse, qkv, (int)T, (int)H, (int)K, scale,
           attention_array_(rule), rule.doc_ends, drop);
    launch(attention_dkv_kernel<D, MASK, DROPS>,
           dim3((unsigned)(K * parts), (unsigned)B, blocks_over(T, G::ROWS)), dim3(G::DKV_THREADS),
           G::DKV_SHARED, s, dqkv, sums, delta, d_o, lse, qkv, (int)T, (int)H, (int)K, scale,
           attention_array_(rule), rule.doc_ends, drop);
#if defined ACT_BF16 || defined ACT_F16
    const int64_t row = 2 * K * D, vectors = B * T * row / ACT_VECTOR;
    if (parts > 1)
        launch(attention_dkv_sum_kernel, blocks_over(vectors, ATTENTION_SUM_THREADS),
               ATTENTION_SUM_THREADS, 0, s, dqkv, (const float *)sums, vectors, (int)parts,
               (int)(row / ACT_VECTOR), (int)(H * D));
#endif
}

/* OWNED: queries of a block, on tensor cores. ws is not used. */
template <int D, AttentionMask MASK = ATTENTION_CAUSAL, int OWNED = ATTENTION_ROWS>
static inline void attention_fwd(act_t *o, float *lse, const act_t *qkv, const AttentionRule &rule,
                                 int64_t B, int64_t T, int64_t H, int64_t K, float scale, void *ws,
                                 cudaStream_t s)
{
    (void)ws;
    attention_run_fwd_<D, MASK, OWNED>(o, lse, qkv, rule, AttentionDrop<false>{}, B, T, H, K, scale,
                                       s);
}

/* dqkv is overwritten; ws: attention_bwd_cuda_workspace(B, T, H, K, D, sizeof(act_t)) bytes. */
template <int D, AttentionMask MASK = ATTENTION_CAUSAL, int OWNED = ATTENTION_ROWS>
static inline void attention_bwd(act_t *dqkv, const act_t *d_o, const act_t *o, const float *lse,
                                 const act_t *qkv, const AttentionRule &rule, int64_t B, int64_t T,
                                 int64_t H, int64_t K, float scale, void *ws, cudaStream_t s)
{
    attention_run_bwd_<D, MASK, OWNED>(dqkv, d_o, o, lse, qkv, rule, AttentionDrop<false>{}, B, T,
                                       H, K, scale, ws, s);
}

/* The same with dropout of the probabilities; lse: of all scores; ws, backward:
 * attention_drop_bwd_cuda_workspace(B, T, H, K, D, sizeof(act_t)) bytes. */
template <int D, AttentionMask MASK = ATTENTION_CAUSAL>
static inline void attention_drop_fwd(act_t *o, float *lse, const act_t *qkv,
                                      const AttentionRule &rule, int64_t B, int64_t T, int64_t H,
                                      int64_t K, float scale, void *ws, cudaStream_t s)
{
    (void)ws;
    attention_run_fwd_<D, MASK, ATTENTION_ROWS>(o, lse, qkv, rule, attention_drop_(rule, NULL), B,
                                                T, H, K, scale, s);
}

template <int D, AttentionMask MASK = ATTENTION_CAUSAL>
static inline void attention_drop_bwd(act_t *dqkv, const act_t *d_o, const act_t *o,
                                      const float *lse, const act_t *qkv, const AttentionRule &rule,
                                      int64_t B, int64_t T, int64_t H, int64_t K, float scale,
                                      void *ws, cudaStream_t s)
{
    const int64_t plain = attention_bwd_cuda_workspace(B, T, H, K, D, sizeof(act_t));
    uint32_t *kept = (uint32_t *)((char *)ws + cuda_workspace_round(plain));
    attention_run_bwd_<D, MASK, ATTENTION_ROWS>(dqkv, d_o, o, lse, qkv, rule,
                                                attention_drop_(rule, kept), B, T, H, K, scale, ws,
                                                s);
}

/* A token of each of `rows` texts: qkv (rows, H + 2 K, D) at positions place (rows) < T; their k
 * and v go into the caches (rows, K, T, D); o (rows, H, D). What a row gets does not depend on the
 * others. ws: attention_decode_cuda_workspace(rows, T, H) bytes. */
template <int D>
static inline void attention_decode(act_t *o, act_t *keys, act_t *values, const act_t *qkv,
                                    const int32_t *place, int64_t rows, int64_t T, int64_t H,
                                    int64_t K, float scale, void *ws, cudaStream_t s)
{
    launch(attention_decode_kernel<D>, dim3((unsigned)H, (unsigned)rows),
           dim3(ATTENTION_DECODE_THREADS), 0, s, o, keys, values, qkv, place, (int)T, (int)H,
           (int)K, scale, (float *)ws);
}

#else
/* NVRTC: the forms that the program uses, a word of the op's mask each. */
#define ATTENTION_QUERIES(mask, owned, drop)                                                     \
    template __global__ void attention_fwd_kernel<D, mask, owned, drop>(                         \
        act_t *, float *, const act_t *, int, int, int, float, const int32_t *, const int32_t *, \
        AttentionDrop<drop>);                                                                    \
    template __global__ void attention_dq_kernel<D, mask, owned, drop>(                          \
        act_t *, float *, const act_t *, const act_t *, const float *, const act_t *, int, int,  \
        int, float, const int32_t *, const int32_t *, AttentionDrop<drop>);
#define ATTENTION_KEYS(mask, drop)                                                               \
    template __global__ void attention_dkv_kernel<D, mask, drop>(                                \
        act_t *, float *, const float *, const act_t *, const float *, const act_t *, int, int,  \
        int, float, const int32_t *, const int32_t *, AttentionDrop<drop>);
#define ATTENTION_BOTH(mask, drop)                                                               \
    ATTENTION_QUERIES(mask, ATTENTION_ROWS, drop) ATTENTION_KEYS(mask, drop)
#ifdef KERNEL_attention_fwd_causal
#define ATTENTION_CAUSAL_ROWS(owned) ATTENTION_QUERIES(ATTENTION_CAUSAL, owned, false)
VARIANTS_attention_rows(ATTENTION_CAUSAL_ROWS)
ATTENTION_KEYS(ATTENTION_CAUSAL, false)
#endif
#ifdef KERNEL_attention_fwd_full
#define ATTENTION_FULL_ROWS(owned) ATTENTION_QUERIES(ATTENTION_FULL, owned, false)
VARIANTS_attention_rows(ATTENTION_FULL_ROWS)
ATTENTION_KEYS(ATTENTION_FULL, false)
#endif
#ifdef KERNEL_attention_fwd_docs
ATTENTION_BOTH(ATTENTION_DOCS, false)
#endif
#ifdef KERNEL_attention_fwd_docs_full
ATTENTION_BOTH(ATTENTION_DOCS_FULL, false)
#endif
#ifdef KERNEL_attention_fwd_shared
ATTENTION_BOTH(ATTENTION_SHARED, false)
#endif
#ifdef KERNEL_attention_fwd_length
ATTENTION_BOTH(ATTENTION_LENGTH, false)
#endif
#ifdef KERNEL_attention_fwd_limit
ATTENTION_BOTH(ATTENTION_LIMIT, false)
#endif
#ifdef KERNEL_attention_drop_fwd_causal
ATTENTION_BOTH(ATTENTION_CAUSAL, true)
#endif
#ifdef KERNEL_attention_drop_fwd_full
ATTENTION_BOTH(ATTENTION_FULL, true)
#endif
#ifdef KERNEL_attention_drop_fwd_docs
ATTENTION_BOTH(ATTENTION_DOCS, true)
#endif
#ifdef KERNEL_attention_drop_fwd_docs_full
ATTENTION_BOTH(ATTENTION_DOCS_FULL, true)
#endif
#ifdef KERNEL_attention_drop_fwd_length
ATTENTION_BOTH(ATTENTION_LENGTH, true)
#endif
#ifdef KERNEL_attention_drop_fwd_limit
ATTENTION_BOTH(ATTENTION_LIMIT, true)
#endif
template __global__ void attention_decode_kernel<D>(act_t *, act_t *, act_t *, const act_t *,
                                                    const int32_t *, int, int, int, float, float *);
/* no variant takes more */
SHARED_BYTES(attention_fwd_kernel, AttentionForm<D>::FWD_SHARED);
SHARED_BYTES(attention_dq_kernel, AttentionForm<D>::DQ_SHARED);
SHARED_BYTES(attention_dkv_kernel, AttentionForm<D>::DKV_SHARED);
#endif
#endif
