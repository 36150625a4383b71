/* c_sizes.cpp -- arrays of more than 2^31 elements: what 32-bit products of indices would break.
 *
 * Method: inputs repeat a few rows; each row of a large result has the bits of a few's. Sums over
 *         rows are of integers, so exact. On a GPU: as large as its memory allows, up to a little
 *         more than 2^31; on the simulator a few rows, so that the tests themselves are tested. */
#include "../../kernels/cuda/adamw.cuh"
#include "../../kernels/cuda/attention.cuh"
#include "../../kernels/cuda/ce.cuh"
#include "../../kernels/cuda/embed.cuh"
#include "../../kernels/cuda/gather.cuh"
#include "../../kernels/cuda/layernorm.cuh"
#include "../../kernels/cuda/linear.cuh"
#include "../../kernels/cuda/pointwise.cuh"
#include "../../kernels/cuda/rmsnorm.cuh"
#include "../../kernels/cuda/rope.cuh"
#include "harness.h"
#include "variants.h"

#include <math.h>

/* Not on the simulator, nor under the sanitizer (no guards): both are slow. */
static bool is_large()
{
#ifdef __CUDACC__
    return guard_bytes > 0;
#else
    return false;
#endif
}

enum { SIZES_THREADS = 256, SIZES_BLOCKS = 1024 };

/* to (total words) = from (n words), again and again. */
__global__ void __launch_bounds__(SIZES_THREADS)
    repeat_kernel(uint32_t *to, const uint32_t *from, int64_t n, int64_t total)
{
    const int64_t first = blockIdx.x * (int64_t)SIZES_THREADS + threadIdx.x;
    for (int64_t i = first; i < total; i += gridDim.x * (int64_t)SIZES_THREADS)
        to[i] = from[i % n];
}

/* worse (threads of the grid) = words of a (total) that differ from few (n), repeated. */
__global__ void __launch_bounds__(SIZES_THREADS)
    differs_kernel(int32_t *worse, const uint32_t *a, const uint32_t *few, int64_t n, int64_t total)
{
    const int64_t first = blockIdx.x * (int64_t)SIZES_THREADS + threadIdx.x;
    int32_t count = 0;
    for (int64_t i = first; i < total; i += gridDim.x * (int64_t)SIZES_THREADS)
        count += a[i] != few[i % n];
    worse[first] = count;
}

static unsigned sizes_grid(int64_t words)
{
    const unsigned blocks = blocks_over(words, SIZES_THREADS);
    return blocks < SIZES_BLOCKS ? blocks : (unsigned)SIZES_BLOCKS;
}

/* How often `few` rows of `elements` repeat to be more than 2^31, as far as there are
 * bytes_of_row for each in memory. */
static int64_t times(int64_t few, int64_t elements, int64_t bytes_of_row)
{
    size_t available = 0, all;
    if (!is_large())
        return 3;
    cuda_check(cudaMemGetInfo(&available, &all), "the size of memory");
    const int64_t wanted = (((int64_t)1 << 31) + ((int64_t)1 << 24)) / (few * elements) + 1;
    const int64_t most = (int64_t)(0.9 * (double)available) / (few * bytes_of_row);
    if (wanted > most)
        printf("# memory for %.2g elements, not for 2^31\n", (double)(most * few * elements));
    return wanted < most ? wanted : most;
}

/* `n` elements of x, `often` times; 4 divides the bytes of n. */
template <typename V> static V *repeat(const V *x, int64_t n, int64_t often)
{
    const int64_t words = n * (int64_t)sizeof(V) / 4;
    V *y = NEW(V, n * often);
    launch(repeat_kernel, sizes_grid(words * often), SIZES_THREADS, 0, stream, (uint32_t *)y,
           (const uint32_t *)x, words, words * often);
    return y;
}

