/* ffn_lora.cuh -- frozen feed-forward layers with LoRA adapters, a tile of rows at a time.
 *
 * In:    as ffn.cuh; adapters of the first layer, the second or both, as lora.cuh has them.
 * Out:   as ffn.cuh, with what the adapters add; dx, and the adapters' gradients in fp32.
 * Keeps: gradients add the tiles in order. */
#ifndef DIECAST_KERNELS_CUDA_FFN_LORA_CUH
#define DIECAST_KERNELS_CUDA_FFN_LORA_CUH

/* The kernels of ffn.cuh that a call uses, by its activation. */
#ifdef __CUDACC_RTC__
#ifdef KERNEL_ffn_lora_fwd_swiglu
#define KERNEL_ffn_fwd_swiglu 1
#endif
#ifdef KERNEL_ffn_lora_bwd_swiglu
#define KERNEL_ffn_bwd_swiglu 1
#endif
#ifdef KERNEL_ffn_lora_fwd_geglu
#define KERNEL_ffn_fwd_geglu 1
#endif
#ifdef KERNEL_ffn_lora_bwd_geglu
#define KERNEL_ffn_bwd_geglu 1
#endif
#ifdef KERNEL_ffn_lora_fwd_gelu_erf
#define KERNEL_ffn_fwd_gelu_erf 1
#endif
#ifdef KERNEL_ffn_lora_bwd_gelu_erf
#define KERNEL_ffn_bwd_gelu_erf 1
#endif
#endif

#include "ffn.cuh"
#include "lora.cuh"

#ifndef __CUDACC_RTC__
/* nullptr: the layer has none. */
struct FfnAdapters {
    const wt_t *up_a = nullptr, *up_b = nullptr, *down_a = nullptr, *down_b = nullptr;
};

struct FfnAdapterGrads {
    float *up_a = nullptr, *up_b = nullptr, *down_a = nullptr, *down_b = nullptr;
};

/* Values of a tile in the workspace. */
struct FfnLoraTile {
    FfnTile t;
    act_t *dact, *up_u, *down_u;                     // (tile, F), (tile, parts * rank) each
};

static inline FfnLoraTile ffn_lora_tile_(void *ws, int64_t tile, int64_t G, int64_t F,
                                         const Lora *up, const Lora *down)
{
    const int64_t act = sizeof(act_t), ups = up ? up->parts * up->rank : 0;
    char *wide = (char *)ws + ffn_lora_cuda_products_workspace(
                                  tile, up ? up->rank : down->rank, up ? up->parts : 0,
                                  down ? down->parts : 0, act);
    char *first = wide + cuda_workspace_round(tile * G * act);
    char *second = first + cuda_workspace_round(tile * F * act);
    char *u = second + cuda_workspace_round(tile * F * act);
    return { { (act_t *)wide, (act_t *)first }, (act_t *)second, (act_t *)u,
             (act_t *)(u + cuda_workspace_round(tile * ups * act)) };
}

static inline void ffn_lora_up_(const FfnLoraTile &t, const act_t *x, const FfnWeights &w,
                                const FfnAdapters &a, const Gemm *mm_up, const Lora *up, void *ws,
                                cudaStream_t s)
{
    gemm_run(mm_up, t.t.wide, x, w.up, w.up_bias, NULL, ws, s);
    if (up)
        lora_fwd(t.t.wide, t.up_u, x, a.up_a, a.up_b, NULL, 0, up, ws, s);
}

/* mm_up, mm_down: as of ffn_fwd; up, down: of a tile's rows, without dropout, nullptr without
 * adapters; ws: ffn_lora_cuda_workspace(...) bytes. y may be x. */
template <FfnActivation ACTIVATION>
static inline void ffn_lora_fwd(act_t *y, const act_t *x, const FfnWeights &w, const FfnAdapters &a,
                                int64_t rows, int64_t C, int64_t F, int64_t tile,
                                const Gemm *mm_up, const Gemm *mm_down, const Lora *up,
                                const Lora *down, void *ws, cudaStream_t s)
{
    const FfnLoraTile t = ffn_lora_tile_(ws, tile, ffn_wide_(ACTIVATION, F), F, up, down);
    for (int64_t i = 0; i < rows; i += tile) {
        ffn_lora_up_(t, x + i * C, w, a, mm_up, up, ws, s);
        ffn_act_<ACTIVATION>(t.t, tile, F, s);
        gemm_run(mm_down, y + i * C, t.t.act, w.down, w.down_bias, NULL, ws, s);
        if (down)
            lora_fwd(y + i * C, t.down_u, t.t.act, a.down_a, a.down_b, NULL, 0, down, ws, s);
    }
}

static inline void ffn_lora_clear_(float *da, float *db, const Lora *l, cudaStream_t s)
{
    int64_t columns = 0;
    for (int64_t p = 0; p < l->parts; p++)
        columns += l->width[p];
    cuda_check(cudaMemsetAsync(da, 0, (size_t)(l->parts * l->rank * l->in) * sizeof *da, s),
               "clearing a gradient");
    cuda_check(cudaMemsetAsync(db, 0, (size_t)(columns * l->rank) * sizeof *db, s),
               "clearing a gradient");
}

/* mm_up, mm_down_dx, mm_up_dx: as of ffn_bwd; up, down: as above; up_bwd, down_bwd: the products of
 * their gradients, which add to them. beta: the call adds to the gradients. dx may be dy. */
template <FfnActivation ACTIVATION>
static inline void ffn_lora_bwd(act_t *dx, const act_t *dy, const act_t *x, const FfnWeights &w,
                                const FfnAdapters &a, const FfnAdapterGrads &d, int64_t rows,
                                int64_t C, int64_t F, int64_t tile, int beta, const Gemm *mm_up,
                                const Gemm *mm_down_dx, const Gemm *mm_up_dx, const Lora *up,
                                const Lora *down, const Lora *up_bwd, const Lora *down_bwd,
                                void *ws, cudaStream_t s)
{
    const FfnLoraTile t = ffn_lora_tile_(ws, tile, ffn_wide_(ACTIVATION, F), F, up, down);
    if (up && !beta)
        ffn_lora_clear_(d.up_a, d.up_b, up, s);
    if (down && !beta)
        ffn_lora_clear_(d.down_a, d.down_b, down, s);
    for (int64_t i = 0; i < rows; i += tile) {
        ffn_lora_up_(t, x + i * C, w, a, mm_up, up, ws, s);
        gemm_run(mm_down_dx, t.dact, dy + i * C, w.down, NULL, NULL, ws, s);
        if (down) {
            ffn_act_<ACTIVATION>(t.t, tile, F, s);
            gemm_run(down->u, t.down_u, t.t.act, a.down_a, NULL, NULL, ws, s);
            lora_bwd(t.dact, d.down_a, d.down_b, dy + i * C, t.t.act, t.down_u, a.down_a, a.down_b,
                     NULL, 0, down_bwd, ws, s);
        }
        ffn_act_bwd_<ACTIVATION>({ t.t.wide, t.dact }, tile, F, s);
        gemm_run(mm_up_dx, dx + i * C, t.t.wide, w.up, NULL, NULL, ws, s);
        if (up)
            lora_bwd(dx + i * C, d.up_a, d.up_b, t.t.wide, x + i * C, t.up_u, a.up_a, a.up_b, NULL,
                     0, up_bwd, ws, s);
    }
}
#endif

#endif
