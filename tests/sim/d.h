/* d.h -- cases of the simulator's device side: h.h, device memory with known contents, launches. */
#ifndef SIM_D_H
#define SIM_D_H

#include "h.h"

#include "include/cuda_bf16.h"
#include "include/cuda_fp16.h"
#include "include/cuda_runtime.h"

/* `n` elements, unwritten */
template <typename T> static inline T *fresh(size_t n)
{
    void *p;
    OK(cudaMalloc(&p, sizeof(T) * n));
    return (T *)p;
}

/* `n` elements, all `value` */
template <typename T> static inline T *filled(size_t n, T value)
{
    std::vector<T> host(n, value);
    T *p = fresh<T>(n);
    OK(cudaMemcpy(p, host.data(), sizeof(T) * n, cudaMemcpyHostToDevice));
    return p;
}

/* 0, 1, 2 ... */
template <typename T> static inline T *counted(size_t n)
{
    std::vector<T> host(n);
    for (size_t i = 0; i < n; i++)
        host[i] = (T)(int)i;
    T *p = fresh<T>(n);
    OK(cudaMemcpy(p, host.data(), sizeof(T) * n, cudaMemcpyHostToDevice));
    return p;
}

template <typename T> static inline std::vector<T> back(const T *p, size_t n)
{
    std::vector<T> host(n);
    OK(cudaMemcpy(host.data(), p, sizeof(T) * n, cudaMemcpyDeviceToHost));
    return host;
}

template <typename... P, typename... A>
static inline void launch_shared(size_t shared, dim3 grid, dim3 block, void (*kernel)(P...), A... a)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    OK(cudaLaunchKernelEx(&config, kernel, a...));
}

template <typename... P, typename... A>
static inline void launch(dim3 grid, dim3 block, void (*kernel)(P...), A... a)
{
    launch_shared(0, grid, block, kernel, a...);
}

#endif
