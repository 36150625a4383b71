/* comm_mpi.c -- ranks of a CPU program: collectives over MPI-2.
 *
 * MPI only moves bytes, every sum is our own; the rendezvous monitors the ranks.
 *
 * In:    the launcher's environment, DIECAST_ADDR, _PORT, _TIMEOUT_SCALE.
 * Out:   world; sums with the same bits on all ranks.
 * Method: reduce-scatter by all-to-all of chunks, tree sum of the own chunk, all-gather. */
#define _GNU_SOURCE
#include "runtime/ranks/comm.h"
#include "runtime/base.h"
#include "runtime/ranks/comm_parts.h"

#if DIECAST_RANKS == 1

void comm_allreduce_sum(float *buf, int64_t n, int64_t bucket)
{
    (void)buf, (void)n, (void)bucket;
}

#else
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "runtime/ranks/comm_rendezvous.h"

/* Largest message in elements: 256 KiB stay in the L2 cache. On two ranks of one machine, rounds of
 * 2 x 64 Ki elements took 18 ms for 64 MiB, rounds of 1 Mi elements 29 ms. */
enum { CHUNK = 1 << 16 };

static const unsigned peer_seconds = 3;
static float *chunks;            /* own chunk of a round, from every rank */
static int64_t reserved;         /* elements per round that chunks can hold */
static double *doubles;          /* (size, COMM_DOUBLES) */
static int *counts, *places;     /* of the chunks of a round, by rank */
static int *mine, *mine_places;  /* own chunk, as sent to every rank */

/* ---- Open MPI's shared-memory files ---------------------------------------------------------- */

/* Under srun, Open MPI names them by host, job, step and rank. A requeued job finds the files of
 * its previous start and crashes, so each start has its own folder. */
static char shared[64];          /* its path; "": none */

/* /dev/shm is world-writable: a folder of that name that is not ours, or a link, is left alone. */
static DIR *shared_open(const char *path)
{
    struct stat s;
    const int at = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = at >= 0 && fstat(at, &s) == 0 && s.st_uid == geteuid() ? fdopendir(at) : NULL;
    if (!folder && at >= 0)
        close(at);
    return folder;
}

static void shared_remove(const char *path)
{
    DIR *folder = shared_open(path);
    if (!folder)
        return;
    for (struct dirent *e; (e = readdir(folder));)
        unlinkat(dirfd(folder), e->d_name, 0);
    closedir(folder);
    rmdir(path);
}

static void shared_place(void)
{
    const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    if (strcmp(comm_launch.source, "Slurm") || !job || !step || strlen(job) + strlen(step) > 30)
        return;
    for (int restart = 0; restart <= comm_launch.restart; restart++) {
        snprintf(shared, sizeof shared, "/dev/shm/diecast.%s.%s.%d", job, step, restart);
        if (restart < comm_launch.restart)
            shared_remove(shared);
    }
    if (mkdir(shared, 0700) != 0) {              /* another rank of this host created it */
        DIR *folder = errno == EEXIST ? shared_open(shared) : NULL;
        if (!folder) {
            *shared = '\0';
            return;
        }
        closedir(folder);
    }
    setenv("OMPI_MCA_btl_vader_backing_directory", shared, 0);
    setenv("OMPI_MCA_btl_sm_backing_directory", shared, 0);      /* its name since Open MPI 5 */
}

/* ---- progress -------------------------------------------------------------------------------- */

void comm_advance(void)
{
    if (world.size > 1)
        comm_progress();
}

void comm_expect(double seconds)
{
    comm_set_expected(seconds);
    comm_advance();
}

/* ---- startup --------------------------------------------------------------------------------- */

/* die_hook until the rendezvous is up. After that rendezvous_abort() ends the job without MPI, from
 * any thread, and MPI's launcher ends what is left. */
static void abort_all(int code)
{
    if (*shared)
        shared_remove(shared);
    MPI_Abort(MPI_COMM_WORLD, code);
}

static void leave_all(int code)
{
    if (*shared)
        shared_remove(shared);
    rendezvous_abort(code);
}

