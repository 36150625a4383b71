/* dropout.h -- dropout of rows (Srivastava et al. 2014) and its gradient, with the same mask.
 *
 * In:    x (rows, C) act_t; noise, site: see philox.h.
 * Out:   y = 0 where dropped, else x / (1 - p). y may be x.
 * Keeps: one rounding at the store; the mask is never stored. */
#ifndef DIECAST_KERNELS_DROPOUT_H
#define DIECAST_KERNELS_DROPOUT_H

#include "dropout_draw.h"
#include "types.h"

enum { DROPOUT_COLS = 512 };     /* columns of a row per pass */

/* site: as philox.h counts. at: index of each row in the sequences; NULL: its own. */
static inline void dropout_each(act_t *y, const act_t *x, const uint32_t *noise, const int32_t *at,
                                uint32_t site, float p, int64_t rows, int64_t T, int64_t C)
{
    const int64_t quads = (C + 3) / 4;
    DrawMask m;
    draw_mask(&m, noise, site, p);
    if (quads > DRAW_LANES / 2) {
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < C; c += DROPOUT_COLS) {
                const int64_t n = C - c < DROPOUT_COLS ? C - c : DROPOUT_COLS, from = i * C + c;
                float kept[DROPOUT_COLS];
                draw_row(kept, &m, T, at ? at[i] : i, c, n);
#pragma omp simd
                for (int64_t k = 0; k < n; k++)
                    act_store(y + from + k, act_load(x + from + k) * kept[k]);
            }
        return;
    }
    /* several rows at once: a lane is a quad of one of them */
    const int64_t many = DRAW_LANES / quads;
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t i0 = 0; i0 < rows; i0 += many) {
        const int64_t n = rows - i0 < many ? rows - i0 : many;
        Draw counter = { { { 0 } } };
        float kept[DRAW_WORDS];
        for (int64_t r = 0; r < n; r++) {
            const int64_t row = at ? at[i0 + r] : i0 + r;
            for (int64_t q = 0; q < quads; q++) {
                counter.word[0][r * quads + q] = (uint32_t)q;
                counter.word[1][r * quads + q] = (uint32_t)(row % T);
                counter.word[2][r * quads + q] = (uint32_t)(row / T);
            }
        }
        counter.word[2] += m.sample;
        counter.word[3] += m.step;
        draw_quads(kept, &m, counter);
        for (int64_t r = 0; r < n; r++)
#pragma omp simd
            for (int64_t c = 0; c < C; c++)
                act_store(y + (i0 + r) * C + c,
                          act_load(x + (i0 + r) * C + c) * kept[4 * r * quads + c]);
    }
}

/* site: of the place, as its op has it. */
static inline void dropout_fwd(act_t *y, const act_t *x, const uint32_t *noise, uint32_t site,
                               float p, int64_t rows, int64_t T, int64_t C)
{
    dropout_each(y, x, noise, NULL, dropout_site(site), p, rows, T, C);
}

/* The same of chosen rows of the sequences: at (rows), their indices. */
static inline void dropout_rows_fwd(act_t *y, const act_t *x, const uint32_t *noise,
                                    const int32_t *at, uint32_t site, float p, int64_t rows,
                                    int64_t T, int64_t C)
{
    dropout_each(y, x, noise, at, dropout_site(site), p, rows, T, C);
}

#endif
