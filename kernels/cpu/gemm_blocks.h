/* gemm_blocks.h -- blocked matrix product with fp32 sums: C = scale * (A B + bias) + beta * C.
 *
 * In:    A (m, k) and B (k, n) act_t, each with one stride of 1; C (m, n) with contiguous rows.
 * Out:   each element: multiply-adds in the order of k, in blocks of gemm_depth(), in order;
 *        then those of a low-rank term. A small C of a long k: of each part of gemm_part_k(), then
 *        the sum of the parts in order.
 * Keeps: the bits of row i depend on row i of A and on B alone: not on m (but for gemm_part_k()) or
 *        threads; those of fused multiply-adds not on the vector width either.
 * Method: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. Tiles
 *        prefetch what the next block reads, in the order of memory. */
#ifndef DIECAST_KERNELS_GEMM_BLOCKS_H
#define DIECAST_KERNELS_GEMM_BLOCKS_H

#include <immintrin.h>
#include <omp.h>
#include <stdbool.h>

#include "gemm_tiles.h"
#include "tile.h"

/* Element (i, l) of A is a[i * ai + l * al], (l, j) of B is b[l * bl + j * bj], (i, j) of C is
 * c[i * ldc + j]. Transposed: C is stored as c[j * ldc + i] and the bias belongs to rows. */
typedef struct {
    int64_t m, n, k, ai, al, bl, bj, ldc;
    float scale;
    bool beta, out_f32, transposed;
} GemmShape;

/* A low-rank term of C: columns column[p] .. + width[p] += A_p B_p, `rank` products each. Element
 * (i, r) of A_p is a[i * ai + p * rank + r], (r, j) of B_p is b[p][r * bl + j * bj], j counted from
 * column[p]. parts * rank is at most GEMM_TERM. */
typedef struct {
    int64_t parts, rank, ai, bl, bj, column[GEMM_PARTS], width[GEMM_PARTS];
    const act_t *a, *b[GEMM_PARTS];
} GemmTerm;

/* Cache lines to prefetch in order: `lines` in each row, rows `stride` bytes apart. They are taken
 * in shares; `taken` have been. */
typedef struct {
    const char *from;
    int64_t stride, lines, shares, taken;
} GemmLines;

/* Lines of the next blocks of A and B. The tiles of this block prefetch them: a tile as many as it
 * has steps of k, a share; `count` shares are spread evenly over `tiles` tiles, at most one a
 * tile. */
typedef struct {
    GemmLines a, b;
    int64_t count, tiles, due;
} GemmAhead;

/* Packed blocks of both operands, `k` units deep, at most `depth`: a unit is a float, or a pair of
 * bf16 values with consecutive k, the first one in the low half. A: rows depth + GEMM_GAP units
 * apart or, with `strips`, strips of GEMM_STRIP rows stored column by column. B: panels of one or
 * two vectors a row, the last one padded with zeros; with b_in_place only that one, the others are
 * read where they are. c (chunk, columns): the sums of a bf16 result deeper than `depth`. term_a,
 * term_b: rows of GEMM_TERM_STRIDE floats and panels of a low-rank term, `units` a part. */
typedef struct {
    float *a, *b, *c, *term_a, *term_b;
    const GemmTerm *term;        /* NULL: none, or not at this depth */
    int64_t units, column;       /* column: of C, the block's first */
    const void *rows;            /* of A: packed ones, or where they are */
    const float *b_rows;         /* of B with b_in_place, ldb floats apart */
    int64_t depth, columns, chunk, k, ai, ldb;
    bool strips, in_place, b_in_place;
    GemmAhead ahead;
} GemmPacked;

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

/* Lines that a tile k units deep prefetches. */
static inline int64_t gemm_share(const GemmTiles *t, int64_t k)
{
    return (k + t->steps - 1) / t->steps;
}

