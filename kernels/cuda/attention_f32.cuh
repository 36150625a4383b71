/* attention_f32.cuh -- attention without tensor cores: any storage type, any even head size.
 *
 * In, Out: as attention.cuh, D at most 256, with dropout 128; attention_dq_f32 writes delta,
 *          attention_dkv_f32 reads it.
 * Method: AttentionLanes::LANES lanes share a row (a query, or a key for dk and dv) and hold it in
 *         registers, or HOLDS rows; the rows that the block attends to pass through shared memory,
 *         which sets the pace: a warp needs four cycles to read 16 bytes a lane, even the same
 *         ones, and each row read serves all rows that a lane holds. A warp passes over tiles that
 *         none of its rows attends to. */
#ifndef DIECAST_KERNELS_ATTENTION_F32_CUH
#define DIECAST_KERNELS_ATTENTION_F32_CUH

#include "philox.cuh"
#include "ptx.cuh"
#include "types.cuh"

enum {
    ATTENTION_ROWS = 128,       /* of a block on tensor cores; queries: see kernels.def */
    ATTENTION_THREADS = 128,    /* of a block whose threads hold one row each */
    ATTENTION_TILE = 32,        /* rows in shared memory at a time, of wide heads half */
    ATTENTION_STEP = 8,         /* of them, between two updates of the softmax */
    /* Rows of a thread, forward. Backward two would need so many registers that too few warps are
     * left: measured on an H200. */
    ATTENTION_FWD_ROWS = 2
};

#define ATTENTION_LOG2E 1.4426950408889634f
#define ATTENTION_LN2 0.6931471805599453f
#define ATTENTION_NONE __uint_as_float(0xff800000u)     /* -inf: score of a key that is not seen */
/* The largest score of a query before any key: with documents a tile may come first in which it
 * sees none, and -inf less -inf is no number. Far below any score of finite operands. */
#define ATTENTION_LEAST (-0x1p100f)

/* Positions begin .. end - 1 of a sequence. */
struct __align__(8) AttentionSpan {
    int begin, end;
};

/* Keys that a query attends to. */
enum AttentionMask {
    ATTENTION_CAUSAL,           /* those up to itself */
    ATTENTION_FULL,             /* all */
    ATTENTION_DOCS,             /* those up to itself in its document */
    ATTENTION_DOCS_FULL,        /* all of its document */
    ATTENTION_SHARED,           /* those up to itself; after the hole, without those in it */
    ATTENTION_LENGTH,           /* before the sequence's length those before it; after it: itself */
    ATTENTION_LIMIT             /* those before a limit of its own, and itself */
};

/* The arrays of a mask, NULL where it has none, and dropout of the probabilities. */
struct AttentionRule {
    const int32_t *positions = nullptr; /* docs (B, T): position of a token in its document */
    const int32_t *doc_ends = nullptr;  /* docs (B, T): position after its document's last token */
    const int32_t *kv_limits = nullptr; /* length (B); limit (B, T); from 0 to T */
    /* shared (B, 2): first position, that after the last, <= T */
    const int32_t *prompt_gaps = nullptr;
    const uint32_t *noise = nullptr; /* of dropout, see philox.cuh */
    int32_t site = 0;                /* of dropout, as its op has it */
    float p = 0;                     /* share of the probabilities that is dropped */
};

/* Keys visible to each query of sequence b, whose tokens begin at `first` of (B, T). DOCS: only
 * keys of the query's document, by positions and doc_ends (B, T), see AttentionRule; a t past the
 * end of the sequence is treated as its last one. Neither bound falls as t grows: the keys of a
 * block's rows begin with the span of the first row and end with that of the last.
 * LENGTH, LIMIT: positions are the kv_limits, (B) or (B, T); rows of a block walk past all tiles,
 * or past those before the largest limit and their own.
 * SHARED: positions are the prompt_gaps (B, 2): where a sequence's begins and ends. */
