/* embed.cuh -- token embeddings, with or without learned positions, and their gradients.
 *
 * In:    tok (rows) int32, each 0 <= tok < V; row r is position r % T, or with documents
 *        positions[r] < P. wte (V, C), wpe (P, C).
 * Out:   y (rows, C) = wte[tok] + wpe[position], added in fp32, rounded once (no wpe: a copy);
 *        add_pos_fwd: the same of rows x (rows, C) in the place of wte[tok].
 * Keeps: T <= P. A gradient adds its rows in order: embed_bwd sorts them by token, each piece of
 *        them adds its own, then pieces that share a token add up. */
#ifndef DIECAST_KERNELS_CUDA_EMBED_CUH
#define DIECAST_KERNELS_CUDA_EMBED_CUH

#include "types.cuh"
#include "workspace.h"

enum {
    EMBED_THREADS = 256,
    EMBED_SORT = 2048,               /* keys that one block sorts */
    EMBED_RUNS = 8,                  /* sorted runs that one launch merges */
    EMBED_AHEAD = 8,                 /* rows that a thread loads before it adds them; */
    EMBED_POS_AHEAD = 16,            /* in the gradient of positions, which has few threads */
    EMBED_COLUMNS = 4                /* of a thread of a gradient where C is a multiple of it */
};

/* Threads of a row of n items, in whole warps. */
static __host__ __device__ constexpr int embed_threads(int64_t n)
{
    return n < EMBED_THREADS ? (int)((n + WARP - 1) / WARP * WARP) : EMBED_THREADS;
}

/* W elements, 16 bytes or one. */
template <int W>
static __device__ __forceinline__ void embed_load(float (&v)[W], const act_t *p)
{
    if constexpr (W == 1)
        v[0] = act_load(p);
    else if constexpr (W == EMBED_COLUMNS)
        act_load4(v, p);
    else
        act_load_vector(v, p);
}

/* A row for blockDim.x threads, blockDim.y rows. tok NULL: rows of wte in order. POS: with
 * positions, places or, NULL, r % T. */
template <int W, bool POS>
__global__ void __launch_bounds__(EMBED_THREADS)
    embed_fwd_kernel(act_t *__restrict__ y, const int32_t *__restrict__ tok,
                     const wt_t *__restrict__ wte, const wt_t *__restrict__ wpe,
                     const int32_t *__restrict__ positions, int64_t rows, int64_t T, int64_t C)
{
    const int64_t r = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
    if (r >= rows)
        return;
    const wt_t *e = wte + (tok ? tok[r] : r) * C;
    const wt_t *p = POS ? wpe + (positions ? positions[r] : r % T) * C : nullptr;
    for (int64_t i = threadIdx.x * W; i < C; i += blockDim.x * W) {
        float v[W], place[W];
        embed_load<W>(v, e + i);
        if constexpr (POS) {
            embed_load<W>(place, p + i);
#pragma unroll
            for (int k = 0; k < W; k++)
                v[k] += place[k];
        }
        if constexpr (W == 1)
            act_store(y + r * C + i, v[0]);
        else
            act_store_vector(y + r * C + i, v);
    }
}

/* ---- rows in order of token, then of row ---- */

/* Token above row: unique, and the order of the sum. */
static __device__ __forceinline__ int32_t key_token(uint64_t key)
{
    return (int32_t)(key >> 32);
}

static __device__ __forceinline__ int64_t key_row(uint64_t key)
{
    return (int64_t)(key & 0xffffffffu);
}

/* Sorts 2 * blockDim.x keys (a power of two) a block: a bitonic network (Batcher 1968). */
__global__ void __launch_bounds__(EMBED_SORT / 2)
    embed_sort_kernel(uint64_t *__restrict__ keys, const int32_t *__restrict__ tok, int64_t rows)
{
    __shared__ uint64_t key[EMBED_SORT];
    const unsigned n = 2 * blockDim.x, t = threadIdx.x;
    const int64_t first = blockIdx.x * (int64_t)n;
    for (unsigned i = t; i < n; i += blockDim.x) {
        const int64_t r = first + i;
        key[i] = r < rows ? (uint64_t)(uint32_t)tok[r] << 32 | (uint64_t)r : ~(uint64_t)0;
    }
    for (unsigned size = 2; size <= n; size *= 2)
        for (unsigned gap = size / 2; gap > 0; gap /= 2) {
            __syncthreads();
            const unsigned i = 2 * t - (t & (gap - 1)), j = i + gap;
            const uint64_t a = key[i], b = key[j];
            if ((a > b) == !(i & size)) {
                key[i] = b;
                key[j] = a;
            }
        }
    __syncthreads();
    for (unsigned i = t; i < n; i += blockDim.x)
        if (first + i < rows)
            keys[first + i] = key[i];
}

