/* launch.h -- rank and world size from the launcher's environment, as a pure function of it.
 *
 * In:    NAME=value strings as in environ, untrusted.
 * Out:   Launch, or a malloc'ed message with variable and value (EXIT_CONFIG).
 * Keeps: contradicting sources are refused, as are variables DIECAST_... that do not exist; without
 *        any source, a world of one rank. */
#ifndef DIECAST_LAUNCH_H
#define DIECAST_LAUNCH_H

#include <stdbool.h>

enum { LAUNCH_MAX = 1 << 20 };        /* ranks */

/* Rows of launchers.def; "": no such variable. */
typedef struct {
    const char *name, *rank, *other_rank, *size, *local_rank, *local_size;
    const char *command;             /* starts %d ranks of %s */
} Launcher;
typedef struct {
    const char *name, *only, *nodes, *node, *address, *hosts, *port, *ranks, *gpus;
} Engine;

enum {
    LAUNCHERS = 0
#define LAUNCHER(...) + 1
#include "runtime/ranks/launchers.def"
    , ENGINES = 0
#define ENGINE(...) + 1
#include "runtime/ranks/launchers.def"
};
extern const Launcher launcher_row[LAUNCHERS];
extern const Engine engine_row[ENGINES];

typedef struct {
    int rank, size;
    int local_rank, local_size;      /* -1: the launcher does not set it */
    const char *source;              /* "torchrun", "Open MPI", ..., "none" */
    char first_host[256];            /* MASTER_ADDR, or the first host of the Slurm step; "":
                                        unknown */
    bool extra;                      /* set with a message: rank >= size is the only error */
    int restart;                     /* restarts of this job, as counted by torchrun or Slurm, else
                                        0 */
} Launch;

/* Fills *out; sources in order: RANK and WORLD_SIZE, Open MPI, Hydra PMI, MVAPICH, a Slurm step
 * (never an sbatch script). A Slurm step with one task on this node may only run another launcher,
 * so its size need not agree. Without any of them, an engine that starts one rank on each machine
 * (Kubeflow Trainer, SkyPilot); other settings of several nodes are refused: run.sh reads them. */
char *launch_resolve(char *const *env, Launch *out);
/* Returns the launcher's command that starts program as n ranks; NULL without a launcher, or if
 * torchrun is the launcher but cannot start it (torchrun is false). malloc'ed. */
char *launch_command(const Launch *l, int n, const char *program, bool torchrun);
/* Types that programs compute in, for fields.def as well. */
#define PRECISION_NAMES "fp32|bf16|fp16"

/* Returns why no program for the target has this precision, malloc'ed; NULL: gen builds one. */
char *launch_precision_refused(const char *precision, const char *target);
/* Returns ACCELERATE_MIXED_PRECISION if it contradicts precision, else NULL.
 * "no" contradicts none: accelerate sets it unless it is asked for a type. */
const char *launch_precision_conflict(char *const *env, const char *precision);
/* Reads a port from an environment variable; *port is unchanged if it is not set. Returns NULL or a
 * message. */
char *launch_port_of(char *const *env, const char *name, int *port);
/* Sets *port to the rendezvous port of a CUDA program: DIECAST_PORT, else MASTER_PORT, else that of
 * an engine, else 29500.
 * *agent: torchrun's agent listens on MASTER_PORT itself, so *port is one more. */
char *launch_port(char *const *env, int *port, bool *agent);
/* Sets *scale to DIECAST_TIMEOUT_SCALE, the factor of all timeouts; 1 if not set or invalid. */
char *launch_scale(char *const *env, double *scale);
/* Expands Slurm's "2(x3),1" to {2,2,2,1}, at most max entries. Returns NULL, or a malloc'ed
 * message. */
char *launch_expand_counts(const char *list, int max, int *counts, int *n);
/* Expands Slurm's "n[01-03,7],login" to n01 n02 n03 n7 login and calls host for each of at most max
 * names. */
char *launch_expand_hosts(const char *list, int max, void (*host)(void *arg, const char *name),
                          void *arg, int *n);

#endif
