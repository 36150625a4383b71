/* workers.h -- threads that fill batches beside the caller.
 *
 * Keeps: what is made does not depend on how many there are: each piece of work is done once, by
 *        whatever thread, and no two write the same place. */
#ifndef DIECAST_WORKERS_H
#define DIECAST_WORKERS_H

#include <stdint.h>

/* So many beside the caller, 0: none; until the end of the program. EXIT_CONFIG: they cannot be
 * started. */
void workers_start(int64_t n);
/* work(user, i) for i = 0..n-1, in any order, on all of them and on the caller; returns when all is
 * done. One thread calls. */
void workers_run(int64_t n, void (*work)(void *user, int64_t i), void *user);

#endif