template <typename V>
static void check_repeats(const char *what, const V *got, const V *few, int64_t n, int64_t often)
{
    const int64_t words = n * (int64_t)sizeof(V) / 4;
    const unsigned grid = sizes_grid(words * often);
    int32_t *worse = NEW(int32_t, grid * SIZES_THREADS);
    launch(differs_kernel, grid, SIZES_THREADS, 0, stream, worse, (const uint32_t *)got,
           (const uint32_t *)few, words, words * often);
    const int32_t *counts = download(worse, grid * SIZES_THREADS);
    int64_t all = 0;
    for (int64_t i = 0; i < grid * SIZES_THREADS; i++)
        all += counts[i];
    if (all)
        printf("# %s: %lld words differ\n", what, (long long)all);
    check_true(what, all == 0);
}

TEST(sizes_pointwise)
{
    const int64_t n = 4096, often = times(1, n, 3 * n * (int64_t)sizeof(act_t));
    act_t *a = act_normal(n, 0, 1), *b = act_normal(n, 0, 1), *few = NEW(act_t, n);
    act_t *x = repeat(a, n, often), *y = repeat(b, n, often), *z = NEW(act_t, n * often);
    run([&] { add_fwd(few, a, b, n, stream), add_fwd(z, x, y, n * often, stream); });
    check_repeats("add", z, few, n, often);
    run([&] { gelu_fwd(few, a, n, stream), gelu_fwd(z, x, n * often, stream); });
    check_repeats("gelu", z, few, n, often);
    run([&] { gelu_bwd(few, b, a, n, stream), gelu_bwd(z, y, x, n * often, stream); });
    check_repeats("gelu_bwd", z, few, n, often);
}

TEST(sizes_swiglu)
{
    const int64_t rows = 4, F = is_large() ? 18944 : 344, n = rows * F, size = sizeof(act_t);
    const int64_t often = times(rows, 2 * F, 6 * F * size);
    act_t *gu = act_normal(2 * n, 0, 1), *dh = act_normal(n, 0, 1);
    act_t *h = NEW(act_t, n), *dgu = NEW(act_t, 2 * n);
    act_t *GU = repeat(gu, 2 * n, often), *DH = repeat(dh, n, often), *H = NEW(act_t, n * often);
    run([&] { swiglu_fwd(h, gu, rows, F, stream), swiglu_fwd(H, GU, rows * often, F, stream); });
    check_repeats("swiglu", H, h, n, often);
    run([&] {
        swiglu_bwd(dgu, dh, gu, rows, F, stream);
        swiglu_bwd(GU, DH, GU, rows * often, F, stream);
    });
    check_repeats("swiglu_bwd", GU, dgu, 2 * n, often);
}

TEST(sizes_norms)
{
    const int64_t rows = 4, C = is_large() ? 3584 : 96, n = rows * C, size = sizeof(act_t);
    const int64_t often = times(rows, C, 3 * C * size + 8), all = rows * often;
    act_t *x = act_normal(n, 0, 1), *r = act_normal(n, 0, 1), *w = act_normal(C, 1, 0.3);
    act_t *b = act_normal(C, 0, 1), *sum = NEW(act_t, n), *y = NEW(act_t, n);
    float *mean = NEW(float, rows), *rstd = NEW(float, rows);
    act_t *X = repeat(x, n, often), *R = repeat(r, n, often), *Y = NEW(act_t, n * often);
    float *MEAN = NEW(float, all), *RSTD = NEW(float, all);
    run([&] {
        add_rmsnorm_fwd(sum, y, rstd, x, r, w, rows, C, 1e-5f, 0, stream);
        add_rmsnorm_fwd(X, Y, RSTD, X, R, w, all, C, 1e-5f, 0, stream);
    });
    check_repeats("sum", X, sum, n, often);
    check_repeats("rmsnorm", Y, y, n, often);
    run([&] {
        rmsnorm_dx_add(y, r, sum, w, rstd, y, rows, C, 0, stream);
        rmsnorm_dx_add(Y, R, X, w, RSTD, Y, all, C, 0, stream);
    });
    check_repeats("rmsnorm dx", Y, y, n, often);
    run([&] {
        layernorm_fwd(y, mean, rstd, sum, w, b, rows, C, 1e-5f, stream);
        layernorm_fwd(Y, MEAN, RSTD, X, w, b, all, C, 1e-5f, stream);
    });
    check_repeats("layernorm", Y, y, n, often);
    run([&] {
        layernorm_dx(y, r, sum, w, mean, rstd, rows, C, stream);
        layernorm_dx(Y, R, X, w, MEAN, RSTD, all, C, stream);
    });
    check_repeats("layernorm dx", Y, y, n, often);
}

