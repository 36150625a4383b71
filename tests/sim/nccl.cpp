/* nccl.cpp -- NCCL between processes of one host: communicators, groups, collectives on streams.
 *
 * Keeps: a collective waits for the other ranks on its stream, without holding up the host. A rank
 *        that ends shows as ncclRemoteError, until ncclCommAbort the stream stands still; one that
 *        calls something else ends both with one line. blocking = 0: ncclInProgress where the
 *        library may answer it: creation, collectives, end. The first collective of a kind, type and
 *        size connects ranks, which a capture must not do: it has to run before it is captured.
 *        ncclSend and ncclRecv: only in groups in which each rank sends to and receives from every
 *        rank, itself too, the same number of elements.
 *        Exchange: nccl_shared.cpp.
 * Out:   if SIM_MOVED names a file, at the end FILE.RANK: a line a kind, its name and the bytes of
 *        the values that its collectives have moved. */
#include "nccl_shared.h"

#include "host.h"

#include <atomic>
#include <map>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tuple>

enum State { STARTING, READY, ENDING };

/* What goes to each rank, and where what comes from it goes. */
struct Peers {
    std::vector<const void *> send;
    std::vector<void *> recv;
};

struct Pending {
    ncclComm_t comm;
    SharedCall call;
    const void *send;
    void *recv;
    cudaStream_t stream;
    std::shared_ptr<Peers> peers;    /* of ncclSend and ncclRecv */
};

struct ncclComm {
    std::shared_ptr<Shared> shared;
    int rank, ranks, device;
    bool blocking;
    State state;
    std::vector<Pending> called;     /* without blocking: enqueued when the state is asked for */
    int asked;               /* for its state since the last call that takes time: 2 was told */
    Clock end;               /* all operations when ncclCommFinalize was called */
    ncclResult_t error;
    std::set<std::tuple<uint32_t, uint32_t, uint64_t>> ran;      /* kind, type, count, uncaptured */
};

static std::map<ncclComm_t, bool> comms;
static thread_local int depth;
static thread_local std::vector<Pending> pending;
static thread_local const char *last_text = "";

static ncclResult_t refuse(ncclResult_t result, const char *why)
{
    last_text = why;
    return result;
}

static bool known(ncclComm_t comm)
{
    return comm && comms.count(comm);
}

static void rest()
{
    struct timespec pause = {0, 200 * 1000};
    nanosleep(&pause, nullptr);
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        "no error", "unhandled cuda error", "unhandled system error", "internal error",
        "invalid argument", "invalid usage", "remote process exited or there was a network error",
        "NCCL operation in progress"};
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return last_text;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (!id)
        return refuse(ncclInvalidArgument, "no place for the id");
    return shared_create(id) ? ncclSuccess : refuse(ncclSystemError, "no shared memory");
}

/* ---- communicators ---- */

static bool inside_device(const void *p, size_t bytes)
{
    SimMemory kind;
    void *start;
    size_t size;
    return !bytes || (sim_find(p, &kind, &start, &size) && kind == SIM_DEVICE &&
                      bytes <= size - (size_t)((const char *)p - (const char *)start));
}

/* Uncaptured: the collective has run. Captured: it must have. */
static void check_ran(const Pending &p)
{
    const SharedCall &c = p.call;
    if (!stream_capturing(p.stream))
        p.comm->ran.insert({c.kind, c.type, c.count});
    else if (!p.comm->ran.count({c.kind, c.type, c.count}))
        sim_fail("%s of %llu elements (type %u) is captured before it has run once: run it on a "
                 "stream that is not captured first", shared_kind_name(c.kind),
                 (unsigned long long)c.count, c.type);
}

/* Bytes of values that collectives of a kind have moved; written when the process ends. */
static struct Moved {
    std::atomic<uint64_t> bytes[ALL_TO_ALL + 1];
    std::atomic<int> rank;

