/* c_adamw.cpp -- adamw.cuh, adamw_parts.cuh, fold.cuh, philox.cuh and the reductions of types.cuh. */
#include "../../kernels/cuda/adamw.cuh"
#include "../../kernels/cuda/adamw_parts.cuh"
#include "../../kernels/cuda/fold.cuh"
#include "../../kernels/cuda/philox.cuh"
#include "harness.h"
#include "masks.h"
#include "unwatched.h"

#ifdef ACT_F16
#define ACT_SCALE 1024      /* of the gradients */
#else
#define ACT_SCALE 1
#endif

/* adamw_args on the device for step t, and in double for the reference */
typedef struct {
    float *device;
    double host[9];
} AdamwArgs;

static AdamwArgs adamw_args_of(int t, float clip, float unscale)
{
    float h[9] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0, 0, clip, unscale };
    h[ADAMW_BIAS1] = (float)(1 - pow(h[ADAMW_BETA1], t));
    h[ADAMW_BIAS2] = (float)(1 - pow(h[ADAMW_BETA2], t));
    AdamwArgs adamw_args;
    for (int i = 0; i < 9; i++)
        adamw_args.host[i] = h[i];
    adamw_args.device = upload(h, 9);
    return adamw_args;
}

/* The parameters of a test: both kernels' and the reference's. */
typedef struct {
    float *w, *m, *v, *master, *m2, *v2;
    wt_t *stored;
    double *w_, *m_, *v_;
} Parameters;

/* off: elements from the alignment of a buffer */
static Parameters parameters_new(int64_t n, int64_t off)
{
    Parameters p;
    p.w = f32_normal(n + off, 0, 0.5);
    p.m = f32_normal(n + off, 0, 0.1);
    double *square = f32_double(f32_normal(n + off, 0, 0.1), n + off);
    for (int64_t i = 0; i < n + off; i++)
        square[i] *= square[i];
    p.v = f32_from(square, n + off);
    p.master = f32_copy(p.w, n + off) + off;
    p.m2 = f32_copy(p.m, n + off) + off;
    p.v2 = f32_copy(p.v, n + off) + off;
    p.stored = NEW(wt_t, n + off) + off;
    p.w += off, p.m += off, p.v += off;
    p.w_ = f32_double(p.w, n), p.m_ = f32_double(p.m, n), p.v_ = f32_double(p.v, n);
    return p;
}

/* Three steps of both kernels against the reference, with and without decay and clipping. Under
 * fp16 the gradient comes scaled by 1024, its norm does not. */
static void adamw_steps(int64_t n, int64_t off, int decay, float clip)
{
    const double scale = ACT_SCALE;
    Parameters p = parameters_new(n, off);
    double *w_terms = f32_double(f32_integers(n, 0), n);
    for (int t = 1; t <= 3; t++) {
        const AdamwArgs adamw_args = adamw_args_of(t, clip, (float)(1 / scale));
        double *g_ = f32_double(f32_normal(n + off, 0, 0.3), n + off);
        double *scaled = HOST(double, n + off);
        for (int64_t i = 0; i < n + off; i++)
            scaled[i] = scale * g_[i];
        const float *g = f32_from(scaled, n + off) + off;
        const double norm_ = (float)grad_norm_ref(g_ + off, n);
        const float *norm = f32_from(&norm_, 1);
        adamw_terms(w_terms, p.w_, n);
        adamw_ref(p.w_, p.m_, p.v_, g_ + off, adamw_args.host, norm_, n, decay);
        run([&] {
            adamw(p.w, p.m, p.v, g, adamw_args.device, norm, n, decay, stream);
            adamw_mixed(p.stored, Master{ p.master }, p.m2, p.v2, g, adamw_args.device, norm, n, decay, stream);
        });
        check_f32_terms("w", p.w, p.w_, w_terms, n, t);
        check_f32("m", p.m, p.m_, n, t);
        check_f32("v", p.v, p.v_, n, t);
        check_same("master", p.master, p.w, n * 4);
        check_same("m of the master", p.m2, p.m, n * 4);
        check_same("v of the master", p.v2, p.v, n * 4);
        check_act_exact("stored", p.stored, f32_double(p.w, n), n);
    }
}

