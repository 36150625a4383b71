/* data_bins.c -- documents packed into bins, which become the samples. */
#include "runtime/data/data_parts.h"

#include <stdlib.h>

#include "runtime/base.h"

/* Packs n documents from `first` on into new bins; returns their number. */
static int64_t add_bins(Data *d, int64_t first, int64_t n)
{
    int32_t *length = malloc(sizeof *length * (size_t)n);
    if (!length)
        die(EXIT_INTERNAL, "out of memory for the lengths of %lld documents", (long long)n);
    for (int64_t i = 0; i < n; i++)
        length[i] = (int32_t)data_piece_at(d, first + i, 0).have;
    Bins more = bins_pack(length, n, d->T);
    const int64_t bins = more.n;
    bins_append(&d->bins, &more, first);
    free(length);
    return bins;
}

void data_fill_bins(Data *d)
{
    if (!d->nsources)
        add_bins(d, 0, d->n);
    for (int k = 0; k < d->nsources; k++) {
        const int64_t first = d->bins.n, n = add_bins(d, d->source[k].first, d->source[k].n);
        d->source[k].first = first;
        d->source[k].n = n;
    }
    d->n = d->bins.n;
}
