/* b_gather.c -- gather.h. */
#include "../../kernels/cpu/gather.h"
#include "../../kernels/reference/gather.h"
#include "harness.h"
#include "targets.h"

static const int64_t shapes[][3] = {        /* rows of x, rows of y, C */
    { 1, 1, 1 }, { 6, 4, 7 }, { 40, 40, 64 }, { 120, 33, 150 }, { 5, 9, 32 }, { 512, 77, 96 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Copies: the bits of the reference, there and back. */
TEST(gather_rows)
{
    for (int k = 0; k < SHAPES; k++) {
        const int64_t all = shapes[k][0], n = shapes[k][1], C = shapes[k][2];
        int32_t *rows = NEW(int32_t, n), *of = NEW(int32_t, all);
        act_t *x = act_normal(all * C, 0, 1), *y = NEW(act_t, n * C), *back = NEW(act_t, all * C);
        double *want = NEW(double, n * C), *want_back = NEW(double, all * C);
        targets_draw(rows, n, of, all);
        gather_ref(want, act_double(x, all * C), rows, n, C);
        gather_rows(y, x, rows, n, C);
        check_act_exact("rows", y, want, n * C);
        gather_ref(want_back, want, of, all, C);
        gather_rows(back, y, of, all, C);
        check_act_exact("back", back, want_back, all * C);
        for (int64_t i = 0; i < all * C; i++)
            check_true("x or 0", act_load(back + i) == (of[i / C] < 0 ? 0 : act_load(x + i)));
    }
}
