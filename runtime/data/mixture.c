/* mixture.c -- weighted sampling from several sources.
 *
 * Method: the samples of all sources are concatenated, then permuted like an epoch without
 *         weights. */
#include "runtime/data/mixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/data/permutation.h"

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
                   int32_t *order, int32_t *list)
{
    int64_t most = 0, at = 0;
    for (int k = 0; k < sources; k++)
        most = source[k].n > most ? source[k].n : most;
    int32_t *pass = malloc(sizeof *pass * (size_t)most);
    if (!pass)
        die(EXIT_INTERNAL, "out of memory for the order of %lld samples", (long long)most);
    for (int k = 0; k < sources; k++) {
        const DataSource *s = &source[k];
        int64_t next = epoch * s->drawn;                 /* position in its endless passes */
        for (const int64_t end = next + s->drawn; next < end;) {
            const int64_t number = next / s->n, from = next % s->n,
                          n = s->n - from < end - next ? s->n - from : end - next;
            const uint64_t own = mixed(mixed(mixed(seed) + (uint64_t)k) + (uint64_t)number);
            data_permutation(pass, s->n, (uint32_t)(own >> 32));
            for (int64_t i = 0; i < n; i++)
                list[at++] = (int32_t)(s->first + pass[from + i]);
            next += n;
        }
    }
    free(pass);
    data_permutation(order, all, (uint32_t)(seed + (uint64_t)epoch));
    for (int64_t i = 0; i < all; i++)
        order[i] = list[order[i]];
}
