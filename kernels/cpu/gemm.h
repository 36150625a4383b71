/* gemm.h -- every matrix product of a CPU program, by oneDNN: C = scale * (A B + bias) + beta * C.
 *
 * In:    A (m, k), B (k, n) act_t, C (m, n) act_t or float, bias (n) wt_t; row-major, no aliasing.
 * Out:   C, summed in fp32, rounded once; the same bits on the same CPU with as many threads.
 * Keeps: no allocation of ours after gemm_init; ws is free for others between calls.
 * Method: one primitive a product, made at init; own loops where oneDNN has no bf16 (no AVX-512). */
#ifndef DIECAST_KERNELS_GEMM_H
#define DIECAST_KERNELS_GEMM_H

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>

#include "runtime/base.h"
#include "tile.h"

typedef enum {
    GEMM_NT,                     /* B is stored (n, k): y = x w^T */
    GEMM_NN,                     /* B is stored (k, n): dx = dy w */
    GEMM_TN                      /* A is stored (k, m), B (k, n): dw = dy^T x */
} GemmForm;

typedef struct Gemm Gemm;
struct Gemm {
    const char *name;            /* for errors */
    int64_t m, n, k;
    int64_t lda, ldb, ldc;       /* elements between stored rows; 0: dense */
    GemmForm form;
    int bias, beta, out_f32;     /* 0 or 1; out_f32: C is float although act_t is not */
    float scale;                 /* 0: 1 */
    /* made by gemm_init */
    dnnl_primitive_t product;    /* NULL: gemm_plain_ */
    dnnl_memory_t a, b, c, bias_memory, scratch;
};

static dnnl_engine_t gemm_engine;
static dnnl_stream_t gemm_stream;

#ifdef KERNEL_REFERENCE
#include "../reference/gemm.h"
#endif

static inline void gemm_check_(dnnl_status_t status, const char *name, const char *what)
{
    if (status != dnnl_success)
        die(EXIT_INTERNAL, "gemm %s: oneDNN refuses %s (status %d)", name, what, (int)status);
}

/* Before the first gemm_init. */
static inline void gemm_setup(void)
{
    gemm_check_(dnnl_engine_create(&gemm_engine, dnnl_cpu, 0), "setup", "a CPU engine");
    gemm_check_(dnnl_stream_create(&gemm_stream, gemm_engine, dnnl_stream_default_flags), "setup",
                "a stream");
}

/* Which of oneDNN's two fp32 products: "gemm:jit" (its classic sgemm) or the first it offers ("brg").
 * Measured on two cores with AVX-512, GFLOP/s brg / gemm:jit: GPT-2 124M, 1024 rows: qkv forward
 * 369 / 394, its dx 320 / 367, up dx 316 / 367, up dw 339 / 364; where rows of B lie a multiple of a
 * page apart: down dx 189 / 379, down dw 166 / 366; head dx 246 / 316, dw 252 / 302. Small products
 * are the other way round by 3 to 10 %: 15360 x 64 x 64: 313 / 262. */
static inline bool gemm_prefers_classic(const Gemm *g)
{
    const int64_t ldb = g->ldb ? g->ldb : g->n;
    const bool pages = g->form != GEMM_NT && ldb * 4 % 4096 == 0 && g->m >= 128 && g->k >= 64;
    return sizeof(act_t) == sizeof(float) && (pages || g->m * g->n * g->k >= (int64_t)1 << 28);
}

static inline dnnl_memory_desc_t gemm_matrix_(const Gemm *g, int64_t rows, int64_t cols, int64_t ld,
                                              bool transposed, dnnl_data_type_t type)
{
    dnnl_memory_desc_t md;
    int64_t row = transposed ? 1 : ld ? ld : cols, col = transposed ? (ld ? ld : rows) : 1;
    gemm_check_(dnnl_memory_desc_init_by_strides(&md, 2, (dnnl_dims_t){ rows, cols }, type,
                                                 (dnnl_dims_t){ row, col }),
                g->name, "the shape of an operand");
    return md;
}

static inline dnnl_memory_t gemm_memory_(const Gemm *g, const dnnl_memory_desc_t *md)
{
    dnnl_memory_t memory;
    gemm_check_(dnnl_memory_create(&memory, md, gemm_engine, DNNL_MEMORY_NONE), g->name,
                "a memory object");
    return memory;
}

/* Scale and beta; the scratchpad is ours. */
static inline dnnl_primitive_attr_t gemm_attr_(const Gemm *g)
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    gemm_check_(dnnl_primitive_attr_create(&attr), g->name, "attributes");
    gemm_check_(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user), g->name,
                "our scratchpad");
    gemm_check_(dnnl_post_ops_create(&post), g->name, "post-ops");
    /* a linear post-op before the sum would fall back to oneDNN's reference */
    if (g->scale != 0 && g->scale != 1)
        gemm_check_(dnnl_primitive_attr_set_output_scales(attr, 1, 0, &g->scale), g->name,
                    "a scale");
    if (g->beta)
        gemm_check_(dnnl_post_ops_append_sum(post, 1), g->name, "beta");
    gemm_check_(dnnl_primitive_attr_set_post_ops(attr, post), g->name, "post-ops");
    dnnl_post_ops_destroy(post);
    return attr;
}