/* Sets what the next tile prefetches: a share, or one line again and again. */
static inline void gemm_take_share(GemmAhead *ahead, int64_t share, GemmInput *in)
{
    GemmLines *lines = ahead->a.taken < ahead->a.shares ? &ahead->a : &ahead->b;
    in->step = 0, in->left = share + 1;
    ahead->due += ahead->count;
    if (ahead->due < ahead->tiles || lines->taken == lines->shares)
        return;
    ahead->due -= ahead->tiles;
    const int64_t first = lines->taken++ * share;
    const int64_t row = first / lines->lines, line = first % lines->lines;
    in->ahead = lines->from + row * lines->stride + line * GEMM_LINE;
    in->step = GEMM_LINE, in->left = lines->lines - line, in->lines = lines->lines;
    in->skip = lines->stride - lines->lines * GEMM_LINE;
}

/* Parts [first, end) of a term. */
typedef struct {
    int64_t first, end;
} GemmPartRange;

/* The parts that columns [j, j + n) of C have. Transposed, a tile's rows are the columns of C, and
 * its panels have all parts. */
static inline GemmPartRange gemm_term_parts(const GemmTerm *term, int64_t j, int64_t n,
                                            bool transposed)
{
    if (transposed)
        return (GemmPartRange){ 0, term->parts };
    GemmPartRange range = { term->parts, 0 };
    for (int64_t p = 0; p < term->parts; p++)
        if (term->column[p] < j + n && j < term->column[p] + term->width[p]) {
            range.first = p < range.first ? p : range.first;
            range.end = p + 1;
        }
    return range;
}

/* Rows of the next strip of A, of `left`: the last 16 are two strips of 8, for a tile of 4 rows is
 * slow. */
static inline int64_t gemm_strip_rows(const GemmTiles *t, int64_t left)
{
    return left == 16 && t->rows[1][1] == 8 ? 8 : left < GEMM_STRIP ? left : GEMM_STRIP;
}

/* C (m, columns) of one panel, which begins at column j of the block. Transposed tiles, and with
 * AVX2 partial ones, are computed in a buffer first. finish belongs to this panel. Inlined into the
 * loops around it, it would lose registers to them. */
static __attribute__((noinline)) void gemm_panel(const GemmTiles *t, float *c, int64_t ldc,
                                                 GemmPacked *p, const float *b, int64_t ldb,
                                                 int64_t m, int64_t j, int64_t columns,
                                                 GemmFinish *finish)
{
    const int vectors = columns > t->lanes ? 2 : 1, width = vectors * t->lanes;
    const bool direct = !finish->transposed && (columns == width || t->lanes > 8);
    const int64_t ci = finish->transposed && !finish->rounded ? 1 : ldc;
    const int64_t to = finish->transposed ? 1 : finish->ld, share = gemm_share(t, p->k);
    const GemmFinish raw = { .scale = 1, .columns = width };
    act_t *rounded = finish->rounded;
    GemmInput in = { .b = b, .ahead = (const char *)b, .ai = p->ai, .ldb = ldb, .k = p->k };
    finish->columns = columns;
    if (p->term) {
        const GemmPartRange parts = gemm_term_parts(p->term, p->column + j, columns,
                                                    finish->transposed);
        in.term = parts.end > parts.first ? (parts.end - parts.first) * p->units : 0;
        in.term_a = p->term_a + parts.first * p->units;
        in.term_b = p->term_b + (j * p->term->parts + parts.first * width) * p->units;
    }
    int64_t strip = -1, at = 0, left = 0;    /* rows of the strip before a tile, from it on */
    for (int64_t i = 0; i < m;) {
        float sums[GEMM_STRIP * GEMM_PANEL];
        const char *a = (const char *)p->rows + i * p->ai;
        if (left == 0)
            left = gemm_strip_rows(t, m - i), strip++, at = 0;
        if (p->strips && p->in_place)
            a = (const char *)p->rows + i * (int64_t)sizeof(float);
        else if (p->strips)
            a = (const char *)(p->a + strip * GEMM_STRIP * GEMM_DEPTH + at);
        gemm_take_share(&p->ahead, share, &in);
        int size = 0;
        while (t->rows[vectors - 1][size] > left)
            size++;
        /* 4 + 4, not 6 + 1 + 1: a single row waits for each of its multiply-adds */
        size += left == 8 && t->rows[vectors - 1][size] == 6;
        const int rows = t->rows[vectors - 1][size];
        GemmTile *tile = t->tile[vectors - 1][size][p->strips];
        if (rounded)
            finish->rounded = rounded + i * to;
        if (direct) {
            tile(c + i * ci, ldc, a, &in, finish);
        } else {
            tile(sums, width, a, &in, &raw);
            gemm_finish_tile(c + i * ci, ldc, sums, width, rows, columns, i, finish);
        }
        i += rows, at += rows, left -= rows;
        in.term_a += rows * GEMM_TERM_STRIDE;
    }
}

