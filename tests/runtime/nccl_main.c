/* nccl_main.c -- ranks of a CUDA program: the host's sums and the GPUs', arrays in a GPU, ends.
 *
 * In:    argv: ranks built for, mode (sums, arrays, late, abort, kill, hang). A GPU or the
 *        simulator; the environment of a launcher.  Out: "ok" or "bad" lines. */
#define _GNU_SOURCE
#define COMM_DEVICE
#include <cuda_runtime_api.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../runtime/base.h"
#include "../../runtime/ranks/comm.h"
#include "../../runtime/device.h"
#include "../../runtime/model/model.h"

static void report(const char *what, bool good)
{
    if (comm_max_int(!good) == 0 && world.rank == 0)
        printf("ok %s\n", what);
    else if (!good)
        printf("bad %s, rank %d\n", what, world.rank);
    fflush(stdout);
}

/* Doubles of very different size: the bits show the order. */
static double value(int rank, int64_t i)
{
    return sin(0.37 * (double)i + rank) * pow(10.0, (double)((i + 3 * rank) % 13) - 6.0);
}

static double tree(int i, int first, int n)
{
    int left = 1;
    if (n == 1)
        return value(first, i);
    while (left * 2 < n)
        left *= 2;
    return tree(i, first, left) + tree(i, first + left, n - left);
}

/* For comm_checks.h. */
static double number(int rank, int64_t i) { return value(rank, i); }

#include "comm_checks.h"

static void host_sums(void)
{
    double d[COMM_DOUBLES];
    bool good = true;
    for (int i = 0; i < COMM_DOUBLES; i++)
        d[i] = value(world.rank, i);
    comm_allreduce_double(d, COMM_DOUBLES);
    for (int i = 0; i < COMM_DOUBLES; i++)
        good = good && d[i] == tree(i, 0, world.size);
    report("sum of doubles is the tree, bit for bit", good);
    folds();
    report("maximum", comm_max_int(world.rank * 1000000000000) == (world.size - 1) * 1000000000000);
    char text[100000];
    memset(text, world.rank == world.size - 1 ? 'x' : '-', sizeof text);
    comm_broadcast(text, sizeof text, world.size - 1);
    report("broadcast", text[0] == 'x' && memcmp(text, text + 1, sizeof text - 1) == 0);
    gathered();
    report("local ranks", world.local_rank >= 0 && world.local_rank < world.local_size);
}

static void wait_for(cudaStream_t s)
{
    cudaError_t state;
    while ((state = cudaStreamQuery(s)) == cudaErrorNotReady)
        comm_poll();
    comm_advance();
    if (state != cudaSuccess)
        die(EXIT_DEVICE, "%s", cudaGetErrorString(state));
}

/* Sums of both kinds, sent to s. */
static void both_sums(float *device, int n, cudaStream_t s)
{
    comm_allreduce_start(device + n / 2, n - n / 2, s);
    comm_allreduce_start(device, n / 2, s);
    comm_allreduce_join(s);
    comm_allreduce_sum(device, n, 4096, s);
}

/* Once as they come, then as a graph that runs twice: each run multiplies by the square of ranks. A
 * world of one rank tries this on a machine with one GPU. */
static void captured_sums(float *device, int n, float *host, cudaStream_t s)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    bool good = true;
    const float ranks = (float)world.size;
    for (int i = 0; i < n; i++)
        host[i] = (float)(i % 16);
    array_write(device, host, n * (int64_t)sizeof *host);
    both_sums(device, n, s);
    good = good && cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed) == cudaSuccess;
    both_sums(device, n, s);
    good = good && cudaStreamEndCapture(s, &graph) == cudaSuccess &&
           cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess;
    for (int i = 0; i < 2 && good; i++)
        good = cudaGraphLaunch(exec, s) == cudaSuccess;
    wait_for(s);
    array_read(host, device, n * (int64_t)sizeof *host);
    for (int i = 0; i < n; i++)
        good = good && host[i] == (float)(i % 16) * powf(ranks, 6);
    report("sums in a graph", good);
}