TEST(adamw)
{
    for (int64_t n : { 17, 64, 1023, 5003 })
        for (int k = 0; k < 4; k++)
            adamw_steps(n, n == 17 ? 1 : 0, k & 1, k & 2 ? 1.0f : 0.0f);
}

/* Around a vector: as the first elements of more. */
TEST(adamw_few)
{
    const int64_t N = 32;
    const AdamwArgs adamw_args = adamw_args_of(1, 1, 1);
    const float *g = f32_normal(N, 0, 1), *norm = f32_normal(1, 2, 0);
    Parameters p = parameters_new(N, 0);
    float *w[7], *m[7], *v[7];
    for (int n = 1; n <= 7; n++) {
        w[n - 1] = f32_copy(p.w, n), m[n - 1] = f32_copy(p.m, n), v[n - 1] = f32_copy(p.v, n);
        wt_t *stored = NEW(wt_t, n);
        run([&] {
            adamw_mixed(stored, Master{ w[n - 1] }, m[n - 1], v[n - 1], g, adamw_args.device, norm, n, 1, stream);
        });
        check_act_exact("stored", stored, f32_double(w[n - 1], n), n);
    }
    run([&] { adamw(p.w, p.m, p.v, g, adamw_args.device, norm, N, 1, stream); });
    for (int n = 1; n <= 7; n++) {
        check_same("w", w[n - 1], p.w, 4 * n);
        check_same("m", m[n - 1], p.m, 4 * n);
        check_same("v", v[n - 1], p.v, 4 * n);
    }
}

/* Rank r's parts of tensors that are `stride` elements apart, side by side. */
static float *own_parts(const float *x, int64_t part, int64_t slots, int64_t stride, int r)
{
    const float *all = download(x, slots * stride);
    float *own = HOST(float, slots * part);
    for (int64_t l = 0; l < slots; l++)
        memcpy(own + l * part, all + l * stride + r * part, sizeof(float) * (size_t)part);
    return upload(own, slots * part);
}

/* Each rank's part of tensors that lie apart: the same bits as all at once, and nothing else. */
TEST(adamw_parts)
{
    const int64_t n = 5003, slots = 2;
    for (int ranks : { 2, 3 }) {
        const int64_t part = share_count(ranks) * share_elements(n), stride = ranks * part,
                      all = slots * stride;
        const AdamwArgs adamw_args = adamw_args_of(1, 1, 1);
        const float *g = f32_normal(all, 0, 1), *norm = f32_normal(1, 2, 0);
        Parameters p = parameters_new(all, 0);
        float *w = f32_copy(p.w, all);
        wt_t *stored = NEW(wt_t, all);
        for (int r = 0; r < ranks; r++) {
            float *m = own_parts(p.m, part, slots, stride, r), *m2 = f32_copy(m, slots * part);
            float *v = own_parts(p.v, part, slots, stride, r), *v2 = f32_copy(v, slots * part);
            float *master = own_parts(p.w, part, slots, stride, r);
            const float *gradient = own_parts(g, part, slots, stride, r);
            const int64_t at = r * part;
            run([&] {
                adamw_parts(w + at, m, v, g + at, adamw_args.device, norm, part, slots, stride,
                            stride, 1, stream);
                adamw_mixed_parts(stored + at, Master{ master }, m2, v2, gradient, adamw_args.device, norm,
                                  part, slots, stride, part, 1, stream);
            });
            check_same("m of the master", m2, m, slots * part * 4);
            check_same("v of the master", v2, v, slots * part * 4);
        }
        run([&] {
            adamw(p.w, p.m, p.v, g, adamw_args.device, norm, all, 1, stream);
        });
        check_same("w", w, p.w, all * 4);
        check_act_exact("stored", stored, f32_double(p.w, all), all);
    }
}

