/* show.h -- sample rows of the first batches (--show N). */
#ifndef DIECAST_RUN_SHOW_H
#define DIECAST_RUN_SHOW_H

#include "runtime/data/data.h"
#include "runtime/pack/show.h"

typedef struct {
    void (*fill)(Data *d, int64_t step);         /* fills the inputs of a step */
    /* Fills *to with row `row` of micro-batch `micro` of the last filled step; false: no such row.
     * Pointers in *to stay valid until the next call. */
    bool (*row)(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to);
} ShowOf;

/* Prints `rows` rows of rank 0. by NULL: ids only. */
void show_steps(const ShowOf *of, Data *d, int64_t rows, const TokenText *by);

/* Sets the labels of row `row` of a micro-batch of T positions: at->labels for every position, or
 * with at->target_of only for the targets. n: number of positions with a token; -1: all except the
 * last document of at->doc_ends if that has no target. next: labels are shifted, each at the
 * position before its token; the last label may belong to a token outside the row. */
void show_labels(ShownRow *to, const Batch *at, int64_t row, int64_t n, int64_t T, bool next);

#endif