/* Integers: exact in any order. */
static void device_sums(void)
{
    enum { N = 30001 };
    float *device = device_arena(N * sizeof *device, "test"), *host = malloc(N * sizeof *host);
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (int mode = 0; mode < 3; mode++) {
        bool good = true;
        for (int i = 0; i < N; i++)
            host[i] = (float)(i % 1000 + world.rank * 7);
        array_write(device, host, N * sizeof *host);
        if (mode < 2)
            comm_allreduce_sum(device, N, mode ? N : 4096, s);
        else {
            comm_allreduce_start(device + N / 2, N - N / 2, s);
            comm_allreduce_start(device, N / 2, s);
            comm_allreduce_join(s);
        }
        wait_for(s);
        array_read(host, device, N * sizeof *host);
        for (int i = 0; i < N; i++)
            good = good && host[i] == (float)(i % 1000 * world.size
                                              + 7 * world.size * (world.size - 1) / 2);
        report(mode == 0 ? "sum in buckets" : mode == 1 ? "sum in one" : "sums after the call", good);
    }
    captured_sums(device, N, host, s);
    free(host);
}

enum { PART = 3001, NUMBERS_MAX = 1000 };

/* Element i of tensor t on a rank: small integers, whose sums are exact. */
static float whole_number(int t, int rank, int64_t i)
{
    return (float)((i * 7 + rank * 13 + t * 101) % NUMBERS_MAX);
}

/* Two tensors are gathered and one is summed, all in parallel with s, which then copies from them:
 * out = first gathered, then the sums of the own part. */
static void operations(float *const own[2], float *const whole[2], float *sum, float *out,
                       cudaStream_t s)
{
    const size_t part = PART * sizeof *sum;
    comm_end(5, s);              /* nothing is under way */
    comm_gather_begin(3, whole[0], own[0], sizeof *sum, PART, s);
    comm_scatter_begin(0, sum, PART, s);
    comm_gather_begin(COMM_OPERATIONS - 1, whole[1], own[1], 1, (int64_t)part, s);
    comm_end(3, s);
    cudaMemcpyAsync(out, whole[0], part * (size_t)world.size, cudaMemcpyDeviceToDevice, s);
    comm_end(0, s);
    cudaMemcpyAsync(out + PART * world.size, sum + PART * world.rank, part,
                    cudaMemcpyDeviceToDevice, s);
    comm_end(COMM_OPERATIONS - 1, s);
}

/* As they come, then as a graph that runs twice with other values each time. */
static void device_operations(void)
{
    const int64_t all = PART * world.size;
    float *const base = device_arena((4 * all + 3 * PART) * (int64_t)sizeof *base, "test");
    float *const whole[2] = { base, base + all }, *const sum = base + 2 * all,
          *const own[2] = { base + 4 * all + PART, base + 4 * all + 2 * PART }, *out = base + 3 * all,
          *host = malloc((size_t)(all + PART) * sizeof *host);
    bool good = true, good_second = true;
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec = NULL;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (int run = 0; run < 3; run++) {
        for (int t = 0; t < 2; t++) {
            for (int64_t i = 0; i < PART; i++)
                host[i] = whole_number(t + run, world.rank, i);
            array_write(own[t], host, PART * (int64_t)sizeof *host);
        }
        for (int64_t i = 0; i < all; i++)
            host[i] = whole_number(3 + run, world.rank, i);
        array_write(sum, host, all * (int64_t)sizeof *host);
        if (run == 1)
            good = good && cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed) == cudaSuccess;
        if (run < 2)
            operations(own, whole, sum, out, s);
        if (run == 1)
            good = good && cudaStreamEndCapture(s, &graph) == cudaSuccess &&
                   cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess;
        good = good && (!run || cudaGraphLaunch(exec, s) == cudaSuccess);
        wait_for(s);
        array_read(host, out, (all + PART) * (int64_t)sizeof *host);
        for (int64_t i = 0; i < all; i++)
            good = good && host[i] == whole_number(run, (int)(i / PART), i % PART);
        for (int64_t i = 0; i < PART; i++) {
            float want = 0;
            for (int r = 0; r < world.size; r++)
                want += whole_number(3 + run, r, world.rank * PART + i);
            good = good && host[all + i] == want;
        }
        array_read(host, whole[1], all * (int64_t)sizeof *host);
        for (int64_t i = 0; i < all; i++)
            good_second = good_second && host[i] == whole_number(1 + run, (int)(i / PART), i % PART);
    }
    report("operations parallel to a stream, in a graph too", good);
    report("a gather of bytes", good_second);
    comm_gather_parts(whole[1], own[0], sizeof *host, PART, s);
    wait_for(s);
    array_read(host, whole[1], all * (int64_t)sizeof *host);
    good = true;
    for (int64_t i = 0; i < all; i++)
        good = good && host[i] == whole_number(2, (int)(i / PART), i % PART);
    report("gather of parts", good);
    free(host);
}

