/* tokenizer.h -- text to ids and back: BPE of bytes or characters, Unigram, WordPiece, words or
 * characters from a tokenizer.json, or plain bytes.
 *
 * In:    UTF-8 text (any bytes with the byte vocabulary).
 * Out:   the ids of Hugging Face tokenizers for the layouts of GPT-2, Llama 2 and 3, Mistral, Qwen,
 *        Gemma, T5, XLM-R and BERT.
 * Keeps: errors are malloc'ed messages, NULL means fine. One encode at a time per Tokenizer; a
 *        thread more takes a twin. */
#ifndef DIECAST_TOKENIZER_H
#define DIECAST_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Tokenizer Tokenizer;

#define TOKENIZER_BYTES (256 << 20)  /* of a tokenizer.json, at most */
/* Key of `model` in a tokenizer.json that we have added a token to: its identity before. */
#define TOKENIZER_EXTENDS "extends"

/* path: a tokenizer.json, also a plain one (words.h), or "bytes": ids 0..255 are the bytes, 256 ends
 * a text. Files beside tokenizer.json add tokens to it, as in transformers (tokenizer_beside.c), and tell
 * the end-of-text token: tokenizer_config.json, or where that does not, eos_token_id of config.json, or of
 * generation_config.json. */
char *tokenizer_load(Tokenizer **t, const char *path);
/* The same from memory; config may be NULL. */
char *tokenizer_parse(Tokenizer **t, const char *json, size_t n, const char *config,
                      size_t nconfig);
int tokenizer_size(const Tokenizer *t);                  /* highest id + 1 */
int tokenizer_eos(const Tokenizer *t);                   /* -1: unknown */
/* A model that says id has ended its text: the end-of-text token, or another of eos_token_id. */
bool tokenizer_ends(const Tokenizer *t, int32_t id);
/* -1: none; says nothing about who adds it */
int tokenizer_bos(const Tokenizer *t);
/* What stands for a hidden token, and what fills a row: mask_token and pad_token of
 * tokenizer_config.json, else [MASK] and [PAD], as [BOS] and [EOS] for the above; -1: none. */
int tokenizer_mask(const Tokenizer *t);
int tokenizer_pad(const Tokenizer *t);
int tokenizer_unknown(const Tokenizer *t);               /* stands for words it has not; -1: none */
/* id is no part of a text: an added token marked special, one of the above, or one that encode puts
 * around. The unknown token stands for a word and is none. */
bool tokenizer_special(const Tokenizer *t, int32_t id);
/* Behind a text it is encoded as the end; NULL: unknown, the byte vocabulary, or one that is only
 * found as normalisation changes it. */
const char *tokenizer_eos_text(const Tokenizer *t);
int tokenizer_added(const Tokenizer *t, const char *content);   /* id of an added token, or -1 */
/* One more added token, with an id that no token has: one that a model has a row for, and its tokenizer
 * does not know. Before there is a twin; the tokenizer's id stays. */
char *tokenizer_add(Tokenizer *t, const char *content, int32_t id);
/* "bytes", or "crc32c:0a1b2c3d:1234567": checksum and size of tokenizer.json, and of a line for each token that the
 * files beside it add or cut out in another way. Of a file that we have added a token to: those of the file before. */
const char *tokenizer_id(const Tokenizer *t);
/* The byte vocabulary as a tokenizer.json of Hugging Face, malloc'ed: what is loaded from such a file is "bytes". */
char *tokenizer_bytes_file(void);
/* The same of a tokenizer.json that is not loaded: NULL and *id (malloc'ed), or a message. */
char *tokenizer_file_id(const char *path, char **id);
/* Ids that encode puts before and behind a text when asked for specials. */
const int32_t *tokenizer_prefix(const Tokenizer *t, size_t *n);
const int32_t *tokenizer_suffix(const Tokenizer *t, size_t *n);
/* *ids is malloc'ed. Bad UTF-8 is an error that names its offset. */
char *tokenizer_encode(const Tokenizer *t, const char *text, size_t n, bool specials,
                       int32_t **ids, size_t *nids);
/* The largest position up to n at which text may be cut so that its parts, encoded one by one
 * without specials, give the ids of the whole, whatever follows; 0: none. */
size_t tokenizer_cut(const Tokenizer *t, const char *text, size_t n);
/* malloc'ed, NUL-terminated. Bytes that are not UTF-8 become U+FFFD (not with the byte
 * vocabulary); ids without a token give nothing. */
char *tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_specials,
                       size_t *nbytes);
/* Another that encodes at the same time; it shares the tables of t, which has to outlive it. */
Tokenizer *tokenizer_twin(const Tokenizer *t);
void tokenizer_free(Tokenizer *t);

#endif