template <AttentionMask MASK> struct AttentionDocs {
    static constexpr bool DOCS = MASK == ATTENTION_DOCS || MASK == ATTENTION_DOCS_FULL;
    static constexpr bool SHARED = MASK == ATTENTION_SHARED, LIMITS = MASK >= ATTENTION_LENGTH;
    static constexpr bool CAUSAL = MASK == ATTENTION_CAUSAL || MASK == ATTENTION_DOCS || SHARED;
    const int32_t *positions, *doc_ends;
    int64_t first;
    int T, b;

    /* Returns the keys that query t attends to. */
    __device__ __forceinline__ AttentionSpan keys(int t) const
    {
        if constexpr (DOCS) {
            t = min(t, T - 1);
            return {t - positions[first + t], CAUSAL ? t + 1 : doc_ends[first + t]};
        } else {
            return {0, CAUSAL ? min(T, t + 1) : T};
        }
    }

    /* Returns the first tile of keys of rows from t on: masks are drawn for whole quads of keys. */
    template <typename DROP> __device__ __forceinline__ int tiles(int t) const
    {
        return DROP::DROPS ? keys(t).begin / 4 * 4 : keys(t).begin;
    }

    /* Returns the queries that attend to key t. */
    __device__ __forceinline__ AttentionSpan queries(int t) const
    {
        if constexpr (DOCS) {
            t = min(t, T - 1);
            return {CAUSAL ? t : t - positions[first + t], doc_ends[first + t]};
        } else if constexpr (SHARED) {
            return {t, t >= positions[2 * b] && t < positions[2 * b + 1] ? positions[2 * b + 1]
                    : T};
        } else {
            return {CAUSAL ? t : 0, T};
        }
    }

    /* Returns the keys that queries from its end on do not attend to. */
    __device__ __forceinline__ AttentionSpan hole() const
    {
        if constexpr (SHARED)
            return {positions[2 * b], positions[2 * b + 1]};
        else
            return {0, 0};
    }

    /* Returns the position after the last query that attends to one of keys t .. t + n - 1. */
    __device__ __forceinline__ int queries_end(int t, int n) const
    {
        const int end = queries(t + n - 1).end;
        return SHARED ? max(end, queries(t).end) : end;
    }

    /* LIMITS: query t attends to the keys before this position, and to itself. After the sequence:
     * to none. */
    __device__ __forceinline__ int limit(int t) const
    {
        if (t >= T)
            return 0;
        if constexpr (MASK == ATTENTION_LENGTH)
            return t < positions[b] ? min(positions[b], T) : 0;
        else
            return min(positions[first + t], T);
    }
};

/* Dropout of the probabilities; false: none. */
template <bool> struct AttentionDrop {
    static constexpr bool DROPS = true;
    const uint32_t *noise;
    uint32_t site, threshold;
    float scale;                 /* of what is kept: 1 / (1 - p) */
    uint32_t *kept;              /* bits that dq hands to dkv, see ATTENTION_HANDS; NULL: none */

    /* Bits 0..3: whether query t of sample b keeps keys key .. key + 3, a multiple of 4. */
    __device__ __forceinline__ uint32_t quad(int T, int b, int head, int t, int key) const
    {
        const uint32_t ctr[4] = {dropout_quad_of_key(T, head, key), (uint32_t)t,
                                 noise[3] + (uint32_t)b, noise[2]};
        const uint32_t seed[2] = {noise[0] ^ site * 0x9E3779B9u, noise[1]};
        uint32_t out[4];
        philox(ctr, seed, out);
        return (out[0] >= threshold) | (out[1] >= threshold) << 1 | (out[2] >= threshold) << 2 |
               (uint32_t)(out[3] >= threshold) << 3;
    }
};

template <> struct AttentionDrop<false> {
    static constexpr bool DROPS = false;
};

/* Draws whose rounds a thread computes side by side: each round waits for the one before. */
enum { ATTENTION_DRAWS = 4 };

/* kept[r]: a bit for each of the ATTENTION_TILE keys from j0 on, a multiple of 4: whether query t
 * of row r keeps it. The lanes of a row divide the quads among them. */
template <int LANES, int HOLDS, typename QUERY>
static __device__ __forceinline__ void
attention_kept_keys_(uint32_t (&kept)[HOLDS], const AttentionDrop<true> &drop, int T, int b,
                     int head, const QUERY (&query)[HOLDS], int j0)
{
#pragma unroll(ATTENTION_DRAWS / HOLDS)
    for (int k = 0; k < ATTENTION_TILE; k += 4 * LANES)
#pragma unroll
        for (int r = 0; r < HOLDS; r++) {
            const int q = k + (int)threadIdx.x % LANES * 4;
            kept[r] |= drop.quad(T, b, head, query[r].t, j0 + q) << q;
        }
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
#pragma unroll
        for (int r = 0; r < HOLDS; r++)
            kept[r] |= __shfl_xor_sync(0xffffffffu, kept[r], step);
}

