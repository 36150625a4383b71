/* lora.h -- the LoRA adapters of one linear layer (Hu et al. 2021), as PEFT computes them.
 *
 * In:    x (rows, in), y (rows, out) act_t; a (parts * rank, in); b: the parts' (width, rank).
 * Out:   y[:, col_p ..] += u_p b_p^T, u_p = scale * drop_p(x) a_p^T; u is kept for the backward.
 * Keeps: part p draws the dropout mask of site * 4 + p, never stored; y and dx are rounded once.
 * Method: in bf16 a term of the layer's own product (gemm.h), except where dx is masked. Apart:
 *         gemm.h for long sums; own loops over the rank, where a call of oneDNN in bf16 takes 8
 *         times as long. */
#ifndef DIECAST_KERNELS_LORA_H
#define DIECAST_KERNELS_LORA_H

#include "dropout.h"
#include "gemm.h"
#include "tile.h"

enum {
    LORA_PARTS = GEMM_PARTS,
    /* of the block of y or dx that is updated at a time */
    LORA_ROWS = 12, LORA_COLS = 256, LORA_DEPTH = 64,
    LORA_LINE = 64 / sizeof(act_t)                   /* elements of a cache line */
};

typedef struct Lora Lora;
struct Lora {
    const char *name;                                /* for errors */
    int64_t rows, in, out, rank, parts;
    int64_t col[LORA_PARTS], width[LORA_PARTS];      /* columns of y that a part adds to */
    float scale, dropout;                            /* alpha / rank; probability to drop, < 1 */
    int64_t T;                                       /* positions a sequence, for the masks */
    int beta;                                        /* of da and db */
    /* made by lora_init: with dropout u and da are products of one part, else of all at once */
    Gemm u, da, du[LORA_PARTS], db[LORA_PARTS];
};

/* [GEMM_WORKSPACE | du (rows, parts * rank) act_t | a or a part of b as (rank.., columns) fp32 |
 * with dropout: masked x] */
static inline void lora_init(Lora *l)
{
    const int64_t all = l->parts * l->rank, one = l->dropout > 0 ? l->rank : all;
    l->u = (Gemm){ .name = l->name, .m = l->rows, .n = one, .k = l->in, .form = GEMM_NT, .ldc = all,
                   .scale = l->scale };
    l->da = (Gemm){ .name = l->name, .m = one, .n = l->in, .k = l->rows, .form = GEMM_TN,
                    .lda = all, .out_f32 = 1, .beta = l->beta };
    gemm_init(&l->u);
    gemm_init(&l->da);
    for (int64_t p = 0; p < l->parts; p++) {
        l->du[p] = (Gemm){ .name = l->name, .m = l->rows, .n = l->rank, .k = l->width[p],
                           .form = GEMM_NN, .lda = l->out, .ldc = all, .scale = l->scale };
        l->db[p] = (Gemm){ .name = l->name, .m = l->width[p], .n = l->rank, .k = l->rows,
                           .form = GEMM_TN, .lda = l->out, .ldb = all, .out_f32 = 1,
                           .beta = l->beta };
        gemm_init(&l->du[p]);
        gemm_init(&l->db[p]);
    }
}

/* c (rows, n), ldc apart, += u (rows, k), ldu apart, times m (k, n) fp32; where noise is given, the
 * product passes through the mask of site first. */