/* Keys of keys[begin..end), sorted, that are less than `key`. */
static __device__ __forceinline__ int64_t keys_below(const uint64_t *keys, int64_t begin,
                                                     int64_t end, uint64_t key)
{
    int64_t low = begin;
    while (low < end) {
        const int64_t middle = (low + end) / 2;
        if (keys[middle] < key)
            low = middle + 1;
        else
            end = middle;
    }
    return low - begin;
}

/* Merges groups of EMBED_RUNS sorted runs, `run` keys each, a power of two: a key's place is the
 * number of keys below it, those of each run found by a binary search. The searches go side by
 * side, so that a thread waits for all their loads at once. */
__global__ void __launch_bounds__(EMBED_THREADS)
    embed_merge_kernel(uint64_t *__restrict__ out, const uint64_t *__restrict__ in, int64_t rows,
                       int64_t run)
{
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= rows)
        return;
    const int64_t first = i / (EMBED_RUNS * run) * (EMBED_RUNS * run);
    const uint64_t key = in[i];
    int64_t place = first, below[EMBED_RUNS] = {};
    for (int64_t step = run; step > 0; step /= 2)
#pragma unroll
        for (int r = 0; r < EMBED_RUNS; r++) {
            const int64_t at = first + r * run, next = below[r] + step;
            if (next <= run && at + next <= rows && in[at + next - 1] < key)
                below[r] = next;
        }
#pragma unroll
    for (int r = 0; r < EMBED_RUNS; r++)
        place += below[r];
    out[place] = key;
}

/* ---- sums ---- */

template <int W>
static __device__ __forceinline__ void f32_add(float *to, const float (&v)[W], bool beta)
{
    float sum[W];
    if constexpr (W == EMBED_COLUMNS) {
        if (beta)
            f32_load4(sum, to);
    } else if (beta) {
        sum[0] = to[0];
    }
#pragma unroll
    for (int k = 0; k < W; k++)
        sum[k] = beta ? sum[k] + v[k] : v[k];
    if constexpr (W == EMBED_COLUMNS)
        f32_store4(to, sum);
    else
        to[0] = sum[0];
}

/* Sums piece blockIdx.x of the sorted rows, columns blockIdx.y. A token whose rows all are in the
 * piece gets its gradient; the sum of a token that began in an earlier piece or continues in the
 * next goes to parts (pieces, 2, C): [0] it began earlier, [1] it began here. */
template <int W>
__global__ void __launch_bounds__(EMBED_THREADS)
    embed_bwd_kernel(float *__restrict__ dwte, float *__restrict__ parts,
                     const act_t *__restrict__ dy, const uint64_t *__restrict__ keys, int64_t rows,
                     int64_t C, int beta, int pad)
{
    __shared__ uint64_t key[CUDA_EMBED_PIECE];
    const int64_t first = blockIdx.x * (int64_t)CUDA_EMBED_PIECE;
    const int count =
        (int)(rows - first < (int64_t)CUDA_EMBED_PIECE ? rows - first : (int64_t)CUDA_EMBED_PIECE);
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x)
        key[i] = keys[first + i];
    __syncthreads();
    const int64_t column = (blockIdx.y * (int64_t)blockDim.x + threadIdx.x) * W;
    if (column >= C)
        return;
    float *part = parts + blockIdx.x * 2 * C + column;
    bool before = first > 0 && key_token(keys[first - 1]) == key_token(key[0]);
    const bool after =
        first + count < rows && key_token(keys[first + count]) == key_token(key[count - 1]);
    float sum[W] = {};
    for (int i = 0; i < count; i += EMBED_AHEAD) {
        float v[EMBED_AHEAD][W];
#pragma unroll
        for (int k = 0; k < EMBED_AHEAD; k++)
            if (i + k < count)
                embed_load<W>(v[k], dy + key_row(key[i + k]) * C + column);
#pragma unroll
        for (int k = 0; k < EMBED_AHEAD; k++) {
            if (i + k >= count)
                break;
#pragma unroll
            for (int e = 0; e < W; e++)
                sum[e] += v[k][e];
            const int32_t token = key_token(key[i + k]);
            const bool last = i + k == count - 1;
            if (!last && key_token(key[i + k + 1]) == token)
                continue;
            if (before || (last && after))
                f32_add<W>(part + (before ? 0 : C), sum, false);
            else if (token != pad)
                f32_add<W>(dwte + token * C + column, sum, beta);
            before = false;
#pragma unroll
            for (int e = 0; e < W; e++)
                sum[e] = 0;
        }
    }
}

