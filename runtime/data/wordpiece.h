/* wordpiece.h -- WordPiece and WordLevel models of a tokenizer: words to ids.
 *
 * In:    the object `model` of a tokenizer.json, untrusted.
 * Keeps: NULL means success, else a malloc'ed message. Not thread-safe: see wordpiece_twin(). */
#ifndef DIECAST_WORDPIECE_H
#define DIECAST_WORDPIECE_H

#include "runtime/data/tokens.h"

typedef struct Wordpiece Wordpiece;

/* parts: WordPiece, else WordLevel. */
char *wordpiece_load(Wordpiece **w, const cJSON *model, bool parts);
const Tokens *wordpiece_tokens(const Wordpiece *w);
int wordpiece_unknown(const Wordpiece *w);       /* -1: none */
/* Appends the id of a word in the vocabulary. Else WordPiece repeatedly takes the longest prefix in
 * the vocabulary, all but the first with the continuation prefix; a word that cannot be split
 * completely is one unknown token: an error if WordLevel's unk_token is "". */
char *wordpiece_encode(Wordpiece *w, const char *word, size_t n, Ids *to);
/* Returns a copy for another thread; it shares the tables of w, which must outlive it. */
Wordpiece *wordpiece_twin(const Wordpiece *w);
void wordpiece_free(Wordpiece *w);

#endif
