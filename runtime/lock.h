/* lock.h -- OUT/run.lock: one run a folder.
 *
 * Keeps: a folder held by a living run is never touched.
 * Method: O_EXCL to create, flock to know whether the holder lives, the content (host, pid, start,
 *         job, restart) to judge a holder on another host. */
#ifndef DIECAST_LOCK_H
#define DIECAST_LOCK_H

#include <stdbool.h>

/* Rank 0 (others: nothing): makes the folder when missing and takes its lock, or dies: 92 naming
 * the holder, 90 when the folder cannot be written. Stale, and replaced, is a lock whose holder's
 * process is gone from this host (one that is just being killed is waited for, at most 5 s), or
 * that is of this job (Slurm, torchrun) with a lower restart count; with break_lock also one of
 * another host. A holder seen alive is never robbed. Wraps die_hook, so that an orderly death
 * releases the lock: call after comm_init. */
void lock_take(const char *out, int restart, bool break_lock);
void lock_release(void);                 /* nothing when not taken */

#endif
