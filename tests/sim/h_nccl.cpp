/* h_nccl.cpp -- ranks as processes: values, order, graphs, and ranks that die, stop or disagree. */
#include "h.h"

#include "include/cuda_runtime.h"
#include "include/nccl.h"

#include <signal.h>
#include <time.h>

enum { MAX = 8 };

/* What a rank of a case has. */
struct Rank {
    int rank, ranks;
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t s;
};

static double now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs `body` in `ranks` processes; their exit codes, -1 for one that a signal ended. */
static std::vector<int> processes(int ranks, void (*body)(Rank *))
{
    Rank r = {0, ranks, {}, nullptr, nullptr};
    OK(ncclGetUniqueId(&r.id));
    pid_t child[MAX];
    for (r.rank = 0; r.rank < ranks; r.rank++) {
        child[r.rank] = fork();
        if (child[r.rank] == 0) {
            OK(cudaSetDevice(r.rank));
            body(&r);
            exit(0);
        }
    }
    std::vector<int> codes;
    for (int i = 0; i < ranks; i++) {
        int status;
        waitpid(child[i], &status, 0);
        codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    return codes;
}

static void all_well(int ranks, void (*body)(Rank *))
{
    for (int code : processes(ranks, body))
        CHECK(code == 0);
}

static void join(Rank *r)
{
    OK(ncclCommInitRank(&r->comm, r->ranks, r->id, r->rank));
    OK(cudaStreamCreateWithFlags(&r->s, cudaStreamNonBlocking));
}

/* Until the state is another than ncclInProgress */
static ncclResult_t poll(ncclComm_t comm)
{
    ncclResult_t state;
    do {
        usleep(500);
        OK(ncclCommGetAsyncError(comm, &state));
    } while (state == ncclInProgress);
    return state;
}

template <typename T> static T *device(const std::vector<T> &values)
{
    void *p;
    OK(cudaMalloc(&p, sizeof(T) * values.size()));
    OK(cudaMemcpy(p, values.data(), sizeof(T) * values.size(), cudaMemcpyHostToDevice));
    OK(cudaDeviceSynchronize());
    return (T *)p;
}

template <typename T> static std::vector<T> fetch(const Rank *r, const T *p, size_t n)
{
    std::vector<T> values(n);
    OK(cudaMemcpyAsync(values.data(), p, sizeof(T) * n, cudaMemcpyDeviceToHost, r->s));
    OK(cudaStreamSynchronize(r->s));
    return values;
}

/* An uneven value whose sum depends on the order */
static float value(int rank, size_t i)
{
    return (float)((double)(i * 2654435761u % 1000003 + 1) / (rank * 1009 + 7));
}

static std::vector<float> values(int rank, size_t n)
{
    std::vector<float> v(n);
    for (size_t i = 0; i < n; i++)
        v[i] = value(rank, i);
    return v;
}

static float tree_sum(int ranks, size_t i)
{
    float v[MAX];
    for (int r = 0; r < ranks; r++)
        v[r] = value(r, i);
    for (int apart = 1; apart < ranks; apart *= 2)
        for (int r = 0; r + apart < ranks; r += 2 * apart)
            v[r] += v[r + apart];
    return v[0];
}

/* ---- values ---- */

enum { LARGE = 700001 };         /* elements: several rounds of the exchange */

static void sums(Rank *r)
{
    join(r);
    for (size_t n : {(size_t)1, (size_t)1000, (size_t)LARGE}) {
        float *x = device(values(r->rank, n)), *y = device(std::vector<float>(n));
        OK(ncclAllReduce(x, y, n, ncclFloat, ncclSum, r->comm, r->s));
        OK(ncclAllReduce(x, x, n, ncclFloat, ncclSum, r->comm, r->s));
        std::vector<float> in_place = fetch(r, x, n), apart = fetch(r, y, n);
        for (size_t i = 0; i < n; i++)
            CHECK(in_place[i] == tree_sum(r->ranks, i) && apart[i] == in_place[i]);
    }
    OK(ncclCommFinalize(r->comm));
    OK(ncclCommDestroy(r->comm));
}

CASE(sums_of_1) { all_well(1, sums); }
CASE(sums_of_2) { all_well(2, sums); }
CASE(sums_of_3) { all_well(3, sums); }
CASE(sums_of_4) { all_well(4, sums); }

static void other_collectives(Rank *r)
{
    const size_t n = 300000, ranks = (size_t)r->ranks;
    join(r);
    float *all = device(values(r->rank, n * ranks)), *part = device(std::vector<float>(n));
    OK(ncclReduceScatter(all, part, n, ncclFloat, ncclSum, r->comm, r->s));
    std::vector<float> got = fetch(r, part, n);
    for (size_t i = 0; i < n; i++)
        CHECK(got[i] == tree_sum(r->ranks, (size_t)r->rank * n + i));
    OK(ncclAllGather(part, all, n, ncclFloat, r->comm, r->s));
    got = fetch(r, all, n * ranks);
    for (size_t i = 0; i < n * ranks; i++)
        CHECK(got[i] == tree_sum(r->ranks, i));
    float *mine = device(values(r->rank, n));
    OK(ncclBroadcast(mine, mine, n, ncclFloat, 1, r->comm, r->s));
    got = fetch(r, mine, n);
    for (size_t i = 0; i < n; i++)
        CHECK(got[i] == value(1, i));
    double *d = device(std::vector<double>{1.0 + r->rank, -1.0 * r->rank});
    OK(ncclAllReduce(d, d, 2, ncclDouble, ncclMax, r->comm, r->s));
    CHECK(fetch(r, d, 2)[0] == r->ranks && fetch(r, d, 2)[1] == 0);
    long *l = device(std::vector<long>{r->rank + 1});
    OK(ncclReduce(l, l, 1, ncclInt64, ncclProd, 0, r->comm, r->s));
    CHECK(fetch(r, l, 1)[0] == (r->rank ? r->rank + 1 : 6));
    /* bf16: 1, 1.5, 2 */
    std::vector<unsigned short> narrow = {(unsigned short[]){0x3f80, 0x3fc0, 0x4000}[r->rank]};
    unsigned short *b = device(narrow);
    OK(ncclAllReduce(b, b, 1, ncclBfloat16, ncclSum, r->comm, r->s));
    CHECK(fetch(r, b, 1)[0] == 0x4090);
}

/* Rank r sends to rank q the values of q, times r + 1. */
static void exchange(Rank *r)
{
    const size_t n = 300000, ranks = (size_t)r->ranks;
    join(r);
    std::vector<float> out(n * ranks);
    for (size_t i = 0; i < n * ranks; i++)
        out[i] = (float)(r->rank + 1) * value((int)(i / n), i % n);
    float *send = device(out), *recv = device(std::vector<float>(n * ranks));
    OK(ncclGroupStart());
    for (size_t q = 0; q < ranks; q++) {
        OK(ncclSend(send + q * n, n, ncclFloat, (int)q, r->comm, r->s));
        OK(ncclRecv(recv + q * n, n, ncclFloat, (int)q, r->comm, r->s));
    }
    OK(ncclGroupEnd());
    std::vector<float> got = fetch(r, recv, n * ranks);
    for (size_t i = 0; i < n * ranks; i++)
        CHECK(got[i] == (float)(i / n + 1) * value(r->rank, i % n));
}

CASE(exchanges) { all_well(3, exchange); }

CASE(collectives) { all_well(3, other_collectives); }

static void split(Rank *r)
{
    join(r);
    ncclComm_t sub;
    int rank, ranks;
    /* even and odd ranks, the last one first */
    OK(ncclCommSplit(r->comm, r->rank % 2, -r->rank, &sub, nullptr));
    OK(ncclCommUserRank(sub, &rank));
    OK(ncclCommCount(sub, &ranks));
    CHECK(ranks == 2 && rank == (r->rank < 2));
    float *x = device(std::vector<float>{(float)(1 << r->rank)});
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, sub, r->s));
    CHECK(fetch(r, x, 1)[0] == (r->rank % 2 ? 10 : 5));
    ncclComm_t none = nullptr;
    OK(ncclCommSplit(r->comm, r->rank ? 0 : NCCL_SPLIT_NOCOLOR, 0, &none, nullptr));
    CHECK((none == nullptr) == (r->rank == 0));
    OK(ncclCommDestroy(r->comm));
}

