/* b_adamw.c -- adamw.h, adamw_parts.h, fold.h. */
#include "../../kernels/cpu/adamw.h"
#include "../../kernels/cpu/adamw_parts.h"
#include "../../kernels/cpu/fold.h"
#include "../../kernels/reference/adamw.h"
#include "harness.h"
#include "terms.h"

/* Three steps of both kernels against the double reference, with and without decay and clipping. */
TEST(adamw)
{
    static const int64_t sizes[] = { 17, 64, 1000, 20011 };
    for (int k = 0; k < 16; k++) {
        const int64_t n = sizes[k / 4];
        const int decay = k & 1;
        float *w = f32_normal(n, 0, 0.5), *m = f32_normal(n, 0, 0.1), *v = f32_normal(n, 0, 0.1);
        for (int64_t i = 0; i < n; i++)
            v[i] = v[i] * v[i];
        float *master = f32_copy(w, n), *m2 = f32_copy(m, n), *v2 = f32_copy(v, n);
        wt_t *stored = NEW(wt_t, n);
        double *w_ = f32_double(w, n), *m_ = f32_double(m, n), *v_ = f32_double(v, n);
        double *w_terms = f32_double(f32_integers(n, 0), n);
        for (int t = 1; t <= 3; t++) {
            float adamw_args[8] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0, 0, k & 2 ? 1.0f : 0.0f };
            adamw_args[5] = (float)(1 - pow(adamw_args[1], t));
            adamw_args[6] = (float)(1 - pow(adamw_args[2], t));
            float *g = f32_normal(n, 0, 0.3), norm;
            grad_norm(&norm, g, n, new_bytes(grad_norm_workspace()));
            double adamw_args_[8];
            for (int i = 0; i < 8; i++)
                adamw_args_[i] = adamw_args[i];
            adamw_terms(w_terms, w_, n);
            adamw_ref(w_, m_, v_, f32_double(g, n), adamw_args_, norm, n, decay);
            adamw(w, m, v, g, adamw_args, &norm, n, decay);
            adamw_mixed(stored, &(Master){.fp32 = master}, m2, v2, g, adamw_args, &norm, n, decay);
            check_f32_terms("w", w, w_, w_terms, n, t);
            check_f32("m", m, m_, n, t);
            check_f32("v", v, v_, n, t);
            check_same("master", master, w, n * 4);
            check_same("moments", v2, v, n * 4);
            double *rounded = f32_double(w, n);
            check_act_exact("stored", stored, rounded, n);
        }
    }
}

/* Every rank's part of three tensors that lie apart, in turn: the same bits as all at once; between
 * parts and tensors nothing changes. Gradients lie as weights do, or are the rank's parts alone. */
