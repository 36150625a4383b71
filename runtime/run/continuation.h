/* continuation.h -- what a model says behind texts, a token at a time, several side by side.
 *
 * In:    a program that tells the logits behind a token of each of several texts, those before them having been asked
 *        for.
 * Keeps: the same text for the same seed, whatever stands beside it (runtime/data/sample.h). */
#ifndef DIECAST_CONTINUATION_H
#define DIECAST_CONTINUATION_H

#include "runtime/data/sample.h"
#include "runtime/data/tokenizer.h"
#include "runtime/pack/pack.h"
#include "runtime/run/flags.h"

typedef struct {
    int64_t places, vocab;       /* of a text; ids */
    int64_t texts;               /* that it has keys and values of */
    /* (texts, vocab), until the next call: behind a token of each text at its place, those at the places before it
     * having been asked for. What a text gets does not depend on the others. */
    const float *(*logits)(const int32_t *token, const int32_t *place);
} Decoder;

/* How the next token is chosen, and how many at most. */
typedef struct {
    SampleRule rule;
    uint64_t seed;
    int64_t most;
} Sampling;

/* What the flags ask for; EXIT_CONFIG: --greedy beside another --temperature. */
Sampling continuation_sampling(const Flags *f);

typedef enum { TEXT_ENDED, TEXT_LONGEST, TEXT_FULL, TEXT_HALTED } TextEnd;
/* "end": the model said so; "length": Sampling.most; "context": there is no further place; "halt". */
extern const char *const text_end[];

/* A text that is gone on with. */
typedef struct {
    int32_t *token;              /* (n + Sampling.most, at most places) the prompt, behind it what is found */
    int64_t n, more;             /* tokens of both; one that ends a text is none of them */
    int64_t number;              /* its own in draws */
    int64_t known;               /* of the prompt, whose keys and values the program holds; 0 unless alone */
    const Chat *chat;            /* its answers end as this format's do; or NULL */
    TextEnd end;
    /* After each token found, the text so far; false: no further one. Or NULL. */
    bool (*said)(void *user, const int32_t *more, int64_t n);
    void *user;
} ContinuedText;

/* Tokens of prompts that were computed, and found ones; what they took. */
typedef struct {
    int64_t prompt, more;
    double prompt_seconds, more_seconds;
} ContinuationCost;

/* Adds to *cost. EXIT_MISMATCH: a token that the model does not have. */
void continuation(const Decoder *d, const Sampling *s, const Tokenizer *t, ContinuedText *text, int64_t n,
                  ContinuationCost *cost);
/* "12 prompt tokens, 340 a second; 30 new, 120 a second", for people; malloc'ed. */
char *continuation_cost(const ContinuationCost *c);
/* The tokens as text, U+FFFD for bytes that are no text, which JSON cannot hold; malloc'ed. *whole: as many of its
 * bytes do not change when more tokens follow; may be NULL. */
char *continuation_text(const Tokenizer *t, const int32_t *token, int64_t n, size_t *whole);
/* --sample TEXT, --prompts FILE: on standard output by rank 0; the exit status. folder: of the weights. */
int continuation_print(const Decoder *d, const Flags *f, const char *const folder[], int nfolders);

#endif
