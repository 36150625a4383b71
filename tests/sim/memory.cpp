/* memory.cpp -- devices, their memory, copies, and the limits of a launch.
 *
 * In:    DIECAST_SIM_SM the compute capability (9.0), DIECAST_SIM_MEMORY_GIB of a device (80),
 *        DIECAST_SIM_DEVICES in the host (8), CUDA_VISIBLE_DEVICES as the driver takes it.
 * Keeps: memory is handed out full of 0xff (its first 256 MiB): what nothing wrote is NaN. */
#include "host.h"

#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Card {
    int major, minor, processors, shared_sm, shared_block, threads, blocks, l2, bus;
};

static const Card cards[] = {
#define CARD(...) {__VA_ARGS__},
#include "devices.def"
#undef CARD
};

enum { KIB = 1024, CONTEXT_MIB = 512, DEFAULT_SHARED = 48 * KIB, RESERVED_SHARED = 1 * KIB };

static size_t allocated;                              /* bytes of device memory */
static std::map<const void *, int> dynamic_limits;    /* set by cudaFuncSetAttribute */
static thread_local int chosen;

static const Card *card()
{
    const char *wanted = getenv("DIECAST_SIM_SM");
    int major = 9, minor = 0;
    if (wanted && sscanf(wanted, "%d.%d", &major, &minor) != 2)
        sim_fail("DIECAST_SIM_SM=%s is no compute capability", wanted);
    for (const Card &c : cards)
        if (c.major == major && c.minor == minor)
            return &c;
    sim_fail("no row of devices.def for compute capability %d.%d", major, minor);
}

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

/* The devices that the process sees, as numbers on the host. */
static std::vector<int> visible()
{
    std::vector<int> list;
    long installed = number("DIECAST_SIM_DEVICES", 8);
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    if (!text) {
        for (int i = 0; i < installed; i++)
            list.push_back(i);
        return list;
    }
    while (*text) {              /* up to the first that does not exist */
        char *end;
        long device = strtol(text, &end, 10);
        if (end == text || device < 0 || device >= installed)
            break;
        list.push_back((int)device);
        text = *end == ',' ? end + 1 : end;
    }
    return list;
}

static size_t total_bytes()
{
    const char *text = getenv("DIECAST_SIM_MEMORY_GIB");
    return (size_t)((text ? atof(text) : 80) * (double)((size_t)1 << 30));
}

int device_physical(int device)
{
    return visible()[(size_t)device];
}

int device_current()
{
    return chosen;
}