TEST(sizes_row_sums)
{
    const int64_t rows = 4, C = is_large() ? 3584 : 96, n = rows * C, size = sizeof(act_t);
    const int64_t often = times(rows, C, C * size), all = rows * often;
    act_t *dy = act_integers(n, 2), *DY = repeat(dy, n, often);
    double *want = HOST(double, C), *dy_ = act_double(dy, n);
    float *db = NEW(float, C), *norm = NEW(float, 1);
    void *ws = new_bytes(bias_grad_cuda_workspace(C));
    for (int64_t c = 0; c < C; c++) {
        want[c] = 0;
        for (int64_t i = 0; i < rows; i++)
            want[c] += (double)often * dy_[i * C + c];
    }
    run([&] { bias_grad(db, DY, all, C, 0, ws, stream); });
    check_f32_exact("db", db, want, C);
    if (size == sizeof(float)) {
        double root = sqrt(dot(dy_, dy_, n) * (double)often);
        void *parts = new_bytes(grad_norm_cuda_workspace());
        run([&] { grad_norm(norm, (const float *)DY, n * often, parts, stream); });
        check_f32_exact("norm", norm, &root, 1);
    }
}

TEST(sizes_embed)
{
    const int64_t rows = 32, C = is_large() ? 3584 : 32, V = 50, n = rows * C, size = sizeof(act_t);
    const int64_t often = times(rows, C, C * size + 24), all = rows * often;
    act_t *dy = act_integers(n, 2), *DY = repeat(dy, n, often), *wte = act_integers(V * C, 2);
    int32_t *tok = tokens_random(rows, V), *TOK = repeat(tok, rows, often);
    double *want = HOST(double, V *C), *dy_ = act_double(dy, n);
    const int32_t *token = download(tok, rows);
    float *dwte = NEW(float, V *C);
    void *ws = new_bytes(embed_bwd_cuda_workspace(all, C));
    memset(want, 0, (size_t)(V * C) * sizeof *want);
    for (int64_t i = 0; i < n; i++)
        want[token[i / C] * C + i % C] += (double)often * dy_[i];
    run([&] { embed_bwd(dwte, DY, TOK, NO_PAD, all, C, V, 0, ws, stream); });
    check_f32_exact("dwte", dwte, want, V * C);
    memset(want, 0, (size_t)n * sizeof *want);
    for (int64_t i = 0; i < n; i++)
        want[i] = (double)often * dy_[i];
    run([&] { pos_bwd(dwte, DY, all, rows, C, rows, 0, stream); });
    check_f32_exact("dwpe", dwte, want, n);
    run([&] {
        embed_fwd(dy, tok, wte, NULL, NULL, rows, 1, C, stream);
        embed_fwd(DY, TOK, wte, NULL, NULL, all, 1, C, stream);
    });
    check_repeats("embed", DY, dy, n, often);
}