/* MPI often notices a death first but cannot name the rank: gives the monitor a moment to do so. */
static void on_error(MPI_Comm *ranks, int *error, ...)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n;
    (void)ranks;
    MPI_Error_string(*error, text, &n);
    sleep(peer_seconds);
    die(EXIT_PEER, "%s: %.300s", comm_library(), text);
}

/* For launchers that do not number the ranks of a host. */
static void number_host(void)
{
    char (*host)[sizeof world.host] = calloc((size_t)world.size, sizeof *host);
    if (!host)
        die(EXIT_CONFIG, "no memory for the names of %d hosts", world.size);
    MPI_Allgather(world.host, sizeof world.host, MPI_CHAR, host, sizeof world.host, MPI_CHAR,
                  MPI_COMM_WORLD);
    world.local_rank = world.local_size = 0;
    for (int r = 0; r < world.size; r++)
        if (!strcmp(host[r], world.host)) {
            world.local_size++;
            world.local_rank += r < world.rank;
        }
    free(host);
}

static char too_late[320];

static void on_alarm(int number)
{
    (void)number;
    ssize_t ignored = write(2, too_late, strlen(too_late));
    (void)ignored;
    _exit(EXIT_RENDEZVOUS);
}

static const char *cure(void)
{
    if (strcmp(comm_launch.source, "Open MPI") && getenv("SLURM_STEP_ID"))
        return "srun --mpi=pmix for Open MPI, srun --mpi=pmi2 for MPICH";
    if (!strcmp(comm_launch.source, "torchrun"))
        return "start a CPU program with run.sh or mpirun instead of torchrun";
    return "use the mpirun of the MPI that the program was built with";
}

static void set_alarm(double seconds)
{
    struct itimerval end = {.it_value = {(time_t)seconds, (suseconds_t)(fmod(seconds, 1) * 1e6)}};
    setitimer(ITIMER_REAL, &end, NULL);
}

/* MPI waits forever for a rank that never comes or is blocked by a firewall. An alarm ends the
 * process just before the rendezvous, which has its own deadline, would. */
static void open_mpi(int *argc, char ***argv, int *level)
{
    struct sigaction action = { .sa_handler = on_alarm };
    double seconds = INIT_SECONDS * comm_scale;
    snprintf(too_late, sizeof too_late,
             "rank %d (%s) step -: MPI has not brought the ranks together "
             "within %.0f s%s\n",
             world.rank, world.host, seconds,
             world.local_size == world.size ? ""
                                            : ": is there a firewall between the hosts, or does "
                                              "OMPI_MCA_btl_tcp_if_include have to name "
                                              "the network that joins them?");
    sigaction(SIGALRM, &action, NULL);
    set_alarm(seconds);
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, level);
}

static void *table(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (!p)
        die(EXIT_CONFIG, "no memory for tables of %d ranks", world.size);
    return p;
}

/* Returns the address on which rank 0 of several hosts listens. Its host name is known to the
 * others if MPI names hosts. */
static const char *choose_host(bool one_host)
{
    const char *own = getenv("DIECAST_ADDR"), *master = getenv("MASTER_ADDR");
    if (own && *own)
        return own;
    if (one_host)
        return "127.0.0.1";
    if (master && *master)
        return master;
    return *comm_launch.first_host ? comm_launch.first_host : world.host;
}

/* Rank 0 sends its address by MPI; from there on the rendezvous works as in CUDA programs. */
static void join_rendezvous(void)
{
    struct {
        char host[64], secret[RENDEZVOUS_RANDOM + 1];
        int port, restart;
    } call = { .restart = comm_launch.restart };
    uint8_t unused[RENDEZVOUS_ID] = { 0 };
    RendezvousConfig c = { .one_host = world.local_size == world.size };
    if (world.rank == 0) {
        c.host = choose_host(c.one_host);
        c.port = comm_port("DIECAST_PORT");
        c.port = c.port < 0 ? 0 : c.port;
        rendezvous_random(call.secret);
        c.secret = call.secret;
        rendezvous_listen(&c);
        snprintf(call.host, sizeof call.host, "%s", c.host);
        call.port = c.port;
    }
    MPI_Bcast(&call, (int)sizeof call, MPI_BYTE, 0, MPI_COMM_WORLD);
    set_alarm(0);
    c.host = call.host;
    c.port = call.port;
    c.secret = call.secret;
    comm_launch.restart = call.restart;
    comm_settings(&c);
    die_hook = leave_all;
    rendezvous_join(&c, unused);
    comm_expect(0);
}

