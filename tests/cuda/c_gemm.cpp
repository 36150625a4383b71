/* c_gemm.cpp -- gemm.cuh and linear.cuh. */
#include "../../kernels/cuda/linear.cuh"
#include "harness.h"
#include "unwatched.h"
#include "../../kernels/reference/gemm.h"

#include <sys/wait.h>
#include <unistd.h>

struct Case {
    int64_t m, n, k;
    GemmForm form;
    int bias, beta, out_f32;
    float scale;
    int64_t pad;                 /* elements between the end of a row and the next */
};

/* Odd sizes, one row (decode), padded rows that keep 16-byte borders and others that do not. */
static const Case cases[] = {
    { 1, 1, 1, GEMM_NT, 0, 0, 0, 1, 0 },       { 5, 7, 3, GEMM_NT, 1, 0, 0, 1, 0 },
    { 64, 192, 64, GEMM_NT, 1, 0, 0, 1, 0 },   { 33, 17, 129, GEMM_NT, 0, 0, 1, 1, 0 },
    { 1, 96, 64, GEMM_NT, 0, 0, 0, 1, 0 },     { 48, 40, 72, GEMM_NT, 1, 0, 0, 1, 8 },
    { 31, 65, 40, GEMM_NN, 0, 0, 0, 1, 0 },    { 40, 64, 24, GEMM_NN, 0, 1, 0, 1, 5 },
    { 64, 48, 200, GEMM_TN, 0, 0, 1, 1, 0 },   { 24, 33, 77, GEMM_TN, 0, 1, 1, 1, 5 },
    { 37, 40, 8, GEMM_NT, 0, 1, 0, 0.5f, 3 },  { 40, 8, 37, GEMM_NN, 0, 0, 0, 2, 5 },
    { 40, 8, 37, GEMM_TN, 0, 1, 1, 2, 8 },     { 50, 8, 7, GEMM_TN, 0, 0, 1, 0.25f, 0 },
    { 130, 256, 65, GEMM_NN, 0, 0, 0, 1, 0 },  { 101, 259, 515, GEMM_NT, 1, 0, 0, 1, 0 },
    { 256, 24, 8, GEMM_NT, 1, 0, 0, 1, 0 },    { 256, 8, 32, GEMM_NN, 0, 0, 0, 1, 0 },
    { 24, 8, 256, GEMM_TN, 0, 1, 1, 1, 0 },
};


static void copy_row(char *to, const char *from, int64_t bytes)
{
    cuda_check(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, stream), "a row");
}

/* rows x cols of x, cols + pad elements apart; nothing is written between them. */
static void *spread(const void *x, int64_t rows, int64_t cols, int64_t pad, int64_t size)
{
    char *y = (char *)new_bytes(rows * (cols + pad) * size);
    for (int64_t i = 0; i < rows; i++)
        copy_row(y + i * (cols + pad) * size, (const char *)x + i * cols * size, cols * size);
    cuda_check(cudaStreamSynchronize(stream), "spreading a matrix");
    return y;
}

static void *gather(const void *x, int64_t rows, int64_t cols, int64_t pad, int64_t size)
{
    char *y = (char *)new_bytes(rows * cols * size);
    for (int64_t i = 0; i < rows; i++)
        copy_row(y + i * cols * size, (const char *)x + i * (cols + pad) * size, cols * size);
    cuda_check(cudaStreamSynchronize(stream), "gathering a matrix");
    return y;
}

static act_t *values(int64_t n, bool integers)
{
    return integers ? act_integers(n, 3) : act_normal(n, 0.1, 1);
}