/* True if each of `slots` tensors, every `stride` elements, is 0 after its n elements; x: on the host. */
static bool zero_after(const double *x, int64_t n, int64_t slots, int64_t stride)
{
    bool zeros = true;
    for (int64_t l = 0; l < slots; l++)
        for (int64_t i = n; i < stride; i++)
            zeros = zeros && x[l * stride + i] == 0;
    return zeros;
}

/* Padding that is 0 stays 0, and a rank writes no element of another's part. */
TEST(adamw_parts_padding)
{
    const int64_t n = 14001, slots = 2, ranks = 3, part = share_count(ranks) * share_elements(n),
                  stride = ranks * part, all = slots * stride, own = slots * part;
    const AdamwArgs adamw_args = adamw_args_of(1, 1, 1);
    double *w_ = f32_double(f32_normal(all, 0, 0.5), all), *g_ = f32_double(f32_normal(all, 0, 1), all);
    for (int64_t i = 0; i < all; i++)
        if (i % stride >= n)
            w_[i] = g_[i] = 0;
    float *w = f32_from(w_, all);
    const float *g = f32_from(g_, all), *norm = f32_normal(1, 2, 0);
    wt_t *stored = act_from(w_, all);
    check_true("there is padding", stride > n && n > 2 * part);
    for (int r = 0; r < ranks; r++) {
        const int64_t left = n - r * part < part ? n - r * part : part, at = r * part;
        float *m = f32_integers(own, 0), *v = f32_integers(own, 0), *m2 = f32_integers(own, 0),
              *v2 = f32_integers(own, 0), *master = own_parts(w, part, slots, stride, r);
        const double *before = f32_double(w, all), *stored_before = act_double(stored, all);
        run([&] {
            adamw_parts(w + at, m, v, g + at, adamw_args.device, norm, part, slots, stride, stride, 1,
                        stream);
            adamw_mixed_parts(stored + at, Master{ master }, m2, v2, g + at, adamw_args.device, norm, part,
                              slots, stride, stride, 1, stream);
        });
        for (const float *x : { m, v, m2, v2, master })
            check_true("states after the tensor", zero_after(f32_double(x, own), left, slots, part));
        const double *after = f32_double(w, all), *stored_after = act_double(stored, all);
        bool others = true;
        for (int64_t i = 0; i < all; i++)
            if (i % stride / part != r)
                others = others && after[i] == before[i] && stored_after[i] == stored_before[i];
        check_true("parts of other ranks", others);
    }
    check_true("weights after the tensors", zero_after(f32_double(w, all), n, slots, stride) &&
                                                 zero_after(act_double(stored, all), n, slots, stride));
}

/* Sums of squares of whole numbers are exact: the same norm for any number of ranks. The padding, NaN,
 * does not count. */
TEST(grad_squares)
{
    const int64_t n = 20001, slots = 2, small = 1013, width = 1 + slots;
    const SquareColumns first = { 0, width }, others = { 1, width };
    for (int ranks : { 1, 2, 3, 64 }) {
        const int64_t count = share_count(ranks), stride = ranks * count * share_elements(n),
                      own = (count * width + 255) / 256 * 256;
        double *whole = HOST(double, slots * stride), *none = HOST(double, own * ranks), want = 0;
        for (int64_t i = 0; i < own * ranks; i++)
            none[i] = 0;
        for (int64_t i = 0; i < slots * stride; i++) {
            whole[i] = i % stride < n ? (double)(i * 7 % 19 - 9) : (double)NAN;
            want += i % stride < n ? whole[i] * whole[i] : 0;
        }
        const float *g = f32_from(whole, slots * stride), *side = f32_integers(small, 9);
        const double *side_ = f32_double(side, small);
        for (int64_t i = 0; i < small; i++)
            want += side_[i] * side_[i];
        double *squares = upload(none, own * ranks);
        float *norm = NEW(float, 1);
        run([&] {
            for (int r = 0; r < ranks; r++) {
                grad_squares_whole(squares + r * own, first, side, small, r, ranks, stream);
                grad_squares(squares + r * own, others, g + r * (stride / ranks), n, slots, stride,
                             share_elements(n), r, ranks, stream);
            }
            squares_norm(norm, squares, width, own * ranks, ranks, stream);
        });
        const double root = (float)sqrt(want);
        check_f32_exact("norm", norm, &root, 1);
    }
}

