/* lock.h -- OUT/run.lock: one run a folder.
 *
 * Keeps: a folder held by a living run is never touched.
 * Method: O_EXCL to create, flock to know that the holder lives, the content (host, pid, its start time, job, restart)
 *         to judge a holder on another host. */
#ifndef DIECAST_LOCK_H
#define DIECAST_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Rank 0: makes the folder when missing and takes its lock, or dies: 92 naming the holder, 90 when the folder cannot be
 * written. A lock is stale, and replaced, when its holder's process is gone from this host, or when it is of this job
 * (Slurm, torchrun) with a lower restart count. break_lock: also when it is of another host, but never when the holder
 * is seen to be alive. Wraps die_hook, so that an orderly death releases it. Other ranks: does nothing. */
void lock_take(const char *out, bool break_lock);
void lock_release(void);                 /* nothing when not taken */
/* How often the launcher restarted this job: DIECAST_RESTART, TORCHELASTIC_RESTART_COUNT or SLURM_RESTART_COUNT; 0. */
int64_t lock_restart(void);

#endif
