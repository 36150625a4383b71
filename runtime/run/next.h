/* next.h -- what a run says at its end: where the weights are, and the commands that use them. */
#ifndef DIECAST_NEXT_H
#define DIECAST_NEXT_H

#include "runtime/run/best.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/log.h"

/* What to try when numbers are NaN or Inf, by the losses so far; malloc'ed. Rank 0's. */
char *next_after_rise(const Log *l, const char *out);
/* After the checkpoint of `step`. Lines for people, from rank 0. */
void next_say(const Model *m, const Checkpoints *c, const Best *b, int64_t step);

#endif
