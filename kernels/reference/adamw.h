/* adamw.h -- double-precision reference of AdamW and the gradient norm.
 *
 * In:    as the kernels; hyper by the entries of runtime/hyper.h, g unscaled. */
#ifndef DIECAST_KERNELS_REFERENCE_ADAMW_H
#define DIECAST_KERNELS_REFERENCE_ADAMW_H

#include <math.h>
#include <stdint.h>

#include "../../runtime/hyper.h"

static inline void adamw_ref(double *w, double *m, double *v, const double *g, const double *hyper,
                             double norm, int64_t n, int decay)
{
    double clip = hyper[HYPER_CLIP] / (norm + 1e-6);
    clip = hyper[HYPER_CLIP] > 0 && clip < 1 ? clip : 1;
    for (int64_t i = 0; i < n; i++) {
        double gi = g[i] * clip;
        if (decay)
            w[i] *= 1 - hyper[HYPER_LR] * hyper[HYPER_DECAY];
        m[i] = hyper[HYPER_BETA1] * m[i] + (1 - hyper[HYPER_BETA1]) * gi;
        v[i] = hyper[HYPER_BETA2] * v[i] + (1 - hyper[HYPER_BETA2]) * gi * gi;
        w[i] -= hyper[HYPER_LR] / hyper[HYPER_BIAS1] * m[i] /
                (sqrt(v[i]) / sqrt(hyper[HYPER_BIAS2]) + hyper[HYPER_EPS]);
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
