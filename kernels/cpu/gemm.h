/* gemm.h -- every matrix product of a CPU program, by oneDNN: C = scale * (A B + bias) + beta * C.
 *
 * In:    A (m, k), B (k, n) act_t, C (m, n) act_t or float, bias (n) wt_t; row-major, no aliasing.
 * Out:   C, summed in fp32, rounded once; the same bits on the same CPU with as many threads.
 * Keeps: no allocation of ours after gemm_init; ws is free for others between calls.
 * Method: one primitive a product, made at init; gemm_repacks: when B is copied first. */
#ifndef DIECAST_KERNELS_GEMM_H
#define DIECAST_KERNELS_GEMM_H

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "runtime/base.h"
#include "types.h"

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
    dnnl_primitive_t product, repack;
    dnnl_memory_t a, b, c, bias_memory, scratch, packed;
    int64_t packed_bytes;        /* at the start of ws, then the scratchpad */
    int64_t slab;                /* columns of C a call of product makes; n unless B is copied */
};

static dnnl_engine_t gemm_engine;
static dnnl_stream_t gemm_stream;

#ifdef KERNEL_REFERENCE
/* Dense; bias may be NULL. */
static inline void gemm_ref(double *c, const double *a, const double *b, const double *bias,
                            int64_t m, int64_t n, int64_t k, GemmForm form, double scale, int beta)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++)
            c[i * n + j] = (bias ? scale * bias[j] : 0) + (beta ? c[i * n + j] : 0);
        for (int64_t l = 0; l < k; l++) {
            const double f = scale * a[form == GEMM_TN ? l * m + i : i * k + l];
            for (int64_t j = 0; j < n; j++)
                c[i * n + j] += f * b[form == GEMM_NT ? j * k + l : l * n + j];
        }
    }
}
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

/* Columns of B to copy at a time, 0: use B in place. oneDNN's fp32 product copies B into panels
 * when B is stored transposed, but reads a (k, n) one in place; when its rows lie a multiple of a
 * page apart, they all fall into one set of the L1 cache. Measured, one core: (2048, 3072, 768)
 * form NN 61 GFLOP/s in place, 172 copied (the copy takes 3 % of the time); (2048, 768, 2304): 162
 * and 180, not worth the traffic. bf16 products always copy. Own loops for small shapes were not
 * worth it either: 64-wide models run at 170-205 of 220 GFLOP/s. */
