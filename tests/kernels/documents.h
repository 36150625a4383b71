/* documents.h -- documents side by side in sequences, and limits of queries, for the tests of every
 *                target (C and C++).
 *
 * In:    harness.h of the one that includes it.
 * Out:   positions, doc_ends, kv_limits (B, T), prompt_gaps (B, 2) as attention kernels take
 *        them, in memory of the host. */
#ifndef DIECAST_TESTS_KERNELS_DOCUMENTS_H
#define DIECAST_TESTS_KERNELS_DOCUMENTS_H

#include <stdint.h>

/* Positions begin .. end - 1 of a sequence, whose arrays these are, become a document. */
static inline void documents_add(int32_t *positions, int32_t *doc_ends, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++) {
        positions[t] = (int32_t)(t - begin);
        doc_ends[t] = (int32_t)end;
    }
}

/* Sequences of n documents that are equally long; n divides T. */
static inline void documents_equal(int32_t *positions, int32_t *doc_ends, int64_t B, int64_t T, int64_t n)
{
    for (int64_t i = 0; i < B * n; i++)
        documents_add(positions + i / n * T, doc_ends + i / n * T, i % n * (T / n), (i % n + 1) * (T / n));
}

/* The first of several sequences is one document. In the others, of each four about one has one
 * token, one ends at a multiple of 64, and two are of any length up to half a sequence. */
static inline void documents_draw(int32_t *positions, int32_t *doc_ends, int64_t B, int64_t T)
{
    for (int64_t b = 0; b < B; b++)
        for (int64_t begin = 0, end; begin < T; begin = end) {
            const int64_t kind = random_below(4);
            end = kind == 0   ? begin + 1
                  : kind == 1 ? (begin / 64 + 1) * 64
                              : begin + 1 + random_below(T / 2 + 1);
            end = end > T || (b == 0 && B > 1) ? T : end;
            documents_add(positions + b * T, doc_ends + b * T, begin, end);
        }
}

/* Limits of any size, of all keys and of none among them; places: a sequence is a context and as
 * many queries after it, place t of either sees the context before t. */
static inline void kv_limits_draw(int32_t *kv_limits, int64_t B, int64_t T, int positions)
{
    const int64_t half = (T + 1) / 2;
    for (int64_t i = 0; i < B * T; i++) {
        const int64_t kind = random_below(4);
        kv_limits[i] = (int32_t)(positions ? i % T % half
                                 : kind == 0 ? 0
                                 : kind == 1 ? T
                                          : random_below(T + 1));
    }
}

/* A hole of any size in each sequence, or, of the first, one over its first two thirds. */
static inline void prompt_gaps_draw(int32_t *prompt_gaps, int64_t B, int64_t T)
{
    for (int64_t b = 0; b < B; b++) {
        const int64_t end = b ? random_below(T + 1) : 2 * T / 3;
        prompt_gaps[2 * b] = (int32_t)(b ? random_below(end + 1) : 0);
        prompt_gaps[2 * b + 1] = (int32_t)end;
    }
}

#endif