static cudaError_t check_device(int device)
{
    int count;
    cudaError_t error = cudaGetDeviceCount(&count);
    return error != cudaSuccess ? error
           : device < 0 || device >= count ? cudaErrorInvalidDevice : cudaSuccess;
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = (int)visible().size();
    return *count ? cudaSuccess : sim_answer(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = check_device(device);
    if (error == cudaSuccess)
        chosen = device;
    return sim_answer(error);
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = check_device(chosen);
    *device = chosen;
    return sim_answer(error);
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    return sim_answer(flags > cudaDeviceScheduleBlockingSync ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    cudaError_t error = check_device(device);
    if (error != cudaSuccess)
        return sim_answer(error);
    const Card *c = card();
    *prop = {};
    snprintf(prop->name, sizeof prop->name, "Simulated GPU sm_%d%d", c->major, c->minor);
    memset(prop->uuid.bytes, device_physical(device) + 1, sizeof prop->uuid.bytes);
    prop->totalGlobalMem = total_bytes();
    prop->sharedMemPerBlock = DEFAULT_SHARED;
    prop->sharedMemPerBlockOptin = (size_t)c->shared_block * KIB;
    prop->sharedMemPerMultiprocessor = (size_t)c->shared_sm * KIB;
    prop->reservedSharedMemPerBlock = RESERVED_SHARED;
    prop->totalConstMem = 64 * KIB;
    prop->regsPerBlock = prop->regsPerMultiprocessor = 65536;
    prop->warpSize = 32;
    prop->maxThreadsPerBlock = 1024;
    prop->maxThreadsPerMultiProcessor = c->threads;
    prop->maxBlocksPerMultiProcessor = c->blocks;
    prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
    prop->maxThreadsDim[2] = 64;
    prop->maxGridSize[0] = 0x7fffffff;
    prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
    prop->major = c->major;
    prop->minor = c->minor;
    prop->multiProcessorCount = c->processors;
    prop->memoryBusWidth = c->bus;
    prop->l2CacheSize = c->l2 << 20;
    prop->concurrentKernels = prop->unifiedAddressing = 1;
    prop->asyncEngineCount = 3;
    prop->pciBusID = device_physical(device) + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    struct cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    if (error != cudaSuccess)
        return error;
    const struct {
        enum cudaDeviceAttr attr;
        size_t value;
    } rows[] = {
        {cudaDevAttrMaxThreadsPerBlock, (size_t)p.maxThreadsPerBlock},
        {cudaDevAttrMaxSharedMemoryPerBlock, p.sharedMemPerBlock},
        {cudaDevAttrWarpSize, (size_t)p.warpSize},
        {cudaDevAttrMaxRegistersPerBlock, (size_t)p.regsPerBlock},
        {cudaDevAttrClockRate, 1500000},
        {cudaDevAttrMultiProcessorCount, (size_t)p.multiProcessorCount},
        {cudaDevAttrMemoryClockRate, 2500000},
        {cudaDevAttrGlobalMemoryBusWidth, (size_t)p.memoryBusWidth},
        {cudaDevAttrL2CacheSize, (size_t)p.l2CacheSize},
        {cudaDevAttrMaxThreadsPerMultiProcessor, (size_t)p.maxThreadsPerMultiProcessor},
        {cudaDevAttrComputeCapabilityMajor, (size_t)p.major},
        {cudaDevAttrComputeCapabilityMinor, (size_t)p.minor},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, p.sharedMemPerMultiprocessor},
        {cudaDevAttrMaxRegistersPerMultiprocessor, (size_t)p.regsPerMultiprocessor},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, p.sharedMemPerBlockOptin},
    };
    for (const auto &row : rows)
        if (row.attr == attr) {
            *value = (int)row.value;
            return cudaSuccess;
        }
    return sim_answer(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int len, int device)
{
    cudaError_t error = check_device(device);
    if (error == cudaSuccess && len < 13)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        snprintf(id, (size_t)len, "0000:%02X:00.0", ((unsigned)device_physical(device) + 1) & 0xff);
    return sim_answer(error);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = stream_refuse_capture();
    if (error == cudaSuccess)
        stream_wait_all();
    return sim_answer(error);
}

cudaError_t cudaDeviceReset(void)
{
    return cudaDeviceSynchronize();
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch ((int)error) {
#define ERROR(name, value, text) case value: return "cuda" #name;
#include "errors.def"
#undef ERROR
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch ((int)error) {
#define ERROR(name, value, text) case value: return text;
#include "errors.def"
#undef ERROR
    }
    return "unrecognized error code";
}

/* ---- kernels ---- */

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    SimLock lock(sim_mutex);
    if (!func)
        return sim_answer(cudaErrorInvalidDeviceFunction);
    if (attr == cudaFuncAttributePreferredSharedMemoryCarveout && value >= -1 && value <= 100)
        return cudaSuccess;
    if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        value > card()->shared_block * KIB)
        return sim_answer(cudaErrorInvalidValue);
    dynamic_limits[func] = value;
    return cudaSuccess;
}

static size_t dynamic_limit(const void *func)
{
    auto at = dynamic_limits.find(func);
    return at == dynamic_limits.end() ? (size_t)DEFAULT_SHARED : (size_t)at->second;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    SimLock lock(sim_mutex);
    if (!attr || !func)
        return sim_answer(cudaErrorInvalidDeviceFunction);
    const Card *c = card();
    *attr = {};
    attr->maxThreadsPerBlock = 1024;
    attr->binaryVersion = attr->ptxVersion = c->major * 10 + c->minor;
    attr->maxDynamicSharedSizeBytes = (int)dynamic_limit(func);
    attr->preferredShmemCarveout = -1;
    return cudaSuccess;
}

/* By threads and dynamic shared memory; registers are the compiler's, and there is none here. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func,
                                                          int block_size, size_t dynamic_shared)
{
    if (!blocks || !func || block_size < 1 || block_size > 1024)
        return sim_answer(cudaErrorInvalidValue);
    const Card *c = card();
    int by_threads = c->threads / ((block_size + 31) / 32 * 32);
    int by_shared = (int)((size_t)c->shared_sm * KIB / (dynamic_shared + RESERVED_SHARED));
    *blocks = by_threads < c->blocks ? by_threads : c->blocks;
    if (by_shared < *blocks)
        *blocks = by_shared;
    return cudaSuccess;
}

cudaError_t device_check_launch(const cudaLaunchConfig_t *config, const void *kernel)
{
    const dim3 &g = config->gridDim, &b = config->blockDim;
    if (config->numAttrs)
        return cudaErrorNotSupported;
    if (!g.x || !g.y || !g.z || g.x > 0x7fffffff || g.y > 65535 || g.z > 65535 || !b.x || !b.y ||
        !b.z || b.x > 1024 || b.y > 1024 || b.z > 64 || b.x * b.y * b.z > 1024)
        return cudaErrorInvalidConfiguration;
    SimLock lock(sim_mutex);
    return config->dynamicSmemBytes > dynamic_limit(kernel) ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *data)
{
    if (!fn)
        return sim_answer(cudaErrorInvalidValue);
    return stream_enqueue(stream, "cudaLaunchHostFunc", [fn, data] { fn(data); return true; });
}

/* ---- memory ---- */