CASE(splits) { all_well(4, split); }

/* ---- without blocking, in groups, in graphs ---- */

static void polled(Rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t state;
    config.blocking = 0;
    if (r->rank == 1)
        usleep(200000);
    CHECK(ncclCommInitRankConfig(&r->comm, r->ranks, r->id, r->rank, &config) == ncclInProgress);
    OK(ncclCommGetAsyncError(r->comm, &state));
    CHECK(state == ncclInProgress);
    OK(cudaStreamCreateWithFlags(&r->s, cudaStreamNonBlocking));
    float *x = device(std::vector<float>{1});
    CHECK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->s) == ncclInvalidArgument);
    OK(poll(r->comm));
    CHECK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->s) == ncclInProgress);
    CHECK(fetch(r, x, 1)[0] == 1);       /* not on the stream yet */
    OK(poll(r->comm));
    CHECK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->s) == ncclInProgress);
    OK(poll(r->comm));
    CHECK(fetch(r, x, 1)[0] == 4);
    CHECK(ncclCommFinalize(r->comm) == ncclInProgress);
    OK(poll(r->comm));
    OK(ncclCommDestroy(r->comm));
}

CASE(init_without_blocking) { all_well(2, polled); }

static void grouped(Rank *r)
{
    join(r);
    float *x = device(std::vector<float>{1}), *y = device(std::vector<float>{2});
    OK(ncclGroupStart());
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->s));
    OK(ncclAllReduce(y, y, 1, ncclFloat, ncclSum, r->comm, r->s));
    OK(ncclGroupEnd());
    CHECK(fetch(r, x, 1)[0] == 2 && fetch(r, y, 1)[0] == 4);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

