/* cudnn_attention.cu -- causal attention and its gradient by cuDNN, compared with our kernels.
 *
 * In:    no argument: the current GPU. A file: cuDNN's JSON of a GPU's properties; only compiles.
 * Out:   a JSON line a shape and pass: TFLOP/s of both, relative L2 errors against ours, workspace
 *        bytes, seconds to compile. A shape that fails has a line with "error"; code 1.
 * Keeps: random operands; the median of 3 rounds of 20 calls; half of T x T counts. Each shape runs in
 *        a process of its own, so that a fault of one leaves the others. Before each run of cuDNN,
 *        results and workspace hold other garbage: the bits of two runs and of a CUDA graph must agree,
 *        and no bit of the garbage may be left. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/attention.cuh"
#include "runtime/attention_cudnn.h"

static const int CALLS = 20;
enum { ROUNDS = 3, SHAPE_SECONDS = 12, ALL_SECONDS = 36 };

/* slice: sequences of a call of cuDNN. Its workspace grows with them; B is a multiple. */
typedef struct {
    int64_t B, T, H, K, D, slice;
} Case;

static const Case cases[] = {
    {8, 2048, 28, 4, 128, 8}, {64, 1024, 12, 12, 64, 64}, {1, 4096, 28, 4, 128, 1},
    {32, 1024, 14, 2, 64, 32}, {8, 2048, 28, 4, 128, 1}, {64, 1024, 12, 12, 64, 8},
};

/* ---- values ---------------------------------------------------------------------------------- */

/* Roughly normal, by a hash of the position and the seed (splitmix64). */
__global__ __launch_bounds__(256) void fill_kernel(act_t *p, int64_t n, uint64_t seed)
{
    for (int64_t i = blockIdx.x * INT64_C(256) + threadIdx.x; i < n; i += gridDim.x * INT64_C(256)) {
        uint64_t x = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
            x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
            x ^= x >> 31;
            sum += (float)(int32_t)(x >> 40) * 0x1p-23f - 1;
        }
        act_store(p + i, 0.866f * sum);
    }
}

template <typename T> __device__ float as_float(T v) { return (float)v; }

enum { SUM_BLOCKS = 512, SUM_WARPS = 8 * SUM_BLOCKS };

/* Row w of to (SUM_WARPS, 6): sums of a warp; [2 * part] of (x - y)^2, [2 * part + 1] of y^2. part of a
 * column of a row: 0 below q, 1 below k, else 2. */
template <typename T>
__global__ __launch_bounds__(256) void distance_kernel(double *to, const T *x, const T *y, int64_t n,
                                                       int64_t row, int64_t q, int64_t k)
{
    double sum[6] = {};
    for (int64_t i = blockIdx.x * INT64_C(256) + threadIdx.x; i < n; i += gridDim.x * INT64_C(256)) {
        const double a = as_float(x[i]), b = as_float(y[i]), d = a - b;
        const int64_t column = i % row;
        for (int part = 0; part < 3; part++)
            if (part == (column < q ? 0 : column < k ? 1 : 2))
                sum[2 * part] += d * d, sum[2 * part + 1] += b * b;
    }
    for (int j = 0; j < 6; j++) {
        for (int lane = 16; lane; lane /= 2)
            sum[j] += __shfl_xor_sync(~0u, sum[j], lane);
        if (threadIdx.x % 32 == 0)
            to[(blockIdx.x * 8 + threadIdx.x / 32) * 6 + j] = sum[j];
    }
}

/* *to += 16-bit words that differ */
__global__ __launch_bounds__(256) void differ_kernel(unsigned long long *to, const uint16_t *x,
                                                     const uint16_t *y, int64_t n)
{
    unsigned long long sum = 0;
    for (int64_t i = blockIdx.x * INT64_C(256) + threadIdx.x; i < n; i += gridDim.x * INT64_C(256))
        sum += x[i] != y[i];
    for (int lane = 16; lane; lane /= 2)
        sum += __shfl_xor_sync(~0u, sum, lane);
    if (threadIdx.x % 32 == 0 && sum)
        atomicAdd(to, sum);
}

template <typename T>
static T *device(int64_t n, const char *what)
{
    T *p;
    cuda_check(cudaMalloc((void **)&p, (size_t)n * sizeof *p), what);
    return p;
}

static act_t *random_values(int64_t n, uint64_t seed, cudaStream_t s)
{
    act_t *p = device<act_t>(n, "an operand");
    launch(fill_kernel, dim3(2048), dim3(256), 0, s, p, n, seed);
    return p;
}

