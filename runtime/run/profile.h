/* profile.h -- --profile N: where the time of N steps goes.
 *
 * In:    a mark at the beginning of each call of a step, and of what the host does between them.
 * Out:   a table on standard error, a timeline of all ranks in OUT/profile.json.
 * Keeps: the steps are steps of the run and compute what they would; calls are timed one by one, so a
 *        GPU's step is sent call by call, not as a graph. */
#ifndef DIECAST_PROFILE_H
#define DIECAST_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A call of a step. */
typedef struct {
    const char *kernel, *value;  /* what is called; what it makes first: "b.qkv" */
    double flops, bytes;         /* of one call, by the plan */
    int layers;                  /* it is called for as many layers in turn, below zero: from the last
                                  * one down; 0: it is of none */
    bool sums;                   /* over ranks: it waits for the slowest */
} ProfileOp;

/* What else takes time. */
enum {
    PROFILE_HOST = -1,           /* anything else; of a GPU: it waits for the host */
    PROFILE_BATCH = -2,          /* the next batch is made */
    PROFILE_SUMS = -3,           /* metrics are summed over ranks */
    PROFILE_LAUNCH = -4,         /* calls are sent to the GPU */
    PROFILE_WAIT = -5            /* for the GPU */
};

struct CUstream_st;
extern bool profile_on;          /* the step that runs is taken apart */
/* From here on, of stream s or, NULL, of this thread: the call ops[what], or one of the above. While
 * profile_on. */
void profile_mark(int what, struct CUstream_st *s);
/* The host begins one of the above. Any time. */
void profile_phase(int phase);

/* Of a run at step `step` of `total`, counted from 0: the N steps behind the first three, or as many as it has. N 0:
 * nothing of this does anything. */
void profile_open(const ProfileOp *ops, int nops, const char *out, int64_t N, int64_t step, int64_t total);
/* Around each step. All ranks call; behind the last of the N they tell. */
void profile_begin(int64_t step);
void profile_end(void);
/* The run is over: tells what there is, if it has not yet. */
void profile_close(void);

#ifdef __cplusplus
}
#endif

#endif
