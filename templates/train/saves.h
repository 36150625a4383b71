/* saves.h -- checkpoints of a run: saving and restoring its state. */
#ifndef SAVES_H
#define SAVES_H

#include "training.h"

//@ if hook_name
/* Links the checkpoint of that step to the objective's name for it. epochs: their rows up to that
 * step; best: it is after the best validation so far. */
void name_checkpoint(Run *r, int64_t step, const Epochs *epochs, bool best);
//@ end
//@ unless checkpoint_async
/* Saves a checkpoint. must: the run ends here, and so fails if it cannot be written. */
//@ end
//@ if checkpoint_async
/* Saves a checkpoint, after the one under way. must: the run ends here, and so fails if it cannot
 * be written; else it is under way on return. */
//@ end
void save(Run *r, int64_t step, bool must);
//@ if checkpoint_async
/* Ends the save under way, if there is one: waits until it is written. Collective. waited: another
 * one is due. */
void save_end(Run *r, bool waited);
//@ end
/* Restores the state that save() put into the checkpoint. */
void restore(Run *r);

#endif
