/* gemm_blocks.h -- blocked matrix product with fp32 sums: C = scale * (A B + bias) + beta * C.
 *
 * In:    A (m, k) and B (k, n) act_t, each with one stride of 1; C (m, n) with contiguous rows.
 * Out:   each element: multiply-adds in the order of k, in blocks of GEMM_DEPTH, in order.
 * Keeps: the bits of row i depend on row i of A and on B alone: not on m or threads; those of fused
 *        multiply-adds not on the vector width either.
 * Method: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. */
#ifndef DIECAST_KERNELS_GEMM_BLOCKS_H
#define DIECAST_KERNELS_GEMM_BLOCKS_H

#include <immintrin.h>
#include <omp.h>
#include <stdbool.h>

#include "tile.h"
#include "types.h"

enum {
    GEMM_DEPTH = 256,            /* of k at a time, in units: the only constant that changes bits */
    GEMM_STRIP = 12,             /* rows of A in a strip */
    GEMM_STRIDE = GEMM_DEPTH + 16, /* floats between packed rows of A: no common cache set */
    GEMM_ROWS = 96,              /* rows of A packed at a time */
    GEMM_PANEL = 32,             /* columns of the widest panel of B */
    GEMM_COLUMNS = 512,          /* columns of B packed at a time, at most */
    GEMM_CHUNK = 192,            /* rows of a bf16 C that are summed in fp32 at a time, at least */
    GEMM_AHEAD = 32,             /* rows that packing of columns prefetches ahead */
    GEMM_SETS = 2048,            /* bytes between rows that share too few cache sets */
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

/* Packed blocks of both operands, `k` units deep: a unit is a float, or a pair of bf16 values with
 * consecutive k, the first one in the low half. A: rows GEMM_STRIDE units apart or, with `strips`,
 * strips of GEMM_STRIP rows stored column by column. B: panels of one or two vectors a row, the
 * last one padded with zeros. c (chunk, columns): the sums of a bf16
 * result deeper than GEMM_DEPTH. */
typedef struct {
    float *a, *b, *c;
    const void *rows;            /* of A: packed ones, or where they are */
    int64_t columns, chunk, k, ai;
    bool strips, in_place;
} GemmPacked;

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

/* Computes one tile of C, its sums in registers. Rows of a are ai bytes apart, or a is a strip. */
typedef void GemmTile(float *c, int64_t ldc, const void *a, int64_t ai, const float *b, int64_t k,
                      const GemmFinish *finish);

/* Packs k of each of n rows or columns of x as units; rows of t are ldt units apart, of x ld
 * elements. An odd k of pairs is padded with zero. */
typedef void GemmPack(float *t, int64_t ldt, const act_t *x, int64_t ld, int64_t n, int64_t k);

/* The tiles of one kind of multiply-add, indexed by [vectors - 1][row count, largest first]
 * [strips]. */
typedef struct {
    const char *name;
    int lanes, values;           /* of a vector, of a unit */
    int rows[2][3];
    GemmTile *tile[2][3][2];
    GemmPack *pack_rows;         /* t (n, k) of x (n, k) */
    GemmPack *pack_columns;      /* t (k, n) of x (k, n) */
    GemmPack *pack_transposed;   /* t (k, n) of x (n, k) */
} GemmTiles;

#define MICRO_LANES 8
#include "gemm_micro.h"
#define MICRO_LANES 16
#include "gemm_micro.h"
#ifdef ACT_BF16
#define MICRO_LANES 16
#define MICRO_PAIRS
#include "gemm_micro.h"
#endif

enum { GEMM_F32 = sizeof(act_t) == sizeof(float) };

/* Finishes a tile of raw sums (rows, width), of which `columns` belong to C. row: the first. */
static inline void gemm_finish_tile(float *c, int64_t ldc, const float *tile, int64_t width,
                                    int64_t rows, int64_t columns, int64_t row, const GemmFinish *f)
{
    const bool rounds = !GEMM_F32 && f->rounded;
    const int64_t ci = f->transposed && !rounds ? 1 : ldc, cj = f->transposed && !rounds ? ldc : 1;
    const int64_t yi = f->transposed ? 1 : f->ld, yj = f->transposed ? f->ld : 1;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            float v = tile[i * width + j], *sum = c + i * ci + j * cj;
            if (rounds && f->add)
                v += *sum;
            if (f->bias)
                v += f->bias[f->transposed ? row + i : j];
            if (rounds) {
                act_t *y = f->rounded + i * yi + j * yj;
                act_store(y, f->onto ? __builtin_fmaf(f->scale, v, act_load(y)) : f->scale * v);
            } else {
                *sum = f->add ? __builtin_fmaf(f->scale, v, *sum) : f->scale * v;
            }
        }
}