TEST(adamw_parts)
{
    static const int ranks[] = { 2, 3, 8 };
    for (int k = 0; k < 3; k++) {
        const int64_t n = 70001, slots = 3, part = share_count(ranks[k]) * share_elements(n),
                      stride = ranks[k] * part, all = slots * stride;
        const float adamw_args[8] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.1f, 0.001f, 1 }, norm = 3;
        float *w = f32_normal(all, 0, 0.5), *m = f32_normal(all, 0, 0.1), *g = f32_normal(all, 0, 1);
        float *v = f32_normal(all, 0, 0.1);
        for (int64_t i = 0; i < all; i++)
            v[i] = v[i] * v[i];
        float *w2 = f32_copy(w, all), *w3 = f32_copy(w, all), *m2 = f32_copy(m, all);
        float *v2 = f32_copy(v, all), *master = f32_copy(w, all);
        wt_t *stored = NEW(wt_t, all), *stored2 = NEW(wt_t, all);
        check_true("room for all elements", stride >= n);
        for (int r = 0; r < ranks[k]; r++) {
            float *own[4] = { NEW(float, slots * part), NEW(float, slots * part),
                              NEW(float, slots * part), NEW(float, slots * part) };
            float *own2[3] = { NEW(float, slots * part), NEW(float, slots * part),
                               NEW(float, slots * part) };
            float *gradient = NEW(float, slots * part);
            for (int64_t l = 0; l < slots; l++)
                for (int64_t i = 0; i < part; i++) {
                    const int64_t from = l * stride + r * part + i, to = l * part + i;
                    own[0][to] = own2[0][to] = m[from];
                    own[1][to] = own2[1][to] = v[from];
                    own2[2][to] = w[from];
                    gradient[to] = g[from];
                }
            adamw_parts(w2 + r * part, own[0], own[1], g + r * part, adamw_args, &norm, part, slots,
                        stride, stride, 1);
            adamw_mixed_parts(stored2 + r * part, &(Master){.fp32 = own2[2]}, own2[0], own2[1], gradient, adamw_args,
                              &norm, part, slots, stride, part, 1);
            for (int64_t l = 0; l < slots; l++) {
                adamw(w3 + l * stride + r * part, m2 + l * stride + r * part,
                      v2 + l * stride + r * part, g + l * stride + r * part, adamw_args, &norm,
                      part, 1);
                check_same("m", own[0] + l * part, m2 + l * stride + r * part, part * 4);
                check_same("v", own[1] + l * part, v2 + l * stride + r * part, part * 4);
                check_same("mixed m", own2[0] + l * part, m2 + l * stride + r * part, part * 4);
                check_same("master", own2[2] + l * part, w3 + l * stride + r * part, part * 4);
            }
        }
        check_same("weights", w2, w3, all * 4);
        adamw_mixed(stored, &(Master){.fp32 = master}, m, v, g, adamw_args, &norm, all, 1);
        check_same("16-bit weights", stored2, stored, all * (int64_t)sizeof *stored);
    }
}

/* True if each of `slots` tensors, every `stride` elements, is 0 after its n elements. */
static bool zero_after(const float *x, int64_t n, int64_t slots, int64_t stride)
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
    enum { RANKS = 3 };
    const int64_t n = 66001, slots = 2, part = share_count(RANKS) * share_elements(n),
                  stride = RANKS * part, all = slots * stride;
    const float adamw_args[8] = { 1e-2f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.1f, 0.001f, 1 }, norm = 3;
    float *w = f32_normal(all, 0, 0.5), *g = f32_normal(all, 0, 1);
    wt_t *stored = NEW(wt_t, all);
    for (int64_t i = 0; i < all; i++) {
        if (i % stride >= n)
            w[i] = g[i] = 0;
        act_store(stored + i, w[i]);
    }
    check_true("there is padding", stride > n && n > 2 * part);
    for (int r = 0; r < RANKS; r++) {
        const int64_t own = slots * part, left = n - r * part < part ? n - r * part : part;
        float *zeros = f32_integers(own, 0), *m = f32_copy(zeros, own), *v = f32_copy(zeros, own),
              *m2 = f32_copy(zeros, own), *v2 = f32_copy(zeros, own), *master = NEW(float, own),
              *before = f32_copy(w, all);
        wt_t *stored_before = memcpy(NEW(wt_t, all), stored, (size_t)all * sizeof *stored);
        for (int64_t l = 0; l < slots; l++)
            memcpy(master + l * part, w + l * stride + r * part, (size_t)part * sizeof *w);
        adamw_parts(w + r * part, m, v, g + r * part, adamw_args, &norm, part, slots, stride, stride,
                    1);
        adamw_mixed_parts(stored + r * part, &(Master){.fp32 = master}, m2, v2, g + r * part, adamw_args, &norm, part,
                          slots, stride, stride, 1);
        check_true("moments after the tensor",
                   zero_after(m, left, slots, part) && zero_after(v, left, slots, part) &&
                       zero_after(m2, left, slots, part) && zero_after(v2, left, slots, part));
        check_true("master weights after it", zero_after(master, left, slots, part));
        bool others = true;
        for (int64_t i = 0; i < all; i++)
            if (i % stride / part != r)
                others = others && w[i] == before[i] &&
                         act_load(stored + i) == act_load(stored_before + i);
        check_true("parts of other ranks", others);
    }
    float *rounded = NEW(float, all);
    for (int64_t i = 0; i < all; i++)
        rounded[i] = act_load(stored + i);
    check_true("weights after the tensors", zero_after(w, n, slots, stride));
    check_true("16-bit weights after them", zero_after(rounded, n, slots, stride));
}