/* For a simulator whose collectives run late: each end is of its own operation alone, and without it
 * a buffer still holds what was in it before. */
static void late_operations(void)
{
    const int64_t bytes = PART * (int64_t)sizeof(float);
    float *const base = device_arena((4 + 2 * world.size) * bytes, "test");
    float *const own = base, *early = base + PART, *between = base + 2 * PART, *after = base + 3 * PART,
          *whole = base + 4 * PART, *sum = whole + PART * world.size, *mine = sum + PART * world.rank;
    float host[3][PART];
    bool beside = true, alone = true, over = true;
    cudaStream_t s;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    array_zero(whole, world.size * bytes);
    for (int64_t i = 0; i < PART; i++)
        host[0][i] = whole_number(0, world.rank, i) + 1;
    array_write(own, host[0], bytes);
    array_write(mine, host[0], bytes);
    comm_gather_begin(0, whole, own, sizeof *own, PART, s);
    comm_scatter_begin(1, sum, PART, s);
    cudaMemcpyAsync(early, whole + PART * world.rank, (size_t)bytes, cudaMemcpyDeviceToDevice, s);
    comm_end(0, s);
    cudaMemcpyAsync(between, mine, (size_t)bytes, cudaMemcpyDeviceToDevice, s);
    comm_end(1, s);
    cudaMemcpyAsync(after, mine, (size_t)bytes, cudaMemcpyDeviceToDevice, s);
    wait_for(s);
    array_read(host[0], early, bytes);
    array_read(host[1], between, bytes);
    array_read(host[2], after, bytes);
    for (int64_t i = 0; i < PART; i++) {
        const float one = whole_number(0, world.rank, i) + 1;
        beside = beside && host[0][i] == 0;
        alone = alone && host[1][i] == one;
        over = over && host[2][i] != one;
    }
    report("nothing waits for an operation before its end", beside);
    report("the end of an operation does not wait for a later one", alone);
    report("the end of an operation waits for it", over);
}

enum { ROWS = 301, COLS = 517, ALL = ROWS * COLS, LONG = ARRAY_PIECE / 4 * 2 + 77 };

/* Elements go to their places, wherever the pieces begin, and come back; nothing goes between rows. */
static void one_tensor(Tensor t, char *arena, const float *in, float *out)
{
    const int64_t cut[] = { 0, 1, 5, ROWS - 3, ROWS + 2, 7 * ROWS, 7 * ROWS + 1, ALL - 1, ALL };
    const int64_t row = t.pitch ? t.pitch : COLS;
    bool good = true;
    array_zero(arena, ROWS * row * 4);
    for (int i = 0; i + 1 < 9; i++)
        model_put(&t, (Array){.at = arena}, cut[i], cut[i + 1] - cut[i], in + cut[i]);
    array_read(out, arena, ROWS * row * 4);
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t c = 0; c < row; c++)
            good = good && out[r * row + c] == (c >= COLS        ? 0
                                                : t.transposed ? in[c * ROWS + r]
                                                               : in[r * COLS + c]);
    report(format("a tensor%s%s", t.transposed ? " stored across" : "", t.pitch ? ", wide" : ""),
           good);
    for (int64_t begin = 0; begin < ALL; begin += 4999) {
        int64_t n = ALL - begin < 4999 ? ALL - begin : 4999;
        model_get(&t, (Array){.at = arena}, begin, n, out);
        good = good && memcmp(out, in + begin, (size_t)n * 4) == 0;
    }
    report("and back", good);
}