CASE(groups) { all_well(2, grouped); }

/* The host goes on while another rank is late; work after the collective waits. */
static void late(Rank *r)
{
    join(r);
    float *x = device(std::vector<float>{1});
    if (r->rank == 1)
        usleep(500000);
    double began = now();
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->s));
    OK(cudaMemsetAsync(x, 0, 2, r->s));
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    OK(cudaEventRecord(e, r->s));
    CHECK(now() - began < 0.3);
    if (r->rank == 0)
        CHECK(cudaEventQuery(e) == cudaErrorNotReady && cudaStreamQuery(r->s) == cudaErrorNotReady);
    OK(cudaEventSynchronize(e));
    CHECK(fetch(r, x, 1)[0] == 2);       /* 0x40000000 */
    CHECK(r->rank == 1 || now() - began > 0.3);
}

CASE(late_rank) { all_well(2, late); }

static cudaStream_t side_stream()
{
    cudaStream_t side;
    OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    return side;
}

static void order(cudaStream_t a, cudaStream_t b)
{
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    OK(cudaEventRecord(e, a));
    OK(cudaStreamWaitEvent(b, e, 0));
    OK(cudaEventDestroy(e));
}

/* The host waits for a stream that waits for an event of the collective. */
static void late_beside(Rank *r)
{
    join(r);
    float *x = device(std::vector<float>{1});
    cudaStream_t side = side_stream();
    if (r->rank == 1)
        usleep(500000);
    double began = now();
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, side));
    order(side, r->s);
    CHECK(now() - began < 0.3);
    OK(cudaStreamSynchronize(r->s));
    CHECK(r->rank == 1 || now() - began > 0.3);
    CHECK(fetch(r, x, 1)[0] == 2);
}

CASE(wait_for_the_event_of_a_late_rank) { all_well(2, late_beside); }

