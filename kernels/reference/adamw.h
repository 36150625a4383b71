/* adamw.h -- double-precision reference of AdamW and the gradient norm.
 *
 * In:    as the kernels; adamw_args by the entries of runtime/adamw_args.h, g unscaled. */
#ifndef DIECAST_KERNELS_REFERENCE_ADAMW_H
#define DIECAST_KERNELS_REFERENCE_ADAMW_H

#include <math.h>
#include <stdint.h>

#include "../../runtime/adamw_args.h"

static inline void adamw_ref(double *w, double *m, double *v, const double *g,
                             const double *adamw_args, double norm, int64_t n, int decay)
{
    double clip = adamw_args[ADAMW_CLIP] / (norm + 1e-6);
    clip = adamw_args[ADAMW_CLIP] > 0 && clip < 1 ? clip : 1;
    for (int64_t i = 0; i < n; i++) {
        double gi = g[i] * clip;
        if (decay)
            w[i] *= 1 - adamw_args[ADAMW_LR] * adamw_args[ADAMW_DECAY];
        m[i] = adamw_args[ADAMW_BETA1] * m[i] + (1 - adamw_args[ADAMW_BETA1]) * gi;
        v[i] = adamw_args[ADAMW_BETA2] * v[i] + (1 - adamw_args[ADAMW_BETA2]) * gi * gi;
        w[i] -= adamw_args[ADAMW_LR] / adamw_args[ADAMW_BIAS1] * m[i] /
                (sqrt(v[i]) / sqrt(adamw_args[ADAMW_BIAS2]) + adamw_args[ADAMW_EPS]);
    }
}

static inline double grad_norm_ref(const double *g, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += g[i] * g[i];
    return sqrt(s);
}

#endif
