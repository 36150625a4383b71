/* device_cuda.c -- arrays of a CUDA program: in GPU memory, copied through pinned host memory.
 *
 * Out:   the GPU of this rank.
 * Keeps: one copy at a time, on its own stream; no other rank's GPU is used. */
#include "runtime/device.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/nvml_cuda.h"

static int visible, chosen = -1;     /* GPUs, index of this one */
static struct cudaDeviceProp about;
static size_t free_at_open;
static cudaStream_t copies;
static pthread_mutex_t one_copy = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool selected;  /* CUDA's current device is per thread */
static _Thread_local void *view_piece, *room_piece;

static void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        die(EXIT_DEVICE, "%s: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

static void select_device(void)
{
    if (!selected)
        check(cudaSetDevice(chosen), "choosing the GPU");
    selected = true;
}

static void choose(void)
{
    cudaError_t error = cudaGetDeviceCount(&visible);
    if (error != cudaSuccess || visible == 0)
        die(EXIT_CONFIG, "no GPU to run on: %s; check the driver and CUDA_VISIBLE_DEVICES",
            error != cudaSuccess ? cudaGetErrorString(error) : "none is visible");
    if (visible != 1 && world.local_rank >= visible)
        die(EXIT_CONFIG,
            "%d GPUs are visible to %d ranks of this host: rank %d has none; for %d GPUs gen %s "
            "gpus=%d "
            "&& make, else let CUDA_VISIBLE_DEVICES or run.sh --gpu-ids show more",
            visible, world.local_size, world.rank, visible, world.words ? world.words : "RECIPE",
            visible);
    chosen = visible == 1 ? 0 : world.local_rank;
}

/* Machine code for sm_90 runs on compute capability 9.0 and, for a plain target, on later minor
 * versions; the plan and the tiles are made for that one. */
static void check_target(const char *target)
{
    int wanted;
    if (sscanf(target, "sm_%d", &wanted) != 1)
        die(EXIT_INTERNAL, "target %s names no compute capability", target);
    if (wanted != 10 * about.major + about.minor)
        die(EXIT_MISMATCH, "built for %s, but GPU %d is %s of compute capability %d.%d: choose "
            "another GPU with CUDA_VISIBLE_DEVICES, or build for it with target = \"sm_%d%d\"",
            target, chosen, about.name, about.major, about.minor, about.major, about.minor);
}

void device_open(const char *target)
{
    size_t total;
    choose();
    check(cudaGetDeviceProperties(&about, chosen), "asking for the GPU's properties");
    check_target(target);
    select_device();
    check(cudaMemGetInfo(&free_at_open, &total), "starting to use the GPU");
    check(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking), "a stream for copies");
}

const char *device_name(void)
{
    return about.name;
}

int device_visible(void)
{
    return visible;
}

int64_t device_used(void)
{
    size_t left, total;
    select_device();
    check(cudaMemGetInfo(&left, &total), "asking for the GPU's free memory");
    return left < free_at_open ? (int64_t)(free_at_open - left) : 0;
}

/* ---- how busy it is -------------------------------------------------------------------------- */

static struct {
    bool tried;
    NvmlDevice device;               /* NULL: NVML is unavailable */
    NvmlUse last;
    double when;                     /* time of the last query */
    double sum;                      /* sum of percentages */
    int64_t answers;
} watched;

static void find_watched(void)
{
    char bus[32];
    watched.tried = true;
    if (!nvml_open() && cudaDeviceGetPCIBusId(bus, sizeof bus, chosen) == cudaSuccess)
        watched.device = nvml_at(bus);
}

void device_watch(void)
{
    if (!watched.tried)
        find_watched();
    if (!watched.device || clock_seconds() - watched.when < 1)
        return;
    nvml_use(watched.device, &watched.last);
    watched.when = clock_seconds();
    if (watched.last.busy < 0)
        return;
    watched.sum += watched.last.busy;
    watched.answers++;
}

bool device_seen(DeviceUse *u)
{
    const NvmlUse *last = &watched.last;
    device_watch();
    *u = (DeviceUse){.used = last->used, .total = last->total, .busy = last->busy};
    snprintf(u->name, sizeof u->name, "%.63s", about.name);
    return watched.device && (last->busy >= 0 || last->total);
}

bool device_use(DeviceUse *u)
{
    size_t left, total;
    device_watch();
    select_device();
    check(cudaMemGetInfo(&left, &total), "asking for the GPU's free memory");
    *u = (DeviceUse){.used = (int64_t)(total - left), .total = (int64_t)total,
                     .busy = watched.answers ? watched.sum / (double)watched.answers : -1};
    snprintf(u->name, sizeof u->name, "%.63s", about.name);
    return true;
}

/* ---- marks of time --------------------------------------------------------------------------- */

static struct { cudaEvent_t *event; int64_t *ns; int n, made; } marks;

void device_mark(struct CUstream_st *s)
{
    select_device();
    if (marks.n == marks.made) {
        const int room = marks.made ? 2 * marks.made : 1024;
        marks.event = realloc(marks.event, sizeof *marks.event * (size_t)room);
        marks.ns = realloc(marks.ns, sizeof *marks.ns * (size_t)room);
        if (!marks.event || !marks.ns)
            die(EXIT_CONFIG, "no memory for %d time marks", room);
        for (; marks.made < room; marks.made++)
            check(cudaEventCreate(&marks.event[marks.made]), "an event");
    }
    /* now: on a stream of our own, idle because each copy is waited for */
    check(cudaEventRecord(marks.event[marks.n++], s ? s : copies), "an event");
}