/* Returns run.sh next to the program, which starts all ranks of this machine by MPI, malloc'ed;
 * NULL: it is missing, the ranks are on several machines, or MPI has already started them. */
static char *own_launcher(void)
{
    static const char *const mpi[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK",
                                      "MV2_COMM_WORLD_SIZE"};
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (strcmp(comm_launch.source, "torchrun") || world.size < 2 ||
        world.size != world.local_size || n < 0)
        return NULL;
    for (size_t i = 0; i < sizeof mpi / sizeof *mpi; i++)
        if (getenv(mpi[i]))
            return NULL;
    path[n] = '\0';
    char *slash = strrchr(path, '/'),
         *run = format("%.*s/run.sh", slash ? (int)(slash - path) : 0, path);
    if (slash && access(run, X_OK) == 0)
        return run;
    free(run);
    return NULL;
}

/* Under torchrun, whose processes are not MPI ranks: the first process becomes run.sh, the others
 * exit with 0. */
static void leave_to_run_sh(char **argv)
{
    static const char *const torchrun[] = {"RANK",
                                           "WORLD_SIZE",
                                           "LOCAL_RANK",
                                           "LOCAL_WORLD_SIZE",
                                           "GROUP_RANK",
                                           "GROUP_WORLD_SIZE",
                                           "NODE_RANK",
                                           "NNODES",
                                           "MASTER_ADDR",
                                           "MASTER_PORT",
                                           "TORCHELASTIC_USE_AGENT_STORE",
                                           "TORCHELASTIC_RUN_ID"};
    char *run = own_launcher();
    if (!run)
        return;
    if (world.rank != 0)
        exit(EXIT_OK);
    note("torchrun: %s starts the %d ranks by MPI", run, world.size);
    for (size_t i = 0; i < sizeof torchrun / sizeof *torchrun; i++)
        unsetenv(torchrun[i]);
    argv[0] = run;
    execv(run, argv);
    die(EXIT_CONFIG, "%s: %s", run, strerror(errno));
}

static void swap(const void *own, void *all, size_t bytes)
{
    MPI_Allgather(own, (int)bytes, MPI_CHAR, all, (int)bytes, MPI_CHAR, MPI_COMM_WORLD);
    comm_advance();
}

void comm_init(int64_t built_for, const char *words, int argc, char **argv)
{
    comm_swap = swap;
    int level, size, rank;
    MPI_Errhandler handler;
    comm_resolve();
    if (strcmp(comm_launch.source, "none"))
        comm_check_size(comm_launch.size, built_for, words, argc > 0 ? argv[0] : "");
    if (argc > 0)
        leave_to_run_sh(argv);
    comm_read_scale();
#ifdef OPEN_MPI
    /* MPI may support Slurm's older PMI; if not, MPI_Init_thread ends the process itself. */
    if (world.rank == 0 && getenv("SLURM_STEP_ID") && !getenv("PMIX_NAMESPACE"))
        warn("srun offers no PMIx; if %s does not start: %s", comm_library(), cure());
#endif
    shared_place();
    open_mpi(&argc, &argv, &level);
    die_hook = abort_all;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(comm_launch.source, "none")) {
        world.rank = rank;
        world.size = size;
        world.local_rank = -1;
        comm_check_size(size, built_for, words, argc > 0 ? argv[0] : "");
    } else if (size != comm_launch.size || rank != comm_launch.rank) {
        die(EXIT_MISMATCH, "launcher %s says rank %d of %d, %s says rank %d of %d: %s",
            comm_launch.source, comm_launch.rank, comm_launch.size, comm_library(), rank, size,
            cure());
    }
    if (level < MPI_THREAD_FUNNELED)
        die(EXIT_CONFIG, "%s was built without MPI_THREAD_FUNNELED", comm_library());
    if (world.local_rank < 0 || world.local_size < 0)
        number_host();
    size_t n = (size_t)size;
    doubles = table(n * COMM_DOUBLES, sizeof *doubles);
    counts = table(n, sizeof *counts);
    places = table(n, sizeof *places);
    mine = table(n, sizeof *mine);
    mine_places = table(n, sizeof *mine_places);
    if (size == 1) {
        set_alarm(0);
        return;
    }
    join_rendezvous();
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
}