/* A bit for each of the ATTENTION_TILE queries from i0 on: whether it keeps key j. The rows of the
 * keys of a quad lie side by side in a warp; their lanes divide the queries among them. */
template <int LANES>
static __device__ __forceinline__ uint32_t
attention_kept_queries_(const AttentionDrop<true> &drop, int T, int b, int head, int i0, int j)
{
    uint32_t kept[4] = {};
#pragma unroll(ATTENTION_DRAWS)
    for (int first = 0; first < ATTENTION_TILE; first += 4 * LANES) {
        const int i = first + (int)threadIdx.x % (4 * LANES);
        const uint32_t quad = drop.quad(T, b, head, i0 + i, j / 4 * 4);
#pragma unroll
        for (int k = 0; k < 4; k++)
            kept[k] |= (quad >> k & 1) << i;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int step = 2 * LANES; step > 0; step /= 2)
            kept[k] |= __shfl_xor_sync(0xffffffffu, kept[k], step);
    return j % 4 == 0 ? kept[0] : j % 4 == 1 ? kept[1] : j % 4 == 2 ? kept[2] : kept[3];
}

/* True if dq stores the draws of attention_kept_keys_ for dkv: only for masks whose tiles begin at
 * multiples of ATTENTION_TILE and for which dq visits the tile of every pair that dkv needs. */
template <AttentionMask MASK, int LANES>
static constexpr bool ATTENTION_HANDS =
    LANES == 1 && (MASK == ATTENTION_CAUSAL || MASK == ATTENTION_FULL);

/* The word of query t and of the tile of key j in AttentionDrop.kept. */
static __device__ __forceinline__ int64_t attention_kept_word_(int T, int H, int b, int head, int t,
                                                               int j)
{
    const int tiles = (T + ATTENTION_TILE - 1) / ATTENTION_TILE;
    return (((int64_t)b * H + head) * T + t) * tiles + j / ATTENTION_TILE;
}

/* Transposes the 32 x 32 bits of which lane l gives row l. */
static __device__ __forceinline__ uint32_t attention_bits_turned_(uint32_t row)
{
    uint32_t low = 0x0000ffffu;          /* bits of the lower half of each block */
#pragma unroll
    for (int step = 16; step > 0; step /= 2, low ^= low << step) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, row, step);
        row = threadIdx.x & step ? (row & ~low) | (other >> step & low)
                                 : (row & low) | (other & low) << step;
    }
    return row;
}

/* A row of D elements over its lanes: chunk c of lane l begins at element (c LANES + l) WIDTH, so
 * that the lanes' chunks lie side by side in shared memory. Elements D.. are zero. */
template <int D, int MOST = 1> struct AttentionLanes {
    static constexpr int LANES =
        D <= CUDA_ATTENTION_LANE ? 1 : D <= 32 ? 2 : D <= 64 ? 4 : D <= 128 ? 8 : 16;
    static constexpr int WIDTH = D % 4 ? 2 : 4;
    static constexpr int CHUNKS = (D + LANES * WIDTH - 1) / (LANES * WIDTH);
    static constexpr int HELD = CHUNKS * WIDTH;          /* elements of a lane */
    static constexpr int PADDED = HELD * LANES;
    static constexpr int ROWS = ATTENTION_THREADS / LANES;   /* of a block */
    static constexpr int HOLDS = HELD == 16 ? MOST : 1;      /* rows of a thread */
    static constexpr int THREADS = ATTENTION_THREADS / HOLDS, WARP_ROWS = WARP / LANES;
    /* rows in shared memory at a time, of which 48 KB need no asking */
    static constexpr int TILE = D <= 128 ? ATTENTION_TILE : ATTENTION_TILE / 2;

    /* Row r of this thread in its block: the rows of a warp lie side by side. */
    static __device__ __forceinline__ int row(int r)
    {
        const int warp = (int)threadIdx.x / WARP;
        return (warp * HOLDS + r) * WARP_ROWS + (int)threadIdx.x % WARP / LANES;
    }

    /* The first row of this thread's warp, and the last. */
    static __device__ __forceinline__ int first_row()
    {
        return (int)threadIdx.x / WARP * HOLDS * WARP_ROWS;
    }
    static __device__ __forceinline__ int last_row()
    {
        return first_row() + HOLDS * WARP_ROWS - 1;
    }
};

