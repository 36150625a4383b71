/* reference.h -- numbers of each record by the weights that a run begins with: computed once, by all
 * ranks together, and kept in OUT.
 *
 * Keeps: every rank has all of them, the same on any number of ranks. */
#ifndef DIECAST_REFERENCE_H
#define DIECAST_REFERENCE_H

#include "runtime/data/data.h"

/* In OUT. */
#define REFERENCE_FOLDER ".reference_cache"

typedef struct {
    Data all;                    /* the records, by data_view(); n 0: there are none */
    int width;                   /* numbers of a record */
    const char *made;            /* how: whatever else they depend on */
    /* Of batch `batch` of this rank, by the weights of now: (micro, width), until the next call. */
    const float *(*score)(Data *d, int64_t batch);
    float *value;                /* (n, width), by index; NULL: they are not known */
} Reference;

/* Takes those that were kept; weights: which, as origin_mark() has it; NULL: any. Whether there were.
 * last: otherwise they are made next, and if they were of others that is said. */
bool reference_load(Reference *r, const char *out, const char *weights, bool last);
/* By the weights of now; out NULL: they are not kept. EXIT_IO. */
void reference_make(Reference *r, const char *out, const char *weights);

#endif
