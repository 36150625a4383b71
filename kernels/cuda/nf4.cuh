/* nf4.cuh -- dequantises a weight matrix before a product reads it: runtime/nf4.h.
 *
 * In:    codes (O, C / 2); absmax: a code for each block; nested: a float for each group, and
 *        offset: one, of each tensor in turn. rows: of the tensors.
 *        bytes: C / 2, of the codes of a row.
 * Out:   w (O, wide): the first C columns; those after them stay.
 * Keeps: the bits of bitsandbytes: no product is fused with a sum, and an element is rounded once
 *        to act_t. Every tensor has a multiple of NF4_BLOCK elements; C is even.
 * Method: the x threads of a block write one row; a block has several short rows. */
#ifndef DIECAST_KERNELS_CUDA_NF4_CUH
#define DIECAST_KERNELS_CUDA_NF4_CUH

#include "types.cuh"

#include "../../runtime/dynamic_map.h"
#include "../../runtime/nf4.h"

enum {
    NF4_THREADS = 256,
    NF4_VECTOR = 8           /* elements at a time, or 2 */
};

static __device__ const float nf4_map[256] = { DYNAMIC_SIGNED };
static __device__ const float nf4_values[16] = { NF4_VALUES };

static inline __device__ void nf4_codes(int code[NF4_VECTOR], const uint8_t *p)
{
    const uint32_t bytes = *(const uint32_t *)p;         /* the first is the lowest */
#pragma unroll
    for (int i = 0; i < NF4_VECTOR; i++)
        code[i] = bytes >> (i / 2 * 8 + (i % 2 ? 0 : 4)) & 15;
}

static inline __device__ void nf4_store(act_t *w, const float v[NF4_VECTOR])
{
#pragma unroll
    for (int i = 0; i < NF4_VECTOR; i += ACT_VECTOR)
        act_store_vector(w + i, v + i);
}

/* W elements at a time, which lie in one block. */
template <int W>
__global__ void __launch_bounds__(NF4_THREADS)
    dequant_nf4_kernel(act_t *__restrict__ w, const uint8_t *__restrict__ codes,
                       const uint8_t *__restrict__ absmax, const float *__restrict__ nested,
                       const float *__restrict__ offset, Nf4Rows rows, int64_t O, int64_t C,
                       int64_t wide)
{
    __shared__ float value[16];      /* in as many banks */
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = thread; i < 16; i += blockDim.x * blockDim.y)
        value[i] = nf4_values[i];
    __syncthreads();
    const int64_t r = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
    if (r >= O)
        return;
    /* the tensor of the row: elements before it, and groups */
    int64_t before = 0, groups = 0;
    int part = 0;
    if (r >= rows.w0 && rows.parts > 1) {
        part = 1, before = rows.w0 * C, groups = NF4_GROUPS(before);
        if (r >= rows.w0 + rows.w1 && rows.parts > 2)
            part = 2, before += rows.w1 * C, groups += NF4_GROUPS(rows.w1 * C);
    }
    const float mean = offset[part];
    for (int64_t c = (int64_t)threadIdx.x * W; c < C; c += (int64_t)blockDim.x * W) {
        const int64_t e = r * C + c, block = (e - before) / NF4_BLOCK;
        const float most = nf4_map[absmax[e / NF4_BLOCK]],
                    scale = __fadd_rn(__fmul_rn(most, nested[groups + block / NF4_GROUP]), mean);
        if constexpr (W == NF4_VECTOR) {
            int code[W];
            float v[W];
            nf4_codes(code, codes + e / 2);
#pragma unroll
            for (int i = 0; i < W; i++)
                v[i] = value[code[i]] * scale;
            nf4_store(w + r * wide + c, v);
        } else {
            const int two = codes[e / 2];
            act_store(w + r * wide + c, value[two >> 4] * scale);
            act_store(w + r * wide + c + 1, value[two & 15] * scale);
        }
    }
}

#ifndef __CUDACC_RTC__
static inline void dequant_nf4(act_t *w, const uint8_t *codes, const uint8_t *absmax,
                               const float *nested, const float *offset, Nf4Rows rows,
                               int64_t bytes, int64_t wide, cudaStream_t s)
{
    const int64_t C = 2 * bytes;
    const bool vector = C % NF4_VECTOR == 0 && wide % ACT_VECTOR == 0 && aligned(w, 16) &&
                        aligned(codes, sizeof(uint32_t));
    const int64_t O = rows.w0 + rows.w1 + rows.w2, W = vector ? NF4_VECTOR : 2;
    int threads = NF4_THREADS;
    while (threads / 2 >= C / W)
        threads /= 2;
    const int together = NF4_THREADS / threads;
    launch(vector ? dequant_nf4_kernel<NF4_VECTOR> : dequant_nf4_kernel<2>,
           blocks_over(O, together), dim3(threads, together), 0, s, w, codes, absmax, nested,
           offset, rows, O, C, wide);
}
#else
template __global__ void dequant_nf4_kernel<C % NF4_VECTOR ? 2 : NF4_VECTOR>(
    act_t *, const uint8_t *, const uint8_t *, const float *, const float *, Nf4Rows, int64_t,
    int64_t, int64_t);
#endif

#endif
