/* tokenizer.h -- Hugging Face tokenizers: text to ids and back.
 *
 * In:    UTF-8 text (any bytes with the byte vocabulary).
 * Out:   the ids of Hugging Face tokenizers for the layouts of GPT-2, Llama 2 and 3, Mistral, Qwen,
 *        Gemma, T5, XLM-R and BERT: BPE of bytes or characters, Unigram, WordPiece, words or
 *        characters from a tokenizer.json; or plain bytes.
 * Keeps: NULL means success, else a malloc'ed message. Not thread-safe: see tokenizer_twin(). */
#ifndef DIECAST_TOKENIZER_H
#define DIECAST_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Tokenizer Tokenizer;

#define TOKENIZER_BYTES (256 << 20)  /* maximum size of a tokenizer.json */
/* If we add a token to a tokenizer.json, this key of its `model` object stores the tokenizer_id()
 * that the file had before. */
#define TOKENIZER_EXTENDS "extends"

/* path: a tokenizer.json, also a plain one (words.h), or "bytes": ids 0..255 are the bytes, 256 is
 * the end of text. Files next to tokenizer.json add tokens as in transformers (tokenizer_config.c)
 * and name the end-of-text token: tokenizer_config.json, else eos_token_id of config.json, else of
 * generation_config.json. */
char *tokenizer_load(Tokenizer **t, const char *path);
/* The same from memory; config may be NULL. */
char *tokenizer_parse(Tokenizer **t, const char *json, size_t n, const char *config,
                      size_t nconfig);
int tokenizer_size(const Tokenizer *t);                  /* highest id + 1 */
int tokenizer_eos(const Tokenizer *t);                   /* -1: unknown */
/* True if id ends a text: the end-of-text token, or another id of eos_token_id. */
bool tokenizer_ends(const Tokenizer *t, int32_t id);
/* -1: none; does not imply that encoding adds it */
int tokenizer_bos(const Tokenizer *t);
/* Return the id of the mask or padding token: mask_token or pad_token of tokenizer_config.json,
 * else [MASK] or [PAD]; -1: none. tokenizer_bos() and tokenizer_eos() likewise fall back to [BOS]
 * and [EOS]. */
int tokenizer_mask(const Tokenizer *t);
int tokenizer_pad(const Tokenizer *t);
int tokenizer_unknown(const Tokenizer *t);               /* stands for unknown words; -1: none */
/* True for ids that are not part of a text: an added token marked special, one of the above, or one
 * that encoding adds around a text. The unknown token stands for a word, so it is not special. */
bool tokenizer_special(const Tokenizer *t, int32_t id);
/* Text that, appended to a text, is encoded as the end-of-text token; NULL: unknown, the byte
 * vocabulary, or a token that is only found in normalised text. */
const char *tokenizer_eos_text(const Tokenizer *t);
int tokenizer_added(const Tokenizer *t, const char *content);   /* id of an added token, or -1 */
/* Adds a special token for a row of the model's embedding that has no token in its tokenizer.
 * Neither `content` nor `id` may be in use. Call this before creating twins. tokenizer_id() does
 * not change. */
char *tokenizer_add(Tokenizer *t, const char *content, int32_t id);
/* "bytes", or "crc32c:0a1b2c3d:1234567": checksum and size of tokenizer.json, plus one line for
 * each token that the files next to it add or change. A file that we have added a token to has the
 * id of the file before. */
const char *tokenizer_id(const Tokenizer *t);
/* The byte vocabulary as a Hugging Face tokenizer.json, malloc'ed; loading it gives "bytes". */
char *tokenizer_bytes_file(void);
/* tokenizer_id() of a tokenizer.json that is not loaded: NULL and *id (malloc'ed), or a message. */
char *tokenizer_file_id(const char *path, char **id);
/* Ids that encode puts before and after a text if `specials`. */
const int32_t *tokenizer_prefix(const Tokenizer *t, size_t *n);
const int32_t *tokenizer_suffix(const Tokenizer *t, size_t *n);
/* *ids is malloc'ed. Invalid UTF-8 is an error with its offset. */
char *tokenizer_encode(const Tokenizer *t, const char *text, size_t n, bool specials,
                       int32_t **ids, size_t *nids);
/* Returns the largest position up to n at which text may be cut so that its pieces, encoded
 * separately without specials, give the ids of the whole, for any text after them; 0: none. */
size_t tokenizer_cut(const Tokenizer *t, const char *text, size_t n);
/* Returns malloc'ed, NUL-terminated text. Invalid UTF-8 becomes U+FFFD (not with the byte
 * vocabulary); unknown ids give nothing. */
char *tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_specials,
                       size_t *nbytes);
/* Returns a copy for another thread; it shares the tables of t, which must outlive it. */
Tokenizer *tokenizer_twin(const Tokenizer *t);
void tokenizer_free(Tokenizer *t);

#endif
