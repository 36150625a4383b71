/* rows.cuh -- thread layout for rows of C elements: vectors of W across x, rows across y.
 *
 * Keeps: a thread holds ROW_HELD<W> elements of a row, in vectors blockDim.x apart; a row
 *        longer than the block holds is processed in rounds and read again. Norms load rows of
 *        whole vectors that a block holds ahead, K = held_vectors(C) vectors a thread. Summation
 *        order: fixed by C; over rows, by parts.
 * Method: W is 16 bytes of act_t if C is a multiple of it, else 1. */
#ifndef DIECAST_KERNELS_CUDA_ROWS_CUH
#define DIECAST_KERNELS_CUDA_ROWS_CUH

#include "philox.cuh"
#include "ptx.cuh"
#include "types.cuh"
#include "workspace.h"

enum {
    ROW_THREADS = 512,               /* threads of a block, at most */
    ROW_BLOCK = 128,                 /* threads of a block of short rows */
    HELD_BLOCK = 256,                /* the same of rows that are loaded ahead */
    GRAD_STAGES = 3,                 /* rows of a RowRing, at most */
    GRAD_RING_BYTES = 96 << 10,      /* shared memory of a RowRing, at most: sm_86 has 99 KiB */
    ROW_WARPS = ROW_THREADS / 32,
    PART_LANES = 32,                 /* columns per block of part_sum_kernel */
    PART_GROUPS = 8                  /* ranges of parts that it sums separately */
};

/* Vector width W for rows of C elements. */
static __host__ __device__ constexpr int row_width(int64_t C)
{
    return C % ACT_VECTOR == 0 ? ACT_VECTOR : 1;
}

/* Elements held by a thread: 2 vectors of 16-bit elements, 4 of fp32, 4 single ones. */
template <int W>
constexpr int ROW_HELD = W == 1 ? 4 : 16;

/* Threads per row: whole warps, or 1, 2, 4 .. of a warp that has several short rows. */
static __host__ __device__ constexpr int row_threads(int64_t C)
{
    const int held = row_width(C) == 1 ? ROW_HELD<1> : ROW_HELD<ACT_VECTOR>;
    const int64_t wanted = (C + held - 1) / held, whole = (wanted + WARP - 1) / WARP * WARP;
    int threads = 1;
    while (threads < WARP && threads < wanted)
        threads *= 2;
    return wanted <= WARP ? threads : whole < ROW_THREADS ? (int)whole : ROW_THREADS;
}

/* Rows that a block of at most `most` threads holds at a time. */
static __host__ __device__ constexpr int row_groups(int threads, int most)
{
    return threads < most ? most / threads : 1;
}

/* The same for a block with one of `parts` parts of the rows: at most as many as the part has,
 * in whole warps. */
static __host__ __device__ constexpr int row_part_groups(int threads, int64_t rows, int parts,
                                                         int most = ROW_THREADS)
{
    const int64_t part = (rows + parts - 1) / parts;
    const int groups = row_groups(threads, most), warp = row_groups(threads, WARP);
    return part < groups ? (int)((part + warp - 1) / warp * warp) : groups;
}

/* Shared memory of row_join in bytes, in a block of at most ROW_THREADS. */
static __host__ __device__ constexpr int row_join_bytes(int64_t C)
{
    return row_groups(row_threads(C), ROW_THREADS) > 1 ? (int)(4 * C) : 0;
}

#if defined ACT_BF16 || defined ACT_F16
typedef uint4 ActVector;
#else
typedef float4 ActVector;
#endif

/* W elements as they lie in memory: 16 bytes, or one element. */
template <int W> struct RowVector {
    ActVector v;
    __device__ __forceinline__ void load(const act_t *p) { v = *(const ActVector *)p; }
    __device__ __forceinline__ void floats(float *to) const
    {
        act_load_vector(to, (const act_t *)&v);
    }
};
template <> struct RowVector<1> {
    act_t v;
    __device__ __forceinline__ void load(const act_t *p) { v = *p; }
    __device__ __forceinline__ void floats(float *to) const { *to = act_load(&v); }
};

/* Loads a thread's elements: vector k is number at + k * blockDim.x of a row of n. */
template <int W>
struct RowVec {
    ActVector v[ROW_HELD<W> / W];
};
template <>
struct RowVec<1> {
    act_t v[ROW_HELD<1>];
};

