/* b_bench.c -- speeds of the memory-bound kernels. */
#include <stdio.h>

#include "../../kernels/cpu/adamw.h"
#include "../../kernels/cpu/embed.h"
#include "../../kernels/cpu/layernorm.h"
#include "../../kernels/cpu/pointwise.h"
#include "../../kernels/cpu/rmsnorm.h"
#include "../../kernels/cpu/rope.h"
#include "harness.h"

/* One set of buffers; a row of the table below uses some. Bytes are those that must move. */
typedef struct {
    int64_t rows, C, V;
    act_t *x, *y, *z, *res;
    wt_t *w, *b, *wte;
    float *mean, *rstd, *dw, *db, *dwte, *cosine, *sine, *p, *m, *v, *g;
    int32_t *tok;
    void *ws;
} Set;

enum { T = 256 };
#define ELEMENTS ((double)s->rows * (double)s->C * (double)sizeof(act_t))
#define PARAMS ((double)s->V * (double)s->C)

/* name, bytes moved, call */
#define ROWS(_)                                                                                    \
    _(copy, 2 * ELEMENTS, memcpy(s->y, s->x, (size_t)ELEMENTS))                                    \
    _(add, 3 * ELEMENTS, add_fwd(s->y, s->x, s->z, s->rows *s->C))                                 \
    _(gelu, 2 * ELEMENTS, gelu_fwd(s->y, s->x, s->rows *s->C))                                     \
    _(gelu_bwd, 3 * ELEMENTS, gelu_bwd(s->y, s->z, s->x, s->rows *s->C))                           \
    _(swiglu, 1.5 * ELEMENTS, swiglu_fwd(s->y, s->x, s->rows, s->C / 2))                           \
    _(swiglu_bwd, 2.5 * ELEMENTS, swiglu_bwd(s->y, s->z, s->x, s->rows, s->C / 2))                 \
    _(layernorm, 2 * ELEMENTS,                                                                     \
      layernorm_fwd(s->y, s->mean, s->rstd, s->x, s->w, s->b, s->rows, s->C, 1e-5f))               \
    _(add_layernorm, 4 * ELEMENTS, add_layernorm_fwd(s->z, s->y, s->mean, s->rstd, s->x, s->res,   \
                                                     s->w, s->b, s->rows, s->C, 1e-5f))            \
    _(layernorm_bwd, 4 * ELEMENTS, layernorm_bwd_add(s->dw, s->db, s->y, s->z, s->x, s->w,         \
                                                     s->mean, s->rstd, s->res, s->rows, s->C, 1,   \
                                                     s->ws))                                       \
    _(layernorm_dx, 4 * ELEMENTS, layernorm_dx_add(s->y, s->z, s->x, s->w, s->mean, s->rstd,       \
                                                   s->res, s->rows, s->C))                         \
    _(rmsnorm, 2 * ELEMENTS, rmsnorm_fwd(s->y, s->rstd, s->x, s->w, s->rows, s->C, 1e-5f, 0))      \
    _(rmsnorm_bwd, 4 * ELEMENTS, rmsnorm_bwd_add(s->dw, s->y, s->z, s->x, s->w, s->rstd, s->res,   \
                                                 s->rows, s->C, 0, 1, s->ws))                      \
    _(rmsnorm_dx, 4 * ELEMENTS,                                                                    \
      rmsnorm_dx_add(s->y, s->z, s->x, s->w, s->rstd, s->res, s->rows, s->C, 0))                   \
    _(rope, 4 * ELEMENTS / 3,                                                                      \
      rope_fwd(s->y, s->cosine, s->sine, NULL, s->rows, T, s->C / 96, s->C / 96, 32))                    \
    _(embed, 3 * ELEMENTS, embed_fwd(s->y, s->tok, s->wte, s->wte, NULL, s->rows, T, s->C))          \
    _(embed_bwd, 3 * ELEMENTS,                                                                     \
      embed_bwd(s->dwte, s->x, s->tok, NO_PAD, s->rows, s->C, s->V, 1))                                    \
    _(adamw, 28 * PARAMS, adamw(s->p, s->m, s->v, s->g, adamw_args, &norm, s->V *s->C, 1))              \
    _(adamw_mixed, (28 + (double)sizeof(wt_t)) * PARAMS,                                           \
      adamw_mixed(s->wte, &(Master){.fp32 = s->p}, s->m, s->v, s->g, adamw_args, &norm,         \
                  s->V *s->C, 1))                                                               \
    _(grad_norm, 4 * PARAMS, grad_norm(&norm, s->g, s->V *s->C, s->ws))

static const float adamw_args[8] = { 1e-4f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.1f, 0.001f, 1.0f };
static float norm = 1;

#define FUNCTION(name, bytes, call)                                                                \
    static void run_##name(void *ctx)                                                              \
    {                                                                                              \
        Set *s = ctx;                                                                              \
        call;                                                                                      \
    }
ROWS(FUNCTION)

static void report(int64_t rows, int64_t C, int64_t V)
{
    const int64_t n = rows * C, N = V * C;
    Set set = { .rows = rows, .C = C, .V = V }, *s = &set;
    set.x = act_normal(n, 0, 1);
    set.y = act_normal(n, 0, 1);
    set.z = act_normal(n, 0, 1);
    set.res = act_normal(n, 0, 1);
    set.w = act_normal(C, 1, 0.1);
    set.b = act_normal(C, 1, 0.1);
    set.wte = act_normal(N, 0, 1);
    set.mean = f32_normal(rows, 0, 1);
    set.rstd = f32_normal(rows, 1, 0);
    set.dw = f32_normal(C, 0, 1);
    set.db = f32_normal(C, 0, 1);
    set.dwte = f32_normal(N, 0, 1);
    set.cosine = f32_normal(T * 16, 0, 0.5);
    set.sine = f32_normal(T * 16, 0, 0.5);
    set.p = f32_normal(N, 0, 1);
    set.m = f32_normal(N, 0, 1);
    set.v = f32_normal(N, 1, 0);
    set.g = f32_normal(N, 0, 1);
    set.tok = tokens_random(rows, V);
    set.ws = new_bytes(layernorm_bwd_workspace(C) + grad_norm_workspace());
#define REPORT(name, bytes, call)                                                                  \
    {                                                                                              \
        char what[64];                                                                             \
        snprintf(what, sizeof what, "%s %lldx%lld", #name, (long long)rows, (long long)C);         \
        bench_report(what, bench_time(run_##name, s), bytes, 0);                                   \
    }
    ROWS(REPORT)
}

BENCH(b_large)
{
    report(4096, 3072, 8192);
}

BENCH(b_medium)
{
    report(1024, 768, 8192);
}

BENCH(b_tiny)
{
    report(1920, 64, 64);
}
