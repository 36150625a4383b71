/* gemm.h -- matrix products of CPU programs: C = scale * (A B + bias) + beta * C.
 *
 * In:    A (m, k), B (k, n), C (m, n) act_t or C float, bias (n) wt_t; row-major, no aliasing.
 * Out:   C, summed in fp32, rounded once. Row i has the same bits at any position and for any m.
 * Keeps: no allocation after gemm_init; ws is free for others between calls.
 * Method: gemm_blocks.h; oneDNN for bf16 where the CPU has bf16 instructions. */
#ifndef DIECAST_KERNELS_GEMM_H
#define DIECAST_KERNELS_GEMM_H

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>

#include "gemm_blocks.h"
#include "runtime/base.h"

typedef enum {
    GEMM_NT,                     /* B is stored (n, k): y = x w^T */
    GEMM_NN,                     /* B is stored (k, n): dx = dy w */
    GEMM_TN                      /* A is stored (k, m), B (k, n): dw = dy^T x */
} GemmForm;

typedef struct Gemm Gemm;
struct Gemm {
    const char *name;            /* for errors */
    int64_t m, n, k;
    int64_t lda, ldb, ldc;       /* strides between stored rows in elements; 0: dense */
    GemmForm form;
    int bias, beta, out_f32;     /* 0 or 1; out_f32: C is float although act_t is not */
    float scale;                 /* 0: 1 */
    /* set by gemm_init */
    dnnl_primitive_t product;    /* NULL: gemm_blocks */
    dnnl_memory_t a, b, c, bias_memory, scratch;
};

static dnnl_engine_t gemm_engine;
static dnnl_stream_t gemm_stream;
/* The widest instructions of this CPU that ONEDNN_MAX_CPU_ISA allows. */
static const GemmTiles *gemm_tiles = &gemm_8_tiles;
static bool gemm_has_bf16;

static inline void gemm_check_(dnnl_status_t status, const char *name, const char *what)
{
    if (status != dnnl_success)
        die(EXIT_INTERNAL, "gemm %s: oneDNN refuses %s (status %d)", name, what, (int)status);
}

static inline bool gemm_cpu_has(dnnl_cpu_isa_t isa)
{
    return (dnnl_get_effective_cpu_isa() & isa) == isa;
}

/* Call before the first gemm_init. */
static inline void gemm_setup(void)
{
    gemm_tiles = gemm_cpu_has(dnnl_cpu_isa_avx512_core) ? &gemm_16_tiles : &gemm_8_tiles;
    gemm_has_bf16 = sizeof(act_t) != sizeof(float) && gemm_cpu_has(dnnl_cpu_isa_avx512_core_bf16);
    gemm_check_(dnnl_engine_create(&gemm_engine, dnnl_cpu, 0), "setup", "a CPU engine");
    gemm_check_(dnnl_stream_create(&gemm_stream, gemm_engine, dnnl_stream_default_flags), "setup",
                "a stream");
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

/* Scale and beta; we provide the scratchpad. */
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

/* Creates oneDNN's product for the current number of threads; returns its scratchpad size in
 * bytes. */
static inline int64_t gemm_make_(Gemm *g, const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b,
                                 const dnnl_memory_desc_t *c, const dnnl_memory_desc_t *bias)
{
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_attr_t attr = gemm_attr_(g);
    gemm_check_(dnnl_matmul_desc_init(&desc, a, b, bias, c), g->name, "the product");
    gemm_check_(dnnl_primitive_desc_create(&pd, &desc, attr, gemm_engine, NULL), g->name,
                "the product");
    dnnl_primitive_attr_destroy(attr);
    gemm_check_(dnnl_primitive_create(&g->product, pd), g->name, "the product");
    const dnnl_memory_desc_t *scratch;
    scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    g->scratch = gemm_memory_(g, scratch);
    int64_t bytes = (int64_t)dnnl_memory_desc_get_size(scratch);
    dnnl_primitive_desc_destroy(pd);
    return bytes;
}

/* Call before the first gemm_run, with the same number of threads. fp32 does not use oneDNN:
 * there a row's bits depend on its position (AVX2: the last rows of a block) and on m
 * (AVX-512: one of two algorithms, chosen by size). */
static inline void gemm_init(Gemm *g)
{
    if (!gemm_has_bf16)
        return;
    const dnnl_data_type_t act = dnnl_bf16;
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
}

enum { GEMM_ALGO_BYTES = 160 };

/* Names the implementation; "brg:avx512_core_bf16" etc. are oneDNN's own names. */
static inline void gemm_describe(const Gemm *g, char to[GEMM_ALGO_BYTES])
{
    const char *name = "";
    const_dnnl_primitive_desc_t pd;
    if (!g->product)
        name = gemm_tiles->lanes == 16 ? "AVX-512" : "AVX2";
    else if (dnnl_primitive_get_primitive_desc(g->product, &pd) == dnnl_success)
        dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    snprintf(to, GEMM_ALGO_BYTES, "%s %s", g->product ? "oneDNN" : "own blocks,", name);
}

static inline GemmShape gemm_shape_(const Gemm *g)
{
    const int64_t lda = g->lda ? g->lda : g->form == GEMM_TN ? g->m : g->k;
    const int64_t ldb = g->ldb ? g->ldb : g->form == GEMM_NT ? g->k : g->n;
    const bool a_by_k = g->form != GEMM_TN, b_by_k = g->form == GEMM_NT;
    return (GemmShape){
        .m = g->m, .n = g->n, .k = g->k, .ldc = g->ldc ? g->ldc : g->n,
        .ai = a_by_k ? lda : 1, .al = a_by_k ? 1 : lda,
        .bj = b_by_k ? ldb : 1, .bl = b_by_k ? 1 : ldb,
        .scale = g->scale != 0 ? g->scale : 1, .beta = g->beta, .out_f32 = g->out_f32
    };
}

/* bias NULL: none. ws: GEMM_WORKSPACE bytes. */
static inline void gemm_run(Gemm *g, void *c, const void *a, const void *b, const void *bias,
                            void *ws)
{
    if (!g->product) {
        const GemmShape shape = gemm_shape_(g);
        gemm_blocks(&shape, c, a, b, g->bias ? bias : NULL, gemm_tiles, ws);
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
