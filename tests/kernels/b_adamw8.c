/* b_adamw8.c -- adamw8.h: against the same update with fp32 moments, quantised by a search. */
#include "../../kernels/cpu/adamw8.h"
#include "harness.h"
#include "moments.h"
#include "moments_ref.h"

static const float args_of_step[8] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.271f, 0.002997f, 1 };

static int64_t blocks_of(int64_t n) { return (n + DYNAMIC_BLOCK - 1) / DYNAMIC_BLOCK; }

static Moment8 moment_new(int64_t codes, int64_t blocks)
{
    const Moment8 of = { new_bytes(codes), NEW(float, blocks) };
    memset(of.code, 0, (size_t)codes);
    memset(of.absmax, 0, (size_t)blocks * sizeof(float));
    return of;
}

/* Gradients of many sizes in a block. */
static float *spread(int64_t n)
{
    float *g = f32_normal(n, 0, 1);
    for (int64_t i = 0; i < n; i++)
        g[i] *= expf((float)(2 * random_normal()));
    return g;
}

/* Three updates of `slots` tensors of n elements that lie apart; what lies between them stays. */
static void compare(int64_t n, int64_t slots, float *const gradient[3], float norm)
{
    const int64_t stride = n + 37, apart = n + 64, codes = n + 128, blocks = blocks_of(n);
    float *w = f32_normal(slots * stride, 0, 0.5), *want = f32_copy(w, slots * stride);
    Moment8 m = moment_new(slots * codes, slots * blocks), v = moment_new(slots * codes, slots * blocks);
    Moment8 m_want = moment_new(slots * codes, slots * blocks),
            v_want = moment_new(slots * codes, slots * blocks);
    for (int t = 0; t < 3; t++) {
        adamw8(w, m.code, v.code, m.absmax, v.absmax, gradient[t], args_of_step, &norm, n, slots, stride,
               apart, codes, t & 1);
        for (int64_t l = 0; l < slots; l++) {
            const Moment8 at_m = { m_want.code + l * codes, m_want.absmax + l * blocks },
                          at_v = { v_want.code + l * codes, v_want.absmax + l * blocks };
            float *m_ = NEW(float, n), *v_ = NEW(float, n);
            moment_dequantise(m_, at_m, n, DYNAMIC_OF_M);
            moment_dequantise(v_, at_v, n, DYNAMIC_OF_V);
            adamw(want + l * stride, m_, v_, gradient[t] + l * apart, args_of_step, &norm, n, t & 1);
            moment_quantise(at_m, m_, n, DYNAMIC_OF_M, 1);
            moment_quantise(at_v, v_, n, DYNAMIC_OF_V, 1);
        }
        check_same("w", w, want, slots * stride * 4);
        check_same("m", m.code, m_want.code, slots * codes);
        check_same("v", v.code, v_want.code, slots * codes);
        check_same("largest m", m.absmax, m_want.absmax, slots * blocks * 4);
        check_same("largest v", v.absmax, v_want.absmax, slots * blocks * 4);
    }
}

TEST(adamw8)
{
    static const int64_t sizes[] = { 256, 1024, 5, 4099, 20011 };
    for (int k = 0; k < 5; k++) {
        const int64_t all = 3 * (sizes[k] + 64);
        float *gradient[3] = { spread(all), spread(all), spread(all) };
        compare(sizes[k], 3, gradient, 3);
    }
}

static Master master_new(MasterKind kind, const wt_t *w, int64_t n)
{
    static const uint32_t key[4] = { 7, 9, 3 };
    Master of = { .rounding = kind == MASTER_ROUNDING ? key : NULL, .site = 5, .tensor = 2, .first = 512 };
    if (kind == MASTER_FP32) {
        of.fp32 = NEW(float, n);
        for (int64_t i = 0; i < n; i++)
            of.fp32[i] = act_load(w + i);
    }
    if (kind == MASTER_REMAINDER)
        of.remainder = memset(NEW(int16_t, n), 0, (size_t)n * sizeof(int16_t));
    return of;
}