/* Elements beyond n become 0. */
template <int W>
static __device__ __forceinline__ void row_load(RowVec<W> &to, const act_t *row, int at, int n)
{
#pragma unroll
    for (int k = 0; k < ROW_HELD<W> / W; k++) {
        const int i = at + k * (int)blockDim.x;
        if constexpr (W == 1)
            to.v[k] = i < n ? row[i] : act_t();
        else
            to.v[k] = i < n ? ((const ActVector *)row)[i] : ActVector();
    }
}

/* Vector k of them. */
template <int W>
static __device__ __forceinline__ void row_vector(float *to, const RowVec<W> &from, int k)
{
    if constexpr (W == 1)
        *to = act_load(&from.v[k]);
    else
        act_load_vector(to, (const act_t *)&from.v[k]);
}

template <int W>
static __device__ __forceinline__ void row_floats(float (&to)[ROW_HELD<W>], const RowVec<W> &from)
{
#pragma unroll
    for (int k = 0; k < ROW_HELD<W> / W; k++)
        row_vector(to + k * W, from, k);
}

template <int W>
static __device__ __forceinline__ void row_read(float (&to)[ROW_HELD<W>], const act_t *row,
                                                int at, int n)
{
    RowVec<W> held;
    row_load(held, row, at, n);
    row_floats(to, held);
}

/* True if element e is inside the row. */
template <int W>
static __device__ __forceinline__ bool row_has(int e, int at, int n)
{
    return at + e / W * (int)blockDim.x < n;
}

/* Writes vector k of a thread's elements. */
template <int W>
static __device__ __forceinline__ void row_store(act_t *row, const float *from, int k, int at,
                                                 int n)
{
    const int i = at + k * (int)blockDim.x;
    if (i >= n)
        return;
    if constexpr (W == 1)
        act_store(row + i, *from);
    else
        act_store_vector(row + i * W, from);
}

template <int W>
static __device__ __forceinline__ void row_write(act_t *row, const float (&from)[ROW_HELD<W>],
                                                 int at, int n)
{
#pragma unroll
    for (int k = 0; k < ROW_HELD<W> / W; k++)
        row_store<W>(row, from + k * W, k, at, n);
}

/* x = a + r as act_t holds it, written to sum, which may be a or r. r is dropped as row `row`. */
template <int W, typename DROP = Undropped>
static __device__ __forceinline__ void row_add(float (&x)[ROW_HELD<W>], act_t *sum, const act_t *a,
                                               const act_t *r, int at, int n, int64_t row = 0,
                                               const DROP &drop = {})
{
    float other[ROW_HELD<W>];
    row_read<W>(x, a, at, n);
    row_read<W>(other, r, at, n);
#pragma unroll
    for (int k = 0; k < ROW_HELD<W> / W; k++)
        drop.template vector<W>(other + k * W, row, (at + k * (int)blockDim.x) * W);
#pragma unroll
    for (int e = 0; e < ROW_HELD<W>; e++)
        x[e] += other[e];
    act_round_all<ROW_HELD<W>>(x);
    row_write<W>(sum, x, at, n);
}