/* Twelve micro-batches on 1, 3 and 12 ranks: one left fold, in fp32. */
TEST(fold)
{
    const int micros = 12;
    const int64_t n = 5003;
    const float *micro = f32_normal(micros * n, 4, 1);
    const double *of = f32_double(micro, micros * n);
    double *want = HOST(double, n);
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < micros; k++)
            sum += (float)of[k * n + i];
        want[i] = sum;
    }
    for (int ranks : { 1, 3, 12 }) {
        float *sum = f32_normal(n, 0, 1);
        run([&] {
            for (int k = 0; k < micros; k += ranks)
                fold_pieces(sum, micro + k * n, n, n, ranks, k > 0, stream);
        });
        check_f32_exact("sum", sum, want, n);
    }
    float *sum = f32_integers(3 * 8, 3), *g = f32_integers(3 * 8, 5);
    const double *before = f32_double(sum, 24), *more = f32_double(g, 24);
    double *after = HOST(double, 24);
    for (int64_t i = 0; i < 24; i++)
        after[i] = before[i] + (i % 8 < 5 ? more[i] : 0);
    run([&] { fold(sum, g, 5, 3, 8, 1, stream); });
    check_f32_exact("five of every eight", sum, after, 24);
}

/* The first step moves every weight by lr against the sign of its gradient, whatever the gradient's
 * size (Kingma, Ba 2014, section 2.1). */
TEST(adamw_first_step)
{
    const int64_t n = 1000;
    float *g = f32_normal(n, 0, 1), *w = f32_integers(n, 0), *m = f32_integers(n, 0);
    float *v = f32_integers(n, 0), *norm = f32_integers(1, 0);
    float h[9] = { 0.25f, 0.9f, 0.999f, 0, 0, 1 - 0.9f, 1 - 0.999f, 0, 1 };
    const float *adamw_args = upload(h, 9);
    double *want = HOST(double, n), *g_ = f32_double(g, n);
    for (int64_t i = 0; i < n; i++)
        want[i] = g_[i] > 0 ? -0.25 : 0.25;
    run([&] { adamw(w, m, v, g, adamw_args, norm, n, 0, stream); });
    check_f32("w", w, want, n, 1);
}

/* Nothing changes, not one bit, when the norm is not finite. */
TEST(adamw_skips)
{
    const int64_t n = 1003;
    const AdamwArgs adamw_args = adamw_args_of(1, 1, 1);
    for (double bad : { (double)NAN, (double)INFINITY }) {
        Parameters p = parameters_new(n, 0);
        const float *g = f32_normal(n, 0, 1), *norm = f32_from(&bad, 1);
        wt_t *stored = act_normal(n, 0, 1), *stored_ = act_copy(stored, n);
        run([&] {
            adamw(p.w, p.m, p.v, g, adamw_args.device, norm, n, 1, stream);
            adamw_mixed(stored, Master{ p.master }, p.m2, p.v2, g, adamw_args.device, norm, n, 1, stream);
        });
        check_f32_exact("w", p.w, p.w_, n);
        check_f32_exact("m", p.m, p.m_, n);
        check_f32_exact("v", p.v, p.v_, n);
        check_f32_exact("master", p.master, p.w_, n);
        check_f32_exact("m of the master", p.m2, p.m_, n);
        check_f32_exact("v of the master", p.v2, p.v_, n);
        check_same("stored", stored, stored_, n * (int64_t)sizeof *stored);
    }
}

