/* gemm_key.h -- lock-file key of a matrix product: everything the choice of its algorithm
 * depends on, as text.
 *
 * Keeps: plain C; gen and the emitted program's tuner format the key with this same function. */
#ifndef DIECAST_KERNELS_GEMM_KEY_H
#define DIECAST_KERNELS_GEMM_KEY_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { GEMM_KEY_BYTES = 200 };

/* form: "NT" ...; in, out: "bf16" ...; epilogue: none bias gelu dgelu bgrad; a leading dimension of
 * 0: dense; offset: operands begin at multiples of so many elements, which limits the algorithms;
 * 0: at rows. */
static inline void gemm_key(char *to, const char *form, const char *in, const char *out, int64_t m,
                            int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                            const char *epilogue, int beta, int64_t offset)
{
    lda = lda ? lda : form[0] == 'T' ? m : k;
    ldb = ldb ? ldb : form[1] == 'T' ? k : n;
    ldc = ldc ? ldc : n;
    snprintf(to, GEMM_KEY_BYTES, "%s %s %s m %lld n %lld k %lld ld %lld %lld %lld epi %s beta %d",
             form, in, out, (long long)m, (long long)n, (long long)k, (long long)lda,
             (long long)ldb, (long long)ldc, epilogue, beta);
    if (offset)
        snprintf(to + strlen(to), GEMM_KEY_BYTES - strlen(to), " offset %lld", (long long)offset);
}

#endif
