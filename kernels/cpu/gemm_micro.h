/* gemm_micro.h -- register tiles and packing of products, for one kind of multiply-add:
 * gemm_tiles_*.c include this with MICRO_LANES 8 (AVX2) and 16 (AVX-512), whose units are floats,
 * and in bf16 with MICRO_PAIRS, too (AVX512_BF16), whose units are pairs of bf16 values.
 *
 * In:    packed rows of A and a packed panel of B, see gemm_blocks.h; act_t for the packing.
 * Out:   GemmTile and GemmPack functions and the table of them.
 * Keeps: each element has a lane of its own and is summed in the order of k, so bits do not depend
 *        on the rows of a tile; of fused multiply-adds neither on the width, nor on the
 *        optimisation level: see micro.h. */
#if MICRO_LANES == 16
#define MICRO_TALL 12            /* rows by two vectors: 24 sums in 32 registers */
#define MICRO_HEIGHTS { 12, 8, 4, 1 }
#ifdef MICRO_PAIRS
#define MICRO(name) gemm_pairs_##name
#define MICRO_NAME "AVX512_BF16"
#define MICRO_VALUES 2
#define MICRO_DEPTH GEMM_DEEP
#define MICRO_TARGET target("avx512f,avx512bw,avx512vl,avx512bf16"), optimize("O3")
#else
#define MICRO(name) gemm_16_##name
#define MICRO_NAME "AVX-512"
#define MICRO_TARGET target("avx512f,avx512bw,avx512vl"), optimize("O3")
#endif
#else
#define MICRO(name) gemm_8_##name
#define MICRO_NAME "AVX2"
#define MICRO_TARGET optimize("O3")
#define MICRO_TALL 6             /* 12 in 16 */
#define MICRO_HEIGHTS { 6, 4, 1 }
#endif
#ifndef MICRO_PAIRS
#define MICRO_VALUES 1
#define MICRO_DEPTH GEMM_DEPTH
#endif
#include "micro.h"

#if MICRO_LANES == 16
MICRO_INLINE __mmask16 MICRO(mask)(int n)
{
    return (__mmask16)((1u << n) - 1);
}
#endif

/* The first n floats of a vector; AVX2: all. */
MICRO_INLINE MICRO(Vector) MICRO(load_floats)(const float *x, int n)
{
#if MICRO_LANES == 16
    if (n < MICRO_LANES)
        return _mm512_maskz_loadu_ps(MICRO(mask)(n), x);
#endif
    (void)n;
    return V(loadu)(x);
}

MICRO_INLINE void MICRO(store_floats)(float *y, MICRO(Vector) v, int n)
{
#if MICRO_LANES == 16
    if (n < MICRO_LANES) {
        _mm512_mask_storeu_ps(y, MICRO(mask)(n), v);
        return;
    }
#endif
    (void)n;
    V(storeu)(y, v);
}

/* The first n elements of a vector in fp32, and back, rounded as by act_store(). AVX2: all. */
MICRO_INLINE MICRO(Vector) MICRO(load)(const act_t *x, int n)
{
#ifndef ACT_BF16
    return MICRO(load_floats)(x, n);
#elif MICRO_LANES == 16
    const __m256i bits = _mm256_maskz_loadu_epi16(MICRO(mask)(n), x);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
#else
    (void)n;
    const __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)x);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
#endif
}

MICRO_INLINE void MICRO(store)(act_t *y, MICRO(Vector) v, int n)
{
#ifndef ACT_BF16
    MICRO(store_floats)(y, v, n);
#elif defined MICRO_PAIRS
    _mm256_mask_storeu_epi16(y, MICRO(mask)(n), (__m256i)_mm512_cvtneps_pbh(v));
#elif MICRO_LANES == 16
    const __m512i bits = _mm512_castps_si512(v), nan = _mm512_set1_epi32(0x7fc0);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i to = _mm512_mask_mov_epi32(_mm512_srli_epi32(up, 16),
                                             _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
    _mm256_mask_storeu_epi16(y, MICRO(mask)(n), _mm512_cvtepi32_epi16(to));
#else
    (void)n;
    const __m256i bits = _mm256_castps_si256(v), nan = _mm256_set1_epi32(0x7fc0);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i to = _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), nan, is_nan);
    const __m256i low = _mm256_permute4x64_epi64(_mm256_packus_epi32(to, to), 0x08);
    _mm_storeu_si128((__m128i *)(void *)y, _mm256_castsi256_si128(low));
