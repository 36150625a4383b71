/* micro.h -- a step of k of a register tile, for one kind of multiply-add: gemm_micro.h and
 * tile_micro.h include this with MICRO_LANES, MICRO(name), MICRO_TARGET and, for pairs of bf16
 * values, MICRO_PAIRS.
 *
 * Keeps: each sum has a lane of its own and is one fused multiply-add after the other, in the order
 *        of k (hence intrinsics or assembly: a compiler may or may not contract a * b + c). */
#if MICRO_LANES == 16
#define V(name) _mm512_##name##_ps
typedef __m512 MICRO(Vector);
#else
#define V(name) _mm256_##name##_ps
typedef __m256 MICRO(Vector);
#endif
typedef float __attribute__((may_alias, aligned(2))) MICRO(Float);
#define MICRO_INLINE static inline __attribute__((MICRO_TARGET, always_inline))
#define MICRO_CALL static __attribute__((MICRO_TARGET, noinline))

/* A loop over k takes MICRO_STEPS steps a turn: with the 12 sums of an AVX2 tile its own
 * instructions would be a third of all. Assembly keeps each sum in its register: over 4 steps gcc
 * would copy and spill them. */
#if MICRO_LANES == 8
#define MICRO_STEPS 4
#define MICRO_ADD(sum, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b))
#else
#define MICRO_STEPS 1
#ifdef MICRO_PAIRS
#define MICRO_ADD(sum, a, b) (sum) = _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#else
#define MICRO_ADD(sum, a, b) (sum) = V(fmadd)(a, b, sum)
#endif
#endif

/* The next step of k. A: row r is at third[r / 3] + r % 3 * stride (bytes), for these pointers and
 * one stride fit in registers; of strips, which are stored by k, at a + r floats, and the next step
 * at a + stride. B: rows ldb floats apart. */
typedef struct {
    const char *a, *third[8];
    const float *b;
    int64_t stride, ldb;
} MICRO(Operands);

/* a: the first row, its rows `stride` bytes apart, or the first column of a strip. rows, vectors
 * and strips are constants of each call here and below. */
MICRO_INLINE MICRO(Operands) MICRO(operands)(const void *a, int64_t stride, const float *b,
                                             int64_t ldb, const int rows, const bool strips)
{
    MICRO(Operands) from = { .a = a, .b = b, .stride = stride, .ldb = ldb };
#pragma GCC unroll 8
    for (int r = 0; r < rows && !strips; r += 3) {
        from.third[r / 3] = from.a + r * stride;
        __asm__("" : "+r"(from.third[r / 3]));
    }
    return from;
}

/* The unit of row r, in all lanes. */
MICRO_INLINE MICRO(Vector) MICRO(broadcast)(const MICRO(Operands) *from, int r, const bool strips)
{
    const char *at = strips ? from->a + r * (int)sizeof(float)
                            : from->third[r / 3] + r % 3 * from->stride;
    return V(set1)(*(const MICRO(Float) *)(const void *)at);
}

/* Adds a step to sums (rows, vectors). With fewer rows than vectors all units of A are loaded
 * first, else all vectors of B. */
MICRO_INLINE void MICRO(step)(MICRO(Vector) *sums, MICRO(Operands) *from, const int rows,
                              const int vectors, const bool strips)
{
    MICRO(Vector) row[24], column[4];
    if (rows < vectors) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            row[r] = MICRO(broadcast)(from, r, strips);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            column[v] = V(loadu)(from->b + v * MICRO_LANES);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                MICRO_ADD(sums[r * vectors + v], row[r], column[v]);
        }
    } else {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            column[v] = V(loadu)(from->b + v * MICRO_LANES);
#pragma GCC unroll 24
        for (int r = 0; r < rows; r++) {
            row[r] = MICRO(broadcast)(from, r, strips);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                MICRO_ADD(sums[r * vectors + v], row[r], column[v]);
        }
    }
    from->a += from->stride, from->b += from->ldb;
#pragma GCC unroll 8
    for (int r = 0; r < rows && !strips; r += 3)
        from->third[r / 3] += sizeof(float);
}
