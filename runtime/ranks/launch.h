/* launch.h -- who started us, and as which rank of how many: a pure function of the environment.
 *
 * In:    NAME=value strings as in environ; they may be hostile.
 * Out:   Launch, or a malloc'ed message that names variable and value (EXIT_CONFIG).
 * Keeps: sources that contradict each other are refused; a world of one without any. */
#ifndef DIECAST_LAUNCH_H
#define DIECAST_LAUNCH_H

#include <stdbool.h>

enum { LAUNCH_MAX = 1 << 20 };        /* ranks */

typedef struct {
    int rank, size;
    int local_rank, local_size;      /* -1: the launcher does not say */
    const char *source;              /* "torchrun", "Open MPI", ..., "none" */
    char first_host[256];            /* MASTER_ADDR, or the Slurm step's first host; "" unknown */
    bool extra;                      /* with a message: rank >= size is all that is wrong */
    int restart;                     /* of this job so far: torchrun's or Slurm's count, else 0 */
} Launch;

/* Order of the sources: RANK and WORLD_SIZE, Open MPI, Hydra PMI, MVAPICH, a Slurm step (never
 * an sbatch script). A Slurm step with one task on this node may be the launcher's launcher, so
 * its size need not agree. Several nodes (NNODES, NODE_RANK) without a launcher are refused. */
char *launch_resolve(char *const *env, Launch *out);
/* The command of the launcher that would start program as n ranks; NULL without one, or where it is
 * torchrun and that cannot. */
char *launch_command(const Launch *l, int n, const char *program, bool torchrun);
/* ACCELERATE_MIXED_PRECISION when it contradicts precision (fp32, bf16, fp16), else NULL. */
const char *launch_precision_conflict(char *const *env, const char *precision);
/* The port that variable names; *port as it was when it is not set. */
char *launch_port_of(char *const *env, const char *name, int *port);
/* Where the ranks of a CUDA program meet: DIECAST_PORT, else MASTER_PORT, else 29500. *agent: one more than
 * MASTER_PORT, on which torchrun's agent listens itself. */
char *launch_port(char *const *env, int *port, bool *agent);
/* DIECAST_TIMEOUT_SCALE, by which all times are multiplied; 1 when it is not set or refused. */
char *launch_scale(char *const *env, double *scale);
/* Slurm's "2(x3),1" -> {2,2,2,1}; at most max entries. NULL, or a malloc'ed message. */
char *launch_expand_counts(const char *list, int max, int *counts, int *n);
/* Slurm's "n[01-03,7],login" -> n01 n02 n03 n7 login; calls host for each of at most max names. */
char *launch_expand_hosts(const char *list, int max, void (*host)(void *arg, const char *name),
                          void *arg, int *n);

#endif