#endif
}

/* ---- tiles ------------------------------------------------------------------------------ */

/* The last operation on a tile's sums, of which the first vectors have n0 and n1 columns of C. */
MICRO_INLINE void MICRO(finish)(MICRO(Vector) *acc, float *c, int64_t ldc, act_t *y,
                                const GemmFinish *finish, const int rows, const int vectors,
                                const int n0, const int n1)
{
    const MICRO(Vector) scale = V(set1)(finish->scale);
    const int64_t ldy = finish->ld;
#define MICRO_EACH(statement)                                                                      \
    _Pragma("GCC unroll 12") for (int r = 0; r < rows; r++)                                        \
        _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++)                                  \
    {                                                                                              \
        const int64_t j = v * MICRO_LANES;                                                         \
        const int n = v ? n1 : n0;                                                                 \
        MICRO(Vector) *sum = acc + r * vectors + v;                                                \
        statement;                                                                                 \
    }
    if (y && finish->add)
        MICRO_EACH(*sum = V(add)(*sum, MICRO(load_floats)(c + r * ldc + j, n)))
    if (finish->bias)
        MICRO_EACH(*sum = V(add)(*sum, MICRO(load_floats)(finish->bias + j, n)))
    if (!y && finish->add)
        MICRO_EACH(MICRO(store_floats)(
            c + r * ldc + j, V(fmadd)(scale, *sum, MICRO(load_floats)(c + r * ldc + j, n)), n))
    else if (!y)
        MICRO_EACH(MICRO(store_floats)(c + r * ldc + j, V(mul)(scale, *sum), n))
    else if (finish->onto)
        MICRO_EACH(MICRO(store)(y + r * ldy + j,
                                V(fmadd)(scale, *sum, MICRO(load)(y + r * ldy + j, n)), n))
    else
        MICRO_EACH(MICRO(store)(y + r * ldy + j, V(mul)(scale, *sum), n))
#undef MICRO_EACH
}

/* A tile of `rows` rows and `vectors` vectors. These and `strips` are constants of each call. */
MICRO_INLINE void MICRO(registers)(float *c, int64_t ldc, const char *a, const GemmInput *in,
                                   const GemmFinish *finish, const int rows, const int vectors,
                                   const bool strips)
{
    const char *ahead = in->ahead;
    const int64_t step = in->step;
    int64_t left = in->left;
    MICRO(Operands) from = MICRO(operands)(a, in->ai, in->b, in->ldb, rows, strips);
    MICRO(Vector) acc[2 * GEMM_STRIP];
    act_t *y = finish->rounded;
    const int64_t ldy = finish->ld, last = vectors * MICRO_LANES - 1;
    const float *to = c;
    if (!y || finish->add)
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++, to += ldc) {
            __builtin_prefetch(to, 1);
            __builtin_prefetch(to + last, 1);
        }
    else
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            __builtin_prefetch(y + r * ldy, 1);
#pragma GCC unroll 24
    for (int i = 0; i < rows * vectors; i++)
        acc[i] = V(setzero)();
    int64_t k = in->k;
    for (; k >= MICRO_STEPS; k -= MICRO_STEPS) {
        __builtin_prefetch(ahead);
        ahead += step;
        if (--left == 0)
            left = in->lines, ahead += in->skip;
#pragma GCC unroll 4
        for (int u = 0; u < MICRO_STEPS; u++)
            MICRO(step)(acc, &from, rows, vectors, strips);
    }
    for (; MICRO_STEPS > 1 && k > 0; k--)
        MICRO(step)(acc, &from, rows, vectors, strips);
    from = MICRO(operands)(in->term_a, GEMM_TERM_STRIDE * (int)sizeof(float), in->term_b,
                           vectors * MICRO_LANES, rows, strips);
    for (k = strips ? 0 : in->term; k > 0; k--)
        MICRO(step)(acc, &from, rows, vectors, strips);
    /* addresses of rows: cheaper computed again than kept */
    __asm__("" : "+r"(c), "+r"(y));
    if (MICRO_LANES == 8 || finish->columns >= vectors * MICRO_LANES)
        MICRO(finish)(acc, c, ldc, y, finish, rows, vectors, MICRO_LANES, MICRO_LANES);
    else if (finish->columns >= MICRO_LANES)
        MICRO(finish)(acc, c, ldc, y, finish, rows, vectors, MICRO_LANES,
                      (int)finish->columns - MICRO_LANES);
    else
        MICRO(finish)(acc, c, ldc, y, finish, rows, vectors, (int)finish->columns, 0);
}