static void in_graph(Rank *r)
{
    cudaStream_t side;
    cudaEvent_t fork, back;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    join(r);
    OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&back, cudaEventDisableTiming));
    float *x = device(values(r->rank, LARGE)), *y = device(std::vector<float>(LARGE));
    OK(ncclAllReduce(x, y, LARGE, ncclFloat, ncclSum, r->comm, r->s));
    OK(cudaStreamBeginCapture(r->s, cudaStreamCaptureModeThreadLocal));
    OK(cudaEventRecord(fork, r->s));
    OK(cudaStreamWaitEvent(side, fork, 0));
    OK(ncclAllReduce(x, y, LARGE, ncclFloat, ncclSum, r->comm, side));
    OK(cudaEventRecord(back, side));
    OK(cudaStreamWaitEvent(r->s, back, 0));
    OK(cudaMemcpyAsync(x, y, sizeof *x * LARGE, cudaMemcpyDeviceToDevice, r->s));
    OK(cudaStreamEndCapture(r->s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cudaGraphLaunch(exec, r->s));
    std::vector<float> got = fetch(r, x, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        CHECK(got[i] == 4 * tree_sum(2, i));
}

CASE(graphs) { all_well(2, in_graph); }

/* ---- early and late collectives ---- */

/* Seconds from the end of a collective to that of a later memset of another stream, which the
 * sums must not wait for. */
static double lead(Rank *r)
{
    join(r);
    float *x = device(values(r->rank, 1000)), *y = device(std::vector<float>(1000));
    cudaStream_t side = side_stream();
    cudaEvent_t summed, set;
    float ms;
    OK(cudaEventCreate(&summed));
    OK(cudaEventCreate(&set));
    OK(ncclAllReduce(x, x, 1000, ncclFloat, ncclSum, r->comm, side));
    OK(cudaEventRecord(summed, side));
    usleep(20000);
    OK(cudaMemsetAsync(y, 0, 4000, r->s));
    OK(cudaEventRecord(set, r->s));
    usleep(20000);
    order(side, r->s);
    std::vector<float> got = fetch(r, x, 1000);
    for (size_t i = 0; i < 1000; i++)
        CHECK(got[i] == tree_sum(r->ranks, i));
    OK(cudaEventElapsedTime(&ms, summed, set));
    return 1e-3 * ms;
}

CASE(early_collective)
{
    setenv("DIECAST_SIM_COLLECTIVES", "early", 1);
    all_well(1, [](Rank *r) { CHECK(lead(r) > 0.01); });
}

CASE(late_collective)
{
    setenv("DIECAST_SIM_COLLECTIVES", "late", 1);
    all_well(2, [](Rank *r) { CHECK(lead(r) < -0.01); });
}

FAILS(collectives_at_another_time, "DIECAST_SIM_COLLECTIVES=soon: must be late or early")
{
    setenv("DIECAST_SIM_COLLECTIVES", "soon", 1);
    side_stream();
    device(std::vector<float>{1});
}

/* Only what is waited for runs: the second sum does not yet when the first is over. */
static void one_of_two(Rank *r)
{
    join(r);
    float *x = device(std::vector<float>{1}), *y = device(std::vector<float>{1}), ms;
    cudaStream_t side = side_stream();
    cudaEvent_t first, second, seen;
    OK(cudaEventCreate(&first));
    OK(cudaEventCreate(&second));
    OK(cudaEventCreate(&seen));
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, side));
    OK(cudaEventRecord(first, side));
    if (r->rank == 1)
        usleep(100000);
    OK(ncclAllReduce(y, y, 1, ncclFloat, ncclSum, r->comm, side));
    OK(cudaEventRecord(second, side));
    OK(cudaStreamWaitEvent(r->s, first, 0));
    CHECK(fetch(r, x, 1)[0] == 2);
    OK(cudaEventRecord(seen, r->s));
    OK(cudaEventSynchronize(second));
    OK(cudaEventElapsedTime(&ms, second, seen));
    CHECK(ms < 0);
    OK(cudaStreamWaitEvent(r->s, second, 0));
    CHECK(fetch(r, y, 1)[0] == 2);
}

CASE(late_collectives_one_by_one)
{
    setenv("DIECAST_SIM_COLLECTIVES", "late", 1);
    all_well(2, one_of_two);
}

