/* comm_star.h -- what comm_mpi.c and comm_nccl.c share in programs of several ranks. */
#ifndef DIECAST_COMM_STAR_H
#define DIECAST_COMM_STAR_H

#include "runtime/ranks/star.h"

enum { INIT_SECONDS = 300 };             /* until all ranks are together */

extern double comm_scale;                /* DIECAST_TIMEOUT_SCALE, of all times */

/* Sets comm_scale; EXIT_CONFIG when it is none. */
void comm_read_scale(void);
/* What a StarConfig has in every program: ranks, restart, the program's hash, times by the scale. */
void comm_settings(StarConfig *c);
/* The port that a variable of the environment names; -1: it is not set. EXIT_CONFIG: no port. */
int comm_port(const char *name);
/* comm_expect() without comm_advance(). */
void comm_set_expected(double seconds);
/* comm_advance() as far as it concerns the host: times steps, tells the star. */
void comm_progress(void);

#endif
