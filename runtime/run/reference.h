/* reference.h -- per-record reference values of the initial weights.
 *
 * Computed once by all ranks together, and cached in OUT.
 *
 * Keeps: every rank has all values, identical for any number of ranks. */
#ifndef DIECAST_REFERENCE_H
#define DIECAST_REFERENCE_H

#include "runtime/data/data.h"

/* Folder in OUT. */
#define REFERENCE_FOLDER ".reference_cache"

typedef struct {
    Data all;                    /* the records, a data_view(); n 0: none */
    int width;                   /* values per record */
    const char *made;            /* the method: everything else the values depend on */
    /* Values (micro, width) of batch `batch` of this rank by the current weights, valid until the
     * next call. */
    const float *(*score)(Data *d, int64_t batch);
    float *value;                /* (n, width), by record index; NULL: not known */
} Reference;

/* Loads cached values; returns true if there were any. weights: the initial weights, as returned by
 * initial_mark(); NULL: any. last: no other source follows, so cached values of other weights are
 * reported before recomputing. */
bool reference_load(Reference *r, const char *out, const char *weights, bool last);
/* Computes the values from the current weights and caches them in out (NULL: not cached).
 * EXIT_IO. */
void reference_make(Reference *r, const char *out, const char *weights);

#endif
