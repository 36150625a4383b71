/* jvp.cuh -- per-sample Jacobian-vector products: derivatives of the samples' losses along a
 * gradient v, by finite differences of the losses at shifted parameters, or by dot products
 * with a layer's response to v.
 *
 * In:    norm[0] = |v|; scale[0]: the loss scale of a backward pass.
 * Out:   tangent, the entries of runtime/jvp.h; jvp (S) doubles, accumulated.
 * Keeps: a non-finite v gives NaN products. Sums in double, in an order fixed by n and S. */
#ifndef DIECAST_KERNELS_CUDA_JVP_CUH
#define DIECAST_KERNELS_CUDA_JVP_CUH

#include "../../runtime/jvp.h"
#include "types.cuh"
#include "workspace.h"

enum { TANGENT_THREADS = 256 };

/* scaler: fp16, { loss scale, steps since it last changed }, halved if v is not finite; else
 * NULL. In fp16, |v| of 16-bit copies is 16, so that no sum of products with rows of
 * activations overflows. */
__global__ void __launch_bounds__(1)
    tangent_init_kernel(float *tangent, float *scaler, const float *norm, const float *scale)
{
    const bool finite = isfinite(norm[0]);
    const double s = scaler ? (double)scaler[0] : 1.0;      // of v and of the backward pass
    const double taken = scaler ? 16.0 / ((double)norm[0] + 1e-15) : 1.0;
    tangent[TANGENT_EPS] = finite ? 0.01f / (norm[0] + 1e-15f) : __uint_as_float(0x7fc00000u);
    tangent[TANGENT_SIDE] = 1.0f;
    tangent[TANGENT_TAKEN] = (float)taken;
    tangent[TANGENT_BACK] = !finite        ? __uint_as_float(0x7fc00000u)
                        : scale[0] != 0.0f ? (float)(1.0 / (scale[0] * s * s * taken))
                                           : 0.0f;
    if (scaler && !finite) {
        scaler[0] *= scaler[0] > 1.0f / 16384 ? 0.5f : 1.0f;
        scaler[1] = 0.0f;
    }
}

__global__ void __launch_bounds__(1) tangent_unit_kernel(float *tangent, const float *scale)
{
    tangent[TANGENT_EPS] = 0.01f;
    tangent[TANGENT_SIDE] = 1.0f;
    tangent[TANGENT_TAKEN] = 1.0f;
    tangent[TANGENT_BACK] = scale[0] != 0.0f ? (float)(1.0 / scale[0]) : 0.0f;
}

__global__ void __launch_bounds__(1) side_kernel(float *tangent, int minus)
{
    tangent[TANGENT_SIDE] = minus ? -1.0f : 1.0f;
}

__global__ void __launch_bounds__(TANGENT_THREADS)
    shift_kernel(float *__restrict__ w, const float *__restrict__ v, const float *__restrict__ kept,
                 const float *__restrict__ tangent, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * TANGENT_THREADS + threadIdx.x;
    if (i < n)
        w[i] = kept[i] + tangent[TANGENT_SIDE] * tangent[TANGENT_EPS] * v[i];
}

__global__ void __launch_bounds__(TANGENT_THREADS)
    tangent_cast_kernel(act_t *__restrict__ y, const float *__restrict__ v,
                        const float *__restrict__ tangent, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * TANGENT_THREADS + threadIdx.x;
    if (i < n)
        act_store(y + i, tangent[TANGENT_TAKEN] * v[i]);
}

__global__ void __launch_bounds__(TANGENT_THREADS)
    jvp_loss_kernel(double *__restrict__ jvp, const float *__restrict__ loss,
                    const float *__restrict__ tangent, int64_t S)
{
    const int64_t b = (int64_t)blockIdx.x * TANGENT_THREADS + threadIdx.x;
    if (b < S)
        jvp[b] += tangent[TANGENT_SIDE] * (double)loss[b] / (2.0 * (double)tangent[TANGENT_EPS]);
}

/* Block (p, b): range p of the elements of sample b. */
__global__ void __launch_bounds__(TANGENT_THREADS)
    jvp_parts_kernel(double *__restrict__ parts, const act_t *__restrict__ dy,
                     const act_t *__restrict__ z, int64_t each)
{
    const int64_t p = blockIdx.x, of = gridDim.x, b = blockIdx.y;
    const int64_t end = b * each + (p + 1) * each / of;
    double sum = 0;
    for (int64_t i = b * each + p * each / of + threadIdx.x; i < end; i += TANGENT_THREADS)
        sum += (double)act_load(dy + i) * (double)act_load(z + i);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        parts[b * of + p] = sum;
}

/* One block per sample. */
__global__ void __launch_bounds__(TANGENT_THREADS)
    jvp_sum_kernel(double *__restrict__ jvp, const double *__restrict__ parts,
                   const float *__restrict__ tangent, int nparts)
{
    double sum = 0;
    for (int p = threadIdx.x; p < nparts; p += TANGENT_THREADS)
        sum += parts[(int64_t)blockIdx.x * nparts + p];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        jvp[blockIdx.x] += tangent[TANGENT_BACK] * sum;
}

