/* attention_mma.cuh -- attention on tensor cores: 16-bit products, fp32 sums; D a multiple of 16.
 *
 * In, Out: as attention.cuh; all pointers are multiples of 16.
 * Method: FlashAttention-2 (Dao 2023). A warp owns rows and keeps their sums in registers: the
 *         fragments c of one product are the fragments a of the next. The gradient, of the same
 *         tile loads, masks and fragments, is in attention_mma_bwd.cuh. */
#ifndef DIECAST_KERNELS_ATTENTION_MMA_CUH
#define DIECAST_KERNELS_ATTENTION_MMA_CUH

#include "attention_f32.cuh"
#include "ptx.cuh"
#include "types.cuh"
#include "workspace.h"

/* A block owns OWNED rows and meets MET rows at a time, of which SUB at once. Blocks that own fewer
 * queries, a multiple of 32, have fewer warps, and more of them share a multiprocessor.
 *
 * Rows lie an odd number of 16-byte units apart in shared memory: the eight rows that ldmatrix
 * reads at once fall into all 32 banks, as swizzled rows do, but offsets in a tile are constants.
 * Forward and dq take at most 70 KB, with documents 71: two blocks of the forward share a
 * multiprocessor where it has 164 KB. dkv takes at most 86 KB; its block of 8 warps is alone there,
 * as its registers are.
 *
 * The gradient has two kernels, one that owns queries and one that owns keys. Both compute the
 * scores, which makes 7 products; a single kernel would need only 5, but also fp32 sums of dq in
 * memory, and blocks that wait for one another to keep the order of those sums fixed. */
template <int D, int ROWS = ATTENTION_ROWS> struct AttentionMma {
    static constexpr int OWNED = ROWS, STRIDE = D + 8;
    static constexpr int ROW = 2 * STRIDE;               /* bytes of a row in shared memory */
    static constexpr int STEPS = D / 16, TILES = D / 8;  /* of a row: 16 or 8 elements wide */
    static constexpr bool NARROW = CUDA_ATTENTION_NARROW(D);    /* 32 rows a warp, else 16 */
    static constexpr int BLOCKS = CUDA_ATTENTION_WARPS(D) / 4;  /* for which registers must do */

    /* narrow: 2 stages of k and v, the second of which first holds q; wide: q, k, v */
    static constexpr int FWD_WARPS = OWNED / 32, FWD_BLOCKS = BLOCKS * 4 / FWD_WARPS, FWD_MET = 64;
    static constexpr int FWD_SHARED = (NARROW ? 2 * 2 * FWD_MET : OWNED + 2 * FWD_MET) * ROW;

    /* 2 stages of k and v, whose memory first holds q and d_o */
    static constexpr int DQ_WARPS = OWNED / (NARROW ? 32 : 16), DQ_MET = 64, DQ_SUB = 32;
    static constexpr int DQ_BLOCKS = BLOCKS * 4 / DQ_WARPS;
    static constexpr int DQ_SHARED = 2 * 2 * DQ_MET * ROW;

    /* narrow: k, v, 2 stages of q and d_o; wide: 3 stages, 2 tiles of probabilities, whose memory
     * first holds k and v; the numbers of each stage */
    static constexpr int DKV_WARPS = NARROW ? 4 : 8, DKV_STAGES = NARROW ? 2 : 3;
    static constexpr int DKV_MET = 32, DKV_SUB = 16;
    static constexpr int DKV_BLOCKS = BLOCKS * 4 / DKV_WARPS;
    static constexpr int DKV_TILE = OWNED * DKV_MET * 4;    /* bytes of probabilities */
    static constexpr int DKV_BEFORE =                       /* bytes before the numbers */
        DKV_STAGES * 2 * DKV_MET * ROW + 2 * (NARROW ? OWNED * ROW : DKV_TILE);
    static constexpr int DKV_SHARED = DKV_BEFORE + DKV_STAGES * 2 * DKV_MET * 4;

    static_assert(OWNED != 128 || (FWD_SHARED == CUDA_ATTENTION_SHARED(D) &&
                                   DQ_SHARED == CUDA_ATTENTION_SHARED(D)));
    static_assert(OWNED != 128 || !NARROW || DKV_SHARED == CUDA_ATTENTION_DKV_SHARED(D));
};

/* ---- shared memory ---- */