/* Sums of squares of whole numbers are exact: of two gradients side by side in column 0, and of three
 * tensors in columns 1 to 3; the same norm for any number of ranks. The padding, NaN, does not
 * count. */
TEST(grad_squares)
{
    static const int ranks[] = { 1, 2, 3, 5, 32, 64 };
    const int64_t n = 66001, slots = 3, small = 1013, width = 1 + slots;
    const SquareColumns first = { 0, width }, others = { 1, width };
    for (int k = 0; k < 6; k++) {
        const int64_t count = share_count(ranks[k]), part = count * share_elements(n),
                      stride = ranks[k] * part, own = (count * width + 255) / 256 * 256;
        float *g = NEW(float, slots * stride), *side = f32_integers(small, 9), norm;
        double *squares = NEW(double, own * ranks[k]), want = 0;
        for (int64_t i = 0; i < small; i++)
            want += (double)side[i] * side[i];
        memset(squares, 0, (size_t)(own * ranks[k]) * sizeof *squares);
        for (int64_t l = 0; l < slots; l++)
            for (int64_t i = 0; i < n; i++) {
                g[l * stride + i] = (float)((i * 7 + l * 3) % 19 - 9);
                want += (double)g[l * stride + i] * g[l * stride + i];
            }
        for (int r = 0; r < ranks[k]; r++) {
            grad_squares_whole(squares + r * own, &first, side, small, r, ranks[k]);
            grad_squares(squares + r * own, &others, g + r * part, n, slots, stride,
                         share_elements(n), r, ranks[k]);
        }
        squares_norm(&norm, squares, width, own * ranks[k], ranks[k]);
        const float exact = (float)sqrt(want);
        check_same("norm", &norm, &exact, 4);
    }
}

/* Of gradients whose squares round, the rank's parts alone give the same bits as whole ones. */
TEST(grad_squares_of_parts)
{
    const int ranks = 3;
    const int64_t n = 66001, slots = 2, count = share_count(ranks), part = count * share_elements(n);
    const SquareColumns at = { 0, slots };
    for (int r = 0; r < ranks; r++) {
        float *g = f32_normal(slots * ranks * part, 1, 1), *own = NEW(float, slots * part);
        double *whole = NEW(double, count * slots), *parts = NEW(double, count * slots);
        for (int64_t l = 0; l < slots; l++)
            memcpy(own + l * part, g + (l * ranks + r) * part, (size_t)part * sizeof *own);
        grad_squares(whole, &at, g + r * part, n, slots, ranks * part, part / count, r, ranks);
        grad_squares(parts, &at, own, n, slots, part, part / count, r, ranks);
        check_same("squares", parts, whole, count * slots * 8);
    }
}

/* Twelve micro-batches on 1, 2, 3, 4 and 12 ranks: one left fold, which other orders do not give. */
TEST(fold)
{
    enum { MICROS = 12 };
    const int64_t n = 5003;
    float *micro = f32_normal(MICROS * n, 4, 1), *want = NEW(float, n), *tree = NEW(float, n);
    for (int64_t i = 0; i < MICROS * n; i += 7)
        micro[i] = -0.0f;
    for (int64_t i = 0; i < n; i++) {
        float pairs[MICROS];
        want[i] = 0;
        for (int k = 0; k < MICROS; k++)
            want[i] += pairs[k] = micro[k * n + i];
        for (int apart = 1; apart < MICROS; apart *= 2)
            for (int k = 0; k + apart < MICROS; k += 2 * apart)
                pairs[k] += pairs[k + apart];
        tree[i] = pairs[0];
    }
    for (int ranks = 1; ranks <= MICROS; ranks++) {
        float *sum = f32_normal(n + 1, 0, 1), after = sum[n];
        for (int k = 0; MICROS % ranks == 0 && k < MICROS; k += ranks)
            fold_pieces(sum, micro + k * n, n, n, ranks, k > 0);
        if (MICROS % ranks == 0)
            check_same("sum", sum, want, n * 4);
        check_same("what is after it", &sum[n], &after, 4);
    }
    check_true("a tree would differ", memcmp(tree, want, (size_t)n * sizeof *tree) != 0);
    float *sum = NEW(float, 3 * 8), *g = f32_normal(3 * 8, 0, 1);
    memcpy(sum, g, 3 * 8 * sizeof *sum);
    fold(sum, g, 5, 3, 8, 1);
    for (int64_t i = 0; i < 3 * 8; i++)
        check_true("five of every eight", sum[i] == (i % 8 < 5 ? g[i] + g[i] : g[i]));
}

