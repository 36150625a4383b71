/* bpe.c -- byte-level byte pair encoding, as Hugging Face tokenizers computes it.
 *
 * In:     vocabulary and ranked merges.
 * Out:    a piece's ids after merging lowest rank first, leftmost on ties, until no pair merges.
 * Method: a heap of candidate pairs, dropped when their symbols have changed since: O(n log n) for
 *         n bytes. Short pieces are remembered in a direct-mapped cache. */
#define _GNU_SOURCE
#include "runtime/data/bpe.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_SIZE = 1 << 14, CACHE_KEY = 22, CACHE_IDS = 10 };
#define PIECE_MAX ((size_t)1 << 28)

typedef struct {
    uint64_t pair;               /* left id << 32 | right id; all ones: empty */
    uint32_t rank;
    int32_t id;                  /* of the merged token */
} Merge;

typedef struct {
    int32_t id;                  /* -1: swallowed by its left neighbour */
    uint32_t prev, next;         /* positions; NONE at the ends */
} Symbol;
#define NONE UINT32_MAX

typedef struct {
    uint64_t order;              /* rank << 32 | position: the heap's key */
    uint64_t pair;               /* that stood there when the candidate was found */
    int32_t id;
} Candidate;

typedef struct {
    uint8_t n, nids;             /* n 0: empty */
    char key[CACHE_KEY];
    int32_t id[CACHE_IDS];
} Cached;

struct Bpe {
    Tokens tokens;               /* as bytes, where they are written in the byte alphabet */
    Merge *merge;
    uint64_t merge_mask;
    int32_t byte_id[256];        /* -1: not in the vocabulary */
    int32_t unk;                 /* -1: bytes without token are dropped */
    bool fuse_unk, ignore_merges;
    bool twin;                   /* everything above belongs to another */
    Cached *cache;
    Symbol *symbol;
    Candidate *heap;
    size_t nheap, cap;           /* room for cap symbols and 2 * cap candidates */
};

/* 0x21-0x7e, 0xa1-0xac and 0xae-0xff stand for themselves, the other 68 follow from U+0100 on. */
static int byte_of(uint32_t c)
{
    if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff))
        return (int)c;
    if (c < 0x100 || c >= 0x100 + 68)
        return -1;
    c -= 0x100;
    return (int)(c < 33 ? c : c < 33 + 34 ? c - 33 + 0x7f : 0xad);
}

bool bpe_unmap(const char *text, size_t n, char *out, size_t *nout)
{
    *nout = 0;
    for (size_t i = 0; i < n;) {
        int bad, len = utf8_length(text + i, n - i, &bad);
        int byte = len ? byte_of(utf8_value(text + i, len)) : -1;
        if (byte < 0)
            return false;
        out[(*nout)++] = (char)byte;
        i += (size_t)len;
    }
    return true;
}

int bpe_id(const Bpe *b, const char *token)
{
    size_t n = strlen(token), nkey;
    char *key = malloc(n + 1);
    bool mapped = bpe_unmap(token, n, key, &nkey);
    int id = mapped ? tokens_id(&b->tokens, key, nkey, true)
                    : tokens_id(&b->tokens, token, n, false);
    free(key);
    return id;
}

static Merge *merge_of(const Bpe *b, uint64_t pair)
{
    for (uint64_t i = tokens_mix(pair);; i++) {
        Merge *m = &b->merge[i & b->merge_mask];
        if (m->pair == pair || m->pair == UINT64_MAX)
            return m;
    }
}

/* One merge, `left right` in *text of the alphabet. */
static char *load_merge(Bpe *b, const char *left, size_t nl, const char *right, size_t nr,
                        uint32_t rank)
{
    char *key = malloc(nl + nr + 1), *error = NULL;
    size_t n, m = 0;
    if (!bpe_unmap(left, nl, key, &n) || !bpe_unmap(right, nr, key + n, &m)) {
        error = format("model.merges[%u]: not written in the byte alphabet", rank);
    } else {
        int l = tokens_id(&b->tokens, key, n, true), r = tokens_id(&b->tokens, key + n, m, true);
        int id = tokens_id(&b->tokens, key, n + m, true);
        uint64_t pair = (uint64_t)(uint32_t)l << 32 | (uint32_t)r;
        Merge *slot = l < 0 || r < 0 || id < 0 ? NULL : merge_of(b, pair);
        if (!slot)
            error = format("model.merges[%u]: %s is not in the vocabulary", rank,
                           l < 0 ? "the left token" : r < 0 ? "the right token" : "the result");
        else if (slot->pair == pair)
            error = format("model.merges[%u]: given twice", rank);
        else
            *slot = (Merge){pair, rank, id};
    }
    free(key);
    return error;
}