/* Begins to copy ROWS rows `row` elements apart to shared memory; zeros from row `n` on. The lanes
 * of a row are a power of two: of a thread's addresses all but one are that one plus a constant. */
template <int D, int ROWS, int THREADS>
static __device__ __forceinline__ void attention_rows_begin_(SharedAddress to, const act_t *from,
                                                             int row, int n,
                                                             int thread = (int)threadIdx.x)
{
    constexpr int PARTS = D / 8, LANES = PARTS & -PARTS, PASS = THREADS / LANES;
    constexpr bool NARROW = AttentionMma<D>::NARROW;    /* the same condition, fewer registers */
    const int r = thread / LANES, part = thread % LANES;
    const SharedAddress at = to + r * AttentionMma<D>::ROW + part * 16;
    const int left = n - r;
    from += r * row + part * 8;
    if (PASS > ROWS && r >= ROWS)
        return;
#pragma unroll
    for (int pass = 0; pass < ROWS; pass += PASS, from += PASS * row)
#pragma unroll
        for (int i = 0; i < PARTS; i += LANES)
            copy16_async(at + pass * AttentionMma<D>::ROW + i * 16, from + i * 8,
                         (NARROW ? pass + r < n : pass < left) ? 16 : 0);
}

/* The same for MET rows and for as many that are `apart` elements further on: a group of copies. */
template <int D, int MET, int THREADS>
static __device__ __forceinline__ void attention_pair_begin_(SharedAddress to, const act_t *from,
                                                             int64_t apart, int row, int n)
{
    attention_rows_begin_<D, MET, THREADS>(to, from, row, n);
    attention_rows_begin_<D, MET, THREADS>(to + MET * AttentionMma<D>::ROW, from + apart, row, n);
    copy_commit();
}

/* ---- products of a warp: 16 BANDS rows ---- */

