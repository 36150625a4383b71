/* ffn.cuh -- feed-forward layers a tile of rows at a time: no (rows, F) is stored.
 *
 * In:    x, dy (rows, C); tile | rows; the products of a tile, passed to gemm_init.
 * Out:   y = down act(up x + up_bias) + down_bias; dx, and the gradients of the weights in fp32.
 * Keeps: gradients add the tiles in order.
 * Method: the backward pass computes the first layer of a tile again. */
#ifndef DIECAST_KERNELS_CUDA_FFN_CUH
#define DIECAST_KERNELS_CUDA_FFN_CUH

/* The kernels below that a call uses, by its activation. */
#ifdef __CUDACC_RTC__
#ifdef KERNEL_ffn_fwd_swiglu
#define KERNEL_swiglu_fwd 1
#endif
#ifdef KERNEL_ffn_bwd_swiglu
#define KERNEL_swiglu_bwd 1
#endif
#ifdef KERNEL_ffn_fwd_geglu
#define KERNEL_geglu_fwd 1
#endif
#ifdef KERNEL_ffn_bwd_geglu
#define KERNEL_geglu_bwd 1
#endif
#ifdef KERNEL_ffn_fwd_gelu_erf
#define KERNEL_gelu_erf_fwd 1
#endif
#ifdef KERNEL_ffn_bwd_gelu_erf
#define KERNEL_gelu_erf_bwd 1
#endif
#ifdef KERNEL_ffn_fwd_relu
#define KERNEL_relu_fwd 1
#endif
#ifdef KERNEL_ffn_bwd_relu
#define KERNEL_relu_bwd 1
#endif
#endif

#include "activation.cuh"
#include "linear.cuh"
#include "pointwise.cuh"

#ifndef __CUDACC_RTC__
enum FfnActivation { FFN_GELU, FFN_GELU_ERF, FFN_RELU, FFN_SWIGLU, FFN_GEGLU };

/* Operands that not every layer has are nullptr. */
struct FfnWeights {
    const wt_t *up = nullptr, *down = nullptr;   // (G, C), G = F or, of a gated one, 2 F; (C, F)
    const wt_t *up_bias = nullptr, *down_bias = nullptr;             // (G), (C)
};

struct FfnGrads {
    float *up = nullptr, *down = nullptr, *up_bias = nullptr;        // nullptr: frozen
};

/* Values of a tile in the workspace. */
struct FfnTile {
    act_t *wide, *act;                                               // (tile, G), (tile, F)
};

static constexpr int64_t ffn_wide_(FfnActivation activation, int64_t F)
{
    return activation == FFN_SWIGLU || activation == FFN_GEGLU ? 2 * F : F;
}

static inline FfnTile ffn_tile_(void *ws, int64_t tile, int64_t G)
{
    char *wide = (char *)ws + cuda_workspace_round(linear_dw_bias_cuda_workspace(G));
    return { (act_t *)wide,
             (act_t *)(wide + cuda_workspace_round(tile * G * (int64_t)sizeof(act_t))) };
}

template <FfnActivation ACTIVATION>
static inline void ffn_act_(FfnTile t, int64_t rows, int64_t F, cudaStream_t s)
{
    if constexpr (ACTIVATION == FFN_GELU)
        gelu_fwd(t.act, t.wide, rows * F, s);
    else if constexpr (ACTIVATION == FFN_GELU_ERF)
        gelu_erf_fwd(t.act, t.wide, rows * F, s);
    else if constexpr (ACTIVATION == FFN_RELU)
        relu_fwd(t.act, t.wide, rows * F, s);
    else
        gated_fwd<ACTIVATION == FFN_SWIGLU ? SILU_GATE : GELU_GATE>(t.act, t.wide, rows, F, s);
}

