/* tile.h -- small fp32 matrix product for blocks in cache: attention blocks, low-rank updates.
 *
 * In:    A with any strides, B and C with contiguous rows, floats.
 * Out:   C (m, n) = A (m, k) B (k, n), or C += it; each element is summed in the order of k,
 *        except after the last whole vector of a row if A's rows are contiguous: there each
 *        lane sums its own part.
 * Method: 24 vectors of C (12 without AVX-512) stay in registers; B is loaded, A broadcast. Columns
 *        after the last whole vector go one at a time, a vector of rows together. */
#ifndef DIECAST_KERNELS_TILE_H
#define DIECAST_KERNELS_TILE_H

#include <immintrin.h>
#include <stdbool.h>

#include "types.h"

enum {
#ifdef __AVX512F__
    TILE_LANES = 16,
#else
    TILE_LANES = 8,
#endif
    TILE_WIDTHS = 4,             /* of 1 to 4 vectors */
    TILE_HEIGHTS = 5,            /* of a width, at most */
    TILE_COLUMN = 256            /* rows of B per pass */
};

typedef float TileVec __attribute__((vector_size(TILE_LANES * 4), aligned(4), may_alias));

typedef int32_t TileInts __attribute__((vector_size(TILE_LANES * 4), aligned(4), may_alias));

/* The larger of each lane; b where either is NaN. */
static inline __attribute__((always_inline)) TileVec tile_max(TileVec a, TileVec b)
{
#ifdef __AVX512F__
    return (TileVec)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return (TileVec)_mm256_max_ps((__m256)a, (__m256)b);
#endif
}

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

/* Row i of A begins at a + i * lda, or of a transposed A at a + i, its elements lda apart; ldb and
 * ldc: floats between rows. */
typedef struct {
    float *c;
    const float *a, *b;
    int64_t ldc, lda, ldb, m, n, k;
    bool transposed, add;
} Tile;

/* Computes a tile of p at c, from the first of its rows of A and columns of B. */
typedef void TileRegisters(const Tile *p, float *c, const float *a, const float *b);

/* Register tiles of one width, the tallest first. */
typedef struct {
    int vectors, rows[TILE_HEIGHTS];
    TileRegisters *tile[TILE_HEIGHTS][2];        /* [.][transposed] */
} TileWidth;

/* Tiles of vectors of 8 lanes and of 16, the widest first: tile.c, which no size of a recipe
 * changes, so that it is compiled apart from step.c. */
extern const TileWidth *const tile_widths[];

static inline void tile_strip_(const Tile *p, int64_t j, const TileWidth *w)
{
    int64_t i = 0;
    for (int t = 0; i < p->m; t++)
        for (; i + w->rows[t] <= p->m; i += w->rows[t])
            w->tile[t][p->transposed](p, p->c + i * p->ldc + j,
                                      p->a + i * (p->transposed ? 1 : p->lda), p->b + j);
}

/* Rows of a column of C, one or a vector of them: c (+)= A column, over n of k. */
static inline __attribute__((always_inline)) void
tile_column_rows_(const Tile *p, float *c, const float *a, const float *column, int64_t n,
                  bool add, const int rows)
{
    const int64_t whole = n / TILE_LANES * TILE_LANES;
    TileVec acc[TILE_LANES] = { { 0 } };
    float sum[TILE_LANES];
    for (int r = 0; r < rows; r++)
        sum[r] = add ? c[r * p->ldc] : 0;
    for (int64_t l = 0; l < whole; l += TILE_LANES)
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
            acc[r] += *(const TileVec *)(a + r * p->lda + l) * *(const TileVec *)(column + l);
    if (rows > 1) {
        tile_transpose_square_(acc);
        TileVec all = *(const TileVec *)sum;
#pragma GCC unroll 16
        for (int l = 0; l < TILE_LANES; l++)
            all += acc[l];
        *(TileVec *)sum = all;
    } else
        for (int l = 0; l < TILE_LANES; l++)
            sum[0] += acc[0][l];
    for (int r = 0; r < rows; r++) {
        for (int64_t l = whole; l < n; l++)
            sum[r] += a[r * p->lda + l] * column[l];
        c[r * p->ldc] = sum[r];
    }
}

/* Column j of C, A's rows being contiguous: as in heads of 2, where a row of C is no vector. */
static inline void tile_column_(const Tile *p, int64_t j)
{
    _Alignas(64) float column[TILE_COLUMN];
    for (int64_t l0 = 0; l0 < p->k; l0 += TILE_COLUMN) {
        const int64_t n = p->k - l0 < TILE_COLUMN ? p->k - l0 : TILE_COLUMN;
        const bool add = p->add || l0;
        for (int64_t l = 0; l < n; l++)
            column[l] = p->b[(l0 + l) * p->ldb + j];
        int64_t i = 0;
        float *c = p->c + j;
        const float *a = p->a + l0;
        for (; i + TILE_LANES <= p->m; i += TILE_LANES)
            tile_column_rows_(p, c + i * p->ldc, a + i * p->lda, column, n, add, TILE_LANES);
        for (; i < p->m; i++)
            tile_column_rows_(p, c + i * p->ldc, a + i * p->lda, column, n, add, 1);
    }
}

static inline void tile_product(const Tile *p)
{
    int64_t j = 0;
    const TileWidth *widths = tile_widths[TILE_LANES == 16];
    for (const TileWidth *w = widths; w < widths + TILE_WIDTHS; w++)
        for (; j + w->vectors * TILE_LANES <= p->n; j += w->vectors * TILE_LANES)
            tile_strip_(p, j, w);
    for (; j < p->n && !p->transposed && p->k >= TILE_LANES; j++)
        tile_column_(p, j);
    for (; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            float sum = p->add ? p->c[i * p->ldc + j] : 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += p->b[l * p->ldb + j] *
                       p->a[p->transposed ? l * p->lda + i : i * p->lda + l];
            p->c[i * p->ldc + j] = sum;
        }
}

#endif
