/* attention_mma.cuh -- attention on tensor cores: 16-bit products, fp32 sums; D a multiple of 16.
 *
 * In, Out: as attention.cuh; all pointers are multiples of 16.
 * Method: FlashAttention-2 (Dao 2023). A warp owns rows and keeps their sums in registers: the
 *         fragments c of one product are the fragments a of the next. */
#ifndef DIECAST_KERNELS_ATTENTION_MMA_CUH
#define DIECAST_KERNELS_ATTENTION_MMA_CUH

#include "attention_f32.cuh"
#include "ptx.cuh"
#include "types.cuh"

/* A block owns OWNED rows and meets MET rows at a time, of which SUB at once.
 *
 * Rows lie an odd number of 16-byte units apart in shared memory: the eight rows that ldmatrix reads
 * at once fall into all 32 banks, as swizzled rows do, but all offsets within a tile are constants.
 * No kernel takes more than 70 KB, so that two blocks share a multiprocessor where it has 164 KB.
 *
 * The gradient has two kernels, one that owns queries and one that owns keys. Both compute the
 * scores: 7 products instead of the 5 of one kernel. That one needs fp32 sums of dq in memory and,
 * to have one order, blocks that wait for each other. */
template <int D> struct AttentionMma {
    static constexpr int OWNED = 128, STRIDE = D + 8;
    static constexpr int ROW = 2 * STRIDE;               /* bytes of a row in shared memory */
    static constexpr int STEPS = D / 16, TILES = D / 8;  /* of a row: 16 or 8 elements wide */
    static constexpr bool NARROW = D <= 64;              /* registers do for 32 rows a warp */

    static constexpr int FWD_WARPS = 4, FWD_MET = 64, FWD_BLOCKS = 2;
    static constexpr int FWD_SHARED = (OWNED + 2 * FWD_MET) * ROW;

    static constexpr int DQ_WARPS = NARROW ? 4 : 8, DQ_MET = 64, DQ_SUB = 32;
    static constexpr int DQ_BLOCKS = 8 / DQ_WARPS;
    static constexpr int DQ_SHARED = 2 * 2 * DQ_MET * ROW;   /* first q and d_o, then 2 stages */

    /* narrow: k, v, 2 stages of q and d_o; wide: v, the stages, whose memory first holds k */
    static constexpr int DKV_WARPS = NARROW ? 4 : 8, DKV_MET = 32;
    static constexpr int DKV_BLOCKS = 8 / DKV_WARPS;
    static constexpr int DKV_ROWS = (NARROW ? 2 : 1) * OWNED + 2 * 2 * DKV_MET;
    static constexpr int DKV_SHARED = DKV_ROWS * ROW + 2 * 2 * DKV_MET * 4;
};

/* ---- shared memory ---- */

/* Begins to copy ROWS rows `row` elements apart to shared memory; zeros from row `n` on. */
template <int D, int ROWS, int THREADS>
static __device__ __forceinline__ void attention_rows_begin_(SharedAddress to, const act_t *from,
                                                             int64_t row, int n)
{
    constexpr int PARTS = D / 8, ALL = ROWS * PARTS;
#pragma unroll
    for (int first = 0; first < ALL; first += THREADS) {
        const int i = first + (int)threadIdx.x, r = i / PARTS, part = i % PARTS;
        if (ALL % THREADS == 0 || i < ALL)
            copy16_async(to + r * AttentionMma<D>::ROW + part * 16,
                         from + (r < n ? r * row : 0) + part * 8, r < n ? 16 : 0);
    }
}

/* Where a lane points ldmatrix at: rows x 16 columns as fragment a, or, transposed, as two b. */
template <int D> static __device__ __forceinline__ int attention_lane_a_(void)
{
    const int lane = (int)threadIdx.x % WARP;
    return lane % 16 * AttentionMma<D>::ROW + lane / 16 * 16;
}

/* 16 rows x 16 columns as the fragments b of rows 0..7 and of rows 8..15. */
template <int D> static __device__ __forceinline__ int attention_lane_b_(void)
{
    const int lane = (int)threadIdx.x % WARP;
    return (lane % 8 + lane / 16 * 8) * AttentionMma<D>::ROW + lane / 8 % 2 * 16;
}

