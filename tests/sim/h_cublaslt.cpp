/* h_cublaslt.cpp -- products: values against sums in double, and what is refused. */
#include "gemm.h"
#include "h.h"

#include "include/cublasLt.h"

#include <math.h>
#include <vector>

/* A product as a program would describe it; column-major. */
struct Case {
    int m, n, k;
    int in = CUDA_R_16BF, out = CUDA_R_16BF;
    bool ta = false, tb = false;
    int lda = 0, ldb = 0, ldd = 0;       /* 0: dense */
    float alpha = 1, beta = 0;
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    int64_t aux_ld = 0;                  /* 0: dense */
    uint64_t workspace = 1 << 20;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, align = 256;
    int pick = 0;                        /* which of the heuristic's answers */
    int shift = 0;                       /* bytes that D's pointer is off */
    bool bias = false;                   /* its address is given although no epilogue reads it */
};

static size_t bytes_of(int type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

struct Array {
    std::vector<char> host;
    char *device;
    int type;

    Array(int64_t n, int t) : host((size_t)n * bytes_of(t) + 16), type(t)
    {
        void *p;
        OK(cudaMalloc(&p, host.size()));
        device = (char *)p;
        for (int64_t i = 0; i < n; i++)      /* small integers and halves: exact in every type */
            gemm_store(host.data(), t, i, (float)((i * 7919 + n) % 9 - 4) / 2);
        OK(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice));
    }
    float at(int64_t i) const { return gemm_load(host.data(), type, i); }
    void fetch() { OK(cudaMemcpy(host.data(), device, host.size(), cudaMemcpyDeviceToHost)); }
};

static cublasLtHandle_t handle()
{
    static cublasLtHandle_t made;
    if (!made)
        OK(cublasLtCreate(&made));
    return made;
}

struct Product {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulPreference_t pref;
};

template <typename T>
static void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr, T value)
{
    OK(cublasLtMatmulDescSetAttribute(desc, attr, &value, sizeof value));
}

template <typename T>
static void prefer(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t attr, T value)
{
    OK(cublasLtMatmulPreferenceSetAttribute(p, attr, &value, sizeof value));
}

static cublasLtMatrixLayout_t layout(int type, int rows, int cols, int ld)
{
    cublasLtMatrixLayout_t l;
    OK(cublasLtMatrixLayoutCreate(&l, (cudaDataType)type, (uint64_t)rows, (uint64_t)cols, ld));
    return l;
}

static Case dense(Case c)
{
    c.lda = c.lda ? c.lda : c.ta ? c.k : c.m;
    c.ldb = c.ldb ? c.ldb : c.tb ? c.n : c.k;
    c.ldd = c.ldd ? c.ldd : c.m;
    c.aux_ld = c.aux_ld ? c.aux_ld : c.m;
    return c;
}

