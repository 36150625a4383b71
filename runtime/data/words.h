/* words.h -- word vocabularies: the plain tokenizer.json, and one counted from texts.
 *
 * A plain tokenizer.json is one object, token: id, with [CLS], [SEP], [UNK] and usually [PAD] and
 * [MASK] among them. Texts are lower-cased by Unicode's full mapping with its final-sigma rule
 * (Python's str.lower()), split at White_Space, and encoded as [CLS] words [SEP].
 * Keeps: NULL means success, else a malloc'ed message. */
#ifndef DIECAST_WORDS_H
#define DIECAST_WORDS_H

#include "runtime/data/tokenizer.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORDS_SPECIALS = 5 };     /* [PAD] 0, [CLS] 1, [SEP] 2, [UNK] 3, [MASK] 4 */
extern const char *const words_special[WORDS_SPECIALS];

bool words_plain(const cJSON *json);                     /* true for a plain tokenizer.json */
/* Sets the same tokenizer in the layout of Hugging Face tokenizers, with the same ids. */
char *words_layout(const cJSON *plain, cJSON **layout);

typedef struct Words Words;

/* Starts with an empty vocabulary. */
char *words_begin(Words **w);
/* Returns a tokenizer that counts the words of the texts it encodes, normalised as for look-up, and
 * returns no ids. It belongs to w; its twins must run on the same thread. */
const Tokenizer *words_counter(const Words *w);
int64_t words_distinct(const Words *w);
/* Sets malloc'ed texts: the specials and the `most` most frequent words, ties by first occurrence,
 * as a plain tokenizer.json and as its Hugging Face equivalent. */
void words_vocabulary(const Words *w, int64_t most, char **plain, char **twin);
void words_free(Words *w);

/* The same functions, for code of all programs; only those whose formats are of words have them. */
typedef struct WordsCode {
    char *(*begin)(Words **w);
    const Tokenizer *(*counter)(const Words *w);
    int64_t (*distinct)(const Words *w);
    void (*vocabulary)(const Words *w, int64_t most, char **plain, char **twin);
    void (*free)(Words *w);
} WordsCode;
extern const WordsCode words_code;

#endif
