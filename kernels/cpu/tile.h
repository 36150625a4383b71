/* tile.h -- small fp32 matrix product for blocks in cache: attention blocks, low-rank updates.
 *
 * In:    A with any strides, B and C with contiguous rows, floats.
 * Out:   C (m, n) = A (m, k) B (k, n), or C += it; each element is summed in the order of k,
 *        except after the last whole vector of a row if A's rows are contiguous: there each
 *        lane sums its own part.
 * Method: 24 vectors of C (12 without AVX-512) stay in registers; B is loaded, A broadcast. */
#ifndef DIECAST_KERNELS_TILE_H
#define DIECAST_KERNELS_TILE_H

#include "types.h"

enum {
#ifdef __AVX512F__
    TILE_LANES = 16,
    TILE_ROWS = 6,               /* by four vectors: 24 of 32 registers */
    TILE_REST = 4,               /* for leftover rows */
#else
    TILE_LANES = 8,
    TILE_ROWS = 3,               /* 12 of 16 */
    TILE_REST = 2,
#endif
    TILE_VECTORS = 4,
    TILE_MOST = 4 * TILE_ROWS,   /* rows of one vector */
    TILE_COLUMN = 256            /* rows of B per pass */
};

typedef float TileVec __attribute__((vector_size(TILE_LANES * 4), aligned(4), may_alias));

typedef int32_t TileInts __attribute__((vector_size(TILE_LANES * 4), aligned(4), may_alias));

/* Transposes a square of vectors: pairs of rows exchange halves, then quarters and so on. */
static inline __attribute__((always_inline)) void tile_transpose_square_(TileVec v[TILE_LANES])
{
#pragma GCC unroll 4
    for (int s = TILE_LANES / 2; s > 0; s /= 2) {
        TileInts low = { 0 }, high = { 0 };
#pragma GCC unroll 16
        for (int k = 0; k < TILE_LANES; k++) {
            low[k] = k & s ? TILE_LANES + k - s : k;
            high[k] = k & s ? TILE_LANES + k : k + s;
        }
#pragma GCC unroll 16
        for (int i = 0; i < TILE_LANES; i++)
            if (!(i & s)) {
                const TileVec a = v[i], b = v[i + s];
                v[i] = __builtin_shuffle(a, b, low);
                v[i + s] = __builtin_shuffle(a, b, high);
            }
    }
}

/* t (n, m) = scale times the transpose of x (m, n); ldt, ldx: floats between rows. */
static inline void tile_transpose(float *restrict t, int64_t ldt, const float *restrict x,
                                  int64_t ldx, int64_t m, int64_t n, float scale)
{
    const int64_t whole = n / TILE_LANES * TILE_LANES;
    int64_t i = 0;
    for (; i + TILE_LANES <= m; i += TILE_LANES)
        for (int64_t j = 0; j < whole; j += TILE_LANES) {
            TileVec v[TILE_LANES];
#pragma GCC unroll 16
            for (int l = 0; l < TILE_LANES; l++)
                v[l] = *(const TileVec *)(x + (i + l) * ldx + j) * scale;
            tile_transpose_square_(v);
#pragma GCC unroll 16
            for (int l = 0; l < TILE_LANES; l++)
                *(TileVec *)(t + (j + l) * ldt + i) = v[l];
        }
    for (int64_t r = 0; r < m; r++)
        for (int64_t j = r < i ? whole : 0; j < n; j++)
            t[j * ldt + r] = x[r * ldx + j] * scale;
}

/* Element (i, l) of A is a[i * ai + l * al]; ldb, ldc: floats between rows. */
typedef struct {
    float *c;
    const float *a, *b;
    int64_t ldc, ai, al, ldb, m, n, k;
    int add;
} Tile;