/* One function a tile: inlined into a caller, sums would lose registers to it. */
#define MICRO_TILE(name, rows, vectors)                                                            \
    MICRO_CALL void MICRO(rows_##name)(float *c, int64_t ldc, const void *a, const GemmInput *in,  \
                                       const GemmFinish *f)                                        \
    {                                                                                              \
        MICRO(registers)(c, ldc, a, in, f, rows, vectors, false);                                  \
    }                                                                                              \
    MICRO_CALL void MICRO(strip_##name)(float *c, int64_t ldc, const void *a, const GemmInput *in, \
                                        const GemmFinish *f)                                       \
    {                                                                                              \
        MICRO(registers)(c, ldc, a, in, f, rows, vectors, true);                                   \
    }
MICRO_TILE(12_1, 12, 1)
MICRO_TILE(4_1, 4, 1)
MICRO_TILE(1_1, 1, 1)
MICRO_TILE(tall_2, MICRO_TALL, 2)
#if MICRO_LANES == 16
MICRO_TILE(8_2, 8, 2)
#endif
MICRO_TILE(4_2, 4, 2)
MICRO_TILE(1_2, 1, 2)
#undef MICRO_TILE

/* ---- packing ---------------------------------------------------------------------------- */

#ifdef MICRO_PAIRS
typedef uint32_t __attribute__((may_alias, aligned(4))) MICRO(Unit);
#else
typedef float MICRO(Unit);
#endif

/* The unit of x[0] and, `next` elements after it, of the next k; without `whole` there is none. */
MICRO_INLINE MICRO(Unit) MICRO(unit)(const act_t *x, int64_t next, bool whole)
{
#ifdef MICRO_PAIRS
    return x[0] | (whole ? (uint32_t)x[next] << 16 : 0);
#else
    (void)next, (void)whole;
    return act_load(x);
#endif
}

/* Prefetches x[next], which may lie after the end of an operand. */
MICRO_INLINE void MICRO(prefetch)(const act_t *x, int64_t next)
{
    __builtin_prefetch((const void *)((uintptr_t)x + (uintptr_t)next * sizeof *x));
}

/* n rows of k elements each. */
MICRO_CALL void MICRO(pack_rows)(float *t, int64_t ldt, const act_t *x, int64_t ld, int64_t n,
                                 int64_t k)
{
    MICRO(Unit) *to = (MICRO(Unit) *)t;
    const int64_t whole = k / MICRO_VALUES;
    for (int64_t i = 0; i < n; i++, to += ldt, x += ld) {
#ifdef MICRO_PAIRS
        memcpy(to, x, (size_t)whole * sizeof *to);
#else
        for (int64_t l = 0; l < whole; l++)
            to[l] = act_load(x + l);
#endif
        if (k % MICRO_VALUES)
            to[whole] = MICRO(unit)(x + k - 1, 1, false);
    }
}

