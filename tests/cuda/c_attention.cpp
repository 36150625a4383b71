/* c_attention.cpp -- attention.cuh. */
#include <math.h>

#include "../../kernels/cuda/attention.cuh"
#include "../../kernels/reference/attention.h"
#include "harness.h"

struct Shape {
    int64_t B, T, H, K;
};

/* One token; within a tile; at, above and well above 64 keys; above 128 rows; grouped heads. */
static const Shape shapes[] = {
    {2, 1, 1, 1}, {1, 17, 4, 2}, {1, 64, 1, 1}, {2, 65, 2, 1}, {1, 130, 6, 1},
};

static int64_t qkv_size(const Shape &s, int64_t D)
{
    return s.B * s.T * (s.H + 2 * s.K) * D;
}

static int64_t out_size(const Shape &s, int64_t D)
{
    return s.B * s.T * s.H * D;
}

/* Forward and backward of one shape against the reference. */
template <int D, bool CAUSAL> static void sequence(const Shape &s)
{
    const int64_t n = qkv_size(s, D), m = out_size(s, D), L = s.B * s.H * s.T;
    const float scale = 1 / sqrtf((float)D);
    act_t *qkv = act_normal(n, 0, 1), *d_o = act_normal(m, 0, 1), *o = NEW(act_t, m);
    act_t *d = NEW(act_t, n);
    float *lse = NEW(float, L);
    void *ws = new_bytes(attention_bwd_cuda_workspace(s.B, s.T, s.H, s.K, D, sizeof(act_t)));
    double *x = act_double(qkv, n), *dy = act_double(d_o, m), *want = HOST(double, m);
    double *want_lse = HOST(double, L), *want_d = HOST(double, n);
    attention_fwd_ref(want, want_lse, x, s.B, s.T, s.H, s.K, D, scale, CAUSAL);
    attention_bwd_ref(want_d, dy, want, want_lse, x, s.B, s.T, s.H, s.K, D, scale, CAUSAL);
    run([&] {
        attention_fwd<D, CAUSAL>(o, lse, qkv, s.B, s.T, s.H, s.K, scale, nullptr, stream);
        attention_bwd<D, CAUSAL>(d, d_o, o, lse, qkv, s.B, s.T, s.H, s.K, scale, ws, stream);
    });
    check_act("o", o, want, m, s.T + 2 * D);
    check_f32("lse", lse, want_lse, L, s.T + D);
    /* as in ../kernels/a_attention.c */
    const double terms = (double)((s.T + 3 * D) * s.H / s.K);
    check_act("dqkv", d, want_d, n, (int64_t)(terms * (1 + log((double)s.T))));
}

template <int D> static void head_size(void)
{
    for (const Shape &s : shapes) {
        sequence<D, true>(s);
        sequence<D, false>(s);
    }
}

TEST(attention_2) { head_size<2>(); }
TEST(attention_6) { head_size<6>(); }
TEST(attention_16) { head_size<16>(); }
TEST(attention_20) { head_size<20>(); }
TEST(attention_32) { head_size<32>(); }
TEST(attention_48) { head_size<48>(); }
TEST(attention_64) { head_size<64>(); }
TEST(attention_80) { head_size<80>(); }
TEST(attention_128) { head_size<128>(); }
