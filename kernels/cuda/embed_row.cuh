/* embed_row.cuh -- a token whose row of the embedding is a parameter of its own.
 *
 * In:    x (rows, C), tok (rows) int32, row (C), dy (rows, C).
 * Out:   y (rows, C) = x, but row where tok is the token; drow (C) fp32: the sum of dy there.
 * Keeps: y may be x. An element of the gradient adds its rows in order. */
#ifndef DIECAST_KERNELS_CUDA_EMBED_ROW_CUH
#define DIECAST_KERNELS_CUDA_EMBED_ROW_CUH

#include "types.cuh"

enum { EMBED_ROW_THREADS = 256 };

/* A block a row. */
__global__ void __launch_bounds__(EMBED_ROW_THREADS)
    embed_row_kernel(act_t *y, const act_t *x, const int32_t *__restrict__ tok,
                     const wt_t *__restrict__ row, int32_t token, int64_t C)
{
    const int64_t r = blockIdx.x;
    const bool own = tok[r] == token;
    if (!own && y == x)
        return;
    const act_t *from = own ? row : x + r * C;
    for (int64_t c = threadIdx.x; c < C; c += EMBED_ROW_THREADS)
        y[r * C + c] = from[c];
}

/* A thread a column. */
__global__ void __launch_bounds__(EMBED_ROW_THREADS)
    embed_row_bwd_kernel(float *__restrict__ drow, const act_t *__restrict__ dy,
                         const int32_t *__restrict__ tok, int32_t token, int64_t rows, int64_t C,
                         int beta)
{
    const int64_t c = blockIdx.x * (int64_t)EMBED_ROW_THREADS + threadIdx.x;
    if (c >= C)
        return;
    float sum = beta ? drow[c] : 0.0f;
    for (int64_t r = 0; r < rows; r++)
        if (tok[r] == token)
            sum += act_load(dy + r * C + c);
    drow[c] = sum;
}

#ifndef __CUDACC_RTC__
static inline void embed_row_fwd(act_t *y, const act_t *x, const int32_t *tok, const wt_t *row,
                                 int32_t token, int64_t rows, int64_t C, cudaStream_t s)
{
    launch(embed_row_kernel, (unsigned)rows, EMBED_ROW_THREADS, 0, s, y, x, tok, row, token, C);
}

/* beta 1: added to what is there. */
static inline void embed_row_bwd(float *drow, const act_t *dy, const int32_t *tok, int32_t token,
                                 int64_t rows, int64_t C, int beta, cudaStream_t s)
{
    launch(embed_row_bwd_kernel, blocks_over(C, EMBED_ROW_THREADS), EMBED_ROW_THREADS, 0, s, drow,
           dy, tok, token, rows, C, beta);
}
#endif

#endif