/* A row of n units: those of x[0..n) and of the next k, `next` elements on. */
MICRO_INLINE void MICRO(row)(MICRO(Unit) *restrict t, const act_t *restrict x, int64_t next,
                             bool whole, int64_t n)
{
    int64_t j = 0;
    (void)next, (void)whole;     /* of floats */
#if MICRO_LANES == 16
    for (; j < n; j += 16) {
        const __mmask16 mask = n - j < 16 ? (__mmask16)((1 << (n - j)) - 1) : 0xffff;
#ifdef ACT_BF16
        __m512i units = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x + j));
#ifdef MICRO_PAIRS
        if (whole) {
            const __m256i after = _mm256_maskz_loadu_epi16(mask, x + next + j);
            units = _mm512_or_si512(units, _mm512_slli_epi32(_mm512_cvtepu16_epi32(after), 16));
        }
#else
        units = _mm512_slli_epi32(units, 16);
#endif
        _mm512_mask_storeu_epi32(t + j, mask, units);
#else
        _mm512_mask_storeu_ps(t + j, mask, _mm512_maskz_loadu_ps(mask, x + j));
#endif
    }
#else
    for (; j < n; j++)
        t[j] = MICRO(unit)(x + j, next, whole);
#endif
}

/* k rows of at most GEMM_TOGETHER strips. */
MICRO_INLINE void MICRO(columns)(MICRO(Unit) *restrict t, int64_t ldt, int64_t apart,
                                 const act_t *restrict x, int64_t ld, int64_t n, int64_t strips,
                                 int64_t k)
{
    const int64_t whole = k / MICRO_VALUES, line = GEMM_LINE / (int64_t)sizeof *x;
    for (int64_t l = 0; l < whole; l++)
        for (int64_t s = 0; s < strips; s++) {
            const act_t *row = x + l * MICRO_VALUES * ld + s * n;
            for (int64_t v = 0; v < MICRO_VALUES; v++)
                for (int64_t j = 0; j < n; j += line)
                    MICRO(prefetch)(row + j, (GEMM_AHEAD + v) * ld);
            MICRO(row)(t + s * apart + l * ldt, row, ld, true, n);
        }
    if (k % MICRO_VALUES)
        for (int64_t s = 0; s < strips; s++)
            MICRO(row)(t + s * apart + whole * ldt, x + (k - 1) * ld + s * n, ld, false, n);
}

/* Several strips together: of one alone, each row would be a line far from the one before it, which
 * no hardware prefetches. The usual n are constants, for unrolled loops. */
MICRO_CALL void MICRO(pack_columns)(float *t, int64_t ldt, int64_t apart, const act_t *x,
                                    int64_t ld, int64_t n, int64_t strips, int64_t k)
{
    MICRO(Unit) *to = (MICRO(Unit) *)t;
    for (int64_t s = 0; s < strips; s += GEMM_TOGETHER, to += GEMM_TOGETHER * apart,
                 x += GEMM_TOGETHER * n) {
        const int64_t some = strips - s < GEMM_TOGETHER ? strips - s : GEMM_TOGETHER;
        if (n == 2 * MICRO_LANES)
            MICRO(columns)(to, ldt, apart, x, ld, 2 * MICRO_LANES, some, k);
        else if (n == MICRO_LANES)
            MICRO(columns)(to, ldt, apart, x, ld, MICRO_LANES, some, k);
        else if (n == GEMM_STRIP)
            MICRO(columns)(to, ldt, apart, x, ld, GEMM_STRIP, some, k);
        else
            MICRO(columns)(to, ldt, apart, x, ld, n, some, k);
    }
}

