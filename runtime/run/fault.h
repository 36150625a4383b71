/* fault.h -- faults on purpose, so that a cluster can rehearse them:
 * DIECAST_FAULT=KIND:rank=R:step=S[:seconds=X][:restart=N] strikes rank R once, at step S (as lines
 * count them, from 1), only in the start that the launcher has restarted N times (0).
 *
 *   kill9, segv, abort   the process dies by SIGKILL, SIGSEGV, SIGABRT in front of the step
 *   exit0                it leaves as if all were well
 *   stop                 it freezes by SIGSTOP; SIGCONT lets it go on
 *   hang                 it lives, but gets no further
 *   nan                  its gradient of that step is NaN
 *   flip                 one bit of a trained weight changes, on this rank only
 *   save                 the save after that step takes X seconds longer, before it is committed
 *
 * Keeps: without the variable nothing; with it a warning; one that is misspelt is EXIT_CONFIG. */
#ifndef DIECAST_FAULT_H
#define DIECAST_FAULT_H

#include "runtime/model/model.h"

/* Once, after comm_init. */
void fault_arm(void);
/* In front of the work of world.step. scale: what this rank's gradient is multiplied by. */
void fault_step(const Model *m, float *scale);
/* In front of the commit of a checkpoint, in world.step. */
void fault_save(void);

#endif