/* Three updates of 16-bit weights: the bits of adamw_mixed() with fp32 moments, quantised. */
static void compare_mixed(MasterKind kind, int64_t n, int64_t slots)
{
    const int64_t stride = n + 48, blocks = blocks_of(n), all = slots * stride;
    const float norm = 2;
    wt_t *w = act_normal(all, 0, 0.5), *want = act_copy(w, all);
    const Master master = master_new(kind, w, all), wanted = master_new(kind, w, all);
    Moment8 m = moment_new(all, slots * blocks), v = moment_new(all, slots * blocks),
            m_want = moment_new(all, slots * blocks), v_want = moment_new(all, slots * blocks);
    for (int t = 0; t < 3; t++) {
        const float *g = spread(all);
        adamw8_mixed(w, &master, m.code, v.code, m.absmax, v.absmax, g, args_of_step, &norm, n, slots,
                     stride, stride, stride, 1);
        for (int64_t l = 0; l < slots; l++) {
            const Moment8 at_m = { m_want.code + l * stride, m_want.absmax + l * blocks },
                          at_v = { v_want.code + l * stride, v_want.absmax + l * blocks };
            const Master of = master_of(&wanted, l, stride);
            float *m_ = NEW(float, n), *v_ = NEW(float, n);
            moment_dequantise(m_, at_m, n, DYNAMIC_OF_M);
            moment_dequantise(v_, at_v, n, DYNAMIC_OF_V);
            adamw_mixed(want + l * stride, &of, m_, v_, g + l * stride, args_of_step, &norm, n, 1);
            moment_quantise(at_m, m_, n, DYNAMIC_OF_M, 1);
            moment_quantise(at_v, v_, n, DYNAMIC_OF_V, 1);
        }
        check_same("w", w, want, all * (int64_t)sizeof *w);
        if (kind == MASTER_FP32)
            check_same("master", master.fp32, wanted.fp32, all * 4);
        if (kind == MASTER_REMAINDER)
            check_same("remainder", master.remainder, wanted.remainder, all * 2);
        check_same("m", m.code, m_want.code, all);
        check_same("v", v.code, v_want.code, all);
        check_same("largest m", m.absmax, m_want.absmax, slots * blocks * 4);
        check_same("largest v", v.absmax, v_want.absmax, slots * blocks * 4);
    }
}

TEST(adamw8_mixed)
{
#ifdef ACT_BF16
    const MasterKind last = MASTER_ROUNDING;
#else
    const MasterKind last = MASTER_FP32;
#endif
    for (MasterKind kind = MASTER_FP32; kind <= last; kind++) {
        compare_mixed(kind, 1024, 2);
        compare_mixed(kind, 4099, 3);
    }
}

/* Blocks of zeros, of one spike, of denormal moments, of the same number, and of numbers that
 * overflow when squared. */
TEST(adamw8_blocks)
{
    enum { N = 6 * DYNAMIC_BLOCK };
    float *gradient[3];
    for (int t = 0; t < 3; t++) {
        float *g = gradient[t] = f32_integers(N + 64, 0);
        g[DYNAMIC_BLOCK + 100] = 1e4f;
        for (int i = 0; i < DYNAMIC_BLOCK; i++) {
            g[2 * DYNAMIC_BLOCK + i] = (float)(1 + i) * 1e-40f;
            g[3 * DYNAMIC_BLOCK + i] = -0.25f;
            g[4 * DYNAMIC_BLOCK + i] = (float)(1 + i) * 1e19f;
            g[5 * DYNAMIC_BLOCK + i] = (float)(1 + i) * 1e-20f;
        }
    }
    compare(N, 1, gradient, 0.5f);
}

