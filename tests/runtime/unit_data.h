/* unit_data.h -- token files, programs and batches that the tests of the data loader share. */
#ifndef DIECAST_TESTS_UNIT_DATA_H
#define DIECAST_TESTS_UNIT_DATA_H

#include "unit.h"
#include "../../runtime/data/data.h"
#include "../../runtime/files/json.h"

/* The arrays of the files: all tokens, which are targets, and where the documents begin. */
enum { T = 5, DOCS = 23, TOKENS = 400 };
extern int32_t tokens[TOKENS];
extern uint8_t mask[TOKENS];
extern int64_t doc[DOCS + 1];
extern int32_t turned[TOKENS];           /* of write_parts(): the tokens backwards, each id one more */

/* Settings of write_file(). */
extern const char *mask_key;             /* "mask_id" or "pad_id" */
extern bool finds_targets;
extern const char *train_rows;           /* NULL: left out */
void write_file(const char *path, const char *kind, int64_t ndocs, int64_t n, bool masked);
/* A file of documents with two parts: `tokens`, and `turned`, whose targets are all. */
void write_parts(const char *path, const char *kind, int64_t ndocs);
/* Returns the JSON of a file, which the caller deletes; NULL after a failed check. */
cJSON *read_json(const char *path);

/* A program, as far as data are concerned. */
typedef struct { Model model; DataShape of; } Made;
Made model_of(const char *kind, int64_t micro, int64_t accum, int64_t ranks);
Made pairs_model(int64_t micro, int64_t ranks);
void open_data(Data *d, const char *paths, const Made *m, uint64_t seed, bool eval);

/* A global batch of at most 12 samples. */
typedef struct { int32_t x[12 * T], y[12 * T], places[12 * T], ends[12 * T]; } Seen;
Batch batch_at(Seen *s, int64_t sample);

/* unit_data_bins.c. Bins of documents by a slow method: longest first; of all bins with the least
 * space that is enough, the one that has had it longest. Returns their number; bin[i]: of document
 * i, place[i]: its position there. */
int64_t slow_bins(const int32_t *length, int64_t n, int64_t most, int64_t *bin, int64_t *place);
int64_t bins_of(int64_t n);              /* bins of the first n documents */
void test_bins(void);

/* unit_data_refused.c. Calls data_open() in a process of its own, whose stderr goes to the file
 * `said`. Returns its wait status. */
extern const char *said;
int open_status(const char *path, const Made *m, bool eval);
/* Checks that data_open() ends with the code and a line that contains the text. */
void refused(const char *name, const char *path, const Made *m, int code, const char *text);
/* Files and their changes that are refused; of the files that test_data() wrote. */
void test_refused(const char *scratch, const char *packed, const char *rows, const char *own,
                  const char *pairs);

#endif
