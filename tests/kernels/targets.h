/* targets.h -- rows that have a target, for the tests of every target (C and C++).
 *
 * In:    harness.h of the one that includes it.
 * Out:   rows (n): rows of x (all) in order, a third of them at most, then -1; of (all): the inverse. */
#ifndef DIECAST_TESTS_KERNELS_TARGETS_H
#define DIECAST_TESTS_KERNELS_TARGETS_H

#include <stdint.h>

static inline void targets_draw(int32_t *rows, int64_t n, int32_t *of, int64_t all)
{
    int64_t targets = 0;
    for (int64_t i = 0; i < all; i++) {
        const bool target = targets < n && random_below(3) == 0;
        of[i] = target ? (int32_t)targets : -1;
        if (target)
            rows[targets++] = (int32_t)i;
    }
    for (; targets < n; targets++)
        rows[targets] = -1;
}

#endif
