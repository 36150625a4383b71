/* cuda_runtime.h -- CUDA C++ for a host compiler: keywords, indices, barriers, warps, launches.
 *
 * Method: a thread of a block is a fiber (fiber.cpp). `__shared__` is thread-local storage of the
 *         one host thread that runs the block: its addresses are known. Collectives of a warp are one
 *         primitive, sim_warp_exchange. Dynamic shared memory is sim_dynamic_shared(). Clusters,
 *         cooperative groups, textures and launches by kernels are not simulated. */
#ifndef SIM_CUDA_RUNTIME_H
#define SIM_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"
#include "sim_math.h"
#include "sim_vector.h"
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__ __attribute__((section("sim_constant")))
#define __shared__ static __thread constinit
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__

enum { warpSize = 32 };

/* Constant while a thread runs, hence const here: the compiler may keep them in registers. */
struct SimIndex {
    unsigned x, y, z;
};
extern "C" const SimIndex threadIdx, blockIdx, blockDim, gridDim;

/* ---- the simulator's own interface, for this folder and ptx.h ---- */
extern "C" {
/* Lanes of `mask` meet: each gives `bytes` (at most 64) and gets what all gave, lane l's at
 * 64 * l of the result, which stays until the calling thread's next collective. `what` names the
 * operation; all lanes must agree on it and on `mask`. Lanes that ended do not take part. */
const unsigned char *sim_warp_exchange(unsigned mask, const void *mine, unsigned bytes,
                                       const char *what);
/* The same, and all 32 lanes must exist and take part: mma, ldmatrix */
const unsigned char *sim_warp_exchange_all(const void *mine, unsigned bytes, const char *what);
/* mma.m16n8k16: c += a b; mine: four registers of a, two of b. */
void sim_product(float c[4], const unsigned mine[6], int bf16);
/* Value that `lane` gave in the calling thread's last exchange; an error if it took no part */
const void *sim_warp_lane(int lane);
/* The lanes that took part in it */
unsigned sim_warp_met(void);
void sim_syncwarp(unsigned mask);
unsigned sim_active_mask(void);
int sim_lane(void);
enum { SIM_BARRIER, SIM_BARRIER_OR, SIM_BARRIER_AND, SIM_BARRIER_COUNT };
int sim_barrier(int kind, int predicate);
void sim_fence(void);

void *sim_dynamic_shared(void);
/* cp.async: the bytes arrive at the wait, zeros after the first `from_bytes`; until then nobody
 * may read them. sim_async_wait leaves the newest `groups` committed groups in flight. */
void sim_async_copy(void *shared, const void *global, unsigned bytes, unsigned from_bytes);
void sim_async_commit(void);
void sim_async_wait(unsigned groups);
void sim_async_wait_all(void);

/* Before an instruction for global memory only: fails for an address of shared memory or of a thread's own. */
void sim_global(const void *p);
/* Before an atomic on these bytes */
void sim_atomic(void *p, unsigned bytes);
/* The running kernel is wrong: one line that names it, block and thread, and exit 97 */
[[noreturn]] void sim_device_fail(const char *what);
/* Each thread calls `run` with a copy of `arguments` of its own. */
cudaError_t sim_enqueue_kernel(const cudaLaunchConfig_t *config, const void *kernel,
                               void (*run)(const void *arguments), const void *arguments,
                               size_t bytes);
}

/* ---- barriers and fences ---- */
static inline void __syncthreads() { sim_barrier(SIM_BARRIER, 0); }
static inline int __syncthreads_or(int p) { return sim_barrier(SIM_BARRIER_OR, p); }
static inline int __syncthreads_and(int p) { return sim_barrier(SIM_BARRIER_AND, p); }
static inline int __syncthreads_count(int p) { return sim_barrier(SIM_BARRIER_COUNT, p); }
static inline void __syncwarp(unsigned mask = 0xffffffff) { sim_syncwarp(mask); }
static inline void __threadfence() { sim_fence(); }
static inline void __threadfence_block() {}
static inline void __threadfence_system() { sim_fence(); }

/* ---- warps: these order no memory (the guide, "Warp Shuffle Functions"); __syncwarp does ---- */
static inline unsigned __activemask() { return sim_active_mask(); }

