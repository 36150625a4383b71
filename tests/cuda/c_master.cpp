/* c_master.cpp -- 16-bit weights of adamw.cuh and adamw_parts.cuh: remainders and stochastic rounding. */
#include <float.h>

#include "../../kernels/cuda/adamw.cuh"
#include "../../kernels/cuda/adamw_parts.cuh"
#include "harness.h"
#include "masks.h"

#ifdef ACT_BF16
static const float *args_of(int t)
{
    float h[9] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0, 0, 1, 1 };
    h[ADAMW_BIAS1] = (float)(1 - pow(h[ADAMW_BETA1], t));
    h[ADAMW_BIAS2] = (float)(1 - pow(h[ADAMW_BETA2], t));
    return upload(h, 9);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* bf16 weights and remainders of floats, on the device, `off` elements from the alignment of a buffer. */
static void split_all(uint16_t **w, int16_t **remainder, const float *x, int64_t n, int64_t off)
{
    const float *host = download(x, n);
    uint16_t *high = HOST(uint16_t, n + off);
    int16_t *low = HOST(int16_t, n + off);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = split_value(bits_of(host[i]));
        high[off + i] = (uint16_t)(split_bf16(bits) >> 16);
        low[off + i] = split_remainder(bits);
    }
    *w = upload(high, n + off) + off, *remainder = upload(low, n + off) + off;
}

static float *join_all(const uint16_t *w, const int16_t *remainder, int64_t n)
{
    const uint16_t *high = download(w, n);
    const int16_t *low = download(remainder, n);
    float *x = HOST(float, n);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = split_join((uint32_t)high[i] << 16, low[i]);
        memcpy(x + i, &bits, sizeof bits);
    }
    return upload(x, n);
}

/* Normal values, every third a tie between two bf16. */
static float *weights_new(int64_t n)
{
    float *x = download(f32_normal(n, 0, 0.5), n);
    for (int64_t i = 0; i < n; i += 3) {
        const uint32_t tie = (bits_of(x[i]) & 0xffff0000) | 0x8000;
        memcpy(x + i, &tie, sizeof tie);
    }
    return upload(x, n);
}

/* Three steps have the bits of fp32 weights. */
static void remainder_steps(int64_t n, int64_t off)
{
    float *x = weights_new(n), *m = f32_normal(n, 0, 0.1), *v = f32_normal(n, 1, 0);
    float *m2 = f32_copy(m, n), *v2 = f32_copy(v, n);
    uint16_t *w;
    int16_t *remainder;
    split_all(&w, &remainder, x, n, off);
    for (int t = 1; t <= 3; t++) {
        const float *g = f32_normal(n, 0, 0.3), *norm = f32_normal(1, 2, 0), *args = args_of(t);
        run([&] {
            adamw(x, m, v, g, args, norm, n, t & 1, stream);
            adamw_mixed((wt_t *)w, Master{ NULL, remainder }, m2, v2, g, args, norm, n, t & 1,
                        stream);
        });
        check_same("weights", join_all(w, remainder, n), x, n * 4);
        check_same("m", m2, m, n * 4);
        check_same("v", v2, v, n * 4);
    }
}

TEST(adamw_remainder)
{
    remainder_steps(5003, 0);
    remainder_steps(17, 0);
    remainder_steps(64, 1);
}

/* The elements of each of `slots` tensors that a rank has, side by side. */
template <typename V> static V *own_of(const V *x, int64_t part, int64_t slots, int64_t stride, int r)
{
    const V *all = download(x, slots * stride);
    V *own = HOST(V, slots * part);
    for (int64_t l = 0; l < slots; l++)
        memcpy(own + l * part, all + l * stride + r * part, sizeof(V) * (size_t)part);
    return upload(own, slots * part);
}

