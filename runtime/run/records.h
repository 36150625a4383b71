/* records.h -- what --data and --eval-data name, opened: record files, or raw data, which become one.
 *
 * Keeps: raw data are read by rank 0 alone and packed once: into OUT/.dataset_cache/, by their content,
 *        the tokenizer and the rules; the other ranks wait, then map the file. */
#ifndef DIECAST_RECORDS_H
#define DIECAST_RECORDS_H

#include "runtime/data/data.h"
#include "runtime/pack/pack.h"
#include "runtime/run/flags.h"
#include <cjson/cJSON.h>

/* How an objective reads raw data, where --data-format is auto. */
typedef struct {
    const char *format;          /* a name of runtime/pack/formats.def; NULL: rows by their keys */
    const char *system;          /* pairs with a question: what stands before it; NULL: as gen pack has it */
    int64_t min_words;           /* of rows of words: fewer, and one is left out */
    Held held;                   /* windows: HELD_NONE: the tail of each text */
    const char *asked;           /* the flag that named eval_data; NULL: "eval-data" */
    const FormatCode *const *formats;    /* that the objective reads; the last is NULL; NULL: no raw data */
    const void *more;            /* PackOptions.more */
} RecordRules;

/* What --tokenizer names: "" also where it is `words`, which the data make. */
const char *records_tokenizer(const Flags *f);

bool records_train(const Flags *f);      /* there is something to train on, to validate on */
bool records_validate(const Flags *f);
/* Whether the files that a flag names, between commas, are packed ones. EXIT_DATA where one is missing, EXIT_CONFIG
 * where only some are packed. */
bool records_packed(const char *flag, const char *paths);
bool records_raw(const Flags *f);        /* some of these are raw data */
/* Opens those that are there: they suit the model, each other and --tokenizer, on every rank; or the
 * program ends. Starts --num-workers. Without --eval-data, but an evaluation's share, --data are divided:
 * into `train` and the last samples, `eval`; or where the share is not given, as `of` divides them, the
 * first part and the last. */
void records_open(const Flags *f, const Model *m, const DataShape *of, const RecordRules *rules,
                  Data *train, Data *eval);
/* What was taken of each source, under "drawn": into a checkpoint's state and back; a state of other sources changes
 * nothing. */
void records_save(const Data *d, cJSON *state);
void records_load(Data *d, const cJSON *state);
/* Others, behind records_open(): what another flag names, of the tokenizer of `beside`, which is open. eval:
 * to be visited in order, once; else to be drawn, as those to train on. The program ends unless they suit. */
void records_open_more(const Flags *f, const Model *m, const DataShape *of, const RecordRules *rules,
                       const char *flag, const char *paths, const Data *beside, bool eval, Data *to);
/* Rows of raw data that another flag names, one after the other as they are read, also from standard input,
 * for a use of the program that answers them: see pack_each(). On the calling rank alone, and nothing is
 * kept. tokenizer: its file; NULL: as --data would have it. */
void records_each(const Flags *f, const Model *m, const DataShape *of, const RecordRules *rules,
                  const char *flag, const char *paths, const char *tokenizer,
                  void (*each)(void *user, const PackedRow *row), void *user);

/* --prepare: texts, files between commas, as windows of T tokens, arrays of ids in the new folder --out, for a model of
 * so many ids and that mask (-1: the tokenizer's); formats: as of RecordRules, with windows. Rank 0 writes; or the
 * program ends. */
void records_prepare(const Flags *f, const char *texts, const Model *m, const FormatCode *const *formats, int64_t T,
                     int64_t vocab, int64_t mask);

#endif
