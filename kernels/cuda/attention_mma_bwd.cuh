/* attention_mma_bwd.cuh -- the gradient of attention_mma.cuh: a kernel that owns queries (dq) and
 * one that owns keys (dk, dv).
 *
 * In, Out: as attention.cuh; all pointers are multiples of 16. */
#ifndef DIECAST_KERNELS_ATTENTION_MMA_BWD_CUH
#define DIECAST_KERNELS_ATTENTION_MMA_BWD_CUH

#include "attention_mma.cuh"

/* sum[BANDS][2]: of d_o * o over each row, d_o as fragments a; o at the warp's first row. */
template <int D, int BANDS>
static __device__ __forceinline__ void
attention_delta_(float sum[BANDS][2], const unsigned held[BANDS][D / 16][4], const act_t *o,
                 int64_t orow, int n)
{
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int i = attention_c_row_(m, 2 * r);
            float all = 0.0f;
#pragma unroll
            for (int k = 0; k < D / 8; k++) {
                float x[2] = {}, y[2];
                if (i < n)
                    act_unpack(x, *(const uint32_t *)(o + i * orow + attention_c_column_(k, 0)));
                act_unpack(y, held[m][k / 2][k % 2 * 2 + r]);
                all += x[0] * y[0] + x[1] * y[1];
            }
            all += __shfl_xor_sync(0xffffffffu, all, 1);
            all += __shfl_xor_sync(0xffffffffu, all, 2);
            sum[m][r] = all;
        }
}