TEST(adamw_remainder_parts)
{
    const int64_t slots = 2, ranks = 3, part = share_count(ranks) * share_elements(5003),
                  stride = ranks * part, all = slots * stride;
    float *x = weights_new(all), *m = f32_normal(all, 0, 0.1), *v = f32_normal(all, 1, 0);
    const float *g = f32_normal(all, 0, 1), *norm = f32_normal(1, 2, 0), *args = args_of(1);
    uint16_t *w;
    int16_t *low;
    split_all(&w, &low, x, all, 0);
    int16_t *joined = HOST(int16_t, all);
    for (int r = 0; r < ranks; r++) {
        float *m2 = own_of(m, part, slots, stride, r), *v2 = own_of(v, part, slots, stride, r);
        int16_t *own = own_of(low, part, slots, stride, r);
        run([&] {
            adamw_mixed_parts((wt_t *)w + r * part, Master{ NULL, own }, m2, v2, g + r * part, args,
                              norm, part, slots, stride, stride, 1, stream);
        });
        for (int64_t l = 0; l < slots; l++)
            memcpy(joined + l * stride + r * part, download(own, slots * part) + l * part,
                   2 * (size_t)part);
    }
    run([&] { adamw(x, m, v, g, args, norm, all, 1, stream); });
    check_same("weights", join_all(w, upload(joined, all), all), x, all * 4);
}

/* The draw of an element, as runtime/philox.h defines it. */
static uint32_t draw_of(const uint32_t *rounding, uint32_t site, uint32_t tensor, int64_t e)
{
    const uint32_t counter[4] = { (uint32_t)(e / 8), 0, rounding[2], tensor },
                   key[2] = { cpu::rounding_key(rounding[0], site), rounding[1] };
    uint32_t word[4];
    cpu::philox(counter, key, word);
    return word[e % 8 / 2] >> e % 2 * 16 & 0xffff;
}

/* n: elements of each of two tensors, a multiple of `ranks` parts */
static void rounding_of(int64_t n, int ranks)
{
    const int64_t slots = 2, all = slots * n, part = n / ranks;
    const uint32_t host[4] = { 7, 9, 12, 0 }, *rounding = upload(host, 4);
    const float *g = f32_normal(all, 0, 1), *norm = f32_normal(1, 2, 0), *args = args_of(1);
    act_t *w = act_normal(all, 0, 1), *w2 = act_copy(w, all);
    float *x = f32_from(act_double(w, all), all), *zeros = f32_integers(all, 0);
    float *m[5], *v[5];
    for (int k = 0; k < 5; k++)
        m[k] = f32_copy(zeros, all), v[k] = f32_copy(zeros, all);
    run([&] {
        adamw(x, m[0], v[0], g, args, norm, all, 1, stream);
        adamw_mixed_parts(w, Master{ NULL, NULL, rounding, 5 }, m[1], v[1], g, args, norm, n, slots,
                          n, n, 1, stream);
        for (int r = 0; r < ranks; r++)
            adamw_mixed_parts(w2 + r * part, Master{ NULL, NULL, rounding, 5, 0, r * part },
                              m[2 + r], v[2 + r], g + r * part, args, norm, part, slots, n, n, 1,
                              stream);
    });
    const float *fp32 = download(x, all);
    uint16_t *want = HOST(uint16_t, all);
    for (int64_t i = 0; i < all; i++)
        want[i] = (uint16_t)((bits_of(fp32[i]) + draw_of(host, 5, (uint32_t)(i / n), i % n)) >> 16);
    check_same("whole", w, upload(want, all), all * 2);
    check_same("parts", w2, w, all * 2);
}

TEST(adamw_rounding)
{
    rounding_of(2 * 256 * 3, 3);
    rounding_of(1003, 1);
}

__global__ void __launch_bounds__(1) drawn_kernel(float *y, const float *x, const uint32_t *draw)
{
    y[threadIdx.x] = bf16_drawn(x[0], draw[0]);
}

/* The largest finite value is not exceeded, Inf and NaN stay. */
TEST(adamw_rounding_ends)
{
    const float values[4] = { FLT_MAX, -FLT_MAX, -INFINITY, NAN };
    for (uint32_t draw : { 0u, 0xffffu })
        for (int k = 0; k < 4; k++) {
            const float *x = upload(values + k, 1);
            const uint32_t *d = upload(&draw, 1);
            float *y = NEW(float, 1);
            run([&] { launch(drawn_kernel, 1, 1, 0, stream, y, x, d); });
            const float got = *download(y, 1);
            check_true("end", k == 3 ? got != got
                                     : bits_of(got) == (k == 2 ? 0xff800000 : k ? 0xff7f0000 : 0x7f7f0000));
        }
}
#endif