static void run_case(const Case &t, bool integers, void *ws)
{
    const int64_t n = t.m * t.n, na = t.m * t.k, nb = t.k * t.n;
    const int64_t asize = sizeof(act_t), csize = t.out_f32 ? (int64_t)sizeof(float) : asize;
    const int64_t arows = t.form == GEMM_TN ? t.k : t.m, acols = t.form == GEMM_TN ? t.m : t.k;
    const int64_t brows = t.form == GEMM_NT ? t.n : t.k, bcols = t.form == GEMM_NT ? t.k : t.n;
    act_t *a = values(na, integers), *b = values(nb, integers), *bias = values(t.n, integers);
    void *c = !t.beta ? NULL : t.out_f32 ? (void *)f32_integers(n, 3) : (void *)act_integers(n, 3);
    double *ref = !t.beta     ? HOST(double, n)
                  : t.out_f32 ? f32_double((float *)c, n)
                              : act_double((act_t *)c, n);
    gemm_ref(ref, act_double(a, na), act_double(b, nb), t.bias ? act_double(bias, t.n) : NULL, t.m,
             t.n, t.k, t.form, t.scale, t.beta);

    Gemm g = { .name = "test", .m = t.m, .n = t.n, .k = t.k, .lda = t.pad ? acols + t.pad : 0,
               .ldb = t.pad ? bcols + t.pad : 0, .ldc = t.pad ? t.n + t.pad : 0, .form = t.form,
               .bias = t.bias, .out_f32 = t.out_f32, .beta = t.beta, .scale = t.scale };
    gemm_init(&g);
    const void *as = spread(a, arows, acols, t.pad, asize),
               *bs = spread(b, brows, bcols, t.pad, asize);
    void *cs = t.beta ? spread(c, t.m, t.n, t.pad, csize)
                      : new_bytes(t.m * (t.n + t.pad) * csize);
    run([&] { gemm_run(&g, cs, as, bs, t.bias ? bias : NULL, NULL, ws, stream); });
    void *got = gather(cs, t.m, t.n, t.pad, csize);
    if (integers && t.out_f32)
        check_f32_exact("c of integers", (float *)got, ref, n);
    else if (integers)
        check_act_exact("c of integers", (act_t *)got, ref, n);
    else if (t.out_f32)
        check_f32("c", (float *)got, ref, n, t.k);
    else
        check_act("c", (act_t *)got, ref, n, t.k);
}

TEST(gemm)
{
    gemm_setup();
    void *ws = new_bytes(CUDA_GEMM_WORKSPACE);
    for (const Case &t : cases) {
        run_case(t, false, ws);
        run_case(t, true, ws);
    }
}

/* The row of the chosen algorithm, given back, is the same product, also that of before, which had no
 * bytes; a damaged one is refused, and so is one whose bytes are not the algorithm of its text. */
TEST(gemm_locked)
{
    gemm_setup();
    const int64_t m = 96, n = 64, k = 128;
    act_t *a = act_normal(m * k, 0, 1), *b = act_normal(n * k, 0, 1);
    act_t *c = NEW(act_t, m * n), *again = NEW(act_t, m * n);
    void *ws = new_bytes(CUDA_GEMM_WORKSPACE);
    char text[GEMM_ALGO_BYTES], other[GEMM_ALGO_BYTES], raw[GEMM_RAW_BYTES], bytes[GEMM_RAW_BYTES];
    Gemm free = { .name = "free", .m = m, .n = n, .k = k, .form = GEMM_NT };
    gemm_init(&free);
    gemm_describe(&free, text);
    gemm_algo_raw(&free.chosen, raw);
    Gemm locked = { .name = "locked", .m = m, .n = n, .k = k, .form = GEMM_NT, .algo = text };
    for (const char *given : { (const char *)NULL, (const char *)raw }) {
        Gemm taken = locked;
        taken.raw = given;
        gemm_init(&taken);
        gemm_describe(&taken, other);
        check_true("the same algorithm", !strcmp(text, other));
        check_true("the same bytes", !given || !memcmp(&free.chosen, &taken.chosen, sizeof free.chosen));
        run([&] {
            gemm_run(&free, c, a, b, NULL, NULL, ws, stream);
            gemm_run(&taken, again, a, b, NULL, NULL, ws, stream);
        });
        check_same("c", c, again, m * n * (int64_t)sizeof(act_t));
    }
    gemm_open(&locked);
    static const char *const damaged[] = { "", "algo", "algo x", "tile 1",
                                           "algo 4294967296 tile 0" };
    for (const char *algo : damaged) {
        locked.algo = algo;
        check_true(algo, gemm_take_locked_(&locked));
    }
    snprintf(other, sizeof other, "%.*s more", GEMM_ALGO_BYTES - 8, text);
    locked.algo = other;
    check_true("a word too many", gemm_take_locked_(&locked));
    char *reduce = strstr(strcpy(other, text), "reduce ");
    reduce[7] = '1';
    check_true("sums in place", gemm_take_locked_(&locked));

    locked.algo = text;
    locked.raw = bytes;
    strcpy(bytes, raw);
    check_true("undamaged", !gemm_take_locked_(&locked));
    bytes[GEMM_RAW_BYTES - 2] = 0;
    check_true("a digit too few", gemm_take_locked_(&locked));
    strcpy(bytes, raw);
    bytes[5] = 'g';
    check_true("no digit", gemm_take_locked_(&locked));
    locked.raw = text;
    check_true("no bytes", gemm_take_locked_(&locked));
    locked.raw = raw;
    char *swizzle = strstr(strcpy(other, text), "swizzle ");
    swizzle[8] ^= 1;
    locked.algo = other;
    check_true("bytes of another algorithm",
               gemm_take_locked_(&locked) &&
                   strstr(gemm_take_locked_(&locked), "another algorithm"));
#ifndef __CUDACC__               /* a library on a GPU need not survive such bytes */
    locked.algo = text;
    for (int digit = 0; digit < 2 * 52; digit++) {           /* all that the simulator's have */
        strcpy(bytes, raw);
        bytes[digit] = bytes[digit] == 'f' ? '0' : 'f';
        locked.raw = bytes;
        check_true("a changed digit", gemm_take_locked_(&locked));
    }
#endif
}

