/* rope.cuh -- rotary positions (RoFormer, Su et al. 2021), half-split as in Llama, in place.
 *
 * In:    qkv (rows, (NH + 2 KV) D), row r at position r % T, with documents positions[r] < T;
 *        cosine, sine (T, D/2) fp32, by HF transformers' fp32 formulas, rounded to act_t.
 * Out:   q and k, halves [x1, x2] of each head -> [x1 cos - x2 sin, x2 cos + x1 sin]; v untouched.
 * Keeps: each product is rounded to act_t, then their sum (eager 16-bit arithmetic). */
#ifndef DIECAST_KERNELS_CUDA_ROPE_CUH
#define DIECAST_KERNELS_CUDA_ROPE_CUH

#include "types.cuh"

enum {
    ROPE_THREADS = 256,
    ROPE_HEADS = 2                   /* that a thread loads before it turns the first */
};

/* Elements of a vector of half a head. */
static __host__ __device__ constexpr int rope_width(int64_t pairs)
{
    return pairs % ACT_VECTOR == 0 ? ACT_VECTOR : 1;
}

/* W elements of a row: x1 and x2 of a head. */
template <int W>
struct RopePair {
    float a[W], b[W];
};

template <int W>
static __device__ __forceinline__ void rope_load(float *to, const act_t *from)
{
    if constexpr (W == 1)
        *to = act_load(from);
    else
        act_load_vector(to, from);
}

template <int W>
static __device__ __forceinline__ void rope_store(act_t *to, const float *from)
{
    if constexpr (W == 1)
        act_store(to, *from);
    else
        act_store_vector(to, from);
}

/* Turns by the angles of cosine c and sine s. */
template <int W>
static __device__ __forceinline__ void rope_turn(RopePair<W> &x, const float *c, const float *s)
{
    float ac[W], bs[W], bc[W], as[W];
#pragma unroll
    for (int k = 0; k < W; k++) {
        ac[k] = x.a[k] * c[k], bs[k] = x.b[k] * s[k];
        bc[k] = x.b[k] * c[k], as[k] = x.a[k] * s[k];
    }
    act_round_all<W>(ac), act_round_all<W>(bs), act_round_all<W>(bc), act_round_all<W>(as);
#pragma unroll
    for (int k = 0; k < W; k++) {
        x.a[k] = ac[k] - bs[k];
        x.b[k] = bc[k] + as[k];
    }
}

/* Vectors of half a head among the threads of x, heads among y, rows among z: each thread turns the
 * same columns of several heads, ROPE_HEADS at a time. sign 1, or -1 (inverse); positions NULL:
 * position r % T. rows and T: below 2^32. */
template <int W>
__global__ void __launch_bounds__(ROPE_THREADS)
    rope_kernel(act_t *__restrict__ qkv, const float *__restrict__ cosine,
                const float *__restrict__ sine, const int32_t *__restrict__ positions, int64_t rows,
                int64_t T, int heads, int64_t stride, int pairs, float sign)
{
    const int64_t r = blockIdx.x * (int64_t)blockDim.z + threadIdx.z;
    if (r >= rows)
        return;
    const int64_t angle =
        (positions ? (int64_t)positions[r] : (int64_t)((uint32_t)r % (uint32_t)T)) * pairs;
    for (int j = (int)threadIdx.x * W; j < pairs; j += (int)blockDim.x * W) {
        float c[W], s[W];
        if constexpr (W == 1) {
            c[0] = cosine[angle + j];
            s[0] = sine[angle + j];
        } else {
#pragma unroll
            for (int k = 0; k < W; k += 4) {
                f32_load4(c + k, cosine + angle + j + k);
                f32_load4(s + k, sine + angle + j + k);
            }
        }
#pragma unroll
        for (int k = 0; k < W; k++)
            s[k] *= sign;
        for (int h = (int)threadIdx.y; h < heads; h += ROPE_HEADS * (int)blockDim.y) {
            RopePair<W> x[ROPE_HEADS];
            act_t *at = qkv + r * stride + (int64_t)h * 2 * pairs + j;
            const int64_t apart = (int64_t)blockDim.y * 2 * pairs;
#pragma unroll
            for (int k = 0; k < ROPE_HEADS; k++)
                if (h + k * (int)blockDim.y < heads) {
                    rope_load<W>(x[k].a, at + k * apart);
                    rope_load<W>(x[k].b, at + k * apart + pairs);
                }
#pragma unroll
            for (int k = 0; k < ROPE_HEADS; k++)
                if (h + k * (int)blockDim.y < heads) {
                    rope_turn(x[k], c, s);
                    rope_store<W>(at + k * apart, x[k].a);
                    rope_store<W>(at + k * apart + pairs, x[k].b);
                }
        }
    }
}

