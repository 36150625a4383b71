/* tokenizer_decode.c -- ids back to text. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Each longest beginning of a character that goes wrong becomes one U+FFFD. */
static char *make_valid(char *text, size_t n, size_t *nout)
{
    if (utf8_check(text, n) == n) {
        *nout = n;
        return text;
    }
    char *out = malloc(3 * n + 1);
    *nout = 0;
    for (size_t i = 0; i < n;) {
        int bad, len = utf8_length(text + i, n - i, &bad);
        memcpy(out + *nout, len ? text + i : "\xef\xbf\xbd", len ? (size_t)len : 3);
        *nout += len ? (size_t)len : 3;
        i += len ? (size_t)len : (size_t)bad;
    }
    out[*nout] = 0;
    free(text);
    return out;
}

/* Appended: text that grows. */
typedef struct {
    char *text;
    size_t n, cap;
} Out;

static void put(Out *to, const char *text, size_t n)
{
    if (to->cap - to->n <= n) {
        to->cap = 2 * to->cap + n + 64;
        to->text = realloc(to->text, to->cap);
        if (!to->text)
            abort();
    }
    if (n)
        memcpy(to->text + to->n, text, n);
    to->n += n;
    to->text[to->n] = 0;
}

/* What cleanup does to a token with the space before it. */
static const struct {
    const char *from, *to;
} cleaner[] = {
    {" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
    {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

/* Replaces all of `from`, which is not shorter than `to`, in s behind `at`. */
static void replace(Out *s, size_t at, const char *from, const char *to)
{
    size_t nfrom = strlen(from), nto = strlen(to);
    for (char *p; (p = memmem(s->text + at, s->n - at, from, nfrom));) {
        size_t i = (size_t)(p - s->text);
        memcpy(p, to, nto);
        memmove(p + nto, p + nfrom, s->n - i - nfrom + 1);
        s->n -= nfrom - nto;
        at = i + nto;
    }
}

/* A word or a part of one behind those that are there. */
static void put_word(const Tokenizer *t, const char *text, size_t n, bool first, Out *to)
{
    size_t off = t->decode == DECODE_WORDPIECE ? strlen(t->prefix_off) : 0, begin = to->n;
    bool joins = t->decode == DECODE_WORDPIECE && n >= off && !memcmp(text, t->prefix_off, off);
    if (!first && !joins && t->decode != DECODE_FUSED)
        put(to, " ", 1);
    put(to, text + (first || !joins ? 0 : off), n - (first || !joins ? 0 : off));
    for (size_t i = 0; t->cleanup && i < sizeof cleaner / sizeof *cleaner; i++)
        replace(to, begin, cleaner[i].from, cleaner[i].to);
}

/* An added token among bytes. */
static void put_mapped(const Added *a, Out *to)
{
    char *bytes = malloc(a->nmatch + 1);     /* upstream's decoder maps added tokens, too */
    size_t k;
    bool mapped = bpe_unmap(a->match, a->nmatch, bytes, &k);
    put(to, mapped ? bytes : a->match, mapped ? k : a->nmatch);
    free(bytes);
}

static void decode_bytes(const int32_t *ids, size_t n, bool skip_specials, Out *to)
{
    static const char end[] = "<|endoftext|>";
    for (size_t i = 0; i < n; i++)
        if (ids[i] == BYTES_EOS)
            put(to, end, skip_specials ? 0 : sizeof end - 1);
        else
            put(to, &(char){(char)ids[i]}, ids[i] >= 0 && ids[i] < 256);
}

char *tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_specials,
                       size_t *nbytes)
{
    Out to = {0};
    bool first = true;
    put(&to, "", 0);
    if (t->bytes)
        decode_bytes(ids, n, skip_specials, &to);
    for (size_t i = 0; i < n && !t->bytes; i++) {
        const Added *a = added_of(t, ids[i]);
        size_t k = 0;
        const char *text = a ? a->match : model_text(t, ids[i], &k);
        if (!text || (a && a->special && skip_specials))
            continue;
        if (t->decode == DECODE_BYTES && a)
            put_mapped(a, &to);
        else if (t->decode == DECODE_BYTES)
            put(&to, text, k);
        else
            put_word(t, text, a ? a->nmatch : k, first, &to);
        first = false;
    }
    *nbytes = to.n;
    return t->bytes ? to.text : make_valid(to.text, to.n, nbytes);
}

char *decode_load(Tokenizer *t, const cJSON *d)
{
    const char *type = json_word(json_get(d, "type"));
    bool none = !d || cJSON_IsNull(d);
    t->decode = t->bpe ? DECODE_BYTES : DECODE_SPACED;
    if (none || (t->bpe && !strcmp(type, "ByteLevel")))
        return NULL;
    if (!t->bpe && !strcmp(type, "Fuse")) {
        t->decode = DECODE_FUSED;
        return NULL;
    }
    if (t->bpe || strcmp(type, "WordPiece"))
        return format("decoder: want %s, got %.40s", t->bpe ? "ByteLevel" : "WordPiece or Fuse", type);
    const cJSON *prefix = json_get(d, "prefix"), *cleanup = json_get(d, "cleanup");
    if (!cJSON_IsString(prefix) || !cJSON_IsBool(cleanup))
        return format("decoder: WordPiece: want a prefix, and cleanup true or false");
    t->decode = DECODE_WORDPIECE;
    t->prefix_off = strdup(prefix->valuestring);
    t->cleanup = cJSON_IsTrue(cleanup);
    return NULL;
}