static inline void lora_update_(act_t *restrict c, int64_t ldc, int64_t n, const act_t *restrict u,
                                int64_t ldu, int64_t k, const float *restrict m,
                                const uint32_t *noise, uint32_t site, const Lora *l)
{
    DrawMask draws = { .threshold = 0 };         /* without dropout not read */
    if (noise)
        draw_mask(&draws, noise, site, l->dropout);
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t i0 = 0; i0 < l->rows; i0 += LORA_ROWS)
        for (int64_t j0 = 0; j0 < n; j0 += LORA_COLS) {
            const int64_t height = l->rows - i0 < LORA_ROWS ? l->rows - i0 : LORA_ROWS;
            const int64_t width = n - j0 < LORA_COLS ? n - j0 : LORA_COLS;
            float sum[LORA_ROWS * LORA_COLS], uf[LORA_ROWS * LORA_DEPTH], mask[LORA_COLS];
            for (int64_t i = 0; i < height; i++)     /* read after the product */
                for (int64_t j = 0; j < width; j += LORA_LINE)
                    __builtin_prefetch(c + (i0 + i) * ldc + j0 + j, 1);
            for (int64_t r = 0; r < k; r += LORA_DEPTH) {
                const int64_t depth = k - r < LORA_DEPTH ? k - r : LORA_DEPTH;
                for (int64_t i = 0; i < height; i++)
                    act_to_float(uf + i * LORA_DEPTH, u + (i0 + i) * ldu + r, depth);
                tile_product(&(Tile){ .c = sum, .ldc = LORA_COLS, .a = uf, .lda = LORA_DEPTH,
                                      .b = m + r * n + j0, .ldb = n, .m = height,
                                      .n = width, .k = depth, .add = r > 0 });
            }
            for (int64_t i = 0; i < height; i++) {
                act_t *row = c + (i0 + i) * ldc + j0;
                const float *s = sum + i * LORA_COLS;
                if (noise)
                    draw_row(mask, &draws, l->T, i0 + i, j0, width);
#pragma omp simd
                for (int64_t j = 0; j < width; j++)
                    act_store(row + j, act_load(row + j) + (noise ? s[j] * mask[j] : s[j]));
            }
        }
}

/* m (rank, width) fp32 = the transpose of b (width, rank) */
static inline void lora_transpose_(float *restrict m, const wt_t *restrict b, int64_t width,
                                   int64_t rank)
{
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < width; j++)
        for (int64_t r = 0; r < rank; r++)
            m[r * width + j] = act_load(b + j * rank + r);
}

/* Addresses of the parts of ws. */
typedef struct {
    act_t *du, *dropped;
    float *matrix;
} LoraPlaces;

static inline LoraPlaces lora_places_(void *ws, const Lora *l)
{
    char *p = (char *)ws + GEMM_WORKSPACE;
    LoraPlaces at = { .du = (act_t *)p };
    p += workspace_round(l->rows * l->parts * l->rank * (int64_t)sizeof(act_t));
    at.matrix = (float *)p;
    at.dropped = (act_t *)((char *)ws + lora_workspace(l->rows, l->in, l->out, l->rank, l->parts,
                                                       0, sizeof(act_t)));
    return at;
}

/* True if the layer's product adds its adapters. In fp32, which gains little, they are added apart:
 * recorded results have those bits. */
static inline bool lora_is_term_(const Gemm *base, const Lora *l)
{
    return !GEMM_F32 && gemm_takes_term(base, l->parts, l->rank);
}

static inline void lora_u_(act_t *u, const act_t *x, const wt_t *a, const uint32_t *noise,
                           uint32_t site, Lora *l, void *ws)
{
    const LoraPlaces at = lora_places_(ws, l);
    if (l->dropout == 0)
        gemm_run(&l->u, u, x, a, NULL, ws);
    for (int64_t p = 0; l->dropout > 0 && p < l->parts; p++) {
        dropout_each(at.dropped, x, noise, NULL, site * LORA_PARTS + (uint32_t)p, l->dropout,
                     l->rows, l->T, l->in);
        gemm_run(&l->u, u + p * l->rank, at.dropped, a + p * l->rank * l->in, NULL, ws);
    }
}

/* noise: see philox.h; not read when dropout is 0. ws: lora_workspace(...) bytes. */
static inline void lora_fwd(act_t *y, act_t *u, const act_t *x, const wt_t *a, const wt_t *b,
                            const uint32_t *noise, uint32_t site, Lora *l, void *ws)
{
    const LoraPlaces at = lora_places_(ws, l);
    lora_u_(u, x, a, noise, site, l, ws);
    for (int64_t p = 0; p < l->parts; b += l->width[p++] * l->rank) {
        lora_transpose_(at.matrix, b, l->width[p], l->rank);
        lora_update_(y + l->col[p], l->out, l->width[p], u + p * l->rank, l->parts * l->rank,
                     l->rank, at.matrix, NULL, 0, l);
    }
}

/* y = x w^T + bias, if base has one, and what lora_fwd() adds to it. base: the layer's own product,
 * { .m = rows, .n = out, .k = in, .form = GEMM_NT }; NULL: no bias. */
