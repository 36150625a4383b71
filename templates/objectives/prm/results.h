/* results.h -- the final model of a run, and names of its checkpoints in OUT/checkpoints. */
#ifndef RESULTS_H
#define RESULTS_H

#include "solutions.h"

extern const char checkpoints[];         /* "checkpoints", in OUT */

/* The folder that transformers or PEFT load after training; malloc'ed. */
char *final_folder(const Flags *f);
/* The hooks `name` and `named`. */
char *checkpoint_name(const Epochs *epochs, int64_t step, bool best);
char *checkpoint_named(const Flags *f, const char *path, const Epochs *epochs);
/* Writes the final model, on rank 0. */
void model_write(const Flags *f, const WeightFolders folder, const Checkpoints *last);

#endif
