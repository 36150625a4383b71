#!/bin/bash
# Accesses of kernels in the PTX that nvcc makes of them.
. tests/builds/common.sh

# Kernels that read and write whole vectors do so in accesses of 16 bytes: nvcc splits an assignment of four
# words as it likes. With bf16 no scalar path of these kernels stores 32 bits.
cat >"$T/vectors.cu" <<'END'
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/embed.cuh"
#include "kernels/cuda/layernorm.cuh"
#include "kernels/cuda/pointwise.cuh"
#include "kernels/cuda/qk_norm.cuh"
#include "kernels/cuda/rmsnorm.cuh"
#include "kernels/cuda/rope.cuh"
void use(act_t *a, float *f, const int32_t *t, cudaStream_t s)
{
    swiglu_fwd(a, a, 1, 1, s), swiglu_bwd(a, a, a, 1, 1, s), geglu_fwd(a, a, 1, 1, s), geglu_bwd(a, a, a, 1, 1, s);
    gelu_erf_fwd(a, a, 1, s), gelu_erf_bwd(a, a, a, 1, s), relu_fwd(a, a, 1, s), relu_bwd(a, a, a, 1, s);
    rmsnorm_bwd<128>(f, a, a, a, a, f, 1, 1, 0, 0, f, s), layernorm_bwd<128>(f, f, a, a, a, a, f, f, 1, 1, 0, f, s);
}
END
want="gated_|gelu_|(add|scale)_fwd|activation_|embed_(fwd|bwd|join)_kernelILi[48]|pos_bwd_kernelILi4"
want+="|norm_bwd_kernelILi8|rope_kernelILi8"
split() {               # of PTX: kernels with no store of 16 bytes or any of 4, and how many of each
    awk -v want="$want" '/^\.visible \.entry/ { sub(/\(.*/, ""); k = $3; watched = k ~ want; n += watched }
        watched && /st\.global\.(wb\.)?v4/ { wide[k]++ }
        watched && /st\.global\.(wb\.)?[a-z]32/ { words[k]++ }
        /^}/ { if (watched && (!wide[k] || words[k])) print k, wide[k] + 0, words[k] + 0; watched = 0 }
        END { if (n != 38) print n " kernels" }'
}
"$nvcc" -std=c++20 -O3 -arch=sm_90a -DACT_BF16 -I. -ptx -o "$T/vectors.ptx" "$T/vectors.cu" >"$T/out" 2>&1
check "vectors of 16 bytes" 0 "$?$(split <"$T/vectors.ptx")"
exit $failed
