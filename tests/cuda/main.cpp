/* main.cpp -- runs the CUDA kernel tests that the file linked with it registered.
 *
 * In:    arguments: a substring of test names, or --bench; in the environment SEED, and GUARD: bytes of NaN
 *        in front of and behind each device buffer (default 0), which no kernel may write.
 * Out:   `run name` when a test begins, then `ok cuda/LABEL/name` or `not ok ...: why`; exit 1 if
 *        any failed. A mistake that the simulator reports ends the program. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "../kernels/checks.h"

struct Buffer {
    unsigned char *at;
    int64_t bytes;
};

static Test *tests;                      /* sorted by name */
static std::vector<Buffer> buffers;
static std::vector<void *> host_buffers;
static uint64_t digest;                  /* of all checked results of the running body */
static bool captures;                    /* run() goes through a graph */
cudaStream_t stream;
int guard_bytes;

Test::Test(const char *name_, void (*body_)(), bool bench_)
    : name(name_), body(body_), bench(bench_)
{
    Test **p = &tests;
    while (*p && strcmp((*p)->name, name) < 0)
        p = &(*p)->next;
    next = *p;
    *p = this;
}

/* Memory */

void *new_bytes(int64_t bytes)
{
    void *p;
    const size_t all = (size_t)(bytes + 2 * guard_bytes);
    cuda_check(cudaMalloc(&p, all), "cudaMalloc");
    if (guard_bytes)
        fill_bytes(p, 0xff, (int64_t)all);
    buffers.push_back({ (unsigned char *)p, bytes });
    return (unsigned char *)p + guard_bytes;
}

void fill_bytes(void *to, int value, int64_t bytes)
{
    cuda_check(cudaMemsetAsync(to, value, (size_t)bytes, stream), "cudaMemsetAsync");
}

void *host_bytes(int64_t bytes)
{
    void *p = malloc((size_t)bytes + 1);
    if (!p)
        abort();
    memset(p, 0xff, (size_t)bytes);
    host_buffers.push_back(p);
    return p;
}

static void copy(void *to, const void *from, int64_t bytes, cudaMemcpyKind kind)
{
    cuda_check(cudaMemcpyAsync(to, from, (size_t)bytes, kind, stream), "a copy");
    cuda_check(cudaStreamSynchronize(stream), "a kernel");
}

void *to_device(const void *host, int64_t bytes)
{
    void *p = new_bytes(bytes);
    copy(p, host, bytes, cudaMemcpyHostToDevice);
    return p;
}

void *to_host(const void *device, int64_t bytes)
{
    void *p = host_bytes(bytes);
    copy(p, device, bytes, cudaMemcpyDeviceToHost);
    return p;
}

static void free_buffers()
{
    for (size_t i = 0; i < buffers.size(); i++) {
        const Buffer &b = buffers[i];
        std::vector<unsigned char> guards((size_t)(2 * guard_bytes));
        if (guard_bytes) {
            copy(&guards[0], b.at, guard_bytes, cudaMemcpyDeviceToHost);
            copy(&guards[(size_t)guard_bytes], b.at + guard_bytes + b.bytes, guard_bytes,
                 cudaMemcpyDeviceToHost);
        }
        for (unsigned char byte : guards)
            if (byte != 0xff)
                fail("buffer %zu (%lld bytes): written outside", i, (long long)b.bytes);
        cuda_check(cudaFree(b.at), "cudaFree");
    }
    buffers.clear();
    for (void *p : host_buffers)
        free(p);
    host_buffers.clear();
}

act_t *act_copy(const act_t *x, int64_t n)
{
    return upload(download(x, n), n);
}

float *f32_copy(const float *x, int64_t n)
{
    return upload(download(x, n), n);
}