static inline void linear_lora_fwd(act_t *y, act_t *u, const act_t *x, const wt_t *w,
                                   const wt_t *bias, const wt_t *a, const wt_t *b,
                                   const uint32_t *noise, uint32_t site, Gemm *base, Lora *l,
                                   void *ws)
{
    if (!lora_is_term_(base, l)) {
        gemm_run(base, y, x, w, bias, ws);
        lora_fwd(y, u, x, a, b, noise, site, l, ws);
        return;
    }
    GemmTerm term = { .parts = l->parts, .rank = l->rank, .ai = l->parts * l->rank, .bl = 1,
                      .bj = l->rank, .a = u };
    for (int64_t p = 0; p < l->parts; b += l->width[p++] * l->rank)
        term.column[p] = l->col[p], term.width[p] = l->width[p], term.b[p] = b;
    lora_u_(u, x, a, noise, site, l, ws);
    gemm_run_term(base, y, x, w, bias, &term, ws);
}

/* da and db; without dropout also du of all parts, which the caller then adds to dx. */
static inline void lora_grads_(act_t *dx, float *da, float *db, const act_t *dy, const act_t *x,
                               const act_t *u, const wt_t *b, const uint32_t *noise, uint32_t site,
                               Lora *l, void *ws)
{
    const LoraPlaces at = lora_places_(ws, l);
    const int64_t all = l->parts * l->rank, in = l->in;
    int64_t above = 0;
    for (int64_t p = 0; p < l->parts; above += l->width[p++] * l->rank) {
        const int64_t first = p * l->rank;
        gemm_run(&l->du[p], at.du + first, dy + l->col[p], b + above, NULL, ws);
        gemm_run(&l->db[p], db + above, dy + l->col[p], u + first, NULL, ws);
        if (l->dropout > 0) {
            const uint32_t mask = site * LORA_PARTS + (uint32_t)p;
            dropout_each(at.dropped, x, noise, NULL, mask, l->dropout, l->rows, l->T, in);
            gemm_run(&l->da, da + first * in, at.du + first, at.dropped, NULL, ws);
            lora_update_(dx, in, in, at.du + first, all, l->rank, at.matrix + first * in, noise,
                         mask, l);
        }
    }
    if (l->dropout == 0)
        gemm_run(&l->da, da, at.du, x, NULL, ws);
}

/* dx is added to. */
static inline void lora_bwd(act_t *dx, float *da, float *db, const act_t *dy, const act_t *x,
                            const act_t *u, const wt_t *a, const wt_t *b, const uint32_t *noise,
                            uint32_t site, Lora *l, void *ws)
{
    const LoraPlaces at = lora_places_(ws, l);
    const int64_t all = l->parts * l->rank, in = l->in;
    act_to_float(at.matrix, a, all * in);
    lora_grads_(dx, da, db, dy, x, u, b, noise, site, l, ws);
    if (l->dropout == 0)
        lora_update_(dx, in, in, at.du, all, all, at.matrix, NULL, 0, l);
}

/* dx = dy w and what lora_bwd() adds to it; dx is none of the others. base: { .m = rows, .n = in,
 * .k = out, .form = GEMM_NN }. */
static inline void linear_lora_bwd(act_t *dx, float *da, float *db, const act_t *dy, const act_t *x,
                                   const act_t *u, const wt_t *w, const wt_t *a, const wt_t *b,
                                   const uint32_t *noise, uint32_t site, Gemm *base, Lora *l,
                                   void *ws)
{
    const int64_t all = l->parts * l->rank, in = l->in;
    if (l->dropout > 0 || !lora_is_term_(base, l)) {
        gemm_run(base, dx, dy, w, NULL, ws);
        lora_bwd(dx, da, db, dy, x, u, a, b, noise, site, l, ws);
        return;
    }
    lora_grads_(NULL, da, db, dy, x, u, b, NULL, 0, l, ws);
    const GemmTerm term = { .parts = 1, .rank = all, .ai = all, .bl = in, .bj = 1, .width = { in },
                            .a = lora_places_(ws, l).du, .b = { a } };
    gemm_run_term(base, dx, dy, w, NULL, &term, ws);
}

#endif
