/* bpe.c -- byte pair encoding of bytes or of characters, as Hugging Face tokenizers computes it.
 *
 * Out:    a piece's ids after merging lowest rank first, leftmost on ties, until no pair merges.
 * Method: a heap of candidate pairs, ignored if their symbols have changed since: O(n log n) for n
 *         bytes. A piece is split before each U+2581 that no merge joins to the character before
 *         it: if no pre-tokeniser splits a text, these parts are its words, and are cached. */
#define _GNU_SOURCE
#include "runtime/data/bpe.h"

#include "runtime/base.h"
#include "runtime/data/tokenizer_cache.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_MAX ((size_t)1 << 28)
/* U+2581, which the files write for a space. */
static const char space[] = "\u2581";
enum { NSPACE = sizeof space - 1 };

typedef struct {
    uint64_t pair;               /* left id << 32 | right id; all ones: empty */
    uint32_t rank;
    int32_t id;                  /* of the merged token */
} Merge;

typedef struct {
    int32_t id;                  /* -1: merged into its left neighbour */
    uint32_t prev, next;         /* positions; NONE at the ends */
} Symbol;
#define NONE UINT32_MAX

typedef struct {
    uint64_t order;              /* rank << 32 | position: the heap's key */
    uint64_t pair;               /* at that position when the candidate was found */
    int32_t id;
} Candidate;