double *act_double(const act_t *x, int64_t n)
{
    const act_t *values = download(x, n);
    double *y = HOST(double, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = act_load(values + i);
    return y;
}

double *f32_double(const float *x, int64_t n)
{
    const float *values = download(x, n);
    double *y = HOST(double, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = values[i];
    return y;
}

/* Launches */

static cudaGraphExec_t capture(const std::function<void()> &work)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin of a capture");
    work();
    cuda_check(cudaStreamEndCapture(stream, &graph), "a capture");
    cuda_check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
    cuda_check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return exec;
}

void run(const std::function<void()> &work)
{
    if (captures) {
        const cudaGraphExec_t exec = capture(work);
        cuda_check(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
        cuda_check(cudaStreamSynchronize(stream), "a kernel of a graph");
        cuda_check(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
    } else {
        work();
        cuda_check(cudaStreamSynchronize(stream), "a kernel");
    }
}

/* Inputs */

act_t *act_from(const double *values, int64_t n)
{
    act_t *x = HOST(act_t, n);
    for (int64_t i = 0; i < n; i++)
        act_store(x + i, (float)values[i]);
    return upload(x, n);
}

float *f32_from(const double *values, int64_t n)
{
    float *x = HOST(float, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)values[i];
    return upload(x, n);
}

static double *normal(int64_t n, double mean, double std)
{
    double *x = HOST(double, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = mean + std * random_normal();
    return x;
}

static double *integers(int64_t n, int bound)
{
    double *x = HOST(double, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)(random_below(2 * bound + 1) - bound);
    return x;
}

act_t *act_normal(int64_t n, double mean, double std)
{
    return act_from(normal(n, mean, std), n);
}

float *f32_normal(int64_t n, double mean, double std)
{
    return f32_from(normal(n, mean, std), n);
}

act_t *act_integers(int64_t n, int bound)
{
    return act_from(integers(n, bound), n);
}

float *f32_integers(int64_t n, int bound)
{
    return f32_from(integers(n, bound), n);
}

int32_t *tokens_random(int64_t n, int64_t V)
{
    int32_t *x = HOST(int32_t, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)random_below(V);
    return upload(x, n);
}

/* Checks */

static const void *hash(const void *device, int64_t bytes)
{
    const void *p = to_host(device, bytes);
    digest = numbers_hash(digest, p, bytes);
    return p;
}

void check_same(const char *what, const void *a, const void *b, int64_t bytes)
{
    const unsigned char *p = (const unsigned char *)hash(a, bytes);
    const unsigned char *q = (const unsigned char *)to_host(b, bytes);
    for (int64_t i = 0; i < bytes; i++)
        if (p[i] != q[i]) {
            fail("%s: byte %lld of %lld differs", what, (long long)i, (long long)bytes);
            return;
        }
}

void check_gradient(const char *what, const std::function<double()> &loss, double *x,
                    const double *grad, int64_t n)
{
    if (sizeof(act_t) != 4)
        return;
    const double rms = sqrt(dot(grad, grad, n) / (double)n);
    for (int k = 0; k < 12; k++) {
        const int64_t i = random_below(n);
        const double keep = x[i], h = 1e-4 * (1 + fabs(keep));
        double at[4];
        for (int j = 0; j < 4; j++) {
            x[i] = keep + GRADIENT_STEPS[j] * h;
            at[j] = loss();
        }
        x[i] = keep;
        const double slope = gradient_slope(at, h);
        if (!(fabs(slope - grad[i]) <= 1e-5 * (fabs(slope) + rms) + 1e-9))
            fail("%s[%lld of %lld]: finite differences %.9g, gradient %.9g", what, (long long)i,
                 (long long)n, slope, grad[i]);
    }
}

/* Bench */

double bench_time(const std::function<void()> &work)
{
    enum { CALLS = 20, ROUNDS = 9 };
    cudaEvent_t begin, end;
    cuda_check(cudaEventCreate(&begin), "cudaEventCreate");
    cuda_check(cudaEventCreate(&end), "cudaEventCreate");
    const cudaGraphExec_t exec = capture([&] {
        for (int i = 0; i < CALLS; i++)
            work();
    });
    std::vector<float> ms(ROUNDS);
    for (int i = -1; i < ROUNDS; i++) {          /* -1: warm-up */
        cuda_check(cudaEventRecord(begin, stream), "cudaEventRecord");
        cuda_check(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
        cuda_check(cudaEventRecord(end, stream), "cudaEventRecord");
        cuda_check(cudaEventSynchronize(end), "a kernel of a graph");
        if (i >= 0)
            cuda_check(cudaEventElapsedTime(&ms[(size_t)i], begin, end), "cudaEventElapsedTime");
    }
    cuda_check(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
    cuda_check(cudaEventDestroy(begin), "cudaEventDestroy");
    cuda_check(cudaEventDestroy(end), "cudaEventDestroy");
    std::sort(ms.begin(), ms.end());
    return 1e-3 * ms[ROUNDS / 2] / (double)CALLS;
}

void bench_report(const char *what, double s, double bytes, double flops)
{
    printf("%-44s %10.2f us", what, 1e6 * s);
    if (bytes > 0)
        printf(" %8.1f GB/s", 1e-9 * bytes / s);
    if (flops > 0)
        printf(" %8.2f TFLOP/s", 1e-12 * flops / s);
    printf("\n");
}

static void run_test(const Test *t, uint64_t seed)
{
    const uint64_t name = numbers_hash(NUMBERS_HASH, t->name, (int64_t)strlen(t->name));
    uint64_t first = 0;
    why[0] = 0;
    for (int again = 0; again < (TWICE ? 2 : 1) && !why[0]; again++) {
        rng = seed ^ name;
        digest = NUMBERS_HASH;
        captures = again;
        t->body();
        free_buffers();
        if (!again)
            first = digest;
        else if (digest != first)
            fail("the second run has other results");
    }
}

int main(int argc, char **argv)
{
    const bool bench = argc > 1 && !strcmp(argv[1], "--bench");
    const char *filter = argc > 1 + bench ? argv[1 + bench] : "";
    const char *given = getenv("SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    int failed = 0;
    guard_bytes = getenv("GUARD") ? atoi(getenv("GUARD")) : 0;
    cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    if (!bench)
        printf("# SEED=%llu\n", (unsigned long long)seed);
    for (const Test *t = tests; t; t = t->next) {
        if (t->bench != bench || !strstr(t->name, filter))
            continue;
        if (bench) {
            rng = seed;
            t->body();
            free_buffers();
            continue;
        }
        printf("run %s\n", t->name);
        fflush(stdout);
        run_test(t, seed);
        if (why[0])
            printf("not ok cuda/%s/%s: %s (SEED=%llu)\n", LABEL, t->name, why,
                   (unsigned long long)seed);
        else
            printf("ok cuda/%s/%s\n", LABEL, t->name);
        failed += why[0] != 0;
        fflush(stdout);
    }
    return failed != 0;
}
