/* gemm_micro.h -- register tiles of the fp32 product, for one vector width: gemm_blocks.h includes
 * this with MICRO_LANES 8 (AVX2) and 16 (AVX-512).
 *
 * In:    packed rows of A and a packed panel of B, see gemm_blocks.h.
 * Out:   GemmTile functions and the table of them.
 * Keeps: each element has a lane of its own and is summed by fused multiply-adds in the order of k,
 *        so bits depend neither on the width, nor on the rows of a tile, nor on the optimisation
 *        level (hence intrinsics: a compiler may or may not contract a * b + c). */
#if MICRO_LANES == 16
#define MICRO(name) gemm_16_##name
#define MICRO_TARGET target("avx512f"), optimize("O3")
#define MICRO_TALL 12            /* rows by two vectors: 24 sums in 32 registers */
#define V(name) _mm512_##name##_ps
typedef __m512 MICRO(Vector);
#else
#define MICRO(name) gemm_8_##name
#define MICRO_TARGET optimize("O3")
#define MICRO_TALL 6             /* 12 in 16 */
#define V(name) _mm256_##name##_ps
typedef __m256 MICRO(Vector);
#endif
#define MICRO_INLINE static inline __attribute__((MICRO_TARGET, always_inline))

/* A tile of `rows` rows and `vectors` vectors. These and `strips` are constants of each call. */
MICRO_INLINE void MICRO(registers)(float *c, int64_t ldc, const float *a, const float *b, int64_t k,
                                   const GemmFinish *finish, const int rows, const int vectors,
                                   const bool strips)
{
    const int ai = strips ? 1 : GEMM_STRIDE, al = strips ? GEMM_STRIP : 1;
    MICRO(Vector) acc[GEMM_STRIP][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        __builtin_prefetch(c + r * ldc, 1);
        __builtin_prefetch(c + r * ldc + vectors * MICRO_LANES - 1, 1);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            acc[r][v] = V(setzero)();
    }
    for (int64_t l = 0; l < k; l++, a += al, b += vectors * MICRO_LANES) {
        MICRO(Vector) columns[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            columns[v] = V(loadu)(b + v * MICRO_LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                acc[r][v] = V(fmadd)(V(set1)(a[r * ai]), columns[v], acc[r][v]);
    }
    const MICRO(Vector) scale = V(set1)(finish->scale);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            float *to = c + r * ldc + v * MICRO_LANES;
            MICRO(Vector) sum = acc[r][v];
            if (finish->bias)
                sum = V(add)(sum, V(loadu)(finish->bias + v * MICRO_LANES));
            V(storeu)(to, finish->add ? V(fmadd)(scale, sum, V(loadu)(to)) : V(mul)(scale, sum));
        }
}

/* One function a tile: inlined into a caller, sums would lose registers to it. */
#define MICRO_TILE(name, rows, vectors)                                                            \
    static __attribute__((MICRO_TARGET, noinline)) void MICRO(rows_##name)(                        \
        float *c, int64_t ldc, const float *a, const float *b, int64_t k, const GemmFinish *f)     \
    {                                                                                              \
        MICRO(registers)(c, ldc, a, b, k, f, rows, vectors, false);                                \
    }                                                                                              \
    static __attribute__((MICRO_TARGET, noinline)) void MICRO(strip_##name)(                       \
        float *c, int64_t ldc, const float *a, const float *b, int64_t k, const GemmFinish *f)     \
    {                                                                                              \
        MICRO(registers)(c, ldc, a, b, k, f, rows, vectors, true);                                 \
    }
MICRO_TILE(12_1, 12, 1)
MICRO_TILE(4_1, 4, 1)
MICRO_TILE(1_1, 1, 1)
MICRO_TILE(tall_2, MICRO_TALL, 2)
MICRO_TILE(4_2, 4, 2)
MICRO_TILE(1_2, 1, 2)
#undef MICRO_TILE

static const GemmTiles MICRO(tiles) = {
    .lanes = MICRO_LANES,
    .rows = { { 12, 4, 1 }, { MICRO_TALL, 4, 1 } },
    .tile = { { { MICRO(rows_12_1), MICRO(strip_12_1) },
                { MICRO(rows_4_1), MICRO(strip_4_1) },
                { MICRO(rows_1_1), MICRO(strip_1_1) } },
              { { MICRO(rows_tall_2), MICRO(strip_tall_2) },
                { MICRO(rows_4_2), MICRO(strip_4_2) },
                { MICRO(rows_1_2), MICRO(strip_1_2) } } }
};

#undef MICRO
#undef MICRO_TALL
#undef MICRO_TARGET
#undef MICRO_INLINE
#undef MICRO_LANES
#undef V