const char *comm_library(void)
{
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#if defined OPEN_MPI
    return "Open MPI " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "."
           TEXT(OMPI_RELEASE_VERSION);
#elif defined MPICH_VERSION
    return "MPICH " MPICH_VERSION;
#else
    return "MPI";
#endif
}

const char *comm_setting(int i, bool *chosen)
{
    (void)i, (void)chosen;
    return NULL;
}

/* Makes room for the own chunk of a round, from every rank. */
static void reserve(int64_t round)
{
    if (round <= reserved)
        return;
    chunks = arena_alloc((int64_t)sizeof *chunks * (round + world.size), "reduction chunks");
    reserved = round;
}

static void reduce_round(float *buf, int64_t n)
{
    int64_t chunk = (n + world.size - 1) / world.size;
    for (int r = 0; r < world.size; r++) {
        int64_t first = r * chunk < n ? r * chunk : n;
        places[r] = (int)first;
        counts[r] = (int)(first + chunk < n ? chunk : n - first);
    }
    for (int r = 0; r < world.size; r++) {
        mine[r] = counts[world.rank];
        mine_places[r] = r * mine[r];
    }
    MPI_Alltoallv(buf, counts, places, MPI_FLOAT, chunks, mine, mine_places, MPI_FLOAT,
                  MPI_COMM_WORLD);
    TREE_SUM(chunks, mine[0], mine[0]);
    memcpy(buf + places[world.rank], chunks, sizeof *buf * (size_t)mine[0]);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buf, counts, places, MPI_FLOAT,
                   MPI_COMM_WORLD);
}

void comm_allreduce_sum(float *buf, int64_t n, int64_t bucket)
{
    if (bucket < 1 || bucket > COMM_BUCKET)
        die(EXIT_INTERNAL, "reduction bucket of %lld elements", (long long)bucket);
    if (world.size == 1)
        return;
    int64_t round = bucket / world.size > CHUNK ? (int64_t)CHUNK * world.size : bucket;
    reserve(round);
    comm_advance();
    for (int64_t done = 0; done < n; done += round)
        reduce_round(buf + done, n - done < round ? n - done : round);
    comm_advance();
}

void comm_reduce_scatter(float *buf, int64_t slots, int64_t stride)
{
    const int64_t part = stride / world.size;
    REQUIRE(stride % world.size == 0 && stride <= INT_MAX);
    if (world.size == 1)
        return;
    reserve(CHUNK * (int64_t)world.size);
    comm_advance();
    for (int64_t l = 0; l < slots; l++)
        for (int64_t done = 0; done < part; done += CHUNK) {
            float *from = buf + l * stride + done, *own = from + world.rank * part;
            const int n = (int)(part - done < CHUNK ? part - done : CHUNK);
            for (int r = 0; r < world.size; r++) {
                counts[r] = mine[r] = n;
                places[r] = (int)(r * part);
                mine_places[r] = r * n;
            }
            MPI_Alltoallv(from, counts, places, MPI_FLOAT, chunks, mine, mine_places, MPI_FLOAT,
                          MPI_COMM_WORLD);
            TREE_SUM(chunks, n, n);
            memcpy(own, chunks, sizeof *own * (size_t)n);
        }
    comm_advance();
}

void comm_exchange(float *pieces, const float *tensor, int64_t part, int64_t at, int64_t count)
{
    REQUIRE(part * world.size <= INT_MAX && count * world.size <= INT_MAX);
    for (int r = 0; r < world.size; r++) {
        counts[r] = mine[r] = (int)count;
        places[r] = (int)(r * part + at);
        mine_places[r] = (int)(r * count);
    }
    comm_advance();
    MPI_Alltoallv(tensor, counts, places, MPI_FLOAT, pieces, mine, mine_places, MPI_FLOAT,
                  MPI_COMM_WORLD);
    comm_advance();
}

void comm_collect(float *pieces, const float *own, int64_t count)
{
    REQUIRE(count <= INT_MAX);
    comm_advance();
    MPI_Allgather(own, (int)count, MPI_FLOAT, pieces, (int)count, MPI_FLOAT, MPI_COMM_WORLD);
    comm_advance();
}

