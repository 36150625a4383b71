/* shares.h -- division of large values over ranks.
 *
 * A tensor of a value (one layer's weights, gradients, moments) is cut into SHARES shares of equal
 * size, a multiple of SHARE_UNIT elements. Rank r of N owns shares r * c .. r * c + c - 1, with
 * c = share_count(N): its part. Elements beyond the tensor's end are padding and stay 0. Shares do
 * not depend on N, so sums over them can be the same for any number of ranks. */
#ifndef DIECAST_SHARES_H
#define DIECAST_SHARES_H

#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif

enum {
    SHARES = 64,
    SHARE_UNIT = 256,
    SHARE_LEAST = 1 << 16    /* elements of a tensor that is worth dividing */
};

#ifndef __CUDACC_RTC__
/* Returns the elements of a share of a tensor of n elements. */
static inline int64_t share_elements(int64_t n)
{
    const int64_t each = (n + SHARES - 1) / SHARES;
    return (each + SHARE_UNIT - 1) / SHARE_UNIT * SHARE_UNIT;
}

/* Returns the shares that a rank owns; those of the last ranks may be padding only. */
static inline int64_t share_count(int64_t ranks) { return (SHARES + ranks - 1) / ranks; }
#endif

/* Columns of sums of squares that a gradient fills, one for each of its tensors, and of all
 * gradients. */
typedef struct {
    int64_t first, all;
} SquareColumns;

#endif