static inline int64_t gemm_repacks(const Gemm *g)
{
    int64_t ldb = g->ldb ? g->ldb : g->n;
    if (g->form == GEMM_NT || sizeof(act_t) != sizeof(float) || ldb * 4 % 4096 != 0 ||
        g->m < 128 || g->k < 64)
        return 0;
    int64_t k = (g->k + 63) / 64 * 64;
    int64_t most = GEMM_REPACK / 4 / k / 64 * 64;
    for (int64_t slab = most < g->n ? most : g->n; slab >= 64; slab -= 64)
        if (g->n % slab == 0 && slab % 64 == 0)
            return slab;
    return 0;
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

/* Makes the product for the present number of threads; returns its scratchpad bytes. */
static inline int64_t gemm_make_(Gemm *g, dnnl_memory_desc_t *a, dnnl_memory_desc_t *b,
                                 dnnl_memory_desc_t *c, dnnl_memory_desc_t *bias)
{
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_attr_t attr = gemm_attr_(g);
    gemm_check_(dnnl_matmul_desc_init(&desc, a, b, bias, c), g->name, "the product");
    dnnl_status_t status = dnnl_primitive_desc_create(&pd, &desc, attr, gemm_engine, NULL);
    if (status == dnnl_unimplemented && sizeof(act_t) != sizeof(float))
        die(EXIT_CONFIG, "this CPU cannot multiply in bf16 (it lacks AVX-512): use an fp32 recipe");
    gemm_check_(status, g->name, "the product");
    gemm_check_(dnnl_primitive_create(&g->product, pd), g->name, "the product");
    const dnnl_memory_desc_t *scratch;
    scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    g->scratch = gemm_memory_(g, scratch);
    *b = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    int64_t bytes = (int64_t)dnnl_memory_desc_get_size(scratch);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return bytes;
}

static inline void gemm_make_repack_(Gemm *g, const dnnl_memory_desc_t *plain,
                                     const dnnl_memory_desc_t *packed)
{
    dnnl_primitive_desc_t pd;
    gemm_check_(dnnl_reorder_primitive_desc_create(&pd, plain, gemm_engine, packed, gemm_engine,
                                                   NULL), g->name,
                "the copy of B");
    gemm_check_(dnnl_primitive_create(&g->repack, pd), g->name, "the copy of B");
    dnnl_primitive_desc_destroy(pd);
    g->packed = gemm_memory_(g, packed);
    g->packed_bytes = ((int64_t)dnnl_memory_desc_get_size(packed) + 4095) / 4096 * 4096;
}

/* Returns the bytes of ws that the product uses. */
static inline int64_t gemm_init(Gemm *g)
{
    const dnnl_data_type_t act = sizeof(act_t) == sizeof(float) ? dnnl_f32 : dnnl_bf16;
    const bool repacks = gemm_repacks(g) > 0;
    g->slab = repacks ? gemm_repacks(g) : g->n;
    int64_t ldb = g->ldb ? g->ldb : g->form == GEMM_NT ? g->k : g->n, ldc = g->ldc ? g->ldc : g->n;
    dnnl_memory_desc_t a = gemm_matrix_(g, g->m, g->k, g->lda, g->form == GEMM_TN, act);
    dnnl_memory_desc_t b = gemm_matrix_(g, g->k, g->slab, ldb, g->form == GEMM_NT, act);
    dnnl_memory_desc_t c = gemm_matrix_(g, g->m, g->slab, ldc, false, g->out_f32 ? dnnl_f32 : act);
    dnnl_memory_desc_t bias = gemm_matrix_(g, 1, g->slab, 0, false, act);
    dnnl_memory_desc_t used = b;
    if (repacks)
        gemm_check_(dnnl_memory_desc_init_by_tag(&used, 2, b.dims, act, dnnl_format_tag_any),
                    g->name, "any layout");
    const dnnl_memory_desc_t wanted = used;
    const int threads = omp_get_max_threads();
    const int64_t limit = GEMM_WORKSPACE - GEMM_REPACK;
    int64_t bytes = gemm_make_(g, &a, &used, &c, g->bias ? &bias : NULL);
    for (int fewer = threads; bytes > limit && fewer > 1;) {
        dnnl_primitive_destroy(g->product);
        dnnl_memory_destroy(g->scratch);
        omp_set_num_threads(fewer /= 2);
        used = wanted;
        bytes = gemm_make_(g, &a, &used, &c, g->bias ? &bias : NULL);
    }
    omp_set_num_threads(threads);
    if (repacks)
        gemm_make_repack_(g, &b, &used);
    if (bytes > limit || g->packed_bytes > GEMM_REPACK)
        die(EXIT_CONFIG, "gemm %s: oneDNN wants %lld + %lld bytes of workspace, the plan has %lld",
            g->name, (long long)g->packed_bytes, (long long)bytes, (long long)GEMM_WORKSPACE);
    g->a = gemm_memory_(g, &a);
    g->b = gemm_memory_(g, &b);
    g->c = gemm_memory_(g, &c);
    if (g->bias)
        g->bias_memory = gemm_memory_(g, &bias);
    return g->packed_bytes + bytes;
}

/* Columns from..from+slab of C. */
static inline void gemm_slab_(Gemm *g, void *c, const void *b, const void *bias, void *ws,
                              int64_t from)
{
    const int64_t size = sizeof(act_t);
    dnnl_memory_set_data_handle(g->b, (char *)(uintptr_t)b + from * size);
    dnnl_memory_set_data_handle(g->c, (char *)c + from * (g->out_f32 ?
                                                          (int64_t)sizeof(float) : size));
    if (g->bias)
        dnnl_memory_set_data_handle(g->bias_memory, (char *)(uintptr_t)bias + from * size);
    if (g->repack) {
        dnnl_memory_set_data_handle(g->packed, ws);
        dnnl_exec_arg_t copy[] = { { DNNL_ARG_FROM, g->b }, { DNNL_ARG_TO, g->packed } };
        gemm_check_(dnnl_primitive_execute(g->repack, gemm_stream, 2, copy), g->name, "to copy B");
    }
    dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, g->a },
                               { DNNL_ARG_WEIGHTS, g->repack ? g->packed : g->b },
                               { DNNL_ARG_DST, g->c },
                               { DNNL_ARG_SCRATCHPAD, g->scratch },
                               { DNNL_ARG_BIAS, g->bias_memory } };
    gemm_check_(dnnl_primitive_execute(g->product, gemm_stream, g->bias ? 5 : 4, args), g->name,
                "to run");
}

/* bias: NULL without. ws: GEMM_WORKSPACE bytes. */
static inline void gemm_run(Gemm *g, void *c, const void *a, const void *b, const void *bias,
                            void *ws)
{
    dnnl_memory_set_data_handle(g->a, (void *)(uintptr_t)a);
    dnnl_memory_set_data_handle(g->scratch, (char *)ws + g->packed_bytes);
    for (int64_t from = 0; from < g->n; from += g->slab)
        gemm_slab_(g, c, b, bias, ws, from);
}

#endif
