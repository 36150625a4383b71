/* gather.cuh -- row gather, for a head that only processes rows with a target.
 *
 * In:    x (.., C); rows (n) int32: source row of each row of y, or -1.
 * Out:   y (n, C): copies of rows, zeros where rows is -1.
 * Method: the x threads of a block copy one row; a block has several short rows. */
#ifndef DIECAST_KERNELS_CUDA_GATHER_CUH
#define DIECAST_KERNELS_CUDA_GATHER_CUH

#include "types.cuh"

enum { GATHER_THREADS = 256 };

/* W elements at a time: 16 bytes or one. */
template <int W>
__global__ void __launch_bounds__(GATHER_THREADS)
    gather_rows_kernel(act_t *__restrict__ y, const act_t *__restrict__ x,
                       const int32_t *__restrict__ rows, int64_t n, int64_t C)
{
    const int64_t r = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
    if (r >= n)
        return;
    const int32_t from = rows[r];
    for (int64_t i = threadIdx.x * W; i < C; i += blockDim.x * W) {
        if constexpr (W == 1)
            y[r * C + i] = from < 0 ? act_t{} : x[from * C + i];
        else
            *(uint4 *)(y + r * C + i) = from < 0 ? uint4{} : *(const uint4 *)(x + from * C + i);
    }
}

#ifndef __CUDACC_RTC__
static inline void gather_rows(act_t *y, const act_t *x, const int32_t *rows, int64_t n, int64_t C,
                               cudaStream_t s)
{
    const int W = C % ACT_VECTOR == 0 && aligned(y, 16) && aligned(x, 16) ? ACT_VECTOR : 1;
    int threads = GATHER_THREADS;
    while (threads / 2 >= C / W)
        threads /= 2;
    const int groups = GATHER_THREADS / threads;
    launch(W > 1 ? gather_rows_kernel<ACT_VECTOR> : gather_rows_kernel<1>, blocks_over(n, groups),
           dim3(threads, groups), 0, s, y, x, rows, n, C);
}
#else
template __global__ void gather_rows_kernel<C % ACT_VECTOR ? 1 : ACT_VECTOR>(
    act_t *, const act_t *, const int32_t *, int64_t, int64_t);
#endif

#endif
