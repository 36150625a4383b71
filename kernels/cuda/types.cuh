/* types.cuh -- storage types of a CUDA program; vectors, reductions, shared memory, launches.
 *
 * In:    ACT_BF16 or ACT_F16 defined by the including program, or neither (fp32).
 * Keeps: arithmetic is fp32; 16-bit types exist only in memory. Rounds to nearest even.
 *        Reductions have one order, whatever the timing; all their threads get the same bits.
 *        Compiles under nvcc, NVRTC (device part only) and, with other headers, a host
 *        compiler. */
#ifndef DIECAST_KERNELS_TYPES_CUH
#define DIECAST_KERNELS_TYPES_CUH

#ifdef __CUDACC_RTC__
#include <cuda/std/cstdint>
using cuda::std::int32_t;
using cuda::std::int64_t;
using cuda::std::uint8_t;
using cuda::std::uint16_t;
using cuda::std::uint32_t;
using cuda::std::uint64_t;
#else
#include <stdint.h>
#include <string.h>

#include <cuda_runtime.h>

#include "../../runtime/base.h"
#endif

#ifdef ACT_BF16
#include <cuda_bf16.h>
typedef __nv_bfloat16 act_t;
#elif defined ACT_F16
#include <cuda_fp16.h>
typedef __half act_t;
#else
typedef float act_t;
#endif
typedef act_t wt_t;             // weights as read by the products

#include "../arguments.h"
#include "workspace.h"

/* Bytes from a tile of 16 x 16 elements, rows `row` bytes apart, to the address that a lane gives
 * for its four matrices: first down, then across, as fragment a or, transposed, as two b; or first
 * across, then down, as the fragments b of rows 0..7 and of rows 8..15 or, transposed, as a. */
static __device__ __forceinline__ int matrices_down(int lane, int row)
{
    return lane % 16 * row + lane / 16 * 16;
}

static __device__ __forceinline__ int matrices_across(int lane, int row)
{
    return (lane % 8 + lane / 16 * 8) * row + lane / 8 % 2 * 16;
}

/* The product of ptx.cuh on fragments of act_t; fp32 programs call none. */
#ifdef ACT_BF16
#define product_act product_bf16
#else
#define product_act product_f16
#endif

static constexpr int ACT_VECTOR = 16 / sizeof(act_t);   // elements per 16-byte access
static constexpr int WARP = 32;

/* ---- one element ---- */

static inline __host__ __device__ float act_load(const act_t *p)
{
#if defined ACT_BF16
    return __bfloat162float(*p);
#elif defined ACT_F16
    return __half2float(*p);
#else
    return *p;
#endif
}

static inline __host__ __device__ void act_store(act_t *p, float v)
{
#if defined ACT_BF16
    *p = __float2bfloat16_rn(v);
#elif defined ACT_F16
    *p = __float2half_rn(v);
#else
    *p = v;
#endif
}

/* v after a store and a load. */
static inline __host__ __device__ float act_round(float v)
{
    act_t t;
    act_store(&t, v);
    return act_load(&t);
}

/* ---- vectors in global memory: p is aligned to the bytes that are accessed ---- */

/* Stores use __stwb, which is one instruction. nvcc may split an assignment of a uint4 into four
 * stores of 32 bits: it did in SwiGLU, GeGLU and the gradients of embeddings and norms. */

/* 4 floats, 16 bytes */
static inline __device__ void f32_load4(float v[4], const float *p)
{
    const float4 x = *(const float4 *)p;
    v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
}

static inline __device__ void f32_store4(float *p, const float v[4])
{
    __stwb((float4 *)p, make_float4(v[0], v[1], v[2], v[3]));
}