/* Fragments a of whole rows. */
template <int D, int BANDS>
static __device__ __forceinline__ void attention_hold_(unsigned held[BANDS][D / 16][4],
                                                       SharedAddress rows)
{
    const int lane = (int)threadIdx.x % WARP;
    const SharedAddress at = rows + matrices_down(lane, AttentionMma<D>::ROW);
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
    const int lane = (int)threadIdx.x % WARP;
    const SharedAddress at_a = own + matrices_down(lane, AttentionMma<D>::ROW),
                        at_b = met + matrices_across(lane, AttentionMma<D>::ROW);
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
                product_act(s[m][2 * n], a[m], b[0], b[1]);
                product_act(s[m][2 * n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

/* y (BANDS, D / 8) += p (own rows, N) times the N rows at `met`; p rounded to act_t. MARKED: a
 * negative p counts as 0. */
template <int D, int BANDS, int N, bool MARKED = false>
static __device__ __forceinline__ void attention_sums_(float y[BANDS][D / 8][4],
                                                       const float p[BANDS][N / 8][4],
                                                       SharedAddress met)
{
    typedef AttentionMma<D> M;
    const int lane = (int)threadIdx.x % WARP;
    const SharedAddress at = met + matrices_down(lane, AttentionMma<D>::ROW);
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        unsigned a[BANDS][4], b[4];
#pragma unroll
        for (int m = 0; m < BANDS; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *pair = p[m][2 * k + i / 2] + i % 2 * 2;
                a[m][i] = MARKED ? act_pack(fmaxf(pair[0], 0.0f), fmaxf(pair[1], 0.0f))
                                 : act_pack(pair[0], pair[1]);
            }
#pragma unroll
        for (int n = 0; n < M::STEPS; n++) {
            matrices_load_transposed(b, at + k * 16 * M::ROW + n * 32);
#pragma unroll
            for (int m = 0; m < BANDS; m++) {
                product_act(y[m][2 * n], a[m], b[0], b[1]);
                product_act(y[m][2 * n + 1], a[m], b[2], b[3]);
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

/* The first n rows of y, times the factor of each, to global memory, `row` elements apart, by way
 * of shared memory that only this warp uses. */
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

/* ---- documents ---- */

/* The spans of the rows of a block are in shared memory (OWNED): few tiles need them, and registers
 * are full. Of the warps of a block, those past the last row own the first rows again. Returns true
 * if one of ROWS rows of this warp attends to one of the N rows from `met` on. */
template <int ROWS, int N>
static __device__ __forceinline__ bool attention_meets_(const AttentionSpan *spans, int met)
{
    spans += thread_anew() / WARP * ROWS % ATTENTION_ROWS;
    return met + N > spans[0].begin && met < spans[ROWS - 1].end;
}

/* Masks (sets to ATTENTION_NONE) the scores of rows met.. (columns) outside the own row's span. */
template <int BANDS, int N>
static __device__ __forceinline__ void attention_mask_spans_(float s[BANDS][N / 8][4],
                                                             const AttentionSpan *spans, int met)
{
    const int thread = thread_anew();
    spans += thread / WARP * (16 * BANDS) % ATTENTION_ROWS;
    if (met >= spans[16 * BANDS - 1].begin && met + N <= spans[0].end)
        return;
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const AttentionSpan span = spans[16 * m + thread % WARP / 4 + 8 * r];
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 2 * r; i < 2 * r + 2; i++) {
                    const int at = met + attention_c_column_(n, i);
                    if (at < span.begin || at >= span.end)
                        s[m][n][i] = ATTENTION_NONE;
                }
        }
}

/* ---- limits ---- */

/* A block's walk over the keys, in tiles of MET: from key 0 up to the largest limit of the block's
 * rows, then the tiles of the rows themselves. The limits are in shared memory, like the spans
 * above. */
template <int MET> struct AttentionWalk {
    int most, rows, end;         /* the largest limit; where the rows begin, a multiple of MET */

    __device__ __forceinline__ int begin() const { return most > 0 ? 0 : rows; }
    __device__ __forceinline__ int next(int met) const
    {
        met += MET;
        return met >= most && met < rows ? rows : met;
    }
};

/* Called by all threads of the block. Limits must not exceed 2^24, as their maximum is taken in
 * fp32. */
template <int OWNED, int MET, typename Docs>
static __device__ __forceinline__ AttentionWalk<MET> attention_walk_(int *limits, const Docs &docs,
                                                                    int i0, int T)
{
    const int thread = (int)threadIdx.x;
    const int limit = thread < OWNED ? docs.limit(i0 + thread) : 0;
    if (thread < OWNED)
        limits[thread] = limit;
    const int most = (int)block_max((float)limit);       /* its barriers publish limits */
    return {most, i0, min(T, max(most, i0 + OWNED))};
}

/* Returns true if one of the warp's rows, ROWS from `first` on, attends to one of the N rows from
 * `met` on. */
template <int ROWS, int N>
static __device__ __forceinline__ bool attention_meets_limits_(const int *limits, int first,
                                                               int met)
{
    const int thread = thread_anew(), r = thread % WARP % ROWS;
    return (met < first + ROWS && met + N > first) ||
           __any_sync(0xffffffffu, met < limits[thread / WARP * ROWS + r]);
}

/* Masks the scores of rows met.. (columns) that are neither before the limit of the own row nor
 * that row. */
template <int BANDS, int N>
static __device__ __forceinline__ void attention_mask_limits_(float s[BANDS][N / 8][4],
                                                              const int *limits, int first, int met)
{
    const int thread = thread_anew();
    limits += thread / WARP * (16 * BANDS);
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = 16 * m + thread % WARP / 4 + 8 * r, limit = limits[row];
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 2 * r; i < 2 * r + 2; i++) {
                    const int at = met + attention_c_column_(n, i);
                    if (at >= limit && at != first + row)
                        s[m][n][i] = ATTENTION_NONE;
                }
        }
}

/* Returns true if one of N queries from `met` on, with these limits, attends to a key of ROWS from
 * `first` on. */
template <int ROWS, int N>
static __device__ __forceinline__ bool attention_met_(const int *limits, int first, int met)
{
    static_assert(N == WARP, "a lane a query");
    return (met < first + ROWS && met + N > first) ||
           __any_sync(0xffffffffu, limits[threadIdx.x % WARP] > first);
}

/* Masks the scores of queries first_query.. (columns), with these limits, that do not attend to a
 * key (row). */
template <int BANDS, int N>
static __device__ __forceinline__ void
attention_mask_limited_(float s[BANDS][N / 8][4], const int *limits, int first_key, int first_query)
{
#pragma unroll
    for (int n = 0; n < N / 8; n++)
#pragma unroll
        for (int m = 0; m < BANDS; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int column = attention_c_column_(n, i);
                const int key = first_key + attention_c_row_(m, i);
                if (key >= limits[column] && key != first_query + column)
                    s[m][n][i] = ATTENTION_NONE;
            }
}

/* ---- a hole ---- */

/* First key of the tile to visit after one that ends at `next`. If queries i0.. all come after the
 * hole, the tiles that lie entirely within it are skipped. */
template <int MET>
static __device__ __forceinline__ int attention_past_(AttentionSpan hole, int i0, int next)
{
    const bool within = i0 >= hole.end && next >= hole.begin;
    return within ? max(next, hole.end / MET * MET) : next;
}

/* Masks the scores of rows first_row.. and columns first_column.. whose query comes after the hole
 * and whose key lies in it. KEYS: rows are keys and columns queries; else the other way round. */
template <int BANDS, int N, bool KEYS>
static __device__ __forceinline__ void attention_mask_hole_(float s[BANDS][N / 8][4],
                                                            AttentionSpan hole, int first_row,
                                                            int first_column)
{
    const int keys = KEYS ? first_row : first_column, queries = KEYS ? first_column : first_row;
    if (keys >= hole.end || keys + (KEYS ? 16 * BANDS : N) <= hole.begin ||
        queries + (KEYS ? N : 16 * BANDS) <= hole.end)
        return;
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int r = first_row + attention_c_row_(m, i);
                const int c = first_column + attention_c_column_(n, i);
                const int key = KEYS ? r : c, query = KEYS ? c : r;
                if (query >= hole.end && key >= hole.begin && key < hole.end)
                    s[m][n][i] = ATTENTION_NONE;
            }
}

/* ---- dropout ---- */

/* Sets dropped elements of s, rows first.. (queries) and columns met.. (keys, a multiple of 4), to
 * 0 and multiplies the others by `scale`. In a tile of 8 keys a pair of lanes has two quads, rows 8
 * apart; each lane draws one. */
template <int BANDS, int N>
static __device__ __forceinline__ void
attention_drop_keys_(float s[BANDS][N / 8][4], const AttentionDrop<true> &drop, int T, int b,
                     int head, int first, int met, float scale)
{
    const int lane = (int)threadIdx.x % WARP, odd = lane & 1;
#pragma unroll
    for (int m = 0; m < BANDS; m++) {
        uint32_t own = 0, row[2];
#pragma unroll 1
        for (int n = 0; n < N / 8; n++)
            own |= drop.quad(T, b, head, first + 16 * m + lane / 4 + 8 * odd,
                             met + 8 * n + (lane & 2) * 2) << 4 * n;
        const uint32_t other = __shfl_xor_sync(0xffffffffu, own, 1);
        row[0] = (odd ? other : own) >> 2 * odd;
        row[1] = (odd ? own : other) >> 2 * odd;
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[m][n][i] = row[i / 2] >> (4 * n + i % 2) & 1 ? s[m][n][i] * scale : 0.0f;
    }
}

/* Negates dropped elements of p, rows first.. (keys) and columns met.. (queries), which needs no
 * registers until p is used. In a tile of 8 queries four lanes with the same columns, of adjacent
 * rows, share four quads of keys: rows 8 apart, two columns; each lane draws one. */
template <int BANDS, int N>
static __device__ __forceinline__ void
attention_mark_dropped_(float p[BANDS][N / 8][4], const AttentionDrop<true> &drop, int T, int b,
                        int head, int first, int met)
{
    static_assert(BANDS * N / 8 <= 8, "bits of a word");
    const int lane = thread_anew() % WARP, k = lane / 4 % 4;
    const int t = met + lane % 4 * 2 + k % 2, key = first + lane / 16 * 4 + k / 2 * 8;
    uint32_t drawn = 0;
#pragma unroll 1
    for (int n = 0; n < BANDS * N / 8; n++)
        drawn |= drop.quad(T, b, head, t + n % (N / 8) * 8, key + n / (N / 8) * 16) << 4 * n;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int again = thread_anew() % WARP;
        const uint32_t kept =
            __shfl_sync(0xffffffffu, drawn, (again & ~12) | i << 2) >> again / 4 % 4;
#pragma unroll
        for (int m = 0; m < BANDS; m++)
#pragma unroll
            for (int n = 0; n < N / 8; n++)
                p[m][n][i] = kept >> 4 * (m * (N / 8) + n) & 1 ? p[m][n][i] : -p[m][n][i];
    }
}

