/* b_gather.c -- gather.h. */
#include "../../kernels/cpu/gather.h"
#include "harness.h"

static const int64_t shapes[][3] = {        /* rows of x, rows of y, C */
    { 1, 1, 1 }, { 6, 4, 7 }, { 40, 40, 64 }, { 120, 33, 150 }, { 5, 9, 32 }, { 512, 77, 96 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* A third of the rows of x at most stand in y, in order; the rest of y is -1. */
static void draw(int32_t *rows, int64_t n, int32_t *of, int64_t all)
{
    int64_t targets = 0;
    for (int64_t i = 0; i < all; i++) {
        const bool target = targets < n && random_below(3) == 0;
        of[i] = target ? (int32_t)targets : -1;
        if (target)
            rows[targets++] = (int32_t)i;
    }
    for (; targets < n; targets++)
        rows[targets] = -1;
}

/* Copies: the bits of the reference, there and back. */
TEST(gather_rows)
{
    for (int k = 0; k < SHAPES; k++) {
        const int64_t all = shapes[k][0], n = shapes[k][1], C = shapes[k][2];
        int32_t *rows = NEW(int32_t, n), *of = NEW(int32_t, all);
        act_t *x = act_normal(all * C, 0, 1), *y = NEW(act_t, n * C), *back = NEW(act_t, all * C);
        double *want = NEW(double, n * C), *want_back = NEW(double, all * C);
        draw(rows, n, of, all);
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
