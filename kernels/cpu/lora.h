/* lora.h -- the LoRA adapters of one linear layer (Hu et al. 2021), as PEFT computes them.
 *
 * In:    x (rows, in), y (rows, out) act_t; a (parts * rank, in); b: the parts' (width, rank) below each other.
 * Out:   y[:, col_p ..] += scale * u_p b_p^T with u_p = drop_p(x) a_p^T, u (rows, parts * rank) kept for the backward.
 * Keeps: each part has a dropout mask of its own, that of site * 4 + part; nothing of it is stored.
 * Method: without dropout the parts share one product for all of a; with it the masked x is made once a part. */
#ifndef DIECAST_KERNELS_LORA_H
#define DIECAST_KERNELS_LORA_H

#include "gemm.h"
#include "philox.h"

enum { LORA_PARTS = 4 };

typedef struct Lora Lora;
struct Lora {
    const char *name;                                /* for errors */
    int64_t rows, in, out, rank, parts;
    int64_t col[LORA_PARTS], width[LORA_PARTS];      /* columns of y that a part adds to */
    float scale, dropout;                            /* alpha / rank; probability to drop, < 1 */
    int64_t T;                                       /* positions a sequence, for the masks */
    int beta;                                        /* of da and db */
    /* made by lora_init: with dropout u, da and dx are products of one part, else of all parts at once */
    Gemm u, da, dx, y[LORA_PARTS], du[LORA_PARTS], db[LORA_PARTS];
};

#ifdef KERNEL_REFERENCE
/* mask (parts, rows, in): 0 or 1 / (1 - dropout). */
static inline void lora_fwd_ref(double *y, double *u, const double *x, const double *a, const double *b, const double *mask,
                                const Lora *l)
{
    for (int64_t p = 0; p < l->parts; b += l->width[p++] * l->rank)
        for (int64_t i = 0; i < l->rows; i++) {
            double *up = u + (i * l->parts + p) * l->rank;
            for (int64_t r = 0; r < l->rank; r++) {
                up[r] = 0;
                for (int64_t c = 0; c < l->in; c++)
                    up[r] += x[i * l->in + c] * mask[(p * l->rows + i) * l->in + c] * a[(p * l->rank + r) * l->in + c];
            }
            for (int64_t j = 0; j < l->width[p]; j++)
                for (int64_t r = 0; r < l->rank; r++)
                    y[i * l->out + l->col[p] + j] += l->scale * up[r] * b[j * l->rank + r];
        }
}

static inline void lora_bwd_ref(double *dx, double *da, double *db, const double *dy, const double *x, const double *u,
                                const double *a, const double *b, const double *mask, const Lora *l)
{
    int64_t above = 0;
    for (int64_t p = 0; p < l->parts; above += l->width[p++] * l->rank)
        for (int64_t i = 0; i < l->rows; i++)
            for (int64_t r = 0; r < l->rank; r++) {
                double du = 0;
                for (int64_t j = 0; j < l->width[p]; j++) {
                    double d = l->scale * dy[i * l->out + l->col[p] + j];
                    du += d * b[above + j * l->rank + r];
                    db[above + j * l->rank + r] += d * u[(i * l->parts + p) * l->rank + r];
                }
                for (int64_t c = 0; c < l->in; c++) {
                    double m = mask[(p * l->rows + i) * l->in + c];
                    dx[i * l->in + c] += du * a[(p * l->rank + r) * l->in + c] * m;
                    da[(p * l->rank + r) * l->in + c] += du * x[i * l->in + c] * m;
                }
            }
}
#endif

