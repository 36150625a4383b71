/* words.h -- vocabularies of whole words: the plain tokenizer.json, and one counted from texts.
 *
 * A plain tokenizer.json is one object, token: id, with [CLS], [SEP], [UNK] and mostly [PAD] and
 * [MASK] among them. It means: small letters as of Unicode's full mapping, its rule of the final
 * sigma included (Python's str.lower()), split at White_Space, [CLS] words [SEP].
 * Keeps: errors are malloc'ed messages, NULL means fine. */
#ifndef DIECAST_WORDS_H
#define DIECAST_WORDS_H

#include "runtime/data/tokenizer.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORDS_SPECIALS = 5 };     /* [PAD] 0, [CLS] 1, [SEP] 2, [UNK] 3, [MASK] 4 */
extern const char *const words_special[WORDS_SPECIALS];

bool words_plain(const cJSON *json);
/* The same tokenizer in the layout of Hugging Face tokenizers, which gives the same ids. */
char *words_layout(const cJSON *plain, cJSON **layout);

typedef struct Words Words;

char *words_begin(Words **w);
/* A tokenizer that counts the words of the texts it is to encode, as they would be looked up, and
 * gives no ids; it belongs to w, its twins count on the same thread. */
const Tokenizer *words_counter(const Words *w);
int64_t words_distinct(const Words *w);
/* The specials and the `most` most frequent words, those of equal count as they first came: as the
 * plain tokenizer.json and as its twin for Hugging Face, malloc'ed texts. */
void words_vocabulary(const Words *w, int64_t most, char **plain, char **twin);
void words_free(Words *w);

#endif
