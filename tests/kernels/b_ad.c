/* b_ad.c -- transitions.h and action_type.h. */
#include <math.h>

#include "../../kernels/cpu/action_type.h"
#include "../../kernels/cpu/transitions.h"
#include "harness.h"
#include "tokens.h"

TEST(transition_table)
{
    for (int k = 0; k < 3; k++) {
        const int64_t C = k == 2 ? 21 : 16, n = TOKENS_PARAMETERS * C;
        const int typed = k != 1, start = k ? 0 : 40;
        act_t *x = act_normal(n, 0, 1), *table = NEW(act_t, TOKENS * C);
        act_t *states = x + 11 * C, *marks = typed ? states + 81 * C : NULL,
              *types = typed ? marks + 2 * C : NULL;
        double *want = NEW(double, TOKENS * C), *want_grad = NEW(double, n);
        Spelled all[TOKENS];
        tokens_spell(all, start);
        transition_table_fwd(table, x, x + 10 * C, states, marks, types, start, C);
        tokens_table(want, act_double(x, n), all, typed, C);
        check_act("table", table, want, TOKENS * C, 64);
        float *dtable = f32_integers(TOKENS * C, 3), *grad = NEW(float, n);
        float *dstates = grad + 11 * C, *dmarks = typed ? dstates + 81 * C : NULL,
              *dtypes = typed ? dmarks + 2 * C : NULL;
        for (int beta = 0; beta < 2; beta++) {
            tokens_gradient(want_grad, f32_double(dtable, TOKENS * C), all, typed, C, beta);
            transition_table_bwd(grad, grad + 10 * C, dstates, dmarks, dtypes, dtable, start, C, beta);
            check_f32_exact("gradients", grad, want_grad, typed ? n : 92 * C);
        }
    }
}

TEST(action_type_loss)
{
    static const struct { int64_t n; int O; } shapes[] = { { 1, 5 }, { 40, 5 }, { 1, 8 }, { 700, 8 } };
    for (int k = 0; k < 4; k++) {
        const int64_t n = shapes[k].n;
        const int O = shapes[k].O;
        const float scale = 0.25f, type_scale = 0.5f, weight = 0.75f;
        act_t *z = act_normal(n * O, 0, 2), *dz = NEW(act_t, n * O);
        int32_t *labels = NEW(int32_t, n), *kinds = O > 5 ? NEW(int32_t, n) : NULL;
        double *want = NEW(double, n * O), *z_ = act_double(z, n * O), sums[4] = {0};
        double loss = 3, stats[ACTION_TYPE_STATS] = { 1, 2, 3, 4 }, plain = 0, counted[ACTION_TYPE_STATS] = {0};
        for (int64_t i = 0; i < n; i++) {
            labels[i] = (int32_t)random_below(6) - 1;
            if (kinds)
                kinds[i] = (int32_t)random_below(4) - 1;
        }
        choices_ref(sums, want, z_, labels, kinds, scale, type_scale, n, O);
        action_type_loss_bwd(&loss, stats, dz, z, labels, &scale, &type_scale, kinds, weight, n, O);
        check_act("dz", dz, want, n * O, 8);
        action_type_loss(&plain, counted, z, labels, kinds, weight, n, O);
        for (int j = 0; j < ACTION_TYPE_STATS; j++) {
            const double bound = 1e-6 * (sums[j] + 1);
            check_true("sums", fabs(stats[j] - (j + 1) - sums[j]) <= bound);
            check_true("sums without gradients", fabs(counted[j] - sums[j]) <= bound);
        }
        const double all = sums[ACTION_TYPE_LOSS] + weight * sums[ACTION_TYPE_TYPE_LOSS];
        check_true("loss", fabs(loss - 3 - all) <= 1e-6 * (all + 3));
        check_true("loss without gradients", fabs(plain - all) <= 1e-6 * (all + 1));
    }
}