/* A NaN in one gradient: its element alone is lost. */
TEST(adamw8_nan)
{
    const int64_t n = 2 * DYNAMIC_BLOCK;
    const float norm = 3;
    float *g = spread(n), *w = f32_normal(n, 0, 1), *w2 = f32_copy(w, n);
    Moment8 m = moment_new(n, 2), v = moment_new(n, 2), m2 = moment_new(n, 2), v2 = moment_new(n, 2);
    g[70] = 0;
    adamw8(w, m.code, v.code, m.absmax, v.absmax, g, args_of_step, &norm, n, 1, n, n, n, 1);
    g[70] = NAN;
    adamw8(w2, m2.code, v2.code, m2.absmax, v2.absmax, g, args_of_step, &norm, n, 1, n, n, n, 1);
    check_true("it is lost", isnan(w2[70]) && m2.code[70] == DYNAMIC_ZERO && v2.code[70] == 0);
    w2[70] = w[70];
    check_same("other weights", w2, w, n * 4);
    check_same("m", m2.code, m.code, n);
    check_same("v", v2.code, v.code, n);
    check_same("largest m", m2.absmax, m.absmax, 8);
    check_same("largest v", v2.absmax, v.absmax, 8);
    const float infinite = INFINITY;
    adamw8(w2, m2.code, v2.code, m2.absmax, v2.absmax, g, args_of_step, &infinite, n, 1, n, n, n, 1);
    check_same("a norm that is infinite", w2, w, n * 4);
    check_same("a norm that is infinite, m", m2.code, m.code, n);
}

/* Largest |update| / lr of `steps` updates of a block whose gradients have log-normal sizes, sigma
 * 2. rule 2: fp32 moments; 1: that of adamw8; 0: bitsandbytes', whose v may get code 0. */
static double largest_update(int steps, int rule)
{
    enum { N = DYNAMIC_BLOCK };
    float w[N] = { 0 }, m[N] = { 0 }, v[N] = { 0 }, norm = 0, absmax[2] = { 0 };
    uint8_t code[2][N] = { { 0 } };
    float *size = f32_normal(N, 0, 2), *g = f32_normal(steps * (int64_t)N, 0, 1);
    const Moment8 m8 = { code[0], &absmax[0] }, v8 = { code[1], &absmax[1] };
    double largest = 0;
    for (int t = 1; t <= steps; t++, g += N) {
        float before[N], args[8] = { 1e-3f, 0.9f, 0.999f, 1e-8f, 0, 0, 0, 0 };
        args[ADAMW_BIAS1] = (float)(1 - pow(args[ADAMW_BETA1], t));
        args[ADAMW_BIAS2] = (float)(1 - pow(args[ADAMW_BETA2], t));
        memcpy(before, w, sizeof w);
        for (int i = 0; i < N; i++)
            g[i] *= expf(size[i]);
        if (rule == 1)
            adamw8(w, code[0], code[1], &absmax[0], &absmax[1], g, args, &norm, N, 1, N, N, N, 0);
        else
            adamw(w, m, v, g, args, &norm, N, 0);
        if (rule == 0) {
            moment_quantise(m8, m, N, DYNAMIC_OF_M, 0), moment_dequantise(m, m8, N, DYNAMIC_OF_M);
            moment_quantise(v8, v, N, DYNAMIC_OF_V, 0), moment_dequantise(v, v8, N, DYNAMIC_OF_V);
        }
        for (int i = 0; i < N; i++)
            largest = fmax(largest, fabs((double)w[i] - before[i]) / args[ADAMW_LR]);
    }
    return largest;
}

TEST(adamw8_small_second_moments)
{
    const double fp32 = largest_update(300, 2), kept = largest_update(300, 1),
                 zeroed = largest_update(300, 0);
    check_true("under 10", fp32 < 10 && kept < 10);
    check_true("in the thousands where v may be 0", zeroed > 1000);
}

static int64_t count(int64_t bytes, size_t size) { return bytes / (int64_t)size; }
#define COUNT(array) count((int64_t)sizeof(array), sizeof *(array))

