/* comm_rendezvous.h -- rendezvous settings shared by comm_mpi.c and comm_nccl.c in programs of
 * several ranks. */
#ifndef DIECAST_COMM_RENDEZVOUS_H
#define DIECAST_COMM_RENDEZVOUS_H

#include "runtime/ranks/rendezvous.h"

enum { INIT_SECONDS = 300 };             /* for all ranks to join */

extern double comm_scale;                /* DIECAST_TIMEOUT_SCALE, factor of all timeouts */

/* Sets comm_scale; EXIT_CONFIG if the value is invalid. */
void comm_read_scale(void);
/* Sets the fields common to all programs: ranks, restart, the program's hash, scaled timeouts. */
void comm_settings(RendezvousConfig *c);
/* Returns the port in an environment variable; -1: not set. EXIT_CONFIG if it is not a port. */
int comm_port(const char *name);
/* comm_expect() without comm_advance(). */
void comm_set_expected(double seconds);
/* The host part of comm_advance(): times steps and reports progress to the monitor. */
void comm_progress(void);

#endif