    ~Moved()
    {
        const char *path = getenv("SIM_MOVED");
        FILE *to = path ? fopen((path + ("." + std::to_string(rank))).c_str(), "w") : nullptr;
        for (uint32_t k = 0; to && k <= ALL_TO_ALL; k++)
            fprintf(to, "%s %llu\n", shared_kind_name(k), (unsigned long long)bytes[k]);
        if (to)
            fclose(to);
    }
} moved;

static ncclResult_t enqueue(const Pending &p)
{
    check_ran(p);
    std::shared_ptr<Shared> shared = p.comm->shared;
    auto exchange = std::make_shared<SharedExchange>();
    bool reads = shared_sends(shared.get(), p.call), writes = shared_receives(shared.get(), p.call);
    const size_t in = shared_send_bytes(shared.get(), p.call);
    const size_t out = shared_recv_bytes(shared.get(), p.call);
    const int rank = p.comm->rank;
    cudaError_t error = stream_enqueue(p.stream, shared_kind_name(p.call.kind), [=] {
        const void *send = p.peers ? p.peers->send.data() : p.send;
        void *recv = p.peers ? p.peers->recv.data() : p.recv;
        if (!exchange->begun && p.peers)
            for (size_t r = 0; r < p.peers->send.size() && in; r++)
                sim_read(p.peers->send[r], in), sim_write(p.peers->recv[r], out);
        else if (!exchange->begun) {
            if (reads && in)
                sim_read(p.send, in);
            if (writes && out)
                sim_write(p.recv, out);
        }
        if (!shared_step(shared.get(), exchange.get(), p.call, send, recv))
            return false;
        moved.bytes[p.call.kind] +=
            p.peers ? in * p.peers->send.size() : in > out ? in : out;
        moved.rank = rank;
        return true;
    }, true);
    if (error != cudaSuccess)
        return refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
    return ncclSuccess;
}

/* Where the communicator stands; its creation, its calls and its end go on meanwhile. */
static ncclResult_t state_of(ncclComm_t comm)
{
    order_progress();
    if (comm->error != ncclSuccess)
        return comm->error;
    if (comm->state == STARTING) {
        if (!shared_complete(comm->shared.get()))
            return ncclInProgress;
        if (shared_same_device(comm->shared.get()))
            return comm->error = refuse(ncclInvalidUsage, "two ranks on one GPU");
        comm->state = READY;
    } else if (shared_lost(comm->shared.get()) >= 0) {
        return comm->error = refuse(ncclRemoteError, "a rank has ended");
    }
    if (comm->state == ENDING && !order_done(comm->end))
        return ncclInProgress;
    comm->asked += comm->asked < 2;
    if (comm->asked < 2 && !comm->blocking)
        return ncclInProgress;
    for (const Pending &p : comm->called)
        if (comm->error == ncclSuccess)
            comm->error = enqueue(p);
    comm->called.clear();
    return comm->error;
}