/* First values and sums do not depend on what lies between rows. */
static void wide_rows(Tensor t, char *arena)
{
    uint32_t crc[2];
    const char *where;
    bool good = true;
    Model m = { .ntensors = 1, .tensors = &t };
    t.weight.at = arena;
    t.init = INIT_NORMAL;
    t.init_arg = 1;
    for (int wide = 0; wide < 2; wide++) {
        t.pitch = wide ? COLS + 13 : 0;
        model_init(&m, 42);
        crc[wide] = model_crc(&m);
        good = good && model_nonfinite(&m, &where) == 0;
    }
    report("first values and sums of wide rows", good && crc[0] == crc[1]);
}

/* Values copied to a GPU come back: whole, in pieces, transposed and in wide rows at any place. */
static void arrays(void)
{
    float *in = malloc(LONG * sizeof *in), *out = malloc(LONG * sizeof *out);
    char *arena = device_arena((int64_t)LONG * 4, "test");
    Tensor t = { .name = "w", .rank = 2, .shape = { ROWS, COLS } };
    bool good = true;
    for (int64_t i = 0; i < LONG; i++)
        in[i] = (float)(i % 65521 + 1);
    for (int64_t done = 0, k; done < LONG; done += k) {
        k = LONG - done < ARRAY_PIECE / 4 ? LONG - done : ARRAY_PIECE / 4;
        array_write(arena + 4 * done, in + done, 4 * k);
    }
    array_read(out, arena, (int64_t)LONG * 4);
    report("arrays come back", memcmp(in, out, LONG * sizeof *in) == 0);
    array_zero(arena + 4096, 4096);
    array_read(out, arena, 3 * 4096);
    for (int i = 0; i < 3 * 1024; i++)
        good = good && out[i] == (i / 1024 == 1 ? 0 : in[i]);
    report("zeros", good);
    for (int kind = 0; kind < 4; kind++) {
        t.transposed = kind % 2;
        t.pitch = kind / 2 ? COLS + 13 : 0;
        one_tensor(t, arena, in, out);
    }
    t.transposed = false;
    wide_rows(t, arena);
    report("memory in use is counted", device_used() >= (int64_t)LONG * 4);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    comm_init(atoi(argv[1]), "recipes/x.lua", argc, argv);
    device_open(getenv("TARGET") ? getenv("TARGET") : "sm_90");
    comm_connect();
    if (world.rank == 0)
        printf("%s, NCCL %s\n", device_name(), comm_library());
    const char *setting;
    bool chosen;
    for (int i = 0; world.rank == 0 && (setting = comm_setting(i, &chosen)); i++)
        printf("%s %s\n", chosen ? "chosen" : "pinned", setting);
    fflush(stdout);
    world.step = 1;
    if (strcmp(argv[2], "sums") == 0) {
        host_sums();
        device_sums();
        device_operations();
    }
    if (strcmp(argv[2], "arrays") == 0)
        arrays();
    if (strcmp(argv[2], "late") == 0)
        late_operations();
    if (strcmp(argv[2], "abort") == 0 && world.rank == 1)
        die(EXIT_DATA, "this rank has bad data");
    if (strcmp(argv[2], "kill") == 0 && world.rank == 1)
        raise(SIGKILL);
    if (strcmp(argv[2], "hang") == 0)
        comm_expect(2);
    if (strcmp(argv[2], "hang") == 0 && world.rank == 1)
        for (;;)
            pause();
    comm_advance();              /* further than a rank that hangs */
    if (strcmp(argv[2], "sums") != 0 && strcmp(argv[2], "arrays") != 0 &&
        strcmp(argv[2], "late") != 0) {
        float *x = device_arena(4, "test");
        cudaStream_t s;
        cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
        array_zero(x, 4);
        comm_allreduce_sum(x, 1, 1, s);
        wait_for(s);                 /* for ever: rank 1 is not there */
    }
    comm_finish();
    return 0;
}