/* Columns of a panel of B as it is stored: whole vectors. */
static inline int64_t gemm_panel_width(const GemmTiles *t, int64_t columns)
{
    return columns > t->lanes ? 2 * t->lanes : t->lanes;
}

/* C (m, n) of packed operands. finish is changed: a copy of it would wait for the tiles' stores. */
static inline void gemm_block(const GemmTiles *t, float *c, int64_t ldc, GemmPacked *p, int64_t m,
                              int64_t n, GemmFinish *finish)
{
    const int width = 2 * t->lanes;
    const int64_t cj = finish->transposed && !finish->rounded ? ldc : 1;
    const int64_t to = finish->transposed ? finish->ld : 1;
    const float *bias = finish->bias;
    act_t *rounded = finish->rounded;
    for (int64_t j = 0; j < n; j += width) {
        const int64_t columns = n - j < width ? n - j : width;
        const int64_t stored = gemm_panel_width(t, columns);
        const bool in_place = p->b_in_place && columns == stored;
        if (bias && !finish->transposed)
            finish->bias = bias + j;
        if (rounded)
            finish->rounded = rounded + j * to;
        gemm_panel(t, c + j * cj, ldc, p, in_place ? p->b_rows + j : p->b + j * p->k,
                   in_place ? p->ldb : stored, m, j, columns, finish);
    }
}

/* ---- packing ---------------------------------------------------------------------------- */

/* Packs A (m, k). */
static inline void gemm_pack_a(GemmPacked *p, const GemmShape *s, const act_t *a, int64_t m,
                               int64_t k, const GemmTiles *t)
{
    if (p->in_place) {
        p->rows = a;
        p->ai = (p->strips ? s->al : s->ai) * (int64_t)sizeof *a;
        return;
    }
    p->rows = p->a;
    p->ai = (p->strips ? GEMM_STRIP : p->depth + GEMM_GAP) * (int64_t)sizeof *p->a;
    if (!p->strips) {
        t->pack_rows(p->a, p->depth + GEMM_GAP, a, s->ai, m, k);
        return;
    }
    float *to = p->a;
    for (int64_t i = 0, rows, strips; i < m; i += strips * rows) {
        rows = gemm_strip_rows(t, m - i), strips = 1;
        while (rows == GEMM_STRIP && gemm_strip_rows(t, m - i - strips * rows) == rows)
            strips++;
        t->pack_columns(to, GEMM_STRIP, GEMM_STRIP * GEMM_DEPTH, a + i, s->al, rows, strips, k);
        to += strips * GEMM_STRIP * GEMM_DEPTH;
    }
}

/* Packs B (k, n): whole panels of columns together, others one by one. */
static inline void gemm_pack_b(const GemmPacked *p, const GemmShape *s, const act_t *b, int64_t n,
                               int64_t k, const GemmTiles *t)
{
    const int64_t widest = 2 * t->lanes, together = s->bl != 1 ? n / widest : 0;
    if (!p->b_in_place)
        t->pack_columns(p->b, widest, widest * p->k, b, s->bl, widest, together, k);
    float *panel = p->b + together * widest * p->k;
    for (int64_t j = together * widest; j < n; j += widest, panel += widest * p->k) {
        const int64_t columns = n - j < widest ? n - j : widest;
        const int64_t width = gemm_panel_width(t, columns);
        if (p->b_in_place && columns == width)
            continue;
        if (columns < width)
            memset(panel, 0, (size_t)(p->k * width) * sizeof *panel);
        if (s->bl == 1)
            t->pack_transposed(panel, width, b + j * s->bj, s->bj, columns, k);
        else
            t->pack_columns(panel, width, 0, b + j, s->bl, columns, 1, k);
    }
}

