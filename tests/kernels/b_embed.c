/* b_embed.c -- embed.h. */
#include "../../kernels/cpu/embed.h"
#include "../../kernels/cpu/embed_row.h"
#include "../../kernels/reference/embed.h"
#include "harness.h"
#include "documents.h"

static const int64_t shapes[][5] = {        /* B, T, C, V, P */
    { 1, 1, 1, 1, 1 }, { 2, 3, 7, 11, 5 }, { 3, 40, 64, 50, 40 }, { 4, 33, 150, 1000, 64 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

TEST(embed_fwd)
{
    for (int k = 0; k < SHAPES; k++) {
        const int64_t T = shapes[k][1], C = shapes[k][2], V = shapes[k][3], P = shapes[k][4];
        const int64_t rows = shapes[k][0] * T, n = rows * C;
        int32_t *tok = tokens_random(rows, V);
        wt_t *wte = act_normal(V * C, 0, 1), *wpe = act_normal(P * C, 0, 1);
        act_t *y = NEW(act_t, n);
        double *want = NEW(double, n);
        embed_ref(want, tok, act_double(wte, V * C), NULL, NULL, rows, T, C);
        embed_fwd(y, tok, wte, NULL, NULL, rows, T, C);
        check_act_exact("wte", y, want, n);

        double *wte_ = act_double(wte, V * C), *wpe_ = act_double(wpe, P * C);
        embed_ref(want, tok, wte_, wpe_, NULL, rows, T, C);
        embed_fwd(y, tok, wte, wpe, NULL, rows, T, C);
        check_act_exact("wte + wpe", y, want, n);

        int32_t *order = NEW(int32_t, rows);
        act_t *x = act_normal(n, 0, 1);
        for (int64_t r = 0; r < rows; r++)
            order[r] = (int32_t)r;
        embed_ref(want, order, act_double(x, n), wpe_, NULL, rows, T, C);
        add_pos_fwd(y, x, wpe, rows, T, C);
        check_act_exact("x + wpe", y, want, n);

        int32_t *positions = NEW(int32_t, rows), *doc_ends = NEW(int32_t, rows);
        documents_draw(positions, doc_ends, shapes[k][0], T);
        embed_ref(want, tok, wte_, wpe_, positions, rows, T, C);
        embed_fwd(y, tok, wte, wpe, positions, rows, T, C);
        check_act_exact("wte + wpe by places", y, want, n);
    }
}

/* Integers: sums are exact, so the gradients must be. */
TEST(embed_bwd)
{
    for (int k = 0; k < SHAPES; k++) {
        const int64_t T = shapes[k][1], C = shapes[k][2], V = shapes[k][3], P = shapes[k][4];
        const int64_t rows = shapes[k][0] * T;
        int32_t *tok = tokens_random(rows, V);
        act_t *dy = act_integers(rows * C, 9);
        double *dy_ = act_double(dy, rows * C);
        float *dwte = f32_integers(V * C, 9), *dwpe = f32_integers(P * C, 9);
        double *wte_ = f32_double(dwte, V * C), *wpe_ = f32_double(dwpe, P * C);
        int32_t *positions = NEW(int32_t, rows), *doc_ends = NEW(int32_t, rows);
        documents_draw(positions, doc_ends, shapes[k][0], T);
        for (int beta = 1; beta >= 0; beta--) {
            embed_bwd_ref(wte_, dy_, tok, -1, rows, C, V, beta);
            pos_bwd_ref(wpe_, dy_, NULL, rows, T, C, P, beta);
            embed_bwd(dwte, dy, tok, NO_PAD, rows, C, V, beta);
            pos_bwd(dwpe, dy, rows, T, C, P, beta);
            check_f32_exact("dwte", dwte, wte_, V * C);
            check_f32_exact("dwpe", dwpe, wpe_, P * C);
            pos_bwd_ref(wpe_, dy_, positions, rows, T, C, P, beta);
            embed_bwd(dwpe, dy, positions, NO_PAD, rows, C, P, beta);
            check_f32_exact("dwpe by places", dwpe, wpe_, P * C);
            embed_bwd_ref(wte_, dy_, tok, (int32_t)V / 2, rows, C, V, beta);
            embed_bwd(dwte, dy, tok, (int32_t)V / 2, rows, C, V, beta);
            check_f32_exact("dwte but for padding", dwte, wte_, V * C);
        }
    }
}

/* Random values: the harness compares the bits for different numbers of threads. */
TEST(embed_bwd_random)
{
    const int64_t T = 64, C = 96, V = 17, rows = 4 * T;
    int32_t *tok = tokens_random(rows, V);
    act_t *dy = act_normal(rows * C, 0, 1);
    float *dwte = NEW(float, V * C), *dwpe = NEW(float, T * C);
    double *wte_ = NEW(double, V * C), *wpe_ = NEW(double, T * C);
    embed_bwd_ref(wte_, act_double(dy, rows * C), tok, -1, rows, C, V, 0);
    pos_bwd_ref(wpe_, act_double(dy, rows * C), NULL, rows, T, C, T, 0);
    embed_bwd(dwte, dy, tok, NO_PAD, rows, C, V, 0);
    pos_bwd(dwpe, dy, rows, T, C, T, 0);
    check_f32("dwte", dwte, wte_, V * C, rows / V);
    check_f32("dwpe", dwpe, wpe_, T * C, 4);
}

/* A row of its own: copies, and the sum of the rows where it stands, of small integers exact. */
TEST(embed_row)
{
    static const int64_t sizes[][2] = { { 1, 1 }, { 9, 7 }, { 200, 64 }, { 300, 130 } };
    for (int k = 0; k < 4; k++) {
        const int64_t rows = sizes[k][0], C = sizes[k][1];
        int32_t *tok = tokens_random(rows, 3);
        act_t *x = act_normal(rows * C, 0, 1), *row = act_normal(C, 0, 1), *y = NEW(act_t, rows * C);
        act_t *dy = act_integers(rows * C, 3);
        float *drow = NEW(float, C);
        double *want = act_double(x, rows * C), *sum = NEW(double, C), *dy_ = act_double(dy, rows * C);
        for (int64_t c = 0; c < C; c++) {
            sum[c] = 0;
            for (int64_t r = 0; r < rows; r++) {
                want[r * C + c] = tok[r] == 2 ? act_load(row + c) : want[r * C + c];
                sum[c] += tok[r] == 2 ? dy_[r * C + c] : 0;
            }
        }
        embed_row_fwd(y, x, tok, row, 2, rows, C);
        check_act_exact("rows", y, want, rows * C);
        embed_row_fwd(x, x, tok, row, 2, rows, C);
        check_same("in place", x, y, rows * C * (int64_t)sizeof *x);
        for (int beta = 0; beta < 2; beta++) {
            embed_row_bwd(drow, dy, tok, 2, rows, C, beta);
            for (int64_t c = 0; c < C; c++)
                sum[c] *= beta + 1;
            check_f32_exact("gradient", drow, sum, C);
        }
    }
}
