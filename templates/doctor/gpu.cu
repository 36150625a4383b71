/* gpu.cu -- GPU checks of gen doctor: results of kernels, memory, copies between GPUs, NCCL.
 *
 * In:     argv[1]: number of GPUs; -DDOCTOR_NCCL=1: NCCL is installed.
 * Out:    one line per check, `WHAT GPU ok|bad TEXT`: device, product and memory of each GPU, copy
 *         for each pair, nccl.
 * Method: each part runs in its own process, so that a failing GPU spoils no other check. Its
 *         kernels, copies and collectives are on one stream of its GPU, in the order of the
 *         calls. */
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if DOCTOR_NCCL
#include <nccl.h>
#endif

// SHARE: percent of the free memory
enum { SIDE = 64, SHARE = 70, COPIED = 1 << 20, SUMMED = 1 << 16 };
static const size_t piece_bytes = (size_t)1 << 30;

// Prints the line of a failed check and ends this part.
static void fail(const char *what, const char *gpu, const char *call, const char *why)
{
    printf("%s %s bad %s: %s\n", what, gpu, call, why);
    fflush(stdout);
    _exit(1);
}

#define CUDA(call)                                                      \
    do {                                                                \
        cudaError_t error_ = (call);                                    \
        if (error_ != cudaSuccess)                                      \
            fail(what, gpu, #call, cudaGetErrorString(error_));         \
    } while (0)
#define LT(call)                                                        \
    do {                                                                \
        cublasStatus_t status_ = (call);                                \
        if (status_ != CUBLAS_STATUS_SUCCESS)                           \
            fail(what, gpu, #call, cublasLtGetStatusName(status_));     \
    } while (0)

// A stream of GPU `number`, which becomes the current one.
static cudaStream_t open_stream(const char *what, const char *gpu, int number)
{
    cudaStream_t s;
    CUDA(cudaSetDevice(number));
    CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

template <typename... Args>
static void launch(const char *what, const char *gpu, cudaStream_t s, void (*kernel)(Args...),
                   Args... args)
{
    enum { BLOCKS = 1024, THREADS = 256 };
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(BLOCKS);
    config.blockDim = dim3(THREADS);
    config.stream = s;
    CUDA(cudaLaunchKernelEx(&config, kernel, args...));
}

// ---- a product: small integers, so that every order of sums gives the same

static void product(int number, const char *gpu)
{
    const char *what = "product";
    static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
    float *da, *db, *dc, one = 1, zero = 0;
    const cudaStream_t s = open_stream(what, gpu, number);
    for (int i = 0; i < SIDE * SIDE; i++) {
        a[i] = (float)(i * 7 % 13 - 6);
        b[i] = (float)(i * 5 % 11 - 5);
    }
    CUDA(cudaMalloc((void **)&da, sizeof a));
    CUDA(cudaMalloc((void **)&db, sizeof b));
    CUDA(cudaMalloc((void **)&dc, sizeof c));
    CUDA(cudaMemcpyAsync(da, a, sizeof a, cudaMemcpyHostToDevice, s));
    CUDA(cudaMemcpyAsync(db, b, sizeof b, cudaMemcpyHostToDevice, s));
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t choice;
    int found = 0;
    LT(cublasLtCreate(&handle));
    LT(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    LT(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, SIDE, SIDE, SIDE));
    LT(cublasLtMatmulPreferenceCreate(&preference));
    LT(cublasLtMatmulAlgoGetHeuristic(handle, desc, layout, layout, layout, layout, preference, 1,
                                      &choice, &found));
    if (found < 1)
        fail(what, gpu, "cuBLASLt", "has no way to multiply");
    LT(cublasLtMatmul(handle, desc, &one, da, layout, db, layout, &zero, dc, layout, dc, layout,
                      &choice.algo, NULL, 0, s));
    CUDA(cudaMemcpyAsync(c, dc, sizeof c, cudaMemcpyDeviceToHost, s));
    CUDA(cudaStreamSynchronize(s));
    for (int col = 0; col < SIDE; col++)
        for (int row = 0; row < SIDE; row++) {
            float sum = 0;
            for (int k = 0; k < SIDE; k++)
                sum += a[k * SIDE + row] * b[col * SIDE + k];
            if (c[col * SIDE + row] != sum)
                fail(what, gpu, "64 x 64 x 64", "wrong value");
        }
    printf("product %s ok 64 x 64 x 64 by cuBLASLt, every value right\n", gpu);
}

// ---- memory: every 16 bytes hold their number, then its complement

static __device__ uint4 pattern(uint64_t i, unsigned flip)
{
    uint32_t low = (uint32_t)i, high = (uint32_t)(i >> 32);
    return make_uint4(low ^ flip, (low * 2654435761u) ^ flip, (high + 0x9e3779b9u) ^ flip,
                      (low ^ 0xa5a5a5a5u) ^ flip);
}

__global__ __launch_bounds__(256) void fill_kernel(uint4 *p, uint64_t n, uint64_t first,
                                                   unsigned flip)
{
    const uint64_t threads = gridDim.x * (uint64_t)256;
    for (uint64_t i = blockIdx.x * (uint64_t)256 + threadIdx.x; i < n; i += threads)
        p[i] = pattern(first + i, flip);
}

__global__ __launch_bounds__(256) void look_kernel(const uint4 *p, uint64_t n, uint64_t first,
                                                   unsigned flip, unsigned *wrong)
{
    const uint64_t threads = gridDim.x * (uint64_t)256;
    for (uint64_t i = blockIdx.x * (uint64_t)256 + threadIdx.x; i < n; i += threads) {
        uint4 is = p[i], want = pattern(first + i, flip);
        if (is.x != want.x || is.y != want.y || is.z != want.z || is.w != want.w)
            atomicAdd(wrong, 1u);
    }
}

enum { PIECES = 1024 };

static void memory(int number, const char *gpu)
{
    const char *what = "memory";
    static uint4 *piece[PIECES];
    static uint64_t words[PIECES];
    size_t left, total, bytes = 0;
    unsigned *wrong, bad = 0;
    int n = 0;
    const cudaStream_t s = open_stream(what, gpu, number);
    CUDA(cudaMalloc((void **)&wrong, sizeof *wrong));
    CUDA(cudaMemsetAsync(wrong, 0, sizeof *wrong, s));
    CUDA(cudaMemGetInfo(&left, &total));
    for (size_t want = left / 100 * SHARE / 16 * 16; bytes < want && n < PIECES; n++) {
        size_t size = want - bytes < piece_bytes ? want - bytes : piece_bytes;
        CUDA(cudaMalloc((void **)&piece[n], size));
        words[n] = size / 16;
        bytes += size;
    }
    for (unsigned flip = 0, turn = 0; turn < 2; turn++, flip = ~0u) {
        for (uint64_t i = 0, first = 0; i < (uint64_t)n; first += words[i++])
            launch(what, gpu, s, fill_kernel, piece[i], words[i], first, flip);
        for (uint64_t i = 0, first = 0; i < (uint64_t)n; first += words[i++])
            launch(what, gpu, s, look_kernel, (const uint4 *)piece[i], words[i], first, flip,
                   wrong);
        CUDA(cudaStreamSynchronize(s));
    }
    CUDA(cudaMemcpyAsync(&bad, wrong, sizeof bad, cudaMemcpyDeviceToHost, s));
    CUDA(cudaStreamSynchronize(s));
    if (bad)
        printf("memory %s bad %u places of 16 bytes read back otherwise than written\n", gpu, bad);
    else
        printf("memory %s ok %.1f GiB written and read back, twice\n", gpu,
               (double)bytes / (1 << 30));
}

// ---- what it is

static void device(int number, const char *gpu)
{
    const char *what = "device";
    struct cudaDeviceProp about;
    CUDA(cudaSetDevice(number));
    CUDA(cudaGetDeviceProperties(&about, number));
    printf("device %s ok %s, %d multiprocessors, compute capability %d.%d\n", gpu, about.name,
           about.multiProcessorCount, about.major, about.minor);
}

// ---- from each GPU to each other

static void copy(int number, const char *from)
{
    const char *what = "copy", *gpu = from;
    uint4 *here, *there;
    unsigned *wrong, bad = 0;
    int gpus;
    CUDA(cudaGetDeviceCount(&gpus));
    cudaStream_t s = open_stream(what, gpu, number);
    CUDA(cudaMalloc((void **)&here, COPIED));
    launch(what, gpu, s, fill_kernel, here, (uint64_t)COPIED / 16, (uint64_t)number << 32, 0u);
    CUDA(cudaStreamSynchronize(s));
    for (int to = 0; to < gpus; to++) {
        char pair[40];
        snprintf(pair, sizeof pair, "%d-%d", number, to);
        gpu = pair;
        if (to == number)
            continue;
        s = open_stream(what, gpu, to);
        CUDA(cudaMalloc((void **)&there, COPIED));
        CUDA(cudaMalloc((void **)&wrong, sizeof *wrong));
        CUDA(cudaMemsetAsync(wrong, 0, sizeof *wrong, s));
        CUDA(cudaMemsetAsync(there, 0, COPIED, s));
        CUDA(cudaMemcpyAsync(there, here, COPIED, cudaMemcpyDefault, s));
        launch(what, gpu, s, look_kernel, (const uint4 *)there, (uint64_t)COPIED / 16,
               (uint64_t)number << 32, 0u, wrong);
        CUDA(cudaMemcpyAsync(&bad, wrong, sizeof bad, cudaMemcpyDeviceToHost, s));
        CUDA(cudaStreamSynchronize(s));
        if (bad)
            printf("copy %s bad %u places of 16 bytes arrived otherwise\n", pair, bad);
        else
            printf("copy %s ok 1 MiB\n", pair);
        CUDA(cudaFree(there));
        CUDA(cudaFree(wrong));
        CUDA(cudaStreamDestroy(s));
    }
}

// ---- NCCL: a process a GPU, as programs have

#if DOCTOR_NCCL
#define NCCL(call)                                                      \
    do {                                                                \
        ncclResult_t result_ = (call);                                  \
        if (result_ != ncclSuccess)                                     \
            fail(what, gpu, #call, ncclGetErrorString(result_));        \
    } while (0)

static int id_pipe[2], ranks;

static void nccl(int rank, const char *gpu)
{
    const char *what = "nccl";
    static float host[SUMMED];
    ncclUniqueId id;
    ncclComm_t comm;
    float *sum;
    int version = 0;
    const cudaStream_t s = open_stream(what, gpu, rank);
    if (rank == 0) {
        NCCL(ncclGetUniqueId(&id));
        for (int i = 1; i < ranks; i++)
            if (write(id_pipe[1], &id, sizeof id) != (ssize_t)sizeof id)
                fail(what, gpu, "pipe", "does not take NCCL's id");
    } else {
        close(id_pipe[1]);
        if (read(id_pipe[0], &id, sizeof id) != (ssize_t)sizeof id)
            fail(what, gpu, "rank 0", "made no id");
    }
    NCCL(ncclCommInitRank(&comm, ranks, id, rank));
    for (int i = 0; i < SUMMED; i++)
        host[i] = (float)(i % 100 + rank);
    CUDA(cudaMalloc((void **)&sum, sizeof host));
    CUDA(cudaMemcpyAsync(sum, host, sizeof host, cudaMemcpyHostToDevice, s));
    NCCL(ncclAllReduce(sum, sum, SUMMED, ncclFloat32, ncclSum, comm, s));
    CUDA(cudaMemcpyAsync(host, sum, sizeof host, cudaMemcpyDeviceToHost, s));
    CUDA(cudaStreamSynchronize(s));
    for (int i = 0; i < SUMMED; i++)
        if (host[i] != (float)(i % 100 * ranks + ranks * (ranks - 1) / 2))
            fail(what, gpu, "ncclAllReduce", "wrong sum");
    NCCL(ncclGetVersion(&version));
    NCCL(ncclCommDestroy(comm));
    printf("nccl %s ok NCCL %d.%d.%d, rank %d of %d, every sum right\n", gpu, version / 10000,
           version / 100 % 100, version % 100, rank, ranks);
}
#endif

// ---- the parts

static pid_t start(void (*part)(int number, const char *gpu), int number)
{
    char gpu[16];
    snprintf(gpu, sizeof gpu, "%d", number);
    pid_t child = fork();
    if (child == 0) {
        setvbuf(stdout, NULL, _IOLBF, 0);
        part(number, gpu);
        fflush(stdout);
        _exit(0);
    }
    return child;
}

// Returns true if the check found no error.
static bool finish(pid_t child, const char *what, int number)
{
    int status = 0;
    bool ended = child >= 0 && waitpid(child, &status, 0) == child && !WIFSIGNALED(status);
    if (!ended)
        printf("%s %d bad the process ended by signal %d\n", what, number,
               WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    fflush(stdout);
    return ended && status == 0;
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(int number, const char *gpu); } part[] = {
        {"device", device}, {"product", product}, {"memory", memory}};
    const int gpus = argc > 1 ? atoi(argv[1]) : 1;
    bool good = true;
    for (int i = 0; i < gpus; i++)
        for (size_t k = 0; k < sizeof part / sizeof *part; k++)
            good = finish(start(part[k].run, i), part[k].name, i) && good;
    for (int i = 0; gpus > 1 && i < gpus; i++)
        finish(start(copy, i), "copy", i);
#if DOCTOR_NCCL
    pid_t child[1024];
    ranks = gpus < 1024 ? gpus : 1024;
    if (good && ranks > 1 && pipe(id_pipe) == 0) {       // else the others would wait forever
        for (int i = 0; i < ranks; i++)
            child[i] = start(nccl, i);
        close(id_pipe[0]);
        close(id_pipe[1]);
        for (int i = 0; i < ranks; i++)
            finish(child[i], "nccl", i);
    }
#endif
    return 0;
}
