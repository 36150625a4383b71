/* attention_cudnn.h -- causal attention and its gradient by cuDNN's fused kernels.
 *
 * In:    the packed qkv of kernels/cuda/attention.cuh, read and written through strides.
 * Keeps: libcudnn.so.9 is opened at run time, with our own declarations. The gradient is
 *        deterministic, at the price of T x T scores a head in the workspace. One thread calls.
 *        Runs may be captured into a CUDA graph. */
#ifndef DIECAST_ATTENTION_CUDNN_H
#define DIECAST_ATTENTION_CUDNN_H

#include <stdbool.h>
#include <stdint.h>

#include "library.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* B sequences of T tokens, H query heads and K key heads (H a multiple of K) of D elements (a
 * multiple of 8, at most 128); scores are scale * q k^T; bf16, or fp16 if is_half. */
typedef struct {
    int64_t B, T, H, K, D;
    float scale;
    bool is_half;
} CudnnAttentionShape;

/* A compiled pass for one shape. */
typedef struct CudnnAttention CudnnAttention;

/* Opens the library at the first call; later calls return the same. NULL: success; otherwise the
 * reason, with the name of the library. */
const char *cudnn_open(void);
int64_t cudnn_version(void);                 /* 91900 is 9.19.0; after cudnn_open() */
/* With its version, unless it is missing. */
LibraryVersion cudnn_library(void);

/* Both compile one pass, which takes seconds. device: cuDNN's JSON of a GPU's properties, to
 * compile without that GPU; NULL: for the current one. Return memory that lives until exit, or NULL
 * with a malloc'ed *error: the call that failed and what cuDNN says about it. */
CudnnAttention *cudnn_attention_forward(const CudnnAttentionShape *shape, const char *device,
                                        char **error);
CudnnAttention *cudnn_attention_backward(const CudnnAttentionShape *shape, const char *device,
                                         char **error);
/* Returns the bytes of device memory, aligned to 256, that a run needs. They hold nothing between
 * runs. kernels/cuda/workspace.h has the formula, for plans made without the library. */
int64_t cudnn_attention_workspace(const CudnnAttention *a);

/* o (B, T, H, D), lse (B, H, T) fp32, natural logarithm, from qkv (B, T, H + 2 K, D). All
 * addresses are aligned to 16 bytes. NULL: success; otherwise a malloc'ed error. */
char *cudnn_attention_run_forward(CudnnAttention *a, void *o, float *lse, const void *qkv,
                                  void *workspace, struct CUstream_st *s);
/* dqkv (B, T, H + 2 K, D) is overwritten. */
char *cudnn_attention_run_backward(CudnnAttention *a, void *dqkv, const void *d_o, const void *o,
                                   const float *lse, const void *qkv, void *workspace,
                                   struct CUstream_st *s);

#ifdef __cplusplus
}
#endif

#endif