/* Algorithms of another version are not used: a line says so, or ends a program that requires them. */
TEST(gemm_measured_with)
{
    const unsigned v = (unsigned)cublasLtGetVersion();
    char here[40];
    snprintf(here, sizeof here, "%u.%u.%u", v / 10000, v / 100 % 100, v % 100);
    static const struct { bool other, required; int code; } row[] = {
        { false, false, 0 }, { false, true, 0 }, { true, false, 1 }, { true, true, EXIT_CONFIG } };
    for (auto &r : row) {
        fflush(stdout);
        const pid_t child = fork();
        int status = -1;
        if (!child) {
            fclose(stderr);
            gemm_measured_with(r.other ? "1.2.3" : here, r.required);
            _exit(gemm_unmeasured);
        }
        check_true("a child", waitpid(child, &status, 0) == child && WIFEXITED(status));
        check_true("what it does", WEXITSTATUS(status) == r.code);
    }
}

TEST(gemm_alignment)
{
    Gemm rows = {}, parts = {};
    parts.offset = 16 | 24;
    check_true("rows of 256 bytes and more", gemm_alignment_(&rows, 1024, 4) == 256);
    check_true("rows of 8 bytes", gemm_alignment_(&rows, 6, 4) == 8);
    check_true("odd rows", gemm_alignment_(&rows, 50257, 2) == 2);
    check_true("parts of rows", gemm_alignment_(&parts, 1024, 2) == 16);
}

#if defined ACT_BF16 || defined ACT_F16
TEST(linear_gelu)
{
    gemm_setup();
    static const int64_t shapes[][3] = { { 1, 8, 5 }, { 33, 64, 24 }, { 70, 40, 96 } };
    for (auto &s : shapes) {
        const int64_t m = s[0], n = s[1], k = s[2];
        act_t *x = act_normal(m * k, 0, 1), *w = act_normal(n * k, 0, 0.5),
              *b = act_normal(n, 0, 1);
        act_t *y = NEW(act_t, m * n), *z = NEW(act_t, m * n), *dz = NEW(act_t, m * n);
        double *z_ = HOST(double, m * n), *y_ = HOST(double, m * n), *dy_ = HOST(double, m * n);
        double *dz_ = HOST(double, m * n), *w_ = act_double(w, n * k);
        void *ws = new_bytes(CUDA_GEMM_WORKSPACE);
        Gemm fwd = { .name = "up", .m = m, .n = n, .k = k, .form = GEMM_NT, .bias = 1,
                     .epilogue = GEMM_GELU };
        Gemm bwd = {
            .name = "dz", .m = m, .n = n, .k = k, .form = GEMM_NN, .epilogue = GEMM_DGELU
        };
        gemm_init(&fwd);
        gemm_init(&bwd);
        run([&] { linear_bias_gelu_fwd(y, z, x, w, b, &fwd, ws, stream); });
        gemm_ref(z_, act_double(x, m * k), w_, act_double(b, n), m, n, k, GEMM_NT, 1, 0);
        gelu_fwd_ref(y_, z_, m * n);
        check_act("z", z, z_, m * n, k);
        check_act("y", y, y_, m * n, k);

        act_t *up = act_normal(k * n, 0, 0.5);           /* the next layer's weight, (k, n) */
        run([&] { linear_dx_gelu(dz, x, up, z, &bwd, ws, stream); });
        gemm_ref(dy_, act_double(x, m * k), act_double(up, k * n), NULL, m, n, k, GEMM_NN, 1, 0);
        gelu_bwd_ref(dz_, dy_, act_double(z, m * n), m * n);
        check_act("dz", dz, dz_, m * n, k);
    }
}
#endif

/* The gradients of a bias and of its weights: apart, which is the default, and in one product, where
 * a lock file says so and the library has an algorithm (here not in fp32, nor for rows that are no
 * multiple of 16 bytes). */