/* Sum over the threads of a row within a warp, returned to each. All of the warp call it. */
static __device__ __forceinline__ float row_warp_sum(float v)
{
    if (blockDim.x >= WARP)
        return warp_sum(v);
    for (unsigned step = blockDim.x / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

/* Sum over the threads of a row, returned to each. Every thread of the block calls it, with
 * `sums` (ROW_WARPS) in shared memory that no call since the last barrier has used. */
static __device__ __forceinline__ float row_sum(float v, float *sums)
{
    v = row_warp_sum(v);
    if (blockDim.x <= WARP)
        return v;
    const unsigned warps = blockDim.x / WARP;
    sums += threadIdx.y * warps;
    if (threadIdx.x % WARP == 0)
        sums[threadIdx.x / WARP] = v;
    __syncthreads();
    return warp_sum(threadIdx.x % WARP < warps ? sums[threadIdx.x % WARP] : 0.0f);
}

/* The same for two sums with only one barrier. */
static __device__ __forceinline__ float2 row_sums(float2 v, float2 *sums)
{
    v.x = row_warp_sum(v.x);
    v.y = row_warp_sum(v.y);
    if (blockDim.x <= WARP)
        return v;
    const unsigned warps = blockDim.x / WARP, lane = threadIdx.x % WARP;
    sums += threadIdx.y * warps;
    if (lane == 0)
        sums[threadIdx.x / WARP] = v;
    __syncthreads();
    v = lane < warps ? sums[lane] : make_float2(0, 0);
    v.x = warp_sum(v.x);
    v.y = warp_sum(v.y);
    return v;
}

/* Inputs of a norm's gradient: elements of a thread. */
template <int W>
struct RowGrad {
    RowVec<W> dy, x;
};

/* Its elements from vector `at`. */
template <int W>
static __device__ __forceinline__ void row_grad_load(RowGrad<W> &to, const act_t *dy,
                                                     const act_t *x, int64_t offset, int at, int n)
{
    row_load(to.dy, dy + offset, at, n);
    row_load(to.x, x + offset, at, n);
}

/* Elements of the residual's gradient from vector `at`; 0 if res is NULL. */
template <int W>
static __device__ __forceinline__ void row_res_load(RowVec<W> &to, const act_t *res, int64_t offset,
                                                    int at, int n)
{
    row_load(to, res + (res ? offset : 0), at, res ? n : 0);
}

/* First row of block `part` of `parts`. */
static __device__ __forceinline__ int64_t part_begin(int64_t part, int64_t parts, int64_t rows)
{
    return part * rows / parts;
}

/* Replaces acc, in the last row of the block, by the sum over its rows: first those of a warp,
 * then the warps or the rows of several warps in order; `shared` (C). */
template <int W>
static __device__ __forceinline__ void row_join(float (&acc)[ROW_HELD<W>], float *shared, int n)
{
    const unsigned rows = blockDim.x < WARP ? WARP / blockDim.x : 1;         // of a warp
    for (unsigned step = blockDim.x; step < WARP; step *= 2) {
#pragma unroll
        for (int e = 0; e < ROW_HELD<W>; e++)
            acc[e] += __shfl_xor_sync(0xffffffffu, acc[e], step);
    }
    for (unsigned g = rows - 1; g < blockDim.y; g += rows) {
#pragma unroll
        for (int e = 0; e < ROW_HELD<W>; e++) {
            if (threadIdx.y != g || !row_has<W>(e, (int)threadIdx.x, n))
                continue;
            float *to = shared + (threadIdx.x + e / W * blockDim.x) * W + e % W;
            acc[e] = g >= rows ? *to + acc[e] : acc[e];
            *to = acc[e];
        }
        __syncthreads();
    }
}

/* ---- rows of whole vectors that a block holds, loaded ahead ---- */

/* Threads per row with k vectors each: whole warps, or 1, 2, 4 .. of a warp. */
static __host__ __device__ constexpr int held_threads(int64_t C, int k)
{
    const int wanted = (int)((C / ACT_VECTOR + k - 1) / k);
    int threads = 1;
    while (threads < WARP && threads < wanted)
        threads *= 2;
    return wanted <= WARP ? threads : (wanted + WARP - 1) / WARP * WARP;
}

/* Vectors per thread, at most `most`, with which rows take the least time if a warp needs as long
 * for two vectors as for all else. 0: no whole vectors, or a row longer than a block holds. */
static __host__ __device__ constexpr int held_vectors(int64_t C, int most)
{
    int best = 0;
    for (int k = 1; k <= most && row_width(C) > 1; k++) {
        const int64_t threads = held_threads(C, k), time = threads * (k + 2);
        if (threads <= ROW_THREADS &&
            (!best || time < held_threads(C, best) * (int64_t)(best + 2)))
            best = k;
    }
    return best;
}

/* Threads of a block with as many rows as it can have. */
static __host__ __device__ constexpr int held_block(int64_t C, int k)
{
    return held_threads(C, k) * row_groups(held_threads(C, k), HELD_BLOCK);
}

/* Vectors of this thread in a row; 0 outside of it and from row `end` on. */
template <int K>
struct HeldRow {
    ActVector v[K];
};

template <int K>
static __device__ __forceinline__ void held_load(HeldRow<K> &to, const act_t *from, int64_t row,
                                                 int64_t end, int64_t C)
{
    const int n = row < end ? (int)(C / ACT_VECTOR) : 0;
    const ActVector *vectors = (const ActVector *)(from + row * C);
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int i = (int)(threadIdx.x + k * blockDim.x);
        to.v[k] = i < n ? vectors[i] : ActVector();
    }
}

template <int K>
static __device__ __forceinline__ void held_floats(float (&to)[K * ACT_VECTOR],
                                                   const HeldRow<K> &from)
{
#pragma unroll
    for (int k = 0; k < K; k++)
        act_load_vector(to + k * ACT_VECTOR, (const act_t *)&from.v[k]);
}

/* Writes a thread's elements of a row. */
template <int K>
static __device__ __forceinline__ void held_store(act_t *row, const float (&from)[K * ACT_VECTOR],
                                                  int64_t C)
{
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int i = (int)(threadIdx.x + k * blockDim.x);
        if (i < C / ACT_VECTOR)
            act_store_vector(row + (int64_t)i * ACT_VECTOR, from + k * ACT_VECTOR);
    }
}