/* A token that begins in piece blockIdx.x and goes on: its sums, in the order of the pieces. */
template <int W>
__global__ void __launch_bounds__(EMBED_THREADS, 3)
    embed_join_kernel(float *__restrict__ dwte, const float *__restrict__ parts,
                      const uint64_t *__restrict__ keys, int64_t rows, int64_t C, int beta, int pad)
{
    const int64_t first = blockIdx.x * (int64_t)CUDA_EMBED_PIECE, next = first + CUDA_EMBED_PIECE;
    const int64_t column = (blockIdx.y * (int64_t)blockDim.x + threadIdx.x) * W;
    if (next >= rows || column >= C)
        return;
    const int32_t token = key_token(keys[next - 1]);
    const bool before = first > 0 && key_token(keys[first - 1]) == token;
    if (before || key_token(keys[next]) != token || token == pad)
        return;
    const int64_t end = next + keys_below(keys, next, rows, (uint64_t)(token + (int64_t)1) << 32);
    const int64_t last = (end - 1) / CUDA_EMBED_PIECE;
    const float *part = parts + blockIdx.x * 2 * C + column;
    float sum[W];
#pragma unroll
    for (int e = 0; e < W; e++)
        sum[e] = part[C + e];
#pragma unroll 8
    for (int64_t piece = blockIdx.x + 1; piece <= last; piece++) {
        part += 2 * C;
#pragma unroll
        for (int e = 0; e < W; e++)
            sum[e] += part[e];
    }
    f32_add<W>(dwte + token * C + column, sum, beta);
}

/* A row of dwpe for blockDim.x threads, blockDim.y rows. 3 blocks a multiprocessor: else the
 * compiler keeps to 32 registers, in which the loads do not fit. */
template <int W>
__global__ void __launch_bounds__(EMBED_THREADS, 3)
    pos_bwd_kernel(float *__restrict__ dwpe, const act_t *__restrict__ dy, int64_t rows, int64_t T,
                   int64_t C, int64_t P, int beta)
{
    const int64_t t = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
    if (t >= P || (t >= T && beta))
        return;
    for (int64_t i = threadIdx.x * W; i < C; i += blockDim.x * W) {
        float sum[W] = {};
        int64_t r = t < T ? t : rows;
        for (; r + (EMBED_POS_AHEAD - 1) * T < rows; r += EMBED_POS_AHEAD * T) {
            float v[EMBED_POS_AHEAD][W];
#pragma unroll
            for (int k = 0; k < EMBED_POS_AHEAD; k++)
                embed_load<W>(v[k], dy + (r + k * T) * C + i);
#pragma unroll
            for (int k = 0; k < EMBED_POS_AHEAD; k++)
#pragma unroll
                for (int e = 0; e < W; e++)
                    sum[e] += v[k][e];
        }
        for (; r < rows; r += T) {
            float v[W];
            embed_load<W>(v, dy + r * C + i);
#pragma unroll
            for (int e = 0; e < W; e++)
                sum[e] += v[e];
        }
        f32_add<W>(dwpe + t * C + i, sum, beta);
    }
}

#ifndef __CUDACC_RTC__
/* wpe NULL: no positions; positions NULL: row r is position r % T. The gradient of wpe by places is
 * embed_bwd's, with positions for tokens and P for V. */
static inline void embed_fwd(act_t *y, const int32_t *tok, const wt_t *wte, const wt_t *wpe,
                             const int32_t *positions, int64_t rows, int64_t T, int64_t C,
                             cudaStream_t s)
{
    const int W = C % ACT_VECTOR == 0 ? ACT_VECTOR : 1;
    int threads = embed_threads(C / W);
    while (threads / 2 >= C / W)
        threads /= 2;                // a warp has several short rows
    const int groups = EMBED_THREADS / threads;
    auto plain = W > 1 ? embed_fwd_kernel<ACT_VECTOR, false> : embed_fwd_kernel<1, false>;
    auto placed = W > 1 ? embed_fwd_kernel<ACT_VECTOR, true> : embed_fwd_kernel<1, true>;
    launch(wpe ? placed : plain, blocks_over(rows, groups), dim3(threads, groups), 0, s, y, tok,
           wte, wpe, positions, rows, T, C);
}