static inline int64_t lora_round_(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* [GEMM_WORKSPACE | du (rows, parts * rank) | with dropout: masked x, then the part's dx (rows, in)] */
static inline int64_t lora_workspace(int64_t rows, int64_t in, int64_t rank, int64_t parts, float dropout)
{
    return GEMM_WORKSPACE + lora_round_(rows * parts * rank * (int64_t)sizeof(act_t)) +
           (dropout > 0 ? lora_round_(rows * in * (int64_t)sizeof(act_t)) : 0);
}

static inline void lora_init(Lora *l)
{
    const int64_t all = l->parts * l->rank, one = l->dropout > 0 ? l->rank : all;
    l->u = (Gemm){ .m = l->rows, .n = one, .k = l->in, .form = GEMM_NT, .ldc = all };
    l->da = (Gemm){ .m = one, .n = l->in, .k = l->rows, .form = GEMM_TN, .lda = all, .out_f32 = 1, .beta = l->beta };
    l->dx = (Gemm){ .m = l->rows, .n = l->in, .k = one, .form = GEMM_NN, .lda = all, .beta = l->dropout == 0 };
    Gemm *shared[] = { &l->u, &l->da, &l->dx };
    for (int i = 0; i < 3; i++) {
        shared[i]->name = l->name;
        gemm_init(shared[i]);
    }
    for (int64_t p = 0; p < l->parts; p++) {
        l->y[p] = (Gemm){ .m = l->rows, .n = l->width[p], .k = l->rank, .form = GEMM_NT, .lda = all, .ldc = l->out,
                          .scale = l->scale, .beta = 1 };
        l->du[p] = (Gemm){ .m = l->rows, .n = l->rank, .k = l->width[p], .form = GEMM_NN, .lda = l->out, .ldc = all,
                           .scale = l->scale };
        l->db[p] = (Gemm){ .m = l->width[p], .n = l->rank, .k = l->rows, .form = GEMM_TN, .lda = l->out, .ldb = all,
                           .scale = l->scale, .out_f32 = 1, .beta = l->beta };
        Gemm *own[] = { &l->y[p], &l->du[p], &l->db[p] };
        for (int i = 0; i < 3; i++) {
            own[i]->name = l->name;
            gemm_init(own[i]);
        }
    }
}

/* One row: y = drop(x), or y += drop(x). */
static inline void lora_drop_row_(act_t *y, const act_t *x, int add, const uint32_t *noise, uint32_t site, int64_t T,
                                  int64_t row, int64_t n, float p)
{
    const uint32_t threshold = dropout_threshold(p);
    const float scale = 1.0f / (1.0f - p);
#pragma omp simd
    for (int64_t quad = 0; quad < n / 4; quad++) {
        uint32_t word[4];
        dropout_words(word, noise, site, T, row, (uint32_t)quad);
        for (int i = 0; i < 4; i++) {
            float v = word[i] >= threshold ? act_load(x + 4 * quad + i) * scale : 0.0f;
            act_store(y + 4 * quad + i, add ? act_load(y + 4 * quad + i) + v : v);
        }
    }
    for (int64_t i = n / 4 * 4; i < n; i++) {
        float v = dropout_keep(noise, site, T, row, (uint32_t)i, p) ? act_load(x + i) * scale : 0.0f;
        act_store(y + i, add ? act_load(y + i) + v : v);
    }
}

static inline void lora_drop_(act_t *y, const act_t *x, int add, const uint32_t *noise, uint32_t site, const Lora *l)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < l->rows; i++)
        lora_drop_row_(y + i * l->in, x + i * l->in, add, noise, site, l->T, i, l->in, l->dropout);
}

/* noise: see philox.h; not read when dropout is 0. ws: lora_workspace(...) bytes. */
static inline void lora_fwd(act_t *y, act_t *u, const act_t *x, const wt_t *a, const wt_t *b, const uint32_t *noise,
                            uint32_t site, Lora *l, void *ws)
{
    act_t *dropped = (act_t *)((char *)ws + lora_workspace(l->rows, l->in, l->rank, l->parts, 0));
    if (l->dropout == 0)
        gemm_run(&l->u, u, x, a, NULL, ws);
    for (int64_t p = 0; p < l->parts; b += l->width[p++] * l->rank) {
        if (l->dropout > 0) {
            lora_drop_(dropped, x, 0, noise, site * LORA_PARTS + (uint32_t)p, l);
            gemm_run(&l->u, u + p * l->rank, dropped, a + p * l->rank * l->in, NULL, ws);
        }
        gemm_run(&l->y[p], y + l->col[p], u + p * l->rank, b, NULL, ws);
    }
}

/* dx is added to. */
static inline void lora_bwd(act_t *dx, float *da, float *db, const act_t *dy, const act_t *x, const act_t *u, const wt_t *a,
                            const wt_t *b, const uint32_t *noise, uint32_t site, Lora *l, void *ws)
{
    act_t *du = (act_t *)((char *)ws + GEMM_WORKSPACE);
    act_t *dropped = (act_t *)((char *)ws + lora_workspace(l->rows, l->in, l->rank, l->parts, 0));
    int64_t above = 0;
    for (int64_t p = 0; p < l->parts; above += l->width[p++] * l->rank) {
        const int64_t at = p * l->rank;
        gemm_run(&l->du[p], du + at, dy + l->col[p], b + above, NULL, ws);
        gemm_run(&l->db[p], db + above, dy + l->col[p], u + at, NULL, ws);
        if (l->dropout > 0) {
            const uint32_t mask = site * LORA_PARTS + (uint32_t)p;
            lora_drop_(dropped, x, 0, noise, mask, l);
            gemm_run(&l->da, da + at * l->in, du + at, dropped, NULL, ws);
            gemm_run(&l->dx, dropped, du + at, a + at * l->in, NULL, ws);
            lora_drop_(dx, dropped, 1, noise, mask, l);
        }
    }
    if (l->dropout == 0) {
        gemm_run(&l->da, da, du, x, NULL, ws);
        gemm_run(&l->dx, dx, du, a, NULL, ws);
    }
}

#endif