/* x = a row, and begins to load the next one. ADD: x = a + r as act_t holds it, written to sum; r
 * is dropped. */
template <int K, bool ADD, typename DROP = Undropped>
static __device__ __forceinline__ void held_next(float (&x)[K * ACT_VECTOR], HeldRow<K> &next,
                                                 HeldRow<K> &next_r, act_t *sum, const act_t *a,
                                                 const act_t *r, int64_t row, int64_t step,
                                                 int64_t rows, int64_t C, const DROP &drop = {})
{
    held_floats(x, next);
    held_load(next, a, row + step, rows, C);
    if constexpr (ADD) {
        float other[K * ACT_VECTOR];
        held_floats(other, next_r);
        held_load(next_r, r, row + step, rows, C);
#pragma unroll
        for (int k = 0; k < K; k++)
            drop.template vector<ACT_VECTOR>(other + k * ACT_VECTOR, row,
                                             (threadIdx.x + k * blockDim.x) * ACT_VECTOR);
#pragma unroll
        for (int e = 0; e < K * ACT_VECTOR; e++)
            x[e] += other[e];
        act_round_all<K * ACT_VECTOR>(x);
        if (row < rows)
            held_store<K>(sum + row * C, x, C);
    }
}

/* Rows of a RowRing, and its bytes for a block of `threads`. */
static __host__ __device__ constexpr int grad_stages(int64_t C, int k)
{
    const int fit = GRAD_RING_BYTES / (3 * 16 * k * held_block(C, k));
    return fit < GRAD_STAGES ? fit : GRAD_STAGES;
}

static __host__ __device__ constexpr int grad_ring_bytes(int64_t C, int k, int threads)
{
    return grad_stages(C, k) * 3 * 16 * k * threads;
}

/* Shared memory in bytes of the largest blocks of a norm's gradient. */
static __host__ __device__ constexpr int grad_bytes(int64_t C, int most)
{
    const int k = held_vectors(C, most);
    return k ? grad_ring_bytes(C, k, held_block(C, k)) : row_join_bytes(C);
}

#ifndef __CUDACC_RTC__
/* Launch of a norm: two blocks for each multiprocessor take rows in turn, or a block a row each. */
struct NormShape {
    unsigned blocks;
    dim3 block;
};

static inline NormShape norm_shape(int64_t rows, int64_t C, int most)
{
    const int k = held_vectors(C, most), threads = k ? held_threads(C, k) : row_threads(C);
    const int groups = row_groups(threads, k ? HELD_BLOCK : ROW_BLOCK);
    const unsigned all = blocks_over(rows, groups);
    const unsigned at_once = 2 * (unsigned)device_limit(cudaDevAttrMultiProcessorCount);
    return {k && at_once < all ? at_once : all, dim3(threads, groups)};
}

/* Launch of a norm's gradient with `parts` blocks. */
struct GradShape {
    dim3 block;
    int stages;                      /* of a RowRing */
    int64_t shared;                  /* bytes */
};

static inline GradShape grad_shape(int64_t rows, int64_t C, int parts, int most)
{
    const int k = held_vectors(C, most), threads = k ? held_threads(C, k) : row_threads(C);
    const int groups = row_part_groups(threads, rows, parts, k ? HELD_BLOCK : ROW_THREADS);
    return {dim3(threads, groups), k ? grad_stages(C, k) : 0,
            k ? grad_ring_bytes(C, k, threads * groups) : row_join_bytes(C)};
}
#endif

/* The next rows of each thread: dy, x and res, K vectors of each, in shared memory. A thread reads
 * only what it copied itself, so there are no barriers. */
template <int K>
struct RowRing {
    ActVector *first;                /* this thread's; its others are `apart` */
    int apart, stages, stage;        /* stage: of the oldest row, and then of the next one */
    int n;                           /* vectors of a row */
    int64_t row, end, C;             /* row: the next one to copy */
};

