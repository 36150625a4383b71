/* shuffle.c -- order of an epoch: PyTorch's random permutation, mt19937 and Fisher-Yates; weighted
 * sampling from several sources.
 *
 * Method: the samples of all sources are concatenated, then permuted like an epoch without
 *         weights. */
#include "runtime/data/shuffle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"

/* ---- one source ------------------------------------------------------------------------------ */

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

/* ---- several sources ------------------------------------------------------------------------- */

void mixture_share(DataSource *source, int sources, int64_t all)
{
    double sum = 0;
    int64_t left = all;
    for (int k = 0; k < sources; k++) {
        REQUIRE(source[k].weight >= 0);
        sum += source[k].weight;
    }
    REQUIRE(sources > 0 && sum > 0);
    double *rest = malloc(sizeof *rest * (size_t)sources);
    if (!rest)
        die(EXIT_INTERNAL, "out of memory for the shares of %d sources", sources);
    for (int k = 0; k < sources; k++) {
        const double share = (double)all * (source[k].weight / sum);
        left -= source[k].drawn = (int64_t)floor(share);
        rest[k] = share - floor(share);
    }
    for (; left > 0; left--) {
        int most = -1;
        for (int k = 0; k < sources; k++)
            if (source[k].weight > 0 && (most < 0 || rest[k] > rest[most]))
                most = k;
        source[most].drawn++;
        rest[most]--;
    }
    for (; left < 0; left++) {       /* the floating-point shares were rounded up */
        int most = 0;
        for (int k = 1; k < sources; k++)
            if (source[k].drawn > source[most].drawn)
                most = k;
        source[most].drawn--;
    }
    free(rest);
}

/* Steele, Lea and Flood, 2014: the finisher of SplitMix. */
static uint64_t mixed(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void mixture_order(const DataSource *source, int sources, int64_t all, uint64_t seed, int64_t epoch,
                   int32_t *order, int32_t *pass)
{
    typedef struct { int32_t sample, pass; } Drawn;
    int64_t most = 0, at = 0;
    for (int k = 0; k < sources; k++)
        most = source[k].n > most ? source[k].n : most;
    int32_t *shuffled = malloc(sizeof *shuffled * (size_t)most);
    Drawn *drawn = malloc(sizeof *drawn * (size_t)all);
    if (!shuffled || !drawn)
        die(EXIT_INTERNAL, "out of memory for the order of %lld samples", (long long)all);
    for (int k = 0; k < sources; k++) {
        const DataSource *s = &source[k];
        int64_t next = epoch * s->drawn;                 /* position in its endless passes */
        const int64_t begin = next, end = next + s->drawn;
        while (next < end) {
            const int64_t number = next / s->n, from = next % s->n,
                          n = s->n - from < end - next ? s->n - from : end - next;
            const uint64_t hash = mixed(mixed(mixed(seed) + (uint64_t)k) + (uint64_t)number);
            data_permutation(shuffled, s->n, (uint32_t)(hash >> 32));
            for (int64_t i = 0; i < n; i++)
                drawn[at++] = (Drawn){(int32_t)(s->first + shuffled[from + i]),
                                      (int32_t)(number - begin / s->n)};
            next += n;
        }
    }
    data_permutation(order, all, (uint32_t)(seed + (uint64_t)epoch));
    for (int64_t i = 0; i < all; i++) {
        pass[i] = drawn[order[i]].pass;
        order[i] = drawn[order[i]].sample;
    }
    free(shuffled), free(drawn);
}