static char *load_merges(Bpe *b, const cJSON *merges)
{
    size_t n = 0, size = 64;
    uint32_t rank = 0;
    char *error = NULL;
    if (!cJSON_IsArray(merges))
        return format("model.merges: want a list");
    for (const cJSON *i = merges->child; i; i = i->next)
        n++;
    while (size < 2 * n)
        size *= 2;
    b->merge = malloc(size * sizeof *b->merge);
    b->merge_mask = size - 1;
    for (size_t i = 0; i < size; i++)
        b->merge[i].pair = UINT64_MAX;
    for (const cJSON *i = merges->child; i && !error; i = i->next, rank++) {
        const cJSON *a = cJSON_IsArray(i) ? i->child : NULL, *c = a ? a->next : NULL;
        const char *space = cJSON_IsString(i) ? strchr(i->valuestring, ' ') : NULL;
        if (space && !strchr(space + 1, ' '))
            error = load_merge(b, i->valuestring, (size_t)(space - i->valuestring), space + 1,
                               strlen(space + 1), rank);
        else if (cJSON_IsString(a) && cJSON_IsString(c) && !c->next)
            error = load_merge(b, a->valuestring, strlen(a->valuestring), c->valuestring,
                               strlen(c->valuestring), rank);
        else
            error = format("model.merges[%u]: want two tokens", rank);
    }
    return error;
}

/* What other kinds of BPE use; set to anything but its neutral value it is refused. */
static char *check_neutral(const cJSON *model)
{
    static const char *const key[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                      "byte_fallback"};
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        const cJSON *v = json_get(model, key[i]);
        bool neutral = !v || cJSON_IsNull(v) || cJSON_IsFalse(v) ||
                       (cJSON_IsString(v) && !*v->valuestring) ||
                       (cJSON_IsNumber(v) && v->valuedouble == 0);
        if (!neutral)
            return format("model.%s: not supported for byte-level BPE", key[i]);
    }
    return NULL;
}

char *bpe_load(Bpe **to, const cJSON *model)
{
    Bpe *b = calloc(1, sizeof *b);
    const cJSON *unk = json_get(model, "unk_token");
    char *error = check_neutral(model);
    if (!error)
        error = tokens_load(&b->tokens, json_get(model, "vocab"), bpe_unmap);
    for (int c = 0; c < 256 && !error; c++)
        b->byte_id[c] = tokens_id(&b->tokens, &(char){(char)c}, 1, true);
    if (!error)
        error = load_merges(b, json_get(model, "merges"));
    b->unk = -1;
    if (!error && cJSON_IsString(unk) && *unk->valuestring) {
        b->unk = bpe_id(b, unk->valuestring);
        if (b->unk < 0)
            error = format("model.unk_token: %.60s is not in the vocabulary", unk->valuestring);
    }
    b->fuse_unk = cJSON_IsTrue(json_get(model, "fuse_unk"));
    b->ignore_merges = cJSON_IsTrue(json_get(model, "ignore_merges"));
    b->cache = calloc(CACHE_SIZE, sizeof *b->cache);
    if (error)
        bpe_free(b);
    else
        *to = b;
    return error;
}

int bpe_size(const Bpe *b)
{
    return b->tokens.size;
}

int bpe_unknown(const Bpe *b)
{
    return b->unk;
}

const char *bpe_bytes(const Bpe *b, int32_t id, size_t *n)
{
    return tokens_text(&b->tokens, id, n);
}

static void heap_put(Bpe *b, Candidate c)
{
    size_t i = b->nheap++;
    for (size_t up; i && b->heap[up = (i - 1) / 2].order > c.order; i = up)
        b->heap[i] = b->heap[up];
    b->heap[i] = c;
}

static Candidate heap_take(Bpe *b)
{
    Candidate top = b->heap[0], c = b->heap[--b->nheap];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < b->nheap; i = k) {
        if (k + 1 < b->nheap && b->heap[k + 1].order < b->heap[k].order)
            k++;
        if (b->heap[k].order >= c.order)
            break;
        b->heap[i] = b->heap[k];
    }
    b->heap[i] = c;
    return top;
}