template <int D, int ROWS, AttentionMask MASK, typename DROP>
static __device__ __forceinline__ void
attention_dq_mma(act_t *__restrict__ dqkv, float *__restrict__ delta, const act_t *__restrict__ d_o,
                 const act_t *__restrict__ o, const float *__restrict__ lse,
                 const act_t *__restrict__ qkv, int T, int H, int K, float scale,
                 const int32_t *__restrict__ positions, const int32_t *__restrict__ doc_ends,
                 DROP drop)
{
    constexpr bool DOCS = AttentionDocs<MASK>::DOCS;
    typedef AttentionMma<D, ROWS> M;
    constexpr int WARPS = M::DQ_WARPS, THREADS = WARPS * WARP, MET = M::DQ_MET, SUB = M::DQ_SUB;
    constexpr int BANDS = M::OWNED / WARPS / 16, STAGE = 2 * MET * M::ROW;
    DYNAMIC_SHARED(act_t, memory);
    const SharedAddress at = shared_address(memory);
    const int h = (int)blockIdx.x, own = (int)threadIdx.x / WARP * BANDS * 16;
    const int i0 = (int)(gridDim.z - 1 - blockIdx.z) * M::OWNED;
    const int first = i0 + own;
    const int own_end = attention_end_<BANDS * 16, AttentionDocs<MASK>::CAUSAL>(first, T);
    const int row = (H + 2 * K) * D, orow = H * D;
    const int64_t b = blockIdx.y;
    const int64_t q_first = (b * T + i0) * row + h * D, o_first = (b * T + i0) * orow + h * D;
    __shared__ AttentionSpan spans[DOCS ? M::OWNED : 1];
    const AttentionDocs<MASK> docs = {positions, doc_ends, b * T, T, (int)b};
    constexpr bool CAUSAL = AttentionDocs<MASK>::CAUSAL;
    constexpr bool LIMITS = AttentionDocs<MASK>::LIMITS;
    constexpr bool SHARED = AttentionDocs<MASK>::SHARED;
    [[maybe_unused]] const AttentionSpan hole = docs.hole();
    __shared__ int limits[LIMITS ? M::OWNED : 1];
    AttentionWalk<MET> walk = {};
    if constexpr (LIMITS)
        walk = attention_walk_<M::OWNED, MET>(limits, docs, i0, T);
    const int begin = LIMITS ? walk.begin() : docs.template tiles<DROP>(i0);
    const int end = LIMITS ? walk.end : docs.keys(i0 + M::OWNED - 1).end;
    const act_t *k = qkv + (b * T + begin) * row + (H + h / (H / K)) * D;   // of the next block
    const float c = scale * ATTENTION_LOG2E;
    unsigned q_held[BANDS][M::STEPS][4], dy_held[BANDS][M::STEPS][4];
    float dq[BANDS][M::TILES][4] = {}, top[BANDS][2], sum[BANDS][2], factor[BANDS][2];
    if (DOCS && (int)threadIdx.x < M::OWNED)
        spans[threadIdx.x] = docs.keys(i0 + (int)threadIdx.x);
    attention_rows_begin_<D, M::OWNED, THREADS>(at, qkv + q_first, row, T - i0);
    attention_rows_begin_<D, M::OWNED, THREADS>(at + M::OWNED * M::ROW, d_o + o_first, orow,
                                                T - i0);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    attention_hold_<D, BANDS>(q_held, at + own * M::ROW);
    attention_hold_<D, BANDS>(dy_held, at + (M::OWNED + own) * M::ROW);
    __syncthreads();
    attention_pair_begin_<D, MET, THREADS>(at, k, K * D, row, T - begin);
    attention_delta_<D, BANDS>(sum, dy_held, o + o_first + own * orow, orow, T - first);
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int i = first + attention_c_row_(m, 2 * r);
            const int64_t place = (b * H + h) * T + i;
            top[m][r] = i < T ? lse[place] * ATTENTION_LOG2E : 0.0f;
            if (threadIdx.x % 4 == 0 && i < T)
                delta[place] = sum[m][r];
        }
    for (int j0 = begin, stage = 0, next; j0 < end; j0 = next, stage ^= 1) {
        const SharedAddress k_at = at + stage * STAGE, v_at = k_at + MET * M::ROW;
        next = LIMITS   ? walk.next(j0)
               : SHARED ? attention_past_<MET>(hole, i0, j0 + MET)
                        : j0 + MET;
        copy_wait<0>();
        __syncthreads();
        if (next < end) {
            k += (LIMITS || SHARED ? next - j0 : MET) * row;
            attention_pair_begin_<D, MET, THREADS>(at + (stage ^ 1) * STAGE, k, K * D, row,
                                                   T - next);
        }
#pragma unroll 1
        for (int u = 0; u < MET; u += SUB) {
            float s[BANDS][SUB / 8][4], ds[BANDS][SUB / 8][4];
            if (!DOCS && !LIMITS && j0 + u >= own_end)
                break;
            if (DOCS && (first >= T || !attention_meets_<BANDS * 16, SUB>(spans, j0 + u)))
                continue;
            if (LIMITS && (first >= T ||
                           !attention_meets_limits_<BANDS * 16, SUB>(limits, first, j0 + u)))
                continue;
            attention_scores_<D, BANDS, SUB, true>(s, q_held, k_at, k_at + u * M::ROW);
            attention_scores_<D, BANDS, SUB, true>(ds, dy_held, v_at, v_at + u * M::ROW);
            if constexpr (DROP::DROPS)
                attention_drop_keys_<BANDS, SUB>(ds, drop, T, (int)b, h, first, j0 + u, drop.scale);
            if constexpr (DOCS)
                attention_mask_spans_<BANDS, SUB>(s, spans, j0 + u);
            else if constexpr (LIMITS)
                attention_mask_limits_<BANDS, SUB>(s, limits, first, j0 + u);
            else
                attention_mask_<BANDS, SUB, CAUSAL>(s, first, j0 + u, T);
            if constexpr (SHARED)
                attention_mask_hole_<BANDS, SUB, false>(s, hole, first, j0 + u);
#pragma unroll
            for (int m = 0; m < BANDS; m++)
#pragma unroll
                for (int n = 0; n < SUB / 8; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        ds[m][n][i] = exp2_approx(s[m][n][i] * c - top[m][i / 2]) *
                                      (ds[m][n][i] - sum[m][i / 2]);
            attention_sums_<D, BANDS, SUB>(dq, ds, k_at + u * M::ROW);
        }
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < BANDS; m++)
        factor[m][0] = factor[m][1] = scale;
    if (first < T)
        attention_store_<D, BANDS>(dqkv + (b * T + first) * row + h * D, row, T - first,
                                   memory + own * M::STRIDE, dq, factor);
}

