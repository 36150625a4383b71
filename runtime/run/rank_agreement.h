/* rank_agreement.h -- checks before the first step that ranks share flags and data.
 *
 * The program is compared when the ranks join, the weights when they are loaded.
 * Keeps: a mismatch ends every rank with EXIT_MISMATCH and one line: the first setting that
 *        differs, the lowest rank that has another value, both values. Collective; a single rank
 *        does nothing. */
#ifndef DIECAST_RANK_AGREEMENT_H
#define DIECAST_RANK_AGREEMENT_H

#include "runtime/data/data.h"
#include "runtime/library.h"
#include "runtime/run/flags.h"

/* Compares the flags by flags_common(): ranks may use different paths, but a path given on one must
 * be given on all. */
void ranks_check_flags(const Flags *f);
/* Compares the versions, as loaded, of those libraries that compute. */
void ranks_check_libraries(const LibraryVersion *list, int n);
/* Compares the fingerprints of the training and validation data; NULL: no data of that kind. */
void ranks_check_data(const Data *train, const Data *eval);

#endif
