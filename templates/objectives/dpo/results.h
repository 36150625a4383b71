/* results.h -- files of preference training: OUT/results and the model in OUT/workspace. */
#ifndef RESULTS_H
#define RESULTS_H

#include "pairs.h"

extern const char *const result_files[];     /* of ObjectiveHooks.files */

/* The hooks `write` and `finished`. */
char *results_write(const Flags *f, const WeightFolders folder, const Epochs *epochs);
void results_finished(const Flags *f, const WeightFolders folder, const Checkpoints *last);

#endif