static float norm_of(const float *g, int64_t n)
{
    float *norm = NEW(float, 1);
    void *ws = new_bytes(grad_norm_cuda_workspace());
    run([&] { grad_norm(norm, g, n, ws, stream); });
    return *download(norm, 1);
}

TEST(grad_norm)
{
    for (int64_t n : { 1, 1023, 30003 }) {
        const int off = n == 1023;                  /* from an address without vectors */
        const float *g = f32_normal(n + off, 0, 1) + off;
        float got = norm_of(g, n);
        double want = grad_norm_ref(f32_double(g, n), n);
        check_f32("norm", upload(&got, 1), &want, 1, 1);
    }
    const int64_t many = 20001;
    double square = 0, *x = f32_double(f32_integers(many, 9), many);
    for (int64_t i = 0; i < many; i++)
        square += x[i] * x[i];
    check_true("exact", norm_of(f32_from(x, many), many) == (float)sqrt(square));
    float g[4] = { 1e-25f, 0, 0, 0 };               /* squares out of range of fp32 */
    check_true("tiny", norm_of(upload(g, 4), 4) == 1e-25f);
    g[0] = 3e30f, g[3] = -4e30f;
    check_true("huge", fabsf(norm_of(upload(g, 4), 4) / 5e30f - 1) < 1e-6f);
    g[1] = NAN;
    check_true("NaN", isnan(norm_of(upload(g, 4), 4)));
}

/* Integers, whose squares and sums are exact, in three pieces; then a piece with a NaN. */
TEST(partial_norm)
{
    const int64_t n = 20001, ends[] = { 0, 17, 9000, n };
    double *x = f32_double(f32_integers(n, 9), n), none = 0, want = 0;
    float *g = f32_from(x, n), *norm = NEW(float, 1);
    double *squares = upload(&none, 1);
    void *ws = new_bytes(grad_norm_cuda_workspace());
    for (int k = 0; k < 3; k++) {
        double piece = 0;
        for (int64_t i = ends[k]; i < ends[k + 1]; i++)
            piece += x[i] * x[i];
        want += piece;
        run([&] {
            partial_norm(norm, squares, g + ends[k], ends[k + 1] - ends[k], ws, stream);
        });
        check_true("norm of a piece", *download(norm, 1) == (float)sqrt(piece));
        check_true("squares so far", *download(squares, 1) == want);
    }
    run([&] { squares_root(norm, squares, stream); });
    check_true("norm of all", *download(norm, 1) == norm_of(g, n));
    const float bad[4] = { 1, NAN, 0, 0 }, *at = upload(bad, 4);
    run([&] { partial_norm(norm, squares, at, (int64_t)4, ws, stream); });
    check_true("NaN", isnan(*download(norm, 1)) && isnan(*download(squares, 1)));
    run([&] { partial_norm(norm, squares, g, n, ws, stream); });
    check_true("the next piece is finite, the sum is not",
               isfinite(*download(norm, 1)) && isnan(*download(squares, 1)));
}

TEST(zero)
{
    float *g = f32_normal(1003, 0, 1);
    double *want = f32_double(g, 1003);
    for (int i = 1; i < 1002; i++)
        want[i] = 0;
    run([&] { zero(g + 1, 1001, stream); });
    check_f32_exact("g", g, want, 1003);
}

/* out (3, blockDim): sum, largest, sum in double of what the threads give */
__global__ void __launch_bounds__(1024) reduce_kernel(double *out, const float *x)
{
    const float v = x[threadIdx.x];
    out[threadIdx.x] = block_sum(v);
    out[blockDim.x + threadIdx.x] = block_max(v);
    out[2 * blockDim.x + threadIdx.x] = block_sum((double)v);
}

