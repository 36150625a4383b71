/* peak.c -- how many fp32 operations a second the threads of this machine can do at most.
 *
 * Out:   GFLOP/s on stdout: multiply-adds of vectors in registers, the best of many short rounds. */
#include <omp.h>
#include <stdio.h>

#include "kernels/cpu/tile.h"

enum { SUMS = 12, TURNS = 200000, ROUNDS = 50 };

static volatile float zero;              /* volatile: gcc cannot drop or reorder the sums */

int main(void)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = omp_get_wtime();
        float kept = 0;
#pragma omp parallel reduction(+ : kept)
        {
            TileVec sum[SUMS] = { { 0 } }, a = { 0 }, b = { 0 };
            a += 0.999f + zero, b += 0.001f + zero;
            for (int i = 0; i < SUMS; i++)
                sum[i] += (float)i + zero;
            for (int turn = 0; turn < TURNS; turn++)
#pragma GCC unroll 12
                for (int i = 0; i < SUMS; i++)
                    sum[i] = sum[i] * a + b;
            for (int i = 0; i < SUMS; i++)
                kept += sum[i][0];
        }
        const double operations = 2.0 * SUMS * TURNS * TILE_LANES * omp_get_max_threads();
        const double rate = operations / (omp_get_wtime() - begin) * 1e-9;
        best = rate > best && kept > 0 ? rate : best;
    }
    printf("%.1f\n", best);
    return 0;
}
