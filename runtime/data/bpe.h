/* bpe.h -- the BPE model inside a tokenizer: pieces of text to ids, ids to their texts.
 *
 * In:    the object `model` of a tokenizer.json (hostile until loaded).
 * Keeps: errors are malloc'ed messages, NULL means fine. Not for concurrent calls. */
#ifndef DIECAST_BPE_H
#define DIECAST_BPE_H

#include "runtime/data/tokens.h"

typedef struct Bpe Bpe;

/* bytes: byte-level, tokens are written in the byte alphabet and stand for bytes; else their
 * characters are what is merged, and what has no token may fall back to <0x00> to <0xFF>. */
char *bpe_load(Bpe **b, const cJSON *model, bool bytes);
int bpe_size(const Bpe *b);                                       /* highest id + 1 */
int bpe_count(const Bpe *b);                                      /* tokens */
/* as written in the file; -1: none */
int bpe_id(const Bpe *b, const char *token);
int bpe_unknown(const Bpe *b);                                    /* unk_token; -1: none */
/* Bytes that id stands for, or its text; NULL: no such id. */
const char *bpe_bytes(const Bpe *b, int32_t id, size_t *n);
char *bpe_encode(Bpe *b, const char *piece, size_t n, Ids *to);
/* Another that encodes at the same time; it shares the tables of b, which has to outlive it. */
Bpe *bpe_twin(const Bpe *b);
void bpe_free(Bpe *b);

/* The byte alphabet: text written in it back to bytes (out has room for n); false, when a
 * character is not in it. */
bool bpe_unmap(const char *text, size_t n, char *out, size_t *nout);
#endif
