/* workers.h -- data-loader threads that fill batches together with the caller.
 *
 * Keeps: the result does not depend on their number: each piece of work is done once, and no two
 *        write to the same location. */
#ifndef DIECAST_WORKERS_H
#define DIECAST_WORKERS_H

#include <stdint.h>

/* Starts n threads, 0: none; they run until the program ends. EXIT_CONFIG: cannot be started. */
void workers_start(int64_t n);
/* Calls work(user, i) for i = 0..n-1, in any order, on all threads and the caller; returns when all
 * are done. Not thread-safe. */
void workers_run(int64_t n, void (*work)(void *user, int64_t i), void *user);

#endif
