/* gemm.cuh -- matrix products of a CUDA program, by cuBLASLt: C = scale * A B + bias + beta *
 * C.
 *
 * In:    A (m, k), B (k, n) act_t, C (m, n) act_t or float, bias (n) act_t; row-major, no
 *        aliasing.
 * Out:   C, summed in fp32, rounded once; with beta and 16-bit C the product is rounded before C is
 *        added, too (cuBLASLt 13.1.0 on H200). The same bits on the same GPU model and library
 *        version.
 * Keeps: no allocation after gemm_init; ws is free for others between calls; can be captured
 *        into a graph.
 * Method: the library is column-major: C^T = B^T A^T. No TF32, no nondeterministic summation
 *         order. */
#ifndef DIECAST_KERNELS_GEMM_CUH
#define DIECAST_KERNELS_GEMM_CUH

#ifndef __CUDACC_RTC__
#include <cublasLt.h>
#include <stdlib.h>

#include "types.cuh"
#include "workspace.h"

typedef enum {
    GEMM_NT,                     /* B is stored (n, k): y = x w^T */
    GEMM_NN,                     /* B is stored (k, n): dx = dy w */
    GEMM_TN                      /* A is stored (k, m), B (k, n): dw = dy^T x */
} GemmForm;

typedef enum {
    GEMM_NONE,
    GEMM_GELU,                   /* aux (m, n) = the result, C = gelu(aux), the tanh form */
    GEMM_DGELU,                  /* C = the result times gelu'(aux) */
    GEMM_BGRAD                   /* float C of TN; bias (m) float, sums over k of A: db */
} GemmEpilogue;

struct Gemm {
    const char *name;            /* for errors */
    int64_t m, n, k;
    int64_t lda = 0, ldb = 0, ldc = 0;               /* elements between stored rows; 0: dense */
    GemmForm form;
    int bias = 0, out_f32 = 0, beta = 0;             /* out_f32: C is float although act_t is not */
    GemmEpilogue epilogue = GEMM_NONE;               /* else beta 0; of GELU: 16-bit C, 8 | n */
    float scale = 1;
    int64_t offset = 0;          /* operands begin at multiples of so many elements; 0: of rows */
    const char *algo = NULL;     /* of a lock file, see gemm_algo_text; NULL: the first choice */
    const char *raw = NULL;      /* bytes of algo, see gemm_algo_raw; NULL: its options do */
    /* made by gemm_init */
    cublasLtMatmulDesc_t product = NULL;
    cublasLtMatrixLayout_t a = NULL, b = NULL, c = NULL;
    cublasLtMatmulAlgo_t chosen = {};
    size_t bytes = 0;            /* of ws that it uses */
    bool apart = false;          /* GEMM_BGRAD: another kernel writes the bias; see gemm_init */
};

static cublasLtHandle_t gemm_handle;
static bool gemm_unmeasured;     /* this library is not the one that the lock file is for */

enum { GEMM_ALGO_BYTES = 160, GEMM_RAW_BYTES = 2 * sizeof(cublasLtMatmulAlgo_t) + 1 };

