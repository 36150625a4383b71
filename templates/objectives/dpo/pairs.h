/* pairs.h -- preference pairs: splits of the records, and pairs as rows of a micro-batch.
 *
 * Pair i of a micro-batch has the answers 2 i (chosen) and 2 i + 1 (rejected). */
#ifndef PAIRS_H
#define PAIRS_H

#include "objective.h"
//@ if reference
#include "runtime/run/reference.h"
//@ end
#include "shape.h"

enum { CHOSEN, REJECTED, ANSWERS };
enum { PAIRS = BOTH / ANSWERS };     /* of a micro-batch */

/* Splits of --data, each read in the order of the files. */
typedef enum { TRAIN, TEST, VALIDATION, SPLITS } Split;
extern const char *const split_name[SPLITS];
extern Data split[SPLITS];           /* n 0: no records */
extern const Flags *flags;           /* since objective_open() */
//@ if reference

/* Log-probabilities of the answers by the reference model, for the records of --data and of
 * --eval-data. */
enum { OF_DATA, OF_EVAL_DATA, REFERENCES };
extern Reference reference[REFERENCES];
//@ end

/* The split whose tokenizer is that of all records. */
const Data *pairs_known(void);
/* Fills micro-batch `micro` with this rank's pairs of a step; missing pairs get empty rows. */
void pairs_fill(Data *d, int64_t step, int64_t micro);
/* Fills micro-batch 0 with one answer; its other rows are empty. */
void pairs_fill_alone(const DataRow *answer);
/* Fills a micro-batch with full rows of arbitrary tokens and as many targets as fit. */
void pairs_fill_any(int64_t micro);
/* Target tokens of an answer of micro-batch 0. */
int64_t pairs_targets(int64_t answer);
/* The hook `show`. */
bool pairs_show(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to);

#endif
