/* lock.h -- run folder lock (OUT/run.lock): one run per folder.
 *
 * Keeps: a folder locked by a living rank is never touched.
 * Method: the file is created complete, by link(), and every rank holds it under flock() until it
 *         ends: a lock that no process holds is free. Where flock() is inconclusive (a file system
 *         without it, another host), its content decides: host, boot id, PID namespace, pid, start,
 *         job, restart. */
#ifndef DIECAST_LOCK_H
#define DIECAST_LOCK_H

#include <stdbool.h>

/* Rank 0 (others: nothing): creates the folder if missing and takes its lock, or ends the program:
 * 92 naming the holder, with the folder unchanged; 90 if the folder cannot be written. A lock is
 * stale, and replaced at once, if no process holds it under flock() and it is of this host or
 * unreadable; without flock(), if its process is known to be gone (same boot and PID namespace); or
 * if it belongs to this job (Slurm, torchrun) with a lower restart count. Waits at most 5 s for a
 * holder that is just being killed. break_lock replaces any other lock too, even one that is not a
 * file, except: a lock held under flock(), as by every living run of this host (over NFS: of any
 * host whose flock() the server knows), one that this user may not open, and a folder of that name.
 * Wraps die_hook so that an orderly death releases the lock: call after comm_init(). */
void lock_take(const char *out, int restart, bool break_lock);
/* Other ranks (rank 0: nothing), once rank 0 has the lock: hold it too, if this rank sees the file
 * and its file system has flock(). Wraps die_hook. */
void lock_share(const char *out);
/* Releases the lock; the last rank to do so removes the file. No effect if not taken;
 * async-signal-safe. */
void lock_release(void);

#endif
