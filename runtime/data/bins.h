/* bins.h -- bin packing of documents into rows of T tokens: best fit decreasing.
 *
 * In:    the length of each document, at most T.
 * Out:   bins; the documents of a bin have at most T tokens in all.
 * Source: packing "bfd" of TRL: longest document first, into the fullest bin that has room (the
 *         bin that has waited longest if several are equally full), else into a new one. */
#ifndef DIECAST_BINS_H
#define DIECAST_BINS_H

#include <stdint.h>

typedef struct {
    int64_t n;                   /* bins, in the order of creation */
    int32_t *doc;                /* (documents) bin by bin, in the order of insertion */
    int64_t *first;              /* (n + 1) offsets in doc */
} Bins;

/* length: (documents), each 1..T; documents of equal length keep their order. doc and first are
 * malloc'ed. */
Bins bins_pack(const int32_t *length, int64_t documents, int64_t T);
/* Appends the bins of `more`, whose documents are renumbered to start at `document`; empties
 * `more`. */
void bins_append(Bins *b, Bins *more, int64_t document);
void bins_free(Bins *b);

#endif
