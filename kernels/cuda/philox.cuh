/* philox.cuh -- counter-based random numbers, Philox4x32-10, and dropout masks drawn from
 * them.
 *
 * Keeps: stateless. The stream of runtime/philox.h, bit for bit: a draw depends only on seed,
 *        step, site, sample, position and element.
 * Method: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). */
#ifndef DIECAST_KERNELS_PHILOX_CUH
#define DIECAST_KERNELS_PHILOX_CUH

#include "types.cuh"

static inline __device__ void philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t a = ctr[0], b = ctr[1], c = ctr[2], d = ctr[3];
#pragma unroll
    for (uint32_t round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53 * a, p1 = (uint64_t)0xCD9E8D57 * c;
        a = (uint32_t)(p1 >> 32) ^ b ^ (key[0] + round * 0x9E3779B9u);
        b = (uint32_t)p1;
        c = (uint32_t)(p0 >> 32) ^ d ^ (key[1] + round * 0xBB67AE85u);
        d = (uint32_t)p0;
    }
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}

/* Dropout. noise = { seed low, seed high, step, index in the global batch of the micro-batch's
 * first sample }, on the device. Row r of a micro-batch is position t = r % T of sample b = r / T.
 * The four words of counter (element / 4, t, noise[3] + b, step) under key (seed low ^ site *
 * 0x9E3779B9, seed high) belong to the elements element / 4 * 4 + 0..3; one is dropped when its
 * word < p * 2^32. 0 <= p < 1. site: a number of its own for every mask; which, and what an element
 * of attention's probabilities is: see runtime/philox.h. */
static inline __host__ __device__ uint32_t dropout_threshold(float p)
{
    return (uint32_t)((double)p * 4294967296.0);
}

/* Stochastic rounding: see runtime/philox.h. */
static inline __host__ __device__ uint32_t rounding_key(uint32_t seed_low, uint32_t site)
{
    return seed_low ^ (0x80000000u | site) * 0x9E3779B9u;
}

static inline __host__ __device__ uint32_t dropout_site(uint32_t s)
{
    return 4 * s + 3;
}

/* The quad of a key, of attention's probabilities. */
static inline __device__ uint32_t dropout_quad_of_key(int T, int head, int key)
{
    return (uint32_t)(head * ((T + 3) / 4) + key / 4);
}

static inline __device__ void dropout_words(uint32_t out[4], const uint32_t *noise, uint32_t site,
                                            int64_t T, int64_t row, uint32_t quad)
{
    const uint32_t ctr[4] = { quad, (uint32_t)(row % T), noise[3] + (uint32_t)(row / T), noise[2] };
    const uint32_t key[2] = { noise[0] ^ site * 0x9E3779B9u, noise[1] };
    philox(ctr, key, out);
}

/* Elements 4 quad .. 4 quad + 3 of a row: 0 where dropped, `scale` where kept. threshold:
 * dropout_threshold(p); scale: 1 / (1 - p). */
static inline __device__ void dropout_mask4(float mask[4], const uint32_t *noise, uint32_t site,
                                            int64_t T, int64_t row, uint32_t quad,
                                            uint32_t threshold, float scale)
{
    uint32_t words[4];
    dropout_words(words, noise, site, T, row, quad);
#pragma unroll
    for (int i = 0; i < 4; i++)
        mask[i] = words[i] >= threshold ? scale : 0.0f;
}

/* A place where the model drops elements of rows: its masks. */
struct Dropped {
    const uint32_t *noise;
    uint32_t site, threshold;
    float scale;                    /* of what is kept: 1 / (1 - p) */
    int64_t T;

    /* Multiplies elements 4 quad .. of a row. Rounds as if it were stored: a sum that follows is
     * not joined with it. */
    __device__ __forceinline__ void quad(float v[4], int64_t row, uint32_t quad) const
    {
        float kept[4];
        dropout_mask4(kept, noise, site, T, row, quad, threshold, scale);
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = __fmul_rn(v[i], kept[i]);
    }

    /* The same of W elements from `column`, a multiple of W, rounded as if they were stored. */
    template <int W>
    __device__ __forceinline__ void vector(float *v, int64_t row, int64_t column) const
    {
        static_assert(W % 4 == 0, "whole quads");
#pragma unroll
        for (int k = 0; k < W; k += 4)
            quad(v + k, row, (uint32_t)((column + k) / 4));
        act_round_all<W>(v);
    }
};

/* A place where nothing is dropped. */
struct Undropped {
    template <int W> __device__ __forceinline__ void vector(float *, int64_t, int64_t) const {}
};

/* s: of the place, as its op has it. */
static inline __host__ __device__ Dropped dropped_at(const uint32_t *noise, uint32_t s, float p,
                                                     int64_t T)
{
    return {noise, dropout_site(s), dropout_threshold(p), 1.0f / (1.0f - p), T};
}

#endif