/* Two collectives at a time in parallel with the stream, as they come and in a graph. */
static void pipeline(Rank *r)
{
    enum { LAYERS = 5, N = 1000 };
    join(r);
    cudaStream_t side = side_stream();
    cudaEvent_t end[2];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    std::vector<float> all;
    for (int l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < N; i++)
            all.push_back(value(r->rank, i + (size_t)l));
    float *in = device(all), *slot = device(std::vector<float>(2 * N)),
          *out = device(std::vector<float>(LAYERS * N));
    for (cudaEvent_t &e : end)
        OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (int captured = 0; captured < 2; captured++) {
        if (captured)
            OK(cudaStreamBeginCapture(r->s, cudaStreamCaptureModeThreadLocal));
        for (int l = 0; l <= LAYERS; l++) {
            if (l < LAYERS) {
                order(r->s, side);
                OK(ncclAllReduce(in + l * N, slot + l % 2 * N, N, ncclFloat, ncclSum, r->comm,
                                 side));
                OK(cudaEventRecord(end[l % 2], side));
            }
            if (l) {
                OK(cudaStreamWaitEvent(r->s, end[(l - 1) % 2], 0));
                OK(cudaMemcpyAsync(out + (l - 1) * N, slot + (l - 1) % 2 * N, sizeof *out * N,
                                   cudaMemcpyDeviceToDevice, r->s));
            }
        }
        if (captured) {
            OK(cudaStreamEndCapture(r->s, &graph));
            OK(cudaGraphInstantiate(&exec, graph, 0));
            OK(cudaGraphLaunch(exec, r->s));
            OK(cudaMemsetAsync(slot, 0, sizeof *slot * 2 * N, r->s));
            OK(cudaGraphLaunch(exec, r->s));
        }
        std::vector<float> got = fetch(r, out, LAYERS * N);
        for (size_t i = 0; i < LAYERS * N; i++)
            CHECK(got[i] == tree_sum(r->ranks, i % N + i / N));
        OK(cudaMemsetAsync(out, 0, sizeof *out * LAYERS * N, r->s));
    }
}

CASE(early_pipeline) { all_well(3, pipeline); }

CASE(late_pipeline)
{
    setenv("DIECAST_SIM_COLLECTIVES", "late", 1);
    all_well(3, pipeline);
}

static void captured_size(Rank *r)
{
    join(r);
    float *x = device(std::vector<float>(8));
    OK(ncclAllReduce(x, x, 4, ncclFloat, ncclSum, r->comm, r->s));
    OK(cudaStreamBeginCapture(r->s, cudaStreamCaptureModeRelaxed));
    OK(ncclAllReduce(x, x, 8, ncclFloat, ncclSum, r->comm, r->s));
}

FAILS(captured_before_it_ran, "ncclAllReduce of 8 elements (type 7) is captured before it has run")
{
    exit(processes(1, captured_size)[0]);
}

static void captured_kind(Rank *r)
{
    join(r);
    float *x = device(std::vector<float>(8));
    OK(ncclAllReduce(x, x, 8, ncclFloat, ncclSum, r->comm, r->s));
    OK(cudaStreamBeginCapture(r->s, cudaStreamCaptureModeRelaxed));
    OK(ncclBroadcast(x, x, 8, ncclFloat, 0, r->comm, r->s));
}

FAILS(captured_kind_before_it_ran, "ncclBroadcast of 8 elements (type 7) is captured before")
{
    exit(processes(1, captured_kind)[0]);
}

static void beside(Rank *r)
{
    cudaStream_t other;
    join(r);
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    float *x = device(std::vector<float>{1});
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->s));
    OK(cudaMemsetAsync(x, 0, 4, other));
    OK(cudaStreamSynchronize(other));
}

FAILS(write_beside_collective, "ncclAllReduce on stream")
{
    exit(processes(2, beside)[0]);
}

static void beside_late(Rank *r)
{
    setenv("DIECAST_SIM_COLLECTIVES", "late", 1);
    beside(r);
    OK(cudaDeviceSynchronize());
}

FAILS(write_beside_late_collective, "ncclAllReduce: reads memory that cudaMemsetAsync on stream 2 wrote")
{
    exit(processes(2, beside_late)[0]);
}

/* ---- ranks that die, stop or disagree ---- */

/* Nobody has waited for the dead one: it is a zombie all the while. */
static void killed(Rank *r)
{
    join(r);
    float *x = device(std::vector<float>{1});
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->s));
    OK(cudaStreamSynchronize(r->s));
    if (r->rank == 1)
        raise(SIGKILL);
    double began = now();
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->s));
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    OK(cudaEventRecord(e, r->s));
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess) {
        CHECK(cudaEventQuery(e) == cudaErrorNotReady);
        OK(ncclCommGetAsyncError(r->comm, &state));
        usleep(1000);
    }
    CHECK(state == ncclRemoteError && now() - began < 1);
    OK(ncclCommAbort(r->comm));
    OK(cudaStreamSynchronize(r->s));
    OK(cudaEventQuery(e));
}

CASE(killed_rank)
{
    std::vector<int> codes = processes(2, killed);
    CHECK(codes[0] == 0 && codes[1] == -1);
}

