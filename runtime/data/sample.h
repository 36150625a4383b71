/* sample.h -- next-token sampling: greedy, or by temperature, top-k, top-p, min-p and a repetition penalty.
 *
 * Keeps: the draw is Philox keyed by (seed, position): the same text for the same seed. */
#ifndef DIECAST_SAMPLE_H
#define DIECAST_SAMPLE_H

#include <stdint.h>

/* How the next token is chosen, as in transformers' generate(): repetition_penalty, then temperature, top_k, top_p and
 * min_p. */
typedef struct {
    double temperature;          /* 0: the largest logit, the first of equals */
    int64_t top_k;               /* only the likeliest so many, and those as likely as the last of them; 0: all */
    double top_p;                /* 0 < top_p <= 1: of these the likeliest that together reach it, never none */
    double min_p;                /* of these only those with this share of the likeliest's probability; 0: all */
    double repetition_penalty;   /* logits of known tokens are divided by it where positive, else times it; 1: none */
} SampleRule;

/* logits (vocab), untouched; known: the n tokens so far. The caller lends work (vocab) and heap (vocab). */
int32_t sample_token(const float *logits, int64_t vocab, const SampleRule *rule, const int32_t *known, int64_t n,
                     uint64_t seed, int64_t position, float *work, int32_t *heap);

#endif
