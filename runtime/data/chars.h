/* chars.h -- a vocabulary of the characters of texts.
 *
 * [PAD] 0, [BOS] 1, [EOS] 2, the characters by code point from 3 on, [MASK] last; [BOS] goes before a
 * text. A character that is not there is an error.
 * Keeps: errors are malloc'ed messages, NULL means fine. */
#ifndef DIECAST_CHARS_H
#define DIECAST_CHARS_H

#include "runtime/data/tokenizer.h"

typedef struct Chars Chars;

enum { CHARS_SPECIALS = 4 };

char *chars_begin(Chars **c);
/* A tokenizer that notes the characters of the texts it is to encode, and gives the ids of special
 * tokens alone; it belongs to c, its twins note on the same thread. */
const Tokenizer *chars_counter(const Chars *c);
int64_t chars_distinct(const Chars *c);
/* The file tokenizer.json and the tokenizer_config.json beside it that Hugging Face wants; malloc'ed
 * texts. */
void chars_vocabulary(const Chars *c, char **tokenizer, char **config);
void chars_free(Chars *c);

#endif
