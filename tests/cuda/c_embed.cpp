/* c_embed.cpp -- embed.cuh. */
// same: the kernels are one source in fp32 and bf16
#include "../../kernels/cuda/embed.cuh"
#include "../../kernels/cuda/embed_row.cuh"
#include "harness.h"
#include "unwatched.h"
#include "../kernels/documents.h"

/* B, T, C, V, P: one piece of sorted rows and many, with tokens within and across their borders;
 * one block of keys, several that are merged at once, and a group of eight and one more; more
 * sequences than are loaded at a time. */
static const int64_t shapes[][5] = {
    { 1, 1, 1, 1, 1 },       { 2, 3, 7, 11, 5 },      { 3, 40, 64, 50, 40 },
    { 4, 33, 150, 1000, 64 }, { 2, 64, 1048, 3, 65 }, { 5, 500, 12, 37, 500 },
    { 7, 1000, 8, 4000, 1000 }, { 37, 3, 20, 9, 4 }, { 17, 1000, 4, 300, 1000 },
};

TEST(embed_fwd)
{
    for (auto &shape : shapes) {
        const int64_t T = shape[1], C = shape[2], V = shape[3], P = shape[4];
        const int64_t rows = shape[0] * T, n = rows * C;
        int32_t *tok = tokens_random(rows, V);
        wt_t *wte = act_normal(V * C, 0, 1), *wpe = act_normal(P * C, 0, 1);
        act_t *y = NEW(act_t, n), *placed = NEW(act_t, n), *by_positions = NEW(act_t, n);
        int32_t *positions_ = HOST(int32_t, rows), *doc_ends_ = HOST(int32_t, rows);
        documents_draw(positions_, doc_ends_, shape[0], T);
        const int32_t *positions = upload(positions_, rows);
        run([&] {
            embed_fwd(y, tok, wte, NULL, NULL, rows, T, C, stream);
            embed_fwd(placed, tok, wte, wpe, NULL, rows, T, C, stream);
            embed_fwd(by_positions, tok, wte, wpe, positions, rows, T, C, stream);
        });
        act_t *x = act_normal(n, 0, 1), *moved = NEW(act_t, n);
        int32_t *order = HOST(int32_t, rows);
        for (int64_t r = 0; r < rows; r++)
            order[r] = (int32_t)r;
        run([&] { add_pos_fwd(moved, x, wpe, rows, T, C, stream); });
        const int32_t *tok_ = download(tok, rows);
        double *want = HOST(double, n), *wte_ = act_double(wte, V * C);
        double *wpe_ = act_double(wpe, P * C);
        embed_ref(want, tok_, wte_, NULL, NULL, rows, T, C);
        check_act_exact("wte", y, want, n);
        embed_ref(want, tok_, wte_, wpe_, NULL, rows, T, C);
        check_act_exact("wte + wpe", placed, want, n);
        embed_ref(want, order, act_double(x, n), wpe_, NULL, rows, T, C);
        check_act_exact("x + wpe", moved, want, n);
        embed_ref(want, tok_, wte_, wpe_, positions_, rows, T, C);
        check_act_exact("wte + wpe by places", by_positions, want, n);
    }
}

/* Integers: sums are exact, so the gradients must be. */
static void check_integers(const int32_t *tok_, int64_t rows, int64_t T, int64_t C, int64_t V,
                           int64_t P)
{
    int32_t *tok = upload(tok_, rows);
    act_t *dy = act_integers(rows * C, 9);
    double *dy_ = act_double(dy, rows * C);
    float *dwte = f32_integers(V * C, 9), *dwpe = f32_integers(P * C, 9);
    double *wte_ = f32_double(dwte, V * C), *wpe_ = f32_double(dwpe, P * C);
    void *ws = new_bytes(embed_bwd_cuda_workspace(rows, C));
    int32_t *positions_ = HOST(int32_t, rows), *doc_ends_ = HOST(int32_t, rows);
    documents_draw(positions_, doc_ends_, rows / T, T);
    const int32_t *positions = upload(positions_, rows);
    for (int beta = 1; beta >= 0; beta--) {
        embed_bwd_ref(wte_, dy_, tok_, -1, rows, C, V, beta);
        pos_bwd_ref(wpe_, dy_, NULL, rows, T, C, P, beta);
        run([&] {
            embed_bwd(dwte, dy, tok, NO_PAD, rows, C, V, beta, ws, stream);
            pos_bwd(dwpe, dy, rows, T, C, P, beta, stream);
        });
        check_f32_exact("dwte", dwte, wte_, V * C);
        check_f32_exact("dwpe", dwpe, wpe_, P * C);
        pos_bwd_ref(wpe_, dy_, positions_, rows, T, C, P, beta);
        run([&] { embed_bwd(dwpe, dy, positions, NO_PAD, rows, C, P, beta, ws, stream); });
        check_f32_exact("dwpe by places", dwpe, wpe_, P * C);
        const int32_t pad = tok_[rows - 1];
        embed_bwd_ref(wte_, dy_, tok_, pad, rows, C, V, beta);
        run([&] { embed_bwd(dwte, dy, tok, pad, rows, C, V, beta, ws, stream); });
        check_f32_exact("dwte but for padding", dwte, wte_, V * C);
    }
}

TEST(embed_bwd)
{
    for (auto &shape : shapes) {
        const int64_t T = shape[1], rows = shape[0] * T;
        int32_t *tok = download(tokens_random(rows, shape[3]), rows);
        check_integers(tok, rows, T, shape[2], shape[3], shape[4]);
    }
}