TEST(linear_dw_bias)
{
    gemm_setup();
    static const int64_t shapes[][3] = { { 1, 8, 8 }, { 300, 24, 40 }, { 77, 264, 16 }, { 9, 5, 7 } };
    for (auto &s : shapes)
        for (int integers = 0; integers < 2; integers++) {
            const int64_t rows = s[0], out = s[1], in = s[2];
            act_t *x = values(rows * in, integers), *dy = values(rows * out, integers);
            float *dw = NEW(float, out * in), *db = NEW(float, out);
            float *dw2 = NEW(float, out * in), *db2 = NEW(float, out);
            double *dw_ = HOST(double, out * in), *db_ = HOST(double, out);
            double *dy_ = act_double(dy, rows * out);
            void *ws = new_bytes(linear_dw_bias_cuda_workspace(out));
            char text[GEMM_ALGO_BYTES];
            Gemm mm = { .name = "dw", .m = out, .n = in, .k = rows, .form = GEMM_TN, .out_f32 = 1,
                        .epilogue = GEMM_BGRAD };
            Gemm beside = mm, locked = mm;
            gemm_init(&mm);
            check_true("apart without a lock file", mm.apart);
            gemm_algo_text(&mm, &mm.chosen, mm.bytes, text);
            locked.algo = text;
            gemm_init(&locked);
            check_true("apart from a lock file", locked.apart);
            cublasLtMatmulHeuristicResult_t found;
            gemm_open(&beside);
            const bool offered = gemm_candidates(&beside, &found, 1) == 1;
#ifndef __CUDACC__               /* on a GPU it is the library that knows */
            check_true("in the product where it can be",
                       offered == (sizeof(act_t) != 4 && out % 8 == 0 && in % 8 == 0));
#endif
            if (offered) {
                gemm_algo_text(&beside, &found.algo, found.workspaceSize, text);
                beside.algo = text;
                gemm_init(&beside);
                check_true("in the product from a lock file", !beside.apart);
            }
            run([&] {
                linear_dw_bias(dw, db, dy, x, &mm, ws, stream);
                linear_dw_bias(dw2, db2, dy, x, offered ? &beside : &locked, ws, stream);
            });
            gemm_ref(dw_, dy_, act_double(x, rows * in), NULL, out, in, rows, GEMM_TN, 1, 0);
            bias_grad_ref(db_, dy_, rows, out, 0);
            if (integers) {
                check_f32_exact("dw of integers", dw, dw_, out * in);
                check_f32_exact("db of integers", db, db_, out);
                check_f32_exact("db of integers, locked", db2, db_, out);
                continue;
            }
            check_f32("dw", dw, dw_, out * in, rows);
            check_f32("db", db, db_, out, rows);
            check_f32("dw, locked", dw2, dw_, out * in, rows);
            check_f32("db, locked", db2, db_, out, rows);
        }
}

TEST(linear)
{
    gemm_setup();
    const int64_t rows = 30, in = 40, out = 24;
    act_t *x = act_normal(rows * in, 0, 1), *w = act_normal(out * in, 0, 1),
          *b = act_normal(out, 0, 1);
    act_t *dy = act_normal(rows * out, 0, 1), *y = NEW(act_t, rows * out),
          *dx = NEW(act_t, rows * in);
    float *dw = NEW(float, out * in), *logits = NEW(float, rows * out);
    double *x_ = act_double(x, rows * in), *w_ = act_double(w, out * in), *b_ = act_double(b, out);
    double *dy_ = act_double(dy, rows * out), *ref = HOST(double, rows * in + rows * out + in * out);
    void *ws = new_bytes(CUDA_GEMM_WORKSPACE);
    Gemm fwd = { .name = "y", .m = rows, .n = out, .k = in, .form = GEMM_NT };
    Gemm biased = { .name = "y", .m = rows, .n = out, .k = in, .form = GEMM_NT, .bias = 1 };
    Gemm f32 = { .name = "logits", .m = rows, .n = out, .k = in, .form = GEMM_NT, .out_f32 = 1 };
    Gemm back = { .name = "dx", .m = rows, .n = in, .k = out, .form = GEMM_NN };
    Gemm grad = { .name = "dw", .m = out, .n = in, .k = rows, .form = GEMM_TN, .out_f32 = 1 };
    gemm_init(&fwd), gemm_init(&biased), gemm_init(&f32), gemm_init(&back), gemm_init(&grad);
    run([&] { linear_fwd(y, x, w, &fwd, ws, stream); });
    gemm_ref(ref, x_, w_, NULL, rows, out, in, GEMM_NT, 1, 0);
    check_act("y", y, ref, rows * out, in);
    run([&] { logits_fwd(logits, x, w, &f32, ws, stream); });
    check_f32("logits", logits, ref, rows * out, in);
    run([&] { linear_bias_fwd(y, x, w, b, &biased, ws, stream); });
    gemm_ref(ref, x_, w_, b_, rows, out, in, GEMM_NT, 1, 0);
    check_act("y with bias", y, ref, rows * out, in);
    run([&] { logits_bias_fwd(logits, x, w, b, &f32, ws, stream); });
    check_f32("logits with bias", logits, ref, rows * out, in);
    run([&] { linear_dx(dx, dy, w, &back, ws, stream); });
    gemm_ref(ref, dy_, w_, NULL, rows, in, out, GEMM_NN, 1, 0);
    check_act("dx", dx, ref, rows * in, out);
    Gemm onto = { .name = "dx", .m = rows, .n = in, .k = out, .form = GEMM_NN, .beta = 1 };
    gemm_init(&onto);
    double *sum = act_double(x, rows * in);
    for (int64_t i = 0; i < rows * in; i++)
        sum[i] += ref[i];
    run([&] { linear_dx_add(dx, dy, w, x, &onto, ws, stream); });
    check_act("dx and a residual", dx, sum, rows * in, out + 1);
    run([&] { linear_dw(dw, dy, x, &grad, ws, stream); });
    gemm_ref(ref, dy_, x_, NULL, out, in, rows, GEMM_TN, 1, 0);
    check_f32("dw", dw, ref, out * in, rows);
}

