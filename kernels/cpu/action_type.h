/* action_type.h -- cross-entropy of an action and, optionally, of a token type from one row of
 * logits.
 *
 * In:    logits (n, O) act: DARKROOM_ACTIONS actions, then optionally ACTION_TYPE_TYPES token
 *        types; labels (n) and kinds (n) int32, -1: none; kinds NULL: no types; weight: of the
 *        type loss in `loss`.
 * Out:   adds to loss and stats, the entries of runtime/action_type.h; dlogits (n, O) act, of
 *        scale[0] times the action losses and type_scale[0] times the type losses.
 * Keeps: in fp32, sums in double, rows in order. dlogits may alias logits. */
#ifndef DIECAST_KERNELS_ACTION_TYPE_H
#define DIECAST_KERNELS_ACTION_TYPE_H

#include "../../runtime/action_type.h"
#include "types.h"

/* One row's losses, added to stats. dz (O): the gradient, each loss times its factor. */
static inline void action_type_row_(double *stats, float *dz, const float *z, int label, int kind,
                                    float scale, float type_scale, int64_t O)
{
    const int at[2] = {label, kind}, size[2] = {DARKROOM_ACTIONS, (int)O - DARKROOM_ACTIONS};
    for (int k = 0, first = 0; first < O; first += size[k++]) {
        float p[ACTION_TYPE_MOST] = {0};
        int hit = 0;
        if (at[k] >= 0)
            stats[ACTION_TYPE_LOSS + 2 * k] +=
                action_type_loss_of(z + first, size[k], at[k], p, &hit);
        stats[ACTION_TYPE_HITS + 2 * k] += hit;
        for (int i = 0; i < size[k]; i++)
            dz[first + i] = p[i] * (k ? type_scale : scale);
    }
}

/* dlogits NULL: losses only */
static inline void action_type_rows_(double *loss, double *stats, act_t *dlogits,
                                     const act_t *logits,
                                     const int32_t *labels, float scale, float type_scale,
                                     const int32_t *kinds, float weight, int64_t n, int64_t O)
{
    double all[ACTION_TYPE_STATS] = {0};
    for (int64_t i = 0; i < n; i++) {
        float z[2 * ACTION_TYPE_MOST], dz[2 * ACTION_TYPE_MOST];
        for (int64_t k = 0; k < O; k++)
            z[k] = act_load(logits + i * O + k);
        action_type_row_(all, dz, z, labels[i], kinds ? kinds[i] : -1, scale, type_scale, O);
        for (int64_t k = 0; k < O && dlogits; k++)
            act_store(dlogits + i * O + k, dz[k]);
    }
    loss[0] += all[ACTION_TYPE_LOSS] + weight * all[ACTION_TYPE_TYPE_LOSS];
    for (int k = 0; k < ACTION_TYPE_STATS; k++)
        stats[k] += all[k];
}

static inline void action_type_loss(double *loss, double *stats, const act_t *logits,
                                    const int32_t *labels, const int32_t *kinds, float weight,
                                    int64_t n, int64_t O)
{
    action_type_rows_(loss, stats, NULL, logits, labels, 0, 0, kinds, weight, n, O);
}

static inline void action_type_loss_bwd(double *loss, double *stats, act_t *dlogits,
                                        const act_t *logits, const int32_t *labels,
                                        const float *scale, const float *type_scale,
                                        const int32_t *kinds, float weight, int64_t n, int64_t O)
{
    action_type_rows_(loss, stats, dlogits, logits, labels, scale[0], type_scale[0], kinds, weight,
                      n,
                      O);
}

#endif
