/* tokenizer_cache.h -- cache of the ids of short pieces: most words of a text are repeated.
 *
 * Keeps: direct-mapped, one cache line per entry; the caller encodes a piece that is not cached. */
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

/* Returns the slot of a piece of n bytes, 1 to CACHE_KEY. */
static inline Cached *cache_slot(Cached *cache, const char *piece, size_t n)
{
    return &cache[tokens_hash(piece, n, true) & (CACHE_SIZE - 1)];
}

static inline bool cache_holds(const Cached *c, const char *piece, size_t n)
{
    return c->n == n && !memcmp(c->key, piece, n);
}

/* Stores the ids from `from` on for the piece; more than CACHE_IDS are not stored. */
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