TEST(block_reductions)
{
    for (unsigned n : { 32u, 64u, 160u, 1024u }) {
        float *x = f32_integers(n, 1000);
        double *out = NEW(double, 3 * n), *x_ = f32_double(x, n), sum = 0, most = x_[0];
        for (unsigned i = 0; i < n; i++) {
            sum += x_[i];
            most = x_[i] > most ? x_[i] : most;
        }
        run([&] { launch(reduce_kernel, 1, n, 0, stream, out, x); });
        const double *got = download(out, 3 * n);
        for (unsigned i = 0; i < n; i++)
            check_true("every thread has the result",
                       got[i] == sum && got[n + i] == most && got[2 * n + i] == sum);
    }
}

__global__ void __launch_bounds__(1) philox_kernel(uint32_t *out, const uint32_t *in)
{
    philox(in, in + 4, out);
}

/* Known answers of the authors' Random123, kat_vectors, philox4x32 10. */
TEST(philox_known)
{
    static const uint32_t rows[][10] = {     /* counter, key, words */
        { 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
        { ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
        { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
          0x94fdcceb, 0x5001e420, 0x24126ea1 },
    };
    for (const uint32_t *row : rows) {
        uint32_t *in = upload(row, 6), *out = NEW(uint32_t, 4);
        run([&] { launch(philox_kernel, 1, 1, 0, stream, out, in); });
        check_same("words", out, upload(row + 6, 4), 16);
    }
}

/* mask (rows, 4 * blockDim), a block a row */
__global__ void __launch_bounds__(1024)
    dropout_kernel(float *mask, const uint32_t *noise, uint32_t site, int64_t T, float p)
{
    const int64_t quad = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float v[4];
    dropout_mask4(v, noise, site, T, blockIdx.x, threadIdx.x, dropout_threshold(p), 1 / (1 - p));
    f32_store4(mask + 4 * quad, v);
}

TEST(dropout_mask)
{
    const int64_t T = 3, rows = 2 * T, n = 64;
    uint32_t noise[4];
    for (float p : { 0.0f, 0.1f, 0.5f }) {
        for (uint32_t &word : noise)
            word = random_u32();
        const uint32_t site = (uint32_t)random_below(100), *noise_ = upload(noise, 4);
        float *mask = NEW(float, rows * n), *want = HOST(float, rows * n);
        for (int64_t i = 0; i < rows * n; i++)
            want[i] = cpu::dropout_keep(noise, site, T, i / n, (uint32_t)(i % n), p) ? 1 / (1 - p) : 0;
        const unsigned blocks = rows, threads = n / 4;
        run([&] { launch(dropout_kernel, blocks, threads, 0, stream, mask, noise_, site, T, p); });
        check_same("mask", mask, upload(want, rows * n), 4 * rows * n);
    }
}

BENCH(adamw)
{
    const int64_t n = 1 << 28;
    float *w = f32_normal(1, 0, 1), h[9] = { 1e-3f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.1f, 0.001f, 1, 1 };
    const float *adamw_args = upload(h, 9), *norm = f32_normal(1, 1, 0);
    float *master = NEW(float, n), *m = NEW(float, n), *v = NEW(float, n), *g = NEW(float, n);
    wt_t *stored = NEW(wt_t, n);
    void *ws = new_bytes(grad_norm_cuda_workspace());
    for (float *p : { master, m, v, g })
        run([&] { zero(p, n, stream); });
    const double N = (double)n;
    bench_report("adamw", bench_time([&] { adamw(master, m, v, g, adamw_args, norm, n, 1, stream); }),
                 28 * N, 0);
    bench_report("adamw_mixed", bench_time([&] {
                     adamw_mixed(stored, Master{ master }, m, v, g, adamw_args, norm, n, 1, stream);
                 }), (28 + (double)sizeof(wt_t)) * N, 0);
    bench_report("grad_norm", bench_time([&] { grad_norm(w, g, n, ws, stream); }), 4 * N, 0);
    bench_report("zero", bench_time([&] { zero(g, n, stream); }), 4 * N, 0);
}
