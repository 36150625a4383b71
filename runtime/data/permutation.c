/* permutation.c -- PyTorch's random permutation: mt19937 and Fisher-Yates. */
#include "runtime/data/permutation.h"

#include "runtime/base.h"

/* Matsumoto and Nishimura, 1998; mt19937. */
typedef struct {
    uint32_t x[624];
    int at;
} Twister;

static void twister_seed(Twister *t, uint32_t seed)
{
    t->x[0] = seed;
    for (uint32_t i = 1; i < 624; i++)
        t->x[i] = 1812433253u * (t->x[i - 1] ^ t->x[i - 1] >> 30) + i;
    t->at = 624;
}

static uint32_t twister_next(Twister *t)
{
    if (t->at == 624) {
        for (int i = 0; i < 624; i++) {
            uint32_t y = (t->x[i] & 0x80000000u) | (t->x[(i + 1) % 624] & 0x7fffffffu);
            t->x[i] = t->x[(i + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        t->at = 0;
    }
    uint32_t y = t->x[t->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

void data_permutation(int32_t *p, int64_t n, uint32_t seed)
{
    Twister t;
    REQUIRE(n >= 0 && n <= DATA_SAMPLES_MAX);
    twister_seed(&t, seed);
    for (int64_t i = 0; i < n; i++)
        p[i] = (int32_t)i;
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t j = i + twister_next(&t) % (uint32_t)(n - i);
        int32_t swap = p[i];
        p[i] = p[j];
        p[j] = swap;
    }
}
