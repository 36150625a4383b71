/* gemm_rows.h -- fp32 matrix products whose rows go through a function while they are in cache.
 *
 * In:    a Gemm without scale and beta, GEMM_NT or GEMM_NN, with n <= GEMM_ROWS_N and
 *        n * k <= GEMM_ROWS_B (workspace.h).
 * Out:   C, or only what the function makes of its rows.
 * Keeps: the bits of gemm_run() and of the function on all rows after it.
 * Method: each thread packs all of B once; blocks of rows of C then stay in the L2 cache. Tiles
 *        prefetch the rows that the function reads, too. */
#ifndef DIECAST_KERNELS_GEMM_ROWS_H
#define DIECAST_KERNELS_GEMM_ROWS_H

#include "gemm.h"

_Static_assert(GEMM_F32, "sums of 16-bit results are not in C");

/* Called by one thread with rows [first, first + rows) of C (m, n), dense at c. part: the block of
 * rows they belong to, of REDUCE_PARTS, whose rows come in order. */
typedef void GemmRowsFunction(const void *with, act_t *c, int64_t first, int64_t rows,
                              int64_t part);

typedef struct {
    GemmRowsFunction *run;
    const void *with;
    const act_t *reads;          /* (m, width) that run() reads, or NULL */
    int64_t width;
    bool sums;                   /* run() sums over the rows of a part; m % REDUCE_PARTS is 0 */
} GemmRows;

/* A call, and the buffers of one thread: a packed block of A; all of B; a block of C. */
typedef struct {
    const GemmShape *s;
    const GemmRows *then;
    const GemmTiles *t;
    const act_t *a;
    const wt_t *bias;
    act_t *c;
    float *packed_a, *packed_b, *block;
} GemmRowsCall;

/* Columns of packed B: whole panels. */
static inline int64_t gemm_rows_columns_(const GemmShape *s)
{
    return (s->n + GEMM_PANEL - 1) / GEMM_PANEL * GEMM_PANEL;
}

/* Packs B (k, n), a block of GEMM_DEPTH rows after the other. */
static inline void gemm_rows_pack_(const GemmRowsCall *g, const wt_t *b)
{
    const GemmShape *s = g->s;
    for (int64_t l = 0; l < s->k; l += GEMM_DEPTH) {
        const int64_t k = s->k - l < GEMM_DEPTH ? s->k - l : GEMM_DEPTH;
        const GemmPacked p = { .b = g->packed_b + l * gemm_rows_columns_(s), .k = k };
        gemm_pack_b(&p, s, b + l * s->bl, s->n, k, g->t);
    }
}

/* Rows [i, i + rows) of C at c; A has `left` more after these. */
static inline void gemm_rows_block_(const GemmRowsCall *g, float *c, int64_t i, int64_t rows,
                                    int64_t left)
{
    const GemmShape *s = g->s;
    const act_t *a = g->a + i * s->ai;
    const int64_t next = left < GEMM_ROWS ? left : GEMM_ROWS, width = g->then->width;
    GemmPacked p = { .a = g->packed_a, .depth = GEMM_DEPTH,
                     .in_place = s->ai * (int64_t)sizeof *a % GEMM_SETS != 0 };
    for (int64_t l = 0; l < s->k; l += GEMM_DEPTH) {
        p.k = s->k - l < GEMM_DEPTH ? s->k - l : GEMM_DEPTH;
        p.b = g->packed_b + l * gemm_rows_columns_(s);
        p.ahead = (GemmAhead){ .tiles = gemm_tile_count(g->t, rows, s->n) };
        if (l == 0 && next > 0)
            p.ahead.a = gemm_lines(g->t, a + rows * s->ai, s->ai, next, s->k, p.k);
        if (l == 0 && g->then->reads)
            p.ahead.b = gemm_lines(g->t, g->then->reads + i * width, width, rows, width, p.k);
        p.ahead.count = p.ahead.a.shares + p.ahead.b.shares;
        gemm_pack_a(&p, s, a + l, rows, p.k, g->t);
        GemmFinish finish = { .bias = l ? NULL : g->bias, .scale = 1, .add = l > 0 };
        gemm_block(g->t, c, s->n, &p, rows, s->n, &finish);
    }
}

/* Rows [begin, end), all of one part. */
static inline void gemm_rows_part_(const GemmRowsCall *g, int64_t part, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += GEMM_ROWS) {
        const int64_t rows = end - i < GEMM_ROWS ? end - i : GEMM_ROWS;
        act_t *c = g->c ? g->c + i * g->s->n : g->block;
        gemm_rows_block_(g, c, i, rows, end - i - rows);
        g->then->run(g->then->with, c, i, rows, part);
    }
}

/* c (m, n), or NULL: C is not stored; bias (n) or NULL; ws: GEMM_WORKSPACE bytes. */
static inline void gemm_rows_run(const Gemm *g, act_t *c, const act_t *a, const wt_t *b,
                                 const wt_t *bias, const GemmRows *then, void *ws)
{
    const GemmShape s = gemm_shape_(g);
    const int64_t of_a = GEMM_PACKED_A, of_b = gemm_rows_columns_(&s) * s.k;
    const int64_t floats = of_a + of_b + GEMM_ROWS * s.n;
    const int most = (int)(GEMM_WORKSPACE / (int64_t)sizeof(float) / floats);
    const int all = omp_get_max_threads(), threads = all < most ? all : most;
    const int64_t parts = then->sums ? REDUCE_PARTS : threads;
    const int64_t rows = gemm_part(s.m, parts, then->sums ? 1 : GEMM_SHORT);
#pragma omp parallel num_threads(threads)
    {
        float *own = (float *)ws + omp_get_thread_num() * floats;
        const GemmRowsCall call = { &s, then, gemm_tiles, a, bias, c,
                                    own, own + of_a, own + of_a + of_b };
        gemm_rows_pack_(&call, b);
#pragma omp for schedule(static) nowait
        for (int64_t part = 0; part < parts; part++) {
            const int64_t begin = part * rows, end = begin + rows;
            gemm_rows_part_(&call, part, begin, end < s.m ? end : s.m);
        }
    }
}

#endif
