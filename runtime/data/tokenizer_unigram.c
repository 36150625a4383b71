/* tokenizer_unigram.c -- Unigram, as Hugging Face tokenizers computes it.
 *
 * Method: Viterbi: the best path to each position, from the left. The tokens that continue a text
 *         are found in a trie whose edges are in a hash table. Sums are added in upstream's order;
 *         of equal ones the first found wins. Short pieces are cached. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_unigram.h"

#include "runtime/base.h"
#include "runtime/data/tokenizer_cache.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_MAX ((size_t)1 << 28)
static const double unknown_penalty = 10;

typedef struct {
    uint32_t node;               /* reached by byte `byte` from node `from`; 0: empty */
    uint32_t from;
    uint8_t byte;
} Edge;

/* The best path to a position. */
typedef struct {
    double score;
    uint32_t from;               /* where its last token begins */
    int32_t id;                  /* -1: no way found yet */
} Way;

struct Unigram {
    Tokens tokens;
    double *score;               /* by id */
    int32_t unknown;
    double unknown_score;
    int32_t fallback[256];       /* of <0x00> to <0xFF>; -1: none, or they are not used */
    Edge *edge;
    uint32_t edge_mask;
    int32_t *node_id;            /* the token that ends in a node, -1: none */
    bool twin;                   /* everything above belongs to another */
    Cached *cache;
    Way *way;
    size_t cap;
};

/* ---- the file -------------------------------------------------------------------------------- */

/* Returns the edge, or the empty slot where it belongs. */
static Edge *edge_of(const Unigram *u, uint32_t from, uint8_t byte)
{
    for (uint64_t i = tokens_mix((uint64_t)from << 8 | byte);; i++) {
        Edge *e = &u->edge[i & u->edge_mask];
        if (!e->node || (e->from == from && e->byte == byte))
            return e;
    }
}

static char *load_trie(Unigram *u)
{
    size_t bytes = 0, size = 64;
    uint32_t nodes = 1;
    for (int i = 0; i < u->tokens.n; i++)
        bytes += u->tokens.token[i].n;
    while (size < 2 * bytes)
        size *= 2;
    if (size > (size_t)1 << 31)
        return format("model.vocab: tokens of %zu bytes together, at most 2^30", bytes);
    u->edge = calloc(size, sizeof *u->edge);
    u->edge_mask = (uint32_t)(size - 1);
    u->node_id = malloc((bytes + 1) * sizeof *u->node_id);
    if (!u->edge || !u->node_id)
        return format("out of memory for a vocabulary of %zu bytes", bytes);
    u->node_id[0] = -1;
    for (int i = 0; i < u->tokens.n; i++) {
        const Token *token = &u->tokens.token[i];
        uint32_t node = 0;
        for (size_t k = 0; k < token->n; k++) {
            Edge *e = edge_of(u, node, (uint8_t)token->key[k]);
            if (!e->node) {
                u->node_id[nodes] = -1;
                *e = (Edge){nodes++, node, (uint8_t)token->key[k]};
            }
            node = e->node;
        }
        u->node_id[node] = token->id;
    }
    return NULL;
}

/* Returns `value` as upstream parses it: its digits, rounded to a double, then multiplied or
 * divided by a power of ten and rounded again. The last bit can decide between paths. */
