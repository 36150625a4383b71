/* comm_nccl.c -- ranks of a CUDA program: TCP star for the host, NCCL for the GPUs.
 *
 * In:    the launcher's environment, DIECAST_ADDR, _PORT, _SECRET, _RUN, _TIMEOUT_SCALE.
 * Keeps: NCCL works on one stream; nothing waits without a deadline.
 * Method: the rendezvous carries NCCL's unique id and, as long as the run lasts, says who died. */
#define _GNU_SOURCE
#define COMM_DEVICE
#include "runtime/ranks/comm.h"
#include "runtime/base.h"
#include "runtime/ranks/comm_parts.h"

#if DIECAST_RANKS == 1

void comm_connect(void)
{
}

void comm_poll(void)
{
}

#else
#include <cuda_runtime_api.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "runtime/ranks/comm_rendezvous.h"
#include "runtime/files/sha256.h"

static const double abort_seconds = 10, peer_seconds = 3;

static ncclComm_t nccl;
static pthread_mutex_t calling = PTHREAD_MUTEX_INITIALIZER;  /* protects nccl and calls of NCCL */
static bool aborting;                /* nccl is about to be freed; protected by calling */
static ncclUniqueId id;
static cudaStream_t reducing;        /* stream of all NCCL calls */
static cudaEvent_t forked, joined;
static cudaEvent_t ends[COMM_OPERATIONS];    /* of the operations last begun */
static bool under_way[COMM_OPERATIONS];      /* begun, and comm_end() has not been called */
static double (*doubles)[COMM_DOUBLES];

/* ---- aborting the communicator --------------------------------------------------------------- */

/* Between enter() and leave(), nccl exists and its sums are those of all ranks. Once the process is
 * ending, from any thread, enter() does not return. */
static void enter(void)
{
    pthread_mutex_lock(&calling);
    while (aborting) {
        pthread_mutex_unlock(&calling);
        pause();
        pthread_mutex_lock(&calling);
    }
}

static void leave(void)
{
    pthread_mutex_unlock(&calling);
}

void comm_advance(void)
{
    enter();
    leave();
    comm_progress();
}

void comm_expect(double seconds)
{
    comm_set_expected(seconds);
    comm_advance();
}

/* ---- NCCL ------------------------------------------------------------------------------------ */

static void check_cuda(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        die(EXIT_DEVICE, "%s: %s", what, cudaGetErrorString(error));
}

/* NCCL often notices a death first but cannot name the rank: gives the monitor a moment to do
 * so. */
static void failed(ncclResult_t result, const char *what)
{
    if (result == ncclRemoteError || result == ncclSystemError || result == ncclUnhandledCudaError)
        usleep((unsigned)(1e6 * peer_seconds));
    const char *detail = ncclGetLastError(nccl);
    die(EXIT_DEVICE, "%s: NCCL: %s%s%.300s; NCCL_DEBUG=INFO says more", what,
        ncclGetErrorString(result), detail && *detail ? ": " : "", detail ? detail : "");
}

static ncclResult_t state_of(void)
{
    ncclResult_t state = ncclSuccess;
    enter();
    ncclResult_t asked = ncclCommGetAsyncError(nccl, &state);
    leave();
    return asked != ncclSuccess ? asked : state;
}

/* Waits for a call that returned ncclInProgress until the communicator has finished it. */
static void settle(ncclResult_t result, const char *what, double seconds)
{
    double end = clock_seconds() + seconds * comm_scale;
    while (result == ncclInProgress) {
        struct timespec moment = { 0, 100000 };
        result = state_of();
        if (result == ncclInProgress && clock_seconds() > end)
            die(EXIT_HANG, "%s: not done after %.0f s; does NCCL_SOCKET_IFNAME name the network "
                "that joins the hosts?", what, seconds * comm_scale);
        if (result == ncclInProgress)
            nanosleep(&moment, NULL);
    }
    if (result != ncclSuccess)
        failed(result, what);
}

/* Frees the communicator and ends its kernels: code waiting for them must not use their results. */
static void *abort_nccl(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&calling);
    aborting = true;
    pthread_mutex_unlock(&calling);
    if (nccl)
        ncclCommAbort(nccl);
    return NULL;
}

