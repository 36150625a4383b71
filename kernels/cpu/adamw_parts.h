/* adamw_parts.h -- AdamW on this rank's parts of divided parameters (ZeRO; Rajbhandari et al.
 * 2020), and the gradient norm from sums of squares of shares: runtime/shares.h.
 *
 * In:    as adamw.h. Of `slots` tensors, each of the weights begins `stride` elements after the one
 *        before, of the gradients `apart`; w and g point to this rank's part of the first. Master
 *        weights and moments are (slots, n), n elements a part.
 * Keeps: element by element the same operations as adamw.h. */
#ifndef DIECAST_KERNELS_ADAMW_PARTS_H
#define DIECAST_KERNELS_ADAMW_PARTS_H

#include "../../runtime/shares.h"
#include "adamw.h"

static inline void adamw_parts(float *w, float *m, float *v, const float *g,
                               const float *adamw_args, const float *norm, int64_t n,
                               int64_t slots, int64_t stride, int64_t apart, int decay)
{
    for (int64_t l = 0; l < slots; l++)
        adamw(w + l * stride, m + l * n, v + l * n, g + l * apart, adamw_args, norm, n, decay);
}

/* Masters of tensor l. */
static inline Master master_of(const Master *first, int64_t l, int64_t n)
{
    Master of = *first;
    of.fp32 = of.fp32 ? of.fp32 + l * n : NULL;
    of.remainder = of.remainder ? of.remainder + l * n : NULL;
    of.tensor += (uint32_t)l;
    return of;
}

/* 16-bit weights; also of whole tensors, one by one. */
static inline void adamw_mixed_parts(wt_t *w, const Master *master, float *m, float *v,
                                     const float *g, const float *adamw_args, const float *norm,
                                     int64_t n, int64_t slots, int64_t stride, int64_t apart,
                                     int decay)
{
    for (int64_t l = 0; l < slots; l++) {
        const Master of = master_of(master, l, n);
        adamw_mixed(w + l * stride, &of, m + l * n, v + l * n, g + l * apart, adamw_args, norm, n,
                    decay);
    }
}

/* Sums of squares, each added in double, in two halves. */
static inline void share_squares(double *squares, const SquareColumns *at, const float *restrict g,
                                 int64_t n, int64_t slots, int64_t stride, int64_t share, int rank,
                                 int ranks)
{
    const int64_t count = share_count(ranks);
#pragma omp parallel for schedule(static) collapse(2) if (n * slots >= PARALLEL_MIN)
    for (int64_t s = 0; s < count; s++)
        for (int64_t l = 0; l < slots; l++) {
            const int64_t begin = s * share, left = n - (rank * count + s) * share,
                          most = left < share ? left : share, half = most > 0 ? most / 2 : 0;
            const float *a = g + l * stride + begin, *b = a + half;
            double s0 = 0, s1 = 0;
#pragma omp simd reduction(+ : s0, s1)
            for (int64_t i = 0; i < half; i++) {
                s0 += (double)a[i] * a[i];
                s1 += (double)b[i] * b[i];
            }
            if (most > 0 && most % 2)
                s0 += (double)a[most - 1] * a[most - 1];
            squares[s * at->all + at->first + l] = s0 + s1;
        }
}

/* Sums of squares of this rank's shares of a gradient, `slots` tensors of n elements in shares of
 * `share`. g: the rank's part of the first, those of the others `stride` apart. Share s, counted
 * from the rank's first, of tensor l: squares[s * at->all + at->first + l]. */
static inline void grad_squares(double *squares, const SquareColumns *at, const float *g, int64_t n,
                                int64_t slots, int64_t stride, int64_t share, int rank, int ranks)
{
    share_squares(squares, at, g, n, slots, stride, share, rank, ranks);
}

/* The same of the n elements g of a whole gradient. */
static inline void grad_squares_whole(double *squares, const SquareColumns *at, const float *g,
                                      int64_t n, int rank, int ranks)
{
    const int64_t share = share_elements(n), own = rank * share_count(ranks) * share;
    share_squares(squares, at, g + (own < n ? own : n), n, 1, 0, share, rank, ranks);
}

/* norm[0] = root of the sum of all ranks' squares, (ranks, stride / ranks), share by share: the
 * same order for any number of ranks. */
static inline void squares_norm(float *norm, const double *squares, int64_t width, int64_t stride,
                                int ranks)
{
    const int64_t count = share_count(ranks);
    double sum = 0;
    for (int64_t s = 0; s < SHARES; s++)
        for (int64_t i = 0; i < width; i++)
            sum += squares[s / count * (stride / ranks) + s % count * width + i];
    *norm = (float)sqrt(sum);
}

#endif