/* Of a blocking communicator: until it is where the call brings it. No lock held. */
static ncclResult_t settle(ncclComm_t comm)
{
    for (;; rest()) {
        SimLock lock(sim_mutex);
        ncclResult_t result = comm->blocking ? state_of(comm) : ncclInProgress;
        if (result != ncclInProgress || !comm->blocking)
            return result;
    }
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    if (!comm || ranks < 1 || rank < 0 || rank >= ranks)
        return refuse(ncclInvalidArgument, "rank or number of ranks");
    if (config && (config->size != sizeof *config || config->magic != 0xcafebeef))
        return refuse(ncclInvalidArgument, "config was not made by NCCL_CONFIG_INITIALIZER");
    {
        SimLock lock(sim_mutex);
        const char *why = "";
        auto shared = shared_join(id, ranks, rank, device_physical(device_current()), &why);
        if (!shared)
            return refuse(ncclInvalidUsage, why);
        *comm = new ncclComm{shared, rank, ranks, device_current(),
                             !config || config->blocking != 0, STARTING, {}, 0, {},
                             ncclSuccess, {}};
        comms[*comm] = true;
    }
    order_keep_going();
    return settle(*comm);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

/* Until all ranks have said their part of a split; false when one is gone. No lock held. */
static bool split_wait(ncclComm_t comm, bool (*done)(Shared *))
{
    for (;; rest()) {
        SimLock lock(sim_mutex);
        if (done(comm->shared.get()))
            return true;
        if (shared_lost(comm->shared.get()) >= 0)
            return false;
    }
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                           ncclConfig_t *config)
{
    ncclUniqueId id;
    {
        SimLock lock(sim_mutex);
        if (!known(comm) || !newcomm || comm->state != READY)
            return refuse(ncclInvalidArgument, "communicator");
        if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
            return refuse(ncclInvalidArgument, "color");
    }
    *newcomm = nullptr;
    if (!shared_create(&id))
        return refuse(ncclSystemError, "no shared memory");
    shared_split_say(comm->shared.get(), color, key, id);
    if (!split_wait(comm, shared_split_all_said))
        return comm->error = refuse(ncclRemoteError, "a rank has ended");
    int rank, ranks;
    shared_split_find(comm->shared.get(), &id, &rank, &ranks);
    if (!split_wait(comm, shared_split_all_heard))
        return comm->error = refuse(ncclRemoteError, "a rank has ended");
    ncclConfig_t inherit = NCCL_CONFIG_INITIALIZER;
    inherit.blocking = comm->blocking;
    return color == NCCL_SPLIT_NOCOLOR
               ? ncclSuccess
               : ncclCommInitRankConfig(newcomm, ranks, id, rank, config ? config : &inherit);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    SimLock lock(sim_mutex);
    if (!known(comm) || !error)
        return refuse(ncclInvalidArgument, "communicator");
    *error = state_of(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    {
        SimLock lock(sim_mutex);
        if (!known(comm) || comm->state != READY || !comm->called.empty())
            return refuse(ncclInvalidArgument, "communicator");
        comm->state = ENDING;
        comm->asked = 0;
        comm->end = order_all();
    }
    return settle(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    Clock end;
    {
        SimLock lock(sim_mutex);
        if (!known(comm))
            return refuse(ncclInvalidArgument, "communicator");
        end = comm->state == ENDING ? comm->end : order_all();
    }
    order_wait(end);
    SimLock lock(sim_mutex);
    shared_leave(comm->shared.get(), true);
    comms.erase(comm);
    delete comm;
    return ncclSuccess;
}

/* Operations of the communicator that were under way end without a result. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    SimLock lock(sim_mutex);
    if (!known(comm))
        return refuse(ncclInvalidArgument, "communicator");
    shared_leave(comm->shared.get(), false);
    comms.erase(comm);
    delete comm;
    order_progress();
    return ncclSuccess;
}

static ncclResult_t tell(const ncclComm_t comm, int *to, int ncclComm::*member)
{
    SimLock lock(sim_mutex);
    if (!known(comm) || !to)
        return refuse(ncclInvalidArgument, "communicator");
    *to = comm->*member;
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    return tell(comm, count, &ncclComm::ranks);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    return tell(comm, rank, &ncclComm::rank);
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    return tell(comm, device, &ncclComm::device);
}

/* ---- collectives ---- */

/* Without blocking the library enqueues from a thread of its own: what the caller enqueues before
 * it has asked for the state until that is ncclSuccess comes first. */
static ncclResult_t start(const Pending &p)
{
    if (p.comm->blocking)
        return enqueue(p);
    p.comm->called.push_back(p);
    p.comm->asked = 0;
    return ncclInProgress;
}

static ncclResult_t collective(SharedKind kind, const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                               cudaStream_t stream)
{
    SimLock lock(sim_mutex);
    if (!known(comm))
        return refuse(ncclInvalidArgument, "communicator");
    if (comm->error != ncclSuccess)
        return comm->error;
    if (comm->state != READY || (!comm->blocking && comm->asked < 2))
        return refuse(ncclInvalidArgument,
                      "communicator is used before its previous call was ncclSuccess");
    SharedCall call = {(uint32_t)kind, (uint32_t)type, (uint32_t)op, root, count};
    if (!shared_valid(comm->shared.get(), call))
        return refuse(ncclInvalidArgument, "type, operation or root");
    if ((shared_sends(comm->shared.get(), call) &&
         !inside_device(send, shared_send_bytes(comm->shared.get(), call))) ||
        (shared_receives(comm->shared.get(), call) &&
         !inside_device(recv, shared_recv_bytes(comm->shared.get(), call))))
        return refuse(ncclInvalidArgument, "buffer is not in device memory");
    Pending p = {comm, call, send, recv, stream, nullptr};
    if (!depth)
        return start(p);
    pending.push_back(p);
    return ncclSuccess;
}

/* One half of an exchange with a peer, in a group. */
static ncclResult_t with_peer(const void *send, void *recv, size_t count, ncclDataType_t type,
                              int peer, ncclComm_t comm, cudaStream_t stream)
{
    SimLock lock(sim_mutex);
    const SharedCall call = {ALL_TO_ALL, (uint32_t)type, ncclSum, 0, count};
    if (!known(comm) || peer < 0 || peer >= comm->ranks)
        return refuse(ncclInvalidArgument, "communicator or peer");
    if (comm->error != ncclSuccess)
        return comm->error;
    if (comm->state != READY || (!comm->blocking && comm->asked < 2))
        return refuse(ncclInvalidArgument,
                      "communicator is used before its previous call was ncclSuccess");
    if (!shared_valid(comm->shared.get(), call) ||
        !inside_device(send ? send : recv, shared_send_bytes(comm->shared.get(), call)))
        return refuse(ncclInvalidArgument, "type, or buffer that is not in device memory");
    if (!depth)
        sim_fail("ncclSend or ncclRecv outside of a group");
    const size_t ranks = (size_t)comm->ranks, at = (size_t)peer;
    if (pending.empty() || !pending.back().peers || pending.back().comm != comm ||
        pending.back().stream != stream || memcmp(&pending.back().call, &call, sizeof call) ||
        (send ? pending.back().peers->send[at] : pending.back().peers->recv[at]))
        pending.push_back({comm, call, nullptr, nullptr, stream,
                           std::make_shared<Peers>(Peers{std::vector<const void *>(ranks),
                                                         std::vector<void *>(ranks)})});
    (send ? pending.back().peers->send[at] : (const void *&)pending.back().peers->recv[at]) =
        send ? send : recv;
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return with_peer(send, nullptr, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return with_peer(nullptr, recv, count, type, peer, comm, stream);
}

/* Each rank is sent to and received from. */
static void check_peers(const Pending &p)
{
    for (int r = 0; p.peers && r < p.comm->ranks; r++)
        if (!p.peers->send[(size_t)r] || !p.peers->recv[(size_t)r])
            sim_fail("a group sends to or receives from some ranks only: rank %d is missing", r);
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!depth)
        return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--depth)
        return ncclSuccess;
    SimLock lock(sim_mutex);
    ncclResult_t result = ncclSuccess;
    for (const Pending &p : pending) {
        check_peers(p);
        ncclResult_t one = start(p);
        if (result == ncclSuccess || (one != ncclSuccess && one != ncclInProgress))
            result = one;
    }
    pending.clear();
    return result;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return collective(ALL_REDUCE, send, recv, count, type, op, 0, comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return collective(REDUCE, send, recv, count, type, op, root, comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return collective(BROADCAST, send, recv, count, type, ncclSum, root, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t recv_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    return collective(REDUCE_SCATTER, send, recv, recv_count, type, op, 0, comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return collective(ALL_GATHER, send, recv, send_count, type, ncclSum, 0, comm, stream);
}
