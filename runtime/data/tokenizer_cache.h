/* tokenizer_cache.h -- ids of short pieces, remembered: most words of a text come again.
 *
 * Keeps: direct-mapped, an entry is a cache line; a piece that is not there has to be encoded. */
#ifndef DIECAST_TOKENIZER_CACHE_H
#define DIECAST_TOKENIZER_CACHE_H

#include "runtime/data/tokens.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_SIZE = 1 << 14, CACHE_KEY = 22, CACHE_IDS = 10 };

typedef struct {
    uint8_t n, nids;             /* n 0: empty */
    char key[CACHE_KEY];
    int32_t id[CACHE_IDS];
} Cached;

static inline Cached *cache_new(void)
{
    Cached *c = calloc(CACHE_SIZE, sizeof *c);
    if (!c)
        abort();
    return c;
}

/* Where a piece of n bytes, 1 to CACHE_KEY, is or belongs. */
static inline Cached *cache_slot(Cached *cache, const char *piece, size_t n)
{
    return &cache[tokens_hash(piece, n, true) & (CACHE_SIZE - 1)];
}

static inline bool cache_holds(const Cached *c, const char *piece, size_t n)
{
    return c->n == n && !memcmp(c->key, piece, n);
}

/* The piece's ids are those of `ids` behind `from`; too many are not kept. */
static inline void cache_put(Cached *c, const char *piece, size_t n, const Ids *ids, size_t from)
{
    if (ids->n - from > CACHE_IDS)
        return;
    c->n = (uint8_t)n;
    c->nids = (uint8_t)(ids->n - from);
    memcpy(c->key, piece, n);
    if (c->nids)
        memcpy(c->id, ids->id + from, c->nids * sizeof *c->id);
}

#endif
