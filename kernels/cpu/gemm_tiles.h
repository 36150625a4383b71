/* gemm_tiles.h -- register tiles and packing of matrix products: the interface of
 * gemm_tiles_fp32.c and gemm_tiles_bf16.c, which no size of a recipe changes, so that they are
 * compiled apart from step.c. */
#ifndef DIECAST_KERNELS_GEMM_TILES_H
#define DIECAST_KERNELS_GEMM_TILES_H

#include <immintrin.h>
#include <stdbool.h>

#include "types.h"

enum {
    /* The only constants that change bits. Units of k at a time; GEMM_DEEP: of pairs of bf16, where
     * A is read in place. */
    GEMM_DEPTH = 256, GEMM_DEEP = 512,
    /* gemm_part_k(): parts of k at most; k of a part at least; elements of C at most, so that the
     * sums of all parts take half of the workspace. */
    GEMM_PARTS_K = 32, GEMM_PART_K = 1024, GEMM_PARTS_C = 1 << 16,
    GEMM_HEIGHTS = 4,            /* of tiles of one width, at most */
    GEMM_STRIP = 12,             /* rows of A in a strip */
    GEMM_SHORT = 4,              /* rows of the lowest tile but one */
    GEMM_GAP = 16,               /* floats between packed rows of A: no common cache set */
    GEMM_ROWS = 96,              /* rows of A at a time; packed ones of GEMM_DEEP: fewer */
    GEMM_PACKED_A = GEMM_ROWS * (GEMM_DEPTH + GEMM_GAP),    /* floats */
    GEMM_PANEL = 32,             /* columns of the widest panel of B */
    /* columns of B packed at a time, at most: fewer of GEMM_DEEP; in bf16 with the sums of C in the
     * L2 cache */
    GEMM_COLUMNS = sizeof(act_t) == sizeof(float) ? 512 : 256,
    GEMM_CHUNK = 192,            /* rows of a bf16 C that are summed in fp32 at a time, at least */
    GEMM_AHEAD = 32,             /* rows that packing of columns prefetches ahead */
    GEMM_TOGETHER = 4,           /* strips whose columns are packed together */
    GEMM_PARTS = 4,              /* parts of a low-rank term, at most */
    GEMM_TERM = 96,              /* k of a low-rank term, of all its parts, at most */
    GEMM_TERM_STRIDE = GEMM_TERM + 8, /* floats between packed rows of its first operand */
    GEMM_SETS = 2048,            /* bytes between rows that share too few cache sets */
    GEMM_LINE = 64,              /* bytes of a cache line */
    GEMM_WIDE = 512,             /* rows and columns of C whose operands share the L2 cache */
    /* reads of a strip of A, and bytes between its rows, from which on a packed copy pays */
    GEMM_READS = 16, GEMM_APART = 512,
    GEMM_FEW = 16,               /* rows of A up to which the operands change roles */
    GEMM_ALONE = 1 << 17         /* multiply-adds up to which a second thread does not pay */
};

/* Input of a tile, k units deep: rows of b are ldb floats apart; rows of A, or columns of a strip,
 * ai bytes. Each step of k prefetches the line at `ahead`, which moves by `step` bytes; after
 * `left` lines, and then after every `lines` of them, by `skip` more. Without strips, the sums then
 * go on over `term` units: rows of term_a, GEMM_TERM_STRIDE floats apart, and a panel, term_b. */
typedef struct {
    const float *b;
    const char *ahead;
    int64_t ai, ldb, k, step, left, lines, skip, term;
    const float *term_a, *term_b;
} GemmInput;

/* The last operation on a sum: C = scale * (sum + bias), or C += it. bias: NULL without.
 * With `rounded` (rows `ld` apart) the sums in C only begin those of a bf16 result, if `add`:
 * rounded = scale * (C + sum + bias), or with `onto` rounded += it. C is never transposed then. */
typedef struct {
    const float *bias;
    float scale;
    bool add, onto, transposed;
    act_t *rounded;
    int64_t ld, columns;         /* columns: from the tile's first; AVX2 takes whole tiles only */
} GemmFinish;

/* Computes one tile of C, its sums in registers. */
typedef void GemmTile(float *c, int64_t ldc, const void *a, const GemmInput *in,
                      const GemmFinish *finish);

/* Packs k of each of n rows of x as units; rows of t are ldt units apart, of x ld elements. An odd
 * k of pairs is padded with zero. */
typedef void GemmPack(float *t, int64_t ldt, const act_t *x, int64_t ld, int64_t n, int64_t k);

/* Packs k of each of strips * n columns in the same way: strips of n columns, `apart` units apart
 * in t. */
typedef void GemmPackStrips(float *t, int64_t ldt, int64_t apart, const act_t *x, int64_t ld,
                            int64_t n, int64_t strips, int64_t k);

/* The tiles of one kind of multiply-add, indexed by [vectors - 1][row count, largest first]
 * [strips]. */
typedef struct {
    const char *name;
    int lanes, values;           /* of a vector, of a unit */
    int steps;                   /* of k from one prefetched line to the next */
    int depth;                   /* units of k at a time, see gemm_depth() */
    int rows[2][GEMM_HEIGHTS];
    GemmTile *tile[2][GEMM_HEIGHTS][2];
    GemmPack *pack_rows;         /* t (n, k) of x (n, k) */
    GemmPackStrips *pack_columns; /* t (strips, k, n) of x (k, strips * n) */
    GemmPack *pack_transposed;   /* t (k, n) of x (n, k) */
} GemmTiles;

/* Kinds of multiply-add; the last one only in bf16. */
enum { GEMM_AVX2, GEMM_AVX512, GEMM_AVX512_BF16 };
extern const GemmTiles *const gemm_kinds[];

#endif
