/* c_adamw8.cpp -- adamw8.cuh: against the same update with fp32 moments, quantised by a search. */
#include "../../kernels/cuda/adamw8.cuh"
#include "../kernels/moments.h"
#include "harness.h"
#include "unwatched.h"

#ifndef __CUDACC__
#define inline __attribute__((no_sanitize("thread"))) inline
#endif
#include "../kernels/moments_ref.h"
#ifndef __CUDACC__
#undef inline
#endif

static const float args_of_step[9] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.271f, 0.002997f, 1, 1 };

static int64_t blocks_of(int64_t n) { return (n + DYNAMIC_BLOCK - 1) / DYNAMIC_BLOCK; }

/* A moment on the host, and what the device has of it. */
struct Moment {
    Moment8 host;
    uint8_t *code;
    float *absmax;
    int64_t codes, blocks;
};

static Moment moment_new(int64_t codes, int64_t blocks)
{
    Moment of = { { HOST(uint8_t, codes), HOST(float, blocks) }, NULL, NULL, codes, blocks };
    memset(of.host.code, 0, (size_t)codes);
    memset(of.host.absmax, 0, (size_t)blocks * sizeof(float));
    of.code = upload(of.host.code, codes), of.absmax = upload(of.host.absmax, blocks);
    return of;
}

static void check_moment(const char *what, const Moment &got)
{
    check_true(what, !memcmp(download(got.code, got.codes), got.host.code, (size_t)got.codes));
    check_true(what, !memcmp(download(got.absmax, got.blocks), got.host.absmax, (size_t)got.blocks * 4));
}

/* Gradients of many sizes in a block. */
static float *spread(int64_t n)
{
    float *g = HOST(float, n);
    for (int64_t i = 0; i < n; i++)
        g[i] = (float)(random_normal() * exp(2 * random_normal()));
    return upload(g, n);
}

/* Updates n elements by fp32 moments on the device, dequantised and quantised on the host. */
template <typename Update>
static void by_search(Moment &m, Moment &v, int64_t codes, int64_t block, int64_t n, Update update)
{
    const Moment8 at_m = { m.host.code + codes, m.host.absmax + block },
                  at_v = { v.host.code + codes, v.host.absmax + block };
    float *host = HOST(float, n), *device[2];
    moment_dequantise(host, at_m, n, DYNAMIC_OF_M);
    device[0] = upload(host, n);
    moment_dequantise(host, at_v, n, DYNAMIC_OF_V);
    device[1] = upload(host, n);
    run([&] { update(device[0], device[1]); });
    moment_quantise(at_m, download(device[0], n), n, DYNAMIC_OF_M, 1);
    moment_quantise(at_v, download(device[1], n), n, DYNAMIC_OF_V, 1);
}

/* off: elements from the alignment of the weights' buffer */
static void compare(int64_t n, int64_t slots, int64_t off, int steps)
{
    const int64_t stride = n + 8, apart = n + 64 + off, codes = n + 128, blocks = blocks_of(n);
    float *w = f32_normal(slots * stride + off, 0, 0.5), *want = f32_copy(w, slots * stride + off);
    w += off, want += off;
    Moment m = moment_new(slots * codes, slots * blocks), v = moment_new(slots * codes, slots * blocks);
    const float *args = upload(args_of_step, 9), *norm = f32_normal(1, 2, 0);
    for (int t = 0; t < steps; t++) {
        const float *g = spread(slots * apart);
        run([&] {
            adamw8(w, m.code, v.code, m.absmax, v.absmax, g, args, norm, n, slots, stride, apart, codes,
                   t & 1, stream);
        });
        for (int64_t l = 0; l < slots; l++)
            by_search(m, v, l * codes, l * blocks, n, [&](float *m_, float *v_) {
                adamw(want + l * stride, m_, v_, g + l * apart, args, norm, n, t & 1, stream);
            });
        check_same("w", w, want, slots * stride * 4);
        check_moment("m", m);
        check_moment("v", v);
    }
}

TEST(adamw8)
{
    compare(1024, 2, 0, 2);
    compare(4100, 1, 0, 1);
    compare(300, 2, 1, 1);
    compare(17000, 1, 0, 1);             /* more than a thread block */
}

#ifndef ACT_F16
/* 16-bit weights, with masters of each kind: the bits of adamw_mixed(). */
static void compare_mixed(int kind, int64_t n, int64_t slots)
{
    const int64_t stride = n + 64, blocks = blocks_of(n), all = slots * stride;
    const uint32_t key[4] = { 7, 9, 3, 0 };
    wt_t *w = act_normal(all, 0, 0.5), *want = act_copy(w, all);
    Master master[2];
    for (int i = 0; i < 2; i++) {
        if (kind == 0)
            master[i].fp32 = f32_from(act_double(w, all), all);
        if (kind == 1)
            fill_bytes(master[i].remainder = NEW(int16_t, all), 0, all * 2);
        if (kind == 2)
            master[i].rounding = upload(key, 4), master[i].site = 5, master[i].first = 512;
    }
    Moment m = moment_new(all, slots * blocks), v = moment_new(all, slots * blocks);
    const float *args = upload(args_of_step, 9), *norm = f32_normal(1, 2, 0);
    for (int t = 0; t < 2; t++) {
        const float *g = spread(all);
        run([&] {
            adamw8_mixed(w, master[0], m.code, v.code, m.absmax, v.absmax, g, args, norm, n, slots, stride,
                         stride, stride, 1, stream);
        });
        for (int64_t l = 0; l < slots; l++) {
            Master of = master[1];
            of.fp32 += of.fp32 ? l * stride : 0, of.remainder += of.remainder ? l * stride : 0;
            of.tensor += (int)l;
            by_search(m, v, l * stride, l * blocks, n, [&](float *m_, float *v_) {
                adamw_mixed(want + l * stride, of, m_, v_, g + l * stride, args, norm, n, 1, stream);
            });
        }
        check_same("w", w, want, all * (int64_t)sizeof *w);
        if (kind == 0)
            check_same("master", master[0].fp32, master[1].fp32, all * 4);
        if (kind == 1)
            check_same("remainder", master[0].remainder, master[1].remainder, all * 2);
        check_moment("m", m);
        check_moment("v", v);
    }
}