/* Fewer rows than parts; columns of whole vectors and not; one block of columns and more. */
TEST(bias_grad)
{
    static const int64_t shapes[][2] = { { 1, 1 },     { 7, 24 },    { 130, 33 },
                                         { 1000, 64 }, { 300, 264 }, { 129, 520 } };
    for (auto &s : shapes)
        for (int beta = 0; beta < 2; beta++) {
            const int64_t rows = s[0], N = s[1];
            act_t *dy = act_normal(rows * N, 0.5, 1);
            float *before = f32_normal(N, 0, 1), *db = beta ? f32_copy(before, N) : NEW(float, N);
            double *ref = beta ? f32_double(before, N) : HOST(double, N);
            void *ws = new_bytes(bias_grad_cuda_workspace(N));
            run([&] { bias_grad(db, dy, rows, N, beta, ws, stream); });
            bias_grad_ref(ref, act_double(dy, rows * N), rows, N, beta);
            check_f32("db", db, ref, N, rows);
        }
}

/* Products of GPT-2 124M and Qwen2.5-7B, 8192 rows. */
BENCH(gemm)
{
    gemm_setup();
    static const int64_t shapes[][2] = {
        { 2304, 768 }, { 3072, 768 }, { 37888, 3584 }, { 3584, 18944 }
    };
    static const char *const forms[] = { "NT", "NN", "TN" };
    const int64_t rows = 8192;
    void *ws = new_bytes(CUDA_GEMM_WORKSPACE);
    for (auto &s : shapes)
        for (int form = 0; form < 3; form++) {
            const int64_t out = s[0], in = s[1];
            Gemm g = { .name = "bench", .m = form == 2 ? out : rows, .n = form == 0 ? out : in,
                       .k = form == 2 ? rows : form == 1 ? out : in, .form = (GemmForm)form,
                       .out_f32 = form == 2 };
            gemm_init(&g);
            act_t *a = act_normal(g.m * g.k, 0, 1), *b = act_normal(g.k * g.n, 0, 1);
            void *c = new_bytes(g.m * g.n * (form == 2 ? 4 : (int64_t)sizeof(act_t)));
            char what[64];
            snprintf(what, sizeof what, "gemm %s rows 8192 %d x %d", forms[form], (int)out,
                     (int)in);
            bench_report(what, bench_time([&] { gemm_run(&g, c, a, b, NULL, NULL, ws, stream); }),
                         0, 2.0 * (double)(rows * out * in));
        }
}

BENCH(bias_grad)
{
    for (int64_t N : { 768, 3072, 4608 }) {
        const int64_t rows = 65536;
        act_t *dy = act_normal(rows * N, 0, 1);
        float *db = NEW(float, N);
        void *ws = new_bytes(bias_grad_cuda_workspace(N));
        char what[64];
        snprintf(what, sizeof what, "bias_grad rows 65536 N %d", (int)N);
        bench_report(what, bench_time([&] { bias_grad(db, dy, rows, N, 0, ws, stream); }),
                     (double)(rows * N) * sizeof(act_t), 0);
    }
}
