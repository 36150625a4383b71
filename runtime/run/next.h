/* next.h -- hints at the end of a run: where the weights are, and the commands that use them. */
#ifndef DIECAST_NEXT_H
#define DIECAST_NEXT_H

#include "runtime/run/best.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/log.h"

/* Returns advice after NaN or Inf, based on the losses so far; malloc'ed. Rank 0 only. */
char *next_after_rise(const Log *l, const char *out);
/* Prints the hints after saving the checkpoint of `step`, on rank 0. */
void next_say(const Model *m, const Checkpoints *c, const Best *b, int64_t step);

#endif