TEST(adamw8_mixed)
{
#ifdef ACT_BF16
    const int kinds = 3;
#else
    const int kinds = 1;
#endif
    for (int kind = 0; kind < kinds; kind++) {
        compare_mixed(kind, 1024, 1);
        compare_mixed(kind, 1110, 2);
    }
}
#endif

static int64_t count(int64_t bytes, size_t size) { return bytes / (int64_t)size; }
#define COUNT(array) count((int64_t)sizeof(array), sizeof *(array))

/* Within two units in the last place. */
static bool is_near(const float *got, const float *want, int64_t n)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad += fabs((double)got[i] - want[i]) > 2 * (nextafterf(fabsf(want[i]), INFINITY) - fabsf(want[i]));
    return bad == 0;
}

/* The update that numpy makes; then one gradient is NaN, and no other element shows it. */
TEST(adamw8_recorded)
{
    const int64_t n = COUNT(update_g), blocks = COUNT(update_m_absmax), at = 70;
    const float *args = upload(args_of_step, 9), *norm = f32_normal(1, 3, 0);
    float *w[2];
    uint8_t *m[2], *v[2];
    float *m_absmax[2], *v_absmax[2], *g = HOST(float, n);
    memcpy(g, update_g, sizeof update_g);
    for (int k = 0; k < 2; k++) {
        g[at] = k ? NAN : g[at];
        const float *gradient = upload(g, n);
        w[k] = upload(update_w, n), m[k] = upload(update_m, n), v[k] = upload(update_v, n);
        m_absmax[k] = upload(update_m_absmax, blocks), v_absmax[k] = upload(update_v_absmax, blocks);
        run([&] {
            adamw8(w[k], m[k], v[k], m_absmax[k], v_absmax[k], gradient, args, norm, n, 1, n, n, n, 1, stream);
        });
        w[k] = download(w[k], n), m[k] = download(m[k], n), v[k] = download(v[k], n);
        m_absmax[k] = download(m_absmax[k], blocks), v_absmax[k] = download(v_absmax[k], blocks);
    }
    check_true("w", is_near(w[0], update_w_after, n));
    check_true("m", !memcmp(m[0], update_m_after, (size_t)(n)));
    check_true("v", !memcmp(v[0], update_v_after, (size_t)(n)));
    check_true("largest m", is_near(m_absmax[0], update_m_absmax_after, blocks));
    check_true("largest v", is_near(v_absmax[0], update_v_absmax_after, blocks));
    check_true("NaN", isnan(w[1][at]) && m[1][at] == DYNAMIC_ZERO && v[1][at] == 0);
    w[1][at] = w[0][at], m[1][at] = m[0][at], v[1][at] = v[0][at];
    check_true("other weights", !memcmp(w[1], w[0], (size_t)(n * 4)));
    check_true("other m", !memcmp(m[1], m[0], (size_t)(n)));
    check_true("other v", !memcmp(v[1], v[0], (size_t)(n)));
    check_true("largest m, with NaN", !memcmp(m_absmax[1], m_absmax[0], (size_t)(blocks * 4)));
    check_true("largest v, with NaN", !memcmp(v_absmax[1], v_absmax[0], (size_t)(blocks * 4)));
}

/* Blocks of zeros, of one spike, and of denormal moments. */
TEST(adamw8_blocks)
{
    enum { N = 4 * DYNAMIC_BLOCK };
    float *host = HOST(float, N), *w = f32_normal(N, 0, 1), *want = f32_copy(w, N);
    memset(host, 0, N * sizeof *host);
    host[DYNAMIC_BLOCK + 100] = 1e4f;
    for (int i = 0; i < DYNAMIC_BLOCK; i++) {
        host[2 * DYNAMIC_BLOCK + i] = (float)(1 + i) * 1e-40f;
        host[3 * DYNAMIC_BLOCK + i] = (float)(1 + i) * 1e-20f;
    }
    const float *g = upload(host, N), *args = upload(args_of_step, 9), *norm = f32_normal(1, 0.5, 0);
    Moment m = moment_new(N, 4), v = moment_new(N, 4);
    for (int t = 0; t < 2; t++) {
        run([&] {
            adamw8(w, m.code, v.code, m.absmax, v.absmax, g, args, norm, N, 1, N, N, N, 0, stream);
        });
        by_search(m, v, 0, 0, N, [&](float *m_, float *v_) {
            adamw(want, m_, v_, g, args, norm, N, 0, stream);
        });
        check_same("w", w, want, N * 4);
        check_moment("m", m);
        check_moment("v", v);
    }
    bool zeros = true;
    for (int i = 0; i < DYNAMIC_BLOCK; i++)
        zeros = zeros && m.host.code[i] == 0 && v.host.code[i] == 0;
    check_true("zeros", zeros && m.host.absmax[0] == 0 && v.host.absmax[0] == 0);
    const float *infinite = f32_normal(1, INFINITY, 0);
    float *before = download(w, N);
    run([&] {
        adamw8(w, m.code, v.code, m.absmax, v.absmax, g, args, infinite, N, 1, N, N, N, 0, stream);
    });
    check_true("a norm that is infinite", !memcmp(download(w, N), before, N * 4));
    check_moment("a norm that is infinite, m", m);
}