static Product describe(const Case &c)
{
    Product p;
    OK(cublasLtMatmulDescCreate(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, c.ta ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(p.desc, CUBLASLT_MATMUL_DESC_TRANSB, c.tb ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, c.epilogue);
    set(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, c.aux_ld);
    p.a = layout(c.in, c.ta ? c.k : c.m, c.ta ? c.m : c.k, c.lda);
    p.b = layout(c.in, c.tb ? c.n : c.k, c.tb ? c.k : c.n, c.ldb);
    p.d = layout(c.out, c.m, c.n, c.ldd);
    OK(cublasLtMatmulPreferenceCreate(&p.pref));
    prefer(p.pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, c.workspace);
    prefer(p.pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, c.schemes);
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
         i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; i++)
        prefer(p.pref, (cublasLtMatmulPreferenceAttributes_t)i, c.align);
    return p;
}

static cublasStatus_t choose(const Product &p, cublasLtMatmulHeuristicResult_t *found, int *n)
{
    return cublasLtMatmulAlgoGetHeuristic(handle(), p.desc, p.a, p.b, p.d, p.d, p.pref, 8, found,
                                          n);
}

static double gelu(double z)
{
    return 0.5 * z * (1 + tanh(0.7978845608028654 * (z + 0.044715 * z * z * z)));
}

static float rounded(double v, int type)
{
    char store[4];
    gemm_store(store, type, 0, (float)v);
    return gemm_load(store, type, 0);
}

/* The status of the first step that refuses; values are checked when none does. */
static cublasStatus_t run(const Case &given)
{
    const Case c = dense(given);
    Product p = describe(c);
    cublasLtMatmulHeuristicResult_t found[8];
    int n;
    cublasStatus_t status = choose(p, found, &n);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    CHECK(n > c.pick && found[c.pick].workspaceSize <= c.workspace);
    Array a((int64_t)c.lda * (c.ta ? c.m : c.k), c.in);
    Array b((int64_t)c.ldb * (c.tb ? c.k : c.n), c.in);
    const bool sums_a = c.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    const bool sums_b = c.epilogue == CUBLASLT_EPILOGUE_BGRADB;
    Array d((int64_t)c.ldd * c.n, c.out), aux(c.aux_ld * c.n, c.out);
    Array bias(sums_b ? c.n : c.m, c.out);
    void *ws;
    OK(cudaMalloc(&ws, c.workspace));
    if (c.bias || sums_a || sums_b || c.epilogue & CUBLASLT_EPILOGUE_BIAS)
        set(p.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, (void *)bias.device);
    set(p.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, (void *)aux.device);
    Array before = d, aux_before = aux;
    status = cublasLtMatmul(handle(), p.desc, &c.alpha, a.device, p.a, b.device, p.b, &c.beta,
                            d.device + c.shift, p.d, d.device + c.shift, p.d, &found[c.pick].algo,
                            ws, c.workspace, 0);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    d.fetch();
    aux.fetch();
    bias.fetch();
    for (int i = 0; i < (sums_a ? c.m : sums_b ? c.n : 0); i++) {
        double sum = 0;
        for (int k = 0; k < c.k; k++)
            sum += sums_a ? a.at(c.ta ? (int64_t)i * c.lda + k : (int64_t)k * c.lda + i)
                          : b.at(c.tb ? (int64_t)k * c.ldb + i : (int64_t)i * c.ldb + k);
        CHECK(bias.at(i) == rounded(sum, c.out));
    }
    for (int j = 0; j < c.n; j++)
        for (int i = 0; i < c.ldd; i++) {
            int64_t at = (int64_t)j * c.ldd + i;
            if (i >= c.m) {
                CHECK(d.at(at) == before.at(at));
                continue;
            }
            double v = 0, slack = 0;
            for (int k = 0; k < c.k; k++)
                v += (double)a.at(c.ta ? (int64_t)i * c.lda + k : (int64_t)k * c.lda + i) *
                     b.at(c.tb ? (int64_t)k * c.ldb + j : (int64_t)j * c.ldb + k);
            v = c.alpha * v + (c.beta != 0 ? (double)c.beta * before.at(at) : 0);
            if (c.epilogue & CUBLASLT_EPILOGUE_BIAS)
                v += bias.at(i);
            if (c.epilogue & CUBLASLT_EPILOGUE_GELU) {
                CHECK(aux.at(j * c.aux_ld + i) == rounded(v, c.out));
                slack = 0.01 * fabs(gelu(v)) + 1e-6;
                v = gelu(v);
            } else if (c.epilogue == CUBLASLT_EPILOGUE_DGELU) {
                double z = aux_before.at(j * c.aux_ld + i), h = 1e-5;
                v *= (gelu(z + h) - gelu(z - h)) / (2 * h);
                slack = 0.01 * fabs(v) + 1e-4;
            }
            CHECK(slack > 0 ? fabs(d.at(at) - v) <= slack : d.at(at) == rounded(v, c.out));
        }
    return CUBLAS_STATUS_SUCCESS;
}

CASE(forms)
{
    for (int in : {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF})
        for (int out : {in, (int)CUDA_R_32F})
            for (int form = 0; form < 4; form++)
                OK(run({.m = 40, .n = 24, .k = 72, .in = in, .out = out, .ta = (form & 1) != 0,
                        .tb = (form & 2) != 0, .alpha = 0.5f, .beta = form == 3 ? 1.0f : 0}));
}

CASE(leading_dimensions)
{
    OK(run({.m = 33, .n = 7, .k = 19, .lda = 40, .ldb = 48, .ldd = 56}));
    OK(run({.m = 33, .n = 7, .k = 19, .ta = true, .tb = true, .lda = 24, .ldb = 8, .ldd = 40}));
    OK(run({.m = 33, .n = 7, .k = 19, .lda = 35, .ldb = 21, .ldd = 37}));
    OK(run({.m = 1, .n = 1, .k = 1}));
}

CASE(split_sums)
{
    Case c = {.m = 16, .n = 16, .k = 3000, .workspace = 4 * 4 * 16 * 16};
    Product p = describe(dense(c));
    cublasLtMatmulHeuristicResult_t found[8];
    int n;
    uint32_t split;
    OK(choose(p, found, &n));
    OK(cublasLtMatmulAlgoConfigGetAttribute(&found[0].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split,
                                            sizeof split, nullptr));
    CHECK(split == 4 && found[0].workspaceSize == 4 * 4 * 16 * 16);
    OK(run(c));
    c.schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
    p = describe(dense(c));
    OK(choose(p, found, &n));
    for (int i = 0; i < n; i++) {
        OK(cublasLtMatmulAlgoConfigGetAttribute(&found[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                &split, sizeof split, nullptr));
        CHECK(split == 1);
    }
}

CASE(epilogues)
{
    for (int in : {CUDA_R_16F, CUDA_R_16BF})
        for (uint32_t epilogue : {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
                                  CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU})
            OK(run({.m = 40, .n = 9, .k = 8, .in = in, .out = in, .ta = true, .alpha = 0.25f,
                    .epilogue = epilogue, .aux_ld = 48}));
    OK(run({.m = 40, .n = 9, .k = 8, .in = CUDA_R_32F, .out = CUDA_R_32F,
            .epilogue = CUBLASLT_EPILOGUE_BIAS}));
    OK(run({.m = 40, .n = 9, .k = 8, .out = CUDA_R_32F, .epilogue = CUBLASLT_EPILOGUE_BIAS}));
}

/* Sums of an operand along k: of rows that are stored side by side, and of columns. */
CASE(bias_gradients)
{
    for (int in : {CUDA_R_16F, CUDA_R_16BF})
        for (int out : {in, (int)CUDA_R_32F})
            for (int form = 0; form < 4; form++)
                for (uint32_t epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB})
                    OK(run({.m = 40, .n = 24, .k = 72, .in = in, .out = out, .ta = (form & 1) != 0,
                            .tb = (form & 2) != 0, .epilogue = epilogue}));
}

CASE(refused)
{
    const cublasStatus_t no = CUBLAS_STATUS_NOT_SUPPORTED, bad = CUBLAS_STATUS_INVALID_VALUE;
    /* GELU: not for fp32, not with an odd leading dimension of aux, not with beta */
    CHECK(run({.m = 8, .n = 8, .k = 8, .in = CUDA_R_32F, .out = CUDA_R_32F,
               .epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS}) == no);
    CHECK(run({.m = 8, .n = 8, .k = 8, .out = CUDA_R_32F,
               .epilogue = CUBLASLT_EPILOGUE_DGELU}) == no);
    CHECK(run({.m = 12, .n = 8, .k = 8, .epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS}) == no);
    CHECK(run({.m = 8, .n = 8, .k = 8, .beta = 1, .epilogue = CUBLASLT_EPILOGUE_DGELU}) == no);
    /* sums along k: not of fp32, not of rows that end anywhere, not added to, not scaled */
    CHECK(run({.m = 8, .n = 8, .k = 8, .in = CUDA_R_32F, .out = CUDA_R_32F,
               .epilogue = CUBLASLT_EPILOGUE_BGRADB}) == no);
    CHECK(run({.m = 8, .n = 12, .k = 8, .tb = true, .epilogue = CUBLASLT_EPILOGUE_BGRADB}) == no);
    CHECK(run({.m = 8, .n = 8, .k = 8, .beta = 1, .epilogue = CUBLASLT_EPILOGUE_BGRADB}) == no);
    CHECK(run({.m = 8, .n = 8, .k = 8, .alpha = 2, .epilogue = CUBLASLT_EPILOGUE_BGRADA}) == no);
    CHECK(run({.m = 8, .n = 8, .k = 8, .epilogue = CUBLASLT_EPILOGUE_DGELU_BGRAD}) == no);
    /* types, shapes, pointers */
    CHECK(run({.m = 8, .n = 8, .k = 8, .in = CUDA_R_32F, .out = CUDA_R_16BF}) == no);
    CHECK(run({.m = 8, .n = 8, .k = 8, .lda = 7}) == bad);
    CHECK(run({.m = 8, .n = 8, .k = 8, .shift = 2}) == no);
    OK(run({.m = 8, .n = 8, .k = 8, .align = 2}));
    CHECK(run({.m = 8, .n = 8, .k = 8, .bias = true}) == bad);
    CHECK(run({.m = 9, .n = 8, .k = 8, .in = CUDA_R_32F, .out = CUDA_R_32F, .align = 2}) == no);
}

CASE(pointers_of_the_host)
{
    Case c = dense({.m = 8, .n = 8, .k = 8});
    Product p = describe(c);
    Array x(64, CUDA_R_16BF);
    float one = 1, zero = 0;
    const cublasStatus_t bad = CUBLAS_STATUS_INVALID_VALUE;
    CHECK(cublasLtMatmul(handle(), p.desc, &one, x.host.data(), p.a, x.device, p.b, &zero, x.device,
                         p.d, x.device, p.d, nullptr, nullptr, 0, 0) == bad);
    CHECK(cublasLtMatmul(handle(), p.desc, &one, x.device, p.a, x.device, p.b, &zero, x.device,
                         p.d, nullptr, p.d, nullptr, nullptr, 0, 0) == bad);
    CHECK(cublasLtMatmul(nullptr, p.desc, &one, x.device, p.a, x.device, p.b, &zero, x.device, p.d,
                         x.device, p.d, nullptr, nullptr, 0, 0) == CUBLAS_STATUS_NOT_INITIALIZED);
    /* shapes that do not meet */
    CHECK(cublasLtMatmul(handle(), p.desc, &one, x.device, p.a, x.device, layout(c.in, 4, 8, 4),
                         &zero, x.device, p.d, x.device, p.d, nullptr, nullptr, 0, 0) == bad);
    Array d(64, CUDA_R_16BF);
    OK(cublasLtMatmul(handle(), p.desc, &one, x.device, p.a, x.device, p.b, &zero, d.device, p.d,
                      d.device, p.d, nullptr, nullptr, 0, 0));
}

CASE(algorithms_by_number)
{
    Case c = dense({.m = 64, .n = 64, .k = 64});
    Product p = describe(c);
    cublasLtMatmulHeuristicResult_t found[8], checked;
    int ids[8], n, nfound;
    const cudaDataType_t t = CUDA_R_16BF;
    OK(cublasLtMatmulAlgoGetIds(handle(), CUBLAS_COMPUTE_32F, CUDA_R_32F, t, t, t, t, 8, ids, &n));
    CHECK(n == 3);
    OK(choose(p, found, &nfound));
    /* every answer of the heuristic can be made from its own description */
    for (int f = 0; f < nfound; f++) {
        uint32_t id, value;
        uint16_t cluster;
        cublasLtMatmulAlgo_t algo;
        OK(cublasLtMatmulAlgoConfigGetAttribute(&found[f].algo, CUBLASLT_ALGO_CONFIG_ID, &id, 4,
                                                nullptr));
        OK(cublasLtMatmulAlgoInit(handle(), CUBLAS_COMPUTE_32F, CUDA_R_32F, t, t, t, t, (int)id,
                                  &algo));
        for (auto attr : {CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                          CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_ALGO_CONFIG_STAGES_ID}) {
            OK(cublasLtMatmulAlgoConfigGetAttribute(&found[f].algo, attr, &value, 4, nullptr));
            OK(cublasLtMatmulAlgoConfigSetAttribute(&algo, attr, &value, 4));
        }
        OK(cublasLtMatmulAlgoConfigGetAttribute(&found[f].algo,
                                                CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &cluster, 2,
                                                nullptr));
        OK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
                                                &cluster, 2));
        OK(cublasLtMatmulAlgoCheck(handle(), p.desc, p.a, p.b, p.d, p.d, &algo, &checked));
        CHECK(memcmp(&algo, &found[f].algo, sizeof algo) == 0);
        CHECK(checked.workspaceSize == found[f].workspaceSize);
    }
    /* one that the catalogue does not have */
    cublasLtMatmulAlgo_t algo = found[0].algo;
    uint32_t tile = CUBLASLT_MATMUL_TILE_64x128, tiles[8];
    size_t written;
    OK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, 4));
    CHECK(cublasLtMatmulAlgoCheck(handle(), p.desc, p.a, p.b, p.d, p.d, &algo, &checked) != 0);
    CHECK(cublasLtMatmulAlgoInit(handle(), CUBLAS_COMPUTE_32F, CUDA_R_32F, t, t, t, t, 9999,
                                 &algo) == CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatmulAlgoCapGetAttribute(&found[0].algo, CUBLASLT_ALGO_CAP_TILE_IDS, tiles,
                                         sizeof tiles, &written));
    CHECK(written == 8 && tiles[0] == CUBLASLT_MATMUL_TILE_128x128);
}