static uint64_t pair_at(const Bpe *b, uint32_t at)
{
    uint32_t next = b->symbol[at].next;
    return next == NONE ? UINT64_MAX
         : (uint64_t)(uint32_t)b->symbol[at].id << 32 | (uint32_t)b->symbol[next].id;
}

static void consider(Bpe *b, uint32_t at)
{
    uint64_t pair = pair_at(b, at);
    const Merge *m = pair == UINT64_MAX ? NULL : merge_of(b, pair);
    if (m && m->pair == pair)
        heap_put(b, (Candidate){(uint64_t)m->rank << 32 | at, pair, m->id});
}

static void merge_piece(Bpe *b, const char *piece, size_t n, Ids *to)
{
    uint32_t count = 0;
    if (b->cap < n) {            /* each merge removes a symbol and adds at most two candidates */
        b->cap = 2 * n + 256;
        b->symbol = realloc(b->symbol, b->cap * sizeof *b->symbol);
        b->heap = realloc(b->heap, 3 * b->cap * sizeof *b->heap);
        if (!b->symbol || !b->heap)
            abort();
    }
    for (size_t i = 0, len; i < n; i += len) {
        int32_t id = b->byte_id[(unsigned char)piece[i]];
        len = 1;
        /* upstream replaces mapped characters, that is bytes, one by one */
        if (id < 0) {
            id = b->unk;
            if (id < 0 || (b->fuse_unk && i && b->byte_id[(unsigned char)piece[i - 1]] < 0))
                continue;
        }
        b->symbol[count] = (Symbol){id, count - 1, count + 1};
        count++;
    }
    if (!count)
        return;
    b->symbol[count - 1].next = NONE;
    b->nheap = 0;
    for (uint32_t i = 0; i + 1 < count; i++)
        consider(b, i);
    while (b->nheap) {
        Candidate c = heap_take(b);
        uint32_t at = (uint32_t)c.order;
        Symbol *s = &b->symbol[at];
        if (s->id < 0 || pair_at(b, at) != c.pair)
            continue;
        Symbol *right = &b->symbol[s->next];
        s->id = c.id;
        right->id = -1;
        s->next = right->next;
        if (s->next != NONE)
            b->symbol[s->next].prev = at;
        if (s->prev != NONE)
            consider(b, s->prev);
        consider(b, at);
    }
    for (uint32_t i = 0; i != NONE; i = b->symbol[i].next)
        ids_put(to, &b->symbol[i].id, 1);
}

char *bpe_encode(Bpe *b, const char *piece, size_t n, Ids *to)
{
    if (n > PIECE_MAX)
        return format("a piece of %zu bytes without a split, at most %zu", n, PIECE_MAX);
    if (b->ignore_merges) {
        int32_t id = tokens_id(&b->tokens, piece, n, true);
        if (id >= 0) {
            ids_put(to, &id, 1);
            return NULL;
        }
    }
    if (n > CACHE_KEY) {
        merge_piece(b, piece, n, to);
        return NULL;
    }
    Cached *c = &b->cache[tokens_hash(piece, n, true) & (CACHE_SIZE - 1)];
    if (c->n != n || memcmp(c->key, piece, n)) {
        size_t from = to->n;
        merge_piece(b, piece, n, to);
        if (to->n - from <= CACHE_IDS) {
            c->n = (uint8_t)n;
            c->nids = (uint8_t)(to->n - from);
            memcpy(c->key, piece, n);
            memcpy(c->id, to->id + from, c->nids * sizeof *c->id);
        }
    } else {
        ids_put(to, c->id, c->nids);
    }
    return NULL;
}

Bpe *bpe_twin(const Bpe *b)
{
    Bpe *twin = malloc(sizeof *twin);
    if (!twin)
        abort();
    *twin = *b;
    twin->twin = true;
    twin->cache = calloc(CACHE_SIZE, sizeof *twin->cache);
    twin->symbol = NULL;
    twin->heap = NULL;
    twin->nheap = twin->cap = 0;
    return twin;
}

void bpe_free(Bpe *b)
{
    if (!b)
        return;
    free(b->cache);
    free(b->symbol);
    free(b->heap);
    if (!b->twin) {
        tokens_free(&b->tokens);
        free(b->merge);
    }
    free(b);
}