static void *allocate(SimMemory kind, size_t size)
{
    void *p = sim_allocate(kind, size);
    if (p)
        memset(p, 0xff, size < sim_filled ? size : sim_filled);
    if (p && kind == SIM_PINNED)     /* host code that is not looked at may write it */
        sim_write(p, size);
    return p;
}

cudaError_t cudaMalloc(void **p, size_t size)
{
    SimLock lock(sim_mutex);
    cudaError_t error = stream_refuse_capture();
    if (error != cudaSuccess || !p)
        return sim_answer(p ? error : cudaErrorInvalidValue);
    *p = nullptr;
    if (!size)
        return cudaSuccess;
    if (size > total_bytes() - ((size_t)CONTEXT_MIB << 20) - allocated)
        return sim_answer(cudaErrorMemoryAllocation);
    *p = allocate(SIM_DEVICE, size);
    if (!*p)
        return sim_answer(cudaErrorMemoryAllocation);
    allocated += size;
    return cudaSuccess;
}

/* The start of an allocation of this kind? */
static bool whole(const void *p, SimMemory kind, size_t *bytes)
{
    SimMemory found;
    void *start;
    return sim_find(p, &found, &start, bytes) && found == kind && start == p;
}

static cudaError_t release(void *p, SimMemory kind, cudaError_t otherwise)
{
    if (!p)
        return cudaSuccess;
    cudaError_t error = stream_refuse_capture();
    if (error != cudaSuccess)
        return error;
    stream_wait_all();
    SimLock lock(sim_mutex);
    size_t bytes;
    if (!whole(p, kind, &bytes))
        return otherwise;
    sim_release(p);
    if (kind == SIM_DEVICE)
        allocated -= bytes;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    return sim_answer(release(p, SIM_DEVICE, cudaErrorInvalidValue));
}