/* For die(): informs the other ranks, then ends NCCL's kernels if possible. */
static void leave_all(int code)
{
    pthread_t thread;
    struct timespec end;
    rendezvous_abort(code);
    if (pthread_create(&thread, NULL, abort_nccl, NULL))
        return;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)abort_seconds;
    if (pthread_timedjoin_np(thread, NULL, &end))
        warn("NCCL did not end within %.0f s", abort_seconds);
}

/* Each rank reads these variables for itself; ranks with different values would wait for each
 * other. */
static void ranks_check_settings(void)
{
    static const char *const name[] = { "NCCL_ALGO", "NCCL_NVLS_ENABLE", "NCCL_PROTO" };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        const char *value = getenv(name[i]) ? getenv(name[i]) : "";
        char own[160] = "", first[160];
        snprintf(own, sizeof own, "%s", value);
        memcpy(first, own, sizeof first);
        comm_broadcast(first, sizeof first, 0);
        if (strcmp(own, first))
            die(EXIT_MISMATCH, "%s is \"%s\" here, but \"%s\" on rank 0: set it alike on all hosts",
                name[i], own, first);
    }
}

/* Identifies this rank's GPU as an integer that a double holds: FNV-1a of host and bus, 52 bits; 0:
 * the launcher has no other rank on this host. */
static double gpu_mark(char bus[32])
{
    int device = 0;
    uint64_t h = UINT64_C(14695981039346656037);
    check_cuda(cudaGetDevice(&device), "asking which GPU is used");
    check_cuda(cudaDeviceGetPCIBusId(bus, 32, device), "asking for the GPU's PCI address");
    for (const char *p = world.host; *p; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
    for (const char *p = bus; *p; p++)
        h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
    return world.local_size > 1 ? (double)(h >> 12) : 0;
}

/* NCCL refuses ranks that share a GPU but does not say why. */
static void check_own_gpu(void)
{
    char bus[32];
    const double mine = gpu_mark(bus);
    int sharing = 0, first = -1;
    for (int base = 0; base < world.size; base += COMM_DOUBLES) {
        double mark[COMM_DOUBLES] = { 0 };
        const int n = world.size - base < COMM_DOUBLES ? world.size - base : COMM_DOUBLES;
        if (world.rank >= base && world.rank < base + n)
            mark[world.rank - base] = mine;
        comm_allreduce_double(mark, n);
        for (int i = 0; i < n; i++)
            if (mine != 0 && mark[i] == mine) {
                first = first < 0 ? base + i : first;
                sharing++;
            }
    }
    if (sharing > 1)
        die(EXIT_CONFIG,
            "%d ranks share the GPU %s of %s, and each needs its own: for one GPU gen %s gpus=1 && "
            "make, "
            "else let CUDA_VISIBLE_DEVICES or run.sh --gpu-ids show %d (rank %d is the first of "
            "them)",
            sharing, bus, world.host, world.words, sharing, first);
}

void comm_connect(void)
{
    check_own_gpu();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ranks_check_settings();
    enter();
    ncclResult_t result = ncclCommInitRankConfig(&nccl, world.size, id, world.rank, &config);
    leave();
    settle(result, "joining the GPUs", INIT_SECONDS);
    check_cuda(cudaStreamCreateWithFlags(&reducing, cudaStreamNonBlocking), "a stream");
    check_cuda(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming), "an event");
    check_cuda(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming), "an event");
    for (int i = 0; i < COMM_OPERATIONS; i++)
        check_cuda(cudaEventCreateWithFlags(&ends[i], cudaEventDisableTiming), "an event");
    comm_expect(0);
}

void comm_poll(void)
{
    ncclResult_t state = state_of();
    if (state != ncclSuccess && state != ncclInProgress)
        failed(state, "between the GPUs");
}

static void fork_from(cudaStream_t s)
{
    check_cuda(cudaEventRecord(forked, s), "an event");
    check_cuda(cudaStreamWaitEvent(reducing, forked, 0), "an event");
}

