/* profile.h -- step profiler (--profile N) and step benchmark (--bench-steps N).
 *
 * In:    marks at the start of each op of a step and of each host phase between ops.
 * Out:   a table on standard error, a timeline of all ranks in OUT/profile.json.
 * Keeps: profiled steps are regular steps with the same results; ops are timed one by one, so a GPU
 *        step is launched op by op, not as a graph. */
#ifndef DIECAST_PROFILE_H
#define DIECAST_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One op of a step. */
typedef struct {
    const char *kernel, *value;  /* kernel name; first output, "b.qkv" */
    double flops, bytes;         /* per call, from the plan */
    int layers; /* calls, one per layer in ascending order; negative: in descending order;
                                    0: not per layer */
    bool collective;             /* waits for other ranks, or for a call parallel to the step */
} ProfileOp;

/* Host phases. */
enum {
    PROFILE_HOST = -1,           /* everything else; on a GPU: waiting for the host */
    PROFILE_BATCH = -2,          /* building the next batch */
    PROFILE_SUMS = -3,           /* summing metrics over ranks */
    PROFILE_LAUNCH = -4,         /* launching ops on the GPU */
    PROFILE_WAIT = -5            /* waiting for the GPU */
};

struct CUstream_st;
extern bool profile_on;          /* the current step is profiled */
/* Marks the start of ops[what] or of a phase on stream s, or on this thread if s is NULL. Only
 * while profile_on. */
void profile_mark(int what, struct CUstream_st *s);
/* Marks the start of a host phase. Callable at any time. */
void profile_phase(int phase);

/* Profiles N steps after the first three, or fewer if the run ends earlier. step: first step of
 * this start, 0-based, of `total`. N 0: all functions do nothing. */
void profile_open(const ProfileOp *ops, int nops, const char *out, int64_t N, int64_t step,
                  int64_t total);
/* Call around each step, on all ranks; after the Nth profiled step they report. */
void profile_begin(int64_t step);
void profile_end(void);
/* Reports at the end of the run if that has not happened yet. */
void profile_close(void);

/* ---- benchmark ------------------------------------------------------------------------------- */

typedef struct {
    int64_t steps;               /* timed steps, after BENCH_WARM warm-up steps */
    double (*step)(void *with, int64_t step);    /* one full training step on all ranks; returns
                                                    its work, summed over ranks, */
    void *with;
    const char *unit;            /* in this unit */
    double started;              /* clock at program start, s */
    int threads;                 /* of this rank */
} Bench;

enum { BENCH_WARM = 3 };

/* Runs the steps and prints one JSON line on rank 0's standard output. */
void bench_run(const Bench *b, const Model *m);

#ifdef __cplusplus
}
#endif

#endif
