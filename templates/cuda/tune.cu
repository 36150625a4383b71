/* tune.cu -- measures the products and kernels of step.cu on this GPU: ./tune > rows.json.
 *
 * Out:    one JSON object, a section of the lock file; gen tune --rows rows.json stores it.
 * Keeps:  an algorithm is used only if it matches a plain kernel element by element, a variant
 *         only if it matches the default.
 * Method: candidates are those of the library, except sums in a nondeterministic order; operands
 *         are random, in up to 16 copies used in turn, so that no cache holds them; each time is
 *         the minimum of 3 rounds; a candidate less than 1 % faster than the first choice loses to
 *         it. */
#include "step.cu"

#include "kernels/cuda/gemm_key.h"

enum {
    TUNE_CANDIDATES = 64,        // from the library, at most; twice that if db may be separate
    TUNE_ROUNDS = 3,
    TUNE_COPIES = 16,            // copies of the operands, at most
    TUNE_TILE = 16
};
/* bytes of operands: more than any cache holds */
static const int64_t tune_rotated = INT64_C(256) << 20;

typedef struct {
    act_t *a, *b, *bias, *aux;
    float *db;                   // of GEMM_BGRAD: (m)
    char *c;
} TuneOperands;

typedef struct {
    cublasLtMatmulHeuristicResult_t choice;
    bool apart;
    char text[GEMM_ALGO_BYTES], raw[GEMM_RAW_BYTES];
} TuneCandidate;

/* ---- operands and the reference ---- */

/* First element of a thread in a grid of blocks of 256. */
static __device__ inline int64_t tune_first(void)
{
    return blockIdx.x * INT64_C(256) + threadIdx.x;
}

static __device__ inline int64_t tune_step(void)
{
    return gridDim.x * INT64_C(256);
}

/* Returns a value uniform in -1 .. 1, a hash of the position (splitmix64), independent for each
 * seed. */
