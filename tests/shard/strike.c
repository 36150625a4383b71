/* strike.c -- preloaded (Open MPI): a rank dies or freezes inside a collective, or its disk is full for a moment.
 *
 * In:    STRIKE: "RANK KIND N SIGNAL": the signal, on that rank, as its N-th collective of the kind begins: scatter
 *        (MPI_Alltoallv of comm_reduce_scatter(), but the first of a step), gather (MPI_Allgather of
 *        comm_all_gather() and comm_gather_parts()) or collect (MPI_Gatherv of comm_gather()).
 *        FULL_AT: "N M": the first write to a checkpoint's optimizer.safetensors after the N-th, and after the M-th,
 *        collect fails as ENOSPC.
 * Out:   "strike: KIND N of rank RANK" on standard error and the file $STRUCK before the signal. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCATTER, GATHER, COLLECT, KINDS };
static const char *const kinds[KINDS] = { "scatter", "gather", "collect" };
static int calls[KINDS];
static int exchanged;            /* the last collective was an MPI_Alltoallv */

/* Datatypes of comm_all_gather() and comm_gather_parts(); no addresses in processes without MPI. */
extern char ompi_mpi_byte __attribute__((weak)), ompi_mpi_short __attribute__((weak)),
    ompi_mpi_int __attribute__((weak)), ompi_mpi_long_long_int __attribute__((weak));

static int of_parts(const void *type)
{
    return type == &ompi_mpi_byte || type == &ompi_mpi_short || type == &ompi_mpi_int ||
           type == &ompi_mpi_long_long_int;
}

static void begins(int kind)
{
    char name[16] = "";
    int rank = -1, n = 0, number = 0;
    const char *text = getenv("STRIKE"), *own = getenv("OMPI_COMM_WORLD_RANK");
    calls[kind]++;
    if (!text || !own || sscanf(text, "%d %15s %d %d", &rank, name, &n, &number) != 4 ||
        rank != atoi(own) || strcmp(name, kinds[kind]) || n != calls[kind])
        return;
    fprintf(stderr, "strike: %s %d of rank %d\n", name, n, rank);
    FILE *file = getenv("STRUCK") ? fopen(getenv("STRUCK"), "w") : NULL;
    if (file)
        fclose(file);
    raise(number);
}

/* Handles of Open MPI are pointers. */
int MPI_Alltoallv(const void *from, const int *n, const int *at, void *type, void *to, const int *n2,
                  const int *at2, void *type2, void *ranks)
{
    static int (*real)(const void *, const int *, const int *, void *, void *, const int *, const int *, void *,
                       void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "MPI_Alltoallv");
    if (exchanged)               /* a sum of whole arrays gathers after each */
        begins(SCATTER);
    exchanged = 1;
    return real(from, n, at, type, to, n2, at2, type2, ranks);
}

int MPI_Allgatherv(const void *from, int n, void *type, void *to, const int *n2, const int *at, void *type2,
                   void *ranks)
{
    static int (*real)(const void *, int, void *, void *, const int *, const int *, void *, void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "MPI_Allgatherv");
    exchanged = 0;
    return real(from, n, type, to, n2, at, type2, ranks);
}

int MPI_Allgather(const void *from, int n, void *type, void *to, int n2, void *type2, void *ranks)
{
    static int (*real)(const void *, int, void *, void *, int, void *, void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "MPI_Allgather");
    exchanged = 0;
    if (of_parts(type2))
        begins(GATHER);
    return real(from, n, type, to, n2, type2, ranks);
}

int MPI_Gatherv(const void *from, int n, void *type, void *to, const int *n2, const int *at, void *type2, int root,
                void *ranks)
{
    static int (*real)(const void *, int, void *, void *, const int *, const int *, void *, int, void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "MPI_Gatherv");
    begins(COLLECT);
    return real(from, n, type, to, n2, at, type2, root, ranks);
}

/* True once after each of the two collects. */
static int full(int fd)
{
    static int failed;
    int first = 0, second = 0;
    char by_fd[32], name[4096];
    const char *text = getenv("FULL_AT"), end[] = "optimizer.safetensors";
    if (!text || sscanf(text, "%d %d", &first, &second) != 2 || failed > 1 ||
        calls[COLLECT] < (failed ? second : first))
        return 0;
    snprintf(by_fd, sizeof by_fd, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(by_fd, name, sizeof name - 1);
    name[n > 0 ? n : 0] = 0;
    if (!strstr(name, end))
        return 0;
    failed++;
    errno = ENOSPC;
    return 1;
}

ssize_t write(int fd, const void *from, size_t n)
{
    static ssize_t (*real)(int, const void *, size_t);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "write");
    return full(fd) ? -1 : real(fd, from, n);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pwrite");
    return full(fd) ? -1 : real(fd, from, n, at);
}