/* rows x vectors of C at (i, j), both counts constants of the call. */
static inline __attribute__((always_inline)) void tile_registers_(const Tile *p, int64_t i,
                                                                  int64_t j, const int rows,
                                                                  const int vectors)
{
    TileVec acc[TILE_MOST][TILE_VECTORS];
    float *c = p->c + i * p->ldc + j;
    const float *a = p->a + i * p->ai, *b = p->b + j;
    const int64_t ldc = p->ldc, ldb = p->ldb, ai = p->ai, al = p->al;
    /* beyond 16 iterations gcc keeps acc in memory without this */
#pragma GCC unroll 24
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            acc[r][v] = p->add ? *(TileVec *)(c + r * ldc + v * TILE_LANES) : (TileVec){ 0 };
    for (int64_t l = 0; l < p->k; l++, a += al, b += ldb)
#pragma GCC unroll 24
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++)
                acc[r][v] += a[r * ai] * *(const TileVec *)(b + v * TILE_LANES);
#pragma GCC unroll 24
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            *(TileVec *)(c + r * ldc + v * TILE_LANES) = acc[r][v];
}

static inline __attribute__((always_inline)) void tile_strip_(const Tile *p, int64_t j,
                                                              const int vectors)
{
    enum { FEW = TILE_REST };
    const int rows = TILE_ROWS * TILE_VECTORS / vectors;
    int64_t i = 0;
    for (; i + rows <= p->m; i += rows)
        tile_registers_(p, i, j, rows, vectors);
    for (; vectors == 1 && i + 2 * FEW <= p->m; i += 2 * FEW)   /* or the FMAs of few sums wait */
        tile_registers_(p, i, j, 2 * FEW, vectors);
    for (; i + FEW <= p->m; i += FEW)
        tile_registers_(p, i, j, FEW, vectors);
    for (; i < p->m; i++)
        tile_registers_(p, i, j, 1, vectors);
}

/* Column j of C, A's rows being contiguous: as in heads of 2, where a row of C is no vector. */
static inline void tile_column_(const Tile *p, int64_t j)
{
    _Alignas(64) float column[TILE_COLUMN];
    for (int64_t l0 = 0; l0 < p->k; l0 += TILE_COLUMN) {
        const int64_t n = p->k - l0 < TILE_COLUMN ? p->k - l0 : TILE_COLUMN;
        const int64_t whole = n / TILE_LANES * TILE_LANES;
        for (int64_t l = 0; l < n; l++)
            column[l] = p->b[(l0 + l) * p->ldb + j];
        for (int64_t i = 0; i < p->m; i++) {
            const float *a = p->a + i * p->ai + l0;
            float *c = p->c + i * p->ldc + j, sum = p->add || l0 ? *c : 0;
            TileVec acc = { 0 };
            for (int64_t l = 0; l < whole; l += TILE_LANES)
                acc += *(const TileVec *)(a + l) * *(const TileVec *)(column + l);
            for (int l = 0; l < TILE_LANES; l++)
                sum += acc[l];
            for (int64_t l = whole; l < n; l++)
                sum += a[l] * column[l];
            *c = sum;
        }
    }
}

static inline void tile_product(const Tile *p)
{
    int64_t j = 0;
    for (; j + TILE_VECTORS * TILE_LANES <= p->n; j += TILE_VECTORS * TILE_LANES)
        tile_strip_(p, j, TILE_VECTORS);
    for (; j + 2 * TILE_LANES <= p->n; j += 2 * TILE_LANES)
        tile_strip_(p, j, 2);
    for (; j + TILE_LANES <= p->n; j += TILE_LANES)
        tile_strip_(p, j, 1);
    for (; j < p->n && p->al == 1 && p->k >= TILE_LANES; j++)
        tile_column_(p, j);
    for (; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            float sum = p->add ? p->c[i * p->ldc + j] : 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += p->a[i * p->ai + l * p->al] * p->b[l * p->ldb + j];
            p->c[i * p->ldc + j] = sum;
        }
}

#endif
