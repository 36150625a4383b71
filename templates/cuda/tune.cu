/* tune.cu -- measures algorithms for the products of step.cu on this GPU: ./tune > rows.json.
 *
 * Out:    one JSON object, a section of the lock file: gen tune --rows rows.json puts it there.
 * Keeps:  an algorithm that is offered gives, element by element, what the kernel below gives.
 * Method: the library's candidates but sums in an order of chance; random operands that no cache
 *         holds; the least of 3 rounds; who is not 1 % faster than the first choice loses to it. */
#include "step.cu"

#include "kernels/cuda/gemm_key.h"

enum {
    TUNE_CANDIDATES = 64,        // at most, of the library; twice where db may be apart
    TUNE_ROUNDS = 3,
    TUNE_COPIES = 16,            // at most, of the operands
    TUNE_TILE = 16
};
/* bytes of operands: more than any cache holds */
static const int64_t tune_rotated = INT64_C(256) << 20;

typedef struct {
    act_t *a, *b, *bias, *aux;
    float *db;                   // of GEMM_BGRAD, (m)
    char *c;
} TuneOperands;

typedef struct {
    cublasLtMatmulHeuristicResult_t choice;
    bool apart;
    char text[GEMM_ALGO_BYTES];
    double us;                   // of one product, the least of the rounds
} TuneCandidate;

/* ---- operands and the reference ---- */

