/* philox.h -- counter-based random numbers (Philox4x32-10) and dropout masks.
 *
 * Keeps: no state. A draw depends on seed, step, site, sample, position and element only: never on
 *        the rank, the micro-batch split or the number of threads.
 * Method: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). */
#ifndef DIECAST_PHILOX_H
#define DIECAST_PHILOX_H

#include <stdint.h>

/* Round 0..9 on the words a, b, c, d. A macro, because a call with addresses of locals would keep
 * them in memory, and loops would not vectorise. */
#define PHILOX_ROUND(a, b, c, d, k0, k1, round)                                \
    do {                                                                       \
        uint64_t p0 = (uint64_t)0xD2511F53 * a, p1 = (uint64_t)0xCD9E8D57 * c; \
        a = (uint32_t)(p1 >> 32) ^ b ^ (k0 + round * 0x9E3779B9);              \
        b = (uint32_t)p1;                                                      \
        c = (uint32_t)(p0 >> 32) ^ d ^ (k1 + round * 0xBB67AE85);              \
        d = (uint32_t)p0;                                                      \
    } while (0)

static inline void philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t a = ctr[0], b = ctr[1], c = ctr[2], d = ctr[3];
    for (uint32_t round = 0; round < 10; round++)
        PHILOX_ROUND(a, b, c, d, key[0], key[1], round);
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}

/* Dropout. noise = { seed low, seed high, step, index in the global batch of the micro-batch's
 * first sample }. Row r of a micro-batch is position t = r % T of sample b = r / T. The four words
 * of counter (element / 4, t, noise[3] + b, step) under key (seed low ^ site * 0x9E3779B9, seed
 * high) belong to the elements element / 4 * 4 + 0..3; an element is dropped if its word < p *
 * 2^32. 0 <= p < 1.
 *
 * site: unique per mask: 4 s + part for parts 0..2 of an adapter, with s the number of its linear
 * layer; 4 s + 3 for the s-th place where the model itself applies dropout, see dropout_site().
 * Attention probabilities: the row is the query, the element of head h and key j is h * T' + j,
 * with T' = T rounded up to a multiple of 4, so that a quad belongs to one head. */
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

static inline uint32_t dropout_site(uint32_t s)
{
    return 4 * s + 3;
}

/* Stochastic rounding of a parameter's elements: word e / 2 % 4 of counter (e / 8 as 64 bits,
 * update, layer) under key (this, seed high) has 16 bits for element e: the low ones if e is
 * even. */
static inline uint32_t rounding_key(uint32_t seed_low, uint32_t site)
{
    return seed_low ^ (0x80000000u | site) * 0x9E3779B9u;
}

/* The quad of a key, for attention probabilities. */
static inline uint32_t dropout_quad_of_key(int64_t T, int64_t head, int64_t key)
{
    return (uint32_t)(head * ((T + 3) / 4) + key / 4);
}

#endif