#if defined ACT_BF16 || defined ACT_F16
/* Packs two neighbours as in memory, the first in the low half. */
static inline __device__ uint32_t act_pack(float first, float second)
{
#ifdef ACT_BF16
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
#else
    const __half2 pair = __floats2half2_rn(first, second);
#endif
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

static inline __device__ void act_unpack(float v[2], uint32_t bits)
{
#ifdef ACT_BF16
    v[0] = __uint_as_float(bits << 16);
    v[1] = __uint_as_float(bits & 0xffff0000u);
#else
    __half2 pair;
    memcpy(&pair, &bits, sizeof pair);
    v[0] = __low2float(pair);
    v[1] = __high2float(pair);
#endif
}
#endif

/* Each of two after a store and a load: a conversion of two takes less time than two of one. */
static inline __device__ void act_round2(float v[2])
{
#if defined ACT_BF16 || defined ACT_F16
    act_unpack(v, act_pack(v[0], v[1]));
#else
    (void)v;
#endif
}

/* The same of n, an even number, or 1. */
template <int n>
static inline __device__ void act_round_all(float *v)
{
    if constexpr (n == 1)
        *v = act_round(*v);
#pragma unroll
    for (int k = 0; k + 1 < n; k += 2)
        act_round2(v + k);
}

/* 4 elements, 8 or 16 bytes */
static inline __device__ void act_load4(float v[4], const act_t *p)
{
#if defined ACT_BF16 || defined ACT_F16
    const uint2 x = *(const uint2 *)p;
    act_unpack(v, x.x);
    act_unpack(v + 2, x.y);
#else
    f32_load4(v, p);
#endif
}

static inline __device__ void act_store4(act_t *p, const float v[4])
{
#if defined ACT_BF16 || defined ACT_F16
    __stwb((uint2 *)p, make_uint2(act_pack(v[0], v[1]), act_pack(v[2], v[3])));
#else
    f32_store4(p, v);
#endif
}

/* The same of elements that are not read soon: L2 gives up their place first. */
static inline __device__ void act_stream4(act_t *p, const float v[4])
{
#if defined ACT_BF16 || defined ACT_F16
    __stcs((uint2 *)p, make_uint2(act_pack(v[0], v[1]), act_pack(v[2], v[3])));
#else
    __stcs((float4 *)p, make_float4(v[0], v[1], v[2], v[3]));
#endif
}

/* ACT_VECTOR elements, 16 bytes */
static inline __device__ void act_load_vector(float v[ACT_VECTOR], const act_t *p)
{
#if defined ACT_BF16 || defined ACT_F16
    const uint4 x = *(const uint4 *)p;
    act_unpack(v, x.x);
    act_unpack(v + 2, x.y);
    act_unpack(v + 4, x.z);
    act_unpack(v + 6, x.w);
#else
    f32_load4(v, p);
#endif
}

static inline __device__ void act_store_vector(act_t *p, const float v[ACT_VECTOR])
{
#if defined ACT_BF16 || defined ACT_F16
    __stwb((uint4 *)p, make_uint4(act_pack(v[0], v[1]), act_pack(v[2], v[3]),
                                  act_pack(v[4], v[5]), act_pack(v[6], v[7])));
#else
    f32_store4(p, v);
#endif
}

/* ---- reductions; V is float or double ---- */

/* Reduces over all 32 lanes, which must all take part. Every lane gets the same bits, because x + y
 * and y + x do. */
template <typename V>
static inline __device__ V warp_sum(V v)
{
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

/* Ignores a NaN if another lane has a number, as fmaxf does. */
static inline __device__ float warp_max(float v)
{
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}

/* Over a one-dimensional block of whole warps; all threads take part and get the result.
 * Consecutive calls are safe: a barrier keeps the earlier call's values until all have read
 * them. */
template <typename V>
static inline __device__ V block_sum(V v)
{
    __shared__ V parts[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    v = warp_sum(v);
    __syncthreads();
    if (lane == 0)
        parts[warp] = v;
    __syncthreads();
    return warp_sum(lane < warps ? parts[lane] : (V)0);
}

static inline __device__ float block_max(float v)
{
    __shared__ float parts[WARP];
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    v = warp_max(v);
    __syncthreads();
    if (lane == 0)
        parts[warp] = v;
    __syncthreads();
    return warp_max(parts[lane < warps ? lane : 0]);
}

/* ---- dynamic shared memory ---- */

/* In a kernel: DYNAMIC_SHARED(float, row); gives `float *row`, aligned to 128 bytes. */
#ifdef __CUDACC__
#define DYNAMIC_SHARED(type, name)                                        \
    extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[]; \
    type *name = (type *)dynamic_shared_bytes
#else
#define DYNAMIC_SHARED(type, name) type *name = (type *)sim_dynamic_shared()
#endif

/* At the end of a kernel's file: the dynamic shared memory that its launches ask for: for
 * `gen check`. */
#ifdef __CUDACC_RTC__
#define SHARED_BYTES(kernel, bytes) extern "C" __device__ const int kernel##_shared = (bytes)
#endif

/* There too: VARIANTS_family(X) is X(value) for each value of a VARIANT of kernels.def that
 * this recipe may use; `gen check` defines it. */

/* ---- launches ---- */

#ifndef __CUDACC_RTC__

/* Ends the job if a call of the CUDA runtime failed. what: "copying the labels" */
static inline void cuda_check(cudaError_t e, const char *what)
{
    if (e != cudaSuccess)
        die(EXIT_DEVICE, "%s: %s (%s)", what, cudaGetErrorString(e), cudaGetErrorName(e));
}

/* Number of blocks of `each` elements that cover n. */
static inline unsigned blocks_over(int64_t n, int64_t each)
{
    return (unsigned)((n + each - 1) / each);
}

/* True if p can be accessed `bytes` at a time. */
static inline bool aligned(const void *p, int64_t bytes)
{
    return (uintptr_t)p % (uintptr_t)bytes == 0;
}

/* A limit of the current device. */
static inline int device_limit(cudaDeviceAttr of)
{
    int device = 0, limit = 0;
    cuda_check(cudaGetDevice(&device), "finding the device");
    cuda_check(cudaDeviceGetAttribute(&limit, of, device), "reading a limit of the device");
    return limit;
}

/* Launches a kernel; all launches go through here. Can be captured into a graph. shared_bytes:
 * dynamic shared memory; opts in if it and the static shared memory exceed 48 KiB. */
template <typename... P, typename... A>
static inline void launch(void (*kernel)(P...), dim3 grid, dim3 block, int64_t shared_bytes,
                          cudaStream_t s, A... arguments)
{
    enum { FREE_SHARED = 40 << 10 };
    if (shared_bytes > FREE_SHARED)
        cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        (int)shared_bytes),
                   "shared memory of a kernel");
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = (size_t)shared_bytes;
    config.stream = s;
    cuda_check(cudaLaunchKernelEx(&config, kernel, arguments...), "the launch of a kernel");
}
#endif

#endif