struct Bpe {
    bool bytes;                  /* the symbols of a piece are its bytes, else its characters */
    Tokens tokens;               /* as bytes, if written in the byte alphabet */
    Merge *merge;
    uint64_t merge_mask;
    int32_t byte_id[256];        /* of a byte, or an ASCII character; -1: not in the vocabulary */
    int32_t fallback[256];       /* of <0x00> to <0xFF>; -1: none, or no byte fallback */
    int32_t unk;                 /* -1: unknown characters are dropped */
    bool fuse_unk, ignore_merges;
    uint8_t *seam;               /* bitmap of characters: a space after one begins a new part; NULL:
                                    never */
    bool twin;                   /* another Bpe owns everything above */
    Cached *cache;
    Symbol *symbol;
    Candidate *heap;
    size_t nheap, cap, heap_cap;
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
    bool mapped = b->bytes && bpe_unmap(token, n, key, &nkey);
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

/* Converts one half of a merge to the vocabulary's form; false: not in the byte alphabet. */
static bool half(const Bpe *b, const char *text, size_t n, char *out, size_t *nout)
{
    if (b->bytes)
        return bpe_unmap(text, n, out, nout);
    memcpy(out, text, n);
    *nout = n;
    return true;
}

/* Loads one merge, `left right`, as written in the file. */
static char *load_merge(Bpe *b, const char *left, size_t nl, const char *right, size_t nr,
                        uint32_t rank)
{
    char *key = malloc(nl + nr + 1), *error = NULL;
    size_t n, m = 0;
    if (!half(b, left, nl, key, &n) || !half(b, right, nr, key + n, &m)) {
        error = format("model.merges[%u]: not written in the byte alphabet", rank);
    } else {
        int l = tokens_id(&b->tokens, key, n, b->bytes);
        int r = tokens_id(&b->tokens, key + n, m, b->bytes);
        int id = tokens_id(&b->tokens, key, n + m, b->bytes);
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
        return format("model.merges: must be a list");
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
        const char *gap = cJSON_IsString(i) ? strchr(i->valuestring, ' ') : NULL;
        if (gap && !strchr(gap + 1, ' '))
            error = load_merge(b, i->valuestring, (size_t)(gap - i->valuestring), gap + 1,
                               strlen(gap + 1), rank);
        else if (cJSON_IsString(a) && cJSON_IsString(c) && !c->next)
            error = load_merge(b, a->valuestring, strlen(a->valuestring), c->valuestring,
                               strlen(c->valuestring), rank);
        else
            error = format("model.merges[%u]: must be two tokens", rank);
    }
    return error;
}

/* Refuses settings of other kinds of BPE, unless they have their neutral value. */
static char *check_neutral(const cJSON *model, bool bytes)
{
    static const struct {
        const char *key, *why;
        bool characters;         /* allowed for BPE of characters */
    } other[] = {
        {"dropout", "ids would differ from one run to the next; set it to null", false},
        {"continuing_subword_prefix", "not supported for BPE", false},
        {"end_of_word_suffix", "not supported for BPE", false},
        {"byte_fallback", "not supported for byte-level BPE", true},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        const cJSON *v = json_get(model, other[i].key);
        bool neutral = !v || cJSON_IsNull(v) || cJSON_IsFalse(v) ||
                       (cJSON_IsString(v) && !*v->valuestring) ||
                       (cJSON_IsNumber(v) && v->valuedouble == 0);
        if (!neutral && (bytes || !other[i].characters))
            return format("model.%s: %s", other[i].key, other[i].why);
    }
    return NULL;
}

/* Finds the characters that no merge joins to a following space. */
static void find_seams(Bpe *b)
{
    const Tokens *v = &b->tokens;
    b->seam = calloc(0x110000 / 8, 1);
    if (!b->seam)
        abort();
    for (int i = 0; i < v->n; i++) {
        const Token *e = &v->token[i];
        const uint32_t c = utf8_value(e->key, utf8_length_at(e->key, e->n, 0));
        if (utf8_length_at(e->key, e->n, 0) == (int)e->n)
            b->seam[c / 8] |= (uint8_t)(1 << c % 8);
    }
    for (uint64_t i = 0; i <= b->merge_mask; i++) {
        size_t n = 0;
        const char *text = b->merge[i].pair == UINT64_MAX
                           ? NULL : tokens_text(v, b->merge[i].id, &n);
        for (size_t at = 1; text && at + NSPACE <= n; at++) {
            const size_t before = utf8_before(text, at);
            const uint32_t c = utf8_value(text + before, (int)(at - before));
            if (!memcmp(text + at, space, NSPACE))
                b->seam[c / 8] &= (uint8_t)~(1 << c % 8);
        }
    }
}

char *bpe_load(Bpe **to, const cJSON *model, bool bytes)
{
    Bpe *b = calloc(1, sizeof *b);
    const cJSON *unk = json_get(model, "unk_token");
    const bool fallback = cJSON_IsTrue(json_get(model, "byte_fallback"));
    char *error = check_neutral(model, bytes), code[8];
    b->bytes = bytes;
    if (!error)
        error = tokens_load(&b->tokens, json_get(model, "vocab"), bytes ? bpe_unmap : NULL);
    for (int c = 0; c < 256 && !error; c++) {
        snprintf(code, sizeof code, "<0x%02X>", (unsigned)c);
        b->byte_id[c] = tokens_id(&b->tokens, &(char){(char)c}, 1, bytes);
        b->fallback[c] = fallback ? tokens_id(&b->tokens, code, 6, false) : -1;
    }
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
    b->cache = cache_new();
    if (!error && !bytes && tokens_id(&b->tokens, space, NSPACE, false) >= 0)
        find_seams(b);
    if (error)
        bpe_free(b);
    else
        *to = b;
    return error;
}

int bpe_count(const Bpe *b)
{
    return b->tokens.n;
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
    if (b->nheap == b->heap_cap) {
        b->heap_cap = 2 * b->heap_cap + 256;
        b->heap = realloc(b->heap, b->heap_cap * sizeof *b->heap);
        if (!b->heap)
            abort();
    }
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

static uint32_t put_symbol(Bpe *b, uint32_t count, int32_t id)
{
    b->symbol[count] = (Symbol){id, count - 1, count + 1};
    return count + 1;
}

/* Sets the initial symbols of a piece; returns their number. An unknown one is inserted before the
 * next known one, after fallback bytes in between, as upstream does. */
static uint32_t take_symbols(Bpe *b, const char *piece, size_t n)
{
    uint32_t count = 0;
    bool waits = false;
    for (size_t i = 0, len; i < n; i += len) {
        len = b->bytes ? 1 : (size_t)utf8_length_at(piece, n, i);
        const int32_t id = len == 1 ? b->byte_id[(unsigned char)piece[i]]
                                    : tokens_id(&b->tokens, piece + i, len, false);
        bool all = id < 0;
        for (size_t k = 0; k < len && all; k++)
            all = b->fallback[(unsigned char)piece[i + k]] >= 0;
        for (size_t k = 0; k < len && all; k++)
            count = put_symbol(b, count, b->fallback[(unsigned char)piece[i + k]]);
        if (all || (id < 0 && b->unk < 0))
            continue;
        if (waits && (id >= 0 || !b->fuse_unk))
            count = put_symbol(b, count, b->unk);
        waits = id < 0;
        if (id >= 0)
            count = put_symbol(b, count, id);
    }
    return waits ? put_symbol(b, count, b->unk) : count;
}

static void merge_piece(Bpe *b, const char *piece, size_t n, Ids *to)
{
    if (b->cap < n) {
        b->cap = n + n / 4 + 256;
        free(b->symbol);
        b->symbol = malloc(b->cap * sizeof *b->symbol);
        if (!b->symbol)
            abort();
    }
    const uint32_t count = take_symbols(b, piece, n);
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

/* Encodes a part whose ends no merge crosses. */
static void encode_part(Bpe *b, const char *part, size_t n, Ids *to)
{
    if (n > CACHE_KEY) {
        merge_piece(b, part, n, to);
        return;
    }
    Cached *c = cache_slot(b->cache, part, n);
    if (cache_holds(c, part, n)) {
        ids_put(to, c->id, c->nids);
        return;
    }
    const size_t from = to->n;
    merge_piece(b, part, n, to);
    cache_put(c, part, n, to, from);
}

/* Returns the end of the part that begins at `at`. */
static size_t part_end(const Bpe *b, const char *piece, size_t n, size_t at)
{
    for (const char *p = piece + at + 1; b->seam; p++) {
        p = memmem(p, (size_t)(piece + n - p), space, NSPACE);
        if (!p)
            break;
        const size_t end = (size_t)(p - piece), before = utf8_before(piece, end);
        const uint32_t c = utf8_value(piece + before, (int)(end - before));
        if (b->seam[c / 8] >> c % 8 & 1)
            return end;
    }
    return n;
}

char *bpe_encode(Bpe *b, const char *piece, size_t n, Ids *to)
{
    if (n > PIECE_MAX)
        return format("a piece of %zu bytes without a split, at most %zu", n, PIECE_MAX);
    if (b->ignore_merges) {
        int32_t id = tokens_id(&b->tokens, piece, n, b->bytes);
        if (id >= 0) {
            ids_put(to, &id, 1);
            return NULL;
        }
    }
    for (size_t at = 0, end; at < n; at = end) {
        end = part_end(b, piece, n, at);
        encode_part(b, piece + at, end - at, to);
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
    twin->cache = cache_new();
    twin->symbol = NULL;
    twin->heap = NULL;
    twin->nheap = twin->cap = twin->heap_cap = 0;
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
        free(b->seam);
    }
    free(b);
}
