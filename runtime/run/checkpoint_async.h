/* checkpoint_async.h -- checkpoints that a thread writes while training goes on.
 *
 * One at a time, from a copy of the arrays in host memory (snapshot.h).
 * Keeps: main thread only, between two steps. The files are those of checkpoint_save(), and a kill
 *        leaves as much. Rank 0 writes; the other ranks need not wait for it. */
#ifndef DIECAST_CHECKPOINT_ASYNC_H
#define DIECAST_CHECKPOINT_ASYNC_H

#include "runtime/run/checkpoint.h"

/* Reserves the memory, which on a CPU counts in m->planned_bytes of rank 0: EXIT_CONFIG if the
 * machine has too little. */
void checkpoint_async_open(Model *m);
/* Compares replicas as checkpoint_save() does, copies the arrays and begins to write. Collective,
 * once no other one is being written. state and trainer stay the caller's. */
void checkpoint_async_begin(Checkpoints *c, const Model *m, int64_t step, const cJSON *state,
                            const cJSON *trainer);
/* True on rank 0 if checkpoint_async_end() need not wait. */
bool checkpoint_async_done(void);
/* Waits until the checkpoint is written. Ends the job if its weights were NaN or Inf. Returns what
 * checkpoint_save() would, on rank 0 after a line with the seconds that training stopped for it.
 * The oldest checkpoints are not removed before the next one begins, or is saved. waited: another
 * one was due. */
bool checkpoint_async_end(Checkpoints *c, bool waited);

#endif
