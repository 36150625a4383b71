/* d_bytes.cpp -- the bytes that kernels load and store, against those that gen counts for their ops:
 * of an emitted program, in the environment, see counted.sh.
 *
 * Tolerance: 0.5 %. Left out here, but not by gen, are scalars and what all threads of a row or
 * block read alike, once from memory: labels (0.01 %), largest magnitudes of 8-bit moments (0.4 %).
 * gen does not count that a row's logit of its label is read once more (0.01 %). */
#define ACT_BF16
#include "../../kernels/cuda/adamw.cuh"
#include "../../kernels/cuda/adamw8.cuh"
#include "../../kernels/cuda/ce.cuh"
#include "../../kernels/cuda/lora_dy.cuh"
#include "../cuda/variants.h"
#include "h.h"

static double number(const char *name)
{
    const char *text = getenv(name);
    CHECK(text && *text);
    return strtod(text, nullptr);
}

/* n bytes, zeros, and such whose accesses count. */
static char *bytes_of(int64_t n)
{
    void *p;
    OK(cudaMalloc(&p, (size_t)n));
    OK(cudaMemset(p, 0, (size_t)n));
    return (char *)p;
}
static char *counted(int64_t n)
{
    char *p = bytes_of(n);
    sim_count(p, (size_t)n);
    return p;
}

/* apart: bytes of operands that are not counted here. */
static void check_moved(const char *name, int64_t apart = 0)
{
    OK(cudaDeviceSynchronize());
    const double got = (double)sim_moved(), wanted = number(name) - (double)apart;
    if (got < 0.995 * wanted || got > 1.005 * wanted) {
        fprintf(stderr, "%s: gen counts %.0f bytes, the simulator %.0f", name, wanted, got);
        _exit(1);
    }
}

/* lr, betas, eps, decay, bias corrections, clip, unscale */
static float *args()
{
    const float values[] = {1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.1f, 0.001f, 1, 1};
    char *p = bytes_of(sizeof values);
    OK(cudaMemcpy(p, values, sizeof values, cudaMemcpyHostToDevice));
    return (float *)p;
}

enum Kept { FP32, REMAINDER, ROUNDING };
static void update(const char *elements, const char *bytes, Kept kept, bool eight)
{
    const int64_t n = (int64_t)number(elements), blocks = (n + 255) / 256;
    wt_t *w = (wt_t *)counted(2 * n);
    Master master = {};
    if (kept == FP32)
        master.fp32 = (float *)counted(4 * n);
    else if (kept == REMAINDER)
        master.remainder = (int16_t *)counted(2 * n);
    else
        master.rounding = (uint32_t *)bytes_of(16);
    float *g = (float *)counted(4 * n), *norm = (float *)bytes_of(4);
    const int64_t of_moment = eight ? n : 4 * n;
    char *m = counted(of_moment), *v = counted(of_moment);
    if (eight) {
        float *of_m = (float *)bytes_of(4 * blocks), *of_v = (float *)bytes_of(4 * blocks);
        adamw8_mixed(w, master, (uint8_t *)m, (uint8_t *)v, of_m, of_v, g, args(), norm, n, 1, n, n,
                     n, 1, nullptr);
    } else {
        adamw_mixed(w, master, (float *)m, (float *)v, g, args(), norm, n, 1, nullptr);
    }
    check_moved(bytes);
}

CASE(adamw_fp32_master) { update("ADAMW_ELEMENTS", "ADAMW_FP32", FP32, false); }
CASE(adamw_remainder) { update("ADAMW_ELEMENTS", "ADAMW_REMAINDER", REMAINDER, false); }
CASE(adamw8_remainder) { update("ADAMW8_ELEMENTS", "ADAMW8_REMAINDER", REMAINDER, true); }

