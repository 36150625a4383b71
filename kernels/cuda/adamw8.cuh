/* adamw8.cuh -- AdamW with moments in 8 bit: blocks of DYNAMIC_BLOCK elements of each tensor, each
 * with the largest magnitude of its values (Dettmers et al. 2022; ../../runtime/dynamic.h).
 *
 * In:    as adamw_parts.cuh: n elements of each of `slots` tensors, a tensor or this rank's part of
 *        one. From one tensor to the next are `stride` elements of weights, `apart` of gradients,
 *        `codes` of moments.
 * Out:   weights, codes m and v, and m_absmax, v_absmax (slots, blocks of n), in place. The weights
 *        are updated with the moments before these are quantised.
 * Keeps: a non-finite norm changes nothing. A NaN stays in its element: its block's magnitude is
 *        that of the finite ones.
 * Method: a warp updates a block, a lane two quads of it. */
#ifndef DIECAST_KERNELS_CUDA_ADAMW8_CUH
#define DIECAST_KERNELS_CUDA_ADAMW8_CUH

#include "../../runtime/dynamic.h"
#include "adamw.cuh"

enum {
    ADAMW8_THREADS = DYNAMIC_CODES,     /* each fills an entry of every table */
    ADAMW8_TURNS = 8,                   /* blocks of a warp: the tables are read once for them */
    ADAMW8_QUADS = DYNAMIC_BLOCK / WARP / 4
};

static __device__ const float dynamic_values[2][DYNAMIC_CODES] = DYNAMIC_MAPS;

/* A map and its midpoints. */
typedef struct {
    float value[DYNAMIC_CODES], mid[DYNAMIC_CODES];
} DynamicTable;

/* The lane's elements of a block; quad q begins q * 4 * WARP elements after the first. */
typedef struct {
    float at[4 * ADAMW8_QUADS];
} LaneFloats;

static inline __device__ int64_t quad_offset(int q)
{
    return q * 4 * WARP + 4 * (int)(threadIdx.x % WARP);
}

/* fp32 weights, in the place of a Master. */
struct WideWeights {};

static inline __device__ void master_load4(float x[4], const float *w, const WideWeights &,
                                           int64_t i)
{
    f32_load4(x, w + i);
}

static inline __device__ float master_load(const float *w, const WideWeights &, int64_t i)
{
    return w[i];
}

static inline __device__ void master_store4(float *w, const WideWeights &, float x[4], int64_t i)
{
    f32_store4(w + i, x);
}

static inline __device__ void master_store(float *w, const WideWeights &, float x, int64_t i)
{
    w[i] = x;
}

/* Loads weights, or fp32 values, of a block that begins with element `at` of w; those from `end` on
 * are 0. vector: quads are aligned, and all exist. */
template <typename W, typename M>
static inline __device__ LaneFloats lane_load(const W *w, const M &master, int64_t at, int64_t end,
                                              bool vector)
{
    LaneFloats x;
#pragma unroll
    for (int q = 0; q < ADAMW8_QUADS; q++) {
        const int64_t first = at + quad_offset(q);
        if (vector)
            master_load4(x.at + 4 * q, w, master, first);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!vector)
                x.at[4 * q + i] = first + i < end ? master_load(w, master, first + i) : 0.0f;
    }
    return x;
}

template <typename W, typename M>
static inline __device__ void lane_store(W *w, const M &master, LaneFloats x, int64_t at,
                                         int64_t end, bool vector)
{
#pragma unroll
    for (int q = 0; q < ADAMW8_QUADS; q++) {
        const int64_t first = at + quad_offset(q);
        if (vector)
            master_store4(w, master, x.at + 4 * q, first);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!vector && first + i < end)
                master_store(w, master, x.at[4 * q + i], first + i);
    }
}

/* Dequantised values of the lane's codes. */
static inline __device__ LaneFloats lane_dequantise(const uint8_t *block, float absmax,
                                                    const DynamicTable *table, int64_t left,
                                                    bool vector)
{
    LaneFloats x;
#pragma unroll
    for (int q = 0; q < ADAMW8_QUADS; q++) {
        const int64_t first = quad_offset(q);
        uint32_t codes = vector ? *(const uint32_t *)(block + first) : 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (!vector && first + i < left)
                codes |= (uint32_t)block[first + i] << 8 * i;
            x.at[4 * q + i] = table->value[codes >> 8 * i & 255] * absmax;
        }
    }
    return x;
}