/* Relative L2 distance of x from y, in up to three parts of a row. */
template <typename T>
static void distance(double to[3], const T *x, const T *y, int64_t n, int64_t row, int64_t q, int64_t k,
                     cudaStream_t s)
{
    static double host[SUM_WARPS][6];
    double *sums = device<double>(SUM_WARPS * 6, "sums"), sum[6] = {};
    launch(distance_kernel<T>, dim3(SUM_BLOCKS), dim3(256), 0, s, sums, x, y, n, row, q, k);
    cuda_check(cudaMemcpyAsync(host, sums, sizeof host, cudaMemcpyDeviceToHost, s), "sums");
    cuda_check(cudaStreamSynchronize(s), "a distance");
    cuda_check(cudaFree(sums), "sums");
    for (const double *of : host)
        for (int j = 0; j < 6; j++)
            sum[j] += of[j];
    for (int i = 0; i < 3; i++)
        to[i] = sqrt(sum[2 * i] / sum[2 * i + 1]);
}

static unsigned long long differing(const void *x, const void *y, int64_t bytes, cudaStream_t s)
{
    unsigned long long *sum = device<unsigned long long>(1, "a count"), host;
    cuda_check(cudaMemsetAsync(sum, 0, sizeof host, s), "a count");
    launch(differ_kernel, dim3(1024), dim3(256), 0, s, sum, (const uint16_t *)x, (const uint16_t *)y,
           bytes / 2);
    cuda_check(cudaMemcpyAsync(&host, sum, sizeof host, cudaMemcpyDeviceToHost, s), "a count");
    cuda_check(cudaStreamSynchronize(s), "a comparison");
    cuda_check(cudaFree(sum), "a count");
    return host;
}

/* ---- one shape ------------------------------------------------------------------------------- */

typedef struct {
    Case c;
    float scale;
    act_t *qkv, *d_o, *o, *dqkv, *o_cudnn, *dqkv_cudnn;
    float *lse, *lse_cudnn;
    void *ws, *ws_cudnn;
    CudnnAttention *fwd, *bwd;
    char *error;                 /* of cuDNN's run; NULL: none */
} Attention;

template <int D> static void ours_fwd(Attention *a, cudaStream_t s)
{
    const Case *c = &a->c;
    attention_fwd<D>(a->o, a->lse, a->qkv, {}, c->B, c->T, c->H, c->K, a->scale, a->ws, s);
}

template <int D> static void ours_bwd(Attention *a, cudaStream_t s)
{
    const Case *c = &a->c;
    attention_bwd<D>(a->dqkv, a->d_o, a->o, a->lse, a->qkv, {}, c->B, c->T, c->H, c->K, a->scale, a->ws, s);
}

static void cudnn_fwd(Attention *a, cudaStream_t s)
{
    const Case *c = &a->c;
    const int64_t rows = c->slice * c->T, wide = (c->H + 2 * c->K) * c->D, narrow = c->H * c->D;
    for (int64_t i = 0; i < c->B / c->slice && !a->error; i++)
        a->error = cudnn_attention_run_forward(a->fwd, a->o_cudnn + i * rows * narrow,
                                               a->lse_cudnn + i * rows * c->H,
                                               a->qkv + i * rows * wide, a->ws_cudnn, s);
}

static void cudnn_bwd(Attention *a, cudaStream_t s)
{
    const Case *c = &a->c;
    const int64_t rows = c->slice * c->T, wide = (c->H + 2 * c->K) * c->D, narrow = c->H * c->D;
    for (int64_t i = 0; i < c->B / c->slice && !a->error; i++)
        a->error = cudnn_attention_run_backward(
            a->bwd, a->dqkv_cudnn + i * rows * wide, a->d_o + i * rows * narrow,
            a->o_cudnn + i * rows * narrow, a->lse_cudnn + i * rows * c->H, a->qkv + i * rows * wide,
            a->ws_cudnn, s);
}

typedef void Call(Attention *a, cudaStream_t s);

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Returns TFLOP/s. */
static double measure(double flop, Call *call, Attention *a, cudaStream_t s)
{
    cudaEvent_t from, to;
    float ms[1 + ROUNDS];
    cuda_check(cudaEventCreate(&from), "an event");
    cuda_check(cudaEventCreate(&to), "an event");
    for (int round = 0; round <= ROUNDS; round++) {
        cuda_check(cudaEventRecord(from, s), "an event");
        for (int i = 0; i < CALLS; i++)
            call(a, s);
        cuda_check(cudaEventRecord(to, s), "an event");
        cuda_check(cudaEventSynchronize(to), "a round");
        cuda_check(cudaEventElapsedTime(&ms[round], from, to), "an event");
    }
    qsort(ms + 1, ROUNDS, sizeof ms[0], by_value);
    return 1e-9 * flop * CALLS / ms[1 + ROUNDS / 2];
}

