/* gpu_kernels.cu -- what this GPU can do with our kernels: TFLOP/s of a large product and of attention.
 *
 * Out:    a JSON line a kernel, with the names that gpu_peer.py gives PyTorch's.
 * Keeps:  random operands; the median of 3 rounds of 20 calls. Causal attention counts half of T x T. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/gemm.cuh"

static const int HEADS = 16, SIZE = 128, TOKENS = 16384, CALLS = 20, EDGE = 8192;
enum { ROUNDS = 3 };

/* Roughly normal, by a hash of the position (splitmix64). */
__global__ __launch_bounds__(256) void fill_kernel(act_t *p, int64_t n)
{
    for (int64_t i = blockIdx.x * INT64_C(256) + threadIdx.x; i < n; i += gridDim.x * INT64_C(256)) {
        uint64_t x = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
            x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
            x ^= x >> 31;
            sum += (float)(int32_t)(x >> 40) * 0x1p-23f - 1;
        }
        act_store(p + i, 0.866f * sum);
    }
}

static act_t *random_values(int64_t n, cudaStream_t s)
{
    act_t *p;
    cuda_check(cudaMalloc((void **)&p, (size_t)n * sizeof *p), "an operand");
    launch(fill_kernel, dim3(2048), dim3(256), 0, s, p, n);
    return p;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

typedef void Call(void *argument, cudaStream_t s);

static void measure(const char *name, double flop, Call *call, void *argument, cudaStream_t s)
{
    cudaEvent_t from, to;
    float ms[1 + ROUNDS];
    cuda_check(cudaEventCreate(&from), "an event");
    cuda_check(cudaEventCreate(&to), "an event");
    for (int round = 0; round <= ROUNDS; round++) {
        cuda_check(cudaEventRecord(from, s), "an event");
        for (int i = 0; i < CALLS; i++)
            call(argument, s);
        cuda_check(cudaEventRecord(to, s), "an event");
        cuda_check(cudaEventSynchronize(to), name);
        cuda_check(cudaEventElapsedTime(&ms[round], from, to), "an event");
    }
    qsort(ms + 1, ROUNDS, sizeof ms[0], by_value);
    printf("{\"kernel\": \"%s\", \"tflops\": %.2f}\n", name, 1e-9 * flop * CALLS / ms[1 + ROUNDS / 2]);
}

typedef struct {
    Gemm product;
    act_t *a, *b, *c;
    void *ws;
} Product;

static void run_product(void *argument, cudaStream_t s)
{
    const Product *p = (const Product *)argument;
    gemm_run(&p->product, p->c, p->a, p->b, NULL, NULL, p->ws, s);
}

typedef struct {
    int64_t B, T;
    act_t *qkv, *o, *d_o, *dqkv;
    float *lse;
    void *ws;
} Attention;

static void run_forward(void *argument, cudaStream_t s)
{
    const Attention *p = (const Attention *)argument;
    attention_fwd<SIZE>(p->o, p->lse, p->qkv, {}, p->B, p->T, HEADS, HEADS, 0.0883883f, p->ws, s);
}

static void run_backward(void *argument, cudaStream_t s)
{
    const Attention *p = (const Attention *)argument;
    attention_bwd<SIZE>(p->dqkv, p->d_o, p->o, p->lse, p->qkv, {}, p->B, p->T, HEADS, HEADS, 0.0883883f, p->ws, s);
}

int main(void)
{
    const int64_t n = (int64_t)EDGE * EDGE, width = (int64_t)HEADS * SIZE;
    cudaStream_t s;
    char name[64];
    void *ws;
    int64_t bytes = attention_bwd_cuda_workspace(TOKENS / 2048, 2048, HEADS, HEADS, SIZE, sizeof(act_t));
    if (bytes < CUDA_GEMM_WORKSPACE)
        bytes = CUDA_GEMM_WORKSPACE;
    cuda_check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "a stream");
    cuda_check(cudaMalloc(&ws, (size_t)bytes), "scratch");
    gemm_setup();
    Product p = {};
    p.product.name = "ceiling";
    p.product.m = p.product.n = p.product.k = EDGE;
    p.product.form = GEMM_NN;
    gemm_init(&p.product);
    p.a = random_values(n, s), p.b = random_values(n, s), p.c = random_values(n, s), p.ws = ws;
    measure("gemm bf16 8192^3", 2.0 * EDGE * (double)n, run_product, &p, s);

    Attention a = {};
    a.qkv = random_values(TOKENS * 3 * width, s), a.dqkv = random_values(TOKENS * 3 * width, s);
    a.o = random_values(TOKENS * width, s), a.d_o = random_values(TOKENS * width, s), a.ws = ws;
    cuda_check(cudaMalloc((void **)&a.lse, TOKENS * HEADS * sizeof(float)), "log sums");
    for (a.T = 2048; a.T <= 8192; a.T *= 2) {
        a.B = TOKENS / a.T;
        const double flop = 2.0 * (double)a.B * HEADS * (double)a.T * (double)a.T * SIZE;
        snprintf(name, sizeof name, "attention forward D 128 T %d causal", (int)a.T);
        measure(name, flop, run_forward, &a, s);
        snprintf(name, sizeof name, "attention backward D 128 T %d causal", (int)a.T);
        measure(name, 2.5 * flop, run_backward, &a, s);
    }
    return 0;
}
