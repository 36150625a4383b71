/* b_master.c -- 16-bit weights of adamw.h and adamw_parts.h: remainders and stochastic rounding. */
#include <float.h>

#include "../../kernels/cpu/adamw.h"
#include "../../kernels/cpu/adamw_parts.h"
#include "harness.h"

#ifdef ACT_BF16

/* v rounded to 8 significant bits, ties away from zero, as round() has it. */
static double nearest_away(double v)
{
    const int exponent = v == 0 ? 0 : ilogb(v) < -126 ? -126 : ilogb(v);
    return ldexp(round(ldexp(v, 7 - exponent)), exponent - 7);
}

static void split_all(wt_t *w, int16_t *remainder, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        master_store(w, NULL, remainder, i, x[i], 0, MASTER_REMAINDER);
}

static float *join_all(const wt_t *w, int16_t *remainder, int64_t n)
{
    float *x = NEW(float, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = master_load(w, NULL, remainder, i, MASTER_REMAINDER);
    return x;
}

/* Every float comes back, ties and denormals included; bf16 is the nearest, ties away from zero. */
TEST(remainder_back)
{
    const int64_t n = 60000;
    float *x = NEW(float, n);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = random_u32();
        bits = i % 3 ? bits : (bits & 0xffff0000) | 0x8000;             /* a tie */
        bits = i % 7 ? bits : bits & 0x807fffff;                        /* a denormal */
        x[i] = bits_float((bits & 0x7fffffff) > 0x7f7f7fff ? bits & 0x8fffffff : bits);
    }
    x[0] = 0, x[1] = -0.0f, x[2] = bits_float(0x7f7f7fff), x[3] = -INFINITY, x[4] = FLT_MIN;
    x[5] = bits_float(1), x[6] = bits_float(0x80008000);
    wt_t *w = NEW(wt_t, n);
    int16_t *remainder = NEW(int16_t, n);
    double *want = NEW(double, n);
    for (int64_t i = 0; i < n; i++)
        want[i] = isfinite(x[i]) ? nearest_away(x[i]) : x[i];
    split_all(w, remainder, x, n);
    check_same("joined", join_all(w, remainder, n), x, n * 4);
    check_act_exact("bf16", w, want, n);
}

/* Values that cannot be split: those that would round to Inf, and NaN. */
TEST(remainder_ends)
{
    float x[4] = { FLT_MAX, -FLT_MAX, bits_float(0x7f7f8000), NAN };
    wt_t w[4];
    int16_t remainder[4];
    split_all(w, remainder, x, 4);
    const float *back = join_all(w, remainder, 4), largest = bits_float(0x7f7f7fff);
    check_true("largest", back[0] == largest && back[1] == -largest && back[2] == largest);
    check_true("NaN", isnan(back[3]) && isnan(act_load(w + 3)));
    check_true("finite", isfinite(act_load(w)) && isfinite(act_load(w + 1)));
}

/* Five steps: the bits of fp32 weights. */
TEST(adamw_remainder)
{
    const int64_t n = 20011;
    float *x = f32_normal(n, 0, 0.5), *m = f32_normal(n, 0, 0.1), *v = f32_normal(n, 0, 0.1);
    for (int64_t i = 0; i < n; i++)
        v[i] = v[i] * v[i];
    for (int64_t i = 0; i < n; i += 5)
        x[i] = bits_float((float_bits(x[i]) & 0xffff0000) | 0x8000);
    float *m2 = f32_copy(m, n), *v2 = f32_copy(v, n);
    wt_t *w = NEW(wt_t, n);
    int16_t *remainder = NEW(int16_t, n);
    split_all(w, remainder, x, n);
    for (int t = 1; t <= 5; t++) {
        const float adamw_args[8] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.3f, 0.01f, 1 }, norm = 2;
        float *g = f32_normal(n, 0, 0.3);
        for (int64_t i = 0; i < n; i += 5)
            g[i] = m[i] = m2[i] = 0;                                    /* ties stay ties */
        adamw(x, m, v, g, adamw_args, &norm, n, 0);
        adamw_mixed(w, &(Master){.remainder = remainder}, m2, v2, g, adamw_args, &norm, n, 0);
        check_same("weights", join_all(w, remainder, n), x, n * 4);
        check_same("m", m2, m, n * 4);
        check_same("v", v2, v, n * 4);
    }
}

/* Each rank's parts of three tensors have the bits of all at once. */
TEST(adamw_remainder_parts)
{
    const int64_t n = 70001, slots = 3, ranks = 3, part = share_count(ranks) * share_elements(n),
                  stride = ranks * part, all = slots * stride;
    const float adamw_args[8] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.1f, 0.001f, 1 }, norm = 3;
    float *x = f32_normal(all, 0, 0.5), *g = f32_normal(all, 0, 1), *zeros = f32_integers(all, 0);
    wt_t *w = NEW(wt_t, all), *w2 = NEW(wt_t, all);
    int16_t *remainder = NEW(int16_t, all), *own = NEW(int16_t, slots * part);
    split_all(w, remainder, x, all);
    memcpy(w2, w, (size_t)all * sizeof *w);
    int16_t *before = memcpy(NEW(int16_t, all), remainder, (size_t)all * sizeof *before);
    adamw_mixed(w, &(Master){.remainder = remainder}, f32_copy(zeros, all), f32_copy(zeros, all), g,
                adamw_args, &norm, all, 1);
    for (int r = 0; r < ranks; r++) {
        for (int64_t l = 0; l < slots; l++)
            memcpy(own + l * part, before + l * stride + r * part, (size_t)part * sizeof *own);
        adamw_mixed_parts(w2 + r * part, &(Master){.remainder = own}, f32_copy(zeros, slots * part),
                          f32_copy(zeros, slots * part), g + r * part, adamw_args, &norm, part,
                          slots, stride, stride, 1);
        for (int64_t l = 0; l < slots; l++)
            check_same("remainder", own + l * part, remainder + l * stride + r * part, part * 2);
    }
    check_same("weights", w2, w, all * 2);
}

