/* ffn.h -- feed-forward layers a tile of rows at a time: no (rows, F) is stored.
 *
 * In:    x, dy (rows, C); tile | rows; the products of a tile, passed to gemm_init.
 * Out:   y = down act(up x + up_bias) + down_bias; dx, and the gradients of the weights in fp32.
 * Keeps: a row of y and dx has the same bits for any tile; gradients add the tiles in order.
 * Method: the backward pass computes the first layer of a tile again. */
#ifndef DIECAST_KERNELS_FFN_H
#define DIECAST_KERNELS_FFN_H

#include "activation.h"
#include "linear.h"
#include "pointwise.h"

typedef enum { FFN_GELU, FFN_GELU_ERF, FFN_RELU, FFN_SWIGLU, FFN_GEGLU } FfnActivation;

/* Operands that not every layer has are NULL. */
typedef struct {
    const wt_t *up, *down;           /* (G, C), G = F or, of a gated activation, 2 F; (C, F) */
    const wt_t *up_bias, *down_bias; /* (G), (C) */
} FfnWeights;

typedef struct {
    float *up, *down, *up_bias;      /* NULL: frozen */
} FfnGrads;

/* Values of a tile in the workspace. */
typedef struct {
    act_t *wide, *act;               /* (tile, G), (tile, F) */
} FfnTile;

static inline int64_t ffn_wide_(FfnActivation activation, int64_t F)
{
    return activation == FFN_SWIGLU || activation == FFN_GEGLU ? 2 * F : F;
}

static inline FfnTile ffn_tile_(void *ws, int64_t tile, int64_t G)
{
    char *wide = (char *)ws + ffn_products_workspace(G);
    return (FfnTile){ (act_t *)wide,
                      (act_t *)(wide + workspace_round(tile * G * (int64_t)sizeof(act_t))) };
}

static inline void ffn_act_(FfnTile t, FfnActivation activation, int64_t rows, int64_t F)
{
    switch (activation) {
    case FFN_GELU: gelu_fwd(t.act, t.wide, rows * F); break;
    case FFN_GELU_ERF: gelu_erf_fwd(t.act, t.wide, rows * F); break;
    case FFN_RELU: relu_fwd(t.act, t.wide, rows * F); break;
    case FFN_SWIGLU: swiglu_fwd(t.act, t.wide, rows, F); break;
    case FFN_GEGLU: geglu_fwd(t.act, t.wide, rows, F); break;
    }
}

/* The gradient of the wide values, in their place, of that of act. */
static inline void ffn_act_bwd_(FfnTile t, FfnActivation activation, int64_t rows, int64_t F)
{
    switch (activation) {
    case FFN_GELU: gelu_bwd(t.wide, t.act, t.wide, rows * F); break;
    case FFN_GELU_ERF: gelu_erf_bwd(t.wide, t.act, t.wide, rows * F); break;
    case FFN_RELU: relu_bwd(t.wide, t.act, t.wide, rows * F); break;
    case FFN_SWIGLU: swiglu_bwd(t.wide, t.act, t.wide, rows, F); break;
    case FFN_GEGLU: geglu_bwd(t.wide, t.act, t.wide, rows, F); break;
    }
}

/* mm_up: { .m = tile, .n = G, .k = C, .form = GEMM_NT }, mm_down: { .m = tile, .n = C, .k = F,
 * .form = GEMM_NT }, .bias = 1 with biases; ws: ffn_workspace(tile, G, G / F) bytes. y may be x. */
static inline void ffn_fwd(act_t *y, const act_t *x, const FfnWeights *w, FfnActivation activation,
                           int64_t rows, int64_t C, int64_t F, int64_t tile, Gemm *mm_up,
                           Gemm *mm_down, void *ws)
{
    const FfnTile t = ffn_tile_(ws, tile, ffn_wide_(activation, F));
    for (int64_t i = 0; i < rows; i += tile) {
        gemm_run(mm_up, t.wide, x + i * C, w->up, w->up_bias, ws);
        ffn_act_(t, activation, tile, F);
        gemm_run(mm_down, y + i * C, t.act, w->down, w->down_bias, ws);
    }
}

/* mm_up: as above; mm_down_dx: { .m = tile, .n = F, .k = C, .form = GEMM_NN }, mm_up_dx:
 * { .m = tile, .n = C, .k = G, .form = GEMM_NN }; mm_down_dw: { .m = C, .n = F, .k = tile, .form =
 * GEMM_TN, .out_f32 = 1, .beta = 1 }, mm_up_dw: { .m = G, .n = C, .k = tile } likewise, for tiles
 * add up, NULL with frozen weights. beta: the call adds to the gradients. dx may be dy or x. */
static inline void ffn_bwd(act_t *dx, const act_t *dy, const act_t *x, const FfnWeights *w,
                           const FfnGrads *d, FfnActivation activation, int64_t rows, int64_t C,
                           int64_t F, int64_t tile, int beta, Gemm *mm_up, Gemm *mm_down_dw,
                           Gemm *mm_down_dx, Gemm *mm_up_dw, Gemm *mm_up_dx, void *ws)
{
    const int64_t G = ffn_wide_(activation, F);
    const FfnTile t = ffn_tile_(ws, tile, G);
    if (d->up && !beta) {
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < G; i++)
            memset(d->up + i * C, 0, sizeof(float) * (size_t)C);
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < C; i++)
            memset(d->down + i * F, 0, sizeof(float) * (size_t)F);
    }
    for (int64_t i = 0; i < rows; i += tile) {
        gemm_run(mm_up, t.wide, x + i * C, w->up, w->up_bias, ws);
        if (d->down) {
            ffn_act_(t, activation, tile, F);
            gemm_run(mm_down_dw, d->down, dy + i * C, t.act, NULL, ws);
        }
        gemm_run(mm_down_dx, t.act, dy + i * C, w->down, NULL, ws);
        ffn_act_bwd_(t, activation, tile, F);
        if (d->up)
            gemm_run(mm_up_dw, d->up, t.wide, x + i * C, NULL, ws);
        if (d->up_bias)
            bias_grad(d->up_bias, t.wide, tile, G, i || beta, ws);
        gemm_run(mm_up_dx, dx + i * C, t.wide, w->up, NULL, ws);
    }
}

#endif