/* ---- forward ---- */

/* The sums of a row are rescaled when its scores, times log2 e, exceed `top` by more than this: the
 * terms are then at most 2^8, and few tiles rescale. */
#define ATTENTION_SLACK 8.0f

/* Extends the softmax by N keys: raises top to the largest score so far where that exceeds it by
 * more than ATTENTION_SLACK, rescales y and sum to it, replaces the scores s by 2^(c s - c top) and
 * adds these to sum, which covers this lane's columns only. What a row gets does not depend on the
 * other rows of the warp: without a rise its factor is 1. */
template <int D, int BANDS, int N>
static __device__ __forceinline__ void
attention_softmax_(float s[BANDS][N / 8][4], float y[BANDS][D / 8][4], float top[BANDS][2],
                   float sum[BANDS][2], float c)
{
    float shrink[BANDS][2];
    bool rises = false;
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
            const bool rise = (now - top[m][r]) * c > ATTENTION_SLACK;
            shrink[m][r] = rise ? exp2_approx((top[m][r] - now) * c) : 1.0f;
            top[m][r] = rise ? now : top[m][r];
            rises |= rise;
        }
    if (__any_sync(0xffffffffu, rises)) {
#pragma unroll
        for (int m = 0; m < BANDS; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                sum[m][r] *= shrink[m][r];
#pragma unroll
                for (int d = 0; d < D / 8; d++) {
                    y[m][d][2 * r] *= shrink[m][r];
                    y[m][d][2 * r + 1] *= shrink[m][r];
                }
            }
    }
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float minus = -top[m][r] * c;
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int i = 2 * r; i < 2 * r + 2; i++) {
                    s[m][n][i] = exp2_approx(s[m][n][i] * c + minus);
                    sum[m][r] += s[m][n][i];
                }
        }
}