static inline void add_pos_fwd(act_t *y, const act_t *x, const wt_t *wpe, int64_t rows, int64_t T,
                               int64_t C, cudaStream_t s)
{
    embed_fwd(y, NULL, x, wpe, NULL, rows, T, C, s);
}

/* Returns the keys of all rows in order; `keys` and `spare` (rows) are used. */
static inline uint64_t *embed_sort(uint64_t *keys, uint64_t *spare, const int32_t *tok,
                                   int64_t rows, cudaStream_t s)
{
    int64_t run = 2 * WARP;
    while (run < rows && run < EMBED_SORT)
        run *= 2;
    launch(embed_sort_kernel, blocks_over(rows, run), (unsigned)(run / 2), 0, s, keys, tok, rows);
    for (; run < rows; run *= EMBED_RUNS) {
        launch(embed_merge_kernel, blocks_over(rows, EMBED_THREADS), EMBED_THREADS, 0, s, spare,
               keys, rows, run);
        uint64_t *merged = spare;
        spare = keys;
        keys = merged;
    }
    return keys;
}

/* dwte (V, C) = sum of the rows of dy of each token but pad; beta 1: added to dwte.
 * ws: embed_bwd_cuda_workspace(rows, C) bytes. */
static inline void embed_bwd(float *dwte, const act_t *dy, const int32_t *tok, int32_t pad,
                             int64_t rows, int64_t C, int64_t V, int beta, void *ws,
                             cudaStream_t s)
{
    const int64_t key_bytes = cuda_workspace_round(8 * rows);
    uint64_t *keys = (uint64_t *)ws, *spare = (uint64_t *)((char *)ws + key_bytes);
    float *parts = (float *)((char *)ws + 2 * key_bytes);
    const int W = C % EMBED_COLUMNS == 0 ? EMBED_COLUMNS : 1, threads = embed_threads(C / W);
    const dim3 grid(blocks_over(rows, CUDA_EMBED_PIECE), blocks_over(C / W, threads));
    keys = embed_sort(keys, spare, tok, rows, s);
    if (!beta)
        cuda_check(cudaMemsetAsync(dwte, 0, (size_t)(4 * V * C), s), "clearing a gradient");
    launch(W > 1 ? embed_bwd_kernel<EMBED_COLUMNS> : embed_bwd_kernel<1>, grid, threads, 0, s, dwte,
           parts, dy, keys, rows, C, beta, pad);
    launch(W > 1 ? embed_join_kernel<EMBED_COLUMNS> : embed_join_kernel<1>, grid, threads, 0, s,
           dwte, parts, keys, rows, C, beta, pad);
}

/* dwpe (P, C): rows 0..T-1 collect all sequences in order; with beta 0 the others become 0. */
static inline void pos_bwd(float *dwpe, const act_t *dy, int64_t rows, int64_t T, int64_t C,
                           int64_t P, int beta, cudaStream_t s)
{
    const int W = C % EMBED_COLUMNS == 0 ? EMBED_COLUMNS : 1;
    const int threads = embed_threads(C / W), groups = EMBED_THREADS / threads;
    launch(W > 1 ? pos_bwd_kernel<EMBED_COLUMNS> : pos_bwd_kernel<1>, blocks_over(P, groups),
           dim3(threads, groups), 0, s, dwpe, dy, rows, T, C, P, beta);
}
#else
enum {
    EMBED_W = C % ACT_VECTOR ? 1 : ACT_VECTOR,
    EMBED_WB = C % EMBED_COLUMNS ? 1 : EMBED_COLUMNS
};
template __global__ void embed_fwd_kernel<EMBED_W, false>(
    act_t *, const int32_t *, const wt_t *, const wt_t *, const int32_t *, int64_t, int64_t,
    int64_t);
template __global__ void embed_fwd_kernel<EMBED_W, true>(
    act_t *, const int32_t *, const wt_t *, const wt_t *, const int32_t *, int64_t, int64_t,
    int64_t);
template __global__ void embed_bwd_kernel<EMBED_WB>(
    float *, float *, const act_t *, const uint64_t *, int64_t, int64_t, int, int);
template __global__ void embed_join_kernel<EMBED_WB>(
    float *, const float *, const uint64_t *, int64_t, int64_t, int, int);
template __global__ void pos_bwd_kernel<EMBED_WB>(
    float *, const act_t *, int64_t, int64_t, int64_t, int64_t, int);
#endif

#endif
