/* stop.h -- how a run is asked to stop and what it leaves behind: stop signals, OUT/DONE, fault files.
 *
 * Keeps: success is exit 0 and OUT/DONE; every other end leaves OUT/fault.<restart>.<rank>.json. */
#ifndef DIECAST_STOP_H
#define DIECAST_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* SIGTERM, SIGINT, SIGUSR1 raise a flag; a second SIGTERM within 5 s ends the process at once with 91. SIGHUP, SIGPIPE
 * and SIGXFSZ are ignored. */
void stop_install(void);
/* The flag of this rank; ranks agree on it in the reduction of the step. */
bool stop_requested(void);
const char *stop_signal(void);                     /* "SIGTERM", or "" before any */

/* Wraps die_hook (install after comm_init and lock_take): a fault file is written before the job is aborted. */
void stop_faults(const char *out, int64_t restart);
/* OUT/DONE {"step":N}, by temporary file and rename; dies with 90 when it cannot be written. Rank 0 only. */
void stop_done(const char *out, int64_t step);
/* Step of OUT/DONE; -1: no such file, or not one of ours. */
int64_t stop_done_step(const char *out);

#endif