/* The part of columns [j, j + n) of C that part p of a term adds to, from j on. */
static inline GemmPartRange gemm_term_columns(const GemmTerm *term, int64_t p, int64_t j, int64_t n)
{
    const int64_t first = term->column[p] - j, end = first + term->width[p];
    return (GemmPartRange){ first > 0 ? first : 0, end < n ? end : n };
}

/* Packs rows [i, i + m) of a term's first operand: A or, transposed, the transpose of B, whose
 * parts have other rows. */
static inline void gemm_pack_term_a(const GemmPacked *p, const GemmTerm *term, bool transposed,
                                    int64_t i, int64_t m, const GemmTiles *t)
{
    if (transposed)
        memset(p->term_a, 0, (size_t)(m * GEMM_TERM_STRIDE) * sizeof *p->term_a);
    for (int64_t part = 0; part < term->parts; part++) {
        float *to = p->term_a + part * p->units;
        if (!transposed) {
            t->pack_rows(to, GEMM_TERM_STRIDE, term->a + i * term->ai + part * term->rank, term->ai,
                         m, term->rank);
            continue;
        }
        const GemmPartRange rows = gemm_term_columns(term, part, i, m);
        if (rows.first < rows.end)
            t->pack_rows(to + rows.first * GEMM_TERM_STRIDE, GEMM_TERM_STRIDE,
                         term->b[part] + (i + rows.first - term->column[part]) * term->bj, term->bj,
                         rows.end - rows.first, term->rank);
    }
}

/* Packs columns [j, j + n) of a term's second operand: B or, transposed, the transpose of A. */
static inline void gemm_pack_term_b(const GemmPacked *p, const GemmTerm *term, bool transposed,
                                    int64_t j, int64_t n, const GemmTiles *t)
{
    const int widest = 2 * t->lanes;
    const int64_t units = term->parts * p->units;
    float *panel = p->term_b;
    for (int64_t end = j + n; j < end; j += widest, panel += widest * units) {
        const int64_t columns = end - j < widest ? end - j : widest;
        const int64_t width = gemm_panel_width(t, columns);
        memset(panel, 0, (size_t)(width * units) * sizeof *panel);
        for (int64_t part = 0; part < term->parts; part++) {
            float *to = panel + part * p->units * width;
            if (transposed) {
                t->pack_transposed(to, width, term->a + j * term->ai + part * term->rank, term->ai,
                                   columns, term->rank);
                continue;
            }
            const GemmPartRange of = gemm_term_columns(term, part, j, columns);
            const act_t *b = term->b[part] + (j + of.first - term->column[part]) * term->bj;
            if (of.first < of.end && term->bl == 1)
                t->pack_transposed(to + of.first, width, b, term->bj, of.end - of.first,
                                   term->rank);
            else if (of.first < of.end)
                t->pack_columns(to + of.first, width, 0, b, term->bl, of.end - of.first, 1,
                                term->rank);
        }
    }
}

/* Units of k at a time; like the bits they depend on k and the form alone. Deeper blocks have fewer
 * columns, so that packed rows of A would be packed more often. */
static inline int64_t gemm_depth(const GemmShape *s, const GemmTiles *t)
{
    const bool packs = s->al != 1 || s->k * (int64_t)sizeof(act_t) % GEMM_SETS == 0;
    return packs ? GEMM_DEPTH : t->depth;
}

/* Divides `bytes` of workspace among the packed blocks. */
static inline GemmPacked gemm_divide(void *ws, int64_t bytes, int64_t depth, bool term)
{
    const int64_t of_term = term ? GEMM_TERM : 0;
    const int64_t fixed = GEMM_PACKED_A + (term ? GEMM_ROWS * GEMM_TERM_STRIDE : 0);
    const int64_t most = GEMM_COLUMNS * GEMM_DEPTH / depth, packed = depth + of_term;
    const int64_t column = packed + (GEMM_F32 ? 0 : GEMM_CHUNK);
    int64_t columns = (bytes / (int64_t)sizeof(float) - fixed) / column / GEMM_PANEL * GEMM_PANEL;
    columns = columns < most ? columns : most;
    const int64_t sums = bytes / (int64_t)sizeof(float) - fixed - packed * columns;
    GemmPacked p = { .a = ws, .depth = depth, .columns = columns,
                     .chunk = sums / columns / GEMM_ROWS * GEMM_ROWS };
    p.term_a = p.a + GEMM_PACKED_A;
    p.b = p.a + fixed;
    p.term_b = p.b + depth * columns;
    p.c = p.term_b + of_term * columns;
    return p;
}

