/* gemm.h -- matrix products of CPU programs: C = scale * (A B + bias) + beta * C.
 *
 * In:    A (m, k), B (k, n), C (m, n) act_t or C float, bias (n) wt_t; row-major, no aliasing.
 * Out:   C, summed in fp32, rounded once. Row i has the same bits at any position, for any m and
 *        any number of threads.
 * Keeps: no allocation after gemm_init; ws is free for others between calls.
 * Method: gemm_blocks.h; for bf16 on a CPU with matrix tiles (AMX) rectangles of C, each by oneDNN
 *        in one thread. */
#ifndef DIECAST_KERNELS_GEMM_H
#define DIECAST_KERNELS_GEMM_H

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

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
    struct GemmLibrary *library; /* NULL: gemm_blocks */
};

static dnnl_engine_t gemm_engine;
static dnnl_stream_t gemm_stream;
/* The multiply-add of this CPU that ONEDNN_MAX_CPU_ISA allows. */
static const GemmTiles *gemm_tiles;
static bool gemm_uses_library;

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
    gemm_tiles = gemm_kinds[gemm_cpu_has(dnnl_cpu_isa_avx512_core) ? GEMM_AVX512 : GEMM_AVX2];
#ifdef ACT_BF16
    if (gemm_cpu_has(dnnl_cpu_isa_avx512_core_bf16))
        gemm_tiles = gemm_kinds[GEMM_AVX512_BF16];
    gemm_uses_library = gemm_cpu_has(dnnl_cpu_isa_avx512_core_amx);
#endif
    gemm_check_(dnnl_engine_create(&gemm_engine, dnnl_cpu, 0), "setup", "a CPU engine");
    gemm_check_(dnnl_stream_create(&gemm_stream, gemm_engine, dnnl_stream_default_flags), "setup",
                "a stream");
}

/* ---- oneDNN ----------------------------------------------------------------------------- */

enum {
    GEMM_LIBRARY_ROWS = 256,     /* of a rectangle, at most; they are of about the same size */
    GEMM_LIBRARY_COLUMNS = 512,
    GEMM_KINDS = 4               /* of rectangles: inside, last rows, last columns, both */
};

/* The operands of a thread's rectangle of one kind. */
typedef struct {
    dnnl_memory_t a, b, c, bias, scratch;
} GemmOperands;

/* Rectangles (rows, columns) of C, the last ones smaller, `down` by `across`. Kind: 1 for the last
 * rows, 2 for the last columns. */
typedef struct GemmLibrary {
    int64_t rows, columns, down, across;
    int64_t bytes;               /* of a thread's scratchpad */
    int threads;                 /* that have operands */
    dnnl_primitive_t product[GEMM_KINDS];
    GemmOperands (*operands)[GEMM_KINDS];    /* a thread */
} GemmLibrary;