/* C (m, columns) of one panel. Transposed tiles, and with AVX2 partial ones, are computed in a
 * buffer first. */
static inline void gemm_panel(const GemmTiles *t, float *c, int64_t ldc, const GemmPacked *p,
                              const float *b, int64_t m, int64_t columns, GemmFinish finish)
{
    const int vectors = columns > t->lanes ? 2 : 1, width = vectors * t->lanes;
    const bool direct = !finish.transposed && (columns == width || t->lanes > 8);
    const int64_t ci = finish.transposed && !finish.rounded ? 1 : ldc;
    const int64_t to = finish.transposed ? 1 : finish.ld;
    const GemmFinish raw = { .scale = 1, .columns = width };
    finish.columns = columns;
    for (int64_t i = 0; i < m;) {
        float sums[GEMM_STRIP * GEMM_PANEL];
        const char *a = (const char *)p->rows + i * p->ai;
        int size = 0;
        if (p->strips)
            a = (const char *)(p->a + i / GEMM_STRIP * GEMM_STRIP * GEMM_DEPTH + i % GEMM_STRIP);
        while (t->rows[vectors - 1][size] > m - i)
            size++;
        const int rows = t->rows[vectors - 1][size];
        GemmTile *tile = t->tile[vectors - 1][size][p->strips];
        if (direct) {
            tile(c + i * ci, ldc, a, p->ai, b, p->k, &finish);
        } else {
            tile(sums, width, a, p->ai, b, p->k, &raw);
            gemm_finish_tile(c + i * ci, ldc, sums, width, rows, columns, i, &finish);
        }
        i += rows;
        if (finish.rounded)
            finish.rounded += rows * to;
    }
}

/* C (m, n) of packed operands. */
static inline void gemm_block(const GemmTiles *t, float *c, int64_t ldc, const GemmPacked *p,
                              int64_t m, int64_t n, GemmFinish finish)
{
    const int width = 2 * t->lanes;
    const int64_t cj = finish.transposed && !finish.rounded ? ldc : 1;
    const int64_t to = finish.transposed ? finish.ld : 1;
    for (int64_t j = 0; j < n; j += width) {
        gemm_panel(t, c + j * cj, ldc, p, p->b + j * p->k, m, n - j < width ? n - j : width,
                   finish);
        if (finish.bias && !finish.transposed)
            finish.bias += width;
        if (finish.rounded)
            finish.rounded += width * to;
    }
}

/* ---- packing ---------------------------------------------------------------------------- */

/* Packs A (m, k). */
static inline void gemm_pack_a(GemmPacked *p, const GemmShape *s, const act_t *a, int64_t m,
                               int64_t k, const GemmTiles *t)
{
    if (p->in_place) {
        p->rows = a;
        p->ai = s->ai * (int64_t)sizeof *a;
        return;
    }
    p->rows = p->a;
    p->ai = GEMM_STRIDE * sizeof *p->a;
    if (!p->strips) {
        t->pack_rows(p->a, GEMM_STRIDE, a, s->ai, m, k);
        return;
    }
    for (int64_t i = 0; i < m; i += GEMM_STRIP)
        t->pack_columns(p->a + i * GEMM_DEPTH, GEMM_STRIP, a + i, s->al,
                        m - i < GEMM_STRIP ? m - i : GEMM_STRIP, k);
}

/* Packs B (k, n). */
static inline void gemm_pack_b(const GemmPacked *p, const GemmShape *s, const act_t *b, int64_t n,
                               int64_t k, const GemmTiles *t)
{
    const int widest = 2 * t->lanes;
    float *panel = p->b;
    for (int64_t j = 0; j < n; j += widest, panel += widest * p->k) {
        const int64_t columns = n - j < widest ? n - j : widest;
        const int64_t width = columns > t->lanes ? widest : t->lanes;
        if (columns < width)
            memset(panel, 0, (size_t)(p->k * width) * sizeof *panel);
        if (s->bl == 1)
            t->pack_transposed(panel, width, b + j * s->bj, s->bj, columns, k);
        else
            t->pack_columns(panel, width, b + j, s->bl, columns, k);
    }
}