/* The codes that bitsandbytes gives; but v > 0 never has code 0. */
TEST(dynamic_codes)
{
    const DynamicTables tables = dynamic_tables();
    const float *x[2] = { recorded_m, recorded_v };
    const uint8_t *code[2] = { recorded_m_code, recorded_v_code };
    int zeros = 0;
    for (int map = 0; map < 2; map++)
        for (int64_t b = 0; b < COUNT(recorded_m); b += DYNAMIC_BLOCK) {
            float most = 0;
            uint8_t got[DYNAMIC_BLOCK], want[DYNAMIC_BLOCK];
            for (int64_t i = b; i < b + DYNAMIC_BLOCK; i++)
                most = fmaxf(most, fabsf(x[map][i]));
            for (int64_t i = 0; i < DYNAMIC_BLOCK; i++) {
                const bool zero = map == 1 && code[map][b + i] == 0 && x[map][b + i] > 0;
                zeros += zero;
                want[i] = zero ? 1 : code[map][b + i];
                got[i] = (uint8_t)dynamic_code(x[map][b + i], most, map, tables.mid[map]);
            }
            check_same(map ? "v" : "m", got, want, DYNAMIC_BLOCK);
        }
    check_true("some v of code 0", zeros > 10);
}

/* Every value of both maps, the midpoints, which go to the lower code, and what is next to them. */
TEST(dynamic_codes_at_edges)
{
    const DynamicTables tables = dynamic_tables();
    int bad = 0;
    for (int map = 0; map < 2; map++)
        for (int k = 0; k < DYNAMIC_CODES - 1; k++) {
            const float mid = (map_value(map, k) + map_value(map, k + 1)) / 2.0f,
                        at[] = { map_value(map, k), map_value(map, k + 1), mid, nextafterf(mid, 2),
                                 nextafterf(mid, -2) };
            for (int i = 0; i < 5; i++)
                bad += dynamic_code(at[i], 1, map, tables.mid[map]) != nearest_code(at[i], 1, map, 1);
            bad += dynamic_code(mid, 1, map, tables.mid[map]) != (map && k == 0 ? 1 : k);
        }
    check_true("codes", bad == 0);
    check_true("beyond the map, and NaN",
               dynamic_code(INFINITY, 1, DYNAMIC_OF_M, tables.mid[0]) == 255 &&
                   dynamic_code(-INFINITY, 1, DYNAMIC_OF_M, tables.mid[0]) == 0 &&
                   dynamic_code(NAN, 1, DYNAMIC_OF_M, tables.mid[0]) == DYNAMIC_ZERO &&
                   dynamic_code(INFINITY, 1, DYNAMIC_OF_V, tables.mid[1]) == 255 &&
                   dynamic_code(NAN, 1, DYNAMIC_OF_V, tables.mid[1]) == 0);
}

/* Within two units in the last place: programs may round a product and a sum once. */
static bool is_near(const float *got, const float *want, int64_t n)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad += fabs((double)got[i] - want[i]) > 2 * (nextafterf(fabsf(want[i]), INFINITY) - fabsf(want[i]));
    return bad == 0;
}

/* The update that numpy makes of three blocks, the last of which is short. */
TEST(adamw8_recorded)
{
    const int64_t n = COUNT(update_g), blocks = COUNT(update_m_absmax);
    const float norm = 3;
    float *w = f32_copy(update_w, n);
    Moment8 m = moment_new(n, blocks), v = moment_new(n, blocks);
    memcpy(m.code, update_m, (size_t)n), memcpy(v.code, update_v, (size_t)n);
    memcpy(m.absmax, update_m_absmax, sizeof update_m_absmax);
    memcpy(v.absmax, update_v_absmax, sizeof update_v_absmax);
    adamw8(w, m.code, v.code, m.absmax, v.absmax, update_g, args_of_step, &norm, n, 1, n, n, n, 1);
    check_true("w", is_near(w, update_w_after, n));
    check_same("m", m.code, update_m_after, n);
    check_same("v", v.code, update_v_after, n);
    check_true("largest m", is_near(m.absmax, update_m_absmax_after, blocks));
    check_true("largest v", is_near(v.absmax, update_v_absmax_after, blocks));
}
