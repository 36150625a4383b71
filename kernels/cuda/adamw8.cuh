/* adamw8.cuh -- AdamW with moments in 8 bit: blocks of DYNAMIC_BLOCK elements of each tensor, each
 * with the largest magnitude of its values (Dettmers et al. 2022; ../../runtime/dynamic.h).
 *
 * In:    as adamw_parts.cuh: n elements of each of `slots` tensors, a tensor or this rank's part of
 *        one; weights `stride`, gradients `apart`, codes of moments `codes` elements from one tensor
 *        to the next.
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

/* Elements of a block of which `left` exist; the others are 0. vector: quads are aligned, and all
 * exist. */
static inline __device__ LaneFloats lane_load(const float *block, int64_t left, bool vector)
{
    LaneFloats x;
#pragma unroll
    for (int q = 0; q < ADAMW8_QUADS; q++) {
        const int64_t first = quad_offset(q);
        if (vector)
            f32_load4(x.at + 4 * q, block + first);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!vector)
                x.at[4 * q + i] = first + i < left ? block[first + i] : 0.0f;
    }
    return x;
}

static inline __device__ void lane_store(float *block, const LaneFloats &x, int64_t left,
                                         bool vector)
{
#pragma unroll
    for (int q = 0; q < ADAMW8_QUADS; q++) {
        const int64_t first = quad_offset(q);
        if (vector)
            f32_store4(block + first, x.at + 4 * q);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!vector && first + i < left)
                block[first + i] = x.at[4 * q + i];
    }
}

/* What the lane's codes stand for. */
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

/* Grid: blocks of a tensor by tensors. */
__global__ void __launch_bounds__(ADAMW8_THREADS)
    adamw8_kernel(float *__restrict__ w, uint8_t *__restrict__ m, uint8_t *__restrict__ v,
                  float *__restrict__ m_absmax, float *__restrict__ v_absmax,
                  const float *__restrict__ g, const float *__restrict__ adamw_args,
                  const float *__restrict__ norm, int64_t n, int64_t stride, int64_t apart,
                  int64_t codes, int decay, bool aligned_quads)
{
    __shared__ DynamicTable of_m, of_v;
    dynamic_fill(&of_m, DYNAMIC_OF_M);
    dynamic_fill(&of_v, DYNAMIC_OF_V);
    __syncthreads();
    const AdamwStep step = adamw_step(adamw_args, norm[0], decay);
    const int64_t blocks = (n + DYNAMIC_BLOCK - 1) / DYNAMIC_BLOCK, slot = blockIdx.y;
    const int warps = ADAMW8_THREADS / WARP;
    for (int turn = 0; turn < ADAMW8_TURNS && step.live; turn++) {
        const int64_t b = ((int64_t)blockIdx.x * ADAMW8_TURNS + turn) * warps + threadIdx.x / WARP,
                      first = b * DYNAMIC_BLOCK, left = n - first, at = slot * blocks + b;
        if (b >= blocks)
            break;
        const bool vector = aligned_quads && left >= DYNAMIC_BLOCK;
        float *weights = w + slot * stride + first;
        uint8_t *m_codes = m + slot * codes + first, *v_codes = v + slot * codes + first;
        const LaneFloats g_ = lane_load(g + slot * apart + first, left, vector);
        LaneFloats w_ = lane_load(weights, left, vector);
        LaneFloats m_ = lane_dequantise(m_codes, m_absmax[at], &of_m, left, vector);
        LaneFloats v_ = lane_dequantise(v_codes, v_absmax[at], &of_v, left, vector);
        __syncwarp();                   /* all lanes have read the magnitudes */
#pragma unroll
        for (int i = 0; i < 4 * ADAMW8_QUADS; i++)
            w_.at[i] = adamw_element(w_.at[i], m_.at + i, v_.at + i, g_.at[i], step);
        lane_store(weights, w_, left, vector);
        lane_quantise<DYNAMIC_OF_M>(m_codes, m_absmax + at, m_, &of_m, left, vector);
        lane_quantise<DYNAMIC_OF_V>(v_codes, v_absmax + at, v_, &of_v, left, vector);
    }
}

#ifndef __CUDACC_RTC__
/* fp32 weights. */
static inline void adamw8(float *w, uint8_t *m, uint8_t *v, float *m_absmax, float *v_absmax,
                          const float *g, const float *adamw_args, const float *norm, int64_t n,
                          int64_t slots, int64_t stride, int64_t apart, int64_t codes, int decay,
                          cudaStream_t s)
{
    const bool quads = aligned(w, 16) && aligned(g, 16) && aligned(m, 4) && aligned(v, 4) &&
                       stride % 4 == 0 && apart % 4 == 0 && codes % 4 == 0;
    const dim3 grid(blocks_over(n, ADAMW8_TURNS * ADAMW8_THREADS / WARP * DYNAMIC_BLOCK),
                    (unsigned)slots);
    launch(adamw8_kernel, grid, ADAMW8_THREADS, 0, s, w, m, v, m_absmax, v_absmax, g, adamw_args,
           norm, n, stride, apart, codes, decay, quads);
}
#endif

#endif