/* ---- rectangles of C -------------------------------------------------------------------- */

/* Divides `bytes` of workspace among the packed blocks. */
static inline GemmPacked gemm_divide(void *ws, int64_t bytes)
{
    const int64_t fixed = GEMM_ROWS * GEMM_STRIDE;
    const int64_t column = GEMM_DEPTH + (GEMM_F32 ? 0 : GEMM_CHUNK);
    int64_t columns = (bytes / (int64_t)sizeof(float) - fixed) / column / GEMM_PANEL * GEMM_PANEL;
    columns = columns < GEMM_COLUMNS ? columns : GEMM_COLUMNS;
    const int64_t sums = bytes / (int64_t)sizeof(float) - fixed - GEMM_DEPTH * columns;
    GemmPacked p = { .a = ws, .columns = columns, .chunk = sums / columns / GEMM_ROWS * GEMM_ROWS };
    p.b = p.a + fixed;
    p.c = p.b + GEMM_DEPTH * columns;
    return p;
}

/* C (m, n) of A and B, by one thread. */
static inline void gemm_rectangle(const GemmShape *s, char *c, const act_t *a, const act_t *b,
                                  const wt_t *bias, int64_t m, int64_t n, const GemmTiles *t,
                                  GemmPacked p)
{
    const bool rounds = !GEMM_F32 && !s->out_f32;
    const int64_t depth = GEMM_DEPTH * t->values;
    const int64_t chunk = rounds && s->k > depth ? p.chunk : m;
    const int64_t ci = s->transposed ? 1 : s->ldc, cj = s->transposed ? s->ldc : 1;
    float biases[GEMM_COLUMNS];
    p.strips = s->al != 1;
    p.in_place = !p.strips && s->ai * (int64_t)sizeof *a % GEMM_SETS && s->k % t->values == 0 &&
                 t->values * sizeof *a == sizeof(float);
    for (int64_t j0 = 0; j0 < n; j0 += p.columns) {
        const int64_t columns = n - j0 < p.columns ? n - j0 : p.columns;
        for (int64_t i0 = 0; i0 < m; i0 += chunk) {
            const int64_t end = m - i0 < chunk ? m : i0 + chunk;
            for (int64_t l = 0; l < s->k; l += depth) {
                const int64_t k = s->k - l < depth ? s->k - l : depth;
                p.k = (k + t->values - 1) / t->values;
                gemm_pack_b(&p, s, b + l * s->bl + j0 * s->bj, columns, k, t);
                for (int64_t i = i0; i < end; i += GEMM_ROWS) {
                    const int64_t rows = end - i < GEMM_ROWS ? end - i : GEMM_ROWS;
                    const int64_t at = i * ci + j0 * cj;
                    GemmFinish finish = { .scale = 1, .add = l > 0 };
                    const bool last = l + k == s->k, biased = bias && (rounds ? last : !l);
                    float *to = rounds ? p.c + (i - i0) * p.columns : (float *)(void *)c + at;
                    if (!rounds || last)
                        finish = (GemmFinish){ biased ? biases : NULL, s->scale,
                                               l > 0 || (!rounds && s->beta), s->beta,
                                               s->transposed, NULL, s->ldc, 0 };
                    if (rounds && last)
                        finish.rounded = (act_t *)(void *)c + at;
                    const int64_t nbias = !biased ? 0 : s->transposed ? rows : columns;
                    for (int64_t x = 0; x < nbias; x++)
                        biases[x] = act_load(bias + (s->transposed ? i : j0) + x);
                    gemm_pack_a(&p, s, a + i * s->ai + l * s->al, rows, k, t);
                    gemm_block(t, to, rounds ? p.columns : s->ldc, &p, rows, columns, finish);
                }
            }
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
        LEAST = GEMM_ROWS * GEMM_STRIDE + GEMM_PANEL * (GEMM_DEPTH + GEMM_CHUNK),
        MOST = GEMM_WORKSPACE / (LEAST * (int)sizeof(float))
    };
    GemmShape s = *shape;
    if (gemm_swaps(shape)) {
        const act_t *few = a;
        a = b, b = few;
        s.m = shape->n, s.n = shape->m, s.ai = shape->bj, s.bj = shape->ai, s.transposed = true;
    }
    if (s.n <= gemm_8_tiles.lanes && t->values == gemm_8_tiles.values)
        t = &gemm_8_tiles;
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
