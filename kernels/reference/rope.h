/* rope.h -- rotary positions (Su et al. 2021) in double, in place, for the tests of every target.
 *
 * In:    qkv (rows, (NH + 2 KV) D), row r at position positions[r], NULL: r % T; cosine, sine
 *        (T, D/2).
 * Method: each pair of a head is rotated, half-split as in Llama; v untouched. */
#ifndef DIECAST_KERNELS_REFERENCE_ROPE_H
#define DIECAST_KERNELS_REFERENCE_ROPE_H

#include <stdint.h>

/* inverse: rotates by the negative angle. */
static inline void rope_ref(double *qkv, const double *cosine, const double *sine,
                            const int32_t *positions, int64_t rows, int64_t T, int64_t NH,
                            int64_t KV,
                            int64_t D, int inverse)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < NH + KV; h++)
            for (int64_t j = 0; j < D / 2; j++) {
                double *x1 = qkv + r * (NH + 2 * KV) * D + h * D + j, *x2 = x1 + D / 2;
                int64_t angle = (positions ? positions[r] : r % T) * (D / 2) + j;
                double c = cosine[angle], s = sine[angle];
                double a = *x1, b = *x2;
                s = inverse ? -s : s;
                *x1 = a * c - b * s;
                *x2 = b * c + a * s;
            }
}

#endif