/* Scores of queries first_query.. (columns) that come before a key (row). */
template <int BANDS, int N>
static __device__ __forceinline__ void attention_mask_queries_(float s[BANDS][N / 8][4],
                                                               int first_key, int first_query)
{
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (first_query + attention_c_column_(n, i) < first_key + attention_c_row_(m, i))
                    s[m][n][i] = ATTENTION_NONE;
}

/* Queries i0.. of one head for attention_dkv_mma: q and d_o begin their way to shared memory. */
template <int D, int THREADS>
static __device__ __forceinline__ void attention_queries_begin_(SharedAddress to, const act_t *q,
                                                                const act_t *d_o, int row, int orow,
                                                                int i0, int T)
{
    constexpr int MET = AttentionMma<D>::DKV_MET;
    const int thread = thread_anew();
    attention_rows_begin_<D, MET, THREADS>(to, q + (int64_t)i0 * row, row, T - i0, thread);
    attention_rows_begin_<D, MET, THREADS>(to + MET * AttentionMma<D>::ROW,
                                           d_o + (int64_t)i0 * orow, orow, T - i0, thread);
    copy_commit();
}

static __device__ __forceinline__ float attention_number_(const float *lse, const float *delta,
                                                          int64_t place, bool of_lse)
{
    return of_lse ? lse[place] * ATTENTION_LOG2E : delta[place];
}

/* The query heads of a block of keys: all that use a key head, or one part of them. */
struct AttentionHeads {
    int H, K;

    __device__ __forceinline__ int parts() const { return (int)gridDim.x / K; }
    __device__ __forceinline__ int part() const { return (int)blockIdx.x % parts(); }
    __device__ __forceinline__ int kv() const { return (int)blockIdx.x / parts(); }
    __device__ __forceinline__ int n() const { return H / K / parts(); }
    __device__ __forceinline__ int begin() const { return kv() * (H / K) + part() * n(); }
};

/* The rows of a warp of dk, or (values) of dv, keys `first` on, times the factor of each: to `to`,
 * or, of one of several parts, to `parts` (parts, B, T, 2 K, D). */
template <int D, int BANDS>
static __device__ __forceinline__ void
attention_dkv_store_(act_t *to, float *parts, bool values, int first, int T, int H, int K,
                     act_t *own, const float y[BANDS][D / 8][4], const float factor[BANDS][2])
{
    const AttentionHeads heads = {H, K};
    if (heads.parts() == 1) {
        attention_store_<D, BANDS>(to, (H + 2 * K) * D, T - first, own, y, factor);
        return;
    }
    const int row = 2 * K * D;
    parts += (((int64_t)heads.part() * gridDim.y + blockIdx.y) * T + first) * row +
             (heads.kv() + (values ? K : 0)) * D;
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const int r = attention_c_row_(m, i);
            if (first + r < T) {
#pragma unroll
                for (int d = 0; d < D / 8; d++)
                    *(float2 *)(parts + (int64_t)r * row + attention_c_column_(d, i)) =
                        make_float2(y[m][d][i] * factor[m][i / 2],
                                    y[m][d][i + 1] * factor[m][i / 2]);
            }
        }
}

enum { ATTENTION_SUM_THREADS = 256 };

/* dk and dv = the sums of their parts in order. n: vectors of a part, `row` of them a token, whose
 * keys begin at element `skip` of its row of dqkv. */