TEST(sizes_gather)
{
    const int64_t rows = 32, C = is_large() ? 3584 : 32, n = rows * C;
    const int64_t often = times(rows, C, C * (int64_t)sizeof(act_t) + 4), all = rows * often;
    int32_t *there = HOST(int32_t, rows), *back = HOST(int32_t, rows);
    for (int64_t r = 0; r < rows; r++) {
        there[r] = (int32_t)(rows - 1 - r);
        back[r] = (int32_t)(all - 1 - r);
    }
    act_t *x = act_normal(n, 0, 1), *y = NEW(act_t, n), *Y = NEW(act_t, n * often);
    int32_t *FEW = upload(there, rows), *ALL = repeat(FEW, rows, often), *LAST = upload(back, rows);
    run([&] {
        gather_rows(y, x, FEW, rows, C, stream);
        gather_rows(Y, x, ALL, all, C, stream);
    });
    check_repeats("rows", Y, y, n, often);
    run([&] { gather_rows(y, Y, LAST, rows, C, stream); });
    check_same("from the end", y, x, n * (int64_t)sizeof *x);
}

TEST(sizes_rope)
{
    const int64_t T = 8, H = 28, K = 4, D = is_large() ? 128 : 16, n = T * (H + 2 * K) * D;
    const int64_t often = times(T, n / T, n / T * (int64_t)sizeof(act_t));
    act_t *qkv = act_normal(n, 0, 1), *QKV = repeat(qkv, n, often);
    float *cosine = f32_normal(T * D / 2, 0, 1), *sine = f32_normal(T * D / 2, 0, 1);
    run([&] {
        rope_fwd(qkv, cosine, sine, NULL, T, T, H, K, D, stream);
        rope_fwd(QKV, cosine, sine, NULL, T * often, T, H, K, D, stream);
    });
    check_repeats("rope", QKV, qkv, n, often);
}

TEST(sizes_ce)
{
    const int64_t rows = 4, V = is_large() ? 50257 : 1100, width = ce_width(V), n = rows * width;
    const int64_t often = times(rows, width, width * (4 + (int64_t)sizeof(act_t)));
    const float one = 0.5f, *scale = upload(&one, 1);
    const int32_t some[rows] = { 0, -1, (int32_t)V - 1, 7 }, *label = upload(some, rows);
    float *logits = f32_normal(n, 0, 3), *loss = NEW(float, rows);
    act_t *d = act_integers(n, 0);
    float *LOGITS = repeat(logits, n, often), *LOSS = NEW(float, rows * often);
    act_t *G = repeat(d, n, often);
    const int32_t *labels = repeat(label, rows, often);
    run([&] {
        ce_rows<DEFAULT_ce_threads>(loss, d, logits, label, scale, NULL, rows, V, stream);
        ce_rows<DEFAULT_ce_threads>(LOSS, G, LOGITS, labels, scale, NULL, rows * often, V,
                                    stream);
    });
    check_repeats("loss", LOSS, loss, rows, often);
    check_repeats("gradient", G, d, n, often);
}

/* Sequences do not see each other. */
TEST(sizes_attention)
{
    const int64_t T = is_large() ? 1000 : 70, H = 8, K = 2, row = (H + 2 * K) * 64;
    const int64_t n = T * row, m = T * H * 64, size = sizeof(act_t);
    const int64_t often = times(T, row, (2 * row + 2 * H * 64) * size + 8 * H);
    act_t *qkv = act_normal(n, 0, 1), *dy = act_normal(m, 0, 1);
    act_t *o = NEW(act_t, m), *dqkv = NEW(act_t, n);
    act_t *QKV = repeat(qkv, n, often), *DY = repeat(dy, m, often);
    act_t *Y = NEW(act_t, m * often), *DQKV = NEW(act_t, n * often);
    float *lse = NEW(float, H * T), *LSE = NEW(float, H *T *often);
    void *ws = new_bytes(attention_bwd_cuda_workspace(1, T, H, K, 64, size));
    void *WS = new_bytes(attention_bwd_cuda_workspace(often, T, H, K, 64, size));
    run([&] {
        attention_fwd<64>(o, lse, qkv, {}, 1, T, H, K, 0.125f, NULL, stream);
        attention_fwd<64>(Y, LSE, QKV, {}, often, T, H, K, 0.125f, NULL, stream);
        attention_bwd<64>(dqkv, dy, o, lse, qkv, {}, 1, T, H, K, 0.125f, ws, stream);
        attention_bwd<64>(DQKV, DY, Y, LSE, QKV, {}, often, T, H, K, 0.125f, WS, stream);
    });
    check_repeats("o", Y, o, m, often);
    check_repeats("lse", LSE, lse, H * T, often);
    check_repeats("dqkv", DQKV, dqkv, n, often);
}