/* How frequencies are computed. factor 0: theta^(-2j/D). Otherwise these are divided by factor; if
 * `original` is not 0, as in Llama 3: wavelengths above original / low are divided, those below
 * original / high are kept, and those between are blended. local not 0: there are two tables, the
 * first of which has theta = local and no factor. */
struct RopeRule {
    double theta = 0, local = 0, factor = 0, low = 0, high = 0, original = 0;
};

/* Returns the rotary frequency of column j of `pairs`. */
static __device__ float rope_frequency(int64_t j, int64_t pairs, RopeRule by)
{
    const float f = 1.0f / (float)pow(by.theta, (double)((float)(2 * j) / (float)(2 * pairs)));
    if (by.factor == 0)
        return f;
    if (by.original == 0)
        return f / (float)by.factor;
    const float longest = (float)(by.original / by.low), shortest = (float)(by.original / by.high);
    const float wavelength = 6.283185307179586f / f;
    const float smooth =
        ((float)by.original / wavelength - (float)by.low) / (float)(by.high - by.low);
    if (wavelength > longest)
        return f / (float)by.factor;
    if (wavelength < shortest)
        return f;
    return __fadd_rn((1.0f - smooth) * f / (float)by.factor, __fmul_rn(smooth, f));
}

__global__ void __launch_bounds__(ROPE_THREADS)
    rope_table_kernel(float *__restrict__ cosine, float *__restrict__ sine, int64_t T,
                      int64_t pairs, RopeRule by)
{
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i >= T * pairs)
        return;
    const float angle = (float)(i / pairs) * rope_frequency(i % pairs, pairs, by);
    cosine[i] = act_round((float)cos((double)angle));
    sine[i] = act_round((float)sin((double)angle));
}

#ifndef __CUDACC_RTC__
/* cosine, sine (T, pairs); of two tables T / 2 rows each. */
static inline void rope_table(float *cosine, float *sine, int64_t T, int64_t pairs, RopeRule by,
                              cudaStream_t s)
{
    const int tables = by.local != 0 ? 2 : 1;
    const int64_t n = T / tables * pairs;
    RopeRule rule[] = {by, by};
    if (tables == 2)
        rule[0] = {.theta = by.local};
    for (int k = 0; k < tables; k++)
        launch(rope_table_kernel, blocks_over(n, ROPE_THREADS), ROPE_THREADS, 0, s, cosine + k * n,
               sine + k * n, T / tables, pairs, rule[k]);
}

static inline void rope_rows(act_t *qkv, const float *cosine, const float *sine,
                             const int32_t *positions, int64_t rows, int64_t T, int64_t NH,
                             int64_t KV,
                             int64_t D, float sign, cudaStream_t s)
{
    const int pairs = (int)(D / 2), heads = (int)(NH + KV), W = rope_width(pairs);
    const int x = pairs / W < ROPE_THREADS ? pairs / W : ROPE_THREADS;
    const int groups = (heads + ROPE_HEADS - 1) / ROPE_HEADS;
    const int y = groups < ROPE_THREADS / x ? groups : ROPE_THREADS / x;
    const int z = ROPE_THREADS / (x * y) < 32 ? ROPE_THREADS / (x * y) : 32;
    launch(W > 1 ? rope_kernel<ACT_VECTOR> : rope_kernel<1>, blocks_over(rows, z), dim3(x, y, z), 0,
           s, qkv, cosine, sine, positions, rows, T, heads, (NH + 2 * KV) * D, pairs, sign);
}

static inline void rope_fwd(act_t *qkv, const float *cosine, const float *sine,
                            const int32_t *positions, int64_t rows, int64_t T, int64_t NH,
                            int64_t KV,
                            int64_t D, cudaStream_t s)
{
    rope_rows(qkv, cosine, sine, positions, rows, T, NH, KV, D, 1.0f, s);
}

static inline void rope_bwd(act_t *dqkv, const float *cosine, const float *sine,
                            const int32_t *positions, int64_t rows, int64_t T, int64_t NH,
                            int64_t KV,
                            int64_t D, cudaStream_t s)
{
    rope_rows(dqkv, cosine, sine, positions, rows, T, NH, KV, D, -1.0f, s);
}
#else
template __global__ void rope_kernel<rope_width(D / 2)>(
    act_t *, const float *, const float *, const int32_t *, int64_t, int64_t, int, int64_t, int,
    float);
#endif

#endif
