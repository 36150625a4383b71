/* gemm_choose.h -- the implementations of matrix products, one after the other. */
#ifndef DIECAST_TESTS_KERNELS_GEMM_CHOOSE_H
#define DIECAST_TESTS_KERNELS_GEMM_CHOOSE_H

#include <stdbool.h>

#include "../../kernels/cpu/gemm.h"

/* Chooses the i-th implementation that this CPU has; false if there are fewer. */
static inline bool choose(int i)
{
    const GemmTiles *tiles[4] = { gemm_kinds[GEMM_AVX2] };
    int n = 1;
    gemm_setup();
    if (gemm_cpu_has(dnnl_cpu_isa_avx512_core))
        tiles[n++] = gemm_kinds[GEMM_AVX512];
#ifdef ACT_BF16
    if (gemm_cpu_has(dnnl_cpu_isa_avx512_core_bf16))
        tiles[n] = tiles[n + 1] = gemm_kinds[GEMM_AVX512_BF16], n += 2;
#endif
    gemm_tiles = i < n ? tiles[i] : NULL;
    gemm_uses_library = i == 3;
    return i < n;
}

#endif
