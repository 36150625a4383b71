/* sample.h -- next-token sampling: greedy, or by temperature, top-k, top-p, min-p and a repetition
 * penalty.
 *
 * Keeps: the draw is Philox keyed by (seed, position): the same seed gives the same text. */
#ifndef DIECAST_SAMPLE_H
#define DIECAST_SAMPLE_H

#include <stdint.h>

/* As in transformers' generate(): repetition_penalty, then temperature, top_k, top_p and min_p. */
typedef struct {
    double temperature;          /* 0: the largest logit, the first of equals */
    int64_t top_k;               /* keep the k most probable, and any tied with the last; 0: all */
    double top_p;                /* 0 < top_p <= 1: keep the fewest that reach it, at least one */
    double min_p;                /* keep those with this share of the top probability; 0: all */
    double repetition_penalty;   /* divides positive logits of known tokens, multiplies others */
} SampleRule;

/* logits (vocab), unchanged; known: the n tokens so far. work (vocab), heap (vocab): scratch. */
int32_t sample_token(const float *logits, int64_t vocab, const SampleRule *rule,
                     const int32_t *known, int64_t n, uint64_t seed, int64_t position, float *work,
                     int32_t *heap);

#endif
