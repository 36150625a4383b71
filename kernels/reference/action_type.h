/* action_type.h -- double-precision reference of the cross-entropy of one logit among n.
 *
 * In:    z (n).   Out: its cross-entropy; tests take gradients by finite differences. */
#ifndef DIECAST_KERNELS_REFERENCE_ACTION_TYPE_H
#define DIECAST_KERNELS_REFERENCE_ACTION_TYPE_H

#include <math.h>

static inline double action_type_ref(const double *z, int n, int label)
{
    double sum = 0;
    for (int k = 0; k < n; k++)
        sum += exp(z[k]);
    return -log(exp(z[label]) / sum);
}

#endif
