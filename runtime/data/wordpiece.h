/* wordpiece.h -- the models whose vocabulary holds words: WordLevel, and WordPiece with parts of them.
 *
 * In:    the object `model` of a tokenizer.json (hostile until loaded).
 * Keeps: errors are malloc'ed messages, NULL means fine. Not for concurrent calls. */
#ifndef DIECAST_WORDPIECE_H
#define DIECAST_WORDPIECE_H

#include "runtime/data/tokens.h"

typedef struct Wordpiece Wordpiece;

/* parts: WordPiece, else WordLevel. */
char *wordpiece_load(Wordpiece **w, const cJSON *model, bool parts);
const Tokens *wordpiece_tokens(const Wordpiece *w);
int wordpiece_unknown(const Wordpiece *w);       /* -1: none */
/* A word found whole is its id. Else WordPiece takes the longest part in the vocabulary from the
 * left, again and again, all but the first with the prefix of continuations before them; what
 * cannot be taken apart so is unknown as a whole: an error where WordLevel's unk_token is "". */
char *wordpiece_encode(Wordpiece *w, const char *word, size_t n, Ids *to);
/* Another that encodes at the same time; it shares the tables of w, which has to outlive it. */
Wordpiece *wordpiece_twin(const Wordpiece *w);
void wordpiece_free(Wordpiece *w);

#endif
