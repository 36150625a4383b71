/* saves.h -- checkpoints of a run: saving and restoring its state. */
#ifndef SAVES_H
#define SAVES_H

#include "training.h"

//@ if hook_name
/* Links the checkpoint of that step to the objective's name for it. epochs: their rows up to that
 * step; best: it is after the best validation so far. */
void name_checkpoint(Run *r, int64_t step, const Epochs *epochs, bool best);
//@ end
/* Saves a checkpoint. must: the run ends here, and so fails if it cannot be written. */
void save(Run *r, int64_t step, bool must);
/* Restores the state that save() put into the checkpoint. */
void restore(Run *r);

#endif