/* 2 elements one by one, 4 or 16 bytes of them at once: rows begin at multiples of D elements, and
 * WIDTH divides D. */
template <int WIDTH>
static __device__ __forceinline__ void attention_load_(float *x, const act_t *p)
{
    if constexpr (WIDTH == ACT_VECTOR) {
        act_load_vector(x, p);
    } else if constexpr (WIDTH == 4) {
        act_load4(x, p);
    } else {
        x[0] = act_load(p);
        x[1] = act_load(p + 1);
    }
}

/* x[HELD] = factor * this lane's part of a row; zeros where the row does not exist. */
template <int D>
static __device__ __forceinline__ void attention_row_load_(float *x, const act_t *row, bool exists,
                                                           float factor)
{
    typedef AttentionLanes<D> L;
    const int lane = threadIdx.x % L::LANES;
#pragma unroll
    for (int c = 0; c < L::CHUNKS; c++) {
        const int d = (c * L::LANES + lane) * L::WIDTH;
        float *part = x + c * L::WIDTH;
#pragma unroll
        for (int e = 0; e < L::WIDTH; e++)
            part[e] = 0.0f;
        if (exists && d < D)
            attention_load_<L::WIDTH>(part, row + d);
#pragma unroll
        for (int e = 0; e < L::WIDTH; e++)
            part[e] *= factor;
    }
}

template <int D>
static __device__ __forceinline__ void attention_row_store_(act_t *row, const float *x,
                                                            float factor)
{
    typedef AttentionLanes<D> L;
    const int lane = threadIdx.x % L::LANES;
#pragma unroll
    for (int c = 0; c < L::CHUNKS; c++)
#pragma unroll
        for (int e = 0; e < L::WIDTH; e++) {
            const int d = (c * L::LANES + lane) * L::WIDTH + e;
            if (d < D)
                act_store(row + d, x[c * L::WIDTH + e] * factor);
        }
}

/* tile (TILE, PADDED) = rows `row` apart; zeros from row `n` on. */
template <int D>
static __device__ __forceinline__ void attention_tile_load_(float *tile, const act_t *from,
                                                            int64_t row, int n)
{
    typedef AttentionLanes<D> L;
    constexpr int WIDTH = L::WIDTH, PARTS = L::PADDED / WIDTH;
    for (int i = (int)threadIdx.x; i < L::TILE * PARTS; i += (int)blockDim.x) {
        const int r = i / PARTS, d = i % PARTS * WIDTH;
        float x[WIDTH] = {};
        if (r < n && d < D)
            attention_load_<WIDTH>(x, from + r * row + d);
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
            tile[r * L::PADDED + d + e] = x[e];
    }
}

/* This lane's part of a row of a tile. */
template <int D> static __device__ __forceinline__ void attention_part_(float *x, const float *row)
{
    typedef AttentionLanes<D> L;
    const int lane = threadIdx.x % L::LANES;
#pragma unroll
    for (int c = 0; c < L::CHUNKS; c++) {
        const float *from = row + (c * L::LANES + lane) * L::WIDTH;
        if constexpr (L::WIDTH == 4) {
            f32_load4(x + 4 * c, from);
        } else {
            const float2 v = *(const float2 *)from;
            x[2 * c] = v.x, x[2 * c + 1] = v.y;
        }
    }
}

