/* nf4.h -- double-precision reference of the dequantisation of NF4: runtime/nf4.h.
 *
 * In:    codes (n), one each; absmax (n / 64), in fp32.   Out: w (n): values in fp32. */
#ifndef DIECAST_KERNELS_REFERENCE_NF4_H
#define DIECAST_KERNELS_REFERENCE_NF4_H

#include <stdint.h>

#include "../../runtime/nf4.h"

static inline void dequant_nf4_ref(double *w, const uint8_t *codes, const double *absmax, int64_t n)
{
    static const float nf4[16] = {NF4_VALUES};
    for (int64_t i = 0; i < n; i++)
        w[i] = (float)((double)nf4[codes[i]] * absmax[i / 64]);
}

#endif