__global__ void __launch_bounds__(ATTENTION_SUM_THREADS)
    attention_dkv_sum_kernel(act_t *__restrict__ dqkv, const float *__restrict__ parts, int64_t n,
                             int count, int row, int skip)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float sum[ACT_VECTOR], x[ACT_VECTOR];
    if (i >= n)
        return;
    parts += i * ACT_VECTOR;
    for (int part = 0; part < count; part++, parts += n * ACT_VECTOR) {
        f32_load4(x, parts);
        f32_load4(x + 4, parts + 4);
#pragma unroll
        for (int e = 0; e < ACT_VECTOR; e++)
            sum[e] = part == 0 ? x[e] : sum[e] + x[e];
    }
    const int64_t token = i / row, at = i % row;
    act_store_vector(dqkv + token * (skip + row * ACT_VECTOR) + skip + at * ACT_VECTOR, sum);
}

/* The scores are those of keys by queries here: a column is a query, whose lse and delta come from
 * shared memory (numbers: lse log2 e, then delta, of MET queries a stage). */
template <int D, AttentionMask MASK, typename DROP>
static __device__ __forceinline__ void
attention_dkv_narrow_(act_t *__restrict__ dqkv, float *__restrict__ parts,
                  const float *__restrict__ delta, const act_t *__restrict__ d_o,
                  const float *__restrict__ lse, const act_t *__restrict__ qkv, int T, int H,
                  int K, float scale, const int32_t *__restrict__ positions,
                  const int32_t *__restrict__ doc_ends, DROP drop)
{
    constexpr bool DOCS = AttentionDocs<MASK>::DOCS;
    typedef AttentionMma<D> M;
    constexpr int WARPS = M::DKV_WARPS, THREADS = WARPS * WARP, MET = M::DKV_MET;
    constexpr int BANDS = M::OWNED / WARPS / 16, STAGE = 2 * MET * M::ROW;
    DYNAMIC_SHARED(act_t, memory);
    float *numbers = (float *)((char *)memory + M::DKV_BEFORE);
    const SharedAddress v_at = shared_address(memory), k_at = v_at + M::OWNED * M::ROW,
                        stages = k_at + M::OWNED * M::ROW;
    const AttentionHeads heads = {H, K};
    const int kv = heads.kv(), thread = (int)threadIdx.x;
    const int j0 = (int)blockIdx.z * M::OWNED, own = thread / WARP * BANDS * 16;
    const int first = j0 + own, last = first + BANDS * 16 - 1;
    const int row = (H + 2 * K) * D, orow = H * D;
    const int64_t b = blockIdx.y;
    __shared__ AttentionSpan spans[DOCS ? M::OWNED : 1];
    const AttentionDocs<MASK> docs = {positions, doc_ends, b * T, T, (int)b};
    constexpr bool CAUSAL = AttentionDocs<MASK>::CAUSAL;
    constexpr bool LIMITS = AttentionDocs<MASK>::LIMITS;
    constexpr bool SHARED = AttentionDocs<MASK>::SHARED;
    [[maybe_unused]] const AttentionSpan hole = docs.hole();
    __shared__ int limits[LIMITS ? 2 * MET : 1];         /* of the queries of either stage */
    const int begin = docs.queries(j0).begin, end = docs.queries_end(j0, M::OWNED);
    const int64_t k_first = (b * T + j0) * row + (H + kv) * D, v_first = k_first + K * D;
    const float c = scale * ATTENTION_LOG2E;
    const unsigned none[BANDS][1][4] = {};
    float dk[BANDS][M::TILES][4] = {}, dv[BANDS][M::TILES][4] = {}, factor[BANDS][2];
    if (DOCS && thread < M::OWNED)
        spans[thread] = docs.queries(j0 + thread);
    attention_rows_begin_<D, M::OWNED, THREADS>(v_at, qkv + v_first, row, T - j0);
    attention_rows_begin_<D, M::OWNED, THREADS>(k_at, qkv + k_first, row, T - j0);
    copy_commit();
    /* The tiles of queries of all heads of the part, in order; `i0` and `h` are one ahead. */
    const int heads_end = heads.begin() + heads.n();
    int i0 = begin, h = heads.begin(), stage = 0;
    attention_queries_begin_<D, THREADS>(stages, qkv + b * T * row + h * D,
                                         d_o + b * T * orow + h * D, row, orow, i0, T);
    if (thread < 2 * MET) {
        const int i = i0 + thread % MET;
        numbers[thread] =
            i >= T ? 0.0f : attention_number_(lse, delta, (b * H + h) * T + i, thread < MET);
        if (LIMITS && thread < MET)
            limits[thread] = docs.limit(i);
    }
    for (; h < heads_end; stage ^= 1) {
        const SharedAddress q_at = stages + stage * STAGE, dy_at = q_at + MET * M::ROW;
        const float *top = numbers + stage * 2 * MET, *sum = top + MET;
        const int now = i0;
        [[maybe_unused]] const int head = h;
        float ahead = 0.0f;
        int limit_ahead = 0;
        copy_wait<0>();
        __syncthreads();
        i0 += MET;
        if (i0 >= end)
            i0 = begin, h++;
        if (h < heads_end) {
            attention_queries_begin_<D, THREADS>(stages + (stage ^ 1) * STAGE,
                                                 qkv + b * T * row + h * D,
                                                 d_o + b * T * orow + h * D, row, orow, i0, T);
            const int i = i0 + thread % MET;
            if (thread < 2 * MET && i < T)
                ahead = attention_number_(lse, delta, (b * H + h) * T + i, thread < MET);
            if (LIMITS && thread < MET)
                limit_ahead = docs.limit(i);
        }
        const int *limit = limits + (LIMITS ? stage * MET : 0);
        if (first < T && (DOCS     ? attention_meets_<BANDS * 16, MET>(spans, now)
                          : LIMITS ? attention_met_<BANDS * 16, MET>(limit, first, now)
                                   : !(CAUSAL && now + MET - 1 < first)) &&
            !(SHARED && now >= hole.end && first >= hole.begin && last < hole.end)) {
            float p[BANDS][MET / 8][4], ds[BANDS][MET / 8][4];
            attention_scores_<D, BANDS, MET, false>(p, none, k_at + own * M::ROW, q_at);
            if constexpr (DOCS)
                attention_mask_spans_<BANDS, MET>(p, spans, now);
            else if constexpr (LIMITS)
                attention_mask_limited_<BANDS, MET>(p, limit, first, now);
            else if (CAUSAL && now < last)
                attention_mask_queries_<BANDS, MET>(p, first, now);
            if constexpr (SHARED)
                attention_mask_hole_<BANDS, MET, true>(p, hole, first, now);
#pragma unroll
            for (int m = 0; m < BANDS; m++)
#pragma unroll
                for (int n = 0; n < MET / 8; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        p[m][n][i] = exp2_approx(p[m][n][i] * c - top[attention_c_column_(n, i)]);
            if constexpr (DROP::DROPS)
                attention_mark_dropped_<BANDS, MET>(p, drop, T, (int)b, head, first, now);
            attention_sums_<D, BANDS, MET, DROP::DROPS>(dv, p, dy_at);
            attention_scores_<D, BANDS, MET, false>(ds, none, v_at + own * M::ROW, dy_at);
#pragma unroll
            for (int m = 0; m < BANDS; m++)
#pragma unroll
                for (int n = 0; n < MET / 8; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        float dp = ds[m][n][i];
                        if constexpr (DROP::DROPS)
                            dp = p[m][n][i] > 0.0f ? dp * drop.scale : 0.0f;
                        ds[m][n][i] = (DROP::DROPS ? fabsf(p[m][n][i]) : p[m][n][i]) *
                                      (dp - sum[attention_c_column_(n, i)]);
                    }
            attention_sums_<D, BANDS, MET>(dk, ds, q_at);
        }
        if (thread < 2 * MET)
            numbers[(stage ^ 1) * 2 * MET + thread] = ahead;
        if (LIMITS && thread < MET)
            limits[(stage ^ 1) * MET + thread] = limit_ahead;
    }
    if (first >= T)
        return;
    act_t *mine = memory + own * M::STRIDE;      // its own rows of v, which no other warp reads
#pragma unroll
    for (int m = 0; m < BANDS; m++)
        if constexpr (DROP::DROPS)
            factor[m][0] = factor[m][1] = drop.scale;
        else
            factor[m][0] = factor[m][1] = 1.0f;
    attention_dkv_store_<D, BANDS>(dqkv + v_first + own * row, parts, true, first, T, H, K, mine,
                                   dv, factor);
#pragma unroll
    for (int m = 0; m < BANDS; m++)
        factor[m][0] = factor[m][1] = scale;
    attention_dkv_store_<D, BANDS>(dqkv + k_first + own * row, parts, false, first, T, H, K, mine,
                                   dk, factor);
}

/* The same for wide heads, whose sums are too many for one warp. Two warps own the same 32 keys:
 * one computes their probabilities and sums dv, the other, one tile later, their gradients and dk.
 * They hold their rows of k or v as fragments. The probabilities of two tiles pass through shared
 * memory (2, MET / SUB, pairs, fragments, WARP) float4: a lane of either warp needs the same. */
template <int D, AttentionMask MASK, typename DROP>
static __device__ __forceinline__ void
attention_dkv_wide_(act_t *__restrict__ dqkv, float *__restrict__ parts,
                    const float *__restrict__ delta, const act_t *__restrict__ d_o,
                    const float *__restrict__ lse, const act_t *__restrict__ qkv, int T, int H,
                    int K, float scale, const int32_t *__restrict__ positions,
                    const int32_t *__restrict__ doc_ends, DROP drop)
{
    constexpr bool DOCS = AttentionDocs<MASK>::DOCS;
    typedef AttentionMma<D> M;
    constexpr int WARPS = M::DKV_WARPS, PAIRS = WARPS / 2, THREADS = WARPS * WARP;
    constexpr int BANDS = M::OWNED / PAIRS / 16, MET = M::DKV_MET, STAGE = 2 * MET * M::ROW;
    constexpr int STAGES = M::DKV_STAGES, SUB = M::DKV_SUB, PARTS = BANDS * SUB / 8;
    DYNAMIC_SHARED(act_t, memory);
    const SharedAddress at = shared_address(memory);
    float *numbers = (float *)((char *)memory + M::DKV_BEFORE);
    float4 *shared_p = (float4 *)((char *)memory + STAGES * STAGE);
    const int thread = (int)threadIdx.x, pair = thread / WARP % PAIRS;
    const bool values = thread < PAIRS * WARP;              /* of the warp that sums dv */
    const AttentionHeads heads = {H, K};
    const int kv = heads.kv();
    const int j0 = (int)blockIdx.z * M::OWNED, own = pair * BANDS * 16;
    const int first = j0 + own, last = first + BANDS * 16 - 1;
    const int row = (H + 2 * K) * D, orow = H * D;
    const int64_t b = blockIdx.y;
    __shared__ AttentionSpan spans[DOCS ? M::OWNED : 1];
    const AttentionDocs<MASK> docs = {positions, doc_ends, b * T, T, (int)b};
    constexpr bool CAUSAL = AttentionDocs<MASK>::CAUSAL;
    constexpr bool LIMITS = AttentionDocs<MASK>::LIMITS;
    constexpr bool SHARED = AttentionDocs<MASK>::SHARED;
    [[maybe_unused]] const AttentionSpan hole = docs.hole();
    __shared__ int limits[LIMITS ? 2 * MET : 1];         /* of the queries of two tiles */
    const int begin = docs.queries(j0).begin, end = docs.queries_end(j0, M::OWNED);
    const int64_t k_first = (b * T + j0) * row + (H + kv) * D, v_first = k_first + K * D;
    const float c = scale * ATTENTION_LOG2E;
    unsigned held[BANDS][M::STEPS][4];
    float sums[BANDS][M::TILES][4] = {}, s[BANDS][SUB / 8][4], factor[BANDS][2];
    if (DOCS && thread < M::OWNED)
        spans[thread] = docs.queries(j0 + thread);
    attention_rows_begin_<D, M::OWNED, THREADS>(at, qkv + k_first, row, T - j0);
    attention_rows_begin_<D, M::OWNED, THREADS>(at + M::OWNED * M::ROW, qkv + v_first, row, T - j0);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    attention_hold_<D, BANDS>(held, at + ((values ? 0 : M::OWNED) + own) * M::ROW);
    __syncthreads();
    /* The tiles of queries of all heads of the part, in order; `i0` and `h` are one ahead. */
    const int heads_end = heads.begin() + heads.n();
    int i0 = begin, h = heads.begin(), stage = 0, before = STAGES - 1;
    bool met = false;                                       // of the tile before
    attention_queries_begin_<D, THREADS>(at, qkv + b * T * row + h * D,
                                         d_o + b * T * orow + h * D, row, orow, i0, T);
    if (thread < 2 * MET) {
        const int i = i0 + thread % MET;
        numbers[thread] =
            i >= T ? 0.0f : attention_number_(lse, delta, (b * H + h) * T + i, thread < MET);
        if (LIMITS && thread < MET)
            limits[thread] = docs.limit(i);
    }
    for (int tile = 0, ended = 0; !ended; tile ^= 1) {
        const int now = i0, after = STAGES - stage - before;
        [[maybe_unused]] const int head = h;
        const SharedAddress q_at = at + stage * STAGE, dy_at = q_at + MET * M::ROW;
        float ahead = 0.0f;
        int limit_ahead = 0;
        ended = h == heads_end;
        copy_wait<0>();
        __syncthreads();
        i0 += MET;
        if (i0 >= end && !ended)
            i0 = begin, h++;
        if (h < heads_end) {
            attention_queries_begin_<D, THREADS>(at + after * STAGE,
                                                 qkv + b * T * row + h * D,
                                                 d_o + b * T * orow + h * D, row, orow, i0, T);
            const int i = i0 + thread % MET;
            if (thread < 2 * MET && i < T)
                ahead = attention_number_(lse, delta, (b * H + h) * T + i, thread < MET);
            if (LIMITS && thread < MET)
                limit_ahead = docs.limit(i);
        }
        const int *limit = limits + (LIMITS ? tile * MET : 0);
        const bool meets =
            !ended && first < T &&
            (DOCS     ? attention_meets_<BANDS * 16, MET>(spans, now)
             : LIMITS ? attention_met_<BANDS * 16, MET>(limit, first, now)
                      : !(CAUSAL && now + MET - 1 < first)) &&
            !(SHARED && now >= hole.end && first >= hole.begin && last < hole.end);
        float4 *p_at = shared_p + (values ? tile : tile ^ 1) * (MET / SUB * PAIRS * PARTS * WARP) +
                       pair * PARTS * WARP + thread % WARP;
        if (values && meets) {
#pragma unroll 1
            for (int u = 0; u < MET; u += SUB, p_at += PAIRS * PARTS * WARP) {
                const float *top = numbers + stage * 2 * MET + u;
                attention_scores_<D, BANDS, SUB, true>(s, held, at, q_at + u * M::ROW);
                if constexpr (DOCS)
                    attention_mask_spans_<BANDS, SUB>(s, spans, now + u);
                else if constexpr (LIMITS)
                    attention_mask_limited_<BANDS, SUB>(s, limit + u, first, now + u);
                else if (CAUSAL && now + u < last)
                    attention_mask_queries_<BANDS, SUB>(s, first, now + u);
                if constexpr (SHARED)
                    attention_mask_hole_<BANDS, SUB, true>(s, hole, first, now + u);
#pragma unroll
                for (int m = 0; m < BANDS; m++)
#pragma unroll
                    for (int n = 0; n < SUB / 8; n++)
#pragma unroll
                        for (int i = 0; i < 4; i++)
                            s[m][n][i] =
                                exp2_approx(s[m][n][i] * c - top[attention_c_column_(n, i)]);
                if constexpr (DROP::DROPS)
                    attention_mark_dropped_<BANDS, SUB>(s, drop, T, (int)b, head, first, now + u);
#pragma unroll
                for (int m = 0; m < BANDS; m++)
#pragma unroll
                    for (int n = 0; n < SUB / 8; n++)
                        p_at[(m * (SUB / 8) + n) * WARP] =
                            make_float4(s[m][n][0], s[m][n][1], s[m][n][2], s[m][n][3]);
                attention_sums_<D, BANDS, SUB, DROP::DROPS>(sums, s, dy_at + u * M::ROW);
            }
        }
        if (!values && met) {
            const SharedAddress q_before = at + before * STAGE;
#pragma unroll 1
            for (int u = 0; u < MET; u += SUB, p_at += PAIRS * PARTS * WARP) {
                const float *sum = numbers + before * 2 * MET + MET + u;
                if (u > 0)
                    attention_scores_<D, BANDS, SUB, true>(s, held, at,
                                                           q_before + (MET + u) * M::ROW);
#pragma unroll
                for (int m = 0; m < BANDS; m++)
#pragma unroll
                    for (int n = 0; n < SUB / 8; n++) {
                        const float4 four = p_at[(m * (SUB / 8) + n) * WARP];
                        const float p[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            float dp = s[m][n][i];
                            if constexpr (DROP::DROPS)
                                dp = p[i] > 0.0f ? dp * drop.scale : 0.0f;
                            s[m][n][i] = (DROP::DROPS ? fabsf(p[i]) : p[i]) *
                                         (dp - sum[attention_c_column_(n, i)]);
                        }
                    }
                attention_sums_<D, BANDS, SUB>(sums, s, q_before + u * M::ROW);
            }
        }
        if (!values && meets)
            attention_scores_<D, BANDS, SUB, true>(s, held, at, dy_at);
        if (thread < 2 * MET)
            numbers[after * 2 * MET + thread] = ahead;
        if (LIMITS && thread < MET)
            limits[(tile ^ 1) * MET + thread] = limit_ahead;
        before = stage, stage = after, met = meets;
    }
    __syncthreads();            // the results pass through the memory of the stages
    if (first >= T)
        return;
    float by = scale;
    if (values)
        by = 1.0f;
    if constexpr (DROP::DROPS)
        by = values ? drop.scale : scale;
#pragma unroll
    for (int m = 0; m < BANDS; m++)
        factor[m][0] = factor[m][1] = by;
    attention_dkv_store_<D, BANDS>(dqkv + (values ? v_first : k_first) + own * row, parts, values,
                                   first, T, H, K,
                                   memory + ((values ? 0 : M::OWNED) + own) * M::STRIDE, sums,
                                   factor);
}

/* dk and dv of keys. */
template <int D, AttentionMask MASK, typename... A>
static __device__ __forceinline__ void attention_dkv_mma(A... a)
{
    if constexpr (AttentionMma<D>::NARROW)
        attention_dkv_narrow_<D, MASK>(a...);
    else
        attention_dkv_wide_<D, MASK>(a...);
}

#endif
