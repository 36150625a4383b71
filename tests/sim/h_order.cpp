/* h_order.cpp -- the order of operations: what is a hazard between streams, graphs and the host. */
#include "h.h"

#include "include/cuda_runtime.h"

enum { N = 1000 };

static __global__ void fill(float *to, float value, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        to[i] = value;
}

static __global__ void add_one(float *to, const float *from, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        to[i] = from[i] + 1;
}

template <typename... P, typename... A>
static cudaError_t launch(cudaStream_t s, void (*kernel)(P...), A... arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((N + 127) / 128);
    config.blockDim = dim3(128);
    config.stream = s;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

static float *device(int n = N)
{
    void *p;
    OK(cudaMalloc(&p, sizeof(float) * (size_t)n));
    return (float *)p;
}

static float *pinned(int n = N)
{
    void *p;
    OK(cudaMallocHost(&p, sizeof(float) * (size_t)n));
    return (float *)p;
}

static cudaStream_t stream()
{
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static cudaEvent_t event()
{
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

/* b may start when a is done so far */
static void order(cudaStream_t a, cudaStream_t b)
{
    cudaEvent_t e = event();
    OK(cudaEventRecord(e, a));
    OK(cudaStreamWaitEvent(b, e, 0));
    OK(cudaEventDestroy(e));
}

/* ---- streams and events ---- */

CASE(one_stream)
{
    float *x = device(), *h = pinned();
    cudaStream_t s = stream();
    OK(launch(s, fill, x, 2.0f, (int)N));
    OK(launch(s, add_one, x, x, (int)N));
    OK(cudaMemcpyAsync(h, x, sizeof(float) * N, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    CHECK(h[0] == 3 && h[N - 1] == 3);
}

CASE(event_orders)
{
    float *x = device(), *y = device();
    cudaStream_t a = stream(), b = stream();
    OK(launch(a, fill, x, 2.0f, (int)N));
    order(a, b);
    OK(launch(b, add_one, y, x, (int)N));
}

FAILS(read_without_event, "fill")
{
    float *x = device(), *y = device();
    cudaStream_t a = stream(), b = stream();
    OK(launch(a, fill, x, 2.0f, (int)N));
    OK(launch(b, add_one, y, x, (int)N));
}

FAILS(event_too_early, "add_one")
{
    float *x = device(), *y = device();
    cudaStream_t a = stream(), b = stream();
    order(a, b);
    OK(launch(a, fill, x, 2.0f, (int)N));
    OK(launch(b, add_one, y, x, (int)N));
}

FAILS(write_after_read, "stream")
{
    float *x = device(), *y = device();
    cudaStream_t a = stream(), b = stream();
    OK(launch(a, fill, x, 2.0f, (int)N));
    order(a, b);
    OK(launch(b, add_one, y, x, (int)N));
    OK(launch(a, fill, x, 3.0f, (int)N));
}

CASE(read_beside_read)
{
    float *x = device(), *y = device(), *z = device();
    cudaStream_t a = stream(), b = stream();
    OK(launch(a, fill, x, 2.0f, (int)N));
    order(a, b);
    OK(launch(b, add_one, y, x, (int)N));
    OK(launch(a, add_one, z, x, (int)N));
}

CASE(transitive)
{
    float *x = device(), *y = device();
    cudaStream_t a = stream(), b = stream(), c = stream();
    OK(launch(a, fill, x, 2.0f, (int)N));
    order(a, b);
    order(b, c);
    OK(launch(c, add_one, y, x, (int)N));
}

CASE(host_wait_orders)
{
    float *x = device(), *y = device();
    cudaStream_t a = stream(), b = stream();
    OK(launch(a, fill, x, 2.0f, (int)N));
    OK(cudaStreamSynchronize(a));
    OK(launch(b, add_one, y, x, (int)N));
    cudaEvent_t e = event();
    OK(cudaEventRecord(e, b));
    CHECK(cudaEventQuery(e) == cudaErrorNotReady);
    OK(cudaEventQuery(e));
    OK(launch(a, fill, x, 3.0f, (int)N));
}

FAILS(query_not_ready, "stream")
{
    float *x = device(), *y = device();
    cudaStream_t a = stream(), b = stream();
    OK(launch(a, fill, x, 2.0f, (int)N));
    cudaEvent_t e = event();
    OK(cudaEventRecord(e, a));
    CHECK(cudaEventQuery(e) == cudaErrorNotReady);
    OK(launch(b, add_one, y, x, (int)N));
}

CASE(legacy_stream_waits)
{
    float *x = device(), *y = device();
    cudaStream_t a;
    OK(cudaStreamCreate(&a));
    OK(launch(a, fill, x, 2.0f, (int)N));
    OK(launch((cudaStream_t)0, add_one, y, x, (int)N));
    OK(launch(a, fill, x, 2.0f, (int)N));
}

FAILS(non_blocking_does_not_wait, "stream 0")
{
    float *x = device(), *y = device();
    cudaStream_t a = stream();
    OK(launch((cudaStream_t)0, fill, x, 2.0f, (int)N));
    OK(launch(a, add_one, y, x, (int)N));
}

FAILS(programs_do_not_use_it, "cudaMemset on the legacy stream")
{
    float *x = device();
    sim_legacy_allowed = false;
    OK(cudaMemsetAsync(x, 0, sizeof(float) * N, stream()));
    OK(cudaMemset(x, 0, sizeof(float) * N));
}

FAILS(programs_launch_nothing_on_it, "on the legacy stream")
{
    float *x = device();
    sim_legacy_allowed = false;
    OK(launch((cudaStream_t)0, fill, x, 2.0f, (int)N));
}

/* ---- the host ---- */

CASE(pinned_after_wait)
{
    float *x = device(), *h = pinned();
    cudaStream_t s = stream();
    for (int i = 0; i < N; i++)
        h[i] = (float)i;
    OK(cudaMemcpyAsync(x, h, sizeof(float) * N, cudaMemcpyHostToDevice, s));
    OK(cudaStreamSynchronize(s));
    h[5] = 0;
}

FAILS(pinned_refilled, "host code writes memory that cudaMemcpyAsync on stream 1 read")
{
    float *x = device(), *h = pinned();
    cudaStream_t s = stream();
    for (int i = 0; i < N; i++)
        h[i] = (float)i;
    OK(cudaMemcpyAsync(x, h, sizeof(float) * N, cudaMemcpyHostToDevice, s));
    h[5] = 0;
}

FAILS(pinned_read_early, "host code reads memory that cudaMemcpyAsync on stream 1 wrote")
{
    float *x = device(), *h = pinned();
    cudaStream_t s = stream();
    OK(launch(s, fill, x, 2.0f, (int)N));
    OK(cudaMemcpyAsync(h, x, sizeof(float) * N, cudaMemcpyDeviceToHost, s));
    CHECK(h[0] != 7);
}

CASE(other_pinned_bytes)
{
    float *x = device(), *h = pinned(2 * N);
    cudaStream_t s = stream();
    for (int i = 0; i < 2 * N; i++)
        h[i] = (float)i;
    OK(cudaMemcpyAsync(x, h, sizeof(float) * N, cudaMemcpyHostToDevice, s));
    h[N] = 0;
}

FAILS(host_touches_device, "device memory")
{
    float *x = device();
    x[0] = 1;
}

FAILS(copy_within_device_is_under_way, "cudaMemcpy")
{
    float *x = device(), *y = device();
    OK(cudaMemset(x, 0, sizeof(float) * N));
    OK(cudaMemcpy(y, x, sizeof(float) * N, cudaMemcpyDeviceToDevice));
    OK(launch(stream(), fill, y, 1.0f, (int)N));
}

/* ---- graphs ---- */

/* x = 2 on a; y = x + 1 on b; z = y + 1 on a; with the edges as told */
static cudaGraphExec_t fork_join(cudaStream_t a, cudaStream_t b, float *x, float *y, float *z,
                                 bool wait)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal));
    if (!wait)
        order(a, b);
    OK(launch(a, fill, x, 2.0f, (int)N));
    if (wait)
        order(a, b);
    OK(launch(b, add_one, y, x, (int)N));
    order(b, a);
    OK(launch(a, add_one, z, y, (int)N));
    OK(cudaStreamEndCapture(a, &graph));
    size_t nodes;
    OK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(nodes == 3);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    return exec;
}

CASE(graph_runs)
{
    float *x = device(), *y = device(), *z = device(), *h = pinned();
    cudaStream_t a = stream(), b = stream();
    cudaGraphExec_t exec = fork_join(a, b, x, y, z, true);
    for (int i = 0; i < 3; i++)
        OK(cudaGraphLaunch(exec, a));
    OK(cudaMemcpyAsync(h, z, sizeof(float) * N, cudaMemcpyDeviceToHost, a));
    OK(cudaStreamSynchronize(a));
    CHECK(h[N - 1] == 4);
    OK(cudaGraphExecDestroy(exec));
}

CASE(capture_runs_nothing)
{
    float *x = device(), *h = pinned();
    cudaStream_t a = stream();
    cudaGraph_t graph;
    OK(cudaMemsetAsync(x, 0, sizeof(float) * N, a));
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    OK(launch(a, fill, x, 2.0f, (int)N));
    OK(cudaStreamEndCapture(a, &graph));
    OK(cudaMemcpyAsync(h, x, sizeof(float) * N, cudaMemcpyDeviceToHost, a));
    OK(cudaStreamSynchronize(a));
    CHECK(h[0] == 0);
}

FAILS(branches_of_a_graph, "fill")
{
    float *x = device(), *y = device(), *z = device();
    cudaStream_t a = stream(), b = stream();
    OK(cudaGraphLaunch(fork_join(a, b, x, y, z, false), a));
}

FAILS(graph_beside_stream, "stream")
{
    float *x = device(), *y = device(), *z = device();
    cudaStream_t a = stream(), b = stream();
    cudaGraphExec_t exec = fork_join(a, b, x, y, z, true);
    OK(cudaGraphLaunch(exec, a));
    OK(launch(b, fill, y, 1.0f, (int)N));
}

CASE(one_graph_after_itself)
{
    float *x = device(), *y = device(), *z = device();
    cudaStream_t a = stream(), b = stream();
    cudaGraphExec_t exec = fork_join(a, b, x, y, z, true);
    OK(cudaGraphLaunch(exec, a));
    OK(cudaGraphLaunch(exec, b));
}

CASE(graph_copies_what_is_there)
{
    float *x = device(), *h = pinned(), *back = pinned();
    cudaStream_t a = stream();
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    OK(cudaMemcpyAsync(x, h, sizeof(float) * N, cudaMemcpyHostToDevice, a));
    OK(cudaMemcpyAsync(back, x, sizeof(float) * N, cudaMemcpyDeviceToHost, a));
    OK(cudaStreamEndCapture(a, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < N; i++)
            h[i] = (float)(step + i);
        OK(cudaGraphLaunch(exec, a));
        OK(cudaStreamSynchronize(a));
        CHECK(back[9] == (float)(step + 9));
    }
}

/* ---- what capture forbids ---- */

static cudaStream_t capturing(cudaStreamCaptureMode mode)
{
    cudaStream_t s = stream();
    OK(cudaStreamBeginCapture(s, mode));
    return s;
}

static void must_be_invalid(cudaStream_t s)
{
    cudaGraph_t graph;
    cudaStreamCaptureStatus status;
    OK(cudaStreamIsCapturing(s, &status));
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(!graph);
    OK(cudaStreamIsCapturing(s, &status));
    CHECK(status == cudaStreamCaptureStatusNone);
}

CASE(capture_forbids)
{
    void *p;
    cudaStream_t s = capturing(cudaStreamCaptureModeGlobal);
    CHECK(cudaMalloc(&p, 10) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaGetLastError() == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaGetLastError() == cudaSuccess);
    must_be_invalid(s);
    s = capturing(cudaStreamCaptureModeThreadLocal);
    CHECK(cudaStreamSynchronize(s) == cudaErrorStreamCaptureUnsupported);
    must_be_invalid(s);
    s = capturing(cudaStreamCaptureModeThreadLocal);
    CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
    must_be_invalid(s);
    cudaEvent_t e = event();
    OK(cudaEventRecord(e, 0));
    s = capturing(cudaStreamCaptureModeGlobal);
    CHECK(cudaEventQuery(e) == cudaErrorStreamCaptureUnsupported);
    must_be_invalid(s);
    s = capturing(cudaStreamCaptureModeRelaxed);
    OK(cudaMalloc(&p, 10));
    cudaGraph_t graph;
    OK(cudaStreamEndCapture(s, &graph));
}

CASE(capture_must_be_joined)
{
    float *x = device();
    cudaStream_t b = stream(), a = capturing(cudaStreamCaptureModeGlobal);
    cudaGraph_t graph;
    order(a, b);
    OK(launch(b, fill, x, 1.0f, (int)N));
    CHECK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureUnjoined);
    CHECK(!graph);
}

CASE(capture_is_isolated)
{
    cudaStream_t b = stream();
    cudaEvent_t e = event();
    OK(cudaEventRecord(e, b));
    cudaStream_t a = capturing(cudaStreamCaptureModeGlobal);
    CHECK(cudaStreamWaitEvent(a, e, 0) == cudaErrorStreamCaptureIsolation);
    must_be_invalid(a);
}

CASE(event_of_a_capture)
{
    cudaStream_t a = capturing(cudaStreamCaptureModeGlobal);
    cudaEvent_t e = event();
    cudaGraph_t graph;
    OK(cudaEventRecord(e, a));
    OK(cudaStreamEndCapture(a, &graph));
    CHECK(cudaEventQuery(e) == cudaErrorCapturedEvent);
    CHECK(cudaStreamWaitEvent(a, e, 0) == cudaErrorCapturedEvent);
    OK(cudaEventRecord(e, a));
    OK(cudaEventSynchronize(e));
}

CASE(capture_from_pageable_memory)
{
    float *x = device(), here[4] = {};
    cudaStream_t a = capturing(cudaStreamCaptureModeGlobal);
    CHECK(cudaMemcpyAsync(x, here, sizeof here, cudaMemcpyHostToDevice, a) ==
          cudaErrorStreamCaptureUnsupported);
    must_be_invalid(a);
}

CASE(legacy_stream_during_capture)
{
    float *x = device();
    cudaStream_t a;
    OK(cudaStreamCreate(&a));
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeRelaxed));
    CHECK(launch((cudaStream_t)0, fill, x, 1.0f, (int)N) == cudaErrorStreamCaptureImplicit);
    must_be_invalid(a);
}

int main()
{
    return h_main("order");
}