int device_marks(const int64_t **ns)
{
    const int n = marks.n;
    for (int i = 0; i < n; i++) {
        float ms = 0;
        check(cudaEventSynchronize(marks.event[i]), "an event");
        if (i)
            check(cudaEventElapsedTime(&ms, marks.event[i - 1], marks.event[i]), "an event");
        marks.ns[i] = (i ? marks.ns[i - 1] : 0) + (int64_t)(1e6 * (double)ms);
    }
    *ns = marks.ns;
    marks.n = 0;
    return n;
}

void *device_arena(int64_t bytes, const char *what)
{
    void *p = NULL;
    size_t left = 0, total = 0;
    select_device();
    cudaError_t error = cudaMalloc(&p, (size_t)(bytes > 0 ? bytes : 1));
    if (error == cudaErrorMemoryAllocation) {
        check(cudaMemGetInfo(&left, &total), "asking for the GPU's free memory");
        die(EXIT_CONFIG,
            "not enough memory for %s: %.3f GiB, free are %.3f of the %.3f GiB of "
            "%s: lower batch.micro, or end other programs on the GPU",
            what, (double)bytes / (1 << 30), (double)left / (1 << 30), (double)total / (1 << 30),
            about.name);
    }
    check(error, what);
    return p;
}

/* ---- memory of the host ---------------------------------------------------------------------- */

enum { PINNED = 8 };
static struct { const char *at; int64_t bytes; } pinned[PINNED];     /* of device_pinned() */
static int npinned;

static bool is_pinned(const char *at)
{
    for (int i = 0; i < npinned; i++)
        if (at >= pinned[i].at && at < pinned[i].at + pinned[i].bytes)
            return true;
    return false;
}

static void *pin(int64_t bytes, const char *what)
{
    void *p = NULL;
    size_t size = (size_t)(bytes > 0 ? bytes : 1);
    select_device();
    cudaError_t error = cudaHostAlloc(&p, size, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation)
        die(EXIT_CONFIG, "not enough pinned host memory for %s: %.3f MiB; end other programs, or "
            "raise the limit on locked memory (ulimit -l)", what,
            (double)bytes / (1 << 20));
    check(error, what);
    memset(p, 0, size);
    return p;
}

void *device_pinned(int64_t bytes, const char *what)
{
    REQUIRE(npinned < PINNED);
    pinned[npinned].at = pin(bytes, what);
    pinned[npinned].bytes = bytes;
    return (void *)(uintptr_t)pinned[npinned++].at;
}

static void *piece(void **of_thread, int64_t bytes)
{
    if (bytes < 0 || bytes > ARRAY_PIECE)
        die(EXIT_INTERNAL, "a piece of %lld bytes", (long long)bytes);
    if (!*of_thread)
        *of_thread = pin(ARRAY_PIECE, "copies of weights");
    return *of_thread;
}

/* Copies rows x bytes; the strides are unused for one row. The driver tells which pointers are
 * to device memory: arrays may be in pinned memory, too. */
static void copy(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t rows,
                 int64_t bytes, const char *what)
{
    cudaError_t error = cudaSuccess;
    if (bytes == 0)
        return;
    select_device();
    pthread_mutex_lock(&one_copy);
    if (rows == 1)
        error = cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDefault, copies);
    else
        error = cudaMemcpy2DAsync(to, (size_t)to_stride, from, (size_t)from_stride, (size_t)bytes,
                                  (size_t)rows, cudaMemcpyDefault, copies);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(copies);
    pthread_mutex_unlock(&one_copy);
    check(error, what);
}

const void *array_view_rows(const void *from, int64_t rows, int64_t bytes, int64_t *stride)
{
    if (is_pinned(from))
        return from;
    void *to = piece(&view_piece, rows * bytes);
    copy(to, bytes, from, *stride, rows, bytes, "copying from the GPU");
    *stride = bytes;
    return to;
}

const void *array_view(const void *from, int64_t bytes)
{
    int64_t stride = bytes;
    return array_view_rows(from, 1, bytes, &stride);
}

void *array_room_rows(void *to, int64_t rows, int64_t bytes, int64_t *stride)
{
    (void)to;
    *stride = bytes;
    return piece(&room_piece, rows * bytes);
}

void *array_room(void *to, int64_t bytes)
{
    (void)to;
    return piece(&room_piece, bytes);
}

void array_write_rows(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                      int64_t rows, int64_t bytes)
{
    copy(to, to_stride, from, from_stride, rows, bytes, "copying to the GPU");
}

void array_write(void *to, const void *from, int64_t bytes)
{
    copy(to, bytes, from, bytes, 1, bytes, "copying to the GPU");
}

void array_read(void *to, const void *from, int64_t bytes)
{
    copy(to, bytes, from, bytes, 1, bytes, "copying from the GPU");
}

void array_zero(void *to, int64_t bytes)
{
    if (bytes == 0)
        return;
    select_device();
    pthread_mutex_lock(&one_copy);
    cudaError_t error = cudaMemsetAsync(to, 0, (size_t)bytes, copies);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(copies);
    pthread_mutex_unlock(&one_copy);
    check(error, "clearing memory of the GPU");
}
