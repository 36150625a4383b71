/* lock.h -- OUT/run.lock: one run a folder.
 *
 * Keeps: a folder held by a living run is never touched.
 * Method: the file appears filled, by link, and its holder has it under flock: what nobody holds is
 *         free. The content (host, pid, start, job, restart) judges holders on other hosts, whose
 *         flock may not be seen here (NFS).
 */
#ifndef DIECAST_LOCK_H
#define DIECAST_LOCK_H

#include <stdbool.h>

/* Rank 0 (others: nothing): makes the folder when missing and takes its lock, or dies: 92 naming
 * the holder, 90 when the folder cannot be written. Stale, and replaced at once, is a lock that no
 * process has under flock and that is of this host or unreadable, and one of this job (Slurm,
 * torchrun) with a lower restart count. A holder that is just being killed is waited for, at most
 * 5 s. break_lock replaces any other too, also what is no file, except: a lock that is held under
 * flock, as every living run of this host has it (over NFS: of any host whose flock the server
 * knows), one that this user may not open, and a folder of that name. Wraps die_hook, so that an
 * orderly death releases the lock: call after comm_init. */
void lock_take(const char *out, int restart, bool break_lock);
void lock_release(void);                 /* nothing when not taken; async-signal-safe */

#endif
