/* comm.h -- the ranks together: MPI, or a world of one without MPI under -DDIECAST_RANKS=1.
 *
 * Keeps: sums are a fixed binary tree over ranks, element by element: the same bits on every
 *        rank, whatever the timing, the bucket size or the MPI library.
 *        Only the main thread calls. */
#ifndef DIECAST_COMM_H
#define DIECAST_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMM_BUCKET = 1 << 28 };      /* elements: the largest bucket, 1 GiB */

/* First call of main. Fills world; a world other than built_for ranks, or other than the
 * launcher's, ends with EXIT_MISMATCH and the command that would be right, which is why it wants
 * the recipe's path. Sets die_hook so that every rank leaves with the code; code that sets
 * die_hook later must call the one before. */
void comm_init(int64_t built_for, const char *recipe, int argc, char **argv);
/* "torchrun", "Open MPI", ... and the MPI library's own name, for the banner. */
const char *comm_launcher(void);
const char *comm_library(void);
/* EXIT_CONFIG unless --local-rank (-1: not given) is the launcher's. */
void comm_check_local_rank(int64_t given);
int comm_restart(void);              /* how often the launcher has restarted this job */
/* In place, buf[i] = tree sum of buf[i] over ranks; bucket <= COMM_BUCKET elements a round,
 * and fewer when messages would outgrow the cache: the bits are the same for every bucket.
 * Tree: ((0 + 1) + (2 + 3)) + ..., pairs at distance 1, 2, 4, ... The first call with a bucket size
 * reserves memory for it: call with n = 0 at start. */
void comm_allreduce_sum(float *buf, int64_t n, int64_t bucket);
void comm_allreduce_double(double *buf, int n);   /* the same tree; n at most COMM_DOUBLES */
enum { COMM_DOUBLES = 256 };
int64_t comm_max_int(int64_t value);
void comm_broadcast(void *buf, size_t bytes, int root);
void comm_barrier(void);
void comm_finish(void);              /* last call of a run that succeeded */

#endif