template <int D>
static __device__ __forceinline__ float attention_dot_(const float *a, const float *b)
{
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < AttentionLanes<D>::HELD; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Sum over the lanes of a row, the same bits in each. */
template <int D> static __device__ __forceinline__ float attention_lane_sum_(float x)
{
#pragma unroll
    for (int step = AttentionLanes<D>::LANES / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

template <int D>
static __device__ __forceinline__ void attention_add_(float *y, float p, const float *x)
{
#pragma unroll
    for (int i = 0; i < AttentionLanes<D>::HELD; i++)
        y[i] += p * x[i];
}

/* Query t of sequence b, which this thread holds, as the tile of n rows from j0 on sees it. */
template <AttentionMask MASK> struct AttentionQuery {
    typedef AttentionDocs<MASK> Docs;
    int t, begin, end;          /* it attends to these keys; LIMITS: and to itself */
    bool after;                 /* SHARED: comes after the hole */

    AttentionQuery() = default;
    __device__ __forceinline__ AttentionQuery(const Docs &docs, int t_)
        : t(t_), begin(docs.keys(t_).begin),
          end(Docs::LIMITS ? docs.limit(t_) : docs.keys(t_).end),
          after(Docs::SHARED && t_ >= docs.hole().end)
    {
    }

    /* True if it attends to key j0 + j; n: keys of the tile. */
    __device__ __forceinline__ bool meets(int j, int j0, int n, AttentionSpan hole) const
    {
        const int unseen = Docs::DOCS ? begin - j0 : 0, seen = min(n, end - j0);
        bool met = (j >= unseen && j < seen) || (Docs::LIMITS && j == t - j0);
        if constexpr (Docs::SHARED)
            met &= j < (after ? hole.begin - j0 : n) || j >= hole.end - j0;
        return met;
    }

    /* LIMITS: true if it attends to any of them. */
    __device__ __forceinline__ bool needs(int j0, int n) const
    {
        return end > j0 || (t >= j0 && t < j0 + n);
    }
};

/* True if no query of the block from i0 on attends to the tile of n keys from j0 on; all threads of
 * the block call it. Only limits and holes skip tiles between others. */
template <AttentionMask MASK, int HOLDS>
static __device__ __forceinline__ bool
attention_skips_(const AttentionQuery<MASK> (&query)[HOLDS], int i0, int j0, int n,
                 AttentionSpan hole)
{
    if constexpr (AttentionDocs<MASK>::LIMITS) {
        bool needs = false;
#pragma unroll
        for (int r = 0; r < HOLDS; r++)
            needs |= query[r].needs(j0, n);
        return !__syncthreads_or(needs);
    } else {
        return AttentionDocs<MASK>::SHARED && i0 >= hole.end && j0 >= hole.begin &&
               j0 + n <= hole.end;
    }
}

/* grid (H, B, blocks of queries): the blocks with the most keys, which are the last, run first */
template <int D, AttentionMask MASK, typename DROP>
static __device__ __forceinline__ void
attention_fwd_f32(act_t *__restrict__ o, float *__restrict__ lse, const act_t *__restrict__ qkv,
                  int T, int H, int K, float scale, const int32_t *__restrict__ positions,
                  const int32_t *__restrict__ doc_ends, DROP drop)
{
    typedef AttentionLanes<D, ATTENTION_FWD_ROWS> L;
    typedef AttentionDocs<MASK> Docs;
    __shared__ __align__(16) float keys[L::TILE * L::PADDED];
    __shared__ __align__(16) float values[L::TILE * L::PADDED];
    const int h = (int)blockIdx.x, i0 = (int)(gridDim.z - 1 - blockIdx.z) * L::ROWS;
    const int64_t row = (int64_t)(H + 2 * K) * D, b = blockIdx.y;
    const act_t *k = qkv + b * T * row + (H + h / (H / K)) * D, *v = k + K * D;
    const Docs docs = {positions, doc_ends, b * T, T, (int)b};
    const AttentionSpan hole = docs.hole();
    const int begin = docs.template tiles<DROP>(i0), end = docs.keys(i0 + L::ROWS - 1).end;
    const int warp_end = docs.keys(i0 + L::last_row()).end;
    AttentionQuery<MASK> query[L::HOLDS];
    float q[L::HOLDS][L::HELD], y[L::HOLDS][L::HELD] = {}, sum[L::HOLDS] = {}, top[L::HOLDS];
#pragma unroll
    for (int r = 0; r < L::HOLDS; r++) {
        const int i = i0 + L::row(r);
        query[r] = AttentionQuery<MASK>(docs, i);
        top[r] = Docs::DOCS || Docs::LIMITS || Docs::SHARED ? ATTENTION_LEAST : ATTENTION_NONE;
        attention_row_load_<D>(q[r], qkv + (b * T + i) * row + h * D, i < T,
                               scale * ATTENTION_LOG2E);
    }
    for (int j0 = begin; j0 < end; j0 += L::TILE) {
        const int n = min(end - j0, L::TILE);
        if (attention_skips_<MASK, L::HOLDS>(query, i0, j0, n, hole))
            continue;
        __syncthreads();
        attention_tile_load_<D>(keys, k + j0 * row, row, n);
        attention_tile_load_<D>(values, v + j0 * row, row, n);
        __syncthreads();
        if (j0 >= warp_end)
            continue;
        uint32_t kept[L::HOLDS] = {};
        if constexpr (DROP::DROPS)
            attention_kept_keys_<L::LANES>(kept, drop, T, (int)b, h, query, j0);
        for (int j = 0; j < n; j += ATTENTION_STEP) {
            float s[L::HOLDS][ATTENTION_STEP], x[L::HELD], before[L::HOLDS];
#pragma unroll
            for (int r = 0; r < L::HOLDS; r++)
                before[r] = top[r];
#pragma unroll
            for (int u = 0; u < ATTENTION_STEP; u++) {
                attention_part_<D>(x, keys + (j + u) * L::PADDED);
#pragma unroll
                for (int r = 0; r < L::HOLDS; r++) {
                    const float dot = attention_lane_sum_<D>(attention_dot_<D>(q[r], x));
                    s[r][u] = query[r].meets(j + u, j0, n, hole) ? dot : ATTENTION_NONE;
                    top[r] = fmaxf(top[r], s[r][u]);
                }
            }
#pragma unroll
            for (int r = 0; r < L::HOLDS; r++) {
                const float shrink = exp2_approx(before[r] - top[r]);
                sum[r] *= shrink;
#pragma unroll
                for (int e = 0; e < L::HELD; e++)
                    y[r][e] *= shrink;
            }
#pragma unroll
            for (int u = 0; u < ATTENTION_STEP; u++) {
                attention_part_<D>(x, values + (j + u) * L::PADDED);
#pragma unroll
                for (int r = 0; r < L::HOLDS; r++) {
                    const float p = exp2_approx(s[r][u] - top[r]);
                    sum[r] += p;
                    attention_add_<D>(y[r], !DROP::DROPS || kept[r] >> (j + u) & 1 ? p : 0.0f, x);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < L::HOLDS; r++) {
        const int i = query[r].t;
        if (i >= T)
            continue;
        float factor = 1.0f / sum[r];
        if constexpr (DROP::DROPS)
            factor *= drop.scale;
        attention_row_store_<D>(o + ((b * T + i) * H + h) * D, y[r], factor);
        if (threadIdx.x % L::LANES == 0)
            lse[(b * H + h) * T + i] = (top[r] + log2f(sum[r])) * ATTENTION_LN2;
    }
}

/* dq, and delta (B, H, T) = row sums of d_o * o; grid as attention_fwd_f32's */
template <int D, AttentionMask MASK, typename DROP>
static __device__ __forceinline__ void
attention_dq_f32(act_t *__restrict__ dqkv, float *__restrict__ delta, const act_t *__restrict__ d_o,
                 const act_t *__restrict__ o, const float *__restrict__ lse,
                 const act_t *__restrict__ qkv, int T, int H, int K, float scale,
                 const int32_t *__restrict__ positions, const int32_t *__restrict__ doc_ends,
                 DROP drop)
{
    typedef AttentionLanes<D> L;
    typedef AttentionDocs<MASK> Docs;
    __shared__ __align__(16) float keys[L::TILE * L::PADDED];
    __shared__ __align__(16) float values[L::TILE * L::PADDED];
    const int h = (int)blockIdx.x, i0 = (int)(gridDim.z - 1 - blockIdx.z) * L::ROWS;
    const int64_t row = (int64_t)(H + 2 * K) * D, b = blockIdx.y;
    const act_t *k = qkv + b * T * row + (H + h / (H / K)) * D, *v = k + K * D;
    const Docs docs = {positions, doc_ends, b * T, T, (int)b};
    const AttentionSpan hole = docs.hole();
    const int begin = docs.template tiles<DROP>(i0), end = docs.keys(i0 + L::ROWS - 1).end;
    const int warp_end = docs.keys(i0 + L::last_row()).end;
    AttentionQuery<MASK> query[L::HOLDS];
    float q[L::HOLDS][L::HELD], dy[L::HOLDS][L::HELD], dq[L::HOLDS][L::HELD] = {}, x[L::HELD];
    float sum[L::HOLDS], top[L::HOLDS];
#pragma unroll
    for (int r = 0; r < L::HOLDS; r++) {
        const int i = i0 + L::row(r);
        const int64_t oat = ((b * T + i) * H + h) * D;
        query[r] = AttentionQuery<MASK>(docs, i);
        attention_row_load_<D>(q[r], qkv + (b * T + i) * row + h * D, i < T,
                               scale * ATTENTION_LOG2E);
        attention_row_load_<D>(dy[r], d_o + oat, i < T, 1.0f);
        attention_row_load_<D>(x, o + oat, i < T, 1.0f);
        sum[r] = attention_lane_sum_<D>(attention_dot_<D>(dy[r], x));
        top[r] = i < T ? lse[(b * H + h) * T + i] * ATTENTION_LOG2E : 0.0f;
    }
    for (int j0 = begin; j0 < end; j0 += L::TILE) {
        const int n = min(end - j0, L::TILE);
        if (attention_skips_<MASK, L::HOLDS>(query, i0, j0, n, hole))
            continue;
        __syncthreads();
        attention_tile_load_<D>(keys, k + j0 * row, row, n);
        attention_tile_load_<D>(values, v + j0 * row, row, n);
        __syncthreads();
        if (j0 >= warp_end)
            continue;
        uint32_t kept[L::HOLDS] = {};
        if constexpr (DROP::DROPS)
            attention_kept_keys_<L::LANES>(kept, drop, T, (int)b, h, query, j0);
        if constexpr (DROP::DROPS && ATTENTION_HANDS<MASK, L::LANES>) {
#pragma unroll
            for (int r = 0; r < L::HOLDS; r++)
                if (query[r].t < T)
                    drop.kept[attention_kept_word_(T, H, (int)b, h, query[r].t, j0)] = kept[r];
        }
#pragma unroll 4
        for (int j = 0; j < n; j++) {
            float dp[L::HOLDS];
            attention_part_<D>(x, values + j * L::PADDED);
#pragma unroll
            for (int r = 0; r < L::HOLDS; r++) {
                dp[r] = attention_lane_sum_<D>(attention_dot_<D>(dy[r], x));
                if constexpr (DROP::DROPS)
                    dp[r] = kept[r] >> j & 1 ? dp[r] * drop.scale : 0.0f;
            }
            attention_part_<D>(x, keys + j * L::PADDED);
#pragma unroll
            for (int r = 0; r < L::HOLDS; r++) {
                const float s = attention_lane_sum_<D>(attention_dot_<D>(q[r], x));
                const float p = query[r].meets(j, j0, n, hole) ? exp2_approx(s - top[r]) : 0.0f;
                attention_add_<D>(dq[r], p * (dp[r] - sum[r]), x);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < L::HOLDS; r++) {
        const int i = query[r].t;
        if (i >= T)
            continue;
        attention_row_store_<D>(dqkv + (b * T + i) * row + h * D, dq[r], scale);
        if (threadIdx.x % L::LANES == 0)
            delta[(b * H + h) * T + i] = sum[r];
    }
}

/* dk and dv, summed over the query heads of a key head in their order; grid (K, B, blocks of
 * keys) */
template <int D, AttentionMask MASK, typename DROP>
static __device__ __forceinline__ void
attention_dkv_f32(act_t *__restrict__ dqkv, const float *__restrict__ delta,
                  const act_t *__restrict__ d_o, const float *__restrict__ lse,
                  const act_t *__restrict__ qkv, int T, int H, int K, float scale,
                  const int32_t *__restrict__ positions, const int32_t *__restrict__ doc_ends,
                  DROP drop)
{
    typedef AttentionLanes<D> L;
    typedef AttentionDocs<MASK> Docs;
    constexpr bool LIMITS = Docs::LIMITS, ENDS = Docs::DOCS || Docs::SHARED;
    __shared__ __align__(16) float queries[L::TILE * L::PADDED];
    __shared__ __align__(16) float dys[L::TILE * L::PADDED];
    __shared__ float tops[L::TILE], sums[L::TILE];
    __shared__ int limits[L::TILE];               /* LIMITS: of the tile's queries */
    const int kv = (int)blockIdx.x, group = H / K, j0 = (int)blockIdx.z * L::ROWS;
    const int64_t row = (int64_t)(H + 2 * K) * D, orow = (int64_t)H * D, b = blockIdx.y;
    const Docs docs = {positions, doc_ends, b * T, T, (int)b};
    const int begin = docs.queries(j0).begin, end = docs.queries_end(j0, L::ROWS);
    const int warp_begin = docs.queries(j0 + L::first_row()).begin;
    AttentionSpan mine[L::HOLDS];
    float k[L::HOLDS][L::HELD], v[L::HOLDS][L::HELD], dk[L::HOLDS][L::HELD] = {};
    float dv[L::HOLDS][L::HELD] = {}, x[L::HELD], y[L::HELD];
#pragma unroll
    for (int r = 0; r < L::HOLDS; r++) {
        const int j = j0 + L::row(r);
        const int64_t at = (b * T + j) * row + (H + kv) * D;
        mine[r] = docs.queries(j);
        attention_row_load_<D>(k[r], qkv + at, j < T, scale * ATTENTION_LOG2E);
        attention_row_load_<D>(v[r], qkv + at + K * D, j < T, 1.0f);
    }
    for (int h = kv * group; h < (kv + 1) * group; h++)
        for (int i0 = begin; i0 < end; i0 += L::TILE) {
            const int n = min(end - i0, L::TILE), t = (int)threadIdx.x;
            const int limit = LIMITS && t < n ? docs.limit(i0 + t) : 0;
            const bool own = i0 + t >= j0 && i0 + t < j0 + L::ROWS;
            if (LIMITS && !__syncthreads_or(t < n && (limit > j0 || own)))
                continue;
            __syncthreads();
            attention_tile_load_<D>(queries, qkv + (b * T + i0) * row + h * D, row, n);
            attention_tile_load_<D>(dys, d_o + (b * T + i0) * orow + h * D, orow, n);
            if (t < n) {
                tops[t] = lse[(b * H + h) * T + i0 + t] * ATTENTION_LOG2E;
                sums[t] = delta[(b * H + h) * T + i0 + t];
                if constexpr (LIMITS)
                    limits[t] = limit;
            }
            __syncthreads();
            if (i0 + n <= warp_begin)
                continue;
            uint32_t kept[L::HOLDS] = {};
            if constexpr (DROP::DROPS && ATTENTION_HANDS<MASK, L::LANES>) {
#pragma unroll
                for (int r = 0; r < L::HOLDS; r++) {
                    const int lane = t % WARP, j = j0 + L::row(r) - lane;
                    const bool there = lane < n && j < T;
                    kept[r] = attention_bits_turned_(
                        there ? drop.kept[attention_kept_word_(T, H, (int)b, h, i0 + lane, j)] : 0);
                }
            } else if constexpr (DROP::DROPS) {
                for (int r = 0; r < L::HOLDS; r++)
                    kept[r] = attention_kept_queries_<L::LANES>(drop, T, (int)b, h, i0,
                                                                j0 + L::row(r));
            }
#pragma unroll 4
            for (int i = 0; i < n; i++) {
                attention_part_<D>(x, queries + i * L::PADDED);
                attention_part_<D>(y, dys + i * L::PADDED);
#pragma unroll
                for (int r = 0; r < L::HOLDS; r++) {
                    const float s = attention_lane_sum_<D>(attention_dot_<D>(k[r], x));
                    float dp = attention_lane_sum_<D>(attention_dot_<D>(v[r], y));
                    if constexpr (DROP::DROPS)
                        dp = kept[r] >> i & 1 ? dp * drop.scale : 0.0f;
                    const int j = j0 + L::row(r);
                    const bool met =
                        LIMITS ? j < limits[i] || i0 + i == j
                               : i0 + i >= mine[r].begin && (!ENDS || i0 + i < mine[r].end);
                    const float p = met ? exp2_approx(s - tops[i]) : 0.0f;
                    attention_add_<D>(dv[r], !DROP::DROPS || kept[r] >> i & 1 ? p : 0.0f, y);
                    attention_add_<D>(dk[r], p * (dp - sums[i]), x);
                }
            }
        }
#pragma unroll
    for (int r = 0; r < L::HOLDS; r++) {
        const int j = j0 + L::row(r);
        if (j >= T)
            continue;
        const int64_t at = (b * T + j) * row + (H + kv) * D;
        float factor = 1.0f;
        if constexpr (DROP::DROPS)
            factor = drop.scale;
        attention_row_store_<D>(dqkv + at, dk[r], scale);
        attention_row_store_<D>(dqkv + at + K * D, dv[r], factor);
    }
}

#endif