/* The gradient of the wide values, in their place, of that of act. */
template <FfnActivation ACTIVATION>
static inline void ffn_act_bwd_(FfnTile t, int64_t rows, int64_t F, cudaStream_t s)
{
    if constexpr (ACTIVATION == FFN_GELU)
        gelu_bwd(t.wide, t.act, t.wide, rows * F, s);
    else if constexpr (ACTIVATION == FFN_GELU_ERF)
        gelu_erf_bwd(t.wide, t.act, t.wide, rows * F, s);
    else if constexpr (ACTIVATION == FFN_RELU)
        relu_bwd(t.wide, t.act, t.wide, rows * F, s);
    else
        gated_bwd<ACTIVATION == FFN_SWIGLU ? SILU_GATE : GELU_GATE>(t.wide, t.act, t.wide, rows, F,
                                                                    s);
}

/* mm_up: { .m = tile, .n = G, .k = C, .form = GEMM_NT }, mm_down: { .m = tile, .n = C, .k = F,
 * .form = GEMM_NT }, .bias = 1 with biases; ws: ffn_cuda_workspace(tile, G, G / F) bytes. y may be
 * x. */
template <FfnActivation ACTIVATION>
static inline void ffn_fwd(act_t *y, const act_t *x, const FfnWeights &w, int64_t rows, int64_t C,
                           int64_t F, int64_t tile, const Gemm *mm_up, const Gemm *mm_down,
                           void *ws, cudaStream_t s)
{
    const FfnTile t = ffn_tile_(ws, tile, ffn_wide_(ACTIVATION, F));
    for (int64_t i = 0; i < rows; i += tile) {
        gemm_run(mm_up, t.wide, x + i * C, w.up, w.up_bias, NULL, ws, s);
        ffn_act_<ACTIVATION>(t, tile, F, s);
        gemm_run(mm_down, y + i * C, t.act, w.down, w.down_bias, NULL, ws, s);
    }
}

/* mm_up: as above; mm_down_dx: { .m = tile, .n = F, .k = C, .form = GEMM_NN }, mm_up_dx:
 * { .m = tile, .n = C, .k = G, .form = GEMM_NN }; mm_down_dw: { .m = C, .n = F, .k = tile, .form =
 * GEMM_TN, .out_f32 = 1, .beta = 1 }, mm_up_dw: { .m = G, .n = C, .k = tile } likewise, for tiles
 * add up, nullptr with frozen weights. beta: the call adds to the gradients. dx may be dy or x. */
template <FfnActivation ACTIVATION>
static inline void ffn_bwd(act_t *dx, const act_t *dy, const act_t *x, const FfnWeights &w,
                           const FfnGrads &d, int64_t rows, int64_t C, int64_t F, int64_t tile,
                           int beta, const Gemm *mm_up, const Gemm *mm_down_dw,
                           const Gemm *mm_down_dx, const Gemm *mm_up_dw, const Gemm *mm_up_dx,
                           void *ws, cudaStream_t s)
{
    const int64_t G = ffn_wide_(ACTIVATION, F);
    const FfnTile t = ffn_tile_(ws, tile, G);
    for (int64_t i = 0; i < rows; i += tile) {
        const float add = i || beta ? 1.0f : 0.0f;
        gemm_run(mm_up, t.wide, x + i * C, w.up, w.up_bias, NULL, ws, s);
        if (d.down) {
            ffn_act_<ACTIVATION>(t, tile, F, s);
            gemm_run_beta(mm_down_dw, add, d.down, dy + i * C, t.act, NULL, NULL, ws, s);
        }
        gemm_run(mm_down_dx, t.act, dy + i * C, w.down, NULL, NULL, ws, s);
        ffn_act_bwd_<ACTIVATION>(t, tile, F, s);
        if (d.up)
            gemm_run_beta(mm_up_dw, add, d.up, t.wide, x + i * C, NULL, NULL, ws, s);
        if (d.up_bias)
            bias_grad(d.up_bias, t.wide, tile, G, i || beta, ws, s);
        gemm_run(mm_up_dx, dx + i * C, t.wide, w.up, NULL, NULL, ws, s);
    }
}
#endif

#endif