/* Exclusive end of the keys that at least one query of the warp's rows, first_row on, sees; 0 if
 * the rows hold no query. */
template <int ROWS, bool CAUSAL>
static __device__ __forceinline__ int attention_end_(int first_row, int T)
{
    return first_row >= T ? 0 : CAUSAL ? min(T, first_row + ROWS) : T;
}

/* Scores of keys first_key.. (columns) that a query (row) does not see, or that do not exist. */
template <int BANDS, int N, bool CAUSAL>
static __device__ __forceinline__ void attention_mask_(float s[BANDS][N / 8][4], int first_row,
                                                       int first_key, int T)
{
    if (first_key + N <= (CAUSAL ? min(T, first_row + 1) : T))
        return;
#pragma unroll
    for (int m = 0; m < BANDS; m++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int row = first_row + attention_c_row_(m, i);
                if (first_key + attention_c_column_(n, i) >= (CAUSAL ? min(T, row + 1) : T))
                    s[m][n][i] = ATTENTION_NONE;
            }
}

template <int D, int ROWS, AttentionMask MASK, typename DROP>
static __device__ __forceinline__ void
attention_fwd_mma(act_t *__restrict__ o, float *__restrict__ lse, const act_t *__restrict__ qkv,
                  int T, int H, int K, float scale, const int32_t *__restrict__ positions,
                  const int32_t *__restrict__ doc_ends, DROP drop)
{
    constexpr bool DOCS = AttentionDocs<MASK>::DOCS;
    typedef AttentionMma<D, ROWS> M;
    constexpr int WARPS = M::FWD_WARPS, THREADS = WARPS * WARP, MET = M::FWD_MET;
    constexpr int BANDS = M::OWNED / WARPS / 16, STAGE = 2 * MET * M::ROW;
    constexpr bool HELD = M::NARROW, STAGES = M::NARROW;
    DYNAMIC_SHARED(act_t, memory);
    const SharedAddress at = shared_address(memory), q_at = HELD ? at + STAGE : at,
                        stages = HELD ? at : at + M::OWNED * M::ROW;
    const int h = (int)blockIdx.x, own = (int)threadIdx.x / WARP * BANDS * 16;
    const int i0 = (int)(gridDim.z - 1 - blockIdx.z) * M::OWNED;
    const int first = i0 + own;
    const int own_end = attention_end_<BANDS * 16, AttentionDocs<MASK>::CAUSAL>(first, T);
    const int row = (H + 2 * K) * D;
    const int64_t b = blockIdx.y;
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
    unsigned held[BANDS][HELD ? M::STEPS : 1][4];
    float y[BANDS][M::TILES][4] = {}, top[BANDS][2], sum[BANDS][2] = {}, factor[BANDS][2];
#pragma unroll
    for (int m = 0; m < BANDS; m++)
        top[m][0] = top[m][1] = DOCS || LIMITS || SHARED ? ATTENTION_LEAST : ATTENTION_NONE;
    if (DOCS && (int)threadIdx.x < M::OWNED)
        spans[threadIdx.x] = docs.keys(i0 + (int)threadIdx.x);
    attention_rows_begin_<D, M::OWNED, THREADS>(q_at, qkv + (b * T + i0) * row + h * D, row,
                                                T - i0);
    if constexpr (STAGES) {
        attention_pair_begin_<D, MET, THREADS>(stages, k, K * D, row, T - begin);
    } else {
        attention_rows_begin_<D, MET, THREADS>(stages, k, row, T - begin);
        copy_commit();
    }
    if constexpr (HELD) {
        copy_wait<0>();
        __syncthreads();
        attention_hold_<D, BANDS>(held, q_at + own * M::ROW);
    }
    for (int j0 = begin, stage = 0, next; j0 < end; j0 = next, stage ^= STAGES) {
        const SharedAddress k_at = stages + stage * STAGE, v_at = k_at + MET * M::ROW;
        float s[BANDS][MET / 8][4];
        next = LIMITS   ? walk.next(j0)
               : SHARED ? attention_past_<MET>(hole, i0, j0 + MET)
                        : j0 + MET;
        copy_wait<0>();
        __syncthreads();
        const bool meets =
            DOCS     ? first < T && attention_meets_<BANDS * 16, MET>(spans, j0)
            : LIMITS ? first < T && attention_meets_limits_<BANDS * 16, MET>(limits, first, j0)
                     : j0 < own_end;
        if constexpr (!STAGES) {        // v arrives during the scores, the next k after them
            attention_rows_begin_<D, MET, THREADS>(v_at, k + K * D, row, T - j0,
                                                   thread_anew());
            copy_commit();
            if (meets)
                attention_scores_<D, BANDS, MET, HELD>(s, held, q_at + own * M::ROW, k_at);
            copy_wait<0>();
            __syncthreads();
        }
        if (next < end) {
            k += (LIMITS || SHARED ? next - j0 : MET) * row;
            if constexpr (STAGES) {
                attention_pair_begin_<D, MET, THREADS>(stages + (stage ^ 1) * STAGE, k, K * D, row,
                                                       T - next);
            } else {
                attention_rows_begin_<D, MET, THREADS>(k_at, k, row, T - next,
                                                       thread_anew());
                copy_commit();
            }
        }
        if (!meets)
            continue;
        if constexpr (STAGES)
            attention_scores_<D, BANDS, MET, HELD>(s, held, q_at + own * M::ROW, k_at);
        if constexpr (DOCS)
            attention_mask_spans_<BANDS, MET>(s, spans, j0);
        else if constexpr (LIMITS)
            attention_mask_limits_<BANDS, MET>(s, limits, first, j0);
        else
            attention_mask_<BANDS, MET, CAUSAL>(s, first, j0, T);
        if constexpr (SHARED)
            attention_mask_hole_<BANDS, MET, false>(s, hole, first, j0);
        attention_softmax_<D, BANDS, MET>(s, y, top, sum, c);
        if constexpr (DROP::DROPS)
            attention_drop_keys_<BANDS, MET>(s, drop, T, (int)b, h, first, j0, 1.0f);
        attention_sums_<D, BANDS, MET>(y, s, v_at);
    }
    if constexpr (HELD)
        __syncthreads();        // the results pass through the memory of a stage
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
            if constexpr (DROP::DROPS)
                factor[m][r] *= drop.scale;
            if (threadIdx.x % 4 == 0 && i < T)
                lse[(b * H + h) * T + i] = (top[m][r] * c + log2f(all)) * ATTENTION_LN2;
        }
    attention_store_<D, BANDS>(o + ((b * T + first) * H + h) * D, (int64_t)H * D, T - first,
                               memory + own * M::STRIDE, y, factor);
}

#endif
