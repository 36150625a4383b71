/* dropout_keep.h -- the dropout mask one element at a time, as runtime/philox.h defines it.
 *
 * Include after runtime/philox.h, in the same namespace. */
#ifndef DROPOUT_KEEP_H
#define DROPOUT_KEEP_H

/* Returns 1 if the element is kept. */
static inline int dropout_keep(const uint32_t *noise, uint32_t site, int64_t T, int64_t row,
                               uint32_t element, float p)
{
    uint32_t out[4];
    dropout_words(out, noise, site, T, row, element / 4);
    return out[element % 4] >= dropout_threshold(p);
}

#endif