/* Parts travel as integers. In place where `own` is this rank's part of `whole`. */
static void gather_part(char *whole, const void *own, size_t bytes, int64_t part)
{
    const MPI_Datatype type = bytes == 1   ? MPI_BYTE
                              : bytes == 2 ? MPI_SHORT
                              : bytes == 4 ? MPI_INT
                                           : MPI_LONG_LONG;
    const bool in_place = own == whole + world.rank * part * (int64_t)bytes;
    REQUIRE(part * world.size <= INT_MAX);
    MPI_Allgather(in_place ? MPI_IN_PLACE : own, (int)part, type, whole, (int)part, type,
                  MPI_COMM_WORLD);
}

void comm_all_gather(void *buf, size_t bytes, int64_t slots, int64_t stride)
{
    const int64_t part = stride / world.size;
    REQUIRE(stride % world.size == 0);
    if (world.size == 1)
        return;
    comm_advance();
    for (int64_t l = 0; l < slots; l++) {
        char *slot = (char *)buf + l * stride * (int64_t)bytes;
        gather_part(slot, slot + world.rank * part * (int64_t)bytes, bytes, part);
    }
    comm_advance();
}

void comm_gather_parts(void *whole, const void *own, size_t bytes, int64_t part)
{
    comm_advance();
    gather_part(whole, own, bytes, part);
    comm_advance();
}

void comm_allreduce_double(double *buf, int n)
{
    if (n > COMM_DOUBLES)
        die(EXIT_INTERNAL, "reduction of %d doubles", n);
    if (world.size == 1)
        return;
    comm_advance();
    comm_compare_programs();
    MPI_Allgather(buf, n, MPI_DOUBLE, doubles, n, MPI_DOUBLE, MPI_COMM_WORLD);
    comm_advance();
    TREE_SUM(doubles, n, n);
    memcpy(buf, doubles, sizeof *buf * (size_t)n);
}

void comm_fold(const double *part, int64_t n, int count, double *sum)
{
    REQUIRE(count >= 1 && count <= COMM_DOUBLES);
    const int64_t most = COMM_DOUBLES / count;
    comm_advance();
    comm_compare_programs();
    for (int64_t done = 0; done < n; done += most) {
        const int64_t rows = n - done < most ? n - done : most;
        MPI_Allgather(part + done * count, (int)rows * count, MPI_DOUBLE, doubles,
                      (int)rows * count, MPI_DOUBLE, MPI_COMM_WORLD);
        fold_rows(doubles, rows, count, sum);
    }
    comm_advance();
}

int64_t comm_max_int(int64_t value)
{
    long long in = value, out = value;
    comm_advance();
    comm_compare_programs();
    MPI_Allreduce(&in, &out, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    comm_advance();
    return out;
}

void comm_broadcast(void *buf, size_t bytes, int root)
{
    comm_advance();
    comm_compare_programs();
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < INT_MAX ? bytes - done : INT_MAX;
        MPI_Bcast((char *)buf + done, (int)n, MPI_BYTE, root, MPI_COMM_WORLD);
        done += n;
    }
    comm_advance();
}

void comm_gather(const float *own, int64_t n, float *to, const int64_t *received)
{
    int64_t all = n;
    for (int r = 0; r < world.size && world.rank == 0; r++) {
        places[r] = (int)all;
        counts[r] = (int)received[r];
        all += received[r];
    }
    REQUIRE(all <= INT_MAX);
    comm_advance();
    comm_compare_programs();
    MPI_Gatherv(own, (int)n, MPI_FLOAT, to, counts, places, MPI_FLOAT, 0, MPI_COMM_WORLD);
    comm_advance();
}

void comm_barrier(void)
{
    comm_advance();
    comm_compare_programs();
    MPI_Barrier(MPI_COMM_WORLD);
    comm_advance();
}

void comm_finish(void)
{
    comm_barrier();
    if (world.size > 1)
        rendezvous_leave();
    die_hook = NULL;
    MPI_Finalize();
    if (*shared)
        rmdir(shared);           /* the last rank of the host */
}

#endif
