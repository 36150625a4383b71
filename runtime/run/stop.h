/* stop.h -- stop signals, and the files that report how a run ended: OUT/DONE and fault files.
 *
 * Keeps: success is exit 0 and OUT/DONE; any other orderly end leaves
 *        OUT/fault.<restart>.<rank>.json. */
#ifndef DIECAST_STOP_H
#define DIECAST_STOP_H

#include <stdbool.h>
#include <stdint.h>

/* Ignores SIGHUP, SIGPIPE and SIGXFSZ: the failing write reports the error instead. */
void stop_ignore(void);
/* SIGTERM, SIGINT and SIGUSR1 request a stop. A second SIGTERM within 5 s releases the lock and
 * kills the process at once, without EXIT_STOPPED's promise of a saved checkpoint. */
void stop_install(void);
/* Handles SIGUSR1 only, while the ranks join: a checkpoint request must not kill a process. */
void stop_listen(void);
/* True if this rank received a request to stop; ranks agree in the step's reduction. */
bool stop_requested(void);
const char *stop_signal(void);                     /* "SIGTERM"; "" before any */

/* Wraps die_hook to write a fault file before the job is aborted, with the start's name
 * DIECAST_START if the launcher set it. Call on every rank, but only after rank 0 holds the lock,
 * so that a folder used by another run stays untouched. */
void stop_faults(const char *out, int restart);
/* Writes the fault file of an orderly stop (EXIT_STOPPED), which scripts look for. No effect before
 * stop_faults(). */
void stop_report(int code);
/* Writes OUT/DONE {"step": N, "why": WHY} by temporary file and rename; EXIT_IO on failure. why:
 * the reason for ending before the last step, or NULL. Rank 0. */
void stop_done(const char *out, int64_t step, const char *why);
/* Removes the DONE file of an earlier, shorter run; EXIT_IO on failure. Rank 0 only; other ranks do
 * nothing. */
void stop_undone(const char *out);

#endif
