/* comm.h -- the ranks together: a TCP star, and MPI in CPU programs, NCCL in CUDA programs, or a
 * world of one without any under -DDIECAST_RANKS=1.
 *
 * Keeps: the host's sums are a fixed binary tree over ranks, element by element: the same bits on
 *        every rank, whatever the timing, the bucket size or the library.
 *        Only the main thread calls. */
#ifndef DIECAST_COMM_H
#define DIECAST_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMM_BUCKET = 1 << 28 };      /* elements: the largest bucket, 1 GiB */

/* First call of main. Fills world; a world other than built_for ranks, or other than the
 * launcher's, ends with EXIT_MISMATCH and the command that would be right, which is why it wants
 * the words behind gen, gpus=N left out. Sets die_hook so that every rank leaves with the code; code that sets
 * die_hook later must call the one before. */
void comm_init(int64_t built_for, const char *words, int argc, char **argv);
/* "torchrun", "Open MPI", ... and which MPI, or which version of NCCL, for the banner. */
const char *comm_launcher(void);
const char *comm_library(void);
/* The i-th setting "NAME=VALUE" on which the last bits of the GPUs' sums may depend, or NULL beyond
 * the last: variables of NCCL. CPU programs and those of one rank have none. *chosen: the user set
 * it, to another value than the program's own. */
const char *comm_setting(int i, bool *chosen);
/* EXIT_CONFIG unless --local-rank (-1: not given) is the launcher's. */
void comm_check_local_rank(int64_t given);
int comm_restart(void);              /* how often the launcher has restarted this job */
#if defined __cplusplus || defined COMM_DEVICE
/* ---- CUDA programs ---- */
struct CUstream_st;
/* After device_open: brings the GPUs together. */
void comm_connect(void);
/* Enqueues on stream s, in place, device[i] = the sum over ranks, bucket elements a call of the
 * library; its order is fixed by ranks, bucket and NCCL's version and settings. The calls run on a
 * stream of their own: with start, s goes on at once and comes together with all of them in join.
 * All may be captured into a graph once sums of the same sizes have run; start without join is an
 * error there. */
void comm_allreduce_sum(float *device, int64_t n, int64_t bucket, struct CUstream_st *s);
void comm_allreduce_start(float *device, int64_t n, struct CUstream_st *s);
void comm_allreduce_join(struct CUstream_st *s);
/* Call while waiting for the device: ends the process when the library reports an error. A dead or
 * silent peer and a step without progress end it in any case, from the thread that watches them. */
void comm_poll(void);
#else
/* In place, buf[i] = tree sum of buf[i] over ranks; bucket <= COMM_BUCKET elements a round,
 * and fewer when messages would outgrow the cache: the bits are the same for every bucket.
 * Tree: ((0 + 1) + (2 + 3)) + ..., pairs at distance 1, 2, 4, ... The first call with a bucket size
 * reserves memory for it: call with n = 0 at start. */
void comm_allreduce_sum(float *buf, int64_t n, int64_t bucket);
#endif
/* The process got further. The functions that speak with other ranks say so themselves. */
void comm_advance(void);
/* What comes may take so long without getting further, all ranks together; 0: what a step may
 * take, 20 times the median, at least a minute. Beyond it: EXIT_HANG. */
void comm_expect(double seconds);
/* Tree: ((0 + 1) + (2 + 3)) + ...; n at most COMM_DOUBLES. */
void comm_allreduce_double(double *buf, int n);
enum { COMM_DOUBLES = 256 };
int64_t comm_max_int(int64_t value);
void comm_broadcast(void *buf, size_t bytes, int root);
void comm_barrier(void);
void comm_finish(void);              /* last call of a run that succeeded */

#endif
