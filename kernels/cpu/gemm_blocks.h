/* gemm_blocks.h -- blocked fp32 matrix product: C = scale * (A B + bias) + beta * C.
 *
 * In:    A (m, k) and B (k, n) act_t, each with one stride of 1; C (m, n) with contiguous rows.
 * Out:   each element: fused multiply-adds in the order of k, in blocks of GEMM_DEPTH, in order.
 * Keeps: the bits of row i depend on row i of A and on B alone: not on m, threads or vector width.
 * Method: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. */
#ifndef DIECAST_KERNELS_GEMM_BLOCKS_H
#define DIECAST_KERNELS_GEMM_BLOCKS_H

#include <immintrin.h>
#include <omp.h>
#include <stdbool.h>

#include "tile.h"
#include "types.h"

enum {
    GEMM_DEPTH = 256,            /* of k at a time: the only constant here that changes bits */
    GEMM_STRIP = 12,             /* rows of A in a strip */
    GEMM_STRIDE = GEMM_DEPTH + 16, /* floats between packed rows of A: no common cache set */
    GEMM_ROWS = 96,              /* rows of A packed at a time */
    GEMM_PANEL = 32,             /* columns of the widest panel of B */
    GEMM_COLUMNS = 512,          /* columns of B packed at a time, at most */
    GEMM_CHUNK = 192,            /* rows of a bf16 C that are summed in fp32 at a time */
    GEMM_FEW = 16,               /* rows of A up to which the operands change roles */
    GEMM_ALONE = 1 << 17         /* multiply-adds up to which a second thread does not pay */
};

/* Element (i, l) of A is a[i * ai + l * al], (l, j) of B is b[l * bl + j * bj], (i, j) of C is
 * c[i * ldc + j]. Transposed: C is stored as c[j * ldc + i] and the bias belongs to rows. */
typedef struct {
    int64_t m, n, k, ai, al, bl, bj, ldc;
    float scale;
    bool beta, out_f32, transposed;
} GemmShape;

/* Packed blocks of both operands, `k` deep. A: rows GEMM_STRIDE floats apart or, with `strips`,
 * strips of GEMM_STRIP rows stored column by column. B: panels of one or two vectors a row, the
 * last one padded with zeros. c (GEMM_CHUNK, columns) and unpacked (GEMM_DEPTH, GEMM_PANEL): bf16
 * only. */
typedef struct {
    float *a, *b, *c, *unpacked;
    int64_t columns, k;
    bool strips;
} GemmPacked;

/* The last operation on a sum: C = scale * (sum + bias), or C += it. bias: NULL without. */
typedef struct {
    const float *bias;
    float scale;
    bool add, transposed;
} GemmFinish;

/* Computes one tile of C, its sums in registers, from packed a and b. */
typedef void GemmTile(float *c, int64_t ldc, const float *a, const float *b, int64_t k,
                      const GemmFinish *finish);

/* The tiles of one vector width, indexed by [vectors - 1][row count, largest first][strips]. */
typedef struct {
    int lanes, rows[2][3];
    GemmTile *tile[2][3][2];
} GemmTiles;

#define MICRO_LANES 8
#include "gemm_micro.h"
#define MICRO_LANES 16
#include "gemm_micro.h"

/* Finishes a tile of raw sums (rows, width), of which `columns` belong to C. row: the first. */
static inline void gemm_finish_tile(float *c, int64_t ldc, const float *tile, int64_t width,
                                    int64_t rows, int64_t columns, int64_t row, const GemmFinish *f)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            float v = tile[i * width + j];
            float *to = c + (f->transposed ? j * ldc + i : i * ldc + j);
            if (f->bias)
                v += f->bias[f->transposed ? row + i : j];
            *to = f->add ? __builtin_fmaf(f->scale, v, *to) : f->scale * v;
        }
}

