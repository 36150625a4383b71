/* chars.h -- character vocabulary, built from texts.
 *
 * Ids: [PAD] 0, [BOS] 1, [EOS] 2, characters by code point from 3 on, [MASK] last. [BOS] precedes
 * a text. An unknown character is an error.
 * Keeps: NULL means success, else a malloc'ed message. */
#ifndef DIECAST_CHARS_H
#define DIECAST_CHARS_H

#include "runtime/data/tokenizer.h"

typedef struct Chars Chars;

enum { CHARS_SPECIALS = 4 };

/* Starts with an empty vocabulary. */
char *chars_begin(Chars **c);
/* Returns a tokenizer that collects the characters of the texts it encodes and returns only ids of
 * special tokens. It belongs to c; its twins must run on the same thread. */
const Tokenizer *chars_counter(const Chars *c);
int64_t chars_distinct(const Chars *c);
/* Sets the malloc'ed texts of tokenizer.json and tokenizer_config.json, in the Hugging Face
 * format. */
void chars_vocabulary(const Chars *c, char **tokenizer, char **config);
void chars_free(Chars *c);

#endif
