/* rows.cuh -- thread layout for rows of C elements: vectors of W across x, rows across y.
 *
 * Keeps: a thread holds ROW_HELD<W> elements of a row, in vectors blockDim.x apart; a row
 *        longer than the block holds is processed in rounds and read again. Summation order:
 *        fixed by C; over rows, by parts.
 * Method: W is 16 bytes of act_t if C is a multiple of it, else 1. */
#ifndef DIECAST_KERNELS_CUDA_ROWS_CUH
#define DIECAST_KERNELS_CUDA_ROWS_CUH

#include "types.cuh"
#include "workspace.h"

enum {
    ROW_THREADS = 512,               /* threads of a block, at most */
    ROW_BLOCK = 128,                 /* threads of a block of short rows */
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

/* True if there are registers to load the next row while this one is computed. */
template <int W>
constexpr bool ROW_AHEAD = W == 8;

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
static __host__ __device__ constexpr int row_part_groups(int threads, int64_t rows, int parts)
{
    const int64_t part = (rows + parts - 1) / parts;
    const int groups = row_groups(threads, ROW_THREADS), warp = row_groups(threads, WARP);
    return part < groups ? (int)((part + warp - 1) / warp * warp) : groups;
}

/* Shared memory of row_join in bytes, in a block of ROW_THREADS. */
static __host__ __device__ constexpr int row_join_bytes(int64_t C)
{
    return row_groups(row_threads(C), ROW_THREADS) > 1 ? (int)(4 * C) : 0;
}

#if defined ACT_BF16 || defined ACT_F16
typedef uint4 ActVector;
#else
typedef float4 ActVector;
#endif

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

/* x = a + r as act_t holds it, written to sum, which may be a or r. */
template <int W>
static __device__ __forceinline__ void row_add(float (&x)[ROW_HELD<W>], act_t *sum, const act_t *a,
                                               const act_t *r, int at, int n)
{
    float other[ROW_HELD<W>];
    row_read<W>(x, a, at, n);
    row_read<W>(other, r, at, n);
#pragma unroll
    for (int e = 0; e < ROW_HELD<W>; e++)
        x[e] = act_round(x[e] + other[e]);
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

/* Inputs of a norm's gradient that may be loaded one row ahead. The residual's gradient is not
 * among them: it is used last, and holding it would spill registers. */
template <int W>
struct RowGrad {
    RowVec<W> dy, x;
    float mean, rstd;
};

/* Its elements from vector `at`. */
template <int W>
static __device__ __forceinline__ void row_grad_round(RowGrad<W> &to, const act_t *dy,
                                                      const act_t *x, int64_t offset, int at, int n)
{
    row_load(to.dy, dy + offset, at, n);
    row_load(to.x, x + offset, at, n);
}

/* The first round of a row; zeros after the last row. mean NULL: none. */
template <int W>
static __device__ __forceinline__ void row_grad_load(RowGrad<W> &to, const act_t *dy,
                                                     const act_t *x, const float *mean,
                                                     const float *rstd, int64_t row, int64_t end,
                                                     int64_t C)
{
    row_grad_round(to, dy, x, row * C, (int)threadIdx.x, row < end ? (int)(C / W) : 0);
    to.mean = mean && row < end ? mean[row] : 0.0f;
    to.rstd = row < end ? rstd[row] : 0.0f;
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
#else                            /* the first of norm_parts is CUDA_REDUCE_PARTS */
#define PART_SUM_VARIANT(parts) \
    template __global__ void part_sum_kernel<parts>(float *, float *, const float *, int64_t, int);
VARIANTS_norm_parts(PART_SUM_VARIANT)
#endif

#endif