/* Stores the codes of a block and its magnitude, that of its finite values; if that is 0, all codes
 * are 0. All lanes of a warp take part. */
template <DynamicMap MAP>
static inline __device__ void lane_quantise(uint8_t *block, float *absmax, const LaneFloats &x,
                                            const DynamicTable *table, int64_t left, bool vector)
{
    float most = 0;
#pragma unroll
    for (int i = 0; i < 4 * ADAMW8_QUADS; i++) {
        const float size = fabsf(x.at[i]);
        most = size > most && isfinite(size) ? size : most;
    }
    most = warp_max(most);
#pragma unroll
    for (int q = 0; q < ADAMW8_QUADS; q++) {
        const int64_t first = quad_offset(q);
        uint32_t codes = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int code = most > 0.0f ? dynamic_code(x.at[4 * q + i], most, MAP, table->mid) : 0;
            codes |= (uint32_t)code << 8 * i;
            if (!vector && first + i < left)
                block[first + i] = (uint8_t)code;
        }
        if (vector)
            *(uint32_t *)(block + first) = codes;
    }
    if (threadIdx.x % WARP == 0)
        *absmax = most;
}

static inline __device__ void dynamic_fill(DynamicTable *table, DynamicMap map)
{
    const int k = (int)threadIdx.x;
    table->value[k] = dynamic_values[map][k];
    if (k < dynamic_midpoints(map))
        table->mid[k] = dynamic_midpoint(dynamic_values[map], map, k);
}

/* Tensors of a call, of n elements each: weights `stride`, gradients `apart`, codes and masters
 * `codes` elements from one to the next. */
struct Layout8 {
    int64_t n, stride, apart, codes;
    bool vector;                        // quads are aligned
};

/* The moments of a call. */
struct Moments8 {
    uint8_t *m, *v;
    float *m_absmax, *v_absmax;
};

/* Updates the blocks of this warp. Grid: blocks of a tensor by tensors. */
template <typename W, typename M>
static inline __device__ void adamw8_update(W *w, const M &master, const Moments8 &moments,
                                            const float *g, const AdamwStep &step,
                                            const Layout8 &at, const DynamicTable *of_m,
                                            const DynamicTable *of_v)
{
    const int64_t blocks = DYNAMIC_BLOCKS(at.n), slot = blockIdx.y;
    const int warps = ADAMW8_THREADS / WARP;
    w += slot * at.stride, g += slot * at.apart;
    for (int turn = 0; turn < ADAMW8_TURNS; turn++) {
        const int64_t b = ((int64_t)blockIdx.x * ADAMW8_TURNS + turn) * warps + threadIdx.x / WARP,
                      first = b * DYNAMIC_BLOCK, left = at.n - first;
        if (b >= blocks)
            break;
        const bool vector = at.vector && left >= DYNAMIC_BLOCK;
        uint8_t *m_codes = moments.m + slot * at.codes + first,
                *v_codes = moments.v + slot * at.codes + first;
        float *m_absmax = moments.m_absmax + slot * blocks + b,
              *v_absmax = moments.v_absmax + slot * blocks + b;
        const LaneFloats g_ = lane_load(g, WideWeights(), first, at.n, vector);
        LaneFloats w_ = lane_load(w, master, first, at.n, vector);
        LaneFloats m_ = lane_dequantise(m_codes, *m_absmax, of_m, left, vector);
        LaneFloats v_ = lane_dequantise(v_codes, *v_absmax, of_v, left, vector);
        __syncwarp();                   /* all lanes have read the magnitudes */
#pragma unroll
        for (int i = 0; i < 4 * ADAMW8_QUADS; i++)
            w_.at[i] = adamw_element(w_.at[i], m_.at + i, v_.at + i, g_.at[i], step);
        lane_store(w, master, w_, first, at.n, vector);
        lane_quantise<DYNAMIC_OF_M>(m_codes, m_absmax, m_, of_m, left, vector);
        lane_quantise<DYNAMIC_OF_V>(v_codes, v_absmax, v_, of_v, left, vector);
    }
}