/* C (m, columns) of one panel. Partial and transposed tiles are computed in a buffer first. */
static inline void gemm_panel(const GemmTiles *t, float *c, int64_t ldc, const GemmPacked *p,
                              const float *b, int64_t m, int64_t columns, const GemmFinish *finish)
{
    const int vectors = columns > t->lanes ? 2 : 1, width = vectors * t->lanes;
    const bool direct = columns == width && !finish->transposed;
    const GemmFinish raw = { .scale = 1 };
    for (int64_t i = 0; i < m;) {
        float sums[GEMM_STRIP * GEMM_PANEL];
        const float *a = p->a + i * GEMM_STRIDE;
        int size = 0;
        if (p->strips)
            a = p->a + i / GEMM_STRIP * GEMM_STRIP * GEMM_DEPTH + i % GEMM_STRIP;
        while (t->rows[vectors - 1][size] > m - i)
            size++;
        const int rows = t->rows[vectors - 1][size];
        GemmTile *tile = t->tile[vectors - 1][size][p->strips];
        if (direct) {
            tile(c + i * ldc, ldc, a, b, p->k, finish);
        } else {
            tile(sums, width, a, b, p->k, &raw);
            gemm_finish_tile(c + i * (finish->transposed ? 1 : ldc), ldc, sums, width, rows,
                             columns, i, finish);
        }
        i += rows;
    }
}

/* C (m, n) of packed operands. */
static inline void gemm_block(const GemmTiles *t, float *c, int64_t ldc, const GemmPacked *p,
                              int64_t m, int64_t n, GemmFinish finish)
{
    const int width = 2 * t->lanes;
    const float *bias = finish.bias;
    for (int64_t j = 0; j < n; j += width) {
        if (bias && !finish.transposed)
            finish.bias = bias + j;
        gemm_panel(t, c + j * (finish.transposed ? ldc : 1), ldc, p, p->b + j * GEMM_DEPTH, m,
                   n - j < width ? n - j : width, &finish);
    }
}

/* ---- packing ---------------------------------------------------------------------------- */

/* x (rows, cols) as floats: x itself if it is fp32, else a dense copy in `to`. *ld: elements
 * between rows, of x and then of the result. */
static inline const float *gemm_floats(float *to, int64_t *ld, const act_t *x, int64_t rows,
                                       int64_t cols)
{
    if (sizeof(act_t) == sizeof(float))
        return (const float *)(const void *)x;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[i * cols + j] = act_load(x + i * *ld + j);
    *ld = cols;
    return to;
}

/* t (rows, cols) = x (rows, cols). Inlined, so that the loop of a constant `cols` is unrolled. */
static inline __attribute__((always_inline)) void gemm_copy(float *t, int64_t ldt, const act_t *x,
                                                            int64_t ld, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            t[i * ldt + j] = act_load(x + i * ld + j);
}

/* Packs A (m, p->k). */
static inline void gemm_pack_a(const GemmPacked *p, const GemmShape *s, const act_t *a, int64_t m)
{
    if (!p->strips) {
        gemm_copy(p->a, GEMM_STRIDE, a, s->ai, m, p->k);
        return;
    }
    for (int64_t i = 0; i < m; i += GEMM_STRIP) {
        float *strip = p->a + i * GEMM_DEPTH;
        if (m - i >= GEMM_STRIP)
            gemm_copy(strip, GEMM_STRIP, a + i, s->al, p->k, GEMM_STRIP);
        else
            gemm_copy(strip, GEMM_STRIP, a + i, s->al, p->k, m - i);
    }
}

/* Packs B (p->k, n) for vectors of `lanes` floats. */
static inline void gemm_pack_b(const GemmPacked *p, const GemmShape *s, const act_t *b, int64_t n,
                               int lanes)
{
    float *panel = p->b;
    for (int64_t j = 0; j < n; j += 2 * lanes, panel += 2 * lanes * GEMM_DEPTH) {
        const int64_t columns = n - j < 2 * lanes ? n - j : 2 * lanes;
        const int64_t width = columns > lanes ? 2 * lanes : lanes;
        const act_t *from = b + j * s->bj;
        if (columns < width)
            memset(panel, 0, (size_t)(p->k * width) * sizeof *panel);
        if (s->bl == 1) {
            int64_t ld = s->bj;
            const float *x = gemm_floats(p->unpacked, &ld, from, columns, p->k);
            tile_transpose(panel, width, x, ld, columns, p->k, 1);
        } else if (columns == 32) {
            gemm_copy(panel, width, from, s->bl, p->k, 32);
        } else if (columns == 16) {
            gemm_copy(panel, width, from, s->bl, p->k, 16);
        } else {
            gemm_copy(panel, width, from, s->bl, p->k, columns);
        }
    }
}

