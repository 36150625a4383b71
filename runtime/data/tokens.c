/* tokens.c -- vocabulary: an open-addressing hash table by text, a sorted list by id. */
#define _GNU_SOURCE
#include "runtime/data/tokens.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

enum { TOKEN_MAX = 1 << 16 };

void ids_put(Ids *to, const int32_t *id, size_t n)
{
    if (to->cap - to->n < n) {
        to->cap = 2 * to->cap + n + 64;
        to->id = realloc(to->id, to->cap * sizeof *to->id);
        if (!to->id)
            abort();
    }
    if (n)
        memcpy(to->id + to->n, id, n * sizeof *id);
    to->n += n;
}

int32_t tokens_json_id(const cJSON *item)
{
    if (!cJSON_IsNumber(item) || (item->type & JSON_FLOAT) || item->valuedouble < 0 ||
        item->valuedouble >= INT32_MAX)
        return -1;
    return (int32_t)item->valuedouble;
}

uint64_t tokens_mix(uint64_t h)
{
    h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

uint64_t tokens_hash(const char *p, size_t n, bool bytes)
{
    uint64_t h = n * 2 + bytes, word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = tokens_mix(h ^ word);
    }
    word = 0;
    memcpy(&word, p, n);
    return tokens_mix(h ^ word);
}

/* Returns the slot of key, or the empty slot where it belongs. */
static uint32_t *slot_of(const Tokens *v, const char *key, size_t n, bool bytes)
{
    for (uint64_t i = tokens_hash(key, n, bytes);; i++) {
        uint32_t *slot = &v->table[i & v->mask];
        const Token *e = *slot ? &v->token[*slot - 1] : NULL;
        if (!e || (e->n == n && e->bytes == bytes && !memcmp(e->key, key, n)))
            return slot;
    }
}

int32_t tokens_id(const Tokens *v, const char *key, size_t n, bool bytes)
{
    uint32_t slot = *slot_of(v, key, n, bytes);
    return slot ? v->token[slot - 1].id : -1;
}

static int token_order(const void *pa, const void *pb)
{
    const Token *a = pa, *b = pb;
    return a->id < b->id ? -1 : a->id > b->id;
}

const char *tokens_text(const Tokens *v, int32_t id, size_t *n)
{
    const Token *e = bsearch(&(Token){.id = id}, v->token, (size_t)v->n, sizeof *e, token_order);
    *n = e ? e->n : 0;
    return e ? e->key : NULL;
}

char *tokens_load(Tokens *v, const cJSON *vocab,
                  bool (*bytes)(const char *text, size_t n, char *out, size_t *nout))
{
    if (!cJSON_IsObject(vocab) || !vocab->child)
        return format("model.vocab: must be a non-empty object of token: id");
    size_t n = 0, size = 64;
    for (const cJSON *i = vocab->child; i; i = i->next)
        n++;
    v->token = calloc(n, sizeof *v->token);
    for (const cJSON *i = vocab->child; i; i = i->next) {
        Token *e = &v->token[v->n++];
        size_t len = strlen(i->string), nkey;
        e->key = malloc(len + 1);
        e->id = tokens_json_id(i);
        if (e->id < 0)
            return format("model.vocab: %.60s: must be an id from 0 to 2^31-2", i->string);
        if (len > TOKEN_MAX)
            return format("model.vocab: id %d: token of %zu bytes, at most %d", e->id, len,
                          TOKEN_MAX);
        e->bytes = bytes && bytes(i->string, len, e->key, &nkey);
        if (!e->bytes)
            memcpy(e->key, i->string, nkey = len);
        e->key[nkey] = 0;
        e->n = (uint32_t)nkey;
        if (!nkey)
            return format("model.vocab: id %d: empty token", e->id);
        if (nkey > v->longest)
            v->longest = nkey;
    }
    qsort(v->token, n, sizeof *v->token, token_order);
    for (size_t i = 1; i < n; i++)
        if (v->token[i].id == v->token[i - 1].id)
            return format("model.vocab: id %d belongs to two tokens", v->token[i].id);
    v->size = v->token[n - 1].id + 1;
    while (size < 2 * n)
        size *= 2;
    v->table = calloc(size, sizeof *v->table);
    v->mask = (uint32_t)size - 1;
    for (size_t i = 0; i < n; i++)
        *slot_of(v, v->token[i].key, v->token[i].n, v->token[i].bytes) = (uint32_t)i + 1;
    return NULL;
}

void tokens_free(Tokens *v)
{
    for (int i = 0; i < v->n; i++)
        free(v->token[i].key);
    free(v->token);
    free(v->table);
}