/* The primitive descriptor wanted by gemm_prefers_classic, else the first one; NULL: none at all. */
static inline dnnl_primitive_desc_t gemm_choose_(const Gemm *g, const dnnl_matmul_desc_t *desc,
                                                 dnnl_primitive_attr_t attr)
{
    dnnl_primitive_desc_iterator_t all;
    dnnl_status_t status = dnnl_primitive_desc_iterator_create(&all, desc, attr, gemm_engine, NULL);
    if (status == dnnl_unimplemented)
        return NULL;
    gemm_check_(status, g->name, "the product");
    dnnl_primitive_desc_t chosen = dnnl_primitive_desc_iterator_fetch(all);
    const char *name = "";
    while (gemm_prefers_classic(g) && dnnl_primitive_desc_iterator_next(all) == dnnl_success) {
        dnnl_primitive_desc_t other = dnnl_primitive_desc_iterator_fetch(all);
        gemm_check_(dnnl_primitive_desc_query(other, dnnl_query_impl_info_str, 0, &name), g->name,
                    "to name a product");
        const bool classic = strncmp(name, "gemm:jit", 8) == 0;
        dnnl_primitive_desc_destroy(classic ? chosen : other);
        if (classic) {
            chosen = other;
            break;
        }
    }
    dnnl_primitive_desc_iterator_destroy(all);
    return chosen;
}

/* Makes the product for the present number of threads; returns its scratchpad bytes. */
static inline int64_t gemm_make_(Gemm *g, const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b,
                                 const dnnl_memory_desc_t *c, const dnnl_memory_desc_t *bias)
{
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr = gemm_attr_(g);
    gemm_check_(dnnl_matmul_desc_init(&desc, a, b, bias, c), g->name, "the product");
    dnnl_primitive_desc_t pd = gemm_choose_(g, &desc, attr);
    dnnl_primitive_attr_destroy(attr);
    if (!pd && sizeof(act_t) != sizeof(float))
        return 0;
    gemm_check_(pd ? dnnl_primitive_create(&g->product, pd) : dnnl_unimplemented, g->name,
                "the product");
    const dnnl_memory_desc_t *scratch;
    scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    g->scratch = gemm_memory_(g, scratch);
    int64_t bytes = (int64_t)dnnl_memory_desc_get_size(scratch);
    dnnl_primitive_desc_destroy(pd);
    return bytes;
}

/* Returns the bytes of ws that the product uses. */
static inline int64_t gemm_init(Gemm *g)
{
    const dnnl_data_type_t act = sizeof(act_t) == sizeof(float) ? dnnl_f32 : dnnl_bf16;
    int64_t ldb = g->ldb ? g->ldb : g->form == GEMM_NT ? g->k : g->n, ldc = g->ldc ? g->ldc : g->n;
    dnnl_memory_desc_t a = gemm_matrix_(g, g->m, g->k, g->lda, g->form == GEMM_TN, act);
    dnnl_memory_desc_t b = gemm_matrix_(g, g->k, g->n, ldb, g->form == GEMM_NT, act);
    dnnl_memory_desc_t c = gemm_matrix_(g, g->m, g->n, ldc, false, g->out_f32 ? dnnl_f32 : act);
    dnnl_memory_desc_t bias = gemm_matrix_(g, 1, g->n, 0, false, act);
    const int threads = omp_get_max_threads();
    int64_t bytes = gemm_make_(g, &a, &b, &c, g->bias ? &bias : NULL);
    for (int fewer = threads; bytes > GEMM_WORKSPACE && fewer > 1;) {
        dnnl_primitive_destroy(g->product);
        dnnl_memory_destroy(g->scratch);
        omp_set_num_threads(fewer /= 2);
        bytes = gemm_make_(g, &a, &b, &c, g->bias ? &bias : NULL);
    }
    omp_set_num_threads(threads);
    if (bytes > GEMM_WORKSPACE)
        die(EXIT_CONFIG, "gemm %s: oneDNN wants %lld bytes of workspace, the plan has %lld",
            g->name, (long long)bytes, (long long)GEMM_WORKSPACE);
    g->a = gemm_memory_(g, &a);
    g->b = gemm_memory_(g, &b);
    g->c = gemm_memory_(g, &c);
    if (g->bias)
        g->bias_memory = gemm_memory_(g, &bias);
    return bytes;
}

enum { GEMM_ALGO_BYTES = 160 };

/* Who computes the product: "gemm:jit" and the like are oneDNN's own names. */
static inline void gemm_describe(const Gemm *g, char to[GEMM_ALGO_BYTES])
{
    const char *name = "";
    const_dnnl_primitive_desc_t pd;
    if (g->product && dnnl_primitive_get_primitive_desc(g->product, &pd) == dnnl_success)
        dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    snprintf(to, GEMM_ALGO_BYTES, g->product ? "oneDNN %s" : "own loops%s", name);
}

