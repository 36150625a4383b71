/* new_data.h -- sequence lengths of a user's data, for `gen new --data`. */
#ifndef DIECAST_NEW_DATA_H
#define DIECAST_NEW_DATA_H

#include "gen/tools/model_folder.h"
#include "runtime/pack/pack.h"

/* Lengths in tokens of the samples in raw data. Documents have none: they fill sequences of any
 * length. */
typedef struct {
    const char *file;
    const char *kind;            /* a word of data.kind: "packed", "rows" or "pairs" */
    int64_t samples, longest, most;  /* most: 95 of 100 samples are no longer; 0 without samples */
    const Lengths *length;       /* of all samples */
} SampleLengths;

/* Tokenizes `file` with the folder's tokenizer and chat template. Exits with a message where the
 * file cannot be read, or where the objective trains on samples of another kind. */
SampleLengths sample_lengths(const ModelFolder *m, const char *file);

#endif
