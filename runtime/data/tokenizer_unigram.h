/* tokenizer_unigram.h -- Unigram model of a tokenizer: pieces of text to ids.
 *
 * In:    the object `model` of a tokenizer.json, untrusted.
 * Keeps: NULL means success, else a malloc'ed message. Not thread-safe: see unigram_twin(). */
#ifndef DIECAST_TOKENIZER_UNIGRAM_H
#define DIECAST_TOKENIZER_UNIGRAM_H

#include "runtime/data/tokens.h"

typedef struct Unigram Unigram;

char *unigram_load(Unigram **u, const cJSON *model);
const Tokens *unigram_tokens(const Unigram *u);  /* its vocabulary; belongs to u */
int unigram_unknown(const Unigram *u);           /* unk_id; -1: none */
/* Appends the tokens with the highest sum of scores. A run of characters without a token becomes
 * the tokens <0x00> to <0xFF> if the model has byte fallback, else one unknown token; an error
 * without either. */
char *unigram_encode(Unigram *u, const char *piece, size_t n, Ids *to);
/* Returns a copy for another thread; it shares the tables of u, which must outlive it. */
Unigram *unigram_twin(const Unigram *u);
void unigram_free(Unigram *u);

#endif
