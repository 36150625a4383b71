/* unit_nf4.c -- NF4 on the host, against bitsandbytes' recorded bytes. */
#include "unit.h"
#include "../../runtime/nf4.h"
#include "../kernels/nf4_input.h"
#include <stdio.h>
#include <xmmintrin.h>

/* Tensor `part` of the recorded matrix; n: its elements. */
static void tensor(const float *x, int64_t n, const uint8_t *codes, const uint8_t *absmax, const float *nested,
                   const float *offset, const float *most, int part)
{
    const int64_t blocks = NF4_BLOCKS(n), groups = NF4_GROUPS(n);
    uint8_t *code = malloc((size_t)n / 2), *code2 = malloc((size_t)blocks);
    float *largest = malloc((size_t)blocks * sizeof *largest), *nested2 = malloc((size_t)groups * sizeof *nested2),
          mean, values[NF4_BLOCK];
    nf4_quantise(x, n, code, largest);
    nf4_quantise_absmax(largest, blocks, code2, nested2, &mean);
    check(!memcmp(code, codes, (size_t)n / 2), "nf4 codes", "tensor %d", part);
    check(!memcmp(code2, absmax, (size_t)blocks), "nf4 absmax codes", "tensor %d", part);
    /* the last bit of a mean depends on the order of its sum */
    check(fabsf(mean - *offset) <= *offset * 0x1p-23f, "nf4 offset", "tensor %d: %a, want %a", part, (double)mean,
          (double)*offset);
    int64_t bad = 0;
    for (int64_t g = 0; g < groups; g++)
        bad += fabsf(nested2[g] - nested[g]) > (nested[g] + *offset) * 0x1p-23f;
    check(!bad, "nf4 nested", "tensor %d: %lld differ", part, (long long)bad);
    bad = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const float a = nf4_absmax(absmax[b], nested[b / NF4_GROUP], *offset);
        bad += a != most[b];
        nf4_dequantise(codes + b * NF4_BLOCK / 2, NF4_BLOCK, a, values);
        static const float code_value[16] = { NF4_VALUES };
        for (int i = 0; i < NF4_BLOCK; i++) {
            const uint8_t two = codes[b * NF4_BLOCK / 2 + i / 2];
            bad += values[i] != code_value[i % 2 ? two & 15 : two >> 4] * a;
        }
    }
    check(!bad, "nf4 values", "tensor %d: %lld differ", part, (long long)bad);
    free(code), free(code2), free(largest), free(nested2);
}

void test_nf4(void)
{
    static float x[NF4_ELEMENTS];
    uint8_t *codes = nf4_bytes(nf4_codes_text), *absmax = nf4_bytes(nf4_absmax_text);
    float *nested = nf4_bytes(nf4_nested_text), *offset = nf4_bytes(nf4_offset_text),
          *most = nf4_bytes(nf4_dequantised_absmax_text);
    const int64_t rows[3] = { NF4_ROWS0, NF4_ROWS1, NF4_ROWS2 };
    int64_t first = 0, groups = 0;
    nf4_input(x);
    const unsigned mode = _mm_getcsr();
    for (int i = 0; i < 6; i++) {            /* the second time as programs compute: denormals are zeros */
        const int part = i % 3;
        const int64_t n = rows[part] * NF4_COLUMNS;
        if (part == 0)
            first = groups = 0;
        _mm_setcsr(i < 3 ? mode : mode | 0x8040);
        tensor(x + first, n, codes + first / 2, absmax + first / NF4_BLOCK, nested + groups, offset + part,
               most + first / NF4_BLOCK, part);
        first += n, groups += NF4_GROUPS(n);
    }
    _mm_setcsr(mode);
    free(codes), free(absmax), free(nested), free(offset), free(most);
}
