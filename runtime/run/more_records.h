/* more_records.h -- records of flags other than --data and --eval-data. */
#ifndef DIECAST_MORE_RECORDS_H
#define DIECAST_MORE_RECORDS_H

#include "runtime/run/records.h"

/* True if the files of a flag, separated by commas, are record files. EXIT_DATA if one is missing,
 * EXIT_CONFIG if packed and raw files are mixed. */
bool records_packed(const char *flag, const char *paths);
/* After records_open(): opens the data of another flag with the tokenizer of `training`, which is
 * open. eval: visited once in order; else drawn like training data. Ends the program on a
 * mismatch. */
void records_open_more(const Flags *f, const Model *m, const DataShape *of,
                       const RecordRules *rules, const char *flag, const char *paths,
                       const Data *training, bool eval, Data *to);
/* Streams the rows of raw data of another flag, also from standard input, to `each` as they are
 * read (pack_each()), on the calling rank only; nothing is cached. tokenizer: its file; NULL: as
 * for --data. */
void records_each(const Flags *f, const Model *m, const DataShape *of, const RecordRules *rules,
                  const char *flag, const char *paths, const char *tokenizer,
                  void (*each)(void *user, const PackedRow *row), void *user);

#endif
