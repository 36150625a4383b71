/* along.cuh -- per-sample Jacobian-vector products: derivatives of the samples' losses along a
 * gradient v, by finite differences of the losses at shifted parameters, or by dot products
 * with a layer's response to v.
 *
 * In:    norm[0] = |v|; scale[0]: the loss scale of a backward pass.
 * Out:   along, the entries of runtime/along.h; slope (S) doubles, accumulated.
 * Keeps: a non-finite v gives NaN slopes. Sums in double, in an order fixed by n and S. */
#ifndef DIECAST_KERNELS_CUDA_ALONG_CUH
#define DIECAST_KERNELS_CUDA_ALONG_CUH

#include "../../runtime/along.h"
#include "types.cuh"
#include "workspace.h"

enum { ALONG_THREADS = 256 };

/* scaler: fp16, { loss scale, steps since it last changed }, halved if v is not finite; else
 * NULL. In fp16, |v| of 16-bit copies is 16, so that no sum of products with rows of
 * activations overflows. */
__global__ void __launch_bounds__(1)
    direction_kernel(float *along, float *scaler, const float *norm, const float *scale)
{
    const bool finite = isfinite(norm[0]);
    const double s = scaler ? (double)scaler[0] : 1.0;      // of v and of the backward pass
    const double taken = scaler ? 16.0 / ((double)norm[0] + 1e-15) : 1.0;
    along[ALONG_EPS] = finite ? 0.01f / (norm[0] + 1e-15f) : __uint_as_float(0x7fc00000u);
    along[ALONG_SIDE] = 1.0f;
    along[ALONG_TAKEN] = (float)taken;
    along[ALONG_BACK] = !finite            ? __uint_as_float(0x7fc00000u)
                        : scale[0] != 0.0f ? (float)(1.0 / (scale[0] * s * s * taken))
                                           : 0.0f;
    if (scaler && !finite) {
        scaler[0] *= scaler[0] > 1.0f / 16384 ? 0.5f : 1.0f;
        scaler[1] = 0.0f;
    }
}

__global__ void __launch_bounds__(1) side_kernel(float *along, int minus)
{
    along[ALONG_SIDE] = minus ? -1.0f : 1.0f;
}

__global__ void __launch_bounds__(ALONG_THREADS)
    shift_kernel(float *__restrict__ w, const float *__restrict__ v, const float *__restrict__ kept,
                 const float *__restrict__ along, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * ALONG_THREADS + threadIdx.x;
    if (i < n)
        w[i] = kept[i] + along[ALONG_SIDE] * along[ALONG_EPS] * v[i];
}

__global__ void __launch_bounds__(ALONG_THREADS)
    direction_cast_kernel(act_t *__restrict__ y, const float *__restrict__ v,
                          const float *__restrict__ along, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * ALONG_THREADS + threadIdx.x;
    if (i < n)
        act_store(y + i, along[ALONG_TAKEN] * v[i]);
}

__global__ void __launch_bounds__(ALONG_THREADS)
    slope_loss_kernel(double *__restrict__ slope, const float *__restrict__ loss,
                      const float *__restrict__ along, int64_t S)
{
    const int64_t b = (int64_t)blockIdx.x * ALONG_THREADS + threadIdx.x;
    if (b < S)
        slope[b] += along[ALONG_SIDE] * (double)loss[b] / (2.0 * (double)along[ALONG_EPS]);
}

/* Block (p, b): range p of the elements of sample b. */
__global__ void __launch_bounds__(ALONG_THREADS)
    slope_parts_kernel(double *__restrict__ parts, const act_t *__restrict__ dy,
                       const act_t *__restrict__ z, int64_t each)
{
    const int64_t p = blockIdx.x, of = gridDim.x, b = blockIdx.y;
    const int64_t end = b * each + (p + 1) * each / of;
    double sum = 0;
    for (int64_t i = b * each + p * each / of + threadIdx.x; i < end; i += ALONG_THREADS)
        sum += (double)act_load(dy + i) * (double)act_load(z + i);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        parts[b * of + p] = sum;
}