/* Products of small integers: exact, whatever the algorithm. */
TEST(sizes_gemm)
{
    const int64_t rows = 16, N = is_large() ? 37888 : 96, k = 64, n = rows * N;
    const int64_t often = times(rows, N, N * (int64_t)sizeof(act_t) + k * (int64_t)sizeof(act_t));
    act_t *x = act_integers(rows * k, 1), *w = act_integers(N * k, 2), *y = NEW(act_t, n);
    act_t *X = repeat(x, rows * k, often), *Y = NEW(act_t, n * often);
    void *ws = new_bytes(CUDA_GEMM_WORKSPACE);
    Gemm few = { .name = "few", .m = rows, .n = N, .k = k, .form = GEMM_NT };
    Gemm many = { .name = "many", .m = rows * often, .n = N, .k = k, .form = GEMM_NT };
    Gemm back = { .name = "back", .m = N, .n = k, .k = rows * often, .form = GEMM_TN,
                  .out_f32 = 1 };
    double *dw = HOST(double, N *k), *x_ = act_double(x, rows * k);
    float *got = NEW(float, N *k);
    gemm_setup();
    for (Gemm *g : { &few, &many, &back })
        gemm_init(g);
    run([&] {
        linear_fwd(y, x, w, &few, ws, stream);
        linear_fwd(Y, X, w, &many, ws, stream);
        linear_dw(got, Y, X, &back, ws, stream);
    });
    check_repeats("y", Y, y, n, often);
    double *y_ = act_double(y, n);
    for (int64_t j = 0; j < N; j++)
        for (int64_t c = 0; c < k; c++) {
            dw[j * k + c] = 0;
            for (int64_t i = 0; i < rows; i++)
                dw[j * k + c] += (double)often * y_[i * N + j] * x_[i * k + c];
        }
    check_f32_exact("dw", got, dw, N * k);
}

TEST(sizes_adamw)
{
    const int64_t n = 4096, often = times(1, n, n * (16 + (int64_t)sizeof(wt_t)));
    float adamw_args[ADAMW_UNSCALE + 1] = {}, one = 1;
    adamw_args[ADAMW_LR] = 1e-3f, adamw_args[ADAMW_BETA1] = 0.9f, adamw_args[ADAMW_BETA2] = 0.999f;
    adamw_args[ADAMW_EPS] = 1e-8f, adamw_args[ADAMW_BIAS1] = 0.1f, adamw_args[ADAMW_BIAS2] = 0.001f;
    adamw_args[ADAMW_UNSCALE] = 1;
    const float *h = upload(adamw_args, ADAMW_UNSCALE + 1), *norm = upload(&one, 1);
    act_t *w = act_integers(n, 0), *W = repeat(w, n, often);
    float *p[4], *P[4];
    for (int i = 0; i < 4; i++) {
        p[i] = i == 2 ? f32_normal(n, 10, 1) : f32_normal(n, 0, 1);      // v is not negative
        P[i] = repeat(p[i], n, often);
    }
    run([&] {
        adamw_mixed(w, p[0], p[1], p[2], p[3], h, norm, n, 1, stream);
        adamw_mixed(W, P[0], P[1], P[2], P[3], h, norm, n * often, 1, stream);
    });
    check_repeats("w", W, w, n, often);
    for (int i = 0; i < 3; i++)
        check_repeats("master, m, v", P[i], p[i], n, often);
}
