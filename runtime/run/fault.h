/* fault.h -- fault injection, to rehearse cluster failures.
 *
 * DIECAST_FAULT=KIND:rank=R:step=S[:seconds=X][:restart=N] strikes rank R once, at step S (1-based,
 * as in the log), only in the start that the launcher has restarted N times (default 0).
 *
 *   kill9, segv, abort   the process dies by SIGKILL, SIGSEGV, SIGABRT before the step
 *   exit0                the process exits with status 0
 *   stop                 the process freezes by SIGSTOP; SIGCONT resumes it
 *   hang                 the process lives but makes no progress
 *   nan                  the rank's gradient of that step is NaN
 *   flip                 one bit of a trained weight that every rank has flips, on this rank only
 *   flip_shared          one bit of the weights that rank 0 updates and all ranks have flips, on
 *                        this rank only, after the step, before the save that follows it
 *   save                 the save after that step takes X seconds longer, before its commit
 *
 * Keeps: no effect without the variable; with it a warning; a malformed value ends with
 *        EXIT_CONFIG. */
#ifndef DIECAST_FAULT_H
#define DIECAST_FAULT_H

#include "runtime/model/model.h"

/* Reads DIECAST_FAULT. Call once, after comm_init(). */
void fault_arm(void);
/* Call before the work of world.step. *scale: factor for this rank's gradient. */
void fault_step(const Model *m, float *scale);
/* Call before the ranks compare their weights for a checkpoint of world.step. */
void fault_check(const Model *m);
/* Call before the commit of the checkpoint of that step. Any thread. */
void fault_save(int64_t step);

#endif