template <typename T>
static inline T sim_shuffle(unsigned mask, T value, int source, const char *what)
{
    static_assert(sizeof(T) <= 8, "at most 64 bits");
    T result;
    sim_warp_exchange(mask, &value, sizeof value, what);
    memcpy(&result, sim_warp_lane(source), sizeof result);
    return result;
}

template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32)
{
    int lane = sim_lane();
    return sim_shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), "__shfl_sync");
}

template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32)
{
    int lane = sim_lane(), source = lane ^ bits;
    return sim_shuffle(mask, value, source >= (lane | (width - 1)) + 1 ? lane : source,
                       "__shfl_xor_sync");
}

template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    int lane = sim_lane(), first = lane & ~(width - 1);
    return sim_shuffle(mask, value, (int)delta > lane - first ? lane : lane - (int)delta,
                       "__shfl_up_sync");
}

template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    int lane = sim_lane(), last = lane | (width - 1);
    return sim_shuffle(mask, value, (int)delta > last - lane ? lane : lane + (int)delta,
                       "__shfl_down_sync");
}

/* Folds what the lanes of `mask` gave, in the order of lanes; lanes that ended gave nothing. */
template <typename T, typename Fold>
static inline T sim_fold(unsigned mask, T value, const char *what, Fold fold)
{
    sim_warp_exchange(mask, &value, sizeof value, what);
    unsigned live = sim_warp_met();
    T result = value;
    bool first = true;
    for (int lane = 0; lane < 32; lane++) {
        if (!(live >> lane & 1))
            continue;
        T other;
        memcpy(&other, sim_warp_lane(lane), sizeof other);
        result = first ? other : fold(result, other);
        first = false;
    }
    return result;
}

static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    unsigned bit = predicate ? 1u << sim_lane() : 0;
    return sim_fold(mask, bit, "__ballot_sync", [](unsigned a, unsigned b) { return a | b; });
}

static inline int __any_sync(unsigned mask, int predicate)
{
    return sim_fold(mask, predicate != 0, "__any_sync", [](int a, int b) { return a | b; });
}

static inline int __all_sync(unsigned mask, int predicate)
{
    return sim_fold(mask, predicate != 0, "__all_sync", [](int a, int b) { return a & b; });
}

