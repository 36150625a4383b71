/* prepare.h -- --prepare: texts become a folder of token ids to train on. */
#ifndef DIECAST_PREPARE_H
#define DIECAST_PREPARE_H

#include "runtime/model/model.h"
#include "runtime/pack/pack.h"
#include "runtime/run/flags.h"

/* Runs --prepare: writes texts (paths, comma-separated) as windows of T tokens, arrays of ids, to
 * the new folder --out, for a vocabulary of `vocab` ids and this mask token (-1: the tokenizer's).
 * formats: as in RecordRules, with windows. Rank 0 writes; errors end the program. */
void prepare_texts(const Flags *f, const char *texts, const Model *m,
                     const FormatCode *const *formats, int64_t T, int64_t vocab, int64_t mask);

#endif