static inline dnnl_memory_desc_t gemm_matrix_(const Gemm *g, int64_t rows, int64_t cols,
                                              int64_t row, int64_t col, dnnl_data_type_t type)
{
    dnnl_memory_desc_t md;
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

static inline void *gemm_alloc_(const Gemm *g, size_t n, size_t size)
{
    void *zeros = calloc(n, size);
    if (!zeros)
        die(EXIT_CONFIG, "gemm %s: no memory for oneDNN's operands", g->name);
    return zeros;
}

static inline int64_t gemm_kind_rows_(const Gemm *g, int kind)
{
    const GemmLibrary *lib = g->library;
    return kind & 1 ? g->m - (lib->down - 1) * lib->rows : lib->rows;
}

static inline int64_t gemm_kind_columns_(const Gemm *g, int kind)
{
    const GemmLibrary *lib = g->library;
    return kind & 2 ? g->n - (lib->across - 1) * lib->columns : lib->columns;
}

/* The strides of all operands; each has one of 1. */
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

/* Creates the product of a kind for one thread, and every thread's operands. */
static inline void gemm_make_(Gemm *g, int kind)
{
    GemmLibrary *lib = g->library;
    const GemmShape s = gemm_shape_(g);
    const int64_t m = gemm_kind_rows_(g, kind), n = gemm_kind_columns_(g, kind);
    const dnnl_data_type_t out = g->out_f32 ? dnnl_f32 : dnnl_bf16;
    const dnnl_memory_desc_t a = gemm_matrix_(g, m, g->k, s.ai, s.al, dnnl_bf16),
                             b = gemm_matrix_(g, g->k, n, s.bl, s.bj, dnnl_bf16),
                             c = gemm_matrix_(g, m, n, s.ldc, 1, out),
                             bias = gemm_matrix_(g, 1, n, n, 1, dnnl_bf16), *scratch;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_attr_t attr = gemm_attr_(g);
    gemm_check_(dnnl_matmul_desc_init(&desc, &a, &b, g->bias ? &bias : NULL, &c), g->name,
                "the product");
    gemm_check_(dnnl_primitive_desc_create(&pd, &desc, attr, gemm_engine, NULL), g->name,
                "the product");
    dnnl_primitive_attr_destroy(attr);
    gemm_check_(dnnl_primitive_create(&lib->product[kind], pd), g->name, "the product");
    scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    const int64_t bytes = workspace_round((int64_t)dnnl_memory_desc_get_size(scratch));
    lib->bytes = bytes > lib->bytes ? bytes : lib->bytes;
    for (int thread = 0; thread < lib->threads; thread++) {
        GemmOperands *to = &lib->operands[thread][kind];
        *to = (GemmOperands){ gemm_memory_(g, &a), gemm_memory_(g, &b), gemm_memory_(g, &c),
                              g->bias ? gemm_memory_(g, &bias) : NULL, gemm_memory_(g, scratch) };
    }
    dnnl_primitive_desc_destroy(pd);
}

/* Call before the first gemm_run, with at least as many threads. fp32 never uses oneDNN: there a
 * row's bits depend on its position (AVX2: the last rows of a block) and on m (AVX-512: one of two
 * algorithms, chosen by size). */
static inline void gemm_init(Gemm *g)
{
    if (!gemm_uses_library)
        return;
    const int threads = omp_get_max_threads();
    GemmLibrary *lib = g->library = gemm_alloc_(g, 1, sizeof *lib);
    lib->down = (g->m + GEMM_LIBRARY_ROWS - 1) / GEMM_LIBRARY_ROWS;
    lib->across = (g->n + GEMM_LIBRARY_COLUMNS - 1) / GEMM_LIBRARY_COLUMNS;
    lib->rows = gemm_part(g->m, lib->down, GEMM_PANEL);
    lib->columns = gemm_part(g->n, lib->across, GEMM_PANEL);
    lib->down = (g->m + lib->rows - 1) / lib->rows;
    lib->across = (g->n + lib->columns - 1) / lib->columns;
    lib->threads = threads;
    lib->operands = gemm_alloc_(g, (size_t)threads, sizeof *lib->operands);
    omp_set_num_threads(1);      /* a primitive divides its work by the threads it was made with */
    for (int kind = 0; kind < GEMM_KINDS; kind++)
        if ((kind & 1 || lib->down > 1) && (kind & 2 || lib->across > 1))
            gemm_make_(g, kind);
    omp_set_num_threads(threads);
    if (lib->bytes > GEMM_WORKSPACE)
        die(EXIT_CONFIG, "gemm %s: oneDNN wants %lld bytes of workspace, the plan has %lld",
            g->name, (long long)lib->bytes, (long long)GEMM_WORKSPACE);
    if (lib->bytes > 0 && GEMM_WORKSPACE / lib->bytes < lib->threads)
        lib->threads = (int)(GEMM_WORKSPACE / lib->bytes);
}

/* Rectangle `part` of C by this thread. */
static inline void gemm_part_run_(Gemm *g, int64_t part, char *c, const act_t *a, const act_t *b,
                                  const wt_t *bias, char *ws)
{
    const GemmLibrary *lib = g->library;
    const GemmShape s = gemm_shape_(g);
    const int64_t down = part % lib->down, across = part / lib->down;
    const int64_t i = down * lib->rows, j = across * lib->columns;
    const int64_t size = g->out_f32 ? sizeof(float) : sizeof(act_t);
    const int kind = (down == lib->down - 1) | (across == lib->across - 1) << 1;
    const int thread = omp_get_thread_num();
    const GemmOperands *o = &lib->operands[thread][kind];
    dnnl_memory_set_data_handle(o->a, (void *)(uintptr_t)(a + i * s.ai));
    dnnl_memory_set_data_handle(o->b, (void *)(uintptr_t)(b + j * s.bj));
    dnnl_memory_set_data_handle(o->c, c + (i * s.ldc + j) * size);
    dnnl_memory_set_data_handle(o->scratch, ws + thread * lib->bytes);
    if (g->bias)
        dnnl_memory_set_data_handle(o->bias, (void *)(uintptr_t)(bias + j));
    dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, o->a },
                               { DNNL_ARG_WEIGHTS, o->b },
                               { DNNL_ARG_DST, o->c },
                               { DNNL_ARG_SCRATCHPAD, o->scratch },
                               { DNNL_ARG_BIAS, o->bias } };
    gemm_check_(dnnl_primitive_execute(lib->product[kind], gemm_stream, g->bias ? 5 : 4, args),
                g->name, "to run");
}

/* ---- any product ------------------------------------------------------------------------ */

enum { GEMM_ALGO_BYTES = 160 };

/* Names the implementation; "brg:avx512_core_amx_bf16" etc. are oneDNN's own names. */
static inline void gemm_describe(const Gemm *g, char to[GEMM_ALGO_BYTES])
{
    const char *name = gemm_tiles->name;
    const_dnnl_primitive_desc_t pd;
    if (g->library &&
        dnnl_primitive_get_primitive_desc(g->library->product[GEMM_KINDS - 1], &pd) == dnnl_success)
        dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    snprintf(to, GEMM_ALGO_BYTES, "%s %s", g->library ? "oneDNN" : "own blocks,", name);
}

/* True if gemm_run_term() can add a term of parts * rank products an element. */
static inline bool gemm_takes_term(const Gemm *g, int64_t parts, int64_t rank)
{
    return !g->library && parts * rank <= GEMM_TERM;
}

/* bias NULL: none. term: NULL, or one that gemm_takes_term(), of a product with scale 1 and beta 0
 * whose C is act_t; of GEMM_NT with bl 1, else with bj 1. ws: GEMM_WORKSPACE bytes. */
static inline void gemm_run_term(Gemm *g, void *c, const void *a, const void *b, const void *bias,
                                 const GemmTerm *term, void *ws)
{
    const GemmLibrary *lib = g->library;
    if (!lib) {
        const GemmShape shape = gemm_shape_(g);
        gemm_blocks(&shape, c, a, b, g->bias ? bias : NULL, term, gemm_tiles, ws);
        return;
    }
    const int64_t parts = lib->down * lib->across;
    const int threads = lib->threads < parts ? lib->threads : (int)parts;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t part = 0; part < parts; part++)
        gemm_part_run_(g, part, c, a, b, bias, ws);
}

static inline void gemm_run(Gemm *g, void *c, const void *a, const void *b, const void *bias,
                            void *ws)
{
    gemm_run_term(g, c, a, b, bias, NULL, ws);
}

#endif
