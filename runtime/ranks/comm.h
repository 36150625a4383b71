/* comm.h -- collective operations between ranks.
 *
 * Programs of several ranks use a TCP rendezvous, plus MPI (CPU) or NCCL (CUDA); -DDIECAST_RANKS=1
 * builds a single rank without any of them.
 * Keeps: host reductions are a fixed binary tree over ranks, element by element: the same bits on
 *        every rank, for any timing, bucket size and library. Main thread only. */
#ifndef DIECAST_COMM_H
#define DIECAST_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    COMM_BUCKET = 1 << 28,       /* largest bucket in elements (1 GiB) */
    COMM_OPERATIONS = 64         /* that may run in parallel with a stream of a CUDA program */
};

/* First call of main. Fills world. EXIT_MISMATCH if the number of ranks is not built_for, or not
 * the launcher's, with the correct command; words: gen's arguments for it, without gpus=N. Sets
 * die_hook so that every rank exits with the same code; code that sets die_hook later must call the
 * previous hook. */
void comm_init(int64_t built_for, const char *words, int argc, char **argv);
/* For the banner: "torchrun", "Open MPI", ...; the MPI library or the NCCL version. */
const char *comm_launcher(void);
const char *comm_library(void);
/* Returns the i-th setting "NAME=VALUE" (an NCCL variable) that may change the last bits of GPU
 * reductions, or NULL past the last; none in CPU programs or with one rank. *chosen: the user set
 * it to another value than the program's default. */
const char *comm_setting(int i, bool *chosen);
/* EXIT_CONFIG unless --local-rank (-1: not given) equals the launcher's. */
void comm_check_local_rank(int64_t given);
int comm_restart(void);              /* number of restarts of this job by the launcher */
#if defined __cplusplus || defined COMM_DEVICE
/* ---- CUDA programs ---- */
struct CUstream_st;
/* Connects the GPUs. Call after device_open(). */
void comm_connect(void);
/* Enqueues an in-place all-reduce on stream s: device[i] = sum over ranks, `bucket` elements per
 * library call. The summation order is fixed by the number of ranks, the bucket and NCCL's version
 * and settings. The calls run on their own stream: with start, s continues at once and waits for
 * all of them in join. All may be captured into a graph once sums of the same sizes have run; start
 * without join is an error there. */
void comm_allreduce_sum(float *device, int64_t n, int64_t bucket, struct CUstream_st *s);
void comm_allreduce_start(float *device, int64_t n, struct CUstream_st *s);
void comm_allreduce_join(struct CUstream_st *s);
/* Enqueue on s, which waits for them: the functions below of the same names. */
void comm_reduce_scatter(float *device, int64_t slots, int64_t stride, struct CUstream_st *s);
void comm_all_gather(void *device, size_t bytes, int64_t slots, int64_t stride,
                     struct CUstream_st *s);
void comm_gather_parts(void *whole, const void *own, size_t bytes, int64_t part,
                       struct CUstream_st *s);
void comm_exchange(float *pieces, const float *tensor, int64_t part, int64_t at, int64_t count,
                   struct CUstream_st *s);
void comm_collect(float *pieces, const float *own, int64_t count, struct CUstream_st *s);
/* Operations that run in parallel with s, in the order of their calls, each after the work that s
 * has so far; s must not touch their buffers before comm_end(). operation: below
 * COMM_OPERATIONS. All may be captured into a graph, under the same conditions as
 * comm_allreduce_start(). */
/* comm_gather_parts(). */
void comm_gather_begin(int operation, void *whole, const void *own, size_t bytes, int64_t part,
                       struct CUstream_st *s);
/* In place: this rank's part of tensor, (ranks, part), becomes its sum over ranks. Afterwards the
 * other parts are undefined. */
void comm_scatter_begin(int operation, float *tensor, int64_t part, struct CUstream_st *s);
/* s waits for the operation last begun under that number, but not for later ones. Does nothing if
 * none was begun since the last call. */
void comm_end(int operation, struct CUstream_st *s);
/* Call while waiting for the device: ends the process if the library reports an error. A dead or
 * silent peer and a step without progress end it in any case, from the monitor thread. */
void comm_poll(void);
#else
/* In-place all-reduce, buf[i] = tree sum of buf[i] over ranks; bucket <= COMM_BUCKET elements per
 * round, fewer if messages would outgrow the cache: the bits are the same for every bucket. Tree:
 * ((0 + 1) + (2 + 3)) + ..., pairs at distance 1, 2, 4, ... The first call with a bucket size
 * allocates memory for it: call with n = 0 at start. */
void comm_allreduce_sum(float *buf, int64_t n, int64_t bucket);
/* Values that are divided over ranks (runtime/shares.h): `slots` tensors, one every `stride`
 * elements; of each, rank r's part is the r-th of as many equal parts as there are ranks. */
/* Sums over ranks as comm_allreduce_sum() does, but each rank's part only. */
void comm_reduce_scatter(float *buf, int64_t slots, int64_t stride);
/* pieces (ranks, count): from every rank elements [at, at + count) of this rank's part of its
 * tensor, (ranks, part). */
void comm_exchange(float *pieces, const float *tensor, int64_t part, int64_t at, int64_t count);
/* pieces (ranks, count): from every rank its count elements. */
void comm_collect(float *pieces, const float *own, int64_t count);
/* Every rank gets the others' parts; an element has `bytes` bytes: 1, 2, 4 or 8. */
void comm_all_gather(void *buf, size_t bytes, int64_t slots, int64_t stride);
/* The same for one tensor of which each rank stores its part only: whole (ranks, part) from every
 * rank's own (part). own may be this rank's part of whole. */
void comm_gather_parts(void *whole, const void *own, size_t bytes, int64_t part);
#endif
/* Reports progress to the hang detector. Functions that communicate with other ranks report it
 * themselves. */
void comm_advance(void);
/* Sets how long the next phase may take without progress, over all ranks together, in seconds; 0: a
 * step's limit, 20 times the median and at least a minute. Beyond it: EXIT_HANG. */
void comm_expect(double seconds);
/* Tree: ((0 + 1) + (2 + 3)) + ...; n at most COMM_DOUBLES. */
void comm_allreduce_double(double *buf, int n);
enum { COMM_DOUBLES = 256 };
/* sum[i] += what every rank's n micro-batches have of it, in the order of their numbers: the first
 * of every rank, the second of every rank, ... part: (n, count); count at most COMM_DOUBLES; all
 * ranks get the same sums. */
void comm_fold(const double *part, int64_t n, int count, double *sum);
int64_t comm_max_int(int64_t value);
static inline bool comm_any(bool own) { return comm_max_int(own) > 0; }   /* true on some rank */
void comm_broadcast(void *buf, size_t bytes, int root);
/* Gathers on rank 0: `to` receives the n values of every other rank, in rank order. Rank 0 passes
 * n = 0 and the number from each rank r, received[r]; received[0] = 0. The others ignore both. */
void comm_gather(const float *own, int64_t n, float *to, const int64_t *received);
void comm_barrier(void);
/* A rank begins a program of a step that has collectives; name: static text. From
 * comm_count_programs() on, this function and the host collectives above, all of them first compare
 * how many of these programs each rank has begun. EXIT_HANG, naming two ranks and their programs,
 * if they differ, as the ranks would wait for each other forever. */
void comm_count_programs(void);
void comm_program(const char *name);
void comm_finish(void);              /* last call of a successful run */

#ifdef __cplusplus
}
#endif

#endif