/* True if vector k of this thread is inside the row. */
template <int K>
static __device__ __forceinline__ bool ring_has(const RowRing<K> &ring, int k)
{
    return (int)(threadIdx.x + k * blockDim.x) < ring.n;
}

/* Vector k of an array of the oldest row: 0 dy, 1 x, 2 res. */
template <int K>
static __device__ __forceinline__ ActVector *ring_place(const RowRing<K> &ring, int array, int k)
{
    return ring.first + ((ring.stage * 3 + array) * K + k) * ring.apart;
}

/* Begins to copy the next row, if there is one. */
template <int K>
static __device__ __forceinline__ void ring_copy(RowRing<K> &ring, const act_t *dy, const act_t *x,
                                                 const act_t *res)
{
    if (ring.row < ring.end) {
        const int64_t at = ring.row * ring.C + threadIdx.x * ACT_VECTOR;
#pragma unroll
        for (int k = 0; k < K; k++) {
            const int64_t i = at + k * (int)blockDim.x * ACT_VECTOR;
            if (!ring_has(ring, k))
                continue;
            copy16_async(shared_address(ring_place(ring, 0, k)), dy + i, 16);
            copy16_async(shared_address(ring_place(ring, 1, k)), x + i, 16);
            if (res)
                copy16_async(shared_address(ring_place(ring, 2, k)), res + i, 16);
        }
    }
    copy_commit();
    ring.row += blockDim.y;
    ring.stage = ring.stage + 1 < ring.stages ? ring.stage + 1 : 0;
}

/* A ring in `shared` that copies all rows from `begin` on but the last that fits; zeros outside of
 * rows and for res NULL. */
template <int K>
static __device__ __forceinline__ RowRing<K> ring_begin(void *shared, int stages, const act_t *dy,
                                                        const act_t *x, const act_t *res,
                                                        int64_t begin, int64_t end, int64_t C)
{
    RowRing<K> ring = {(ActVector *)shared + threadIdx.y * blockDim.x + threadIdx.x,
                       (int)(blockDim.x * blockDim.y), stages, 0, (int)(C / ACT_VECTOR),
                       begin + threadIdx.y, end, C};
    for (int k = 0; k < stages * 3 * K; k++)
        if (!ring_has(ring, k % K) || (!res && k / K % 3 == 2))
            ring.first[k * ring.apart] = ActVector();
    for (int k = 1; k < stages; k++)
        ring_copy(ring, dy, x, res);
    return ring;
}

/* Waits for the oldest row; all that fit must have been begun. */
template <int K>
static __device__ __forceinline__ void ring_wait(const RowRing<K> &ring)
{
    static_assert(GRAD_STAGES == 3, "a case each");
    if (ring.stages == 3)
        copy_wait<2>();
    else if (ring.stages == 2)
        copy_wait<1>();
    else
        copy_wait<0>();
}

/* Elements of vector k. */
template <int K>
static __device__ __forceinline__ void ring_load(float (&to)[ACT_VECTOR], const RowRing<K> &ring,
                                                 int array, int k)
{
    act_load_vector(to, (const act_t *)ring_place(ring, array, k));
}

/* Weights of this thread: K vectors; 0 outside of the row. */
template <int K>
static __device__ __forceinline__ void held_weights(float (&to)[K * ACT_VECTOR], const wt_t *w,
                                                    int64_t C)
{
#pragma unroll
    for (int e = 0; e < K * ACT_VECTOR; e++)
        to[e] = 0;
#pragma unroll
    for (int k = 0; k < K; k++) {
        const int i = (int)(threadIdx.x + k * blockDim.x);
        if (i < C / ACT_VECTOR)
            act_load_vector(to + k * ACT_VECTOR, w + (int64_t)i * ACT_VECTOR);
    }
}

/* sum (C) = this block's sums: of the rows of a thread, of those of a warp, then the warps or the
 * rows of several warps in order. shared (C) may be in use before. */
