/* embed.h -- token embeddings, with or without learned positions, and their gradients.
 *
 * In:    tok (rows) int32, each 0 <= tok < V; row r is position r % T, or with documents
 *        positions[r] < P. wte (V, C), wpe (P, C).
 * Out:   y (rows, C) = wte[tok] + wpe[position], added in fp32, rounded once (no wpe: a copy);
 *        add_pos_fwd: the same of rows x (rows, C) in the place of wte[tok].
 * Keeps: T <= P. An element of a gradient adds its rows in order, for any number of threads. */
#ifndef DIECAST_KERNELS_EMBED_H
#define DIECAST_KERNELS_EMBED_H

#include <omp.h>

#include "types.h"

static inline void embed_add_row(act_t *restrict y, const wt_t *restrict e, const wt_t *restrict p,
                                 int64_t C)
{
#pragma omp simd
    for (int64_t i = 0; i < C; i++)
        act_store(y + i, act_load(e + i) + act_load(p + i));
}

/* wpe NULL: no positions; positions NULL: row r is position r % T. The gradient of wpe by places is
 * embed_bwd's, with positions for tokens and P for V. */
static inline void embed_fwd(act_t *restrict y, const int32_t *restrict tok,
                             const wt_t *restrict wte, const wt_t *restrict wpe,
                             const int32_t *restrict positions, int64_t rows, int64_t T, int64_t C)
{
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t r = 0; r < rows; r++) {
        const wt_t *e = wte + tok[r] * C;
        if (wpe)
            embed_add_row(y + r * C, e, wpe + (positions ? positions[r] : r % T) * C, C);
        else
            memcpy(y + r * C, e, (size_t)C * sizeof *y);
    }
}

static inline void add_pos_fwd(act_t *restrict y, const act_t *restrict x,
                               const wt_t *restrict wpe, int64_t rows, int64_t T, int64_t C)
{
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t r = 0; r < rows; r++)
        embed_add_row(y + r * C, x + r * C, wpe + r % T * C, C);
}

/* dwte (V, C) = sum of the rows of dy of each token but pad; beta 1: added to dwte. A thread owns a
 * range of columns, in whole cache lines, and walks all rows. */
static inline void embed_bwd(float *restrict dwte, const act_t *restrict dy,
                             const int32_t *restrict tok, int32_t pad, int64_t rows, int64_t C,
                             int64_t V, int beta)
{
    if (!beta) {
#pragma omp parallel for schedule(static) if (V * C >= PARALLEL_MIN)
        for (int64_t t = 0; t < V; t++)
            memset(dwte + t * C, 0, (size_t)C * sizeof *dwte);
    }
    const int64_t lines = (C + 15) / 16;
#pragma omp parallel if (rows * C >= PARALLEL_MIN)
    {
        int64_t n = omp_get_num_threads(), me = omp_get_thread_num();
        int64_t begin = me * lines / n * 16, end = (me + 1) * lines / n * 16;
        end = end < C ? end : C;
        for (int64_t r = 0; r < rows; r++) {
            if (tok[r] == pad)
                continue;
            float *to = dwte + tok[r] * C;
            const act_t *from = dy + r * C;
#pragma omp simd
            for (int64_t i = begin; i < end; i++)
                to[i] += act_load(from + i);
        }
    }
}

/* dwpe (P, C): rows 0..T-1 collect all sequences in order; with beta 0 the others become 0. */
static inline void pos_bwd(float *restrict dwpe, const act_t *restrict dy, int64_t rows, int64_t T,
                           int64_t C, int64_t P, int beta)
{
#pragma omp parallel for schedule(static) if (rows * C >= PARALLEL_MIN)
    for (int64_t t = 0; t < P; t++) {
        float *to = dwpe + t * C;
        if (!beta)
            memset(to, 0, (size_t)C * sizeof *to);
        for (int64_t r = t; r < rows && t < T; r += T) {
            const act_t *from = dy + r * C;
#pragma omp simd
            for (int64_t i = 0; i < C; i++)
                to[i] += act_load(from + i);
        }
    }
}

#endif
