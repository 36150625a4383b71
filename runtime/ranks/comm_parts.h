/* comm_parts.h -- what comm.c shares with comm_mpi.c and comm_nccl.c. */
#ifndef DIECAST_COMM_PARTS_H
#define DIECAST_COMM_PARTS_H

#include "runtime/base.h"
#include "runtime/ranks/launch.h"

#ifndef DIECAST_RANKS
#define DIECAST_RANKS 0                  /* known at start only */
#endif

extern Launch comm_launch;               /* after comm_resolve */
/* Fills world from the launcher's environment; EXIT_CONFIG when that contradicts itself. */
void comm_resolve(void);
/* The same, but returns the message; comm_launch.extra: with world's size, and a rank beyond it. */
char *comm_try_resolve(void);
/* EXIT_MISMATCH, with the command that would be right, unless size is built_for. */
void comm_check_size(int size, int64_t built_for, const char *words, const char *program);
/* NULL, or that message; torchrun: whether it can start the program. */
char *comm_wrong_size(int size, int64_t built_for, const char *words, const char *program,
                      bool torchrun);

/* row 0 += the other rows, as the tree of comm.h. rows: (size, stride), n of each in use */
#define TREE_SUM(rows, stride, n)                                                   \
    for (int apart = 1; apart < world.size; apart *= 2)                             \
        for (int r = 0; r + apart < world.size; r += 2 * apart)                     \
            for (int64_t i = 0; i < (n); i++)                                       \
                (rows)[r * (int64_t)(stride) + i] +=                                \
                    (rows)[(r + apart) * (int64_t)(stride) + i]

#endif
