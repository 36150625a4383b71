/* b_nf4.c -- nf4.h. */
#include "../../kernels/cpu/nf4.h"
#include "../../kernels/reference/nf4.h"
#include "harness.h"
#include "nf4_input.h"

#ifdef ACT_BF16
enum { RECORDED = NF4_CRC_BF16 };
#else
enum { RECORDED = NF4_CRC_F32 };
#endif

/* bitsandbytes' bits, of three tensors with two groups and one; columns after the matrix's stay. */
TEST(dequant_nf4_recorded)
{
    const Nf4Rows rows = { 3, NF4_ROWS0, NF4_ROWS1, NF4_ROWS2 };
    const int64_t C = NF4_COLUMNS, n = NF4_ELEMENTS, wide = C + 5;
    const uint8_t *codes = nf4_bytes(nf4_codes_text), *absmax = nf4_bytes(nf4_absmax_text);
    const float *nested = nf4_bytes(nf4_nested_text), *offset = nf4_bytes(nf4_offset_text),
                *most = nf4_bytes(nf4_dequantised_absmax_text);
    act_t *w = NEW(act_t, n), *y = NEW(act_t, NF4_ROWS * wide);
    dequant_nf4(w, codes, absmax, nested, offset, &rows, C / 2, C);
    check_true("bitsandbytes' bits", nf4_crc(w, (size_t)n * sizeof *w) == (uint32_t)RECORDED);
    double *want = NEW(double, n), *most_ = f32_double(most, n / 64);
    uint8_t *code = NEW(uint8_t, n);
    for (int64_t i = 0; i < n; i++)
        code[i] = i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
    dequant_nf4_ref(want, code, most_, n);
    check_act_exact("w", w, want, n);
    act_t *zeros = act_integers(NF4_ROWS * wide, 0);
    memcpy(y, zeros, (size_t)(NF4_ROWS * wide) * sizeof *y);
    dequant_nf4(y, codes, absmax, nested, offset, &rows, C / 2, wide);
    for (int64_t r = 0; r < NF4_ROWS; r++) {
        check_same("wide rows", y + r * wide, w + r * C, C * (int64_t)sizeof *y);
        check_same("room after a row", y + r * wide + C, zeros, 5 * (int64_t)sizeof *y);
    }
}

/* Columns that no block ends with; one tensor; more rows than threads. */
TEST(dequant_nf4_columns)
{
    static const int64_t columns[] = { 2, 34, 64, 130, 576 };
    for (int k = 0; k < 5; k++) {
        const int64_t C = columns[k], O = 320, n = O * C;
        const Nf4Rows rows = { 1, O, 0, 0 };
        uint8_t *codes = NEW(uint8_t, n / 2), *absmax = NEW(uint8_t, n / 64), *code = NEW(uint8_t, n);
        float *nested = f32_normal(NF4_GROUPS(n), 0, 1), *offset = f32_normal(1, 0, 1);
        double *most = NEW(double, n / 64), *want = NEW(double, n);
        static const float map[256] = { DYNAMIC_SIGNED };
        for (int64_t i = 0; i < n / 64; i++) {
            absmax[i] = (uint8_t)random_below(256);
            volatile float product = map[absmax[i]] * nested[i / 256];
            most[i] = product + *offset;
        }
        for (int64_t i = 0; i < n / 2; i++) {
            codes[i] = (uint8_t)random_below(256);
            code[2 * i] = codes[i] >> 4, code[2 * i + 1] = codes[i] & 15;
        }
        act_t *w = NEW(act_t, n);
        dequant_nf4(w, codes, absmax, nested, offset, &rows, C / 2, C);
        dequant_nf4_ref(want, code, most, n);
        check_act_exact("w", w, want, n);
    }
}

typedef struct {
    act_t *w;
    const uint8_t *codes, *absmax;
    const float *nested, *offset;
} Dequant;

static void run_dequant(void *ctx)
{
    const Dequant *d = ctx;
    const Nf4Rows rows = { 1, 4096, 0, 0 };
    dequant_nf4(d->w, d->codes, d->absmax, d->nested, d->offset, &rows, 2048, 4096);
}

BENCH(dequant_nf4)
{
    const int64_t n = 4096 * 4096;
    Dequant d = { NEW(act_t, n), memset(NEW(uint8_t, n / 2), 0x5a, (size_t)n / 2),
                  memset(NEW(uint8_t, n / 64), 99, (size_t)n / 64), f32_normal(n / 16384, 0, 1),
                  f32_normal(1, 0, 1) };
    const double seconds = bench_time(run_dequant, &d);
    bench_report("dequant_nf4 4096 x 4096", seconds, (double)n * (0.516 + sizeof(act_t)), 0);
}
