/* unit_normal.c -- normal_block() against Box and Muller's formula by libm, bit for bit. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/model/normal.h"
#include <math.h>
#include <string.h>

static double unit(uint32_t word)
{
    return ((double)word + 0.5) / 4294967296.0;
}

static bool same(const uint32_t *u, const uint32_t *v, double std)
{
    float got[2 * NORMAL_PAIRS], want[2 * NORMAL_PAIRS];
    normal_block(got, u, v, std);
    for (int i = 0; i < NORMAL_PAIRS; i++) {
        const double radius = std * sqrt(-2 * log(unit(u[i]))), angle = 2 * M_PI * unit(v[i]);
        want[2 * i] = (float)(radius * cos(angle));
        want[2 * i + 1] = (float)(radius * sin(angle));
    }
    return !memcmp(got, want, sizeof got);
}

/* Words around the multiples of an eighth turn, where a sine or cosine is least or the quadrant
 * changes; logarithms of the least and the largest numbers; pairs that the polynomials alone would
 * round otherwise. */
void test_normal(void)
{
    static const struct { uint32_t u, v; float std; } close[] = {
        { 0xf6ec86e8, 0xb5dacc40, 0.02f }, { 0x197e1558, 0x626695ce, 0.02f },
        { 0xe075dacd, 0xec7f3716, 1 } };
    enum { EDGES = 2000, BLOCKS = 20000 };
    uint32_t u[NORMAL_PAIRS], v[NORMAL_PAIRS];
    uint64_t state = 1;
    int edges = 0, others = 0;
    for (int k = 0; k < EDGES + BLOCKS; k++) {
        const uint32_t near = (uint32_t)k - EDGES / 2;
        for (int i = 0; i < NORMAL_PAIRS; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            u[i] = (uint32_t)(state >> 32);
            state = state * 6364136223846793005u + 1442695040888963407u;
            v[i] = (uint32_t)(state >> 32);
            if (k < EDGES && i < NORMAL_PAIRS / 2)
                u[i] = near, v[i] = (uint32_t)i * 0x20000000u + near;
        }
        *(k < EDGES ? &edges : &others) += !same(u, v, k & 1 ? 1 : 0.02f);
    }
    check(!edges, "normal at the edges", "%d blocks differ from libm", edges);
    check(!others, "normal", "%d blocks differ from libm", others);
    check(same(u, v, 0x1p-60) && same(u, v, 0), "normal, small", "differs from libm");
    for (int i = 0; i < 3; i++) {
        u[7] = close[i].u, v[7] = close[i].v;
        check(same(u, v, close[i].std), "normal between two floats", "pair %d differs", i);
    }
}