/* ---- prefetching ------------------------------------------------------------------------ */

/* Lines of rows of n elements at x, ld elements apart, in shares of tiles k units deep. */
static inline GemmLines gemm_lines(const GemmTiles *t, const act_t *x, int64_t ld, int64_t rows,
                                   int64_t n, int64_t k)
{
    const int64_t lines = (n * (int64_t)sizeof *x + GEMM_LINE - 1) / GEMM_LINE;
    const int64_t share = gemm_share(t, k);
    return (GemmLines){ .from = (const char *)x, .stride = ld * (int64_t)sizeof *x, .lines = lines,
                        .shares = (rows * lines + share - 1) / share };
}

/* Two-vector tiles of C (m, n). */
static inline int64_t gemm_tile_count(const GemmTiles *t, int64_t m, int64_t n)
{
    const int64_t rows = t->rows[1][0], columns = 2 * t->lanes;
    return (m + rows - 1) / rows * ((n + columns - 1) / columns);
}

/* Both operands are stored by k, and C has so few rows and columns that their next blocks share the
 * L2 cache with these. */
static inline bool gemm_is_small(const GemmPacked *p, const GemmShape *s, int64_t m, int64_t n)
{
    return p->strips && s->bj == 1 && m + n <= GEMM_WIDE;
}

/* During a small C (m, n): the next k of both operands (at a and b). */
static inline GemmAhead gemm_next_depth(const GemmPacked *p, const GemmShape *s, const act_t *a,
                                        const act_t *b, int64_t m, int64_t n, int64_t k,
                                        const GemmTiles *t)
{
    GemmAhead ahead = { .tiles = gemm_tile_count(t, m, n) };
    if (k > 0) {
        ahead.a = gemm_lines(t, a, s->al, k, m, p->k);
        ahead.b = gemm_lines(t, b, s->bl, k, n, p->k);
    }
    ahead.count = ahead.a.shares + ahead.b.shares;
    return ahead;
}

/* During C (m, n): the next `rows` of A (at a). */
static inline GemmAhead gemm_next_rows(const GemmPacked *p, const GemmShape *s, const act_t *a,
                                       int64_t rows, int64_t m, int64_t n, int64_t k,
                                       const GemmTiles *t)
{
    GemmAhead ahead = { .tiles = gemm_tile_count(t, m, n) };
    if (rows > 0)
        ahead.a = p->strips ? gemm_lines(t, a, s->al, k, rows, p->k)
                            : gemm_lines(t, a, s->ai, rows, k, p->k);
    ahead.count = ahead.a.shares;
    return ahead;
}

/* In bf16, where packing is a larger part of a product: lines of the next block of B, after the one
 * that has columns from j0 on and ends before l. again: the columns are read again, for other
 * rows. */
static inline GemmLines gemm_next_block(const GemmTiles *t, const GemmPacked *p, const GemmShape *s,
                                        const act_t *b, int64_t l, int64_t j0, int64_t n,
                                        int64_t depth, bool again)
{
    if (l == s->k)
        l = 0, j0 += again ? 0 : p->columns;
    if (GEMM_F32 || p->strips || j0 >= n)
        return (GemmLines){ .shares = 0 };
    const int64_t k = s->k - l < depth ? s->k - l : depth;
    const int64_t columns = n - j0 < p->columns ? n - j0 : p->columns;
    b += l * s->bl + j0 * s->bj;
    return s->bl == 1 ? gemm_lines(t, b, s->bj, columns, k, p->k)
                      : gemm_lines(t, b, s->bl, k, columns, p->k);
}

/* Gives the row block that ends with `done` of a block's rows its part of the lines. All are due
 * during the last three eighths of the rows, so that they do not displace this block. */