static __device__ inline float tune_random(uint64_t seed, int64_t at)
{
    uint64_t x = ((seed << 40) + (uint64_t)at + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (float)(int32_t)((x ^ (x >> 31)) >> 40) * 0x1p-23f - 1;
}

__global__ __launch_bounds__(256) void tune_fill_kernel(act_t *p, int64_t n, uint64_t seed)
{
    for (int64_t i = tune_first(); i < n; i += tune_step())
        act_store(p + i, tune_random(seed, i));
}

__global__ __launch_bounds__(256) void tune_fill_f32_kernel(float *p, int64_t n, uint64_t seed)
{
    for (int64_t i = tune_first(); i < n; i += tune_step())
        p[i] = tune_random(seed, i);
}

typedef struct {
    int64_t rows, cols, depth, lda, ldb;
    int a_transposed, b_transposed;  // A is stored (k, m); B is stored (n, k)
} TuneShape;

/* want (m, n) = A B: one thread per element, tiles of both operands in shared memory. */
__global__ __launch_bounds__(TUNE_TILE * TUNE_TILE)
void tune_product_kernel(float *want, const act_t *a, const act_t *b, TuneShape p)
{
    __shared__ float left[TUNE_TILE][TUNE_TILE + 1], right[TUNE_TILE][TUNE_TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int64_t row = blockIdx.y * (int64_t)TUNE_TILE, col = blockIdx.x * (int64_t)TUNE_TILE;
    float sum = 0, lost = 0;         // rounding error of sum: Kahan summation
    for (int64_t at = 0; at < p.depth; at += TUNE_TILE) {
        // neighbouring threads read neighbouring elements of either layout
        const int64_t am = row + (p.a_transposed ? tx : ty), ak = at + (p.a_transposed ? ty : tx);
        const int64_t bn = col + (p.b_transposed ? ty : tx), bk = at + (p.b_transposed ? tx : ty);
        const int64_t ai = p.a_transposed ? ak * p.lda + am : am * p.lda + ak;
        const int64_t bi = p.b_transposed ? bn * p.ldb + bk : bk * p.ldb + bn;
        left[p.a_transposed ? tx : ty][p.a_transposed ? ty : tx] =
            am < p.rows && ak < p.depth ? act_load(a + ai) : 0;
        right[p.b_transposed ? tx : ty][p.b_transposed ? ty : tx] =
            bn < p.cols && bk < p.depth ? act_load(b + bi) : 0;
        __syncthreads();
        float part = -lost;
        for (int i = 0; i < TUNE_TILE; i++)
            part += left[ty][i] * right[i][tx];
        const float total = sum + part;
        lost = (total - sum) - part;
        sum = total;
        __syncthreads();
    }
    if (row + ty < p.rows && col + tx < p.cols)
        want[(row + ty) * p.cols + col + tx] = sum;
}

/* want (m) = sums over k of A (k, m), dense, with the same summation. */
__global__ __launch_bounds__(256)
void tune_sums_kernel(float *want, const act_t *a, int64_t m, int64_t k)
{
    const int64_t i = tune_first();
    float sum = 0, lost = 0;
    for (int64_t at = 0; i < m && at < k; at++) {
        const float v = act_load(a + at * m + i) - lost, total = sum + v;
        lost = (total - sum) - v;
        sum = total;
    }
    if (i < m)
        want[i] = sum;
}

typedef struct {
    int64_t rows, cols, depth, ldc;
    int f32, beta, bias;
    GemmEpilogue epilogue;
    float scale;
    uint64_t seed;               // of c before the product
} TuneFinish;

static __device__ inline float tune_gelu(float z)
{
    return 0.5f * z * (1 + tanhf(0.7978845608f * (z + 0.044715f * z * z * z)));
}

static __device__ inline float tune_dgelu(float z)
{
    const float t = tanhf(0.7978845608f * (z + 0.044715f * z * z * z));
    return 0.5f * (1 + t) + 0.5f * z * (1 - t * t) * 0.7978845608f * (1 + 0.134145f * z * z);
}

/* *wrong += elements of c that are not the product `want` with its epilogue, up to the rounding of
 * the result, of the activation's argument, and of sums in another order. Tensor cores cut the
 * running sum off after every 8 or 16 terms, towards zero: those errors add up (Ootomo and Yokota
 * 2022, Recovering single precision accuracy from Tensor Cores). */
__global__ __launch_bounds__(256)
void tune_compare_kernel(int *wrong, const char *c, const float *want, const act_t *bias,
                         const act_t *aux, TuneFinish p)
{
    const bool f32 = p.f32 || sizeof(act_t) == 4;
    const float eps = f32 ? 0x1p-22f : 0x1p-7f;
    int bad = 0;
    for (int64_t i = tune_first(); i < p.rows * p.cols; i += tune_step()) {
        const int64_t at = i / p.cols * p.ldc + i % p.cols;
        float v = want[i];
        float noise = 0x1p-22f * (float)p.depth +
                      0x1p-26f * (float)p.depth * (fabsf(v) + sqrtf((float)p.depth));
        v *= p.scale;
        noise *= fabsf(p.scale);
        const float got = f32 ? ((const float *)c)[at] : act_load((const act_t *)c + at);
        if (p.bias)
            v += act_load(bias + i % p.cols);
        if (p.epilogue == GEMM_GELU) {
            noise += eps * fabsf(v);
            v = tune_gelu(v);
        } else if (p.epilogue == GEMM_DGELU) {
            const float slope = tune_dgelu(act_load(aux + i));
            noise = noise * 2 + eps * fabsf(v);
            v *= slope;
        }
        if (p.beta) {
            const float before = tune_random(p.seed, at);
            if (!f32)                    // the library rounds the product before it adds C
                noise += 0x1p-8f * fabsf(v);
            v += p.f32 ? before : act_round(before);
        }
        bad += !(fabsf(got - v) <= eps * fabsf(v) + noise);
    }
    if (bad)
        atomicAdd(wrong, bad);
}

/* ---- one product ---- */

static void *tune_alloc(int64_t bytes, const char *what)
{
    return device_arena((bytes + 255) / 256 * 256, what);
}

static void tune_free(void *p)
{
    cuda_check(cudaFree(p), "freeing operands");
}

/* Returns an operand with exactly the alignment that g gives. */
static char *tune_operand(const Gemm *g, int64_t n, int64_t width, const char *what)
{
    return (char *)tune_alloc((g->offset + n) * width, what) + g->offset * width;
}

static void tune_free_operand(const Gemm *g, void *p, int64_t width)
{
    tune_free((char *)p - g->offset * width);
}

/* Returns the number of copies of operands of this size that are used in turn. */
static int tune_copies(int64_t bytes)
{
    const int64_t copies = tune_rotated / bytes + 1;
    return copies < TUNE_COPIES ? (int)copies : TUNE_COPIES;
}

static dim3 tune_grid(int64_t n)
{
    const int64_t blocks = (n + 255) / 256;
    return dim3((unsigned)(blocks < 4096 ? blocks : 4096));
}

static void tune_fill(void *p, int64_t n, bool f32, uint64_t seed, cudaStream_t s)
{
    if (f32)
        launch(tune_fill_f32_kernel, tune_grid(n), dim3(256), 0, s, (float *)p, n, seed);
    else
        launch(tune_fill_kernel, tune_grid(n), dim3(256), 0, s, (act_t *)p, n, seed);
}

/* Return the number of elements of the stored operands. */
static int64_t tune_size_a(const Gemm *g)
{
    return (g->form == GEMM_TN ? g->k : g->m) * gemm_lda_(g);
}

static int64_t tune_size_b(const Gemm *g)
{
    return (g->form == GEMM_NT ? g->n : g->k) * gemm_ldb_(g);
}

static int64_t tune_size_c(const Gemm *g) { return g->m * gemm_ldc_(g); }
static int64_t tune_width_c(const Gemm *g) { return g->out_f32 ? 4 : (int64_t)sizeof(act_t); }

static TuneOperands tune_operands(const Gemm *g, uint64_t seed, cudaStream_t s)
{
    TuneOperands o = {};
    o.a = (act_t *)tune_operand(g, tune_size_a(g), sizeof(act_t), "an operand");
    o.b = (act_t *)tune_operand(g, tune_size_b(g), sizeof(act_t), "an operand");
    o.c = tune_operand(g, tune_size_c(g), tune_width_c(g), "a result");
    tune_fill(o.a, tune_size_a(g), false, seed, s);
    tune_fill(o.b, tune_size_b(g), false, seed + 1, s);
    tune_fill(o.c, tune_size_c(g), g->out_f32, seed + 2, s);
    if (g->bias) {
        o.bias = (act_t *)tune_alloc(g->n * (int64_t)sizeof(act_t), "a bias");
        tune_fill(o.bias, g->n, false, seed + 3, s);
    }
    if (g->epilogue == GEMM_BGRAD) {
        o.db = (float *)tune_alloc(g->m * 4, "the gradient of a bias");
        tune_fill(o.db, g->m, true, seed + 3, s);
    }
    if (gemm_has_aux_(g)) {
        o.aux = (act_t *)tune_alloc(g->m * g->n * (int64_t)sizeof(act_t), "the argument of gelu");
        tune_fill(o.aux, g->m * g->n, false, seed + 4, s);
    }
    return o;
}

static void tune_release(const Gemm *g, TuneOperands *o)
{
    tune_free_operand(g, o->a, sizeof(act_t));
    tune_free_operand(g, o->b, sizeof(act_t));
    tune_free_operand(g, o->c, tune_width_c(g));
    if (o->bias)
        tune_free(o->bias);
    if (o->db)
        tune_free(o->db);
    if (o->aux)
        tune_free(o->aux);
}

static void tune_run(const Gemm *g, const TuneOperands *o, void *ws, cudaStream_t s)
{
    if (g->epilogue == GEMM_BGRAD)
        linear_dw_bias((float *)o->c, o->db, o->a, o->b, g, ws, s);
    else
        gemm_run(g, o->c, o->a, o->b, o->bias, o->aux, ws, s);
}

/* Returns the number of elements in which the chosen algorithm is wrong. want: the plain product,
 * followed by the sums for GEMM_BGRAD. */
static int tune_wrong(const Gemm *g, const TuneOperands *o, const float *want, int *count,
                      uint64_t seed, void *ws, cudaStream_t s)
{
    const TuneFinish p = {g->m,    g->n,    g->k,        gemm_ldc_(g), g->out_f32,
                          g->beta, g->bias, g->epilogue, g->scale, seed + 2};
    int wrong;
    tune_fill(o->c, tune_size_c(g), g->out_f32, seed + 2, s);
    cuda_check(cudaMemsetAsync(count, 0, sizeof *count, s), "a counter");
    if (g->epilogue == GEMM_DGELU)   // GEMM_GELU has overwritten it
        tune_fill(o->aux, g->m * g->n, false, seed + 4, s);
    if (o->db)                       // no candidate may see the results of another
        tune_fill(o->db, g->m, true, seed + 3, s);
    tune_run(g, o, ws, s);
    launch(tune_compare_kernel, tune_grid(g->m * g->n), dim3(256), 0, s, count, o->c, want, o->bias,
           o->aux, p);
    if (o->db) {
        const TuneFinish sums = {1, g->m, g->k, g->m, 1, 0, 0, GEMM_NONE, 1, 0};
        launch(tune_compare_kernel, tune_grid(g->m), dim3(256), 0, s, count, (char *)o->db,
               want + g->m * g->n, (act_t *)NULL, (act_t *)NULL, sums);
    }
    cuda_check(cudaMemcpyAsync(&wrong, count, sizeof wrong, cudaMemcpyDeviceToHost, s),
               "a counter");
    cuda_check(cudaStreamSynchronize(s), "a comparison");
    return wrong;
}

static void tune_reference(const Gemm *g, const TuneOperands *o, float *want, cudaStream_t s)
{
    const TuneShape p = {g->m,         g->n,          g->k,
                         gemm_lda_(g), gemm_ldb_(g), g->form == GEMM_TN, g->form == GEMM_NT};
    const dim3 grid((unsigned)((g->n + TUNE_TILE - 1) / TUNE_TILE),
                    (unsigned)((g->m + TUNE_TILE - 1) / TUNE_TILE));
    launch(tune_product_kernel, grid, dim3(TUNE_TILE, TUNE_TILE), 0, s, want, o->a, o->b, p);
    if (o->db)
        launch(tune_sums_kernel, blocks_over(g->m, 256), 256, 0, s, want + g->m * g->n, o->a, g->m,
               g->k);
}

/* ---- measuring ---- */

/* Returns the microseconds of one run, averaged over `times` consecutive runs; run(i) is the
 * i-th. */
template <typename Run>
static double tune_time(const Run &run, int times, cudaStream_t s)
{
    static cudaEvent_t from, to;
    float ms;
    if (!from) {
        cuda_check(cudaEventCreate(&from), "an event");
        cuda_check(cudaEventCreate(&to), "an event");
    }
    cuda_check(cudaEventRecord(from, s), "an event");
    for (int i = 0; i < times; i++)
        run(i);
    cuda_check(cudaEventRecord(to, s), "an event");
    cuda_check(cudaEventSynchronize(to), "what is measured");
    cuda_check(cudaEventElapsedTime(&ms, from, to), "an event");
    return 1e3 * (double)ms / times;
}

/* Sets us[i] to the minimum time of candidate i of n; pick(i) selects it for run(). Returns the
 * best candidate. */
template <typename Pick, typename Run>
static int tune_measure(double *us, int n, const Pick &pick, const Run &run, cudaStream_t s)
{
    double least = 1e30;
    int best = 0;
    pick(0);
    tune_time(run, 3, s);
    const double once = tune_time(run, 3, s);
    const int times = once > 0 && 5e3 / once < 200 ? (int)(5e3 / once) + 3 : 200;
    for (int round = 0; round < TUNE_ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            if (round && us[i] > 3 * least)
                continue;
            pick(i);
            const double now = tune_time(run, times, s);
            us[i] = round && us[i] < now ? us[i] : now;
            least = us[i] < least ? us[i] : least;
        }
    for (int i = 1; i < n; i++)
        if (us[i] < 0.99 * us[0] && us[i] < us[best])
            best = i;
    return best;
}

/* ---- algorithms of a product ---- */

/* Selects a candidate as a program with the lock file does: from its row. Returns why it was
 * rejected; NULL: it was accepted. */
static const char *tune_take(Gemm *g, TuneCandidate *t,
                             const cublasLtMatmulHeuristicResult_t *found)
{
    gemm_algo_text(g, &found->algo, found->workspaceSize, t->text);
    gemm_algo_raw(&found->algo, t->raw);
    g->algo = t->text;
    g->raw = t->raw;
    const char *wrong = gemm_take_locked_(g);
    g->algo = g->raw = NULL;
    t->choice = *found;
    t->apart = g->apart;
    t->choice.algo = g->chosen;
    t->choice.workspaceSize = g->bytes;
    return wrong;
}

/* Finds the candidates of the library, its first choice first; for GEMM_BGRAD, first the products
 * with a separate bias, as in gemm_init. Returns their number, of which the first *apart are such
 * products. */
static int tune_offers(Gemm *g, cublasLtMatmulHeuristicResult_t *found, int *apart)
{
    *apart = 0;
    if (g->epilogue == GEMM_BGRAD) {
        gemm_set_apart(g, true);
        *apart = gemm_candidates(g, found, TUNE_CANDIDATES);
        gemm_set_apart(g, false);
    }
    return *apart + gemm_candidates(g, found + *apart, TUNE_CANDIDATES);
}

/* Lists the correct candidates, the first choice first. Returns their number. */
static int tune_candidates(Gemm *g, const TuneOperands *o, TuneCandidate *list, int *refused,
                           void *ws, cudaStream_t s)
{
    static cublasLtMatmulHeuristicResult_t found[2 * TUNE_CANDIDATES];
    int apart;
    const int n = tune_offers(g, found, &apart);
    float *want = (float *)tune_alloc((g->m * g->n + g->m) * 4, "the reference");
    int *count = (int *)tune_alloc(4, "a counter"), kept = 0;
    *refused = 0;
    tune_reference(g, o, want, s);
    for (int i = 0; i < n; i++) {
        TuneCandidate *t = &list[kept];
        if (g->epilogue == GEMM_BGRAD)
            gemm_set_apart(g, i < apart);
        const char *refused_for = tune_take(g, t, &found[i]);
        bool known = false;
        for (int j = 0; j < kept; j++)
            known |= !strcmp(list[j].text, t->text) && !strcmp(list[j].raw, t->raw);
        if (known)
            continue;
        const int wrong = refused_for ? -1 : tune_wrong(g, o, want, count, 1, ws, s);
        if (refused_for)
            fprintf(stderr, "%s: %s: %s\n", g->name, t->text, refused_for);
        else if (wrong)
            fprintf(stderr, "%s: %s: wrong in %d elements\n", g->name, t->text, wrong);
        *refused += wrong != 0;
        kept += !wrong;
    }
    tune_free(want);
    tune_free(count);
    return kept;
}

static void tune_use(Gemm *g, const TuneCandidate *t)
{
    if (g->epilogue == GEMM_BGRAD)
        gemm_set_apart(g, t->apart);
    gemm_use(g, &t->choice.algo, t->choice.workspaceSize);
}

static const char *tune_type(bool f32)
{
    return f32 || sizeof(act_t) == 4 ? "fp32" : model.precision;
}

static void tune_key(const Gemm *g, char *key)
{
    static const char *const form[] = {"NT", "NN", "TN"};
    const char *epilogue = g->epilogue == GEMM_DGELU   ? "dgelu"
                           : g->epilogue == GEMM_GELU  ? "gelu"
                           : g->epilogue == GEMM_BGRAD ? "bgrad"
                           : g->bias                   ? "bias"
                                                       : "none";
    gemm_key(key, form[g->form], tune_type(false), tune_type(g->out_f32), g->m, g->n, g->k, g->lda,
             g->ldb, g->ldc, epilogue, g->beta, g->offset);
}

/* Prints the row of a product with its best algorithm. */
static void tune_product(Gemm *g, const char *key, bool first, void *ws, cudaStream_t s)
{
    static TuneCandidate list[2 * TUNE_CANDIDATES];
    static double us[2 * TUNE_CANDIDATES];
    TuneOperands o[TUNE_COPIES];
    const int64_t bytes = (tune_size_a(g) + tune_size_b(g)) * (int64_t)sizeof(act_t) +
                          tune_size_c(g) * tune_width_c(g);
    const int copies = tune_copies(bytes);
    int refused;
    gemm_open(g);
    for (int i = 0; i < copies; i++)
        o[i] = tune_operands(g, 1 + 1000 * (uint64_t)i, s);
    const int n = tune_candidates(g, o, list, &refused, ws, s);
    if (!n)
        die(EXIT_DEVICE, "product %s: cuBLASLt has no algorithm that computes it (%d were no use)",
            g->name, refused);
    const int best = tune_measure(
        us, n, [&](int i) { tune_use(g, &list[i]); },
        [&](int i) { tune_run(g, &o[i % copies], ws, s); }, s);
    tune_use(g, &list[best]);        // kernels are measured with this algorithm
    for (int i = 0; i < copies; i++)
        tune_release(g, &o[i]);
    fprintf(stderr, "%-28s %9.1f us, %6.1f TFLOP/s, %2d of %2d, first choice %9.1f us\n", g->name,
            us[best], 2e-6 * (double)g->m * (double)g->n * (double)g->k / us[best], best + 1, n,
            us[0]);
    printf("%s{\"key\": \"%s\", \"algo\": \"%s\", \"raw\": \"%s\", \"us\": %.2f, "
           "\"default_us\": %.2f}",
           first ? "" : ",\n", key, list[best].text, list[best].raw, us[best], us[0]);
}

//@ if tuned
/* ---- variants of kernels ---- */

enum { TUNE_OPERANDS = 16, TUNE_VARIANTS = 8, TUNE_SUMS = 256 };

typedef enum { TUNE_F32, TUNE_ACT, TUNE_TOKEN } TuneType;  // TOKEN: int32_t below V

typedef struct {
    const char *key;
    int64_t workspace, depth;    // depth: no sum has more terms
    bool act;                    // fp32 results hold values rounded to act_t
    struct { TuneType type; int64_t n; bool out; } operand[TUNE_OPERANDS];     // n 0: no more
    struct { int value; void (*run)(void *const *p, void *ws, cudaStream_t s); }
        variant[TUNE_VARIANTS];                            // the default first; run NULL: no more
} TuneKernel;

//@ end
//@ variants
//@ if tuned

//@ end
//@ if tuned_tokens
__global__ __launch_bounds__(256) void tune_fill_token_kernel(int32_t *p, int64_t n, uint64_t seed)
{
    for (int64_t i = tune_first(); i < n; i += tune_step()) {
        const int token = (int)((tune_random(seed, i) + 1) / 2 * (float)V);
        p[i] = token < V ? token : V - 1;
    }
}

//@ end
//@ if tuned
static __device__ inline float tune_element(const void *p, int64_t i, int f32)
{
    return f32 ? ((const float *)p)[i] : act_load((const act_t *)p + i);
}

/* sums[blockIdx.x] = sum of the squares of the elements that the block reads. */
__global__ __launch_bounds__(256)
void tune_squares_kernel(double *sums, const void *p, int64_t n, int f32)
{
    double sum = 0;
    for (int64_t i = tune_first(); i < n; i += tune_step()) {
        const double v = tune_element(p, i, f32);
        sum += v * v;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

/* *wrong += elements that differ by more than slack of their own size and of the rms of all. */
__global__ __launch_bounds__(256)
void tune_differ_kernel(int *wrong, const void *got, const void *want, int64_t n, int f32,
                        float slack, float rms)
{
    int bad = 0;
    for (int64_t i = tune_first(); i < n; i += tune_step()) {
        const float a = tune_element(got, i, f32), b = tune_element(want, i, f32);
        bad += !(fabsf(a - b) <= slack * (fabsf(b) + rms));
    }
    if (bad)
        atomicAdd(wrong, bad);
}

static int64_t tune_bytes(const TuneKernel *k, int i)
{
    return k->operand[i].n * (k->operand[i].type == TUNE_ACT ? (int64_t)sizeof(act_t) : 4);
}

/* Fills every operand with random values; accumulators start from the same values each time. */
static void tune_fill_operands(const TuneKernel *k, void *const *p, uint64_t seed, cudaStream_t s)
{
    for (int i = 0; i < TUNE_OPERANDS && k->operand[i].n; i++) {
        const int64_t n = k->operand[i].n;
//@ end
//@ if tuned_tokens
        if (k->operand[i].type == TUNE_TOKEN) {
            launch(tune_fill_token_kernel, tune_grid(n), dim3(256), 0, s, (int32_t *)p[i], n,
                   seed + (uint64_t)i);
            continue;
        }
//@ end
//@ if tuned
        tune_fill(p[i], n, k->operand[i].type == TUNE_F32, seed + (uint64_t)i, s);
    }
}

/* Returns the relative tolerance for the same sums in two orders: twice the bound that kernel tests
 * hold each to, 4 half ulps of the type rounded to times 1 + sqrt(terms). */
static float tune_slack(const TuneKernel *k, int i)
{
#if defined ACT_BF16
    const float half_ulp = 0x1p-9f;
#else
    const float half_ulp = 0x1p-12f;             // of fp16
#endif
    const bool f32 = sizeof(act_t) == 4 || (k->operand[i].type == TUNE_F32 && !k->act);
    return 2 * 4 * (f32 ? 0x1p-24f * (1 + sqrtf((float)k->depth)) : 2 * half_ulp);
}

static double tune_rms(const void *p, int64_t n, bool f32, double *sums, cudaStream_t s)
{
    double sum[TUNE_SUMS], all = 0;
    launch(tune_squares_kernel, TUNE_SUMS, 256, 0, s, sums, p, n, (int)f32);
    cuda_check(cudaMemcpyAsync(sum, sums, sizeof sum, cudaMemcpyDeviceToHost, s), "sums");
    cuda_check(cudaStreamSynchronize(s), "sums");
    for (double part : sum)
        all += part;
    return sqrt(all / (double)n);
}

/* Returns the number of elements in which variant v differs from the default; the default itself
 * must repeat its bits. */
static int tune_differs(const TuneKernel *k, int v, void *const *p, void *const *want, void *ws,
                        double *sums, cudaStream_t s)
{
    int *const count = (int *)(sums + TUNE_SUMS), wrong;
    cuda_check(cudaMemsetAsync(count, 0, sizeof *count, s), "a counter");
    tune_fill_operands(k, p, 1, s);
    k->variant[v].run(p, ws, s);
    for (int i = 0; i < TUNE_OPERANDS && k->operand[i].n; i++) {
        if (!k->operand[i].out)
            continue;
        const int64_t n = k->operand[i].n;
        const bool f32 = k->operand[i].type == TUNE_F32;
        const double rms = tune_rms(want[i], n, f32, sums, s);
        launch(tune_differ_kernel, tune_grid(n), dim3(256), 0, s, count, p[i], want[i], n, (int)f32,
               v ? tune_slack(k, i) : 0, (float)rms);
    }
    cuda_check(cudaMemcpyAsync(&wrong, count, sizeof wrong, cudaMemcpyDeviceToHost, s),
               "a counter");
    cuda_check(cudaStreamSynchronize(s), "a comparison");
    return wrong;
}

/* Lists the correct variants, the default first. Returns their number. */
static int tune_variants(const TuneKernel *k, void *const *p, int *list, void *ws, cudaStream_t s)
{
    void *want[TUNE_OPERANDS] = {};
    double *sums = (double *)tune_alloc(TUNE_SUMS * 8 + 8, "sums");
    int n = 0;
    tune_fill_operands(k, p, 1, s);
    k->variant[0].run(p, ws, s);
    for (int i = 0; i < TUNE_OPERANDS && k->operand[i].n; i++) {
        if (!k->operand[i].out)
            continue;
        want[i] = tune_alloc(tune_bytes(k, i), "results");
        cuda_check(cudaMemcpyAsync(want[i], p[i], (size_t)tune_bytes(k, i),
                                   cudaMemcpyDeviceToDevice, s), "results");
    }
    for (int v = 0; v < TUNE_VARIANTS && k->variant[v].run; v++) {
        const int wrong = tune_differs(k, v, p, want, ws, sums, s);
        if (wrong && !v)
            die(EXIT_DEVICE, "kernel %s: the default gives other results the second time, in %d "
                "elements", k->key, wrong);
        if (wrong)
            fprintf(stderr, "%s: variant %d: wrong in %d elements\n", k->key, k->variant[v].value,
                    wrong);
        else
            list[n++] = v;
    }
    for (void *results : want)
        if (results)
            tune_free(results);
    tune_free(sums);
    return n;
}

/* Prints the row of a kernel with its best variant. */
static void tune_kernel(const TuneKernel *k, bool first, cudaStream_t s)
{
    void *p[TUNE_COPIES][TUNE_OPERANDS] = {}, *ws = tune_alloc(k->workspace + 256, "a workspace");
    int list[TUNE_VARIANTS], picked = 0;
    double us[TUNE_VARIANTS];
    int64_t bytes = 0;
    for (int i = 0; i < TUNE_OPERANDS; i++)
        bytes += tune_bytes(k, i);
    const int copies = tune_copies(bytes);
    for (int c = 0; c < copies; c++) {
        for (int i = 0; i < TUNE_OPERANDS && k->operand[i].n; i++)
            p[c][i] = tune_alloc(tune_bytes(k, i), "an operand");
        tune_fill_operands(k, p[c], 1 + 1000 * (uint64_t)c, s);
    }
    const int n = tune_variants(k, p[0], list, ws, s);
    const int best = tune_measure(
        us, n, [&](int i) { picked = list[i]; },
        [&](int i) { k->variant[picked].run(p[i % copies], ws, s); }, s);
    for (int c = 0; c < copies; c++)
        for (int i = 0; i < TUNE_OPERANDS && p[c][i]; i++)
            tune_free(p[c][i]);
    tune_free(ws);
    fprintf(stderr, "%s: variant %d, %.1f us, default %.1f us\n", k->key,
            k->variant[list[best]].value, us[best], us[0]);
    printf("%s{\"key\": \"%s\", \"variant\": \"%d\", \"us\": %.2f, \"default_us\": %.2f}",
           first ? "" : ",\n", k->key, k->variant[list[best]].value, us[best], us[0]);
}

//@ end

/* Returns the largest workspace of the products, bias sums of GEMM_BGRAD included, in bytes. */
static int64_t tune_workspace(void)
{
    int64_t most = CUDA_GEMM_WORKSPACE;
    for (const Gemm *g : gemms)
        if (g->epilogue == GEMM_BGRAD && linear_dw_bias_cuda_workspace(g->m) > most)
            most = linear_dw_bias_cuda_workspace(g->m);
    return most;
}

int main(int argc, char **argv)
{
    enum { PRODUCTS = sizeof gemms / sizeof gemms[0] };
    static char key[PRODUCTS][GEMM_KEY_BYTES];
    cudaDeviceProp about;
    if (argc > 1) {
        fprintf(stderr, "%s: takes no words; prints what it measured: %s > rows.json\n", argv[0],
                argv[0]);
        return EXIT_CONFIG;
    }
    device_open(model.target);
    cuda_check(cudaGetDeviceProperties(&about, 0), "asking for the GPU's properties");
    open_streams();
    gemm_setup();
    void *ws = tune_alloc(tune_workspace(), "the workspace");
    const unsigned lt = (unsigned)cublasLtGetVersion();
    printf("{\"gpu\": \"%s\", \"arch\": \"@ARCH@\", \"sms\": %d, \"toolkit\": \"%d.%d\",\n"
           "\"cublaslt\": \"%u.%u.%u\", \"generator\": \"@GENERATOR@\", \"gemms\": [\n",
           device_name(), about.multiProcessorCount, CUDART_VERSION / 1000,
           CUDART_VERSION / 10 % 100, lt / 10000, lt / 100 % 100, lt % 100);
    for (int i = 0; i < PRODUCTS; i++) {
        bool known = false;
        tune_key(gemms[i], key[i]);
        for (int j = 0; j < i; j++)
            known |= !strcmp(key[i], key[j]);
        if (!known)
            tune_product(gemms[i], key[i], i == 0, ws, work);
    }
    printf("\n],\n\"sources\": \"@SOURCES@\", \"kernels\": [\n");
//@ if tuned
    for (Gemm *g : gemms)            // products that share another product's row
        if (!g->product) {
            g->algo = g->raw = NULL;
            gemm_init(g);
        }
    for (const TuneKernel &k : tune_kernels)
        tune_kernel(&k, &k == tune_kernels, work);
//@ end
    printf("\n]}\n");
    return fflush(stdout) ? EXIT_IO : EXIT_OK;
}
