/* h_memory.cpp -- devices, memory, copies and the limits of a launch. */
#include "h.h"

#include "include/cuda_runtime.h"

static __global__ void nothing()
{
}

static cudaError_t try_launch(dim3 grid, dim3 block, size_t shared)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    return cudaLaunchKernelEx(&config, nothing);
}

CASE(launch_limits)
{
    OK(try_launch(dim3(1), dim3(1024), 48 << 10));
    CHECK(try_launch(dim3(1), dim3(1025), 0) == cudaErrorInvalidConfiguration);
    CHECK(try_launch(dim3(1), dim3(1, 1, 65), 0) == cudaErrorInvalidConfiguration);
    CHECK(try_launch(dim3(0), dim3(1), 0) == cudaErrorInvalidConfiguration);
    CHECK(try_launch(dim3(1, 65536), dim3(1), 0) == cudaErrorInvalidConfiguration);
    CHECK(try_launch(dim3(1), dim3(1), (48 << 10) + 1) == cudaErrorInvalidValue);
    OK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
    OK(try_launch(dim3(1), dim3(1), 100 << 10));
    CHECK(try_launch(dim3(1), dim3(1), (100 << 10) + 1) == cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10) ==
          cudaErrorInvalidValue);
}

CASE(cards)
{
    cudaDeviceProp p;
    int count, value;
    OK(cudaGetDeviceCount(&count));
    CHECK(count == 8);
    OK(cudaGetDeviceProperties(&p, 7));
    CHECK(p.major == 9 && p.minor == 0 && p.multiProcessorCount == 132);
    CHECK(p.sharedMemPerBlockOptin == 227 << 10);
    setenv("DIECAST_SIM_SM", "8.6", 1);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    CHECK(value == 99 << 10);
    CHECK(cudaGetDeviceProperties(&p, 8) == cudaErrorInvalidDevice);
    setenv("CUDA_VISIBLE_DEVICES", "5,2", 1);
    OK(cudaGetDeviceCount(&count));
    char id[16];
    OK(cudaDeviceGetPCIBusId(id, sizeof id, 1));
    CHECK(count == 2 && strcmp(id, "0000:03:00.0") == 0);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0);
}

FAILS(unknown_card, "5.2")
{
    cudaDeviceProp p;
    setenv("DIECAST_SIM_SM", "5.2", 1);
    cudaGetDeviceProperties(&p, 0);
}

CASE(memory_is_used_up)
{
    setenv("DIECAST_SIM_MEMORY_GIB", "1", 1);
    size_t left, total, now;
    void *p, *q;
    OK(cudaMemGetInfo(&left, &total));
    CHECK(total == 1u << 30 && left < total);
    OK(cudaMalloc(&p, left - 1000));
    CHECK(cudaMalloc(&q, 2000) == cudaErrorMemoryAllocation && !q);
    OK(cudaFree(p));
    OK(cudaMemGetInfo(&now, &total));
    CHECK(now == left);
    OK(cudaFree(nullptr));
}

/* Looks without being looked at. */
__attribute__((no_sanitize("thread"), noinline)) static bool is_nan(const float *p)
{
    return *p != *p;
}

CASE(fresh_memory_is_nan)
{
    float *p;
    OK(cudaMallocHost((void **)&p, 64));
    CHECK((uintptr_t)p % 256 == 0 && is_nan(p) && is_nan(p + 15));
    OK(cudaMalloc((void **)&p, 64));
    CHECK((uintptr_t)p % 256 == 0 && is_nan(p) && is_nan(p + 15));
}

CASE(copies)
{
    char here[100], back[100];
    char *x, *y;
    for (int i = 0; i < 100; i++)
        here[i] = (char)i;
    OK(cudaMalloc((void **)&x, 100));
    OK(cudaMalloc((void **)&y, 100));
    OK(cudaMemcpy(x, here, 100, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(y, x + 50, 50, cudaMemcpyDeviceToDevice));
    OK(cudaMemset(y + 50, 7, 50));
    OK(cudaMemcpy(back, y, 100, cudaMemcpyDefault));
    for (int i = 0; i < 100; i++)
        CHECK(back[i] == (i < 50 ? i + 50 : 7));
    CHECK(cudaMemcpy(back, y, 100, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(back, y, 100, cudaMemcpyHostToHost) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(back, y + 1, 100, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    CHECK(cudaMemset(y + 1, 0, 100) == cudaErrorInvalidValue);
    CHECK(cudaMemset(back, 0, 100) == cudaErrorInvalidValue);
    CHECK(cudaFree(y + 1) == cudaErrorInvalidValue);
    CHECK(cudaFreeHost(y) == cudaErrorInvalidValue);
}

/* Rectangles: 3 rows of 5 bytes, 16 and 8 bytes apart. */
CASE(rectangles)
{
    char *h, *d, back[32];
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaMallocHost((void **)&h, 48));
    OK(cudaMalloc((void **)&d, 24));
    for (int i = 0; i < 48; i++)
        h[i] = (char)i;
    OK(cudaMemsetAsync(d, 99, 24, s));
    OK(cudaMemcpy2DAsync(d, 8, h + 2, 16, 5, 3, cudaMemcpyHostToDevice, s));
    OK(cudaMemcpy2DAsync(back, 8, d, 8, 8, 3, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < 24; i++)
        CHECK(back[i] == (i % 8 < 5 ? i / 8 * 16 + i % 8 + 2 : 99));
    CHECK(cudaMemcpy2DAsync(d, 4, h, 16, 5, 3, cudaMemcpyHostToDevice, s) ==
          cudaErrorInvalidPitchValue);
    CHECK(cudaMemcpy2DAsync(d + 4, 8, h, 16, 5, 3, cudaMemcpyHostToDevice, s) ==
          cudaErrorInvalidValue);
}

CASE(kinds_of_pointers)
{
    cudaPointerAttributes a;
    void *d, *h;
    int here;
    OK(cudaMalloc(&d, 100));
    OK(cudaMallocHost(&h, 100));
    OK(cudaPointerGetAttributes(&a, (char *)d + 99));
    CHECK(a.type == cudaMemoryTypeDevice);
    OK(cudaPointerGetAttributes(&a, h));
    CHECK(a.type == cudaMemoryTypeHost);
    OK(cudaPointerGetAttributes(&a, &here));
    CHECK(a.type == cudaMemoryTypeUnregistered);
}

static int called;

CASE(host_functions_and_times)
{
    cudaEvent_t a, b;
    float ms;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    OK(cudaEventRecord(a, 0));
    OK(cudaLaunchHostFunc(0, [](void *data) { *(int *)data = 5; usleep(2000); }, &called));
    OK(cudaEventRecord(b, 0));
    OK(cudaEventSynchronize(b));
    OK(cudaEventElapsedTime(&ms, a, b));
    CHECK(called == 5 && ms > 1.5f && ms < 500);
    CHECK(strcmp(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady") == 0);
    CHECK(strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
}

int main()
{
    return h_main("memory");
}