__global__ void __launch_bounds__(ADAMW8_THREADS, 3)
    adamw8_kernel(float *__restrict__ w, Moments8 moments, const float *__restrict__ g,
                  const float *__restrict__ adamw_args, const float *__restrict__ norm, Layout8 at,
                  int decay)
{
    __shared__ DynamicTable of_m, of_v;
    dynamic_fill(&of_m, DYNAMIC_OF_M);
    dynamic_fill(&of_v, DYNAMIC_OF_V);
    __syncthreads();
    const AdamwStep step = adamw_step(adamw_args, norm[0], decay);
    if (step.live)
        adamw8_update(w, WideWeights(), moments, g, step, at, &of_m, &of_v);
}

__global__ void __launch_bounds__(ADAMW8_THREADS, 3)
    adamw8_mixed_kernel(wt_t *__restrict__ w, Master master, Moments8 moments,
                        const float *__restrict__ g, const float *__restrict__ adamw_args,
                        const float *__restrict__ norm, Layout8 at, int decay)
{
    __shared__ DynamicTable of_m, of_v;
    dynamic_fill(&of_m, DYNAMIC_OF_M);
    dynamic_fill(&of_v, DYNAMIC_OF_V);
    __syncthreads();
    const AdamwStep step = adamw_step(adamw_args, norm[0], decay);
    const Master of = master_of(master, blockIdx.y, at.codes);
    if (step.live)
        adamw8_update(w, of, moments, g, step, at, &of_m, &of_v);
}

#ifndef __CUDACC_RTC__
static inline dim3 adamw8_grid(int64_t n, int64_t slots)
{
    return dim3(blocks_over(n, ADAMW8_TURNS * (ADAMW8_THREADS / WARP) * DYNAMIC_BLOCK),
                (unsigned)slots);
}

/* All but the weights and masters. */
static inline Layout8 adamw8_layout(const uint8_t *m, const uint8_t *v, const float *g, int64_t n,
                                    int64_t stride, int64_t apart, int64_t codes)
{
    Layout8 at = { n, stride, apart, codes, false };
    at.vector = aligned(g, 16) && aligned(m, 4) && aligned(v, 4) && stride % 4 == 0 &&
                apart % 4 == 0 && codes % 4 == 0;
    return at;
}

/* fp32 weights. */
static inline void adamw8(float *w, uint8_t *m, uint8_t *v, float *m_absmax, float *v_absmax,
                          const float *g, const float *adamw_args, const float *norm, int64_t n,
                          int64_t slots, int64_t stride, int64_t apart, int64_t codes, int decay,
                          cudaStream_t s)
{
    Layout8 at = adamw8_layout(m, v, g, n, stride, apart, codes);
    at.vector = at.vector && aligned(w, 16);
    const Moments8 moments = { m, v, m_absmax, v_absmax };
    launch(adamw8_kernel, adamw8_grid(n, slots), ADAMW8_THREADS, 0, s, w, moments, g, adamw_args,
           norm, at, decay);
}

/* 16-bit weights; master: of the first tensor, (slots, `codes`). */
static inline void adamw8_mixed(wt_t *w, Master master, uint8_t *m, uint8_t *v, float *m_absmax,
                                float *v_absmax, const float *g, const float *adamw_args,
                                const float *norm, int64_t n, int64_t slots, int64_t stride,
                                int64_t apart, int64_t codes, int decay, cudaStream_t s)
{
    Layout8 at = adamw8_layout(m, v, g, n, stride, apart, codes);
    at.vector = at.vector && aligned(w, 4 * sizeof(wt_t)) && aligned(master.fp32, 16) &&
                aligned(master.remainder, 8);
    const Moments8 moments = { m, v, m_absmax, v_absmax };
    launch(adamw8_mixed_kernel, adamw8_grid(n, slots), ADAMW8_THREADS, 0, s, w, master, moments, g,
           adamw_args, norm, at, decay);
}
#endif

#endif
