/* sent.c -- preloaded: counts the bytes that a rank of a CPU program sends by each collective.
 *
 * In:    SENT: the files' name without .RANK.
 * Out:   in MPI_Finalize, one line per kind: its name, bytes sent to other ranks, calls. A block that all others get
 *        counts once for each of them. "gathered_parts": by comm_all_gather() and comm_gather_parts(), which send
 *        integers. "control": messages of the host, not of collectives in a step. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static struct { const char *name; long long bytes, calls; } kind[] = {
    {"scattered"}, {"gathered"}, {"gathered_parts"}, {"collected"}, {"control"}};
enum { SCATTERED, GATHERED, PARTS, COLLECTED, CONTROL, KINDS };

static int others(void)
{
    int n;
    PMPI_Comm_size(MPI_COMM_WORLD, &n);
    return n - 1;
}

static int rank(void)
{
    int r;
    PMPI_Comm_rank(MPI_COMM_WORLD, &r);
    return r;
}

static void count(int k, long long elements, MPI_Datatype type)
{
    int size;
    PMPI_Type_size(type, &size);
    kind[k].bytes += elements * size;
    kind[k].calls++;
}

int MPI_Alltoallv(const void *from, const int *n, const int *at, MPI_Datatype type, void *to, const int *nto,
                  const int *to_at, MPI_Datatype to_type, MPI_Comm c)
{
    long long elements = 0;
    for (int r = 0; r <= others(); r++)
        elements += r == rank() ? 0 : n[r];
    count(SCATTERED, elements, type);
    return PMPI_Alltoallv(from, n, at, type, to, nto, to_at, to_type, c);
}

int MPI_Allgatherv(const void *from, int n, MPI_Datatype type, void *to, const int *nto, const int *at,
                   MPI_Datatype to_type, MPI_Comm c)
{
    count(GATHERED, (long long)nto[rank()] * others(), to_type);
    return PMPI_Allgatherv(from, n, type, to, nto, at, to_type, c);
}

int MPI_Allgather(const void *from, int n, MPI_Datatype type, void *to, int nto, MPI_Datatype to_type, MPI_Comm c)
{
    const int integers = type == MPI_BYTE || type == MPI_SHORT || type == MPI_INT || type == MPI_LONG_LONG;
    count(integers ? PARTS : type == MPI_FLOAT ? COLLECTED : CONTROL, (long long)nto * others(), to_type);
    return PMPI_Allgather(from, n, type, to, nto, to_type, c);
}

int MPI_Allreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm c)
{
    count(CONTROL, n, type);
    return PMPI_Allreduce(from, to, n, type, op, c);
}

int MPI_Reduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm c)
{
    count(CONTROL, rank() == root ? 0 : n, type);
    return PMPI_Reduce(from, to, n, type, op, root, c);
}

int MPI_Bcast(void *buf, int n, MPI_Datatype type, int root, MPI_Comm c)
{
    count(CONTROL, rank() == root ? (long long)n * others() : 0, type);
    return PMPI_Bcast(buf, n, type, root, c);
}

int MPI_Finalize(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", getenv("SENT"), rank());
    FILE *to = fopen(path, "w");
    for (int k = 0; to && k < KINDS; k++)
        fprintf(to, "%s %lld %lld\n", kind[k].name, kind[k].bytes, kind[k].calls);
    if (!to || fclose(to))
        return MPI_ERR_OTHER;
    return PMPI_Finalize();
}
