/* lock.h -- OUT/run.lock: one run a folder.
 *
 * Keeps: a folder held by a living rank is never touched.
 * Method: the file appears filled, by link, and every rank has it under flock until it ends: what nobody
 *         holds is free. Where flock says nothing (a file system without it, another host), its content
 *         decides: host, boot id, PID namespace, pid, start, job, restart.
 */
#ifndef DIECAST_LOCK_H
#define DIECAST_LOCK_H

#include <stdbool.h>

/* Rank 0 (others: nothing): makes the folder when missing and takes its lock, or dies: 92 naming
 * the holder, with the folder as it was; 90 when the folder cannot be written. Stale, and replaced at
 * once, is a lock that no process has under flock and that is of this host or unreadable; without flock
 * one whose process is known to be gone: of this boot and PID namespace; and one of this job (Slurm,
 * torchrun) with a lower restart count. A holder that is just being killed is waited for, at most
 * 5 s. break_lock replaces any other too, also what is no file, except: a lock that is held under
 * flock, as every living run of this host has it (over NFS: of any host whose flock the server
 * knows), one that this user may not open, and a folder of that name. Wraps die_hook, so that an
 * orderly death releases the lock: call after comm_init. */
void lock_take(const char *out, int restart, bool break_lock);
/* The other ranks (rank 0: nothing), once rank 0 has the lock: holds it too, where this rank sees the file and its
 * file system has flock. Wraps die_hook. */
void lock_share(const char *out);
/* Lets go; the last rank that does removes the file. Nothing when not taken; async-signal-safe. */
void lock_release(void);

#endif