/* The head of the program: all rows have labels. */
static void head(const char *bytes, bool backward)
{
    const int64_t rows = (int64_t)number("ROWS"), V = (int64_t)number("VOCABULARY"),
                  C = (int64_t)number("HIDDEN"), chunk = (int64_t)number("CHUNK"),
                  logits = chunk * ce_width(V);
    CHECK(ce_width(V) == V);
    Gemm mm = {.name = "logits", .m = chunk, .n = V, .k = C, .form = GEMM_NT, .out_f32 = 1},
         mm_dx = {.name = "dx", .m = chunk, .n = C, .k = V, .form = GEMM_NN},
         mm_dw = {.name = "dw", .m = V, .n = C, .k = chunk, .form = GEMM_TN, .out_f32 = 1, .beta = 1};
    gemm_setup(), gemm_init(&mm), gemm_init(&mm_dx), gemm_init(&mm_dw);
    const act_t *x = (const act_t *)counted(2 * rows * C);
    const wt_t *w = (const wt_t *)counted(2 * V * C);
    const int32_t *labels = (const int32_t *)bytes_of(4 * rows);
    const float *scale = (const float *)bytes_of(4);
    float *loss = (float *)bytes_of(4 * rows);
    char *ws = bytes_of(CUDA_GEMM_WORKSPACE + 6 * logits);
    sim_count(ws + CUDA_GEMM_WORKSPACE, (size_t)(6 * logits));
    if (backward) {
        act_t *dx = (act_t *)counted(2 * rows * C);
        float *dw = (float *)counted(4 * V * C);
        ce_bwd<DEFAULT_ce_threads>(loss, dx, x, w, labels, scale, {.dw = dw}, rows, V, C, chunk,
                                   (int)number("BETA"), &mm, &mm_dx, &mm_dw, ws, nullptr);
    } else {
        ce_fwd<DEFAULT_ce_threads>(loss, x, w, labels, {}, rows, V, C, chunk, &mm, ws, nullptr);
    }
    check_moved(bytes);
}

CASE(ce_fwd) { head("CE_FWD", false); }
CASE(ce_bwd) { head("CE_BWD", true); }

/* Adapters of one layer, without what blocks read again from the L2 cache: u, b, du_h and a_h. */
struct Adapters {
    int64_t rows, width;
    Lora l;
    const act_t *u, *b, *du_h, *a_h;
    act_t *du;
    float *db;
    void *ws;
};

static Adapters adapters(const char *width, int parts)
{
    enum { RANK = 16 };
    Adapters a = {};
    const int64_t rows = (int64_t)number("LORA_ROWS"), w = (int64_t)number(width), all = parts * RANK;
    a.rows = rows, a.width = w;
    a.l = {.rows = rows, .in = 0, .row = all, .out = parts * w, .rank = RANK, .parts = parts,
           .col = {0, w}, .width = {w, parts > 1 ? w : 0}};
    a.u = (act_t *)bytes_of(2 * rows * all), a.b = (act_t *)bytes_of(2 * parts * w * RANK);
    a.du_h = (act_t *)bytes_of(2 * rows * RANK), a.a_h = (act_t *)bytes_of(2 * w * RANK);
    a.du = (act_t *)counted(2 * rows * all), a.db = (float *)counted(4 * parts * w * RANK);
    a.ws = counted(lora_dy_cuda_workspace(rows, parts * lora_dy_stripes(w, RANK), parts * w, RANK));
    return a;
}

CASE(lora_dy)
{
    const Adapters a = adapters("HIDDEN_LORA", 1);
    const act_t *dy = (act_t *)counted(2 * a.rows * a.width);
    lora_dy<16>(a.du, a.db, dy, a.u, a.b, OVERWRITE, &a.l, a.ws, nullptr);
    check_moved("LORA_DY", 2 * 16 * (a.rows + a.width));
}

CASE(gated_bwd_lora_dx)
{
    const Adapters a = adapters("FFN_LORA", 2);
    act_t *dy = (act_t *)counted(4 * a.rows * a.width);
    const act_t *gu = (act_t *)counted(4 * a.rows * a.width),
                *dx0 = (act_t *)counted(2 * a.rows * a.width);
    gated_bwd_lora_dx<16, SILU_GATE>(dy, a.du, a.db, dx0, a.du_h, a.a_h, gu, a.u, a.b, OVERWRITE,
                                     &a.l, a.ws, nullptr);
    check_moved("GATED_BWD_LORA_DX", 3 * 2 * 16 * (a.rows + a.width));
}

int main()
{
    return h_main("bytes");
}
