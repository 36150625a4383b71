/* snapshot.h -- a copy in host memory of every array that a checkpoint stores.
 *
 * Keeps: the arrays are whole, as on one rank without memory.zero, so that the functions that write
 *        a model write its copy, without other ranks and without device calls. */
#ifndef DIECAST_SNAPSHOT_H
#define DIECAST_SNAPSHOT_H

#include "runtime/model/model.h"

/* Sets *copy to the model with arrays of its own, in m->snapshot_bytes of pinned memory that live
 * until exit: EXIT_CONFIG if the machine has less available. Arrays that no checkpoint stores are
 * those of m. Only rank 0 has the memory; *copy of other ranks is m. */
void snapshot_open(const Model *m, Model *copy);
/* Between two steps: copies the arrays of m. Collective. */
void snapshot_take(const Model *m, const Model *copy);
/* Returns the number of NaN or Inf weights in the copies; *where: the first tensor that has one.
 * Any thread of rank 0. */
int64_t snapshot_nonfinite(const Model *copy, const char **where);

#endif