/* The first step moves every weight by lr against the sign of its gradient, whatever the gradient's
 * size (Kingma, Ba 2014, section 2.1). */
TEST(adamw_first_step)
{
    const int64_t n = 1000;
    float *g = f32_normal(n, 0, 1), *w = f32_integers(n, 0), *m = f32_integers(n, 0);
    float *v = f32_integers(n, 0), norm = 0;
    float adamw_args[8] = { 0.25f, 0.9f, 0.999f, 0, 0, 0, 0, 0 };
    adamw_args[5] = 1 - adamw_args[1];
    adamw_args[6] = 1 - adamw_args[2];
    double *want = NEW(double, n);
    for (int64_t i = 0; i < n; i++)
        want[i] = g[i] > 0 ? -0.25 : 0.25;
    adamw(w, m, v, g, adamw_args, &norm, n, 0);
    check_f32("w", w, want, n, 1);
}

TEST(grad_norm)
{
    static const int64_t sizes[] = { 1, 2, 255, 1023, 100003 };
    for (int k = 0; k < 5; k++) {
        const int64_t n = sizes[k];
        float *g = f32_normal(n, 0, 1), norm = 0;
        void *ws = new_bytes(grad_norm_workspace());
        grad_norm(&norm, g, n, ws);
        double want = grad_norm_ref(f32_double(g, n), n);
        check_f32("norm", &norm, &want, 1, 1);
    }
    float g[4] = { 1e-25f, 0, 0, 0 }, norm;         /* squares out of range of fp32 */
    grad_norm(&norm, g, 4, new_bytes(grad_norm_workspace()));
    check_true("tiny", norm == 1e-25f);
    g[0] = 3e30f, g[3] = -4e30f;
    grad_norm(&norm, g, 4, new_bytes(grad_norm_workspace()));
    check_true("huge", fabsf(norm / 5e30f - 1) < 1e-6f);
}

/* Integers, whose squares and sums are exact: gradients in three pieces, and all at once; a piece
 * that is not finite does not hide those after it from its own guard. */
TEST(partial_norm)
{
    const int64_t n = 20011, ends[] = { 0, 17, 9000, n };
    float *g = f32_integers(n, 9), norm = 0, whole = 0;
    void *ws = new_bytes(grad_norm_workspace());
    double squares = 0, want = 0;
    grad_norm(&whole, g, n, ws);
    for (int k = 0; k < 3; k++) {
        const int64_t many = ends[k + 1] - ends[k];
        double piece = 0;
        for (int64_t i = ends[k]; i < ends[k + 1]; i++)
            piece += (double)g[i] * g[i];
        want += piece;
        partial_norm(&norm, &squares, g + ends[k], many, ws);
        check_true("norm of a piece", norm == (float)sqrt(piece));
        check_true("squares so far", squares == want);
    }
    squares_root(&norm, &squares);
    check_true("norm of all", norm == whole);
    g[5] = NAN;
    squares = 0;
    partial_norm(&norm, &squares, g, 17, ws);
    check_true("NaN", isnan(norm) && isnan(squares));
    partial_norm(&norm, &squares, g + 17, n - 17, ws);
    check_true("the next piece is finite, the sum is not", isfinite(norm) && isnan(squares));
    squares_root(&norm, &squares);
    check_true("nor is the norm of all", isnan(norm));
}
