/* c_ad.cpp -- transitions.cuh and action_type.cuh. */
// same: the kernels are one source in fp32 and bf16
#include "../../kernels/cuda/action_type.cuh"
#include "../../kernels/cuda/transitions.cuh"
#include "harness.h"
#ifndef __CUDACC__
#define inline __attribute__((no_sanitize("thread"))) inline
#endif
#include "../kernels/tokens.h"
#ifndef __CUDACC__
#undef inline
#endif

#include <cmath>

/* Wider than a warp, and not as wide. */
TEST(transition_table)
{
    for (int k = 0; k < 2; k++) {
        const int64_t C = k ? 5 : 33, n = TOKENS_PARAMETERS * C;
        const int typed = !k, start = k ? 0 : 40;
        act_t *x = act_normal(n, 0, 1), *table = NEW(act_t, TOKENS * C);
        act_t *states = x + 11 * C, *marks = typed ? states + 81 * C : nullptr,
              *types = typed ? marks + 2 * C : nullptr;
        float *dtable = f32_integers(TOKENS * C, 3), *grad = NEW(float, n);
        float *dstates = grad + 11 * C, *dmarks = typed ? dstates + 81 * C : nullptr,
              *dtypes = typed ? dmarks + 2 * C : nullptr;
        double *want = HOST(double, TOKENS * C), *want_grad = HOST(double, n);
        Spelled *all = HOST(Spelled, TOKENS);
        tokens_spell(all, start);
        tokens_table(want, act_double(x, n), all, typed, C);
        for (int beta = 0; beta < 2; beta++)
            tokens_gradient(want_grad, f32_double(dtable, TOKENS * C), all, typed, C, beta);
        run([&] {
            transition_table_fwd(table, x, x + 10 * C, states, marks, types, start, C, stream);
            for (int beta = 0; beta < 2; beta++)
                transition_table_bwd(grad, grad + 10 * C, dstates, dmarks, dtypes, dtable, start, C, beta, stream);
        });
        check_act("table", table, want, TOKENS * C, 64);
        check_f32_exact("gradients", grad, want_grad, typed ? n : 92 * C);
    }
}

TEST(action_type_loss)
{
    for (int k = 0; k < 2; k++) {
        const int64_t n = k ? 3 : 700;
        const int O = k ? 5 : 8;
        const float scales_[2] = { 0.25f, 0.5f }, weight = 0.75f;
        act_t *z = act_normal(n * O, 0, 2), *dz = NEW(act_t, n * O);
        int32_t *labels_ = HOST(int32_t, n), *kinds_ = HOST(int32_t, n);
        double *want = HOST(double, n * O), sums[4] = {}, start[10] = { 3, 1, 2, 3, 4 };
        for (int64_t i = 0; i < n; i++) {
            labels_[i] = (int32_t)random_below(6) - 1;
            kinds_[i] = (int32_t)random_below(4) - 1;
        }
        choices_ref(sums, want, act_double(z, n * O), labels_, k ? nullptr : kinds_, scales_[0], scales_[1], n, O);
        int32_t *labels = upload(labels_, n), *kinds = k ? nullptr : upload(kinds_, n);
        float *scales = upload(scales_, 2);
        double *to = upload(start, 10);
        run([&] {
            action_type_loss_bwd(to, to + 1, dz, z, labels, scales, scales + 1, kinds, weight, n, O, stream);
            action_type_loss(to + 5, to + 6, z, labels, kinds, weight, n, O, stream);
        });
        const double *got = download(to, 10), all = sums[ACTION_TYPE_LOSS] + weight * sums[ACTION_TYPE_TYPE_LOSS];
        check_act("dz", dz, want, n * O, 8);
        for (int j = 0; j < ACTION_TYPE_STATS; j++) {
            const double bound = 1e-6 * (sums[j] + 1);
            check_true("sums", std::fabs(got[1 + j] - (j + 1) - sums[j]) <= bound);
            check_true("sums without gradients", std::fabs(got[6 + j] - sums[j]) <= bound);
        }
        check_true("loss", std::fabs(got[0] - 3 - all) <= 1e-6 * (all + 3));
        check_true("loss without gradients", std::fabs(got[5] - all) <= 1e-6 * (all + 1));
    }
}