/* ---- rectangles of C -------------------------------------------------------------------- */

enum { GEMM_F32 = sizeof(act_t) == sizeof(float) };

/* Divides `bytes` of workspace among the packed blocks. */
static inline GemmPacked gemm_divide(void *ws, int64_t bytes)
{
    const int64_t fixed = GEMM_ROWS * GEMM_STRIDE + (GEMM_F32 ? 0 : GEMM_PANEL * GEMM_DEPTH);
    const int64_t column = GEMM_DEPTH + (GEMM_F32 ? 0 : GEMM_CHUNK);
    int64_t columns = (bytes / (int64_t)sizeof(float) - fixed) / column / GEMM_PANEL * GEMM_PANEL;
    columns = columns < GEMM_COLUMNS ? columns : GEMM_COLUMNS;
    GemmPacked p = { .a = ws, .columns = columns };
    p.b = p.a + GEMM_ROWS * GEMM_STRIDE;
    p.c = p.b + GEMM_DEPTH * columns;
    p.unpacked = p.c + GEMM_CHUNK * columns;
    return p;
}

/* Rounds fp32 sums (m, n), ld apart, into a bf16 C. */
static inline void gemm_round(const GemmShape *s, act_t *c, const float *sums, int64_t ld,
                              const wt_t *bias, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            act_t *to = c + (s->transposed ? j * s->ldc + i : i * s->ldc + j);
            float v = sums[i * ld + j];
            if (bias)
                v += act_load(bias + (s->transposed ? i : j));
            act_store(to, s->beta ? __builtin_fmaf(s->scale, v, act_load(to)) : s->scale * v);
        }
}

/* C (m, n) of A and B, by one thread. */
static inline void gemm_rectangle(const GemmShape *s, char *c, const act_t *a, const act_t *b,
                                  const wt_t *bias, int64_t m, int64_t n, const GemmTiles *t,
                                  GemmPacked p)
{
    const bool direct = GEMM_F32 || s->out_f32;
    const int64_t chunk = direct ? m : GEMM_CHUNK;
    const int64_t ci = s->transposed ? 1 : s->ldc, cj = s->transposed ? s->ldc : 1;
    float biases[GEMM_COLUMNS];
    p.strips = s->al != 1;
    for (int64_t j0 = 0; j0 < n; j0 += p.columns) {
        const int64_t columns = n - j0 < p.columns ? n - j0 : p.columns;
        for (int64_t i0 = 0; i0 < m; i0 += chunk) {
            const int64_t end = m - i0 < chunk ? m : i0 + chunk;
            for (int64_t l = 0; l < s->k; l += GEMM_DEPTH) {
                p.k = s->k - l < GEMM_DEPTH ? s->k - l : GEMM_DEPTH;
                gemm_pack_b(&p, s, b + l * s->bl + j0 * s->bj, columns, t->lanes);
                for (int64_t i = i0; i < end; i += GEMM_ROWS) {
                    const int64_t rows = end - i < GEMM_ROWS ? end - i : GEMM_ROWS;
                    GemmFinish finish = { .scale = 1, .add = l > 0 };
                    float *to = p.c + (i - i0) * p.columns;
                    if (direct) {
                        to = (float *)(void *)c + i * ci + j0 * cj;
                        finish = (GemmFinish){ bias && !l ? biases : NULL, s->scale,
                                               l > 0 || s->beta, s->transposed };
                        const int64_t nbias = finish.bias ? (s->transposed ? rows : columns) : 0;
                        for (int64_t x = 0; x < nbias; x++)
                            biases[x] = act_load(bias + (s->transposed ? i : j0) + x);
                    }
                    gemm_pack_a(&p, s, a + i * s->ai + l * s->al, rows);
                    gemm_block(t, to, direct ? s->ldc : p.columns, &p, rows, columns, finish);
                }
            }
            if (!direct)
                gemm_round(s, (act_t *)(void *)c + i0 * ci + j0 * cj, p.c, p.columns,
                           bias ? bias + (s->transposed ? i0 : j0) : NULL, end - i0, columns);
        }
    }
}

