/* replicas.h -- comparison of the weights and states that ranks must share.
 *
 * Arrays that every rank updates are compared with those of the other ranks. Of weights that one
 * rank updates and the others gather (memory.zero 1 and 2), each rank's copy is compared with the
 * owner's, and the owner's, in 16 bits, with its fp32 master weights rounded.
 * Keeps: divided weights (memory.zero 3), moments and master weights exist on one rank only: a
 *        wrong bit in them is not found, unless a 16-bit weight then is not its master weight
 *        rounded. */
#ifndef DIECAST_REPLICAS_H
#define DIECAST_REPLICAS_H

#include "runtime/model/model.h"

/* Collective. Returns NULL if all ranks agree, in the checksum `other`, too. Otherwise a clause
 * that names the ranks that are wrong, if that can be known, e.g. "rank 1 (host) has different
 * WHAT from the other ranks"; malloc'ed, the same on all ranks. */
char *replicas_difference(const Model *m, uint32_t other, const char *what);
/* Collective. The same for an owner whose 16-bit weights are not its master weights rounded, as
 * they are after an update. */
char *replicas_rounding(const Model *m);

#endif