/* The draw of an element, as runtime/philox.h defines it. */
static uint32_t draw_of(const uint32_t *rounding, uint32_t site, uint32_t tensor, int64_t e)
{
    const uint32_t counter[4] = { (uint32_t)(e / 8), (uint32_t)((uint64_t)e / 8 >> 32), rounding[2],
                                  tensor },
                   key[2] = { rounding_key(rounding[0], site), rounding[1] };
    uint32_t word[4];
    philox(counter, key, word);
    return word[e % 8 / 2] >> e % 2 * 16 & 0xffff;
}

/* Bits that are cut off are added to the element's draw, whatever the rank and the tensor's place. */
TEST(adamw_rounding)
{
    const int64_t n = 3 * 256 * 64, slots = 2, all = slots * n;
    const uint32_t rounding[4] = { 7, 9, 12, 0 };
    const float adamw_args[8] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.1f, 0.001f, 1 }, norm = 3;
    float *x = NEW(float, all), *g = f32_normal(all, 0, 1), *zeros = f32_integers(all, 0);
    act_t *w = act_normal(all, 0, 1), *w2 = act_copy(w, all), *want = NEW(act_t, all);
    act_to_float(x, w, all);
    adamw(x, f32_copy(zeros, all), f32_copy(zeros, all), g, adamw_args, &norm, all, 1);
    for (int64_t i = 0; i < all; i++)
        want[i] = (act_t)((float_bits(x[i]) + draw_of(rounding, 5, (uint32_t)(i / n), i % n)) >> 16);
    adamw_mixed_parts(w, &(Master){.rounding = rounding, .site = 5}, f32_copy(zeros, all),
                      f32_copy(zeros, all), g, adamw_args, &norm, n, slots, n, n, 1);
    check_same("whole", w, want, all * 2);
    for (int64_t r = 0, part = n / 3; r < 3; r++)
        adamw_mixed_parts(w2 + r * part,
                          &(Master){.rounding = rounding, .site = 5, .first = r * part},
                          f32_copy(zeros, slots * part), f32_copy(zeros, slots * part),
                          g + r * part, adamw_args, &norm, part, slots, n, n, 1);
    check_same("parts", w2, want, all * 2);
}

/* The number of an element, divided by 8, has 64 bits. */
TEST(adamw_rounding_far)
{
    const int64_t first = (INT64_C(8) << 32) - 8 * 5;
    const uint32_t rounding[4] = { 7, 9, 12, 0 };
    uint16_t draw[ADAMW_BLOCK], want[ADAMW_BLOCK];
    for (int i = 0; i < ADAMW_BLOCK; i++)
        want[i] = (uint16_t)draw_of(rounding, 5, 3, first + i);
    rounding_draw(draw, &(Master){.rounding = rounding, .site = 5, .tensor = 3}, first);
    check_same("draws", draw, want, sizeof draw);
}

/* 2^16 draws of one value: their mean is the value, within 4 standard errors. */
TEST(adamw_rounding_mean)
{
    enum { N = 1 << 16 };
    const float decayed[8] = { 1e-3f, 0.9f, 0.999f, 1e-8f, 1, 0.1f, 0.001f, 0 }, norm = 0;
    const float values[] = { 1.5f, -1.5f, 3e-39f };
    for (uint32_t k = 0; k < 3; k++) {
        const uint32_t rounding[4] = { 1, 2, k, 0 };
        act_t *w = NEW(act_t, N);
        for (int i = 0; i < N; i++)
            act_store(w + i, values[k]);
        const double start = act_load(w), x = (float)(start * (1.0f - 1e-3f));
        float *zeros = f32_integers(N, 0);
        adamw_mixed_parts(w, &(Master){.rounding = rounding}, zeros, f32_copy(zeros, N), zeros,
                          decayed, &norm, N, 1, N, N, 1);
        double sum = 0, low = INFINITY, high = -INFINITY;
        for (int i = 0; i < N; i++) {
            const double got = act_load(w + i);
            sum += got, low = fmin(low, got), high = fmax(high, got);
        }
        const double up = (x - low) / (high - low), error = (high - low) * sqrt(up * (1 - up) / N);
        check_true("two neighbours", low < x && x < high && high == start ? true : low == start);
        check_true("mean", fabs(sum / N - x) < 4 * error);
    }
}

static float drawn(float x, uint32_t draw)
{
    return bits_float(split_drawn(float_bits(x), draw));
}

/* The largest finite value is not exceeded, Inf and NaN stay, whatever is drawn. */
TEST(adamw_rounding_ends)
{
    const uint32_t draws[] = { 0, 1, 0x8000, 0xffff };
    const float largest = bits_float(0x7f7f0000);
    for (int k = 0; k < 4; k++) {
        const uint32_t draw = draws[k];
        check_true("largest", drawn(FLT_MAX, draw) == largest);
        check_true("smallest", drawn(-FLT_MAX, draw) == -largest);
        check_true("Inf", isinf(drawn(-INFINITY, draw)) && isnan(drawn(NAN, draw)));
        check_true("bf16", drawn(1.5f, draw) == 1.5f && drawn(0, draw) == 0);
    }
}
#endif