/* ---- threads ---------------------------------------------------------------------------- */

/* The largest of `parts` parts of n, in whole units. */
static inline int64_t gemm_part(int64_t n, int64_t parts, int64_t unit)
{
    return (n + parts * unit - 1) / (parts * unit) * unit;
}

/* Divides C into rectangles of *rows x *columns, one a thread, which packs for itself: the least
 * work and packing. */
static inline void gemm_split(const GemmShape *s, int threads, int64_t *rows, int64_t *columns)
{
    double least = 0;
    *rows = s->m, *columns = s->n;
    if (s->m * s->n * s->k <= GEMM_ALONE)
        return;
    for (int across = 1; across <= threads; across++) {
        const int64_t r = gemm_part(s->m, threads / across, GEMM_STRIP);
        const int64_t c = gemm_part(s->n, across, GEMM_PANEL);
        const double cost = (double)r * (double)c + 4 * (double)(r + c);
        if (across == 1 || cost < least)
            least = cost, *rows = r, *columns = c;
    }
}

/* C^T = B^T A^T: with few rows of A and both operands stored by k, B is packed as it is. */
static inline bool gemm_swaps(const GemmShape *s)
{
    return s->m <= GEMM_FEW && s->m < s->n && s->al == 1 && s->bl == 1;
}

/* bias (n) or NULL; ws: GEMM_WORKSPACE bytes; t: tiles that this CPU has. */
static inline void gemm_blocks(const GemmShape *shape, void *c, const act_t *a, const act_t *b,
                               const wt_t *bias, const GemmTiles *t, void *ws)
{
    enum {                       /* floats: the fewest columns are one panel */
        LEAST = GEMM_ROWS * GEMM_STRIDE + GEMM_PANEL * (2 * GEMM_DEPTH + GEMM_CHUNK),
        MOST = GEMM_WORKSPACE / (LEAST * (int)sizeof(float))
    };
    GemmShape s = *shape;
    if (gemm_swaps(shape)) {
        const act_t *few = a;
        a = b, b = few;
        s.m = shape->n, s.n = shape->m, s.ai = shape->bj, s.bj = shape->ai, s.transposed = true;
        if (s.n <= gemm_8_tiles.lanes)
            t = &gemm_8_tiles;
    }
    const int threads = omp_get_max_threads();
    int64_t rows, columns;
    gemm_split(&s, threads < MOST ? threads : MOST, &rows, &columns);
    const int64_t down = (s.m + rows - 1) / rows, across = (s.n + columns - 1) / columns;
    const int64_t parts = down * across, bytes = GEMM_WORKSPACE / parts / 64 * 64;
    const int64_t size = GEMM_F32 || s.out_f32 ? sizeof(float) : sizeof(act_t);
#pragma omp parallel for schedule(static) num_threads((int)parts) if(parts > 1)
    for (int64_t part = 0; part < parts; part++) {
        const int64_t i = part % down * rows, j = part / down * columns;
        const int64_t at = s.transposed ? j * s.ldc + i : i * s.ldc + j;
        gemm_rectangle(&s, (char *)c + at * size, a + i * s.ai, b + j * s.bj,
                       bias ? bias + (s.transposed ? i : j) : NULL, s.m - i < rows ? s.m - i : rows,
                       s.n - j < columns ? s.n - j : columns, t,
                       gemm_divide((char *)ws + part * bytes, bytes));
    }
}

#endif