/* Uniform in -1 .. 1 by a hash of the position (splitmix64), apart for every seed. */
static __device__ inline float tune_random(uint64_t seed, int64_t at)
{
    uint64_t x = ((seed << 40) + (uint64_t)at + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (float)(int32_t)((x ^ (x >> 31)) >> 40) * 0x1p-23f - 1;
}

__global__ __launch_bounds__(256) void tune_fill_kernel(act_t *p, int64_t n, uint64_t seed)
{
    for (int64_t i = blockIdx.x * INT64_C(256) + threadIdx.x; i < n; i += gridDim.x * INT64_C(256))
        act_store(p + i, tune_random(seed, i));
}

__global__ __launch_bounds__(256) void tune_fill_f32_kernel(float *p, int64_t n, uint64_t seed)
{
    for (int64_t i = blockIdx.x * INT64_C(256) + threadIdx.x; i < n; i += gridDim.x * INT64_C(256))
        p[i] = tune_random(seed, i);
}

typedef struct {
    int64_t rows, cols, depth, lda, ldb;
    int a_transposed, b_transposed;  // A is stored (k, m); B is stored (n, k)
} TuneShape;

/* want (m, n) = A B, a thread an element, tiles of both operands in shared memory. */
__global__ __launch_bounds__(TUNE_TILE * TUNE_TILE)
void tune_product_kernel(float *want, const act_t *a, const act_t *b, TuneShape p)
{
    __shared__ float left[TUNE_TILE][TUNE_TILE + 1], right[TUNE_TILE][TUNE_TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int64_t row = blockIdx.y * (int64_t)TUNE_TILE, col = blockIdx.x * (int64_t)TUNE_TILE;
    float sum = 0, lost = 0;         // what rounding took from sum: Kahan's summation
    for (int64_t at = 0; at < p.depth; at += TUNE_TILE) {
        // neighbouring threads read neighbouring elements of whatever is stored
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

/* want (m) = sums over k of A (k, m), which is dense, with the same summation. */
__global__ __launch_bounds__(256)
void tune_sums_kernel(float *want, const act_t *a, int64_t m, int64_t k)
{
    const int64_t i = blockIdx.x * INT64_C(256) + threadIdx.x;
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
    for (int64_t i = blockIdx.x * INT64_C(256) + threadIdx.x; i < p.rows * p.cols;
         i += gridDim.x * INT64_C(256)) {
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

/* An operand, aligned as g says and no better. */
static char *tune_operand(const Gemm *g, int64_t n, int64_t width, const char *what)
{
    return (char *)tune_alloc((g->offset + n) * width, what) + g->offset * width;
}

static void tune_free_operand(const Gemm *g, void *p, int64_t width)
{
    tune_free((char *)p - g->offset * width);
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

/* Elements of the stored operands. */
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

/* Elements in which the chosen algorithm is wrong; want: the plain product, of GEMM_BGRAD the sums
 * behind it. */
static int tune_wrong(const Gemm *g, const TuneOperands *o, const float *want, int *count,
                      uint64_t seed, void *ws, cudaStream_t s)
{
    const TuneFinish p = {g->m,    g->n,    g->k,        gemm_ldc_(g), g->out_f32,
                          g->beta, g->bias, g->epilogue, g->scale, seed + 2};
    int wrong;
    tune_fill(o->c, tune_size_c(g), g->out_f32, seed + 2, s);
    cuda_check(cudaMemsetAsync(count, 0, sizeof *count, s), "a counter");
    if (g->epilogue == GEMM_DGELU)   // GEMM_GELU has written over it
        tune_fill(o->aux, g->m * g->n, false, seed + 4, s);
    if (o->db)                       // no candidate finds what another wrote
        tune_fill(o->db, g->m, true, seed + 3, s);
    tune_run(g, o, ws, s);
    launch(tune_compare_kernel, tune_grid(g->m * g->n), dim3(256), 0, s, count, o->c, want, o->bias,
           o->aux, p);
    if (o->db) {
        const TuneFinish sums = {1, g->m, g->k, g->m, 1, 0, 0, GEMM_NONE, 0};
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

/* Microseconds of one product, over `times` of them in a row. */
static double tune_time(const Gemm *g, const TuneOperands *o, int copies, int times, void *ws,
                        cudaStream_t s)
{
    static cudaEvent_t from, to;
    float ms;
    if (!from) {
        cuda_check(cudaEventCreate(&from), "an event");
        cuda_check(cudaEventCreate(&to), "an event");
    }
    cuda_check(cudaEventRecord(from, s), "an event");
    for (int i = 0; i < times; i++)
        tune_run(g, &o[i % copies], ws, s);
    cuda_check(cudaEventRecord(to, s), "an event");
    cuda_check(cudaEventSynchronize(to), "a product");
    cuda_check(cudaEventElapsedTime(&ms, from, to), "an event");
    return 1e3 * (double)ms / times;
}

/* Takes a candidate as a program with the lock file will: from its text. */
static bool tune_take(Gemm *g, TuneCandidate *t, const cublasLtMatmulHeuristicResult_t *found)
{
    gemm_algo_text(g, &found->algo, found->workspaceSize, t->text);
    g->algo = t->text;
    const bool taken = gemm_locked_(g);
    g->algo = NULL;
    t->choice = *found;
    t->apart = g->apart;
    t->choice.algo = g->chosen;
    t->choice.workspaceSize = g->bytes;
    t->us = 1e30;
    return taken;
}

/* What the library offers, its first choice before the others; of GEMM_BGRAD then the same apart.
 * Returns how many, of which the last *apart. */
static int tune_offers(Gemm *g, cublasLtMatmulHeuristicResult_t *found, int *apart)
{
    const int n = gemm_candidates(g, found, TUNE_CANDIDATES);
    *apart = 0;
    if (g->epilogue == GEMM_BGRAD) {
        gemm_set_apart(g, true);
        *apart = gemm_candidates(g, found + n, TUNE_CANDIDATES);
    }
    return n + *apart;
}

/* Candidates that are right, the first choice before the others; returns how many. */
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
            gemm_set_apart(g, i >= n - apart);
        const bool taken = tune_take(g, t, &found[i]);
        bool known = false;
        for (int j = 0; j < kept; j++)
            known |= !strcmp(list[j].text, t->text);
        if (known)
            continue;
        const int wrong = taken ? tune_wrong(g, o, want, count, 1, ws, s) : -1;
        if (wrong < 0)
            fprintf(stderr, "%s: %s: cuBLASLt does not take it back\n", g->name, t->text);
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

static void tune_measure(Gemm *g, const TuneOperands *o, int copies, TuneCandidate *list, int n,
                         void *ws, cudaStream_t s)
{
    double best = 1e30;
    tune_use(g, &list[0]);
    tune_time(g, o, copies, 3, ws, s);
    const double once = tune_time(g, o, copies, 3, ws, s);
    const int times = once > 0 && 5e3 / once < 200 ? (int)(5e3 / once) + 3 : 200;
    for (int round = 0; round < TUNE_ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            if (round && list[i].us > 3 * best)
                continue;
            tune_use(g, &list[i]);
            const double us = tune_time(g, o, copies, times, ws, s);
            list[i].us = us < list[i].us ? us : list[i].us;
            best = list[i].us < best ? list[i].us : best;
        }
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

/* Prints the product's row, its best algorithm in it. */
static void tune_product(Gemm *g, const char *key, bool first, void *ws, cudaStream_t s)
{
    static TuneCandidate list[2 * TUNE_CANDIDATES];
    TuneOperands o[TUNE_COPIES];
    const int64_t bytes = (tune_size_a(g) + tune_size_b(g)) * (int64_t)sizeof(act_t) +
                          tune_size_c(g) * tune_width_c(g);
    int copies = (int)(tune_rotated / bytes + 1), best = 0, refused;
    copies = copies < TUNE_COPIES ? copies : TUNE_COPIES;
    gemm_open(g);
    for (int i = 0; i < copies; i++)
        o[i] = tune_operands(g, 1 + 1000 * (uint64_t)i, s);
    const int n = tune_candidates(g, o, list, &refused, ws, s);
    if (!n)
        die(EXIT_DEVICE, "product %s: cuBLASLt has no algorithm that computes it (%d were no use)",
            g->name, refused);
    tune_measure(g, o, copies, list, n, ws, s);
    for (int i = 1; i < n; i++)
        if (list[i].us < 0.99 * list[0].us && list[i].us < list[best].us)
            best = i;
    for (int i = 0; i < copies; i++)
        tune_release(g, &o[i]);
    fprintf(stderr, "%-28s %9.1f us, %6.1f TFLOP/s, %2d of %2d, first choice %9.1f us\n", g->name,
            list[best].us, 2e-6 * (double)g->m * (double)g->n * (double)g->k / list[best].us,
            best + 1, n, list[0].us);
    printf("%s{\"key\": \"%s\", \"algo\": \"%s\", \"us\": %.2f, \"default_us\": %.2f}",
           first ? "" : ",\n", key, list[best].text, list[best].us, list[0].us);
}

/* Bytes that any of the products may use, with what is beside it. */
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
    printf("\n]}\n");
    return fflush(stdout) ? EXIT_IO : EXIT_OK;
}