template <int K>
static __device__ __forceinline__ void grad_join(float *sum, float (&acc)[K * ACT_VECTOR],
                                                 float *shared, int64_t C)
{
    const unsigned rows = blockDim.x < WARP ? WARP / blockDim.x : 1;         // of a warp
    for (unsigned step = blockDim.x; step < WARP; step *= 2) {
#pragma unroll
        for (int e = 0; e < K * ACT_VECTOR; e++)
            acc[e] += __shfl_xor_sync(0xffffffffu, acc[e], step);
    }
    for (unsigned g = rows - 1; g < blockDim.y; g += rows) {
        __syncthreads();
        if (threadIdx.y != g)
            continue;
#pragma unroll
        for (int k = 0; k < K; k++) {
            const int i = (int)(threadIdx.x + k * blockDim.x);
            if (i >= C / ACT_VECTOR)
                continue;
            float *to = g + rows < blockDim.y ? shared : sum;
#pragma unroll
            for (int e = k * ACT_VECTOR; e < (k + 1) * ACT_VECTOR; e += 4) {
                const int64_t at = (int64_t)i * ACT_VECTOR + e % ACT_VECTOR;
                float before[4] = {};
                if (g >= rows)
                    f32_load4(before, shared + at);
#pragma unroll
                for (int j = 0; j < 4; j++)
                    acc[e + j] = g >= rows ? before[j] + acc[e + j] : acc[e + j];
                *(float4 *)(to + at) =              // global or shared
                    make_float4(acc[e], acc[e + 1], acc[e + 2], acc[e + 3]);
            }
        }
    }
}

/* ---- sums over the parts ---- */

/* Loads and stores a thread's elements of a row of floats, in 16-byte accesses if W is a
 * vector. */
template <int W>
static __device__ __forceinline__ void row_keep(float *row, const float (&from)[ROW_HELD<W>],
                                                int at, int n)
{
#pragma unroll
    for (int e = 0; e < ROW_HELD<W>; e += W == 1 ? 1 : 4) {
        if (!row_has<W>(e, at, n))
            continue;
        float *to = row + (at + e / W * (int)blockDim.x) * W + e % W;
        if constexpr (W == 1)
            *to = from[e];
        else
            f32_store4(to, from + e);
    }
}

template <int W>
static __device__ __forceinline__ void row_kept(float (&to)[ROW_HELD<W>], const float *row, int at,
                                                int n)
{
#pragma unroll
    for (int e = 0; e < ROW_HELD<W>; e += W == 1 ? 1 : 4) {
        const bool has = row_has<W>(e, at, n);
        const float *from = row + (at + e / W * (int)blockDim.x) * W + e % W;
        if constexpr (W == 1) {
            to[e] = has ? *from : 0.0f;
        } else {
            const float4 x = has ? *(const float4 *)from : make_float4(0, 0, 0, 0);
            to[e] = x.x, to[e + 1] = x.y, to[e + 2] = x.z, to[e + 3] = x.w;
        }
    }
}

/* Sums over the parts of ws (PARTS, gridDim.y, C); blockIdx.y 0: y0 (C), 1: y1 (C). */
template <int PARTS>
__global__ void __launch_bounds__(PART_LANES *PART_GROUPS)
    part_sum_kernel(float *y0, float *y1, const float *__restrict__ ws, int64_t C, int beta)
{
    __shared__ float sums[PART_GROUPS][PART_LANES];
    const int each = PARTS / PART_GROUPS;
    static_assert(PARTS % PART_GROUPS == 0, "whole ranges of parts");
    const int64_t i = blockIdx.x * (int64_t)PART_LANES + threadIdx.x, stride = gridDim.y * C;
    const float *column = ws + threadIdx.y * each * stride + blockIdx.y * C + i;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < each; k++)
        sum += i < C ? column[k * stride] : 0.0f;
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || i >= C)
        return;
    float *y = (blockIdx.y ? y1 : y0) + i;
    sum = sums[0][threadIdx.x];
#pragma unroll
    for (int g = 1; g < PART_GROUPS; g++)
        sum += sums[g][threadIdx.x];
    *y = beta ? *y + sum : sum;
}

#ifndef __CUDACC_RTC__
/* y0 (C) and, unless NULL, y1 (C) = sums over the parts of ws (PARTS, 1 or 2, C). */
template <int PARTS>
static inline void part_sum(float *y0, float *y1, const float *ws, int64_t C, int beta,
                            cudaStream_t s)
{
    const dim3 grid((unsigned)((C + PART_LANES - 1) / PART_LANES), y1 ? 2 : 1);
    launch(part_sum_kernel<PARTS>, grid, dim3(PART_LANES, PART_GROUPS), 0, s, y0, y1, ws, C, beta);
}
#else
#define PART_SUM_VARIANT(parts) \
    template __global__ void part_sum_kernel<parts>(float *, float *, const float *, int64_t, int);
VARIANTS_norm_parts(PART_SUM_VARIANT)
#endif

#endif