__global__ void __launch_bounds__(TANGENT_THREADS)
    jvp_dot_f32_kernel(double *__restrict__ jvp, const float *__restrict__ dy,
                       const float *__restrict__ z, const float *__restrict__ tangent, int64_t each)
{
    const int64_t b = blockIdx.x;
    double sum = 0;
    for (int64_t i = b * each + threadIdx.x; i < (b + 1) * each; i += TANGENT_THREADS)
        sum += (double)dy[i] * (double)z[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        jvp[b] += tangent[TANGENT_BACK] * sum;
}

#ifndef __CUDACC_RTC__
static inline void tangent_init(float *tangent, const float *norm, const float *scale,
                                cudaStream_t s)
{
    launch(tangent_init_kernel, 1, 1, 0, s, tangent, (float *)NULL, norm, scale);
}

/* fp16: v is multiplied by the loss scale, and so is the backward pass. */
static inline void tangent_init_scaled(float *tangent, float *scaler, const float *norm,
                                       const float *scale, cudaStream_t s)
{
    launch(tangent_init_kernel, 1, 1, 0, s, tangent, scaler, norm, scale);
}

/* The same of a v whose norm is not known: for products, which are NaN if v is. */
static inline void tangent_unit(float *tangent, const float *scale, cudaStream_t s)
{
    launch(tangent_unit_kernel, 1, 1, 0, s, tangent, scale);
}

static inline void side(float *tangent, int minus, cudaStream_t s)
{
    launch(side_kernel, 1, 1, 0, s, tangent, minus);
}

/* y = x, bit for bit */
static inline void keep(float *y, const float *x, int64_t n, cudaStream_t s)
{
    cuda_check(cudaMemcpyAsync(y, x, (size_t)n * sizeof *y, cudaMemcpyDeviceToDevice, s),
               "keeping weights");
}

/* w = kept, shifted along v to the next side */
static inline void shift(float *w, const float *v, const float *kept, const float *tangent,
                         int64_t n, cudaStream_t s)
{
    launch(shift_kernel, blocks_over(n, TANGENT_THREADS), TANGENT_THREADS, 0, s, w, v, kept,
           tangent, n);
}

/* The same of `slots` tensors of which this rank has the part, n elements each: those of y and w
 * are `apart` elements after each other, those of x and v `stride`, those of kept n. */
static inline void keep_part(float *y, const float *x, int64_t n, int64_t slots, int64_t apart,
                             int64_t stride, cudaStream_t s)
{
    for (int64_t l = 0; l < slots; l++)
        keep(y + l * apart, x + l * stride, n, s);
}

static inline void shift_part(float *w, const float *v, const float *kept, const float *tangent,
                              int64_t n, int64_t slots, int64_t apart, int64_t stride,
                              cudaStream_t s)
{
    for (int64_t l = 0; l < slots; l++)
        shift(w + l * apart, v + l * stride, kept + l * n, tangent, n, s);
}

/* v as read by products of 16-bit activations */
static inline void tangent_cast(act_t *y, const float *v, const float *tangent, int64_t n,
                                cudaStream_t s)
{
    launch(tangent_cast_kernel, blocks_over(n, TANGENT_THREADS), TANGENT_THREADS, 0, s, y, v,
           tangent,
           n);
}

/* Adds the samples' losses at parameters shifted to one side; after both sides jvp is the
 * derivative. */
static inline void jvp_loss(double *jvp, const float *loss, const float *tangent, int64_t S,
                            cudaStream_t s)
{
    launch(jvp_loss_kernel, blocks_over(S, TANGENT_THREADS), TANGENT_THREADS, 0, s, jvp, loss,
           tangent, S);
}

/* dy, z (n), a sample's elements contiguous: adds the sum of dy z of each sample. ws:
 * jvp_dot_cuda_workspace(S) */
static inline void jvp_dot(double *jvp, const act_t *dy, const act_t *z, const float *tangent,
                           int64_t n, int64_t S, void *ws, cudaStream_t s)
{
    const unsigned wanted = blocks_over(n / S, 16 * TANGENT_THREADS),
                   nparts = wanted < CUDA_JVP_PARTS ? wanted : (unsigned)CUDA_JVP_PARTS;
    double *parts = (double *)ws;
    launch(jvp_parts_kernel, dim3(nparts, (unsigned)S), TANGENT_THREADS, 0, s, parts, dy, z, n / S);
    launch(jvp_sum_kernel, (unsigned)S, TANGENT_THREADS, 0, s, jvp, parts, tangent, (int)nparts);
}

/* The same for the few values that are fp32 in programs with 16-bit activations. */
static inline void jvp_dot_f32(double *jvp, const float *dy, const float *z, const float *tangent,
                               int64_t n, int64_t S, cudaStream_t s)
{
    launch(jvp_dot_f32_kernel, (unsigned)S, TANGENT_THREADS, 0, s, jvp, dy, z, tangent, n / S);
}

/* y = 0 (n) */
static inline void zeros(act_t *y, int64_t n, cudaStream_t s)
{
    cuda_check(cudaMemsetAsync(y, 0, (size_t)n * sizeof *y, s), "clearing rows");
}
#endif

#endif