/* ---- products of a warp: 16 BANDS rows ---- */

static __device__ __forceinline__ void attention_product_(float c[4], const unsigned a[4],
                                                          unsigned b0, unsigned b1)
{
#ifdef ACT_BF16
    product_bf16(c, a, b0, b1);
#else
    product_f16(c, a, b0, b1);
#endif
}

/* Fragments a of whole rows. */
template <int D, int BANDS>
static __device__ __forceinline__ void attention_hold_(unsigned held[BANDS][D / 16][4],
                                                       SharedAddress rows)
{
    const SharedAddress at = rows + attention_lane_a_<D>();
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int k = 0; k < D / 16; k++)
            matrices_load(held[m][k], at + m * 16 * AttentionMma<D>::ROW + k * 32);
}

/* s (BANDS, N / 8) = own rows times the N rows at `met`, transposed. The own rows are `held`, or
 * (HELD false) read from shared memory at `own`. */
template <int D, int BANDS, int N, bool HELD>
static __device__ __forceinline__ void
attention_scores_(float s[BANDS][N / 8][4], const unsigned held[BANDS][HELD ? D / 16 : 1][4],
                  SharedAddress own, SharedAddress met)
{
    typedef AttentionMma<D> M;
    const SharedAddress at_a = own + attention_lane_a_<D>(), at_b = met + attention_lane_b_<D>();
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[m][n][i] = 0.0f;
#pragma unroll
    for (int k = 0; k < M::STEPS; k++) {
        unsigned a[BANDS][4], b[4];
#pragma unroll
        for (int m = 0; m < BANDS; m++)
            if constexpr (HELD) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    a[m][i] = held[m][k][i];
            } else {
                matrices_load(a[m], at_a + m * 16 * M::ROW + k * 32);
            }
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            matrices_load(b, at_b + n * 16 * M::ROW + k * 32);
#pragma unroll
            for (int m = 0; m < BANDS; m++) {
                attention_product_(s[m][2 * n], a[m], b[0], b[1]);
                attention_product_(s[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* y (BANDS, D / 8) += p (own rows, N) times the N rows at `met`; p rounded to act_t. */
template <int D, int BANDS, int N>
static __device__ __forceinline__ void attention_sums_(float y[BANDS][D / 8][4],
                                                       const float p[BANDS][N / 8][4],
                                                       SharedAddress met)
{
    typedef AttentionMma<D> M;
    const SharedAddress at = met + attention_lane_a_<D>();
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        unsigned a[BANDS][4], b[4];
#pragma unroll
        for (int m = 0; m < BANDS; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *pair = p[m][2 * k + i / 2] + i % 2 * 2;
                a[m][i] = act_pack(pair[0], pair[1]);
            }
#pragma unroll
        for (int n = 0; n < M::STEPS; n++) {
            matrices_load_transposed(b, at + k * 16 * M::ROW + n * 32);
#pragma unroll
            for (int m = 0; m < BANDS; m++) {
                attention_product_(y[m][2 * n], a[m], b[0], b[1]);
                attention_product_(y[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* Row of c[i] of band m within a warp's rows, and its column within a tile's. */
static __device__ __forceinline__ int attention_c_row_(int m, int i)
{
    return 16 * m + (int)threadIdx.x % WARP / 4 + i / 2 * 8;
}

static __device__ __forceinline__ int attention_c_column_(int n, int i)
{
    return 8 * n + (int)threadIdx.x % 4 * 2 + i % 2;
}

/* The first n rows of y, times the factor of each, to global memory, `row` elements apart, by way of
 * shared memory that only this warp uses. */
template <int D, int BANDS>
static __device__ __forceinline__ void
attention_store_(act_t *to, int64_t row, int n, act_t *own, const float y[BANDS][D / 8][4],
                 const float factor[BANDS][2])
{
    typedef AttentionMma<D> M;
    const int lane = (int)threadIdx.x % WARP;
    __syncwarp();
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int d = 0; d < M::TILES; d++)
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                act_t *at = own + attention_c_row_(m, i) * M::STRIDE + attention_c_column_(d, i);
                *(uint32_t *)at = act_pack(y[m][d][i] * factor[m][i / 2],
                                           y[m][d][i + 1] * factor[m][i / 2]);
            }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < BANDS * 16 * (D / 8); i += WARP) {
        const int r = i / (D / 8), part = i % (D / 8);
        if (r < n)
            *(uint4 *)(to + r * row + part * 8) = *(const uint4 *)(own + r * M::STRIDE + part * 8);
    }
}

/* ---- forward ---- */

/* The softmax carried to N more keys: scores s become 2^(c s - c top), y and sum follow top.
 * sum: of this lane's columns only. */
template <int D, int BANDS, int N>
static __device__ __forceinline__ void
attention_softmax_(float s[BANDS][N / 8][4], float y[BANDS][D / 8][4], float top[BANDS][2],
                   float sum[BANDS][2], float c)
{
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float now = top[m][r];
#pragma unroll
            for (int n = 0; n < N / 8; n++)
                now = fmaxf(now, fmaxf(s[m][n][2 * r], s[m][n][2 * r + 1]));
            now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
            now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
            const float shrink = exp2_approx((top[m][r] - now) * c), minus = -now * c;
            top[m][r] = now;
            sum[m][r] *= shrink;
#pragma unroll
            for (int d = 0; d < D / 8; d++) {
                y[m][d][2 * r] *= shrink;
                y[m][d][2 * r + 1] *= shrink;
            }
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 2 * r; i < 2 * r + 2; i++) {
                    s[m][n][i] = exp2_approx(s[m][n][i] * c + minus);
                    sum[m][r] += s[m][n][i];
                }
        }
}

/* Scores of keys first_key.. that a query does not see, or that do not exist. */
template <int BANDS, int N, bool CAUSAL>
static __device__ __forceinline__ void attention_mask_(float s[BANDS][N / 8][4], int first_row,
                                                       int first_key, int T)
{
    if (!(first_key + N > T || (CAUSAL && first_key + N - 1 > first_row)))
        return;
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int key = first_key + attention_c_column_(n, i);
                if (key >= T || (CAUSAL && key > first_row + attention_c_row_(m, i)))
                    s[m][n][i] = ATTENTION_NONE;
            }
}

/* Keys come in order. k of the next block arrives while v is multiplied, v while k is. */
template <int D, bool CAUSAL>
static __device__ __forceinline__ void
attention_fwd_mma(act_t *__restrict__ o, float *__restrict__ lse, const act_t *__restrict__ qkv,
                  int T, int H, int K, float scale)
{
    typedef AttentionMma<D> M;
    constexpr int WARPS = M::FWD_WARPS, THREADS = WARPS * WARP, MET = M::FWD_MET;
    constexpr int BANDS = M::OWNED / WARPS / 16;
    DYNAMIC_SHARED(act_t, memory);
    const SharedAddress q_at = shared_address(memory), k_at = q_at + M::OWNED * M::ROW,
                        v_at = k_at + MET * M::ROW;
    const int h = (int)blockIdx.y, warp = (int)threadIdx.x / WARP;
    const int i0 = (int)(gridDim.x - 1 - blockIdx.x) * M::OWNED, own = warp * BANDS * 16;
    const int first = i0 + own, last = first + BANDS * 16 - 1;
    const int64_t row = (int64_t)(H + 2 * K) * D, b = blockIdx.z;
    const act_t *q = qkv + (b * T + i0) * row + h * D;
    const act_t *k = qkv + b * T * row + (H + h / (H / K)) * D, *v = k + K * D;
    const int end = CAUSAL ? min(T, i0 + M::OWNED) : T;
    const float c = scale * ATTENTION_LOG2E;
    unsigned held[BANDS][M::NARROW ? M::STEPS : 1][4];
    float y[BANDS][M::TILES][4] = {}, top[BANDS][2], sum[BANDS][2] = {}, factor[BANDS][2];
#pragma unroll
    for (int m = 0; m < BANDS; m++)
        top[m][0] = top[m][1] = ATTENTION_NONE;
    attention_rows_begin_<D, M::OWNED, THREADS>(q_at, q, row, T - i0);
    attention_rows_begin_<D, MET, THREADS>(k_at, k, row, T);
    copy_commit();
    for (int j0 = 0; j0 < end; j0 += MET) {
        const bool active = first < T && !(CAUSAL && j0 > last);
        float s[BANDS][MET / 8][4];
        copy_wait<0>();
        __syncthreads();
        attention_rows_begin_<D, MET, THREADS>(v_at, v + j0 * row, row, T - j0);
        copy_commit();
        if constexpr (M::NARROW)
            if (j0 == 0)
                attention_hold_<D, BANDS>(held, q_at + own * M::ROW);
        if (active) {
            attention_scores_<D, BANDS, MET, M::NARROW>(s, held, q_at + own * M::ROW, k_at);
            attention_mask_<BANDS, MET, CAUSAL>(s, first, j0, T);
            attention_softmax_<D, BANDS, MET>(s, y, top, sum, c);
        }
        copy_wait<0>();
        __syncthreads();
        if (j0 + MET < end) {
            attention_rows_begin_<D, MET, THREADS>(k_at, k + (j0 + MET) * row, row, T - j0 - MET);
            copy_commit();
        }
        if (active)
            attention_sums_<D, BANDS, MET>(y, s, v_at);
    }
    if (first >= T)
        return;
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int i = first + attention_c_row_(m, 2 * r);
            float all = sum[m][r];
            all += __shfl_xor_sync(0xffffffffu, all, 1);
            all += __shfl_xor_sync(0xffffffffu, all, 2);
            factor[m][r] = 1.0f / all;
            if (threadIdx.x % 4 == 0 && i < T)
                lse[(b * H + h) * T + i] = (top[m][r] * c + log2f(all)) * ATTENTION_LN2;
        }
    attention_store_<D, BANDS>(o + ((b * T + first) * H + h) * D, (int64_t)H * D, T - first,
                               memory + own * M::STRIDE, y, factor);
}

/* ---- gradient ---- */

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

template <int D, bool CAUSAL>
static __device__ __forceinline__ void
attention_dq_mma(act_t *__restrict__ dqkv, float *__restrict__ delta, const act_t *__restrict__ d_o,
                 const act_t *__restrict__ o, const float *__restrict__ lse,
                 const act_t *__restrict__ qkv, int T, int H, int K, float scale)
{
    typedef AttentionMma<D> M;
    constexpr int WARPS = M::DQ_WARPS, THREADS = WARPS * WARP, MET = M::DQ_MET, SUB = M::DQ_SUB;
    constexpr int BANDS = M::OWNED / WARPS / 16;
    DYNAMIC_SHARED(act_t, memory);
    const SharedAddress at = shared_address(memory);
    const int h = (int)blockIdx.y, warp = (int)threadIdx.x / WARP;
    const int i0 = (int)(gridDim.x - 1 - blockIdx.x) * M::OWNED, own = warp * BANDS * 16;
    const int first = i0 + own, last = first + BANDS * 16 - 1;
    const int64_t row = (int64_t)(H + 2 * K) * D, orow = (int64_t)H * D, b = blockIdx.z;
    const int64_t q_first = (b * T + i0) * row + h * D, o_first = (b * T + i0) * orow + h * D;
    const act_t *k = qkv + b * T * row + (H + h / (H / K)) * D, *v = k + K * D;
    const int end = CAUSAL ? min(T, i0 + M::OWNED) : T;
    const float c = scale * ATTENTION_LOG2E;
    unsigned q_held[BANDS][M::STEPS][4], dy_held[BANDS][M::STEPS][4];
    float dq[BANDS][M::TILES][4] = {}, top[BANDS][2], sum[BANDS][2], factor[BANDS][2];
    attention_rows_begin_<D, M::OWNED, THREADS>(at, qkv + q_first, row, T - i0);
    attention_rows_begin_<D, M::OWNED, THREADS>(at + M::OWNED * M::ROW, d_o + o_first, orow,
                                                T - i0);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    attention_hold_<D, BANDS>(q_held, at + own * M::ROW);
    attention_hold_<D, BANDS>(dy_held, at + (M::OWNED + own) * M::ROW);
    __syncthreads();
    attention_rows_begin_<D, MET, THREADS>(at, k, row, T);
    attention_rows_begin_<D, MET, THREADS>(at + MET * M::ROW, v, row, T);
    copy_commit();
    attention_delta_<D, BANDS>(sum, dy_held, o + o_first + own * orow, orow, T - first);
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int i = first + attention_c_row_(m, 2 * r);
            const int64_t place = (b * H + h) * T + i;
            top[m][r] = i < T ? lse[place] * ATTENTION_LOG2E : 0.0f;
            factor[m][r] = scale;
            if (threadIdx.x % 4 == 0 && i < T)
                delta[place] = sum[m][r];
        }
    for (int j0 = 0, stage = 0; j0 < end; j0 += MET, stage ^= 1) {
        const SharedAddress k_at = at + stage * 2 * MET * M::ROW, v_at = k_at + MET * M::ROW;
        copy_wait<0>();
        __syncthreads();
        if (j0 + MET < end) {
            const SharedAddress next = at + (stage ^ 1) * 2 * MET * M::ROW;
            const int64_t from = (j0 + MET) * row;
            const int n = T - j0 - MET;
            attention_rows_begin_<D, MET, THREADS>(next, k + from, row, n);
            attention_rows_begin_<D, MET, THREADS>(next + MET * M::ROW, v + from, row, n);
            copy_commit();
        }
#pragma unroll 1
        for (int u = 0; u < MET; u += SUB) {
            float s[BANDS][SUB / 8][4], ds[BANDS][SUB / 8][4];
            if (first >= T || j0 + u >= T || (CAUSAL && j0 + u > last))
                break;
            attention_scores_<D, BANDS, SUB, true>(s, q_held, k_at, k_at + u * M::ROW);
            attention_scores_<D, BANDS, SUB, true>(ds, dy_held, v_at, v_at + u * M::ROW);
            attention_mask_<BANDS, SUB, CAUSAL>(s, first, j0 + u, T);
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
    if (first < T)
        attention_store_<D, BANDS>(dqkv + q_first + own * row, row, T - first,
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
                                                                const act_t *d_o, int64_t row,
                                                                int64_t orow, int i0, int T)
{
    constexpr int MET = AttentionMma<D>::DKV_MET;
    attention_rows_begin_<D, MET, THREADS>(to, q + i0 * row, row, T - i0);
    attention_rows_begin_<D, MET, THREADS>(to + MET * AttentionMma<D>::ROW, d_o + i0 * orow, orow,
                                           T - i0);
    copy_commit();
}

/* The scores are those of keys by queries here: a column is a query, whose lse and delta come from
 * shared memory (numbers: lse log2 e, then delta, of MET queries a stage). */
template <int D, bool CAUSAL>
static __device__ __forceinline__ void
attention_dkv_mma(act_t *__restrict__ dqkv, const float *__restrict__ delta,
                  const act_t *__restrict__ d_o, const float *__restrict__ lse,
                  const act_t *__restrict__ qkv, int T, int H, int K, float scale)
{
    typedef AttentionMma<D> M;
    constexpr int WARPS = M::DKV_WARPS, THREADS = WARPS * WARP, MET = M::DKV_MET;
    constexpr int BANDS = M::OWNED / WARPS / 16, STAGE = 2 * MET * M::ROW;
    constexpr bool HELD = !M::NARROW;
    DYNAMIC_SHARED(act_t, memory);
    float *numbers = (float *)(memory + M::DKV_ROWS * M::STRIDE);
    const SharedAddress v_at = shared_address(memory), k_at = v_at + M::OWNED * M::ROW,
                        stages = v_at + (M::DKV_ROWS - 4 * MET) * M::ROW;
    const int kv = (int)blockIdx.y, group = H / K, thread = (int)threadIdx.x;
    const int j0 = (int)blockIdx.x * M::OWNED, own = thread / WARP * BANDS * 16;
    const int first = j0 + own, last = first + BANDS * 16 - 1, begin = CAUSAL ? j0 : 0;
    const int64_t row = (int64_t)(H + 2 * K) * D, orow = (int64_t)H * D, b = blockIdx.z;
    const int64_t k_first = (b * T + j0) * row + (H + kv) * D, v_first = k_first + K * D;
    const float c = scale * ATTENTION_LOG2E;
    unsigned held[BANDS][HELD ? M::STEPS : 1][4], none[BANDS][1][4];
    float dk[BANDS][M::TILES][4] = {}, dv[BANDS][M::TILES][4] = {}, factor[BANDS][2];
    attention_rows_begin_<D, M::OWNED, THREADS>(v_at, qkv + v_first, row, T - j0);
    attention_rows_begin_<D, M::OWNED, THREADS>(k_at, qkv + k_first, row, T - j0);
    copy_commit();
    if constexpr (HELD) {
        copy_wait<0>();
        __syncthreads();
        attention_hold_<D, BANDS>(held, k_at + own * M::ROW);
        __syncthreads();
    }
    /* The blocks of queries of all heads of the group, in order; `next` is one ahead. */
    const act_t *q = qkv + b * T * row + kv * group * D, *dy = d_o + b * T * orow + kv * group * D;
    const float *tops = lse + (b * H + kv * group) * T, *sums = delta + (b * H + kv * group) * T;
    int i0 = begin, stage = 0;
    attention_queries_begin_<D, THREADS>(stages, q, dy, row, orow, i0, T);
    if (thread < 2 * MET) {
        const int i = i0 + thread % MET;
        const float x = i >= T ? 0.0f : thread < MET ? tops[i] * ATTENTION_LOG2E : sums[i];
        numbers[thread] = x;
    }
    for (int left = group; left > 0; stage ^= 1) {
        const SharedAddress q_at = stages + stage * STAGE, dy_at = q_at + MET * M::ROW;
        const float *top = numbers + stage * 2 * MET, *sum = top + MET;
        const int now = i0;
        float ahead = 0.0f;
        copy_wait<0>();
        __syncthreads();
        i0 += MET;
        if (i0 >= T) {
            i0 = begin, left--;
            q += D, dy += D, tops += T, sums += T;
        }
        if (left > 0) {
            attention_queries_begin_<D, THREADS>(stages + (stage ^ 1) * STAGE, q, dy, row, orow, i0,
                                                 T);
            const int i = i0 + thread % MET;
            if (thread < 2 * MET && i < T)
                ahead = thread < MET ? tops[i] * ATTENTION_LOG2E : sums[i];
        }
        if (first < T && !(CAUSAL && now + MET - 1 < first)) {
            float p[BANDS][MET / 8][4], ds[BANDS][MET / 8][4];
            attention_scores_<D, BANDS, MET, HELD>(p, held, k_at + own * M::ROW, q_at);
            if (CAUSAL && now < last)
                attention_mask_queries_<BANDS, MET>(p, first, now);
#pragma unroll
            for (int m = 0; m < BANDS; m++)
#pragma unroll
                for (int n = 0; n < MET / 8; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        p[m][n][i] = exp2_approx(p[m][n][i] * c - top[attention_c_column_(n, i)]);
            attention_sums_<D, BANDS, MET>(dv, p, dy_at);
            attention_scores_<D, BANDS, MET, false>(ds, none, v_at + own * M::ROW, dy_at);
#pragma unroll
            for (int m = 0; m < BANDS; m++)
#pragma unroll
                for (int n = 0; n < MET / 8; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        ds[m][n][i] = p[m][n][i] * (ds[m][n][i] - sum[attention_c_column_(n, i)]);
            attention_sums_<D, BANDS, MET>(dk, ds, q_at);
        }
        if (thread < 2 * MET)
            numbers[(stage ^ 1) * 2 * MET + thread] = ahead;
    }
    if (first >= T)
        return;
    act_t *mine = memory + own * M::STRIDE;      // its own rows of v, which no other warp reads
#pragma unroll
    for (int m = 0; m < BANDS; m++)
        factor[m][0] = factor[m][1] = 1.0f;
    attention_store_<D, BANDS>(dqkv + v_first + own * row, row, T - first, mine, dv, factor);
#pragma unroll
    for (int m = 0; m < BANDS; m++)
        factor[m][0] = factor[m][1] = scale;
    attention_store_<D, BANDS>(dqkv + k_first + own * row, row, T - first, mine, dk, factor);
}

#endif
