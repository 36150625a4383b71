/* agree.h -- what all ranks must have the same before they work together: flags and data. The
 * program is compared when they join, the weights when they are loaded.
 *
 * Keeps: ranks that differ end with EXIT_MISMATCH, in a line that names the first difference, the
 *        lowest rank that has it, and both values. All ranks call; one rank alone does nothing. */
#ifndef DIECAST_AGREE_H
#define DIECAST_AGREE_H

#include "runtime/data/data.h"
#include "runtime/run/flags.h"

/* Flags as flags_common has them: paths may differ where all are given. */
void agree_flags(const Flags *f);
/* Training and validation data by their fingerprints; NULL: none of that kind. */
void agree_data(const Data *train, const Data *eval);

#endif
