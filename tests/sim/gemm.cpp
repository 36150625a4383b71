/* gemm.cpp -- a plain matrix product on the host.
 *
 * Method: blocks of KC of the inner dimension are packed into panels of MR rows and NR columns as
 *         fp32; the inner loop holds an MR x NR tile of sums in registers. */
#include "gemm.h"

#include "include/cublasLt.h"

#include <algorithm>
#include <math.h>
#include <string.h>
#include <vector>

static constexpr int MR = 16, NR = 6, KC = 256;

typedef float Row __attribute__((vector_size(MR * sizeof(float))));

#if defined __GNUC__ && !defined __clang__ && defined __x86_64__
#define CLONES __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define CLONES
#endif

static float half_load(uint16_t bits)
{
    _Float16 value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

static float bf16_load(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

float gemm_load(const void *p, int type, int64_t i)
{
    return type == CUDA_R_32F   ? ((const float *)p)[i]
           : type == CUDA_R_16F ? half_load(((const uint16_t *)p)[i])
                                : bf16_load(((const uint16_t *)p)[i]);
}

void gemm_store(void *p, int type, int64_t i, float value)
{
    if (type == CUDA_R_32F) {
        ((float *)p)[i] = value;
    } else if (type == CUDA_R_16F) {
        _Float16 half = (_Float16)value;
        memcpy((uint16_t *)p + i, &half, sizeof half);
    } else {
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        ((uint16_t *)p)[i] = value != value ? 0x7fff
                                            : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

float gemm_gelu(float z)
{
    return 0.5f * z * (1 + tanhf(0.7978845608f * (z + 0.044715f * z * z * z)));
}

float gemm_gelu_grad(float z)
{
    float t = tanhf(0.7978845608f * (z + 0.044715f * z * z * z));
    return 0.5f * (1 + t) + 0.5f * z * (1 - t * t) * 0.7978845608f * (1 + 0.134145f * z * z);
}

/* op(X)[at + i, k] for i < count, k in [first, last), as (last - first, width), zeros beyond */
static void pack(float *to, const GemmOperand &x, bool by_row, int64_t at, int64_t count, int width,
                 int64_t first, int64_t last)
{
    /* element (i, k) of an operand whose k runs along its columns lies at k * ld + i */
    bool k_is_column = by_row != x.transposed;
    for (int64_t k = first; k < last; k++, to += width) {
        for (int i = 0; i < width; i++)
            to[i] = i >= count ? 0
                               : gemm_load(x.p, x.type, k_is_column ? k * x.ld + at + i
                                                                    : (at + i) * x.ld + k);
    }
}

CLONES static void tile(float *sum, int64_t ld, const float *a, const float *b, int64_t depth,
                        int64_t rows, int64_t cols)
{
    Row t[NR] = {};
    for (int64_t j = 0; j < cols; j++)
        memcpy(&t[j], sum + j * ld, sizeof(float) * (size_t)rows);
    for (int64_t k = 0; k < depth; k++, a += MR, b += NR) {
        Row column;
        memcpy(&column, a, sizeof column);
        for (int j = 0; j < NR; j++)
            t[j] += column * b[j];
    }
    for (int64_t j = 0; j < cols; j++)
        memcpy(sum + j * ld, &t[j], sizeof(float) * (size_t)rows);
}

void gemm_add(float *sum, const GemmOperand &a, const GemmOperand &b, int64_t m, int64_t n,
              int64_t first, int64_t last)
{
    int64_t panels = (m + MR - 1) / MR;
    std::vector<float> pa((size_t)(panels * MR * KC)), pb((size_t)NR * KC);
    for (int64_t k = first; k < last; k += KC) {
        int64_t end = k + KC < last ? k + KC : last, depth = end - k;
        for (int64_t i = 0; i < panels; i++)
            pack(&pa[(size_t)(i * MR * depth)], a, true, i * MR, m - i * MR, MR, k, end);
        for (int64_t j = 0; j < n; j += NR) {
            pack(pb.data(), b, false, j, n - j, NR, k, end);
            for (int64_t i = 0; i < panels; i++)
                tile(sum + j * m + i * MR, m, &pa[(size_t)(i * MR * depth)], pb.data(), depth,
                     std::min<int64_t>(m - i * MR, MR), std::min<int64_t>(n - j, NR));
        }
    }
}
