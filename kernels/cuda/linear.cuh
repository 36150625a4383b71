/* linear.cuh -- linear layer and its gradients; w is stored (out, in) as in torch.
 *
 * In:    x (rows, in), dy (rows, out) act_t; the Gemms give the shapes and were passed to
 *        gemm_init.
 * Out:   y = x w^T + b; dx = dy w, or that and a residual; dw = dy^T x and db = column sums
 *        of dy in fp32.
 * Keeps: fp32 sums, one rounding; the order in db is fixed by the shape, or by the lock file
 *        if computed together with dw. */
#ifndef DIECAST_KERNELS_LINEAR_CUH
#define DIECAST_KERNELS_LINEAR_CUH

#include "gemm.cuh"
#include "rows.cuh"
#include "types.cuh"
#include "workspace.h"

enum {
    BIAS_THREADS = 256,
    BIAS_AHEAD = 4                  /* rows that a thread loads before it adds them */
};

/* Rows (rows, N) as they lie in memory. */
template <int W> struct StoredRows {
    const act_t *dy;
    typedef RowVector<W> Held;

    /* Elements column .. of the row: loads them, */
    __device__ __forceinline__ void load(Held &held, int64_t row, int64_t column, int64_t N) const
    {
        held.load(dy + row * N + column);
    }

    /* and v = what was loaded. */
    __device__ __forceinline__ void make(float (&v)[W], const Held &held, int64_t, int64_t,
                                         int64_t) const
    {
        held.floats(v);
    }
};

/* parts (CUDA_REDUCE_PARTS, N): sums over the rows of part blockIdx.y. A thread adds W columns of
 * every blockDim.y-th row; its block joins those in order. ROWS: StoredRows, or those of
 * bias_rows.cuh, which are made as they are read. */
template <int W, typename ROWS>
__global__ void __launch_bounds__(BIAS_THREADS)
    bias_grad_kernel(float *__restrict__ parts, const ROWS from, int64_t rows, int64_t N)
{
    __shared__ float sums[BIAS_THREADS * W];
    const int64_t part = blockIdx.y, end = (part + 1) * rows / CUDA_REDUCE_PARTS;
    const int64_t column = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) * W;
    const int width = blockDim.x * W;        // columns per block
    float sum[W] = { 0 };
    const int64_t step = blockDim.y;
    int64_t i = column < N ? part * rows / CUDA_REDUCE_PARTS + threadIdx.y : end;
    for (; i < end; i += BIAS_AHEAD * step) {
        typename ROWS::Held held[BIAS_AHEAD];
#pragma unroll
        for (int k = 0; k < BIAS_AHEAD; k++)
            if (i + k * step < end)
                from.load(held[k], i + k * step, column, N);
#pragma unroll
        for (int k = 0; k < BIAS_AHEAD; k++) {
            if (i + k * step >= end)
                break;
            float v[W];
            from.make(v, held[k], i + k * step, column, N);
#pragma unroll
            for (int j = 0; j < W; j++)
                sum[j] += v[j];
        }
    }
#pragma unroll
    for (int j = 0; j < W; j++)
        sums[threadIdx.y * width + threadIdx.x * W + j] = sum[j];
    __syncthreads();
    const int64_t first = (int64_t)blockIdx.x * width;
    for (int j = threadIdx.y * blockDim.x + threadIdx.x; j < width && first + j < N;
         j += BIAS_THREADS) {
        float total = sums[j];
        for (unsigned y = 1; y < blockDim.y; y++)
            total += sums[y * width + j];
        parts[part * N + first + j] = total;
    }
}

/* logits (n / V, V) += b (V); one thread per element. */
static __global__ void __launch_bounds__(BIAS_THREADS)
    logits_bias_kernel(float *logits, const wt_t *b, int64_t n, int64_t V)
{
    const int64_t i = (int64_t)blockIdx.x * BIAS_THREADS + threadIdx.x;
    if (i < n)
        logits[i] += act_load(b + i % V);
}

#ifndef __CUDACC_RTC__
/* mm: { .m = rows, .n = out, .k = in, .form = GEMM_NT } */
static inline void linear_fwd(act_t *y, const act_t *x, const wt_t *w, const Gemm *mm, void *ws,
                              cudaStream_t s)
{
    gemm_run(mm, y, x, w, NULL, NULL, ws, s);
}

/* mm: as above with .bias = 1 */
static inline void linear_bias_fwd(act_t *y, const act_t *x, const wt_t *w, const wt_t *b,
                                   const Gemm *mm, void *ws, cudaStream_t s)
{
    gemm_run(mm, y, x, w, b, NULL, ws, s);
}