void comm_allreduce_join(cudaStream_t s)
{
    check_cuda(cudaEventRecord(joined, reducing), "an event");
    check_cuda(cudaStreamWaitEvent(s, joined, 0), "an event");
}

void comm_allreduce_start(float *device, int64_t n, cudaStream_t s)
{
    fork_from(s);
    enter();
    ncclResult_t result =
        ncclAllReduce(device, device, (size_t)n, ncclFloat32, ncclSum, nccl, reducing);
    leave();
    settle(result, "summing gradients", INIT_SECONDS);
}

void comm_allreduce_sum(float *device, int64_t n, int64_t bucket, cudaStream_t s)
{
    if (bucket < 1 || bucket > COMM_BUCKET)
        die(EXIT_INTERNAL, "reduction bucket of %lld elements", (long long)bucket);
    for (int64_t done = 0; done < n; done += bucket)
        comm_allreduce_start(device + done, n - done < bucket ? n - done : bucket, s);
    comm_allreduce_join(s);
}

static bool begun(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

/* Begins a group of library calls, which run after what s has been given so far. */
static ncclResult_t begin_group(cudaStream_t s)
{
    fork_from(s);
    enter();
    return ncclGroupStart();
}

static void end_group(ncclResult_t result, const char *what)
{
    const ncclResult_t end = ncclGroupEnd();
    leave();
    settle(begun(result) ? end : result, what, INIT_SECONDS);
}

/* One library call for each tensor of `whole`, in one group; `part` bytes of each are this rank's,
 * those of the first at `own`. */
static void each_slot(ncclResult_t (*call)(char *slot, char *own, size_t part), void *whole,
                      const void *own, size_t part, int64_t slots, const char *what,
                      cudaStream_t s)
{
    ncclResult_t result = begin_group(s);
    for (int64_t l = 0; l < slots && begun(result); l++) {
        const size_t at = (size_t)l * world.size * part;
        result = call((char *)whole + at, (char *)own + at, part);
    }
    end_group(result, what);
}

static ncclResult_t reduce_slot(char *slot, char *own, size_t part)
{
    return ncclReduceScatter(slot, own, part / sizeof(float), ncclFloat32, ncclSum, nccl, reducing);
}

static ncclResult_t gather_slot(char *slot, char *own, size_t part)
{
    return ncclAllGather(own, slot, part, ncclUint8, nccl, reducing);
}

static void reduce_slots(float *device, int64_t slots, int64_t part, cudaStream_t s)
{
    each_slot(reduce_slot, device, device + world.rank * part, (size_t)part * sizeof *device, slots,
              "summing gradients", s);
}

static void gather_slots(void *whole, const void *own, size_t part, int64_t slots, cudaStream_t s)
{
    each_slot(gather_slot, whole, own, part, slots, "gathering weights", s);
}

void comm_reduce_scatter(float *device, int64_t slots, int64_t stride, cudaStream_t s)
{
    REQUIRE(stride % world.size == 0);
    reduce_slots(device, slots, stride / world.size, s);
    comm_allreduce_join(s);
}

void comm_all_gather(void *device, size_t bytes, int64_t slots, int64_t stride, cudaStream_t s)
{
    const size_t part = (size_t)(stride / world.size) * bytes;
    REQUIRE(stride % world.size == 0);
    gather_slots(device, (char *)device + (size_t)world.rank * part, part, slots, s);
    comm_allreduce_join(s);
}

void comm_gather_parts(void *whole, const void *own, size_t bytes, int64_t part, cudaStream_t s)
{
    gather_slots(whole, own, (size_t)part * bytes, 1, s);
    comm_allreduce_join(s);
}

/* Records that what was begun last is that operation. */
static void mark_operation(int operation)
{
    REQUIRE(operation >= 0 && operation < COMM_OPERATIONS);
    check_cuda(cudaEventRecord(ends[operation], reducing), "an event");
    under_way[operation] = true;
}

void comm_gather_begin(int operation, void *whole, const void *own, size_t bytes, int64_t part,
                       cudaStream_t s)
{
    gather_slots(whole, own, (size_t)part * bytes, 1, s);
    mark_operation(operation);
}

void comm_scatter_begin(int operation, float *tensor, int64_t part, cudaStream_t s)
{
    reduce_slots(tensor, 1, part, s);
    mark_operation(operation);
}

void comm_end(int operation, cudaStream_t s)
{
    REQUIRE(operation >= 0 && operation < COMM_OPERATIONS);
    if (under_way[operation])
        check_cuda(cudaStreamWaitEvent(s, ends[operation], 0), "an event");
    under_way[operation] = false;
}

void comm_exchange(float *pieces, const float *tensor, int64_t part, int64_t at, int64_t count,
                   cudaStream_t s)
{
    ncclResult_t result = begin_group(s);
    for (int r = 0; r < world.size && begun(result); r++) {
        result = ncclSend(tensor + r * part + at, (size_t)count, ncclFloat32, r, nccl, reducing);
        if (begun(result))
            result = ncclRecv(pieces + r * count, (size_t)count, ncclFloat32, r, nccl, reducing);
    }
    end_group(result, "exchanging gradients");
    comm_allreduce_join(s);
}

void comm_collect(float *pieces, const float *own, int64_t count, cudaStream_t s)
{
    ncclResult_t result = begin_group(s);
    if (begun(result))
        result = ncclAllGather(own, pieces, (size_t)count, ncclFloat32, nccl, reducing);
    end_group(result, "exchanging gradients");
    comm_allreduce_join(s);
}

const char *comm_library(void)
{
    static char name[40];
    int v = 0;
    if (ncclGetVersion(&v) != ncclSuccess)
        return "of unknown version";
    snprintf(name, sizeof name, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return name;
}

/* ---- startup --------------------------------------------------------------------------------- */

/* With NCCL_COMM_ID, NCCL would connect by that address, which is no secret, instead of by the id
 * we send. */
static const char no_comm_id[] = "the ranks meet by DIECAST_ADDR, DIECAST_PORT and a secret";

/* Puts the lines NAME=VALUE of an NCCL configuration file into the environment, as NCCL does,
 * unless the name is set. */
static void read_settings(const char *path)
{
    char line[4096];
    FILE *from = fopen(path, "re");
    while (from && fgets(line, sizeof line, from)) {
        line[strcspn(line, "\r\n")] = '\0';
        const char *at = line + strspn(line, " \t");
        if (!strncmp(at, "NCCL_COMM_ID", 12) && at[12] && strchr(" \t=", at[12]))
            die(EXIT_CONFIG, "%s sets NCCL_COMM_ID: remove the line, %s", path, no_comm_id);
        char *value = strchr(line, '=');
        if (value && !strncmp(line, "NCCL_", 5)) {
            *value = '\0';
            setenv(line, value + 1, 0);
        }
    }
    if (from)
        fclose(from);
}

/* NCCL's summation order, unless the user chooses another: around the ring, on every machine. Trees
 * and NVLS (sums inside NVSwitch) add in other orders and are not available everywhere. */
static const struct {
    const char *name, *value;
} pinned[] = { { "NCCL_ALGO", "Ring" }, { "NCCL_NVLS_ENABLE", "0" } };

enum { PINNED = sizeof pinned / sizeof *pinned };

/* Before the first NCCL call, which reads the environment once. */
static void settle_environment(void)
{
    const char *home = getenv("HOME"), *own = getenv("NCCL_CONF_FILE");
    char *of_user = own && *own ? format("%s", own) : format("%s/.nccl.conf", home ? home : "");
    if (getenv("NCCL_COMM_ID"))
        die(EXIT_CONFIG, "NCCL_COMM_ID is set: unset it, %s", no_comm_id);
    read_settings(of_user);
    read_settings("/etc/nccl.conf");
    free(of_user);
    for (int i = 0; i < PINNED; i++) {
        const char *value = getenv(pinned[i].name);
        if (!value || !strcasecmp(value, pinned[i].value))
            setenv(pinned[i].name, pinned[i].value, 1);
    }
}

const char *comm_setting(int i, bool *chosen)
{
    /* the only NCCL variables that certainly do not change channels, rings or chunks */
    static const char *const apart[] = { "NCCL_CONF_FILE", "NCCL_DEBUG", "NCCL_RAS_" };
    for (char **entry = environ; *entry; entry++) {
        bool counts = !strncmp(*entry, "NCCL_", 5);
        for (size_t k = 0; k < sizeof apart / sizeof *apart; k++)
            counts = counts && strncmp(*entry, apart[k], strlen(apart[k]));
        if (!counts || i-- > 0)
            continue;
        *chosen = true;
        for (int k = 0; k < PINNED; k++) {
            const size_t n = strlen(pinned[k].name);
            if (!strncmp(*entry, pinned[k].name, n) && (*entry)[n] == '=')
                *chosen = strcmp(*entry + n + 1, pinned[k].value);
        }
        return *entry;
    }
    return NULL;
}

static int choose_port(void)
{
    int port;
    bool agent;
    char *error = launch_port(environ, &port, &agent);
    if (error)
        die(EXIT_CONFIG, "%s", error);
    if (agent)
        note("rendezvous on port %d: MASTER_PORT %d is torchrun's own", port, port - 1);
    return port;
}

/* NULL: rank 0's address is unknown. */
static const char *choose_host(void)
{
    const char *own = getenv("DIECAST_ADDR"), *master = getenv("MASTER_ADDR");
    if (own && *own)
        return own;
    if (master && *master)
        return master;
    if (*comm_launch.first_host)
        return comm_launch.first_host;
    return world.local_size == world.size ? "127.0.0.1" : NULL;
}

/* Hashes the launcher's name for this run: the same on all ranks, different in every other run.
 * DIECAST_RUN, if set, is the only source. */
static void hash_run(uint8_t digest[SHA256_BYTES])
{
    static const char *const names[] = { "DIECAST_RUN", "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE",
                                         "SLURM_JOB_ID", "SLURM_STEP_ID" };
    Sha256 h;
    sha256_begin(&h);
    size_t n = getenv(names[0]) ? 1 : sizeof names / sizeof *names;
    for (size_t i = 0; i < n; i++) {
        const char *value = getenv(names[i]);
        sha256_add(&h, value ? value : "", value ? strlen(value) + 1 : 1);
    }
    sha256_end(&h, digest);
}

/* Next to the program, in a folder that all hosts share or have a copy of. NULL: no such folder. */
static char *secret_path(int port)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    char *slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
    return slash ? format("%.*s/.secret.%d", (int)(slash - path), path, port) : NULL;
}

/* For launchers that do not number the ranks of a host. */
static void number_host(void)
{
    world.local_rank = world.local_size = 0;
    for (int r = 0; r < world.size; r++)
        if (!strcmp(rendezvous_host(r), world.host)) {
            world.local_size++;
            world.local_rank += r < world.rank;
        }
}

static void swap(const void *own, void *all, size_t bytes);

void comm_init(int64_t built_for, const char *words, int argc, char **argv)
{
    comm_swap = swap;
    char *wrong = comm_try_resolve();
    world.words = words;
    if (wrong && !comm_launch.extra)
        die(EXIT_CONFIG, "%s", wrong);
    if (!wrong)
        wrong = comm_wrong_size(comm_launch.size, built_for, words, argc > 0 ? argv[0] : "", true);
    settle_environment();
    RendezvousConfig c = { .one_host = world.local_size == world.size || world.local_size < 0,
                     .host = choose_host(),
                     .port = choose_port(), .secret = getenv("DIECAST_SECRET"), .wrong = wrong };
    if (wrong && (!c.host || !strcmp(comm_launch.source, "none")))
        die(EXIT_MISMATCH, "%s", wrong);
    if (!c.host)
        die(EXIT_CONFIG, "launcher %s does not say where rank 0 runs: set DIECAST_ADDR to its "
            "address on all ranks", comm_launch.source);
    comm_settings(&c);
    if (c.secret && strlen(c.secret) > RENDEZVOUS_SECRET)
        die(EXIT_CONFIG, "DIECAST_SECRET: at most %d bytes", RENDEZVOUS_SECRET);
    c.secret_file = secret_path(c.port);
    hash_run(c.run_id);
    _Static_assert(sizeof id.internal == RENDEZVOUS_ID, "the rendezvous carries NCCL's unique id");
    if (world.rank == 0) {
        ncclResult_t result = ncclGetUniqueId(&id);
        if (result != ncclSuccess)
            failed(result, "the id of the communicator");
    }
    die_hook = leave_all;
    rendezvous_join(&c, (uint8_t *)id.internal);
    doubles = calloc((size_t)world.size, sizeof *doubles);
    if (!doubles)
        die(EXIT_CONFIG, "no memory for tables of %d ranks", world.size);
    if (world.local_rank < 0 || world.local_size < 0)
        number_host();
    comm_expect(INIT_SECONDS);
}

/* ---- small host messages --------------------------------------------------------------------- */

/* Gathers every rank's bytes into rows of rank 0, (size, bytes). */
static void gather(const void *own, void *rows, size_t bytes)
{
    if (world.rank != 0) {
        rendezvous_send(0, own, bytes);
        return;
    }
    memcpy(rows, own, bytes);
    for (int r = 1; r < world.size; r++)
        rendezvous_receive(r, (char *)rows + (size_t)r * bytes, bytes);
}

static void spread(void *data, size_t bytes)
{
    for (int r = 1; r < world.size && world.rank == 0; r++)
        rendezvous_send(r, data, bytes);
    if (world.rank != 0)
        rendezvous_receive(0, data, bytes);
}

static void swap(const void *own, void *all, size_t bytes)
{
    gather(own, all, bytes);
    spread(all, bytes * (size_t)world.size);
    comm_advance();
}

void comm_allreduce_double(double *buf, int n)
{
    if (n < 0 || n > COMM_DOUBLES)
        die(EXIT_INTERNAL, "reduction of %d doubles", n);
    comm_advance();
    comm_compare_programs();
    double *rows = doubles[0];
    gather(buf, rows, sizeof *buf * (size_t)n);
    if (world.rank == 0) {
        TREE_SUM(rows, n, n);
        memcpy(buf, rows, sizeof *buf * (size_t)n);
    }
    spread(buf, sizeof *buf * (size_t)n);
    comm_advance();
}

void comm_fold(const double *part, int64_t n, int count, double *sum)
{
    REQUIRE(count >= 1 && count <= COMM_DOUBLES);
    const int64_t most = COMM_DOUBLES / count;
    comm_advance();
    comm_compare_programs();
    for (int64_t done = 0; done < n; done += most) {
        const int64_t rows = n - done < most ? n - done : most;
        gather(part + done * count, doubles[0], sizeof *part * (size_t)(rows * count));
        if (world.rank == 0)
            fold_rows(doubles[0], rows, count, sum);
    }
    spread(sum, sizeof *sum * (size_t)count);
    comm_advance();
}

int64_t comm_max_int(int64_t value)
{
    int64_t *rows = (int64_t *)doubles[0];
    comm_advance();
    comm_compare_programs();
    gather(&value, rows, sizeof value);
    for (int r = 0; r < world.size && world.rank == 0; r++)
        value = rows[r] > value ? rows[r] : value;
    spread(&value, sizeof value);
    comm_advance();
    return value;
}

void comm_broadcast(void *buf, size_t bytes, int root)
{
    comm_advance();
    comm_compare_programs();
    if (root != 0 && world.rank == root)
        rendezvous_send(0, buf, bytes);
    if (root != 0 && world.rank == 0)
        rendezvous_receive(root, buf, bytes);
    spread(buf, bytes);
    comm_advance();
}

void comm_gather(const float *own, int64_t n, float *to, const int64_t *counts)
{
    comm_advance();
    comm_compare_programs();
    if (world.rank != 0)
        rendezvous_send(0, own, sizeof *own * (size_t)n);
    for (int r = 1; r < world.size && world.rank == 0; to += counts[r++])
        rendezvous_receive(r, to, sizeof *to * (size_t)counts[r]);
    comm_advance();
}

void comm_barrier(void)
{
    comm_max_int(0);
}

/* NCCL's communicator is not destroyed: that would wait for every graph holding its calls, and the
 * host has already waited for their results. */
void comm_finish(void)
{
    comm_barrier();
    rendezvous_leave();
}

#endif
