/* sample.h -- picks the next token: greedy, temperature, top-p.
 *
 * Keeps: the draw is Philox keyed by (seed, position): the same text for the same seed. */
#ifndef DIECAST_SAMPLE_H
#define DIECAST_SAMPLE_H

#include <stdint.h>

/* logits (vocab), untouched; temperature 0: the largest, the first of equals. 0 < top_p <= 1: only
 * the likeliest tokens whose probabilities together reach top_p, never none. The caller lends
 * work (vocab) and heap (vocab). */
int32_t sample_token(const float *logits, int64_t vocab, double temperature, double top_p,
                     uint64_t seed, int64_t position, float *work, int32_t *heap);

#endif
