/* embed.h -- embeddings and their gradients in double, for the tests of every target.
 *
 * In:    tok (rows), each 0 <= tok < V; row r is position positions[r], NULL: r % T; wte, dwte (V,
 *        C), dwpe (P, C).
 * Method: rows one by one, in order. */
#ifndef DIECAST_KERNELS_REFERENCE_EMBED_H
#define DIECAST_KERNELS_REFERENCE_EMBED_H

#include <stdint.h>

/* wpe NULL: no positions. */
static inline void embed_ref(double *y, const int32_t *tok, const double *wte, const double *wpe,
                             const int32_t *positions, int64_t rows, int64_t T, int64_t C)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < C; i++) {
            const int64_t t = positions ? positions[r] : r % T;
            y[r * C + i] = wte[tok[r] * C + i] + (wpe ? wpe[t * C + i] : 0);
        }
}

/* pad: a token whose rows do not count; -1: none. */
static inline void embed_bwd_ref(double *dwte, const double *dy, const int32_t *tok, int32_t pad,
                                 int64_t rows, int64_t C, int64_t V, int beta)
{
    for (int64_t i = 0; i < V * C && !beta; i++)
        dwte[i] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < C; i++)
            dwte[tok[r] * C + i] += tok[r] == pad ? 0 : dy[r * C + i];
}

static inline void pos_bwd_ref(double *dwpe, const double *dy, const int32_t *positions,
                               int64_t rows, int64_t T, int64_t C, int64_t P, int beta)
{
    for (int64_t i = 0; i < P * C && !beta; i++)
        dwpe[i] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < C; i++)
            dwpe[(positions ? positions[r] : r % T) * C + i] += dy[r * C + i];
}

#endif
