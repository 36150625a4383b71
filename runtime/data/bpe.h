/* bpe.h -- BPE model of a tokenizer: pieces of text to ids, ids to text.
 *
 * In:    the object `model` of a tokenizer.json, untrusted.
 * Keeps: NULL means success, else a malloc'ed message. Not thread-safe: see bpe_twin(). */
#ifndef DIECAST_BPE_H
#define DIECAST_BPE_H

#include "runtime/data/tokens.h"

typedef struct Bpe Bpe;

/* bytes: byte-level BPE, whose tokens are bytes written in the byte alphabet. Else characters are
 * merged, and an unknown one may fall back to the tokens <0x00> to <0xFF>. */
char *bpe_load(Bpe **b, const cJSON *model, bool bytes);
int bpe_size(const Bpe *b);                                       /* highest id + 1 */
int bpe_count(const Bpe *b);                                      /* number of tokens */
/* token: as written in the file; -1: none */
int bpe_id(const Bpe *b, const char *token);
int bpe_unknown(const Bpe *b);                                    /* unk_token; -1: none */
/* Returns the *n bytes of a token, or its text; NULL: no such id. */
const char *bpe_bytes(const Bpe *b, int32_t id, size_t *n);
/* Appends the ids of a piece to `to`. */
char *bpe_encode(Bpe *b, const char *piece, size_t n, Ids *to);
/* Returns a copy for another thread; it shares the tables of b, which must outlive it. */
Bpe *bpe_twin(const Bpe *b);
void bpe_free(Bpe *b);

/* Decodes text in the byte alphabet to bytes (out has room for n); false: a character is not in the
 * alphabet. */
bool bpe_unmap(const char *text, size_t n, char *out, size_t *nout);
#endif
