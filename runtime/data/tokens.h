/* tokens.h -- vocabulary of a tokenizer: tokens by text and by id.
 *
 * In:    the object `vocab` of a tokenizer.json, untrusted.
 * Keeps: NULL means success, else a malloc'ed message; immutable once loaded. */
#ifndef DIECAST_TOKENS_H
#define DIECAST_TOKENS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing list of ids. */
typedef struct {
    int32_t *id;
    size_t n, cap;
} Ids;

void ids_put(Ids *to, const int32_t *id, size_t n);      /* appends; aborts without memory */

typedef struct {
    char *key;
    uint32_t n;
    bool bytes;                  /* key is the result of tokens_load's `bytes` for the text */
    int32_t id;
} Token;

typedef struct {
    int n, size;                 /* size: highest id + 1 */
    size_t longest;              /* length of the longest key */
    Token *token;                /* ids ascending */
    uint32_t *table, mask;       /* hash of key -> token + 1, 0: empty */
} Tokens;

/* bytes converts a token's text to the bytes it stands for; false: keep the text. NULL: keep all
 * texts. */
char *tokens_load(Tokens *v, const cJSON *vocab,
                  bool (*bytes)(const char *text, size_t n, char *out, size_t *nout));
/* -1: none */
int32_t tokens_id(const Tokens *v, const char *key, size_t n, bool bytes);
const char *tokens_text(const Tokens *v, int32_t id, size_t *n);     /* NULL: no such id */
void tokens_free(Tokens *v);

/* The value of an id in a tokenizer.json; -1: not an integer from 0 to 2^31-2. */
int32_t tokens_json_id(const cJSON *item);
uint64_t tokens_mix(uint64_t h);
uint64_t tokens_hash(const char *p, size_t n, bool bytes);

#endif
