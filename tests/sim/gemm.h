/* gemm.h -- a plain matrix product on the host, and numbers in their storage types.
 *
 * Keeps: column-major; types are those of cudaDataType_t: CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF;
 *        rounding to the nearest even. */
#ifndef SIM_GEMM_H
#define SIM_GEMM_H

#include <stdint.h>

struct GemmOperand {
    const void *p;
    int type;
    int64_t ld;
    bool transposed;
};

float gemm_load(const void *p, int type, int64_t i);
void gemm_store(void *p, int type, int64_t i, float value);

/* gelu(z) = z/2 (1 + tanh(u)), u = sqrt(2/pi) (z + 0.044715 z^3) */
float gemm_gelu(float z);
float gemm_gelu_grad(float z);

/* sum (m, n) += op(A)[:, first..last) op(B)[first..last, :) in fp32, in order of k. */
void gemm_add(float *sum, const GemmOperand &a, const GemmOperand &b, int64_t m, int64_t n,
              int64_t first, int64_t last);

#endif
