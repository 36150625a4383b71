/* attention_cudnn.cuh -- causal attention and its gradient by cuDNN.
 *
 * In:    the layouts of attention.cuh.
 * Keeps: a shape is compiled at its first call, which must not be captured; the program ends with
 *        EXIT_CONFIG if cuDNN cannot, or needs more workspace than the plan has. */
#ifndef DIECAST_KERNELS_ATTENTION_CUDNN_CUH
#define DIECAST_KERNELS_ATTENTION_CUDNN_CUH

#include "types.cuh"
#include "workspace.h"

#ifndef __CUDACC_RTC__

#include <stdlib.h>

#include "../../runtime/attention_cudnn.h"

/* Before the first call: ends the program if the library is missing. */
static inline void attention_cudnn_start(void)
{
    const char *missing = cudnn_open();
    if (missing)
        die(EXIT_CONFIG, "kernels.attention = cudnn: %s; install cuDNN 9", missing);
}

static inline void attention_cudnn_check_(char *error)
{
    if (error)
        die(EXIT_INTERNAL, "cuDNN: %s", error);
}

/* Returns the pass for a shape, compiled once. workspace: bytes that the plan has for it. */
static inline CudnnAttention *attention_cudnn_pass_(bool backward, const CudnnAttentionShape &shape,
                                                    int64_t workspace)
{
    static struct {
        bool backward;
        CudnnAttentionShape shape;
        CudnnAttention *pass;
    } made[32];
    static int n;
    for (int i = 0; i < n; i++) {
        const CudnnAttentionShape &s = made[i].shape;
        if (made[i].backward == backward && s.B == shape.B && s.T == shape.T && s.H == shape.H &&
            s.K == shape.K && s.D == shape.D && s.scale == shape.scale)
            return made[i].pass;
    }
    REQUIRE(n < (int)(sizeof made / sizeof made[0]));
    char *error = NULL;
    CudnnAttention *pass = backward ? cudnn_attention_backward(&shape, NULL, &error)
                                    : cudnn_attention_forward(&shape, NULL, &error);
    if (!pass)
        die(EXIT_CONFIG, "kernels.attention = cudnn: %s; try kernels.attention = builtin", error);
    const int64_t needs = cudnn_attention_workspace(pass);
    if (needs > workspace)
        die(EXIT_CONFIG,
            "kernels.attention = cudnn: cuDNN %lld needs %lld bytes of workspace, but the plan has "
            "%lld; try kernels.attention = builtin, or cuDNN 9.19",
            (long long)cudnn_version(), (long long)needs, (long long)workspace);
    made[n].backward = backward, made[n].shape = shape;
    return made[n++].pass = pass;
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

/* ws: attention_fwd_cudnn_workspace() bytes */
static inline void attention_cudnn_fwd(act_t *o, float *lse, const act_t *qkv, int64_t B, int64_t T,
                                       int64_t H, int64_t K, int64_t D, float scale, void *ws,
                                       cudaStream_t s)
{
    attention_cudnn_check_(cudnn_attention_run_forward(
        attention_cudnn_pass_(false, attention_cudnn_shape_(B, T, H, K, D, scale),
                              attention_fwd_cudnn_workspace()),
        o, lse, qkv, ws, s));
}

/* dqkv is overwritten; ws: attention_bwd_cudnn_workspace(B, T, H, K, D, sizeof(act_t)) bytes */
static inline void attention_cudnn_bwd(act_t *dqkv, const act_t *d_o, const act_t *o,
                                       const float *lse, const act_t *qkv, int64_t B, int64_t T,
                                       int64_t H, int64_t K, int64_t D, float scale, void *ws,
                                       cudaStream_t s)
{
    attention_cudnn_check_(cudnn_attention_run_backward(
        attention_cudnn_pass_(true, attention_cudnn_shape_(B, T, H, K, D, scale),
                              attention_bwd_cudnn_workspace(B, T, H, K, D, sizeof(act_t))),
        dqkv, d_o, o, lse, qkv, ws, s));
}

#endif

#endif