/* A captured call, run once. */
static void run_graph(Call *call, Attention *a, cudaStream_t s)
{
    cudaGraph_t graph;
    cudaGraphExec_t all;
    cuda_check(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed), "capturing");
    call(a, s);
    cuda_check(cudaStreamEndCapture(s, &graph), "capturing");
    cuda_check(cudaGraphInstantiate(&all, graph, 0), "a graph");
    cuda_check(cudaGraphLaunch(all, s), "a graph");
    cuda_check(cudaStreamSynchronize(s), "a graph");
}

/* The start of a line about a pass. */
static void line(const Case *c, const char *pass)
{
    printf("{\"pass\": \"%s\", \"B\": %d, \"T\": %d, \"H\": %d, \"K\": %d, \"D\": %d, \"slice\": %d", pass,
           (int)c->B, (int)c->T, (int)c->H, (int)c->K, (int)c->D, (int)c->slice);
}

/* Ends the line with a JSON string. Returns 1. */
static int failed(const char *error)
{
    printf(", \"error\": \"");
    for (; *error; error++)
        putchar(*error == '"' || *error == '\\' || (unsigned char)*error < ' ' ? ' ' : *error);
    printf("\"}\n");
    return 1;
}

/* The first half of a line: compiles. Returns NULL after a line with an error. */
static CudnnAttention *compile(const Case *c, float scale, bool backward, const char *json)
{
    const CudnnAttentionShape shape = {c->slice, c->T, c->H, c->K, c->D, scale, false};
    char *error = NULL;
    double from = clock_seconds();
    CudnnAttention *a = (backward ? cudnn_attention_backward : cudnn_attention_forward)(&shape, json, &error);
    line(c, backward ? "backward" : "forward");
    printf(", \"compile_s\": %.2f", clock_seconds() - from);
    if (!a)
        failed(error);
    else
        printf(", \"cudnn\": %d, \"workspace\": %lld", (int)cudnn_version(),
               (long long)cudnn_attention_workspace(a));
    return a;
}

static void poison(Attention *a, void *to, int64_t bytes, int64_t ws, int byte, cudaStream_t s)
{
    cuda_check(cudaMemsetAsync(to, byte, (size_t)bytes, s), "garbage");
    cuda_check(cudaMemsetAsync(a->ws_cudnn, byte, (size_t)ws, s), "garbage");
}

/* Two runs from different garbage: prints the number of 16-bit words that differ. copy: room for the
 * result, which the first run leaves there. */
static void repeat(Attention *a, Call *call, void *result, void *copy, int64_t bytes, int64_t ws,
                   cudaStream_t s)
{
    poison(a, result, bytes, ws, 0xff, s);             // NaN
    call(a, s);
    cuda_check(cudaMemcpyAsync(copy, result, (size_t)bytes, cudaMemcpyDeviceToDevice, s), "a copy");
    poison(a, result, bytes, ws, 0x3c, s);             // 0.01
    call(a, s);
    cuda_check(cudaStreamSynchronize(s), "a pass of cuDNN");
    if (!a->error)
        printf(", \"differ_again\": %llu", differing(copy, result, bytes, s));
}

/* A line about the backward pass in a CUDA graph: words that differ from those in copy. */
static int in_graph(Attention *a, const void *copy, int64_t bytes, int64_t ws, cudaStream_t s)
{
    line(&a->c, "graph");
    poison(a, a->dqkv_cudnn, bytes, ws, 0x7b, s);
    run_graph(cudnn_bwd, a, s);
    if (a->error)
        return failed(a->error);
    printf(", \"differ_graph\": %llu}\n", differing(copy, a->dqkv_cudnn, bytes, s));
    return 0;
}

