/* generate.h -- batched autoregressive text generation.
 *
 * In:    a decoder with a KV cache: logits of the next token for each of several texts, whose
 *        earlier tokens it has already processed.
 * Keeps: the same seed gives the same text in any batch (runtime/data/sample.h). */
#ifndef DIECAST_GENERATE_H
#define DIECAST_GENERATE_H

#include "runtime/data/sample.h"
#include "runtime/data/tokenizer.h"
#include "runtime/pack/pack.h"
#include "runtime/run/flags.h"
#include "runtime/run/prompts.h"

typedef struct {
    int64_t positions, vocab;    /* context length in tokens; vocabulary size */
    int64_t texts;               /* batch size of the KV cache */
    bool collective;             /* all ranks call logits() equally often */
    /* Logits (texts, vocab) after token[i] at position[i] of each text, valid until the next
     * call; all earlier positions must have been processed. Rows do not depend on each other. */
    const float *(*logits)(const int32_t *token, const int32_t *position);
} Decoder;

/* Sampling of the next token; `most` limits the new tokens. */
typedef struct {
    SampleRule rule;
    uint64_t seed;
    int64_t most;
} Sampling;

/* Reads the sampling flags; EXIT_CONFIG if --greedy is combined with another --temperature. */
Sampling generate_sampling(const Flags *f);

typedef enum { TEXT_ENDED, TEXT_LONGEST, TEXT_FULL, TEXT_HALTED } TextEnd;
/* "end": end-of-text token; "length": Sampling.most reached; "context": context full; "halt":
 * stopped by on_token(). */
extern const char *const text_end[];

/* A text to continue. */
typedef struct {
    int32_t *token;              /* (n + Sampling.most, at most places) prompt, then new tokens */
    int64_t n, more;             /* lengths of prompt and new tokens, without the end-of-text
                                    token */
    int64_t number;              /* random stream of this text */
    int64_t known; /* leading prompt tokens already in the KV cache; 0 unless this is the
                                    only text */
    const ChatStyle *style;      /* of the conversation, whose ends stop the answer, or NULL */
    TextEnd end;
    /* Called after each new token with the new tokens so far; false stops this text. Or NULL. */
    bool (*on_token)(void *user, const int32_t *more, int64_t n);
    void *user;
} GeneratedText;

/* Prompt tokens processed, new tokens generated, and the seconds they took. */
typedef struct {
    int64_t prompt, more;
    double prompt_seconds, more_seconds;
} GenerateCost;

/* Generates for n texts, d->texts at a time, and adds to *cost. EXIT_MISMATCH if a prompt token is
 * outside the vocabulary. Collective if the decoder is: until all ranks have their texts. */
void generate_texts(const Decoder *d, const Sampling *s, const Tokenizer *t, GeneratedText *text,
                    int64_t n, GenerateCost *cost);
/* Returns "12 prompt tokens, 340 a second; 30 new, 120 a second"; malloc'ed. */
char *generate_cost(const GenerateCost *c);
/* Decodes tokens, with U+FFFD for invalid UTF-8, which JSON cannot hold; malloc'ed. *whole: length
 * in bytes of the prefix that later tokens cannot change; may be NULL. */
char *generate_text(const Tokenizer *t, const int32_t *token, int64_t n, size_t *whole);
/* Runs --sample TEXT or --prompts FILE: rank 0 prints to standard output. folder: where the weights
 * came from. Returns the exit status. */
int generate_print(const Decoder *d, const Flags *f, const char *const folder[], int nfolders);

#endif