FAILS(workspace_shared_by_streams, "cublasLtMatmul")
{
    Case c = dense({.m = 64, .n = 64, .k = 64});
    Product p = describe(c);
    cublasLtMatmulHeuristicResult_t found[8];
    int n;
    OK(choose(p, found, &n));
    Array a(64 * 64, c.in), b(64 * 64, c.in), d(64 * 64, c.in), e(64 * 64, c.in);
    OK(cudaDeviceSynchronize());
    void *ws;
    float one = 1, zero = 0;
    OK(cudaMalloc(&ws, c.workspace));
    for (Array *out : {&d, &e}) {
        cudaStream_t s;
        OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        OK(cublasLtMatmul(handle(), p.desc, &one, a.device, p.a, b.device, p.b, &zero, out->device,
                          p.d, out->device, p.d, &found[0].algo, ws, c.workspace, s));
    }
}

FAILS(unwritten_operand, "cublasLtMatmul")
{
    Case c = dense({.m = 64, .n = 64, .k = 64});
    Product p = describe(c);
    void *x;
    float one = 1, zero = 0;
    OK(cudaMalloc(&x, 64 * 64 * 2));
    Array b(64 * 64, c.in), d(64 * 64, c.in);
    cublasLtMatmul(handle(), p.desc, &one, x, p.a, b.device, p.b, &zero, d.device, p.d, d.device,
                   p.d, nullptr, nullptr, 0, 0);
}

int main()
{
    return h_main("cublaslt");
}
