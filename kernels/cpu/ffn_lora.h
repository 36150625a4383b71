/* ffn_lora.h -- frozen feed-forward layers with LoRA adapters, a tile of rows at a time.
 *
 * In:    as ffn.h; adapters of the first layer, the second or both, as lora.h has them.
 * Out:   as ffn.h, with what the adapters add; dx, and the adapters' gradients in fp32.
 * Keeps: a row of y and dx has the same bits for any tile; gradients add the tiles in order. */
#ifndef DIECAST_KERNELS_FFN_LORA_H
#define DIECAST_KERNELS_FFN_LORA_H

#include "ffn.h"
#include "lora.h"

/* NULL: the layer has none. */
typedef struct {
    const wt_t *up_a, *up_b, *down_a, *down_b;
} FfnAdapters;

typedef struct {
    float *up_a, *up_b, *down_a, *down_b;
} FfnAdapterGrads;

/* Values of a tile in the workspace. */
typedef struct {
    FfnTile t;
    act_t *dact, *up_u, *down_u;     /* (tile, F), (tile, parts * rank) each */
} FfnLoraTile;

static inline FfnLoraTile ffn_lora_tile_(void *ws, int64_t tile, int64_t G, int64_t F, int64_t C,
                                         const Lora *up, const Lora *down)
{
    const int64_t act = sizeof(act_t), ups = up ? up->parts * up->rank : 0;
    char *wide = (char *)ws + ffn_lora_products_workspace(
                                  tile, G, F, C, up ? up->rank : down->rank, up ? up->parts : 0,
                                  down ? down->parts : 0, act);
    char *first = wide + workspace_round(tile * G * act);
    char *second = first + workspace_round(tile * F * act);
    char *u = second + workspace_round(tile * F * act);
    return (FfnLoraTile){ { (act_t *)wide, (act_t *)first }, (act_t *)second, (act_t *)u,
                          (act_t *)(u + workspace_round(tile * ups * act)) };
}

static inline void ffn_lora_up_(FfnLoraTile t, const act_t *x, const FfnWeights *w,
                                const FfnAdapters *a, Gemm *mm_up, Lora *up, void *ws)
{
    if (up)
        linear_lora_fwd(t.t.wide, t.up_u, x, w->up, w->up_bias, a->up_a, a->up_b, NULL, 0, mm_up,
                        up, ws);
    else
        gemm_run(mm_up, t.t.wide, x, w->up, w->up_bias, ws);
}

/* mm_up, mm_down: as of ffn_fwd; up, down: of a tile's rows, without dropout, NULL: no adapters;
 * ws: ffn_lora_workspace(...) bytes. y may be x. */
static inline void ffn_lora_fwd(act_t *y, const act_t *x, const FfnWeights *w, const FfnAdapters *a,
                                FfnActivation activation, int64_t rows, int64_t C, int64_t F,
                                int64_t tile, Gemm *mm_up, Gemm *mm_down, Lora *up, Lora *down,
                                void *ws)
{
    const int64_t G = ffn_wide_(activation, F);
    const FfnLoraTile t = ffn_lora_tile_(ws, tile, G, F, C, up, down);
    for (int64_t i = 0; i < rows; i += tile) {
        ffn_lora_up_(t, x + i * C, w, a, mm_up, up, ws);
        ffn_act_(t.t, activation, tile, F);
        if (down)
            linear_lora_fwd(y + i * C, t.down_u, t.t.act, w->down, w->down_bias, a->down_a,
                            a->down_b, NULL, 0, mm_down, down, ws);
        else
            gemm_run(mm_down, y + i * C, t.t.act, w->down, w->down_bias, ws);
    }
}

/* mm_up, mm_down_dx, mm_up_dx: as of ffn_bwd; up, down: as above; up_bwd, down_bwd: the same with
 * .beta = 1, for tiles add up. beta: the call adds to the gradients. dx may be dy. */
static inline void ffn_lora_bwd(act_t *dx, const act_t *dy, const act_t *x, const FfnWeights *w,
                                const FfnAdapters *a, const FfnAdapterGrads *d,
                                FfnActivation activation, int64_t rows, int64_t C, int64_t F,
                                int64_t tile, int beta, Gemm *mm_up, Gemm *mm_down_dx,
                                Gemm *mm_up_dx, Lora *up, Lora *down, Lora *up_bwd, Lora *down_bwd,
                                void *ws)
{
    const int64_t G = ffn_wide_(activation, F);
    const FfnLoraTile t = ffn_lora_tile_(ws, tile, G, F, C, up, down);
    const FfnTile back = { t.t.wide, t.dact };
    const Lora *const layer[] = { up, down };
    float *const grads[][2] = { { d->up_a, d->up_b }, { d->down_a, d->down_b } };
    for (int i = 0; !beta && i < 2; i++)
        if (layer[i]) {
            const Lora *l = layer[i];
            int64_t columns = 0;
            for (int64_t p = 0; p < l->parts; p++)
                columns += l->width[p];
            memset(grads[i][0], 0, sizeof(float) * (size_t)(l->parts * l->rank * l->in));
            memset(grads[i][1], 0, sizeof(float) * (size_t)(columns * l->rank));
        }
    for (int64_t i = 0; i < rows; i += tile) {
        ffn_lora_up_(t, x + i * C, w, a, mm_up, up, ws);
        if (down) {
            ffn_act_(t.t, activation, tile, F);
            gemm_run(&down->u, t.down_u, t.t.act, a->down_a, NULL, ws);
            linear_lora_bwd(t.dact, d->down_a, d->down_b, dy + i * C, t.t.act, t.down_u, w->down,
                            a->down_a, a->down_b, NULL, 0, mm_down_dx, down_bwd, ws);
        } else {
            gemm_run(mm_down_dx, t.dact, dy + i * C, w->down, NULL, ws);
        }
        ffn_act_bwd_(back, activation, tile, F);
        if (up)
            linear_lora_bwd(dx + i * C, d->up_a, d->up_b, t.t.wide, x + i * C, t.up_u, w->up,
                            a->up_a, a->up_b, NULL, 0, mm_up_dx, up_bwd, ws);
        else
            gemm_run(mm_up_dx, dx + i * C, t.t.wide, w->up, NULL, ws);
    }
}

#endif
