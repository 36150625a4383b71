/* show.h -- --show N: rows of the first steps, as the batches have them. */
#ifndef DIECAST_RUN_SHOW_H
#define DIECAST_RUN_SHOW_H

#include "runtime/data/data.h"
#include "runtime/pack/show.h"

typedef struct {
    void (*fill)(Data *d, int64_t step);         /* the inputs of a step */
    /* Row `row` of micro-batch `micro` of the step that was filled last; false: it has no such row.
     * What the row points to stays until the next call. */
    bool (*row)(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to);
} ShowOf;

/* `rows` of them, those of rank 0. tok NULL: ids alone. */
void show_steps(const ShowOf *of, Data *d, int64_t rows, const Tokenizer *tok);

/* Row `row` of a micro-batch of T places whose targets have labels: at->labels of every place, or
 * with at->target_of those of the targets. n: how many of the places hold a token; -1: all but the
 * last document of at->ends where that has no target. next: a label stands at the place before that
 * of its token, and the last may be of one that is not in the row. */
void show_labels(ShownRow *to, const Batch *at, int64_t row, int64_t n, int64_t T, bool next);

#endif