template <int D> static int run_case(const Case *c, const char *json)
{
    const int64_t tokens = c->B * c->T, wide = (c->H + 2 * c->K) * D, narrow = c->H * D;
    const int64_t o_bytes = tokens * narrow * (int64_t)sizeof(act_t), qkv_bytes = o_bytes / c->H * (c->H + 2 * c->K);
    Attention a = {};
    a.c = *c, a.scale = 1 / sqrtf(D);
    a.fwd = compile(c, a.scale, false, json);
    if (!a.fwd)
        return 1;
    if (json) {
        printf("}\n");
        a.bwd = compile(c, a.scale, true, json);
        return a.bwd ? puts("}"), 0 : 1;
    }
    cudaStream_t s;
    cuda_check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "a stream");
    a.qkv = random_values(tokens * wide, 1, s), a.d_o = random_values(tokens * narrow, 2, s);
    a.o = device<act_t>(tokens * narrow, "o"), a.o_cudnn = device<act_t>(tokens * narrow, "o");
    a.dqkv = device<act_t>(tokens * wide, "dqkv"), a.dqkv_cudnn = device<act_t>(tokens * wide, "dqkv");
    a.lse = device<float>(tokens * c->H, "lse"), a.lse_cudnn = device<float>(tokens * c->H, "lse");
    a.ws = device<char>(attention_bwd_cuda_workspace(c->B, c->T, c->H, c->K, D, sizeof(act_t)), "scratch");
    char *copy = device<char>(qkv_bytes, "a copy");
    const double flop = 2.0 * (double)c->B * (double)c->H * (double)c->T * (double)c->T * D;
    double error[3], lse_error[3];

    int64_t ws = cudnn_attention_workspace(a.fwd);
    a.ws_cudnn = device<char>(ws, "scratch of cuDNN");
    ours_fwd<D>(&a, s);
    cuda_check(cudaMemsetAsync(a.lse_cudnn, 0xff, (size_t)tokens * c->H * sizeof(float), s), "garbage");
    repeat(&a, cudnn_fwd, a.o_cudnn, copy, o_bytes, ws, s);
    if (a.error)
        return failed(a.error);
    distance(error, a.o_cudnn, a.o, tokens * narrow, 1, 1, 1, s);
    distance(lse_error, a.lse_cudnn, a.lse, tokens * c->H, 1, 1, 1, s);
    printf(", \"o\": %.2e, \"lse\": %.2e", error[0], lse_error[0]);
    const double ours = measure(flop, ours_fwd<D>, &a, s), cudnn = measure(flop, cudnn_fwd, &a, s);
    if (a.error)
        return failed(a.error);
    printf(", \"ours_tflops\": %.1f, \"cudnn_tflops\": %.1f}\n", ours, cudnn);
    fflush(stdout);
    cuda_check(cudaFree(a.ws_cudnn), "scratch of cuDNN");

    a.bwd = compile(c, a.scale, true, NULL);
    if (!a.bwd)
        return 1;
    ws = cudnn_attention_workspace(a.bwd);
    a.ws_cudnn = device<char>(ws, "scratch of cuDNN");
    ours_bwd<D>(&a, s);
    repeat(&a, cudnn_bwd, a.dqkv_cudnn, copy, qkv_bytes, ws, s);
    if (a.error)
        return failed(a.error);
    distance(error, a.dqkv_cudnn, a.dqkv, tokens * wide, wide, narrow, narrow + c->K * D, s);
    printf(", \"dq\": %.2e, \"dk\": %.2e, \"dv\": %.2e", error[0], error[1], error[2]);
    const double ours_b = measure(2.5 * flop, ours_bwd<D>, &a, s), cudnn_b = measure(2.5 * flop, cudnn_bwd, &a, s);
    if (a.error)
        return failed(a.error);
    printf(", \"ours_tflops\": %.1f, \"cudnn_tflops\": %.1f}\n", ours_b, cudnn_b);
    fflush(stdout);
    return in_graph(&a, copy, qkv_bytes, ws, s);
}

static int child(const Case *c, const char *json)
{
    alarm(SHAPE_SECONDS);
    int code = c->D == 64 ? run_case<64>(c, json) : run_case<128>(c, json);
    fflush(stdout);
    return code;
}

int main(int n, char **word)
{
    static char json[4096];
    const double from = clock_seconds();
    int bad = 0;
    if (n > 1) {
        FILE *f = fopen(word[1], "r");
        if (!f || !fread(json, 1, sizeof json - 1, f))
            die(EXIT_CONFIG, "%s: %s", word[1], strerror(errno));
        fclose(f);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (clock_seconds() - from > ALL_SECONDS - SHAPE_SECONDS)
            break;
        int status = 0;
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(&cases[i], n > 1 ? json : NULL));
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
            bad = 1;
            if (status != 1 << 8) {          // not one that has told its error
                printf("\n");
                line(&cases[i], "any");
                printf(", \"wait_status\": %d}\n", status);
            }
        }
    }
    printf("{\"seconds\": %.1f}\n", clock_seconds() - from);
    return bad;
}