static void stopped(Rank *r)
{
    join(r);
    float *x = device(std::vector<float>{1});
    if (r->rank == 1) {
        raise(SIGSTOP);
        exit(0);
    }
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->s));
    ncclResult_t state;
    usleep(400000);
    OK(ncclCommGetAsyncError(r->comm, &state));
    CHECK(state == ncclSuccess && cudaStreamQuery(r->s) == cudaErrorNotReady);
    OK(ncclCommAbort(r->comm));
    OK(cudaStreamSynchronize(r->s));
    kill(0, SIGCONT);
}

CASE(stopped_rank)
{
    setpgid(0, 0);
    all_well(2, stopped);
}

static void aborts(Rank *r)
{
    join(r);
    if (r->rank == 1) {
        OK(ncclCommAbort(r->comm));
        usleep(600000);
        return;
    }
    ncclResult_t state = ncclSuccess;
    for (double began = now(); state == ncclSuccess && now() - began < 1; usleep(1000))
        OK(ncclCommGetAsyncError(r->comm, &state));
    CHECK(state == ncclRemoteError);
}

CASE(rank_that_aborts) { all_well(2, aborts); }

static void leaves_in_peace(Rank *r)
{
    join(r);
    float *x = device(std::vector<float>{1});
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->s));
    CHECK(fetch(r, x, 1)[0] == 2);
    if (r->rank == 1) {
        OK(ncclCommDestroy(r->comm));
        return;
    }
    usleep(400000);
    ncclResult_t state;
    OK(ncclCommGetAsyncError(r->comm, &state));
    CHECK(state == ncclSuccess);
}

CASE(rank_that_leaves) { all_well(2, leaves_in_peace); }

static void disagree(Rank *r)
{
    join(r);
    float *x = device(std::vector<float>{1, 2});
    OK(ncclAllReduce(x, x, r->rank ? 2 : 1, ncclFloat, ncclSum, r->comm, r->s));
    OK(cudaStreamSynchronize(r->s));
}

FAILS(ranks_that_disagree, " is ncclAllReduce of 2 elements (type 7, operation 0, root 0)")
{
    exit(processes(2, disagree)[0]);
}

static void same_device(Rank *r)
{
    OK(cudaSetDevice(0));
    CHECK(ncclCommInitRank(&r->comm, r->ranks, r->id, r->rank) == ncclInvalidUsage);
}

CASE(two_ranks_on_one_device) { all_well(2, same_device); }

static void same_rank(Rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (r->rank == 1)
        usleep(100000);
    ncclResult_t result = ncclCommInitRankConfig(&r->comm, 2, r->id, 0, &config);
    CHECK(result == (r->rank ? ncclInvalidUsage : ncclInProgress));
    usleep(r->rank ? 0 : 300000);
}

CASE(same_rank_twice) { all_well(2, same_rank); }

CASE(bad_arguments)
{
    Rank r = {0, 1, {}, nullptr, nullptr};
    CHECK(ncclCommInitRank(&r.comm, 1, r.id, 0) == ncclInvalidUsage);
    OK(ncclGetUniqueId(&r.id));
    CHECK(ncclCommInitRank(&r.comm, 2, r.id, 2) == ncclInvalidArgument);
    join(&r);
    float here[4] = {}, *x = device(std::vector<float>{1, 2});
    CHECK(ncclAllReduce(here, here, 4, ncclFloat, ncclSum, r.comm, r.s) == ncclInvalidArgument);
    CHECK(ncclAllReduce(x, x, 3, ncclFloat, ncclSum, r.comm, r.s) == ncclInvalidArgument);
    CHECK(ncclBroadcast(x, x, 1, ncclFloat, 1, r.comm, r.s) == ncclInvalidArgument);
    CHECK(ncclAllReduce(x, x, 1, (ncclDataType_t)77, ncclSum, r.comm, r.s) == ncclInvalidArgument);
    CHECK(strlen(ncclGetErrorString(ncclRemoteError)) > 0 && strlen(ncclGetLastError(nullptr)) > 0);
    OK(ncclCommAbort(r.comm));
    CHECK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r.comm, r.s) == ncclInvalidArgument);
}

int main()
{
    return h_main("nccl");
}
