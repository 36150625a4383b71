/* tokenizer_unigram.h -- the Unigram model inside a tokenizer: pieces of text to ids.
 *
 * In:    the object `model` of a tokenizer.json (hostile until loaded).
 * Keeps: errors are malloc'ed messages, NULL means fine. Not for concurrent calls. */
#ifndef DIECAST_TOKENIZER_UNIGRAM_H
#define DIECAST_TOKENIZER_UNIGRAM_H

#include "runtime/data/tokens.h"

typedef struct Unigram Unigram;

char *unigram_load(Unigram **u, const cJSON *model);
const Tokens *unigram_tokens(const Unigram *u);
int unigram_unknown(const Unigram *u);           /* unk_id; -1: none */
/* The tokens whose scores have the highest sum. A character that is no token, and those beside it
 * that are none either, are the bytes <0x00> to <0xFF> where the model falls back to them, else one
 * unknown token; an error where it has neither. */
char *unigram_encode(Unigram *u, const char *piece, size_t n, Ids *to);
/* Another that encodes at the same time; it shares the tables of u, which has to outlive it. */
Unigram *unigram_twin(const Unigram *u);
void unigram_free(Unigram *u);

#endif
