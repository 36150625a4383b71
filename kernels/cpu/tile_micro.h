/* tile_micro.h -- register tiles of small products for one width of vectors: tile.c includes this
 * with MICRO_LANES 8 (AVX2) and 16 (AVX-512).
 *
 * In:    a Tile, see tile.h.
 * Out:   TileRegisters functions and the table of them.
 * Keeps: each element has a lane of its own and is summed in the order of k by fused multiply-adds,
 *        so bits depend neither on the tile nor on the width. */
#if MICRO_LANES == 16
#define MICRO(name) tile_16_##name
#define MICRO_TARGET target("avx512f"), optimize("O3")
#else
#define MICRO(name) tile_8_##name
#define MICRO_TARGET optimize("O3")
#endif
#include "micro.h"

/* rows x vectors of C. Both counts and `transposed` are constants of each call. */
MICRO_INLINE void MICRO(registers)(const Tile *p, float *c, const float *a, const float *b,
                                   const int rows, const int vectors, const bool transposed)
{
    MICRO(Vector) acc[24];
    const int64_t ldc = p->ldc;
    MICRO(Operands) from = MICRO(operands)(a, p->lda * (int64_t)sizeof *a, b, p->ldb, rows,
                                           transposed);
    const float *row = c;
    const bool add = p->add;
#pragma GCC unroll 24
    for (int r = 0; r < rows; r++, row += ldc)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[r * vectors + v] = add ? V(loadu)(row + v * MICRO_LANES) : V(setzero)();
    int64_t k = p->k;
    for (; k >= MICRO_STEPS; k -= MICRO_STEPS)
#pragma GCC unroll 4
        for (int u = 0; u < MICRO_STEPS; u++)
            MICRO(step)(acc, &from, rows, vectors, transposed);
    for (; MICRO_STEPS > 1 && k > 0; k--)
        MICRO(step)(acc, &from, rows, vectors, transposed);
    __asm__("" : "+r"(c));       /* addresses of rows: cheaper computed again than kept */
#pragma GCC unroll 24
    for (int r = 0; r < rows; r++, c += ldc)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            V(storeu)(c + v * MICRO_LANES, acc[r * vectors + v]);
}

/* One function a tile: inlined into a caller, sums would lose registers to it. */
#define MICRO_TILE(rows, vectors)                                                                  \
    MICRO_CALL void MICRO(rows##_##vectors)(const Tile *p, float *c, const float *a,               \
                                            const float *b)                                        \
    {                                                                                              \
        MICRO(registers)(p, c, a, b, rows, vectors, false);                                        \
    }                                                                                              \
    MICRO_CALL void MICRO(rows##_##vectors##_transposed)(const Tile *p, float *c, const float *a,  \
                                                         const float *b)                           \
    {                                                                                              \
        MICRO(registers)(p, c, a, b, rows, vectors, true);                                         \
    }
#define MICRO_PAIR(size) { MICRO(size), MICRO(size##_transposed) }

#if MICRO_LANES == 16
MICRO_TILE(6, 4)
MICRO_TILE(8, 3)
MICRO_TILE(12, 2)
MICRO_TILE(24, 1)
MICRO_TILE(16, 1)
MICRO_TILE(4, 4)
MICRO_TILE(4, 3)
#else
MICRO_TILE(3, 4)
MICRO_TILE(4, 3)
MICRO_TILE(6, 2)
MICRO_TILE(12, 1)
#endif
MICRO_TILE(2, 4)
MICRO_TILE(4, 2)
MICRO_TILE(8, 1)
MICRO_TILE(4, 1)
MICRO_TILE(1, 4)
MICRO_TILE(1, 3)
MICRO_TILE(1, 2)
MICRO_TILE(1, 1)

static const TileWidth MICRO(widths)[TILE_WIDTHS] = {
#if MICRO_LANES == 16
    { 4,
      { 6, 4, 2, 1 },
      { MICRO_PAIR(6_4), MICRO_PAIR(4_4), MICRO_PAIR(2_4), MICRO_PAIR(1_4) } },
    { 3, { 8, 4, 1 }, { MICRO_PAIR(8_3), MICRO_PAIR(4_3), MICRO_PAIR(1_3) } },
    { 2, { 12, 4, 1 }, { MICRO_PAIR(12_2), MICRO_PAIR(4_2), MICRO_PAIR(1_2) } },
    { 1,
      { 24, 16, 8, 4, 1 },
      { MICRO_PAIR(24_1), MICRO_PAIR(16_1), MICRO_PAIR(8_1), MICRO_PAIR(4_1), MICRO_PAIR(1_1) } },
#else
    { 4, { 3, 2, 1 }, { MICRO_PAIR(3_4), MICRO_PAIR(2_4), MICRO_PAIR(1_4) } },
    { 3, { 4, 1 }, { MICRO_PAIR(4_3), MICRO_PAIR(1_3) } },
    { 2, { 6, 4, 1 }, { MICRO_PAIR(6_2), MICRO_PAIR(4_2), MICRO_PAIR(1_2) } },
    { 1,
      { 12, 8, 4, 1 },
      { MICRO_PAIR(12_1), MICRO_PAIR(8_1), MICRO_PAIR(4_1), MICRO_PAIR(1_1) } },
#endif
};

#undef MICRO
#undef MICRO_TARGET
#undef MICRO_TILE
#undef MICRO_PAIR
#undef MICRO_LANES
#undef MICRO_STEPS
#undef MICRO_ADD
#undef MICRO_INLINE
#undef MICRO_CALL
#undef V
