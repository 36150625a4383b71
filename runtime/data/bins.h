/* bins.h -- documents put side by side into rows of T tokens: best fit decreasing.
 *
 * In:    the length of each document, at most T.
 * Out:   bins of documents whose lengths add up to at most T.
 * Source: packing "bfd" of TRL: longest first into the bin with the least space that is enough, of
 *         equal bins the one that has waited longest, else into a new one. */
#ifndef DIECAST_BINS_H
#define DIECAST_BINS_H

#include <stdint.h>

typedef struct {
    int64_t n;                   /* bins, in the order in which they were begun */
    int32_t *doc;                /* (documents) bin by bin, in the order in which they came */
    int64_t *first;              /* (n + 1) places in doc */
} Bins;

/* length: (documents), each 1..T; of equal ones the first comes first. doc and first are malloc'ed. */
Bins bins_pack(const int32_t *length, int64_t documents, int64_t T);
/* Those of `more`, whose documents are counted from `document` on, behind those of b; `more` is gone. */
void bins_append(Bins *b, Bins *more, int64_t document);
void bins_free(Bins *b);

#endif