static inline void gemm_take_lines(GemmAhead *ahead, const GemmLines *lines, int64_t done,
                                   int64_t rows)
{
    const int64_t before = rows * 5 / 8;
    const int64_t upto = done <= before ? 0 : lines->shares * (done - before) / (rows - before);
    ahead->b = *lines;
    ahead->b.shares = upto;
    ahead->count += upto - lines->taken;
}

/* ---- rectangles of C -------------------------------------------------------------------- */

/* Operands stored by k, `stride` elements apart, are read in place if they waste few cache sets. */
static inline bool gemm_near(int64_t stride, int64_t m, int64_t n)
{
    const int64_t bytes = stride * (int64_t)sizeof(act_t);
    return GEMM_F32 && (bytes < GEMM_SETS || (bytes == GEMM_SETS && m + n <= GEMM_WIDE));
}

/* A of C (m, n) is read where it is. Of strips, which tiles read again for each panel of B, a
 * packed copy pays if they do so often and the rows are far apart. */
static inline bool gemm_a_in_place(const GemmShape *s, const GemmTiles *t, int64_t m, int64_t n)
{
    const int64_t size = sizeof(act_t);
    const int64_t reads = n / (2 * t->lanes) * (GEMM_STRIP / t->rows[1][0]);
    if (s->al != 1)
        return gemm_near(s->al, m, n) && (reads < GEMM_READS || s->al * size < GEMM_APART);
    return s->ai * size % GEMM_SETS && s->k % t->values == 0 && t->values * size == sizeof(float);
}

