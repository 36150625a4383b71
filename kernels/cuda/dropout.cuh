/* dropout.cuh -- dropout of rows (Srivastava et al. 2014) and its gradient, with the same
 * mask.
 *
 * In:    x (rows, C) act_t; noise, site: see philox.cuh.
 * Out:   y = 0 where dropped, else x / (1 - p). y may be x.
 * Keeps: one rounding at the store; the mask is never stored. */
#ifndef DIECAST_KERNELS_CUDA_DROPOUT_CUH
#define DIECAST_KERNELS_CUDA_DROPOUT_CUH

#include "philox.cuh"
#include "types.cuh"

enum { DROPOUT_THREADS = 256 };         /* of a quad each */

/* quads: of a row; whole: rows are of whole quads, 4 elements aligned for one load. */
__global__ void __launch_bounds__(DROPOUT_THREADS)
    dropout_fwd_kernel(act_t *y, const act_t *x, const uint32_t *__restrict__ noise, uint32_t site,
                       uint32_t threshold, float scale, int64_t rows, int64_t T, int64_t C,
                       int64_t quads, bool whole)
{
    const int64_t index = (int64_t)blockIdx.x * DROPOUT_THREADS + threadIdx.x, row = index / quads;
    const int64_t quad = index - row * quads, at = row * C + 4 * quad, left = C - 4 * quad;
    if (row >= rows)
        return;
    float kept[4], v[4];
    dropout_mask4(kept, noise, site, T, row, (uint32_t)quad, threshold, scale);
    if (whole) {
        act_load4(v, x + at);
#pragma unroll
        for (int j = 0; j < 4; j++)
            v[j] *= kept[j];
        act_store4(y + at, v);
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (j < left)
                act_store(y + at + j, act_load(x + at + j) * kept[j]);
    }
}

#ifndef __CUDACC_RTC__
/* site: of the place, as its op has it. */
static inline void dropout_fwd(act_t *y, const act_t *x, const uint32_t *noise, uint32_t site,
                               float p, int64_t rows, int64_t T, int64_t C, cudaStream_t s)
{
    const int64_t quads = (C + 3) / 4;
    const bool whole = C % 4 == 0 && aligned(y, 16) && aligned(x, 16);
    launch(dropout_fwd_kernel, blocks_over(rows * quads, DROPOUT_THREADS), DROPOUT_THREADS, 0, s, y,
           x, noise, dropout_site(site), dropout_threshold(p), 1.0f / (1.0f - p), rows, T, C,
           quads, whole);
}
#endif

#endif
