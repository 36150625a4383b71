/* philox.h -- random numbers by counter, Philox4x32-10, and the dropout masks drawn from it.
 *
 * Keeps: no state. A draw depends on seed, step, site, sample, position and element only: never on
 *        the rank, the micro-batch split or the number of threads.
 * Method: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). */
#ifndef DIECAST_KERNELS_PHILOX_H
#define DIECAST_KERNELS_PHILOX_H

#include "types.h"

static inline void philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53 * c0, p1 = (uint64_t)0xCD9E8D57 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* Dropout. noise = { seed low, seed high, step, index in the global batch of the micro-batch's
 * first sample }. Row r of a micro-batch is position t = r % T of sample b = r / T. The four words of
 * counter (element / 4, t, noise[3] + b, step) under key (seed low ^ site * 0x9E3779B9, seed high)
 * belong to the elements element / 4 * 4 + 0..3; one is dropped when its word < p * 2^32. 0 <= p < 1.
 * site: a number of its own for every place that drops. */
static inline uint32_t dropout_threshold(float p)
{
    return (uint32_t)((double)p * 4294967296.0);
}

static inline void dropout_words(uint32_t out[4], const uint32_t *noise, uint32_t site, int64_t T,
                                 int64_t row, uint32_t quad)
{
    uint32_t ctr[4] = { quad, (uint32_t)(row % T), noise[3] + (uint32_t)(row / T), noise[2] };
    uint32_t key[2] = { noise[0] ^ site * 0x9E3779B9u, noise[1] };
    philox(ctr, key, out);
}

/* 1 when the element is kept. */
static inline int dropout_keep(const uint32_t *noise, uint32_t site, int64_t T, int64_t row,
                               uint32_t element, float p)
{
    uint32_t out[4];
    dropout_words(out, noise, site, T, row, element / 4);
    return out[element % 4] >= dropout_threshold(p);
}

/* The whole row: mask (n) = 0 where dropped, 1 / (1 - p) where kept. */
static inline void dropout_row(float *restrict mask, const uint32_t *noise, uint32_t site,
                               int64_t T, int64_t row, int64_t n, float p)
{
    const uint32_t threshold = dropout_threshold(p);
    const float scale = 1.0f / (1.0f - p);
#pragma omp simd
    for (int64_t quad = 0; quad < n / 4; quad++) {
        uint32_t out[4];
        dropout_words(out, noise, site, T, row, (uint32_t)quad);
        for (int i = 0; i < 4; i++)
            mask[4 * quad + i] = out[i] >= threshold ? scale : 0.0f;
    }
    for (int64_t i = n / 4 * 4; i < n; i++)
        mask[i] = dropout_keep(noise, site, T, row, (uint32_t)i, p) ? scale : 0.0f;
}

#endif
