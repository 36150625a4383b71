/* attention_cudnn.cuh -- causal attention and its gradient by cuDNN.
 *
 * In:    the layouts of attention.cuh.
 * Keeps: every shape is compiled once, by the functions _start, before the first call; the program
 *        ends with EXIT_CONFIG if cuDNN is missing, cannot, or needs more workspace than the plan
 *        has. */
#ifndef DIECAST_KERNELS_ATTENTION_CUDNN_CUH
#define DIECAST_KERNELS_ATTENTION_CUDNN_CUH

#include "types.cuh"
#include "workspace.h"

#ifndef __CUDACC_RTC__

#include <stdlib.h>

#include "../../runtime/attention_cudnn.h"

/* A compiled pass; backward: the gradient. */
typedef struct {
    bool backward;
    CudnnAttentionShape shape;
    CudnnAttention *pass;
} AttentionPass;

enum { MOST_ATTENTION_PASSES = 32 };
static AttentionPass attention_passes[MOST_ATTENTION_PASSES];
static int attention_npasses;

static inline void attention_cudnn_check_(char *error)
{
    if (error)
        die(EXIT_INTERNAL, "cuDNN: %s", error);
}

static inline CudnnAttentionShape attention_cudnn_shape_(int64_t B, int64_t T, int64_t H, int64_t K,
                                                         int64_t D, float scale)
{
#ifdef ACT_F16
    return {B, T, H, K, D, scale, true};
#else
    return {B, T, H, K, D, scale, false};
#endif
}

/* Returns the pass for a shape. */
static inline CudnnAttention *attention_cudnn_pass_(bool backward, const CudnnAttentionShape &shape)
{
    for (int i = 0; i < attention_npasses; i++) {
        const CudnnAttentionShape &s = attention_passes[i].shape;
        if (attention_passes[i].backward == backward && s.B == shape.B && s.T == shape.T &&
            s.H == shape.H && s.K == shape.K && s.D == shape.D && s.scale == shape.scale)
            return attention_passes[i].pass;
    }
    die(EXIT_INTERNAL, "cuDNN: attention of this shape was not compiled at start");
}

/* workspace: bytes that the plan has for the pass */
static inline void attention_cudnn_compile_(bool backward, const CudnnAttentionShape &shape,
                                            int64_t workspace)
{
    REQUIRE(attention_npasses < MOST_ATTENTION_PASSES);
    char *error = NULL;
    CudnnAttention *pass = backward ? cudnn_attention_backward(&shape, NULL, &error)
                                    : cudnn_attention_forward(&shape, NULL, &error);
    if (!pass)
        die(EXIT_CONFIG, "kernels.attention = cudnn: %s; install cuDNN 9.19, or set "
            "kernels.attention = builtin", error);
    const int64_t needs = cudnn_attention_workspace(pass);
    const int v = (int)cudnn_version();
    if (needs > workspace)
        die(EXIT_CONFIG,
            "kernels.attention = cudnn: cuDNN %d.%d.%d needs %lld bytes of workspace, but the plan "
            "has %lld; try kernels.attention = builtin, or cuDNN 9.19",
            v / 10000, v / 100 % 100, v % 100, (long long)needs, (long long)workspace);
    attention_passes[attention_npasses++] = {backward, shape, pass};
}

/* Compiles the forward pass for a shape. */
static inline void attention_cudnn_fwd_start(int64_t B, int64_t T, int64_t H, int64_t K, int64_t D,
                                             float scale)
{
    attention_cudnn_compile_(false, attention_cudnn_shape_(B, T, H, K, D, scale),
                             attention_fwd_cudnn_workspace());
}

/* Compiles the gradient for a shape. */
static inline void attention_cudnn_bwd_start(int64_t B, int64_t T, int64_t H, int64_t K, int64_t D,
                                             float scale)
{
    attention_cudnn_compile_(true, attention_cudnn_shape_(B, T, H, K, D, scale),
                             attention_bwd_cudnn_workspace(B, T, H, K, D, sizeof(act_t)));
}

/* ws: attention_fwd_cudnn_workspace() bytes */
static inline void attention_cudnn_fwd(act_t *o, float *lse, const act_t *qkv, int64_t B, int64_t T,
                                       int64_t H, int64_t K, int64_t D, float scale, void *ws,
                                       cudaStream_t s)
{
    attention_cudnn_check_(cudnn_attention_run_forward(
        attention_cudnn_pass_(false, attention_cudnn_shape_(B, T, H, K, D, scale)), o, lse, qkv, ws,
        s));
}

/* dqkv is overwritten; ws: attention_bwd_cudnn_workspace(B, T, H, K, D, sizeof(act_t)) bytes */
static inline void attention_cudnn_bwd(act_t *dqkv, const act_t *d_o, const act_t *o,
                                       const float *lse, const act_t *qkv, int64_t B, int64_t T,
                                       int64_t H, int64_t K, int64_t D, float scale, void *ws,
                                       cudaStream_t s)
{
    attention_cudnn_check_(cudnn_attention_run_backward(
        attention_cudnn_pass_(true, attention_cudnn_shape_(B, T, H, K, D, scale)), dqkv, d_o, o,
        lse, qkv, ws, s));
}

#endif

#endif