/* The transpose of n rows of k elements each. */
MICRO_CALL void MICRO(pack_transposed)(float *t, int64_t ldt, const act_t *x, int64_t ld, int64_t n,
                                       int64_t k)
{
    typedef int32_t Ints __attribute__((vector_size(MICRO_LANES * 4)));
    MICRO(Unit) *to = (MICRO(Unit) *)t;
    const int64_t whole = k / (MICRO_LANES * MICRO_VALUES) * MICRO_LANES;
    int64_t i = 0;
    for (; i + MICRO_LANES <= n; i += MICRO_LANES)
        for (int64_t l = 0; l < whole; l += MICRO_LANES) {
            MICRO(Vector) v[MICRO_LANES];
#pragma GCC unroll 16
            for (int r = 0; r < MICRO_LANES; r++)
                MICRO(prefetch)(x + (i + r) * ld + MICRO_VALUES * l, MICRO_LANES * ld);
#pragma GCC unroll 16
            for (int r = 0; r < MICRO_LANES; r++)
#ifdef MICRO_PAIRS
                v[r] = V(loadu)((const void *)(x + (i + r) * ld + 2 * l));
#else
                v[r] = MICRO(load)(x + (i + r) * ld + l, MICRO_LANES);
#endif
            /* pairs of rows exchange halves, then quarters and so on */
#pragma GCC unroll 4
            for (int s = MICRO_LANES / 2; s > 0; s /= 2) {
                Ints low = { 0 }, high = { 0 };
#pragma GCC unroll 16
                for (int r = 0; r < MICRO_LANES; r++) {
                    low[r] = r & s ? MICRO_LANES + r - s : r;
                    high[r] = r & s ? MICRO_LANES + r : r + s;
                }
#pragma GCC unroll 16
                for (int r = 0; r < MICRO_LANES; r++)
                    if (!(r & s)) {
                        const MICRO(Vector) a = v[r], b = v[r + s];
                        v[r] = __builtin_shuffle(a, b, low);
                        v[r + s] = __builtin_shuffle(a, b, high);
                    }
            }
#pragma GCC unroll 16
            for (int r = 0; r < MICRO_LANES; r++)
                V(storeu)(t + (l + r) * ldt + i, v[r]);
        }
    for (int64_t r = 0; r < n; r++)
        for (int64_t l = r < i ? whole : 0; l * MICRO_VALUES < k; l++)
            to[l * ldt + r] = MICRO(unit)(x + r * ld + l * MICRO_VALUES, 1,
                                          (l + 1) * MICRO_VALUES <= k);
}

static const GemmTiles MICRO(tiles) = {
    .name = MICRO_NAME,
    .lanes = MICRO_LANES,
    .values = MICRO_VALUES,
    .steps = MICRO_STEPS,
    .depth = MICRO_DEPTH,
    .rows = { { 12, 4, 1 }, MICRO_HEIGHTS },
    .tile = { { { MICRO(rows_12_1), MICRO(strip_12_1) },
                { MICRO(rows_4_1), MICRO(strip_4_1) },
                { MICRO(rows_1_1), MICRO(strip_1_1) } },
              { { MICRO(rows_tall_2), MICRO(strip_tall_2) },
#if MICRO_LANES == 16
                { MICRO(rows_8_2), MICRO(strip_8_2) },
#endif
                { MICRO(rows_4_2), MICRO(strip_4_2) },
                { MICRO(rows_1_2), MICRO(strip_1_2) } } },
    .pack_rows = MICRO(pack_rows),
    .pack_columns = MICRO(pack_columns),
    .pack_transposed = MICRO(pack_transposed),
};

#undef MICRO
#undef MICRO_NAME
#undef MICRO_VALUES
#undef MICRO_DEPTH
#undef MICRO_TALL
#undef MICRO_HEIGHTS
#undef MICRO_TARGET
#undef MICRO_LANES
#undef MICRO_STEPS
#undef MICRO_ADD
#undef MICRO_INLINE
#undef MICRO_CALL
#undef V
#undef MICRO_PAIRS