cudaError_t cudaHostAlloc(void **p, size_t size, unsigned flags)
{
    SimLock lock(sim_mutex);
    cudaError_t error = stream_refuse_capture();
    if (error != cudaSuccess)
        return sim_answer(error);
    if (!p || flags > 7)
        return sim_answer(cudaErrorInvalidValue);
    *p = size ? allocate(SIM_PINNED, size) : nullptr;
    return sim_answer(size && !*p ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaMallocHost(void **p, size_t size)
{
    return cudaHostAlloc(p, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *p)
{
    return sim_answer(release(p, SIM_PINNED, cudaErrorInvalidValue));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    SimLock lock(sim_mutex);
    *total = total_bytes();
    *free_bytes = *total - ((size_t)CONTEXT_MIB << 20) - allocated;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *p)
{
    SimLock lock(sim_mutex);
    SimMemory kind;
    if (!attributes)
        return sim_answer(cudaErrorInvalidValue);
    *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, const_cast<void *>(p)};
    if (!sim_find(p, &kind, nullptr, nullptr))
        return cudaSuccess;
    void *address = const_cast<void *>(p);
    if (kind == SIM_DEVICE)
        *attributes = {cudaMemoryTypeDevice, chosen, address, nullptr};
    else
        *attributes = {cudaMemoryTypeHost, chosen, address, address};
    return cudaSuccess;
}

/* ---- copies ---- */

enum Place { PAGEABLE, PINNED, DEVICE };

/* False: the bytes leave the allocation that p lies in. */
static bool place_of(const void *p, size_t count, Place *place)
{
    SimMemory kind;
    void *start;
    size_t bytes;
    *place = PAGEABLE;
    if (!sim_find(p, &kind, &start, &bytes))
        return true;
    *place = kind == SIM_DEVICE ? DEVICE : PINNED;
    return count <= bytes - (size_t)((const char *)p - (const char *)start);
}

static bool fits(enum cudaMemcpyKind kind, Place to, Place from)
{
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return kind == cudaMemcpyDefault ||
           (to_device == (to == DEVICE) && from_device == (from == DEVICE));
}

struct Copy {
    Place to, from;
};

static cudaError_t check_copy(Copy *copy, void *to, const void *from, size_t count,
                              enum cudaMemcpyKind kind)
{
    SimLock lock(sim_mutex);
    if (!to || !from || (unsigned)kind > cudaMemcpyDefault)
        return kind > cudaMemcpyDefault ? cudaErrorInvalidMemcpyDirection : cudaErrorInvalidValue;
    if (!place_of(to, count, &copy->to) || !place_of(from, count, &copy->from) ||
        !fits(kind, copy->to, copy->from))
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

static Work copy_work(void *to, const void *from, size_t count)
{
    return [=] {
        sim_copy(to, from, count);
        memmove(to, from, count);
        return true;
    };
}

/* Bytes of pageable memory are taken at once, as the driver's staging does. */
static cudaError_t copy_staged(const char *name, void *to, const void *from, size_t count,
                               cudaStream_t stream)
{
    auto staged = std::make_shared<std::vector<char>>((const char *)from,
                                                      (const char *)from + count);
    return stream_enqueue(stream, name, [=] {
        sim_write(to, count);
        memcpy(to, staged->data(), count);
        return true;
    });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    if (!count)
        return cudaSuccess;
    Copy copy;
    cudaError_t error = check_copy(&copy, to, from, count, kind);
    if (error != cudaSuccess)
        return sim_answer(error);
    bool pageable = copy.to == PAGEABLE || copy.from == PAGEABLE;
    if (pageable && stream_capturing(stream)) {
        stream_refuse_capture();
        return sim_answer(cudaErrorStreamCaptureUnsupported);
    }
    if (copy.from == PAGEABLE && copy.to == DEVICE)
        return copy_staged("cudaMemcpyAsync", to, from, count, stream);
    error = stream_enqueue(stream, "cudaMemcpyAsync", copy_work(to, from, count));
    if (error == cudaSuccess && pageable)
        stream_wait_host(stream);
    return error;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    Copy copy = {DEVICE, DEVICE};
    cudaError_t error = cudaSuccess;
    if (!width || !height)
        return cudaSuccess;
    if (width > to_pitch || width > from_pitch)
        return sim_answer(cudaErrorInvalidPitchValue);
    auto row_to = [=](size_t r) { return (char *)to + r * to_pitch; };
    auto row_from = [=](size_t r) { return (const char *)from + r * from_pitch; };
    for (size_t r = 0; r < height && error == cudaSuccess; r++)
        error = check_copy(&copy, row_to(r), row_from(r), width, kind);
    if (error != cudaSuccess)
        return sim_answer(error);
    if (copy.to != PAGEABLE && copy.from != PAGEABLE)
        return stream_enqueue(stream, "cudaMemcpy2DAsync", [=] {
            for (size_t r = 0; r < height; r++)
                copy_work(row_to(r), row_from(r), width)();
            return true;
        });
    for (size_t r = 0; r < height && error == cudaSuccess; r++)
        error = cudaMemcpyAsync(row_to(r), row_from(r), width, kind, stream);
    return error;
}

/* What the host may rely on after the call is what the runtime promises ("API synchronization
 * behavior" in its manual): a copy within the device is under way, and so is the last part of one
 * from pageable memory. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t count, enum cudaMemcpyKind kind)
{
    cudaError_t error = stream_refuse_capture();
    if (error != cudaSuccess || !count)
        return sim_answer(error);
    Copy copy;
    error = check_copy(&copy, to, from, count, kind);
    if (error != cudaSuccess)
        return sim_answer(error);
    if (copy.from == PAGEABLE && copy.to == DEVICE)
        return copy_staged("cudaMemcpy", to, from, count, nullptr);
    error = stream_enqueue(nullptr, "cudaMemcpy", copy_work(to, from, count));
    if (error == cudaSuccess && (copy.to != DEVICE || copy.from != DEVICE))
        stream_wait_host(nullptr);
    return error;
}

static cudaError_t set(const char *name, void *p, int value, size_t count, cudaStream_t stream)
{
    Place place;
    if (!count)
        return cudaSuccess;
    {
        SimLock lock(sim_mutex);
        if (!p || !place_of(p, count, &place) || place == PAGEABLE)
            return sim_answer(cudaErrorInvalidValue);
    }
    return stream_enqueue(stream, name, [=] {
        sim_write(p, count);
        memset(p, value, count);
        return true;
    });
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t count, cudaStream_t stream)
{
    return set("cudaMemsetAsync", p, value, count, stream);
}

cudaError_t cudaMemset(void *p, int value, size_t count)
{
    cudaError_t error = stream_refuse_capture();
    return error == cudaSuccess ? set("cudaMemset", p, value, count, nullptr) : sim_answer(error);
}
