/* records_parts.h -- packing of raw data, shared by records.c (--data, --eval-data),
 * more_records.c (other flags) and prepare.c (--prepare). flag: the name of the flag that gave the
 * data. */
#ifndef DIECAST_RECORDS_PARTS_H
#define DIECAST_RECORDS_PARTS_H

#include "runtime/run/records.h"

enum { PACK_SECONDS = 7 * 24 * 3600 };   /* the other ranks wait while rank 0 packs */

/* Returns the tokenizer of raw data, malloc'ed. like: record file whose tokenizer it must be, or
 * NULL. */
char *records_tokenizer_of(const Flags *f, bool finds_targets, const char *flag, const char *raw,
                           const char *like);
/* Returns the options for packing n files of raw data; messages name the last one. */
PackOptions records_options(const Flags *f, const Model *m, const DataShape *of,
                            const RecordRules *rules, const char *flag, const char *tokenizer,
                            char **file, int n);
/* Returns the record files of `paths`, packed if raw, on every rank; malloc'ed. */
char *records_files(const Flags *f, const Model *m, const DataShape *of, const RecordRules *rules,
                    const char *flag, const char *paths, const char *like);
/* Ends the program; `more` follows what is wrong with the data. */
_Noreturn void records_refuse(const PackError *e, const char *flag, const char *tokenizer,
                              const char *more);
/* Notes a text line by line, the first after `before`; changes the text. */
void note_lines(const char *before, char *text);

#endif
