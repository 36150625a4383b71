/* comm_parts.h -- internals of comm.c shared with comm_mpi.c and comm_nccl.c. */
#ifndef DIECAST_COMM_PARTS_H
#define DIECAST_COMM_PARTS_H

#include "runtime/base.h"
#include "runtime/ranks/launch.h"

#ifndef DIECAST_RANKS
#define DIECAST_RANKS 0                  /* known at start only */
#endif

extern Launch comm_launch;               /* after comm_resolve() */
/* Fills world from the launcher's environment; EXIT_CONFIG if the variables contradict each
 * other. */
void comm_resolve(void);
/* The same, but returns the message, malloc'ed, or NULL. With comm_launch.extra, world is still
 * filled, with its size and a rank beyond it. */
char *comm_try_resolve(void);
/* EXIT_MISMATCH, with the correct command, unless size is built_for. */
void comm_check_size(int size, int64_t built_for, const char *words, const char *program);
/* Returns NULL, or that message, malloc'ed. torchrun: whether torchrun can start the program. */
char *comm_wrong_size(int size, int64_t built_for, const char *words, const char *program,
                      bool torchrun);

/* First call of a host collective: compares the programs that ranks have begun. */
void comm_compare_programs(void);
/* all (size, bytes): every rank's bytes; reports progress. Set by comm_init(). */
extern void (*comm_swap)(const void *own, void *all, size_t bytes);

/* Adds rows (size, n, count) to sum (count), n of each rank, in the order of comm_fold(). */
static inline void fold_rows(const double *rows, int64_t n, int count, double *sum)
{
    for (int64_t k = 0; k < n; k++)
        for (int r = 0; r < world.size; r++)
            for (int i = 0; i < count; i++)
                sum[i] += rows[(r * n + k) * count + i];
}

/* Adds all other rows to row 0 in the tree order of comm.h. rows: (size, stride), n of each in
 * use. */
#define TREE_SUM(rows, stride, n)                                                   \
    for (int apart = 1; apart < world.size; apart *= 2)                             \
        for (int r = 0; r + apart < world.size; r += 2 * apart)                     \
            for (int64_t i = 0; i < (n); i++)                                       \
                (rows)[r * (int64_t)(stride) + i] +=                                \
                    (rows)[(r + apart) * (int64_t)(stride) + i]

#endif
