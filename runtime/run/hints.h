/* hints.h -- hints at the end of a run: where the weights are, and the commands that use them. */
#ifndef DIECAST_HINTS_H
#define DIECAST_HINTS_H

#include "runtime/run/best.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/log.h"

/* Returns advice after NaN or Inf, based on the losses so far; malloc'ed. Rank 0 only. */
char *hint_nonfinite(const Log *l, const char *out);
/* The last checkpoint in `out`, as the beginning of a sentence; malloc'ed. */
char *hint_checkpoint(const char *out);
/* Prints the hints after saving the checkpoint of `step`, on rank 0. tokenizer: " --tokenizer FILE"
 * where commands need it, else "" (vocabulary_flag()). */
void hints_print(const Model *m, const Checkpoints *c, const Best *b, int64_t step,
                 const char *tokenizer);

#endif
