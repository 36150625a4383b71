/* records.h -- training and validation data: record files, or raw data packed into them.
 *
 * Keeps: rank 0 reads raw data and packs them once into OUT/.dataset_cache/, keyed by their
 *        content, the tokenizer and the rules; the other ranks wait, then map the file. */
#ifndef DIECAST_RECORDS_H
#define DIECAST_RECORDS_H

#include "runtime/data/data.h"
#include "runtime/pack/pack.h"
#include "runtime/run/flags.h"
#include <cjson/cJSON.h>

/* How an objective reads raw data if --data-format is auto. */
typedef struct {
    const char *format;          /* a name of runtime/pack/formats.def; NULL: detected by keys */
    const char *system;          /* pairs with a question: system prompt; NULL: the default of gen
                                    pack */
    int64_t min_words;           /* word-list rows: rows with fewer words are dropped */
    HeldOut held_out;            /* windows held out for validation; HELD_OUT_NONE: the tail of each
                                    text */
    const char *eval_flag;       /* the flag that named the evaluation data; NULL: "eval-data" */
    const FormatCode *const *formats;    /* formats the objective reads, ends with NULL; NULL: no
                                            raw data */
    const void *more;            /* PackOptions.more */
} RecordRules;

/* Returns the value of --tokenizer; "" also for `words`, which is built from the data. */
const char *records_tokenizer(const Flags *f);

bool records_train(const Flags *f);      /* true if --data is given */
/* True if there is validation data: --eval-data, or a share of --data. */
bool records_validate(const Flags *f);
bool records_raw(const Flags *f);        /* some of --data or --eval-data are raw */
/* Opens the data that were given and checks them against the model, each other and --tokenizer on
 * every rank; ends the program on a mismatch. Starts the --num-workers threads. Without
 * --eval-data, the evaluation share splits --data: the last samples go to `eval`, the rest to
 * `train`. If that share is a default (not given on the command line) and of->split is set,
 * of->split divides --data instead: its first part is `train`, its last part `eval`. */
void records_open(const Flags *f, const Model *m, const DataShape *of, const RecordRules *rules,
                  Data *train, Data *eval);
/* Save and restore the number of samples drawn from each source, under the key "drawn" of a
 * checkpoint's state. records_save() also stores how conversations of the data are written, under
 * "chat" and "chat_template", and a vocabulary counted from raw data, under "vocabulary".
 * records_load() does nothing if the state has another number of sources. */
void records_save(const Flags *f, const Data *d, cJSON *state);
void records_load(Data *d, const cJSON *state);

#endif
