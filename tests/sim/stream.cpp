/* stream.cpp -- streams, events, capture and graphs.
 *
 * Keeps: what a captured stream is told runs when the graph is launched: a node starts after its
 *        dependencies, and nothing else orders the branches. Calls that CUDA forbids meanwhile
 *        invalidate the capture as they do there. */
#include "host.h"

#include <algorithm>
#include <map>
#include <thread>
#include <time.h>

struct Node {
    const char *name;
    Work work;
    std::vector<unsigned> after;
    unsigned branch, stream;
    bool collective;
};

struct Body {
    std::vector<Node> nodes;
    unsigned branches = 0;
};

struct Branch {
    unsigned index;
    std::vector<unsigned> front;     /* nodes that the next one comes after */
};

struct Capture {
    std::shared_ptr<Body> body;
    cudaStream_t origin;
    enum cudaStreamCaptureMode mode;
    std::thread::id thread;
    bool invalid;
    unsigned id;
    std::map<cudaStream_t, Branch> streams;
};

struct CUstream_st {
    unsigned number, lane;
    bool blocking;                   /* ordered with the legacy stream */
    Clock clock;
    Capture *capture;
};

struct CUevent_st {
    unsigned flags;
    Clock clock;
    bool recorded;
    std::shared_ptr<double> time;    /* s */
    bool asked;                      /* whether it is done, since it was recorded */
    unsigned capture;                /* id of the capture that recorded it last, or 0 */
    std::vector<unsigned> front;
};

struct CUgraph_st {
    std::shared_ptr<Body> body;
};

struct CUgraphExec_st {
    std::shared_ptr<Body> body;
    std::vector<unsigned> lanes;     /* by branch */
    Clock over;                      /* its last launch: launches of one graph do not overlap */
};

bool sim_legacy_allowed;

static std::vector<cudaStream_t> streams;
static std::vector<Capture *> captures;
static thread_local cudaError_t last_error;