/* y = gelu(z), z = x w^T + b; mm: as above with .epilogue = GEMM_GELU */
static inline void linear_bias_gelu_fwd(act_t *y, act_t *z, const act_t *x, const wt_t *w,
                                        const wt_t *b, const Gemm *mm, void *ws, cudaStream_t s)
{
    gemm_run(mm, y, x, w, b, z, ws, s);
}

/* fp32 logits; mm: { .m = rows, .n = V, .k = in, .form = GEMM_NT, .out_f32 = 1 } */
static inline void logits_fwd(float *logits, const act_t *x, const wt_t *w, const Gemm *mm,
                              void *ws, cudaStream_t s)
{
    gemm_run(mm, logits, x, w, NULL, NULL, ws, s);
}

/* The same with a bias, added in fp32; mm: as above */
static inline void logits_bias_fwd(float *logits, const act_t *x, const wt_t *w, const wt_t *b,
                                   const Gemm *mm, void *ws, cudaStream_t s)
{
    gemm_run(mm, logits, x, w, NULL, NULL, ws, s);
    launch(logits_bias_kernel, blocks_over(mm->m * mm->n, BIAS_THREADS), BIAS_THREADS, 0, s, logits,
           b, mm->m * mm->n, mm->n);
}

/* mm: { .m = rows, .n = in, .k = out, .form = GEMM_NN } */
static inline void linear_dx(act_t *dx, const act_t *dy, const wt_t *w, const Gemm *mm, void *ws,
                             cudaStream_t s)
{
    gemm_run(mm, dx, dy, w, NULL, NULL, ws, s);
}

/* dx = residual + dy w; dx may be residual; mm: as above with .beta = 1 */
static inline void linear_dx_add(act_t *dx, const act_t *dy, const wt_t *w, const act_t *residual,
                                 const Gemm *mm, void *ws, cudaStream_t s)
{
    gemm_run_onto(mm, (float)mm->beta, dx, residual, dy, w, NULL, NULL, ws, s);
}

/* dz = (dy w) gelu'(z); mm: as above with .epilogue = GEMM_DGELU */
static inline void linear_dx_gelu(act_t *dz, const act_t *dy, const wt_t *w, const act_t *z,
                                  const Gemm *mm, void *ws, cudaStream_t s)
{
    gemm_run(mm, dz, dy, w, NULL, z, ws, s);
}

/* mm: { .m = out, .n = in, .k = rows, .form = GEMM_TN, .out_f32 = 1, .beta = 0 or 1 } */
static inline void linear_dw(float *dw, const act_t *dy, const act_t *x, const Gemm *mm, void *ws,
                             cudaStream_t s)
{
    gemm_run(mm, dw, dy, x, NULL, NULL, ws, s);
}

/* Column sums of rows (rows, N), W columns a thread, the parts in order; beta 1: accumulates. ws:
 * bias_grad_cuda_workspace(N) bytes. */
template <int W, typename ROWS>
static inline void bias_grad_of(float *db, const ROWS &from, int64_t rows, int64_t N, int beta,
                                void *ws, cudaStream_t s)
{
    const int64_t vectors = N / W;
    unsigned across = 4;
    while (across < WARP && across < vectors)
        across *= 2;
    launch(bias_grad_kernel<W, ROWS>, dim3(blocks_over(vectors, across), CUDA_REDUCE_PARTS),
           dim3(across, BIAS_THREADS / across), 0, s, (float *)ws, from, rows, N);
    part_sum<CUDA_REDUCE_PARTS>(db, NULL, (const float *)ws, N, beta, s);
}

/* The same of dy (rows, N) as it is. */
static inline void bias_grad(float *db, const act_t *dy, int64_t rows, int64_t N, int beta,
                             void *ws, cudaStream_t s)
{
    if (N % ACT_VECTOR == 0 && aligned(dy, 16))
        bias_grad_of<ACT_VECTOR>(db, StoredRows<ACT_VECTOR>{dy}, rows, N, beta, ws, s);
    else
        bias_grad_of<1>(db, StoredRows<1>{dy}, rows, N, beta, ws, s);
}

/* Both gradients, reading dy once unless the product is separate; mm: that of dw with .beta =
 * 0 and .epilogue = GEMM_BGRAD. ws: linear_dw_bias_cuda_workspace(out) bytes. */
static inline void linear_dw_bias(float *dw, float *db, const act_t *dy, const act_t *x,
                                  const Gemm *mm, void *ws, cudaStream_t s)
{
    if (mm->apart)
        bias_grad(db, dy, mm->k, mm->m, 0, ws, s);
    gemm_run(mm, dw, dy, x, db, NULL, ws, s);
}
#else
template __global__ void bias_grad_kernel<ACT_VECTOR>(float *, StoredRows<ACT_VECTOR>, int64_t,
                                                      int64_t);
template __global__ void bias_grad_kernel<1>(float *, StoredRows<1>, int64_t, int64_t);
#endif

#endif
