/* c_nf4.cpp -- nf4.cuh. */
#include "../../kernels/cuda/nf4.cuh"
#include "../../kernels/reference/nf4.h"
#include "harness.h"
#include "unwatched.h"
#include "../kernels/nf4_input.h"

#ifdef ACT_BF16
enum { RECORDED = NF4_CRC_BF16 };
#elif defined ACT_F16
enum { RECORDED = NF4_CRC_F16 };
#else
enum { RECORDED = NF4_CRC_F32 };
#endif

template <typename V> static V *recorded(const char *text)
{
    return upload((const V *)nf4_bytes(text), (int64_t)(strlen(text) / 2 / sizeof(V)));
}

/* bitsandbytes' bits, of three tensors with two groups and one: eight at a time, and where rows do not begin at 16
 * bytes two; columns after the matrix's stay. */
TEST(dequant_nf4_recorded)
{
    const Nf4Rows rows = { 3, NF4_ROWS0, NF4_ROWS1, NF4_ROWS2 };
    const int64_t C = NF4_COLUMNS, n = NF4_ELEMENTS;
    uint8_t *codes = recorded<uint8_t>(nf4_codes_text), *absmax = recorded<uint8_t>(nf4_absmax_text);
    float *nested = recorded<float>(nf4_nested_text), *offset = recorded<float>(nf4_offset_text);
    act_t *w = NEW(act_t, n);
    run([&] { dequant_nf4(w, codes, absmax, nested, offset, rows, C / 2, C, stream); });
    check_true("bitsandbytes' bits", nf4_crc(download(w, n), (size_t)n * sizeof *w) == (uint32_t)RECORDED);
    for (int64_t room : { 5, 16 }) {
        const int64_t wide = C + room;
        act_t *y = act_integers(NF4_ROWS * wide, 0);
        const act_t *zeros = download(y, room), *want = download(w, n);
        run([&] { dequant_nf4(y, codes, absmax, nested, offset, rows, C / 2, wide, stream); });
        const act_t *got = download(y, NF4_ROWS * wide);
        for (int64_t r = 0; r < NF4_ROWS; r++) {
            check_true("wide rows", !memcmp(got + r * wide, want + r * C, (size_t)C * sizeof *got));
            check_true("room after a row", !memcmp(got + r * wide + C, zeros, (size_t)room * sizeof *got));
        }
    }
}

/* Columns that no block ends with; one tensor; rows longer than a block of threads. */
TEST(dequant_nf4_columns)
{
    for (int64_t C : { 2, 34, 64, 136, 4160 }) {
        const int64_t O = C > 1000 ? 4 : 64, n = O * C;
        const Nf4Rows rows = { 1, O, 0, 0 };
        uint8_t *codes = HOST(uint8_t, n / 2), *absmax = HOST(uint8_t, n / 64), *code = HOST(uint8_t, n);
        float *nested = HOST(float, NF4_GROUPS(n)), offset = 0.25f;
        double *most = HOST(double, n / 64), *want = HOST(double, n);
        static const float map[256] = { DYNAMIC_SIGNED };
        for (int64_t i = 0; i < NF4_GROUPS(n); i++)
            nested[i] = (float)random_normal();
        for (int64_t i = 0; i < n / 64; i++) {
            absmax[i] = (uint8_t)random_below(256);
            volatile float product = map[absmax[i]] * nested[i / 256];
            most[i] = product + offset;
        }
        for (int64_t i = 0; i < n / 2; i++) {
            codes[i] = (uint8_t)random_below(256);
            code[2 * i] = codes[i] >> 4, code[2 * i + 1] = codes[i] & 15;
        }
        act_t *w = NEW(act_t, n);
        const uint8_t *codes_ = upload(codes, n / 2), *absmax_ = upload(absmax, n / 64);
        const float *nested_ = upload(nested, NF4_GROUPS(n)), *offset_ = upload(&offset, 1);
        run([&] { dequant_nf4(w, codes_, absmax_, nested_, offset_, rows, C / 2, C, stream); });
        dequant_nf4_ref(want, code, most, n);
        check_act_exact("w", w, want, n);
    }
}