cudaError_t sim_answer(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

static cudaStream_t stream_new(bool blocking)
{
    static unsigned number;
    cudaStream_t stream = new CUstream_st{number++, order_lane(), blocking, {}, nullptr};
    streams.push_back(stream);
    return stream;
}

static cudaStream_t legacy()
{
    static cudaStream_t stream = stream_new(true);
    return stream;
}

/* NULL: no such stream. `call`: who names it, for the message. */
static cudaStream_t resolve(cudaStream_t stream, const char *call)
{
    cudaStream_t zero = legacy();
    if (!stream || stream == cudaStreamLegacy) {
        if (!sim_legacy_allowed)
            sim_fail("%s on the legacy stream, which non-blocking streams do not wait for: "
                     "use the stream of the kernels", call);
        return zero;
    }
    return std::find(streams.begin(), streams.end(), stream) != streams.end() ? stream : nullptr;
}

static cudaError_t invalidate(Capture *capture, cudaError_t why)
{
    capture->invalid = true;
    return why;
}

cudaError_t stream_refuse_capture()
{
    SimLock lock(sim_mutex);
    cudaError_t error = cudaSuccess;
    for (Capture *c : captures)
        if (c->mode == cudaStreamCaptureModeGlobal ||
            (c->mode == cudaStreamCaptureModeThreadLocal &&
             c->thread == std::this_thread::get_id()))
            error = invalidate(c, cudaErrorStreamCaptureUnsupported);
    return error;
}

bool stream_capturing(cudaStream_t stream)
{
    SimLock lock(sim_mutex);
    stream = resolve(stream, "a copy");
    return stream && stream->capture;
}

/* The legacy stream and the blocking ones wait for each other: not while one is captured. */
static cudaError_t legacy_order(cudaStream_t stream)
{
    if (!stream->blocking)
        return cudaSuccess;
    if (stream != legacy()) {
        clock_join(&stream->clock, legacy()->clock);
        return cudaSuccess;
    }
    for (cudaStream_t other : streams)
        if (other->blocking && other->capture)
            return invalidate(other->capture, cudaErrorStreamCaptureImplicit);
    for (cudaStream_t other : streams)
        if (other->blocking)
            clock_join(&stream->clock, other->clock);
    return cudaSuccess;
}

cudaError_t stream_enqueue(cudaStream_t stream, const char *name, Work work, bool collective)
{
    SimLock lock(sim_mutex);
    stream = resolve(stream, name);
    if (!stream)
        return sim_answer(cudaErrorInvalidResourceHandle);
    if (Capture *c = stream->capture) {
        if (c->invalid)
            return sim_answer(cudaErrorStreamCaptureInvalidated);
        Branch &branch = c->streams[stream];
        c->body->nodes.push_back({name, std::move(work), branch.front, branch.index,
                                  stream->number, collective});
        branch.front.assign(1, (unsigned)c->body->nodes.size() - 1);
        return cudaSuccess;
    }
    cudaError_t error = legacy_order(stream);
    if (error == cudaSuccess)
        order_enqueue(stream->lane, stream->number, name, &stream->clock, std::move(work),
                      collective);
    return sim_answer(error);
}

cudaError_t sim_enqueue_kernel(const cudaLaunchConfig_t *config, const void *kernel,
                               void (*run)(const void *arguments), const void *arguments,
                               size_t bytes)
{
    cudaError_t error = device_check_launch(config, kernel);
    if (error != cudaSuccess)
        return sim_answer(error);
    const char *name = sim_kernel_name(kernel), *first = (const char *)arguments;
    return stream_enqueue(config->stream, name,
                          [config = *config, given = std::vector<char>(first, first + bytes), run,
                           name] {
        sim_run_grid(config.gridDim, config.blockDim, config.dynamicSmemBytes,
                     {run, given.data(), given.size()}, name);
        return true;
    });
}

void stream_wait_all()
{
    Clock all;
    {
        SimLock lock(sim_mutex);
        all = order_all();
    }
    order_wait(all);
    SimLock lock(sim_mutex);
    for (cudaStream_t stream : streams)
        order_join_host(stream->clock);
}

void stream_wait_host(cudaStream_t stream)
{
    Clock clock;
    {
        SimLock lock(sim_mutex);
        stream = resolve(stream, "a wait");
        legacy_order(stream);
        clock = stream->clock;
    }
    order_wait(clock);
    SimLock lock(sim_mutex);
    order_join_host(clock);
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    SimLock lock(sim_mutex);
    if (!stream || flags > cudaStreamNonBlocking)
        return sim_answer(cudaErrorInvalidValue);
    legacy();
    *stream = stream_new(flags != cudaStreamNonBlocking);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;      /* of no meaning to the order that is checked; CUDA clamps it */
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    SimLock lock(sim_mutex);
    auto at = std::find(streams.begin(), streams.end(), stream);
    if (at == streams.end() || stream == legacy())
        return sim_answer(cudaErrorInvalidResourceHandle);
    if (stream->capture)
        return sim_answer(invalidate(stream->capture, cudaErrorStreamCaptureUnsupported));
    streams.erase(at);
    delete stream;
    return cudaSuccess;
}

/* Not to be waited for or asked: a captured stream, or any while a capture forbids it. */
static cudaError_t may_wait(cudaStream_t *stream, const char *call)
{
    SimLock lock(sim_mutex);
    *stream = resolve(*stream, call);
    if (!*stream)
        return cudaErrorInvalidResourceHandle;
    if ((*stream)->capture)
        return invalidate((*stream)->capture, cudaErrorStreamCaptureUnsupported);
    return stream_refuse_capture();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t error = may_wait(&stream, __func__);
    if (error == cudaSuccess)
        stream_wait_host(stream);
    return sim_answer(error);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t error = may_wait(&stream, __func__);
    if (error != cudaSuccess)
        return sim_answer(error);
    SimLock lock(sim_mutex);
    legacy_order(stream);
    if (!order_done(stream->clock))
        return sim_answer(cudaErrorNotReady);
    order_join_host(stream->clock);
    return cudaSuccess;
}

static Capture *capture_of(unsigned id)
{
    for (Capture *c : captures)
        if (c->id == id)
            return c;
    return nullptr;
}

static void merge(std::vector<unsigned> *front, const std::vector<unsigned> &other)
{
    for (unsigned node : other)
        if (std::find(front->begin(), front->end(), node) == front->end())
            front->push_back(node);
}

/* An event of a capture: the stream joins it, or is there already. */
static cudaError_t wait_captured(cudaStream_t stream, cudaEvent_t event)
{
    Capture *c = capture_of(event->capture);
    if (!c)
        return stream->capture ? invalidate(stream->capture, cudaErrorStreamCaptureIsolation)
                               : cudaErrorCapturedEvent;
    if (c->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (stream->capture && stream->capture != c) {
        invalidate(stream->capture, cudaErrorStreamCaptureMerge);
        return invalidate(c, cudaErrorStreamCaptureMerge);
    }
    if (stream == legacy())
        return invalidate(c, cudaErrorStreamCaptureImplicit);
    if (!stream->capture) {
        stream->capture = c;
        c->streams[stream].index = c->body->branches++;
    }
    merge(&c->streams[stream].front, event->front);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    SimLock lock(sim_mutex);
    stream = resolve(stream, __func__);
    if (!stream || !event)
        return sim_answer(cudaErrorInvalidResourceHandle);
    if (flags)
        return sim_answer(cudaErrorNotSupported);
    if (event->capture)
        return sim_answer(wait_captured(stream, event));
    if (stream->capture && event->recorded)
        return sim_answer(invalidate(stream->capture, cudaErrorStreamCaptureIsolation));
    static const bool deaf = getenv("DIECAST_SIM_DEAF");     // a program without its events: see train/checked.sh
    if (!deaf)
        clock_join(&stream->clock, event->clock);
    return cudaSuccess;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    if (!event || (flags & ~(unsigned)(cudaEventBlockingSync | cudaEventDisableTiming)))
        return sim_answer(cudaErrorInvalidValue);
    *event = new CUevent_st{flags, {}, false, std::make_shared<double>(0), false, 0, {}};
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!event)
        return sim_answer(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

static double now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    SimLock lock(sim_mutex);
    stream = resolve(stream, __func__);
    if (!stream || !event)
        return sim_answer(cudaErrorInvalidResourceHandle);
    if (Capture *c = stream->capture) {
        if (c->invalid)
            return sim_answer(cudaErrorStreamCaptureInvalidated);
        event->capture = c->id;
        event->front = c->streams[stream].front;
        return cudaSuccess;
    }
    cudaError_t error = legacy_order(stream);
    if (error != cudaSuccess)
        return sim_answer(error);
    event->capture = 0;
    event->front.clear();
    event->clock = stream->clock;
    event->asked = false;
    event->time = std::make_shared<double>(0);
    event->recorded = true;
    order_mark(event->clock, [time = event->time] { *time = now(); });
    return cudaSuccess;
}

static cudaError_t may_ask(cudaEvent_t event)
{
    SimLock lock(sim_mutex);
    if (!event)
        return cudaErrorInvalidResourceHandle;
    if (event->capture) {
        if (Capture *c = capture_of(event->capture))
            c->invalid = true;
        return cudaErrorCapturedEvent;
    }
    return stream_refuse_capture();
}

/* Work takes time: the first question after a record is answered "not yet". */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error = may_ask(event);
    if (error != cudaSuccess)
        return sim_answer(error);
    std::unique_lock lock(sim_mutex);
    if (!event->recorded)
        return cudaSuccess;
    bool first = !event->asked;
    event->asked = true;
    if (!order_done(event->clock)) {
        lock.unlock();
        order_rest();
        return sim_answer(cudaErrorNotReady);
    }
    if (first)
        return sim_answer(cudaErrorNotReady);
    order_join_host(event->clock);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error = may_ask(event);
    if (error != cudaSuccess)
        return sim_answer(error);
    order_wait(event->clock);
    SimLock lock(sim_mutex);
    event->asked = true;
    order_join_host(event->clock);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    SimLock lock(sim_mutex);
    if (!ms || !start || !end)
        return sim_answer(cudaErrorInvalidValue);
    if (!start->recorded || !end->recorded || ((start->flags | end->flags) & cudaEventDisableTiming))
        return sim_answer(cudaErrorInvalidResourceHandle);
    if (start->capture || end->capture)
        return sim_answer(cudaErrorCapturedEvent);
    if (!order_done(start->clock) || !order_done(end->clock))
        return sim_answer(cudaErrorNotReady);
    *ms = (float)(1e3 * (*end->time - *start->time));
    return cudaSuccess;
}

/* ---- capture ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    static unsigned id;
    SimLock lock(sim_mutex);
    stream = resolve(stream, __func__);
    if (!stream)
        return sim_answer(cudaErrorInvalidResourceHandle);
    if (stream == legacy())
        return sim_answer(cudaErrorStreamCaptureUnsupported);
    if (stream->capture)
        return sim_answer(cudaErrorIllegalState);
    Capture *c = new Capture{std::make_shared<Body>(), stream, mode, std::this_thread::get_id(),
                             false, ++id, {}};
    c->streams[stream].index = c->body->branches++;
    stream->capture = c;
    captures.push_back(c);
    return cudaSuccess;
}

/* Is every node that a joined stream left over an ancestor of the origin's last ones? */
static bool joined(Capture *c)
{
    std::vector<bool> reached(c->body->nodes.size(), false);
    for (unsigned node : c->streams[c->origin].front)
        reached[node] = true;
    for (size_t i = reached.size(); i-- > 0;)
        if (reached[i])
            for (unsigned node : c->body->nodes[i].after)
                reached[node] = true;
    for (auto &[stream, branch] : c->streams)
        for (unsigned node : branch.front)
            if (!reached[node])
                return false;
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    SimLock lock(sim_mutex);
    stream = resolve(stream, __func__);
    if (!stream || !graph)
        return sim_answer(cudaErrorInvalidValue);
    Capture *c = stream->capture;
    if (!c)
        return sim_answer(cudaErrorIllegalState);
    if (stream != c->origin)
        return sim_answer(invalidate(c, cudaErrorStreamCaptureUnmatched));
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
        return sim_answer(cudaErrorStreamCaptureWrongThread);
    cudaError_t error = c->invalid    ? cudaErrorStreamCaptureInvalidated
                        : !joined(c) ? cudaErrorStreamCaptureUnjoined
                                     : cudaSuccess;
    *graph = error == cudaSuccess ? new CUgraph_st{c->body} : nullptr;
    for (auto &[member, branch] : c->streams)
        member->capture = nullptr;
    captures.erase(std::find(captures.begin(), captures.end(), c));
    delete c;
    return sim_answer(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    SimLock lock(sim_mutex);
    stream = resolve(stream, __func__);
    if (!stream || !status)
        return sim_answer(cudaErrorInvalidValue);
    *status = !stream->capture            ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    if (!graph || !count)
        return sim_answer(cudaErrorInvalidValue);
    if (nodes)           /* handles of nodes are of no use here */
        return sim_answer(cudaErrorNotSupported);
    *count = graph->body->nodes.size();
    return cudaSuccess;
}

/* Appends the names of a graph's nodes to the file SIM_GRAPHS, a line each, after a line `graph`. */
static void report_graph(const Body &body)
{
    static const char *const path = getenv("SIM_GRAPHS");
    FILE *to = path ? fopen(path, "a") : nullptr;
    if (!to)
        return;
    fprintf(to, "graph\n");
    for (const Node &node : body.nodes)
        fprintf(to, "%s\n", node.name);
    fclose(to);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    SimLock lock(sim_mutex);
    if (!exec || !graph)
        return sim_answer(cudaErrorInvalidValue);
    if (flags)
        return sim_answer(cudaErrorNotSupported);
    report_graph(*graph->body);
    *exec = new CUgraphExec_st{graph->body, {}, {}};
    for (unsigned i = 0; i < graph->body->branches; i++)
        (*exec)->lanes.push_back(order_lane());
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    SimLock lock(sim_mutex);
    if (!exec)
        return sim_answer(cudaErrorInvalidValue);
    return resolve(stream, __func__) ? cudaSuccess
                                     : sim_answer(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    SimLock lock(sim_mutex);
    stream = resolve(stream, __func__);
    if (!exec || !stream)
        return sim_answer(cudaErrorInvalidValue);
    if (stream->capture)     /* child graphs are not simulated */
        return sim_answer(invalidate(stream->capture, cudaErrorNotSupported));
    cudaError_t error = legacy_order(stream);
    if (error != cudaSuccess)
        return sim_answer(error);
    clock_join(&exec->over, stream->clock);
    const Clock root = exec->over;
    std::vector<Clock> clocks;
    for (const Node &node : exec->body->nodes) {
        Clock clock = root;
        for (unsigned before : node.after)
            clock_join(&clock, clocks[before]);
        order_enqueue(exec->lanes[node.branch], node.stream, node.name, &clock,
                      [&node] { return node.work(); }, node.collective, exec->body);
        clock_join(&exec->over, clock);
        clocks.push_back(std::move(clock));
    }
    stream->clock = exec->over;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    SimLock lock(sim_mutex);
    if (!exec)
        return sim_answer(cudaErrorInvalidValue);
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    if (!graph)
        return sim_answer(cudaErrorInvalidValue);
    delete graph;
    return cudaSuccess;
}

/* ---- errors ---- */

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}
