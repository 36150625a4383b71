/* stop.h -- how a run is asked to stop and what it leaves: stop signals, OUT/DONE, fault files.
 *
 * Keeps: success is exit 0 and OUT/DONE; every orderly other end leaves
 *        OUT/fault.<restart>.<rank>.json. */
#ifndef DIECAST_STOP_H
#define DIECAST_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* SIGHUP, SIGPIPE and SIGXFSZ are ignored: what they tell is seen where something is written. */
void stop_ignore(void);
/* SIGTERM, SIGINT, SIGUSR1 raise a flag; a second SIGTERM within 5 s releases the lock and kills the
 * process at once: of EXIT_STOPPED's promise, a saved checkpoint, nothing is known then. */
void stop_install(void);
/* SIGUSR1 alone, for the time in which ranks come together: what asks for a checkpoint ends no process. */
void stop_listen(void);
/* The flag of this rank; ranks agree on it in the reduction of the step. */
bool stop_requested(void);
const char *stop_signal(void);                     /* "SIGTERM"; "" before any */

/* Wraps die_hook: a fault file is written before the job is aborted; it names the start, DIECAST_START,
 * where the launcher gave it a name. Call on every rank only when rank 0 has the lock, so that a folder in
 * use by another run stays untouched. */
void stop_faults(const char *out, int restart);
/* The fault file of an end that is no death: EXIT_STOPPED after an orderly stop, which scripts look
 * for. Nothing before stop_faults. */
void stop_report(int code);
/* OUT/DONE {"step": N, "why": WHY}, by temporary file and rename; EXIT_IO when it cannot be written.
 * why: why the run ended before its last step, or NULL. Rank 0. */
void stop_done(const char *out, int64_t step, const char *why);
/* Removes the DONE of an earlier run of fewer steps; EXIT_IO when it cannot. Rank 0, others: nothing. */
void stop_undone(const char *out);
/* Step of OUT/DONE; -1: there is none, or none of ours. */
int64_t stop_done_step(const char *out);

#endif
