/* c_gather.cpp -- gather.cuh. */
// same: the kernels are one source in fp32 and bf16
#include "../../kernels/cuda/gather.cuh"
#include "harness.h"
#include "unwatched.h"
#include "../kernels/targets.h"

/* Rows of x, rows of y, C: vectors and single elements, several rows a block and several rounds a
 * row, more rows than x has. */
static const int64_t shapes[][3] = {
    { 1, 1, 1 },      { 6, 4, 7 },     { 40, 40, 64 }, { 120, 33, 150 },
    { 5, 9, 32 },     { 300, 77, 8 },  { 9, 5, 4096 }, { 12, 6, 1030 },
};

/* Copies: the bits of the reference, there and back. */
TEST(gather_rows)
{
    for (auto &shape : shapes) {
        const int64_t all = shape[0], n = shape[1], C = shape[2];
        int32_t *rows_ = HOST(int32_t, n), *of_ = HOST(int32_t, all);
        targets_draw(rows_, n, of_, all);
        int32_t *rows = upload(rows_, n), *of = upload(of_, all);
        act_t *x = act_normal(all * C, 0, 1), *y = NEW(act_t, n * C), *back = NEW(act_t, all * C);
        run([&] {
            gather_rows(y, x, rows, n, C, stream);
            gather_rows(back, y, of, all, C, stream);
        });
        double *want = HOST(double, n * C), *want_back = HOST(double, all * C);
        double *x_ = act_double(x, all * C), *back_ = act_double(back, all * C);
        gather_ref(want, x_, rows_, n, C);
        check_act_exact("rows", y, want, n * C);
        gather_ref(want_back, want, of_, all, C);
        check_act_exact("back", back, want_back, all * C);
        for (int64_t i = 0; i < all * C; i++)
            check_true("x or 0", back_[i] == (of_[i / C] < 0 ? 0 : x_[i]));
    }
}

/* Arrays that do not begin at 16 bytes. */
TEST(gather_unaligned)
{
    const int64_t n = 5, C = 64;
    const int32_t rows_[n] = { 4, -1, 0, 3, -1 };
    int32_t *rows = upload(rows_, n);
    act_t *x = act_normal(n * C + 1, 0, 1), *y = NEW(act_t, n * C + 1);
    double *want = HOST(double, n * C), *x_ = act_double(x, n * C + 1);
    run([&] { gather_rows(y + 1, x + 1, rows, n, C, stream); });
    gather_ref(want, x_ + 1, rows_, n, C);
    check_act_exact("rows", y + 1, want, n * C);
}

BENCH(gather)
{
    const int64_t all = 32768, n = all / 8, C = 4096;
    int32_t *rows_ = HOST(int32_t, n), *of_ = HOST(int32_t, all);
    for (int64_t i = 0; i < all; i++) {
        of_[i] = i % 8 ? -1 : (int32_t)(i / 8);
        rows_[i / 8] = (int32_t)(i / 8 * 8);
    }
    int32_t *rows = upload(rows_, n), *of = upload(of_, all);
    act_t *x = NEW(act_t, all * C), *y = NEW(act_t, n * C);
    const double few = (double)(n * C) * sizeof *x;
    fill_bytes(x, 0, all * C * (int64_t)sizeof *x);
    bench_report("4096 of 32768 rows x 4096",
                 bench_time([&] { gather_rows(y, x, rows, n, C, stream); }), 2 * few, 0);
    bench_report("back", bench_time([&] { gather_rows(x, y, of, all, C, stream); }), 9 * few, 0);
}