/* C (m, n) of A, B and a term of these rows and columns (NULL: none), by one thread. */
static inline void gemm_rectangle(const GemmShape *s, char *c, const act_t *a, const act_t *b,
                                  const wt_t *bias, const GemmTerm *term, int64_t m, int64_t n,
                                  const GemmTiles *t, GemmPacked p)
{
    const bool rounds = !GEMM_F32 && !s->out_f32;
    const int64_t depth = p.depth * t->values;
    const int64_t chunk = rounds && s->k > depth ? p.chunk : m;
    const int64_t ci = s->transposed ? 1 : s->ldc, cj = s->transposed ? s->ldc : 1;
    float biases[GEMM_COLUMNS];
    p.strips = s->al != 1;
    p.in_place = gemm_a_in_place(s, t, m, n);
    p.b_in_place = p.strips && s->bj == 1 && gemm_near(s->bl, m, n);
    p.ldb = s->bl;
    const int64_t block = p.in_place ? GEMM_ROWS : GEMM_ROWS * GEMM_DEPTH / p.depth;
    p.units = term ? (term->rank + t->values - 1) / t->values : 0;
    for (int64_t j0 = 0; j0 < n; j0 += p.columns) {
        const int64_t columns = n - j0 < p.columns ? n - j0 : p.columns;
        for (int64_t i0 = 0; i0 < m; i0 += chunk) {
            const int64_t end = m - i0 < chunk ? m : i0 + chunk;
            for (int64_t l = 0; l < s->k; l += depth) {
                const int64_t k = s->k - l < depth ? s->k - l : depth;
                p.k = (k + t->values - 1) / t->values;
                const int64_t next_k = s->k - l - k < depth ? s->k - l - k : depth;
                const act_t *a0 = a + i0 * s->ai + l * s->al, *b0 = b + l * s->bl + j0 * s->bj;
                const bool small = gemm_is_small(&p, s, end - i0, columns);
                p.b_rows = (const void *)b0;
                gemm_pack_b(&p, s, b0, columns, k, t);
                p.term = l + k == s->k ? term : NULL;
                p.column = j0;
                if (p.term)
                    gemm_pack_term_b(&p, term, s->transposed, j0, columns, t);
                if (small)
                    p.ahead = gemm_next_depth(&p, s, a0 + k * s->al, b0 + k * s->bl, end - i0,
                                              columns, next_k, t);
                GemmLines next = gemm_next_block(t, &p, s, b, l + k, j0, n, depth, end < m);
                for (int64_t i = i0; i < end; i += block) {
                    const int64_t rows = end - i < block ? end - i : block;
                    const int64_t left = end - i - rows;
                    const int64_t next_rows = left < block ? left : block;
                    const int64_t at = i * ci + j0 * cj;
                    const act_t *first = a0 + (i - i0) * s->ai;
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
                    gemm_pack_a(&p, s, first, rows, k, t);
                    if (p.term)
                        gemm_pack_term_a(&p, term, s->transposed, i, rows, t);
                    if (!small)
                        p.ahead = gemm_next_rows(&p, s, first + rows * s->ai,
                                                 j0 && !p.strips ? 0 : next_rows,
                                                 rows, columns, k, t);
                    if (next.shares > 0)
                        gemm_take_lines(&p.ahead, &next, i + rows - i0, end - i0);
                    gemm_block(t, to, rounds ? p.columns : s->ldc, &p, rows, columns, &finish);
                    next.taken = p.ahead.b.taken;
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
 * work, reading and packing. A multiply-add with each column, or row, costs 1; operands stored by k
 * are the slowest to pack. */
static inline void gemm_split(const GemmShape *s, int threads, int64_t *rows, int64_t *columns)
{
    const bool strips = s->al != 1;
    double least = 0;
    *rows = s->m, *columns = s->n;
    if (s->m * s->n * s->k <= GEMM_ALONE)
        return;
    for (int across = 1; across <= threads; across++) {
        const int64_t r = gemm_part(s->m, threads / across, GEMM_SHORT);
        const int64_t c = gemm_part(s->n, across, GEMM_PANEL);
        const double row = strips && !gemm_near(s->al, r, c) ? 20 : 4;
        const double column = strips && s->bj == 1 && !gemm_near(s->bl, r, c) ? 12 : 4;
        const double cost = (double)r * (double)c + row * (double)r + column * (double)c;
        if (across == 1 || cost < least)
            least = cost, *rows = r, *columns = c;
    }
}

/* C^T = B^T A^T: with few rows of A and both operands stored by k, B is packed as it is. */
static inline bool gemm_swaps(const GemmShape *s)
{
    return s->m <= GEMM_FEW && s->m < s->n && s->al == 1 && s->bl == 1;
}

/* The term of a rectangle of C from row i and column j on. */
static inline GemmTerm gemm_term_from(const GemmTerm *term, int64_t i, int64_t j)
{
    GemmTerm from = *term;
    from.a += i * from.ai;
    for (int64_t p = 0; p < from.parts; p++)
        from.column[p] -= j;
    return from;
}

/* Returns the k of each part that gemm_sum_parts() sums apart, or s->k: a product in one part. */
static inline int64_t gemm_part_k(const GemmShape *s, const GemmTiles *t)
{
    const bool by_k = s->al != 1 && s->bj == 1, few = s->m * s->n <= GEMM_PARTS_C;
    const int64_t k = gemm_part(s->k, GEMM_PARTS_K, GEMM_DEPTH * t->values);
    return by_k && few && (GEMM_F32 || s->out_f32) && k >= GEMM_PART_K ? k : s->k;
}

/* A small C of a long k, as in gradients of weights: each part of k is a product of its own, taken
 * by whichever thread is free; then the parts are added in order. Threads that divide C would each
 * read an operand whole. ws: GEMM_WORKSPACE bytes. */
static inline void gemm_sum_parts(const GemmShape *s, float *c, const act_t *a, const act_t *b,
                                  int64_t k, const GemmTiles *t, void *ws)
{
    const int64_t parts = (s->k + k - 1) / k, size = s->m * s->n;
    const int all = omp_get_max_threads(), threads = all < parts ? all : (int)parts;
    enum { FLOATS = GEMM_WORKSPACE / sizeof(float),
           LEAST = GEMM_PACKED_A + GEMM_PANEL * (GEMM_DEPTH + GEMM_CHUNK) };
    _Static_assert(GEMM_PARTS_K * (GEMM_PARTS_C + LEAST) <= FLOATS, "a thread packs a panel of B");
    float *sums = ws, *packed = sums + parts * size;     /* (parts, m, n), one block a thread */
    const int64_t floats = (FLOATS - parts * size) / threads / 16 * 16;
    GemmShape of = *s;
    of.ldc = s->n, of.scale = 1, of.beta = false;
#pragma omp parallel num_threads(threads) firstprivate(of)
    {
        const GemmPacked own = gemm_divide(packed + omp_get_thread_num() * floats,
                                           floats * (int64_t)sizeof *packed, GEMM_DEPTH, false);
#pragma omp for schedule(dynamic)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t l = part * k;
            of.k = s->k - l < k ? s->k - l : k;
            gemm_rectangle(&of, (char *)(sums + part * size), a + l * s->al, b + l * s->bl, NULL,
                           NULL, s->m, s->n, t, own);
        }
#pragma omp for schedule(static)
        for (int64_t i = 0; i < s->m; i++) {
            float *restrict to = c + i * s->ldc, *restrict sum = sums + i * s->n;
            for (int64_t part = 1; part < parts; part++)
#pragma omp simd
                for (int64_t j = 0; j < s->n; j++)
                    sum[j] += sum[part * size + j];
#pragma omp simd
            for (int64_t j = 0; j < s->n; j++)
                to[j] = s->beta ? __builtin_fmaf(s->scale, sum[j], to[j]) : s->scale * sum[j];
        }
    }
}

/* bias (n) or NULL; term: NULL: none, only of scale 1; its A and B are stored by rows of C if both
 * operands are. ws: GEMM_WORKSPACE bytes; t: tiles that this CPU has. */
static inline void gemm_blocks(const GemmShape *shape, void *c, const act_t *a, const act_t *b,
                               const wt_t *bias, const GemmTerm *term, const GemmTiles *t, void *ws)
{
    GemmShape s = *shape;
    if (gemm_swaps(shape)) {     /* a term's B is then stored by rank, too */
        const act_t *few = a;
        a = b, b = few;
        s.m = shape->n, s.n = shape->m, s.ai = shape->bj, s.bj = shape->ai, s.transposed = true;
    }
    const GemmTiles *narrow = gemm_kinds[GEMM_AVX2];
    if (s.n <= narrow->lanes && t->values == narrow->values)
        t = narrow;
    enum { TERM = GEMM_ROWS * GEMM_TERM_STRIDE + GEMM_PANEL * GEMM_TERM };
    const int64_t depth = gemm_depth(&s, t), part_k = bias || term ? s.k : gemm_part_k(&s, t);
    if (part_k < s.k) {
        gemm_sum_parts(&s, c, a, b, part_k, t, ws);
        return;
    }
    /* floats of a thread: the fewest columns are one panel */
    const int64_t least = GEMM_PACKED_A + GEMM_PANEL * (depth + GEMM_CHUNK) + (term ? TERM : 0);
    const int most = (int)(GEMM_WORKSPACE / (least * (int64_t)sizeof(float)));
    const int threads = omp_get_max_threads();
    int64_t rows, columns;
    gemm_split(&s, threads < most ? threads : most, &rows, &columns);
    const int64_t down = (s.m + rows - 1) / rows, across = (s.n + columns - 1) / columns;
    const int64_t parts = down * across, bytes = GEMM_WORKSPACE / parts / 64 * 64;
    const int64_t size = GEMM_F32 || s.out_f32 ? sizeof(float) : sizeof(act_t);
#pragma omp parallel for schedule(static) num_threads((int)parts) if(parts > 1)
    for (int64_t part = 0; part < parts; part++) {
        const int64_t i = part % down * rows, j = part / down * columns;
        const int64_t at = s.transposed ? j * s.ldc + i : i * s.ldc + j;
        GemmTerm of;
        if (term)
            of = gemm_term_from(term, s.transposed ? j : i, s.transposed ? i : j);
        gemm_rectangle(&s, (char *)c + at * size, a + i * s.ai, b + j * s.bj,
                       bias ? bias + (s.transposed ? i : j) : NULL, term ? &of : NULL,
                       s.m - i < rows ? s.m - i : rows, s.n - j < columns ? s.n - j : columns, t,
                       gemm_divide((char *)ws + part * bytes, bytes, depth, term));
    }
}

#endif