/* ---- own loops: C in blocks, operands unpacked to fp32 as they come; a thread has its own part of ws -------- */

enum { PLAIN_M = 48, PLAIN_N = 128, PLAIN_K = 256 };

typedef struct {
    float a[PLAIN_M * PLAIN_K], b[PLAIN_K * PLAIN_N], c[PLAIN_M * PLAIN_N];
} PlainBlock;

/* rows x cols elements of x, whose rows (columns if transposed) are ld apart, to y with rows of width. */
static inline void gemm_unpack_(float *y, int64_t width, const act_t *x, int64_t ld, bool transposed,
                                int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            y[i * width + j] = act_load(x + (transposed ? j * ld + i : i * ld + j));
}

static inline void gemm_plain_block_(const Gemm *g, PlainBlock *p, void *c, const act_t *a,
                                     const act_t *b, const wt_t *bias, int64_t i0, int64_t j0)
{
    const int64_t m = g->m - i0 < PLAIN_M ? g->m - i0 : PLAIN_M;
    const int64_t n = g->n - j0 < PLAIN_N ? g->n - j0 : PLAIN_N;
    const int64_t lda = g->lda ? g->lda : g->form == GEMM_TN ? g->m : g->k;
    const int64_t ldb = g->ldb ? g->ldb : g->form == GEMM_NT ? g->k : g->n;
    const int64_t ldc = g->ldc ? g->ldc : g->n;
    const float scale = g->scale != 0 ? g->scale : 1;
    for (int64_t i = 0; i < m * PLAIN_N; i++)
        p->c[i] = 0;
    for (int64_t l0 = 0; l0 < g->k; l0 += PLAIN_K) {
        const int64_t k = g->k - l0 < PLAIN_K ? g->k - l0 : PLAIN_K;
        gemm_unpack_(p->a, PLAIN_K, a + (g->form == GEMM_TN ? l0 * lda + i0 : i0 * lda + l0), lda,
                     g->form == GEMM_TN, m, k);
        gemm_unpack_(p->b, PLAIN_N, b + (g->form == GEMM_NT ? j0 * ldb + l0 : l0 * ldb + j0), ldb,
                     g->form == GEMM_NT, k, n);
        tile_product(&(Tile){ .c = p->c, .a = p->a, .b = p->b, .ldc = PLAIN_N, .ai = PLAIN_K, .al = 1,
                              .ldb = PLAIN_N, .m = m, .n = n, .k = k, .add = 1 });
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t at = (i0 + i) * ldc + j0 + j;
            float v = scale * (p->c[i * PLAIN_N + j] + (g->bias ? act_load(bias + j0 + j) : 0));
            if (g->out_f32)
                ((float *)c)[at] = v + (g->beta ? ((float *)c)[at] : 0);
            else
                act_store((act_t *)c + at, v + (g->beta ? act_load((act_t *)c + at) : 0));
        }
}

static inline void gemm_plain_(const Gemm *g, void *c, const act_t *a, const act_t *b,
                               const wt_t *bias, void *ws)
{
    const int64_t down = (g->m + PLAIN_M - 1) / PLAIN_M, across = (g->n + PLAIN_N - 1) / PLAIN_N;
    const int most = GEMM_WORKSPACE / (int)sizeof(PlainBlock), threads = omp_get_max_threads();
#pragma omp parallel for schedule(static) num_threads(threads < most ? threads : most)
    for (int64_t block = 0; block < down * across; block++)
        gemm_plain_block_(g, (PlainBlock *)ws + omp_get_thread_num(), c, a, b, bias,
                          block % down * PLAIN_M, block / down * PLAIN_N);
}

/* bias: NULL without. ws: GEMM_WORKSPACE bytes. */
static inline void gemm_run(Gemm *g, void *c, const void *a, const void *b, const void *bias,
                            void *ws)
{
    if (!g->product) {
        gemm_plain_(g, c, a, b, bias, ws);
        return;
    }
    dnnl_memory_set_data_handle(g->a, (void *)(uintptr_t)a);
    dnnl_memory_set_data_handle(g->b, (void *)(uintptr_t)b);
    dnnl_memory_set_data_handle(g->c, c);
    dnnl_memory_set_data_handle(g->scratch, ws);
    if (g->bias)
        dnnl_memory_set_data_handle(g->bias_memory, (void *)(uintptr_t)bias);
    dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, g->a },
                               { DNNL_ARG_WEIGHTS, g->b },
                               { DNNL_ARG_DST, g->c },
                               { DNNL_ARG_SCRATCHPAD, g->scratch },
                               { DNNL_ARG_BIAS, g->bias_memory } };
    gemm_check_(dnnl_primitive_execute(g->product, gemm_stream, g->bias ? 5 : 4, args), g->name,
                "to run");
}

#endif
