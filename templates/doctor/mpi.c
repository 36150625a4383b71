/* mpi.c -- MPI check of gen doctor: two ranks connect and add one number each.
 *
 * Out: rank 0: `mpi ok RANKS LIBRARY` or `mpi bad WHY`. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int rank, ranks, length, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = '\0';
    int own = rank + 1;
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && sum == ranks * (ranks + 1) / 2)
        printf("mpi ok %d %s\n", ranks, library);
    else if (rank == 0)
        printf("mpi bad the sum of %d ranks is %d\n", ranks, sum);
    MPI_Finalize();
    return 0;
}