/* Padding: one token in most rows, in all, and in none but the first and last of a piece. */
TEST(embed_bwd_frequent_token)
{
    const int64_t T = 331, rows = 8 * T, C = 16, V = 300;
    for (int kind = 0; kind < 3; kind++) {
        int32_t *tok = download(tokens_random(rows, V), rows);
        for (int64_t r = 0; r < rows; r++)
            if (kind == 2)
                tok[r] = (int32_t)(r / CUDA_EMBED_PIECE);
            else if (kind == 1 || r % 10 < 9)
                tok[r] = (int32_t)V - 1;
        check_integers(tok, rows, T, C, V, T);
    }
}

/* Random values, whose bits the harness compares between runs; and rows of one token are added in
 * their order: what it gives is what a loop in fp32 gives, within a piece of the sorted rows. */
TEST(embed_bwd_random)
{
    const int64_t T = 64, C = 96, V = 17, rows = 4 * T;
    int32_t *tok = tokens_random(rows, V);
    act_t *dy = act_normal(rows * C, 0, 1);
    float *dwte = NEW(float, V * C), *dwpe = NEW(float, T * C);
    void *ws = new_bytes(embed_bwd_cuda_workspace(rows, C));
    run([&] {
        embed_bwd(dwte, dy, tok, NO_PAD, rows, C, V, 0, ws, stream);
        pos_bwd(dwpe, dy, rows, T, C, T, 0, stream);
    });
    double *wte_ = HOST(double, V * C), *wpe_ = HOST(double, T * C);
    double *dy_ = act_double(dy, rows * C);
    const int32_t *tok_ = download(tok, rows);
    embed_bwd_ref(wte_, dy_, tok_, -1, rows, C, V, 0);
    pos_bwd_ref(wpe_, dy_, NULL, rows, T, C, T, 0);
    check_f32("dwte", dwte, wte_, V * C, rows / V);
    check_f32("dwpe", dwpe, wpe_, T * C, 4);

    const int64_t few = CUDA_EMBED_PIECE;
    run([&] { embed_bwd(dwte, dy, tok, NO_PAD, few, C, V, 0, ws, stream); });
    double *want = HOST(double, V * C);
    for (int64_t i = 0; i < V * C; i++)
        want[i] = 0;
    for (int64_t i = 0; i < few * C; i++) {
        double *to = want + tok_[i / C] * C + i % C;
        *to = (float)*to + (float)dy_[i];
    }
    check_f32_exact("order of the rows", dwte, want, V * C);
}

/* A row of its own: copies, and the sum of the rows where it stands, of small integers exact. */
TEST(embed_row)
{
    static const int64_t sizes[][2] = { { 1, 1 }, { 9, 7 }, { 40, 300 } };
    for (auto &shape : sizes) {
        const int64_t rows = shape[0], C = shape[1];
        int32_t *tok = tokens_random(rows, 3);
        const int32_t *tok_ = download(tok, rows);
        act_t *x = act_normal(rows * C, 0, 1), *row = act_normal(C, 0, 1), *y = NEW(act_t, rows * C);
        act_t *dy = act_integers(rows * C, 3), *same = act_copy(x, rows * C);
        float *drow = NEW(float, C);
        double *want = act_double(x, rows * C), *sum = HOST(double, C), *row_ = act_double(row, C);
        double *dy_ = act_double(dy, rows * C);
        for (int64_t c = 0; c < C; c++) {
            sum[c] = 0;
            for (int64_t r = 0; r < rows; r++) {
                want[r * C + c] = tok_[r] == 2 ? row_[c] : want[r * C + c];
                sum[c] += tok_[r] == 2 ? 2 * dy_[r * C + c] : 0;
            }
        }
        run([&] {
            embed_row_fwd(y, x, tok, row, 2, rows, C, stream);
            embed_row_fwd(same, same, tok, row, 2, rows, C, stream);
            embed_row_bwd(drow, dy, tok, 2, rows, C, 0, stream);
            embed_row_bwd(drow, dy, tok, 2, rows, C, 1, stream);
        });
        check_act_exact("rows", y, want, rows * C);
        check_act_exact("in place", same, want, rows * C);
        check_f32_exact("gradient", drow, sum, C);
    }
}

BENCH(embed)
{
    const int64_t rows = 32768, C = 4096, V = 128256, n = rows * C;
    int32_t *tok = tokens_random(rows, V), *same = tokens_random(rows, 1);
    act_t *dy = NEW(act_t, n), *wte = NEW(act_t, V * C);
    float *dwte = NEW(float, V * C);
    void *ws = new_bytes(embed_bwd_cuda_workspace(rows, C));
    const double read = (double)n * sizeof(act_t), written = 4.0 * (double)(rows * C);
    fill_bytes(dy, 0, n * (int64_t)sizeof *dy);
    fill_bytes(dwte, 0, 4 * V * C);
    bench_report("embed_fwd 32768 x 4096",
                 bench_time([&] { embed_fwd(dy, tok, wte, NULL, NULL, rows, 1, C, stream); }), 2 * read, 0);
    bench_report("embed_bwd 32768 x 4096",
                 bench_time([&] { embed_bwd(dwte, dy, tok, NO_PAD, rows, C, V, 1, ws, stream); }),
                 read + 2 * written, 0);
    bench_report("embed_bwd 32768 x 4096, one token",
                 bench_time([&] { embed_bwd(dwte, dy, same, NO_PAD, rows, C, V, 1, ws, stream); }), read,
                 0);
    bench_report("the rows in order",
                 bench_time([&] { embed_sort((uint64_t *)ws, (uint64_t *)ws + rows, tok, rows,
                                             stream); }), 0, 0);
}