#define SIM_REDUCE(T, name, expression)                                                         \
    static inline T name(unsigned mask, T value)                                                \
    {                                                                                           \
        return sim_fold(mask, value, #name, [](T a, T b) { return (T)(expression); });          \
    }
SIM_REDUCE(unsigned, __reduce_add_sync, a + b)
SIM_REDUCE(unsigned, __reduce_min_sync, b < a ? b : a)
SIM_REDUCE(unsigned, __reduce_max_sync, a < b ? b : a)
SIM_REDUCE(int, __reduce_add_sync, (unsigned)a + (unsigned)b)
SIM_REDUCE(int, __reduce_min_sync, b < a ? b : a)
SIM_REDUCE(int, __reduce_max_sync, a < b ? b : a)
SIM_REDUCE(unsigned, __reduce_and_sync, a & b)
SIM_REDUCE(unsigned, __reduce_or_sync, a | b)
SIM_REDUCE(unsigned, __reduce_xor_sync, a ^ b)
#undef SIM_REDUCE

/* ---- atomics: on integers only; a sum of floats whose order depends on timing is refused ---- */
#if defined(__SANITIZE_THREAD__)
#define SIM_UNCHECKED __attribute__((noinline, no_sanitize("thread")))
#else
#define SIM_UNCHECKED
#endif

#define SIM_ATOMIC(T, name, operand, expression)                                                \
    static inline SIM_UNCHECKED T sim_##name(T *p, T operand)                                   \
    {                                                                                           \
        T old = *p;                                                                             \
        *p = expression;                                                                        \
        return old;                                                                             \
    }                                                                                           \
    static inline T name(T *p, T operand)                                                       \
    {                                                                                           \
        sim_atomic(p, sizeof *p);                                                               \
        return sim_##name(p, operand);                                                          \
    }
#define SIM_ATOMICS(T)                                                                          \
    SIM_ATOMIC(T, atomicMin, x, x < old ? x : old)                                              \
    SIM_ATOMIC(T, atomicMax, x, old < x ? x : old)                                              \
    SIM_ATOMIC(T, atomicExch, x, x)                                                             \
    SIM_ATOMIC(T, atomicAnd, x, old &x)                                                         \
    SIM_ATOMIC(T, atomicOr, x, old | x)                                                         \
    SIM_ATOMIC(T, atomicXor, x, old ^ x)                                                        \
    static inline SIM_UNCHECKED T sim_atomicCAS(T *p, T expected, T x)                          \
    {                                                                                           \
        T old = *p;                                                                             \
        *p = old == expected ? x : old;                                                         \
        return old;                                                                             \
    }                                                                                           \
    static inline T atomicCAS(T *p, T expected, T x)                                            \
    {                                                                                           \
        sim_atomic(p, sizeof *p);                                                               \
        return sim_atomicCAS(p, expected, x);                                                   \
    }
SIM_ATOMICS(int)
SIM_ATOMICS(unsigned)
SIM_ATOMICS(unsigned long long)
SIM_ATOMIC(int, atomicAdd, x, (int)((unsigned)old + (unsigned)x))
SIM_ATOMIC(int, atomicSub, x, (int)((unsigned)old - (unsigned)x))
SIM_ATOMIC(unsigned, atomicAdd, x, old + x)
SIM_ATOMIC(unsigned, atomicSub, x, old - x)
SIM_ATOMIC(unsigned, atomicInc, x, old >= x ? 0 : old + 1)
SIM_ATOMIC(unsigned, atomicDec, x, old == 0 || old > x ? x : old - 1)
SIM_ATOMIC(unsigned long long, atomicAdd, x, old + x)
#undef SIM_ATOMICS
#undef SIM_ATOMIC

#define SIM_FLOAT_ATOMIC(T)                                                                     \
    static inline T atomicAdd(T *, T)                                                           \
    {                                                                                           \
        sim_device_fail("atomicAdd of " #T ": the order of the sum would depend on timing");    \
    }
SIM_FLOAT_ATOMIC(float)
SIM_FLOAT_ATOMIC(double)
#undef SIM_FLOAT_ATOMIC

/* ---- memory ---- */
template <typename T> static inline T __ldg(const T *p) { return sim_global(p), *p; }
template <typename T> static inline T __ldca(const T *p) { return sim_global(p), *p; }
template <typename T> static inline T __ldcg(const T *p) { return sim_global(p), *p; }
template <typename T> static inline T __ldcs(const T *p) { return sim_global(p), *p; }
template <typename T> static inline T __ldlu(const T *p) { return sim_global(p), *p; }
template <typename T> static inline void __stcg(T *p, T value) { sim_global(p), *p = value; }
template <typename T> static inline void __stcs(T *p, T value) { sim_global(p), *p = value; }
template <typename T> static inline void __stwb(T *p, T value) { sim_global(p), *p = value; }
template <typename T> static inline void __stwt(T *p, T value) { sim_global(p), *p = value; }
static inline size_t __cvta_generic_to_shared(const void *p) { return (size_t)p; }

static inline long long clock64() { return (long long)__builtin_ia32_rdtsc(); }
static inline void __nanosleep(unsigned) {}
[[noreturn]] static inline void __trap() { sim_device_fail("__trap()"); }

/* ---- launch ---- */
template <typename Kernel>
static inline cudaError_t cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute attr, int value)
{
    return cudaFuncSetAttribute((const void *)kernel, attr, value);
}

template <typename Kernel>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, Kernel *kernel)
{
    return cudaFuncGetAttributes(attributes, (const void *)kernel);
}

template <typename Kernel>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel *kernel,
                                                                        int block_size,
                                                                        size_t dynamic_shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)kernel, block_size,
                                                         dynamic_shared);
}

template <typename... P, typename... A>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config,
                                             void (*kernel)(P...), A &&...given)
{
    /* bytes, and no more: every program has dozens of these, which have to compile fast */
    const auto call = [kernel, ... arguments = static_cast<P>(given)] { kernel(arguments...); };
    using Call = decltype(call);
    static_assert(std::is_trivially_copyable_v<Call> && alignof(Call) <= 16);
    return sim_enqueue_kernel(config, (const void *)kernel,
                              [](const void *mine) { (*(Call *)mine)(); }, &call, sizeof call);
}

#endif