/* One block per sample. */
__global__ void __launch_bounds__(ALONG_THREADS)
    slope_sum_kernel(double *__restrict__ slope, const double *__restrict__ parts,
                     const float *__restrict__ along, int nparts)
{
    double sum = 0;
    for (int p = threadIdx.x; p < nparts; p += ALONG_THREADS)
        sum += parts[(int64_t)blockIdx.x * nparts + p];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        slope[blockIdx.x] += along[ALONG_BACK] * sum;
}

__global__ void __launch_bounds__(ALONG_THREADS)
    slope_dot_f32_kernel(double *__restrict__ slope, const float *__restrict__ dy,
                         const float *__restrict__ z, const float *__restrict__ along, int64_t each)
{
    const int64_t b = blockIdx.x;
    double sum = 0;
    for (int64_t i = b * each + threadIdx.x; i < (b + 1) * each; i += ALONG_THREADS)
        sum += (double)dy[i] * (double)z[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        slope[b] += along[ALONG_BACK] * sum;
}

#ifndef __CUDACC_RTC__
static inline void direction(float *along, const float *norm, const float *scale, cudaStream_t s)
{
    launch(direction_kernel, 1, 1, 0, s, along, (float *)NULL, norm, scale);
}

/* fp16: v is multiplied by the loss scale, and so is the backward pass. */
static inline void direction_scaled(float *along, float *scaler, const float *norm,
                                    const float *scale, cudaStream_t s)
{
    launch(direction_kernel, 1, 1, 0, s, along, scaler, norm, scale);
}

static inline void side(float *along, int minus, cudaStream_t s)
{
    launch(side_kernel, 1, 1, 0, s, along, minus);
}

/* y = x, bit for bit */
static inline void keep(float *y, const float *x, int64_t n, cudaStream_t s)
{
    cuda_check(cudaMemcpyAsync(y, x, (size_t)n * sizeof *y, cudaMemcpyDeviceToDevice, s),
               "keeping weights");
}

/* w = kept, shifted along v to the next side */
static inline void shift(float *w, const float *v, const float *kept, const float *along, int64_t n,
                         cudaStream_t s)
{
    launch(shift_kernel, blocks_over(n, ALONG_THREADS), ALONG_THREADS, 0, s, w, v, kept, along, n);
}

/* v as read by products of 16-bit activations */
static inline void direction_cast(act_t *y, const float *v, const float *along, int64_t n,
                                  cudaStream_t s)
{
    launch(direction_cast_kernel, blocks_over(n, ALONG_THREADS), ALONG_THREADS, 0, s, y, v, along,
           n);
}

/* Adds the samples' losses at parameters shifted to one side; after both sides slope is the
 * derivative. */
static inline void slope_loss(double *slope, const float *loss, const float *along, int64_t S,
                              cudaStream_t s)
{
    launch(slope_loss_kernel, blocks_over(S, ALONG_THREADS), ALONG_THREADS, 0, s, slope, loss,
           along, S);
}

/* dy, z (n), a sample's elements contiguous: adds the sum of dy z of each sample. ws:
 * slope_dot_cuda_workspace(S) */
static inline void slope_dot(double *slope, const act_t *dy, const act_t *z, const float *along,
                             int64_t n, int64_t S, void *ws, cudaStream_t s)
{
    const unsigned wanted = blocks_over(n / S, 16 * ALONG_THREADS),
                   nparts = wanted < CUDA_SLOPE_PARTS ? wanted : (unsigned)CUDA_SLOPE_PARTS;
    double *parts = (double *)ws;
    launch(slope_parts_kernel, dim3(nparts, (unsigned)S), ALONG_THREADS, 0, s, parts, dy, z, n / S);
    launch(slope_sum_kernel, (unsigned)S, ALONG_THREADS, 0, s, slope, parts, along, (int)nparts);
}

/* The same for the few values that are fp32 in programs with 16-bit activations. */
static inline void slope_dot_f32(double *slope, const float *dy, const float *z, const float *along,
                                 int64_t n, int64_t S, cudaStream_t s)
{
    launch(slope_dot_f32_kernel, (unsigned)S, ALONG_THREADS, 0, s, slope, dy, z, along, n / S);
}

/* y = 0 (n) */
static inline void zeros(act_t *y, int64_t n, cudaStream_t s)
{
    cuda_check(cudaMemsetAsync(y, 0, (size_t)n * sizeof *y, s), "clearing rows");
}
#endif

#endif
