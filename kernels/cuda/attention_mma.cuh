/* attention_mma.cuh -- attention on tensor cores: 16-bit products, fp32 sums; D a multiple of 16.
 *
 * In, Out: as attention.cuh; all pointers are multiples of 16.
 * Method: FlashAttention-2 (Dao 2023). A warp owns rows and keeps their sums in registers: the
 *         fragments c of one product are the fragments a of the next.
 *
 * One file, although long: the forward and the two backward kernels are built of the same tile
 * loads, masks and fragments, which no other file uses. */
#ifndef DIECAST_KERNELS_ATTENTION_MMA_CUH
#define DIECAST_KERNELS_ATTENTION_MMA_CUH

#include "attention_f32.cuh"
#include "ptx.cuh"
#include "types.cuh"

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
    static constexpr bool NARROW = D <= 64;          /* registers do for 32 rows a warp, else 16 */
    static constexpr int BLOCKS = D <= 16 ? 3 : 2;   /* of 4 warps, for which registers must do */

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

/* Returns the address that a lane passes to ldmatrix: rows x 16 columns as fragment a, or,
 * transposed, as two b. */
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

/* y (BANDS, D / 8) += p (own rows, N) times the N rows at `met`; p rounded to act_t. MARKED: a
 * negative p counts as 0. */
template <int D, int BANDS, int N, bool MARKED = false>
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
                a[m][i] = MARKED ? act_pack(fmaxf(pair[0], 0.0f), fmaxf(pair[1], 0.0f))
                                 : act_pack(pair[0], pair[1]);
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
            if (first + r < T)
#pragma unroll
                for (int d = 0; d < D / 8; d++)
                    *(float2 *)(parts + (int64_t)r * row + attention_c_column_(d, i)) =
                        make_float2(y[m][d][i] * factor[m][i / 2],
                                    y[m][d][i + 1] * factor[m][i / 2]);
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
 * one computes their probabilities and sums dv, the other, a tile behind, their gradients and dk.
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