/* An algorithm's number and options, in the order of its text. */
static const struct {
    const char *word;
    cublasLtMatmulAlgoConfigAttributes_t attribute;
    size_t bytes;
} gemm_options[] = {
    { "algo", CUBLASLT_ALGO_CONFIG_ID, 4 },
    { "tile", CUBLASLT_ALGO_CONFIG_TILE_ID, 4 },
    { "stages", CUBLASLT_ALGO_CONFIG_STAGES_ID, 4 },
    { "splitk", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4 },
    { "reduce", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4 },
    { "swizzle", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4 },
    { "custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4 },
    { "inner", CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2 },
    { "cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2 },
};
enum { GEMM_OPTIONS = sizeof gemm_options / sizeof gemm_options[0] };

/* Partial sums in fp32, added in a step of their own; the other schemes round them or take them in
 * the order in which they come. */
static const uint32_t gemm_reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

static inline void gemm_check_(cublasStatus_t status, const char *name, const char *what)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        die(EXIT_DEVICE, "gemm %s: cuBLASLt refuses %s (%s)", name, what,
            cublasLtGetStatusString(status));
}

/* Before the first gemm_init. */
static inline void gemm_setup(void)
{
    gemm_check_(cublasLtCreate(&gemm_handle), "setup", "a handle");
}

/* Before gemm_init: the version of the library that measured the algorithms of the lock file. With
 * another one they do not apply: the first choices are used, or, where `required`, the program
 * ends. */
static inline void gemm_measured_with(const char *version, bool required)
{
    const unsigned v = (unsigned)cublasLtGetVersion();
    char here[40];
    snprintf(here, sizeof here, "%u.%u.%u", v / 10000, v / 100 % 100, v % 100);
    gemm_unmeasured = strcmp(here, version) != 0;
    if (gemm_unmeasured && required)
        die(EXIT_CONFIG, "the recipe has tune = \"required\", but the lock file has algorithms of "
            "cuBLASLt %s, here is %s: run `gen tune` with this one, or load the other", version,
            here);
    if (gemm_unmeasured)
        note("the lock file has algorithms of cuBLASLt %s, here is %s: its first choices are used; "
             "`gen tune` measures again", version, here);
}

/* ---- operands ---- */

static inline cudaDataType_t gemm_type_(bool f32)
{
#if defined ACT_BF16
    return f32 ? CUDA_R_32F : CUDA_R_16BF;
#elif defined ACT_F16
    return f32 ? CUDA_R_32F : CUDA_R_16F;
#else
    (void)f32;
    return CUDA_R_32F;
#endif
}

static inline int64_t gemm_lda_(const Gemm *g)
{
    return g->lda ? g->lda : g->form == GEMM_TN ? g->m : g->k;
}

static inline int64_t gemm_ldb_(const Gemm *g)
{
    return g->ldb ? g->ldb : g->form == GEMM_NT ? g->k : g->n;
}

static inline int64_t gemm_ldc_(const Gemm *g)
{
    return g->ldc ? g->ldc : g->n;
}

/* The largest power of two, at most 256, of which the addresses of an operand are multiples: arrays
 * begin at multiples of 256 bytes, operands within them at rows or at g->offset elements. */
static inline uint32_t gemm_alignment_(const Gemm *g, int64_t ld, size_t size)
{
    const uint32_t bytes = (uint32_t)((uint64_t)(ld | g->offset) * size | 256);
    return bytes & -bytes;
}

static inline cublasLtMatrixLayout_t gemm_layout_(const Gemm *g, bool f32, int64_t rows,
                                                  int64_t cols, int64_t ld)
{
    cublasLtMatrixLayout_t layout;
    gemm_check_(cublasLtMatrixLayoutCreate(&layout, gemm_type_(f32), (uint64_t)rows, (uint64_t)cols,
                                           ld),
                g->name, "the shape of an operand");
    return layout;
}

static inline void gemm_set_(const Gemm *g, cublasLtMatmulDescAttributes_t attribute,
                             const void *value, size_t bytes)
{
    gemm_check_(cublasLtMatmulDescSetAttribute(g->product, attribute, value, bytes), g->name,
                "an attribute of the product");
}

static inline bool gemm_has_bias_(const Gemm *g)
{
    return g->bias || (g->epilogue == GEMM_BGRAD && !g->apart);
}

static inline bool gemm_has_aux_(const Gemm *g)
{
    return g->epilogue == GEMM_GELU || g->epilogue == GEMM_DGELU;
}

static inline void gemm_set_bias_(const Gemm *g, const void *bias)
{
    if (gemm_has_bias_(g))
        gemm_set_(g, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

static inline void gemm_set_aux_(const Gemm *g, const void *aux)
{
    if (gemm_has_aux_(g))
        gemm_set_(g, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux);
}

/* A bias and its gradient have the type of C (cublasLt.h, CUBLASLT_MATMUL_DESC_BIAS_POINTER). The
 * list there does not give the types that sums over k allow, so the library may refuse: see
 * gemm_init. */
static inline void gemm_check_epilogue_(const Gemm *g)
{
    const bool f32 = g->out_f32 || sizeof(act_t) == 4;
    if (g->out_f32 && (g->bias || gemm_has_aux_(g)))
        die(EXIT_INTERNAL, "gemm %s: this epilogue is for results in the type of activations",
            g->name);
    if (g->epilogue == GEMM_BGRAD && (g->form != GEMM_TN || !f32 || g->bias || g->beta))
        die(EXIT_INTERNAL, "gemm %s: the gradient of a bias goes with dw in fp32, beta 0", g->name);
}

static inline cublasLtEpilogue_t gemm_epilogue_(const Gemm *g)
{
    const bool bias = gemm_has_bias_(g);
    switch (g->epilogue) {
    case GEMM_GELU:
        return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case GEMM_DGELU:
        return CUBLASLT_EPILOGUE_DGELU;
    case GEMM_BGRAD:             /* our A is the library's B */
        return bias ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_DEFAULT;
    case GEMM_NONE:
        break;
    }
    return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* The choice of an algorithm depends on the alignment of the pointers, not on their contents. A
 * product without a bias refuses to run with the address of one (cuBLASLt 13.1.0 on H200). */
static inline void gemm_set_epilogue_(const Gemm *g)
{
    const cublasLtEpilogue_t epilogue = gemm_epilogue_(g);
    const bool bgrad = g->epilogue == GEMM_BGRAD;
    const uint32_t alignment = bgrad ? gemm_alignment_(g, g->m, sizeof(float))
                                     : gemm_alignment_(g, g->n, sizeof(act_t));
    const void *bias = gemm_has_bias_(g) ? (const void *)(uintptr_t)alignment : NULL;
    const int32_t type = bgrad && !g->apart ? CUDA_R_32F : -1;      /* -1: the default */
    const int64_t ld = g->n;
    gemm_check_epilogue_(g);
    gemm_set_(g, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    gemm_set_(g, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
    gemm_set_(g, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    gemm_set_aux_(g, (const void *)(uintptr_t)gemm_alignment_(g, g->n, sizeof(act_t)));
    if (gemm_has_aux_(g))
        gemm_set_(g, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld);
}

/* After gemm_open, of GEMM_BGRAD: whether the caller writes the gradient of the bias. */
static inline void gemm_set_apart(Gemm *g, bool apart)
{
    g->apart = apart;
    gemm_set_epilogue_(g);
}

/* ---- algorithms ---- */

/* Describes the product to the library: what the functions below need. */
static inline void gemm_open(Gemm *g)
{
    const cublasOperation_t yes = CUBLAS_OP_T, no = CUBLAS_OP_N;
    const bool nt = g->form == GEMM_NT, tn = g->form == GEMM_TN;
    gemm_check_(cublasLtMatmulDescCreate(&g->product, CUBLAS_COMPUTE_32F, CUDA_R_32F), g->name,
                "the product");
    /* our B is the library's A */
    gemm_set_(g, CUBLASLT_MATMUL_DESC_TRANSA, nt ? &yes : &no, sizeof yes);
    gemm_set_(g, CUBLASLT_MATMUL_DESC_TRANSB, tn ? &yes : &no, sizeof yes);
    gemm_set_epilogue_(g);
    g->b = gemm_layout_(g, false, nt ? g->k : g->n, nt ? g->n : g->k, gemm_ldb_(g));
    g->a = gemm_layout_(g, false, tn ? g->m : g->k, tn ? g->k : g->m, gemm_lda_(g));
    g->c = gemm_layout_(g, g->out_f32, g->n, g->m, gemm_ldc_(g));
}

static inline void gemm_prefer_(const Gemm *g, cublasLtMatmulPreference_t preference,
                                cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                size_t bytes)
{
    gemm_check_(cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, bytes), g->name,
                "a preference");
}

/* At most `most` algorithms that compute the product within CUDA_GEMM_WORKSPACE, the library's
 * favourite first; returns how many. */
static inline int gemm_candidates(const Gemm *g, cublasLtMatmulHeuristicResult_t *found, int most)
{
    const uint64_t workspace = CUDA_GEMM_WORKSPACE;
    const uint32_t a = gemm_alignment_(g, gemm_lda_(g), sizeof(act_t));
    const uint32_t b = gemm_alignment_(g, gemm_ldb_(g), sizeof(act_t));
    const uint32_t c = gemm_alignment_(g, gemm_ldc_(g), g->out_f32 ? sizeof(float) : sizeof(act_t));
    cublasLtMatmulPreference_t p;
    int n = 0, good = 0;
    gemm_check_(cublasLtMatmulPreferenceCreate(&p), g->name, "a preference");
    gemm_prefer_(g, p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    gemm_prefer_(g, p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &gemm_reductions,
                 sizeof gemm_reductions);
    gemm_prefer_(g, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b, sizeof b);
    gemm_prefer_(g, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a, sizeof a);
    gemm_prefer_(g, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c);
    gemm_prefer_(g, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c);
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        gemm_handle, g->product, g->b, g->a, g->c, g->c, p, most, found, &n);
    /* a bias gradient has a kernel of its own, so no answer of the library is an error */
    if (status != CUBLAS_STATUS_NOT_SUPPORTED && (g->epilogue != GEMM_BGRAD || g->apart))
        gemm_check_(status, g->name, "to choose an algorithm");
    gemm_check_(cublasLtMatmulPreferenceDestroy(p), g->name, "a preference");
    for (int i = 0; i < n; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= workspace)
            found[good++] = found[i];
    return good;
}

static inline void gemm_use(Gemm *g, const cublasLtMatmulAlgo_t *algo, size_t workspace)
{
    g->chosen = *algo;
    g->bytes = workspace;
}

static inline uint32_t gemm_option_(const cublasLtMatmulAlgo_t *algo,
                                    cublasLtMatmulAlgoConfigAttributes_t attribute, size_t bytes)
{
    unsigned char raw[4] = { 0 };
    size_t written;
    gemm_check_(cublasLtMatmulAlgoConfigGetAttribute(algo, attribute, raw, bytes, &written),
                "options", "to describe an algorithm");
    return (uint32_t)raw[0] | (uint32_t)raw[1] << 8 | (uint32_t)raw[2] << 16 |
           (uint32_t)raw[3] << 24;
}

/* "algo 66 tile 20 stages 36 splitk 1 reduce 0 swizzle 1 custom 2 inner 0 cluster 3 ws 33554432",
 * and " apart" where g is. */
static inline void gemm_algo_text(const Gemm *g, const cublasLtMatmulAlgo_t *algo, size_t workspace,
                                  char to[GEMM_ALGO_BYTES])
{
    int n = 0;
    for (int i = 0; i < GEMM_OPTIONS; i++)
        n += snprintf(to + n, (size_t)(GEMM_ALGO_BYTES - n), "%s %u ", gemm_options[i].word,
                      gemm_option_(algo, gemm_options[i].attribute, gemm_options[i].bytes));
    snprintf(to + n, (size_t)(GEMM_ALGO_BYTES - n), "ws %llu%s", (unsigned long long)workspace,
             g->apart ? " apart" : "");
}

/* Prints the bytes of an algorithm, two hex digits each. They hold more than the options do, and
 * are valid for one version of the library only (cublasLt.h, cublasLtMatmulAlgo_t). */
static inline void gemm_algo_raw(const cublasLtMatmulAlgo_t *algo, char to[GEMM_RAW_BYTES])
{
    const unsigned char *byte = (const unsigned char *)algo;
    for (size_t i = 0; i < sizeof *algo; i++)
        snprintf(to + 2 * i, 3, "%02x", byte[i]);
}

/* The algorithm of g after gemm_init. */
static inline void gemm_describe(const Gemm *g, char to[GEMM_ALGO_BYTES])
{
    gemm_algo_text(g, &g->chosen, g->bytes, to);
}

/* Reads the number after `word` at *text and moves *text past it; false: it is not there. */
static inline bool gemm_read_(const char **text, const char *word, uint32_t *value)
{
    const size_t length = strlen(word);
    const char *p = *text;
    if (strncmp(p, word, length) || p[length] != ' ' || p[length + 1] < '0' || p[length + 1] > '9')
        return false;
    char *end;
    const unsigned long long v = strtoull(p + length + 1, &end, 10);
    *text = *end == ' ' ? end + 1 : end;
    *value = (uint32_t)v;
    return v <= UINT32_MAX && (*end == ' ' || *end == 0);
}

/* Reads the options of a text and moves *text past them; false: it has other options, or sums in a
 * nondeterministic order. */
static inline bool gemm_parse_(const char **text, uint32_t value[GEMM_OPTIONS])
{
    for (int i = 0; i < GEMM_OPTIONS; i++)
        if (!gemm_read_(text, gemm_options[i].word, &value[i]) ||
            (gemm_options[i].attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME &&
             (value[i] & ~gemm_reductions)))
            return false;
    return true;
}

/* An algorithm by its options alone: rows of a lock file that have no bytes. */
static inline bool gemm_compose_(const Gemm *g, const uint32_t value[GEMM_OPTIONS],
                                 cublasLtMatmulAlgo_t *algo)
{
    const cudaDataType_t in = gemm_type_(false), out = gemm_type_(g->out_f32);
    if (cublasLtMatmulAlgoInit(gemm_handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, in, in, out, out,
                               (int)value[0], algo) != CUBLAS_STATUS_SUCCESS)
        return false;
    for (int i = 1; i < GEMM_OPTIONS; i++) {
        const uint32_t v = value[i];
        const unsigned char raw[4] = { (unsigned char)v, (unsigned char)(v >> 8),
                                       (unsigned char)(v >> 16), (unsigned char)(v >> 24) };
        if (cublasLtMatmulAlgoConfigSetAttribute(algo, gemm_options[i].attribute, raw,
                                                 gemm_options[i].bytes) != CUBLAS_STATUS_SUCCESS)
            return false;
    }
    return true;
}

static inline int gemm_digit_(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Restores an algorithm from the text of gemm_algo_raw(); false: the text is invalid. */
static inline bool gemm_restore_(const char *raw, cublasLtMatmulAlgo_t *algo)
{
    unsigned char *byte = (unsigned char *)algo;
    if (strlen(raw) != GEMM_RAW_BYTES - 1)
        return false;
    for (size_t i = 0; i < sizeof *algo; i++) {
        const int high = gemm_digit_(raw[2 * i]), low = gemm_digit_(raw[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        byte[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* Returns true if the algorithm has these options: raw bytes that contradict their text are not
 * used. */
static inline bool gemm_has_options_(const cublasLtMatmulAlgo_t *algo,
                                     const uint32_t value[GEMM_OPTIONS])
{
    for (int i = 0; i < GEMM_OPTIONS; i++)
        if (gemm_option_(algo, gemm_options[i].attribute, gemm_options[i].bytes) != value[i])
            return false;
    return true;
}

/* Uses the algorithm of g->raw or, without it, of g->algo; else returns what is wrong with it. */
static inline const char *gemm_take_locked_(Gemm *g)
{
    const char *text = g->algo;
    cublasLtMatmulHeuristicResult_t result;
    cublasLtMatmulAlgo_t algo;
    uint32_t value[GEMM_OPTIONS], workspace;
    if (!gemm_parse_(&text, value) || !gemm_read_(&text, "ws", &workspace))
        return "it is not a text that `gen tune` writes";
    const bool apart = g->epilogue == GEMM_BGRAD && !strcmp(text, "apart");
    if (*text && !apart)
        return "it is not a text that `gen tune` writes";
    if (g->raw && !gemm_restore_(g->raw, &algo))
        return "its bytes (raw) are not those of an algorithm in hex";
    if (!g->raw && !gemm_compose_(g, value, &algo))
        return "this cuBLASLt refuses it";
    if (g->epilogue == GEMM_BGRAD)
        gemm_set_apart(g, apart);
    if (cublasLtMatmulAlgoCheck(gemm_handle, g->product, g->b, g->a, g->c, g->c, &algo, &result) !=
            CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > CUDA_GEMM_WORKSPACE)
        return g->raw ? "this cuBLASLt refuses its bytes (raw)" : "this cuBLASLt refuses it";
    if (g->raw && !gemm_has_options_(&algo, value))
        return "its bytes (raw) are another algorithm";
    gemm_use(g, &algo, result.workspaceSize);
    return NULL;
}

/* ---- running ---- */

/* GEMM_BGRAD: the bias gradient is apart unless a row of the lock file, which `gen tune` measured
 * on this library, has it in the product. cuBLASLt's documents list no BGRADB with fp32 results;
 * 13.1.0 computes it on an H200, where `gen tune` found the two kernels faster for each product of
 * GPT-2 124M. */
static inline void gemm_init(Gemm *g)
{
    cublasLtMatmulHeuristicResult_t found;
    gemm_open(g);
    if (g->algo && !gemm_unmeasured) {
        const char *wrong = gemm_take_locked_(g);
        if (wrong)
            die(EXIT_CONFIG,
                "gemm %s: the lock file has \"%s\" for it, but %s; run `gen tune` again", g->name,
g->algo, wrong);
        return;
    }
    if (g->epilogue == GEMM_BGRAD)
        gemm_set_apart(g, true);
    if (!gemm_candidates(g, &found, 1))
        die(EXIT_DEVICE, "gemm %s: cuBLASLt has no algorithm for m %lld n %lld k %lld", g->name,
            (long long)g->m, (long long)g->n, (long long)g->k);
    gemm_use(g, &found.algo, found.workspaceSize);
}

/* gemm_run into d, to which beta times c is added; d may be c. */
static inline void gemm_run_onto(const Gemm *g, float beta, void *d, const void *c, const void *a,
                                 const void *b, const void *bias, const void *aux, void *ws,
                                 cudaStream_t s)
{
    gemm_set_bias_(g, bias);
    gemm_set_aux_(g, aux);
    gemm_check_(cublasLtMatmul(gemm_handle, g->product, &g->scale, b, g->b, a, g->a, &beta, c, g->c,
                               d, g->c, &g->chosen, ws, g->bytes, s),
                g->name, "to run");
}

/* gemm_run with a beta of the call's own. */
static inline void gemm_run_beta(const Gemm *g, float beta, void *c, const void *a, const void *b,
                                 const void *bias, const void *aux, void *ws, cudaStream_t s)
{
    gemm_run_onto(g, beta, c, c, a, b, bias, aux, ws, s);
}

/* bias (written by GEMM_BGRAD), aux (by GEMM_GELU): NULL without. ws: CUDA_GEMM_WORKSPACE bytes. */
static inline void gemm_run(const Gemm *g, void *c, const void *a, const void *b, const void *bias,
                            const void *aux, void *ws, cudaStream_t s)
{
    gemm_run_beta(g, (float)g->beta, c, a, b, bias, aux, ws, s);
}
#endif

#endif
