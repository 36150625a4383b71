/* continuation.h -- what a model says behind a text, a token at a time.
 *
 * In:    a program that tells the logits behind one token, those before it having been asked for.
 * Keeps: the same text for the same seed (runtime/data/sample.h). */
#ifndef DIECAST_CONTINUATION_H
#define DIECAST_CONTINUATION_H

#include "runtime/data/tokenizer.h"
#include "runtime/run/flags.h"

typedef struct {
    int64_t places, vocab;       /* of a text; ids */
    /* (vocab), until the next call. The token of place 0, then of place 1, ... */
    const float *(*logits)(int32_t token, int64_t place);
} Decoder;

/* How the next token is chosen, and how many at most. */
typedef struct {
    double temperature, top_p;   /* temperature 0: always the likeliest */
    uint64_t seed;
    int64_t most;
} Sampling;

/* What the flags ask for; EXIT_CONFIG: --greedy beside another --temperature. */
Sampling continuation_sampling(const Flags *f);
/* Behind the n tokens of text, 1 to places - 1; more has room for s->most. Returns how many there
 * are; one that ends a text is none of them. *ended: there was one. EXIT_MISMATCH: a token that the
 * model does not have. */
int64_t continuation(const Decoder *d, const Sampling *s, const Tokenizer *t, const int32_t *text,
                     int64_t n, int32_t *more, bool *ended);
/* --sample TEXT: the text and what follows on standard output, by rank 0; the exit status. folder:
 * of the weights. */
int continuation_print(const Decoder *d, const Flags *f, const char *const folder[], int nfolders);

#endif