static double score_read(double value)
{
    char text[40], power[16];
    int n = 0;
    for (int precision = 14; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    char *e = strchr(text, 'e'), digits[20];
    int exponent = e ? atoi(e + 1) : 0;
    for (const char *p = text; e && p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    exponent -= n - 1;
    if (!n || exponent < -308 || exponent > 308)
        return value;
    snprintf(power, sizeof power, "1e%d", abs(exponent));
    const double whole = (double)strtoull(digits, NULL, 10), by = strtod(power, NULL);
    const double read = exponent < 0 ? whole / by : whole * by;
    return value < 0 ? -read : read;
}

/* Loads tokens and scores from the list `vocab`. */
static char *load_vocab(Unigram *u, const cJSON *vocab)
{
    cJSON *ids = cJSON_CreateObject(), *last = NULL;
    char *error = cJSON_IsArray(vocab) && vocab->child ? NULL
                : format("model.vocab: must be a non-empty list of [token, score]");
    int n = error ? 0 : cJSON_GetArraySize(vocab);
    u->score = calloc((size_t)n + 1, sizeof *u->score);
    if (!ids || !u->score)
        abort();
    n = 0;
    for (const cJSON *i = error ? NULL : vocab->child; i && !error; i = i->next, n++) {
        const cJSON *token = cJSON_IsArray(i) ? i->child : NULL,
                    *score = token ? token->next : NULL;
        if (!cJSON_IsString(token) || !cJSON_IsNumber(score) || score->next) {
            error = format("model.vocab[%d]: must be [token, score]", n);
            break;
        }
        u->score[n] = score_read(score->valuedouble);
        cJSON *id = cJSON_CreateNumber(n);
        if (!id || !(id->string = strdup(token->valuestring)))
            abort();
        if (last)
            last->next = id;
        else
            ids->child = id;
        id->prev = last ? last : id;
        last = ids->child->prev = id;
    }
    if (!error)
        error = tokens_load(&u->tokens, ids, NULL);
    cJSON_Delete(ids);
    for (int i = 0; i < u->tokens.n && !error; i++) {
        const Token *e = &u->tokens.token[i];
        if (tokens_id(&u->tokens, e->key, e->n, false) != e->id)
            error = format("model.vocab[%d]: %.60s given twice", e->id, e->key);
    }
    return error;
}

char *unigram_load(Unigram **to, const cJSON *model)
{
    Unigram *u = calloc(1, sizeof *u);
    const cJSON *unknown = json_get(model, "unk_id"), *alpha = json_get(model, "alpha");
    const bool fallback = cJSON_IsTrue(json_get(model, "byte_fallback"));
    char *error = alpha && !cJSON_IsNull(alpha)
                  ? format("model.alpha: ids would differ from one run to the next; set it to null")
                  : load_vocab(u, json_get(model, "vocab")), code[8];
    u->unknown = -1;
    if (!error && unknown && !cJSON_IsNull(unknown)) {
        u->unknown = tokens_json_id(unknown);
        if (u->unknown < 0 || u->unknown >= u->tokens.size)
            error = format("model.unk_id: must be an id below %d, the vocabulary's",
                           u->tokens.size);
    }
    for (int i = 0; i < u->tokens.n && !error; i++)
        if (!i || u->score[i] < u->unknown_score)
            u->unknown_score = u->score[i];
    u->unknown_score -= unknown_penalty;
    for (int c = 0; c < 256 && !error; c++) {
        snprintf(code, sizeof code, "<0x%02X>", (unsigned)c);
        u->fallback[c] = fallback ? tokens_id(&u->tokens, code, 6, false) : -1;
    }
    if (!error)
        error = load_trie(u);
    u->cache = cache_new();
    if (error)
        unigram_free(u);
    else
        *to = u;
    return error;
}

const Tokens *unigram_tokens(const Unigram *u)
{
    return &u->tokens;
}

int unigram_unknown(const Unigram *u)
{
    return u->unknown;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static void consider(Way *way, double score, size_t from, int32_t id)
{
    if (way->id < 0 || score > way->score)
        *way = (Way){score, (uint32_t)from, id};
}

/* Computes the paths to all positions of the piece; false: a character is unknown and has no
 * replacement. */
static bool find_ways(Unigram *u, const char *piece, size_t n)
{
    Way *way = u->way;
    for (size_t i = 1; i <= n; i++)
        way[i].id = -1;
    way[0] = (Way){0, 0, 0};
    for (size_t at = 0, len; at < n; at += len) {
        bool alone = false;      /* the character is a token */
        len = (size_t)utf8_length_at(piece, n, at);
        uint32_t node = 0;
        for (size_t end = at; end < n; end++) {
            const Edge *e = edge_of(u, node, (uint8_t)piece[end]);
            node = e->node;
            if (!node)
                break;
            const int32_t id = u->node_id[node];
            if (id < 0)
                continue;
            consider(&way[end + 1], u->score[id] + way[at].score, at, id);
            alone = alone || end + 1 == at + len;
        }
        if (!alone && u->unknown < 0)
            return false;
        if (!alone)
            consider(&way[at + len], u->unknown_score + way[at].score, at, u->unknown);
    }
    return true;
}

/* Appends the ids of a run of unknown characters, which may itself be a token. */
static void put_unknown(const Unigram *u, const char *text, size_t n, Ids *to)
{
    int32_t id = tokens_id(&u->tokens, text, n, false);
    bool all = id < 0;
    for (size_t i = 0; i < n && all; i++)
        all = u->fallback[(unsigned char)text[i]] >= 0;
    for (size_t i = 0; i < n && all; i++)
        ids_put(to, &u->fallback[(unsigned char)text[i]], 1);
    if (!all)
        ids_put(to, id < 0 ? &u->unknown : &id, 1);
}

static bool encode(Unigram *u, const char *piece, size_t n, Ids *to)
{
    if (u->cap < n + 1) {
        u->cap = n + n / 4 + 256;
        free(u->way);
        u->way = malloc(u->cap * sizeof *u->way);
        if (!u->way)
            abort();
    }
    if (!find_ways(u, piece, n))
        return false;
    /* reverses the path: each token begins where the one before it ends */
    Way *way = u->way;
    for (size_t end = n, next = n; end; end = next) {
        next = way[end].from;
        way[next].score = (double)end;
    }
    for (size_t at = 0, end; at < n; at = end) {
        end = (size_t)way[at].score;
        if (way[end].id != u->unknown) {
            ids_put(to, &way[end].id, 1);
            continue;
        }
        while (end < n && way[(size_t)way[end].score].id == u->unknown)
            end = (size_t)way[end].score;
        put_unknown(u, piece + at, end - at, to);
    }
    return true;
}

char *unigram_encode(Unigram *u, const char *piece, size_t n, Ids *to)
{
    if (n > PIECE_MAX)
        return format("a piece of %zu bytes without a split, at most %zu", n, PIECE_MAX);
    Cached *c = n && n <= CACHE_KEY ? cache_slot(u->cache, piece, n) : NULL;
    if (c && cache_holds(c, piece, n)) {
        ids_put(to, c->id, c->nids);
        return NULL;
    }
    const size_t from = to->n;
    if (!encode(u, piece, n, to))
        return format("\"%.*s\" has characters that are not in the vocabulary, which has no "
                      "unknown token", n < 60 ? (int)n : 60, piece);
    if (c)
        cache_put(c, piece, n, to, from);
    return NULL;
}

Unigram *unigram_twin(const Unigram *u)
{
    Unigram *twin = malloc(sizeof *twin);
    if (!twin)
        abort();
    *twin = *u;
    twin->twin = true;
    twin->cache = cache_new();
    twin->way = NULL;
    twin->cap = 0;
    return twin;
}

void unigram_free(Unigram *u)
{
    if (!u)
        return;
    free(u->cache);
    free(u->way);
    if (!u->twin) {
        tokens_free(&u->tokens);
        free(u->score);
        free(u->edge);
        free(u->node_id);
    }
    free(u);
}
