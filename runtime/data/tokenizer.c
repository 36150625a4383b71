/* tokenizer.c -- the pipeline around the model: added tokens, normaliser, split, model, specials.
 *
 * In:     tokenizer.json as GPT-2, Llama-3 and Qwen2 have it; other layouts are refused by name.
 * Out:    the ids of Hugging Face tokenizers.  Keeps: patterns come from a table, not the file.
 * Method: added tokens are cut out of the raw text, each gap is normalised on its own, then tokens
 *         that match normalised text are cut out, then PCRE2 splits and bpe.c merges. */
#define _GNU_SOURCE
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/data/tokenizer.h"

#include "runtime/base.h"
#include "runtime/data/bpe.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utf8proc.h>

enum { BYTES_EOS = 256, FILE_MAX = 256 << 20, MATCH_LIMIT = 1 << 30, HEAP_LIMIT_KIB = 1 << 18 };

/* Split patterns as the files spell them, and as PCRE2 with UCP must be told so that \s is
 * White_Space (its own \s also takes U+180E). */
#define SPACE "\\p{White_Space}"
#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define MARKS "| ?[^" "\\s" "\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define MARKS_PCRE "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" SPACE "*[\\r\\n]+|" SPACE \
                   "+(?!\\P{White_Space})|" SPACE "+"
static const struct {
    const char *name, *file, *pcre;
} patterns[] = {
    {"GPT-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" SPACE
     "+(?!\\P{White_Space})|" SPACE "+"},
    {"Llama-3", WORDS "\\p{N}{1,3}" MARKS, WORDS "\\p{N}{1,3}" MARKS_PCRE},
    {"Qwen2", WORDS "\\p{N}" MARKS, WORDS "\\p{N}" MARKS_PCRE},
};
/* \w of the Rust regex crate, which judges the neighbours of single_word tokens. */
static const char word_class[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]";

typedef struct {
    char *content;
    /* what is looked for and decoded: content, normalised if normalized */
    char *match;
    size_t nmatch;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} Added;

/* Added tokens that are looked for in one pass, by match ascending: longer ones follow their
 * prefixes. */
typedef struct {
    const Added **token;
    int n;
    bool first[256];             /* some token begins with this byte */
} Finder;

struct Tokenizer {
    bool bytes;                  /* the byte vocabulary: nothing below is set but ids */
    Bpe *bpe;
    Added *added;
    int nadded;
    Finder raw, normal;          /* normalized:false, normalized:true */
    bool nfc, add_prefix_space;
    bool cuts, lstrip_first[256];     /* see tokenizer_cut */
    pcre2_code *split, *word;    /* split NULL: pieces are not split */
    pcre2_match_data *match;
    pcre2_match_context *limits;
    Ids prefix, suffix;
    int size, eos, bos;
    Ids ends;                    /* of config.json, when nothing else says */
    char *eos_text;
    char id[64];
    bool twin;                   /* all but bpe and match belongs to another */
};

/* ---- characters ------------------------------------------------------------------------------ */

static bool is_word(const Tokenizer *t, const char *text, int len)
{
    return pcre2_match(t->word, (PCRE2_SPTR)text, (size_t)len, 0,
                       PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, t->match, NULL) > 0;
}

/* NFC of text, malloc'ed. An ASCII character never joins what stands before it, so the text may
 * be cut there: only what is not ASCII, with the one character before it, goes through the
 * library. */
static char *normalise(const char *text, size_t n, size_t *nout)
{
    size_t cap = n + 64, from = 0;
    char *out = malloc(cap);
    *nout = 0;
    while (from < n) {
        size_t end = from;
        utf8proc_uint8_t *made = NULL;
        while (end < n && (unsigned char)text[end] < 0x80)
            end++;
        size_t plain = end == n ? end : end - (end > from);
        size_t stop = end;
        while (stop < n && (unsigned char)text[stop] >= 0x80)
            stop++;
        utf8proc_ssize_t len = 0;
        if (stop > plain)
            len = utf8proc_map((const utf8proc_uint8_t *)text + plain,
                               (utf8proc_ssize_t)(stop - plain), &made,
                               UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (len < 0)
            abort();             /* out of memory: the text is well-formed */
        size_t need = *nout + (plain - from) + (size_t)len + (n - stop);
        if (need > cap)
            out = realloc(out, cap = 2 * need);
        memcpy(out + *nout, text + from, plain - from);
        *nout += plain - from;
        if (len)
            memcpy(out + *nout, made, (size_t)len);
        *nout += (size_t)len;
        free(made);
        from = stop;
    }
    return out;
}

static bool is_ascii(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* The pieces between two added tokens. */
static char *encode_pieces(const Tokenizer *t, const char *text, size_t n, Ids *to)
{
    char *spaced = NULL, *error = NULL;
    if (t->add_prefix_space && *text != ' ') {
        spaced = malloc(n + 1);
        *spaced = ' ';
        memcpy(spaced + 1, text, n);
        text = spaced;
        n++;
    }
    for (size_t at = 0; at < n && !error;) {
        size_t from = at, end = n;
        if (t->split) {
            int rc = pcre2_match(t->split, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, t->match,
                                 t->limits);
            if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
                rc = pcre2_match(t->split, (PCRE2_SPTR)text, n, at,
                                 PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, t->match, t->limits);
            if (rc > 0) {
                from = pcre2_get_ovector_pointer(t->match)[0];
                end = pcre2_get_ovector_pointer(t->match)[1];
            } else if (rc != PCRE2_ERROR_NOMATCH) {
                error = format("split pattern: PCRE2 error %d at byte %zu", rc, at);
            }
        }
        if (!error && from > at)
            error = bpe_encode(t->bpe, text + at, from - at, to);
        if (!error && end > from)
            error = bpe_encode(t->bpe, text + from, end - from, to);
        at = end;
    }
    free(spaced);
    return error;
}

/* The longest token of f at the start of text, or NULL. */
static const Added *finder_match(const Finder *f, const char *text, size_t n)
{
    const Added *best = NULL;
    int lo = 0, hi = f->n;       /* tokens that agree with text in the first k bytes */
    for (size_t k = 0; lo < hi; k++) {
        if (f->token[lo]->nmatch == k)
            best = f->token[lo++];
        if (k == n)
            break;
        unsigned char c = (unsigned char)text[k];
        int a = lo, b = hi;
        while (a < b) {          /* first token whose byte k is at least c */
            int mid = a + (b - a) / 2;
            if ((unsigned char)f->token[mid]->match[k] < c)
                a = mid + 1;
            else
                b = mid;
        }
        lo = a;
        b = hi;
        while (a < b) {
            int mid = a + (b - a) / 2;
            if ((unsigned char)f->token[mid]->match[k] <= c)
                a = mid + 1;
            else
                b = mid;
        }
        hi = a;
    }
    return best;
}

static bool stands_alone(const Tokenizer *t, const char *text, size_t n, size_t from, size_t to)
{
    if (from) {
        size_t before = utf8_before(text, from);
        if (is_word(t, text + before, (int)(from - before)))
            return false;
    }
    return to == n || !is_word(t, text + to, utf8_length_at(text, n, to));
}

/* Cuts the tokens of f out of text, leftmost first, longest first; gap encodes what lies
 * between. */
static char *encode_found(const Tokenizer *t, const Finder *f, const char *text, size_t n,
                          char *(*gap)(const Tokenizer *, const char *, size_t, Ids *), Ids *to)
{
    size_t done = 0;             /* everything before it is encoded */
    char *error = NULL;
    for (size_t at = 0; at < n && f->n && !error;) {
        const Added *a = f->first[(unsigned char)text[at]]
                         ? finder_match(f, text + at, n - at) : NULL;
        if (!a) {
            at++;
            continue;
        }
        size_t from = at, end = at + a->nmatch;
        at = end;
        if (a->single_word && !stands_alone(t, text, n, from, end))
            continue;
        while (a->lstrip && from > done) {
            size_t before = utf8_before(text, from);
            if (!utf8_is_space(utf8_value(text + before, (int)(from - before))))
                break;
            from = before;
        }
        while (a->rstrip && end < n) {
            int len = utf8_length_at(text, n, end);
            if (!utf8_is_space(utf8_value(text + end, len)))
                break;
            end += (size_t)len;
        }
        if (from > done)
            error = gap(t, text + done, from - done, to);
        ids_put(to, &a->id, 1);
        done = end;
    }
    if (!error && n > done)
        error = gap(t, text + done, n - done, to);
    return error;
}

static char *encode_normal(const Tokenizer *t, const char *text, size_t n, Ids *to)
{
    if (!t->nfc || is_ascii(text, n))
        return encode_found(t, &t->normal, text, n, encode_pieces, to);
    size_t len;
    char *made = normalise(text, n, &len);
    char *error = encode_found(t, &t->normal, made, len, encode_pieces, to);
    free(made);
    return error;
}

char *tokenizer_encode(const Tokenizer *t, const char *text, size_t n, bool specials,
                       int32_t **ids, size_t *nids)
{
    Ids to = {malloc((t->bytes ? n : n / 3) * sizeof(int32_t) + 64), 0, 0};
    char *error = NULL;
    if (!to.id)
        return format("out of memory for the ids of %zu bytes", n);
    to.cap = (t->bytes ? n : n / 3) + 16;
    if (t->bytes) {
        for (size_t i = 0; i < n; i++)
            to.id[i] = (unsigned char)text[i];
        to.n = n;
    } else {
        size_t good = utf8_check(text, n);
        if (good < n)
            error = format("byte %zu: not UTF-8", good);
        if (!error && specials)
            ids_put(&to, t->prefix.id, t->prefix.n);
        if (!error)
            error = encode_found(t, &t->raw, text, n, encode_normal, &to);
        if (!error && specials)
            ids_put(&to, t->suffix.id, t->suffix.n);
    }
    *ids = to.id;
    *nids = to.n;
    if (error) {
        free(to.id);
        *ids = NULL;
    }
    return error;
}

size_t tokenizer_cut(const Tokenizer *t, const char *text, size_t n)
{
    if (t->bytes)
        return n;
    /* no space, line feed | no space: all patterns end a piece here, whatever is around, and NFC
     * joins nothing with a line feed; only an lstrip token could reach back over it */
    for (size_t end = n; t->cuts && end;) {
        const char *lf = memrchr(text, '\n', end);
        size_t at = lf ? (size_t)(lf - text) : 0, before;
        if (!at)
            return 0;
        end = at;
        int bad, len = at + 1 < n ? utf8_length(text + at + 1, n - at - 1, &bad) : 0;
        unsigned char next = len ? (unsigned char)text[at + 1] : 0;
        if (!len || t->lstrip_first[next] || utf8_is_space(utf8_value(text + at + 1, len)))
            continue;
        before = utf8_before(text, at);
        if (utf8_length(text + before, at - before, &bad) == (int)(at - before) &&
            !utf8_is_space(utf8_value(text + before, (int)(at - before))))
            return at + 1;
    }
    return 0;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static const Added *added_of(const Tokenizer *t, int32_t id)
{
    for (int lo = 0, hi = t->nadded; lo < hi;) {
        int mid = lo + (hi - lo) / 2;
        if (t->added[mid].id == id)
            return &t->added[mid];
        if (t->added[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

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

char *tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_specials,
                       size_t *nbytes)
{
    static const char end[] = "<|endoftext|>";
    size_t cap = 8 * n + 64, len = 0;
    char *out = malloc(cap);
    for (size_t i = 0; i < n; i++) {
        const char *bytes = NULL;
        size_t k = 0;
        const Added *a = t->bytes ? NULL : added_of(t, ids[i]);
        char *unmapped = NULL, byte = (char)ids[i];
        if (t->bytes) {
            bytes = ids[i] == BYTES_EOS ? end : &byte;
            k = ids[i] == BYTES_EOS ? (skip_specials ? 0 : sizeof end - 1)
                                    : ids[i] >= 0 && ids[i] < 256;
        } else if (a && !(a->special && skip_specials)) {
            unmapped = malloc(a->nmatch + 1); /* upstream's decoder maps added tokens, too */
            bool mapped = bpe_unmap(a->match, a->nmatch, unmapped, &k);
            bytes = mapped ? unmapped : a->match;
            k = mapped ? k : a->nmatch;
        } else if (!a) {
            bytes = bpe_bytes(t->bpe, ids[i], &k);
        }
        if (cap - len <= k)
            out = realloc(out, cap = 2 * cap + k);
        if (k)
            memcpy(out + len, bytes, k);
        len += k;
        free(unmapped);
    }
    out[len] = 0;
    *nbytes = len;
    return t->bytes ? out : make_valid(out, len, nbytes);
}

/* ---- loading --------------------------------------------------------------------------------- */

static const char *text_of(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : cJSON_IsNull(item) ? "null" : "?";
}

static int added_order(const void *pa, const void *pb)
{
    const Added *a = pa, *b = pb;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int match_order(const void *pa, const void *pb)
{
    const Added *a = *(const Added *const *)pa, *b = *(const Added *const *)pb;
    int c = memcmp(a->match, b->match, a->nmatch < b->nmatch ? a->nmatch : b->nmatch);
    return c ? c : a->nmatch < b->nmatch ? -1 : a->nmatch > b->nmatch;
}

static char *load_added(Tokenizer *t, const cJSON *list)
{
    if (list && !cJSON_IsArray(list))
        return format("added_tokens: want a list");
    int n = list ? cJSON_GetArraySize(list) : 0;
    t->added = calloc((size_t)n + 1, sizeof *t->added);
    for (const cJSON *i = list ? list->child : NULL; i; i = i->next) {
        Added *a = &t->added[t->nadded];
        const cJSON *content = json_get(i, "content");
        a->id = bpe_json_id(json_get(i, "id"));
        if (!cJSON_IsString(content) || !*content->valuestring || a->id < 0)
            return format("added_tokens[%d]: want an id from 0 to 2^31-2 and a content, not empty",
                          t->nadded);
        a->content = strdup(content->valuestring);
        a->single_word = cJSON_IsTrue(json_get(i, "single_word"));
        a->lstrip = cJSON_IsTrue(json_get(i, "lstrip"));
        a->rstrip = cJSON_IsTrue(json_get(i, "rstrip"));
        a->normalized = cJSON_IsTrue(json_get(i, "normalized"));
        a->special = cJSON_IsTrue(json_get(i, "special"));
        a->nmatch = strlen(a->content);
        a->match = a->normalized && t->nfc ? normalise(a->content, a->nmatch, &a->nmatch)
                                           : strdup(a->content);
        t->nadded++;
        int known = bpe_id(t->bpe, a->content);
        size_t len;
        if (known >= 0 ? known != a->id : bpe_bytes(t->bpe, a->id, &len) != NULL)
            return format("added_tokens: %.60s: id %d, the vocabulary %s", a->content, a->id,
                          known >= 0 ? "has it under another" : "gives that id to another token");
        if (a->id >= t->size)
            t->size = a->id + 1;
    }
    qsort(t->added, (size_t)t->nadded, sizeof *t->added, added_order);
    for (int i = 1; i < t->nadded; i++)
        if (t->added[i].id == t->added[i - 1].id)
            return format("added_tokens: id %d given twice", t->added[i].id);
    return NULL;
}

static char *make_finder(Finder *f, const Tokenizer *t, bool normalized)
{
    f->token = malloc(((size_t)t->nadded + 1) * sizeof *f->token);
    for (int i = 0; i < t->nadded; i++)
        if (t->added[i].normalized == normalized) {
            f->token[f->n++] = &t->added[i];
            f->first[(unsigned char)t->added[i].match[0]] = true;
        }
    qsort(f->token, (size_t)f->n, sizeof *f->token, match_order);
    for (int i = 1; i < f->n; i++)
        if (!match_order(&f->token[i - 1], &f->token[i]))
            return format("added_tokens: %.60s given twice", f->token[i]->content);
    return NULL;
}

static char *load_normalizer(Tokenizer *t, const cJSON *n)
{
    if (!n || cJSON_IsNull(n))
        return NULL;
    const char *type = text_of(json_get(n, "type"));
    if (!strcmp(type, "NFC")) {
        t->nfc = true;
        return NULL;
    }
    const cJSON *list = json_get(n, "normalizers");
    if (!strcmp(type, "Sequence") && cJSON_IsArray(list)) {
        for (const cJSON *i = list->child; i; i = i->next)
            if (strcmp(text_of(json_get(i, "type")), "NFC"))
                return format("normalizer: Sequence: want NFC, got %.40s",
                              text_of(json_get(i, "type")));
        t->nfc = list->child != NULL;
        return NULL;
    }
    return format("normalizer: want null or NFC, got %.40s", type);
}

/* Compiles the built-in pattern that the file spells `regex`. */
static char *load_pattern(Tokenizer *t, const char *regex)
{
    int error;
    PCRE2_SIZE at;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (strcmp(patterns[i].file, regex))
            continue;
        t->split = pcre2_compile((PCRE2_SPTR)patterns[i].pcre, PCRE2_ZERO_TERMINATED,
                                 PCRE2_UTF | PCRE2_UCP, &error, &at, NULL);
        if (!t->split)
            return format("PCRE2 10.40 or later is needed: %s pattern: error %d at %zu",
                          patterns[i].name, error, at);
        pcre2_jit_compile(t->split, PCRE2_JIT_COMPLETE);   /* without JIT it is only slower */
        return NULL;
    }
    return format("pre_tokenizer: unknown split pattern %.120s", regex);
}

static char *load_byte_level(Tokenizer *t, const cJSON *p, bool alone)
{
    const cJSON *regex = json_get(p, "use_regex");
    bool splits = !regex || cJSON_IsTrue(regex);
    bool space = cJSON_IsTrue(json_get(p, "add_prefix_space"));
    if (!alone && (splits || space))
        return format("pre_tokenizer: ByteLevel in a Sequence: want use_regex and "
                      "add_prefix_space false");
    t->add_prefix_space = space;
    return splits ? load_pattern(t, patterns[0].file) : NULL;
}

static char *load_pre_tokenizer(Tokenizer *t, const cJSON *p)
{
    const char *type = text_of(json_get(p, "type"));
    const cJSON *list = json_get(p, "pretokenizers");
    if (!strcmp(type, "ByteLevel"))
        return load_byte_level(t, p, true);
    if (strcmp(type, "Sequence") || cJSON_GetArraySize(list) != 2)
        return format("pre_tokenizer: want ByteLevel or Sequence of Split and ByteLevel, got %.40s",
                      type);
    const cJSON *split = list->child, *level = split->next;
    const cJSON *regex = json_get(json_get(split, "pattern"), "Regex");
    if (strcmp(text_of(json_get(split, "type")), "Split") ||
        strcmp(text_of(json_get(level, "type")), "ByteLevel"))
        return format("pre_tokenizer: Sequence: want Split and ByteLevel, got %.40s and %.40s",
                      text_of(json_get(split, "type")), text_of(json_get(level, "type")));
    if (strcmp(text_of(json_get(split, "behavior")), "Isolated") ||
        cJSON_IsTrue(json_get(split, "invert")) ||
        !cJSON_IsString(regex))
        return format("pre_tokenizer: Split: want a Regex, behavior Isolated, invert false");
    char *error = load_byte_level(t, level, false);
    return error ? error : load_pattern(t, regex->valuestring);
}

/* The ids of one special token of a template, appended. */
static char *template_ids(const cJSON *p, const cJSON *special, Ids *to)
{
    const char *name = text_of(json_get(special, "id"));
    const cJSON *ids = json_get(json_get(json_get(p, "special_tokens"), name), "ids");
    for (const cJSON *i = cJSON_IsArray(ids) ? ids->child : NULL; i; i = i->next) {
        int32_t id = bpe_json_id(i);
        if (id < 0)
            return format("post_processor: special token %.60s: want ids from 0 to 2^31-2", name);
        ids_put(to, &id, 1);
    }
    return cJSON_IsArray(ids) ? NULL
        : format("post_processor: special token %.60s has no ids", name);
}

static char *load_template(Tokenizer *t, const cJSON *p)
{
    const cJSON *single = json_get(p, "single");
    Ids before = {0}, after = {0};
    int texts = 0;
    char *error = NULL;
    for (const cJSON *i = cJSON_IsArray(single) ? single->child : NULL; i && !error; i = i->next) {
        const cJSON *special = json_get(i, "SpecialToken"), *text = json_get(i, "Sequence");
        if (special)
            error = template_ids(p, special, texts ? &after : &before);
        else if (!text || strcmp(text_of(json_get(text, "id")), "A"))
            error = format("post_processor: single: want SpecialToken or Sequence A");
        else
            texts++;
    }
    if (!error && texts != 1)
        error = format("post_processor: single: want Sequence A once");
    if (!error) {                /* around what an earlier processor put there */
        ids_put(&before, t->prefix.id, t->prefix.n);
        ids_put(&t->suffix, after.id, after.n);
        free(t->prefix.id);
        t->prefix = before;
        before = (Ids){0};
    }
    free(before.id);
    free(after.id);
    return error;
}

static char *load_post_processor(Tokenizer *t, const cJSON *p)
{
    const char *type = text_of(json_get(p, "type"));
    if (!p || cJSON_IsNull(p) || !strcmp(type, "ByteLevel"))     /* the latter moves offsets only */
        return NULL;
    if (!strcmp(type, "TemplateProcessing"))
        return load_template(t, p);
    const cJSON *list = json_get(p, "processors");
    if (strcmp(type, "Sequence") || !cJSON_IsArray(list))
        return format("post_processor: want ByteLevel, TemplateProcessing or Sequence, got %.40s",
                      type);
    for (const cJSON *i = list->child; i; i = i->next) {
        const char *inner = text_of(json_get(i, "type"));
        char *error = NULL;
        if (!strcmp(inner, "TemplateProcessing"))
            error = load_template(t, i);
        else if (strcmp(inner, "ByteLevel"))
            error = format("post_processor: Sequence: want ByteLevel or TemplateProcessing, "
                           "got %.40s", inner);
        if (error)
            return error;
    }
    return NULL;
}

/* Whether tokenizer_cut may cut at all, and before which bytes not. */
static void find_cuts(Tokenizer *t)
{
    t->cuts = t->split && !t->add_prefix_space;
    for (int i = 0; i < t->nadded; i++) {
        const Added *a = &t->added[i];
        if (memchr(a->match, '\n', a->nmatch) || memchr(a->content, '\n', strlen(a->content)))
            t->cuts = false;
        if (!a->lstrip)
            continue;
        t->lstrip_first[(unsigned char)a->match[0]] = true;
        /* what normalisation may turn into its first character */
        for (int c = 0x80; c < 0x100; c++)
            t->lstrip_first[c] = true;
        if ((unsigned char)a->match[0] >= 0x80 || utf8_is_space((unsigned char)a->match[0]))
            t->cuts = false;
    }
}

static char *load_model(Tokenizer *t, const cJSON *json)
{
    const cJSON *model = json_get(json, "model"), *decoder = json_get(json, "decoder");
    int error_code;
    PCRE2_SIZE at;
    if (!cJSON_IsObject(model))
        return format("model: want an object");
    char *error = bpe_load(&t->bpe, model);
    if (error)
        return error;
    t->size = bpe_size(t->bpe);
    t->word = pcre2_compile((PCRE2_SPTR)word_class, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                            &error_code, &at, NULL);
    t->match = pcre2_match_data_create(1, NULL);
    t->limits = pcre2_match_context_create(NULL);
    if (!t->word || !t->match || !t->limits)
        return format("PCRE2 10.40 or later is needed: error %d", error_code);
    pcre2_set_match_limit(t->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(t->limits, HEAP_LIMIT_KIB);
    if (decoder && !cJSON_IsNull(decoder) &&
        strcmp(text_of(json_get(decoder, "type")), "ByteLevel"))
        return format("decoder: want ByteLevel, got %.40s", text_of(json_get(decoder, "type")));
    error = load_normalizer(t, json_get(json, "normalizer"));
    if (!error)
        error = load_pre_tokenizer(t, json_get(json, "pre_tokenizer"));
    if (!error)
        error = load_added(t, json_get(json, "added_tokens"));
    if (!error)
        error = load_post_processor(t, json_get(json, "post_processor"));
    if (!error)
        error = make_finder(&t->raw, t, false);
    if (!error)
        error = make_finder(&t->normal, t, true);
    for (size_t i = 0; !error && i < t->prefix.n + t->suffix.n; i++)
        if ((i < t->prefix.n ? t->prefix.id[i] : t->suffix.id[i - t->prefix.n]) >= t->size)
            error = format("post_processor: adds an id beyond the vocabulary");
    if (!error)
        find_cuts(t);
    return error;
}

int tokenizer_added(const Tokenizer *t, const char *content)
{
    for (int i = 0; i < t->nadded; i++)
        if (!strcmp(t->added[i].content, content))
            return t->added[i].id;
    return -1;
}

/* bos_token and eos_token are strings, or objects with the string in `content`. */
static char *load_config(Tokenizer *t, const char *text, size_t n)
{
    char *error;
    cJSON *json = json_parse(text, n, &error);
    if (!json)
        return error;
    static const char *const key[] = {"bos_token", "eos_token"};
    for (int i = 0; i < 2; i++) {
        const cJSON *v = json_get(json, key[i]);
        if (cJSON_IsObject(v))
            v = json_get(v, "content");
        int id = cJSON_IsString(v) ? tokenizer_added(t, v->valuestring) : -1;
        *(i ? &t->eos : &t->bos) = id;
        if (i && id >= 0)
            t->eos_text = strdup(v->valuestring);
    }
    cJSON_Delete(json);
    return NULL;
}

static char *put_end(Tokenizer *t, const cJSON *id)
{
    double value = cJSON_IsNumber(id) ? id->valuedouble : -1;
    if (!(value >= 0 && value < t->size && value == (int32_t)value))
        return format("eos_token_id: want ids below %d, the tokenizer's", t->size);
    ids_put(&t->ends, &(int32_t){(int32_t)value}, 1);
    return NULL;
}

/* eos_token_id of a model: an id, or a list whose first stands between documents. */
static char *load_ends(Tokenizer *t, const char *text, size_t n)
{
    char *error;
    cJSON *json = json_parse(text, n, &error);
    const cJSON *ids = json_get(json, "eos_token_id");
    if (cJSON_IsArray(ids))
        for (const cJSON *id = ids->child; id && !error; id = id->next)
            error = put_end(t, id);
    else if (ids && !cJSON_IsNull(ids))
        error = put_end(t, ids);
    cJSON_Delete(json);
    return error;
}

static char *prefixed(const char *what, char *error)
{
    char *full = error ? format("%s: %s", what, error) : NULL;
    free(error);
    return full;
}

/* Where the tokenizer does not name its end-of-text token: what its model says. folder: "" or with
 * a slash at its end. */
static char *find_eos(Tokenizer *t, const char *folder)
{
    static const char *const name[] = {"config.json", "generation_config.json"};
    char *error = NULL;
    for (int i = 0; i < 2 && !t->ends.n && !error; i++) {
        char *path = format("%s%s", folder, name[i]), *text;
        size_t n;
        if (file_named(path) && (text = file_read(path, FILE_MAX, &n, &error))) {
            error = prefixed(path, load_ends(t, text, n));
            free(text);
        }
        free(path);
    }
    if (t->ends.n)
        t->eos = t->ends.id[0];
    for (int i = 0; i < t->nadded && t->ends.n; i++)
        if (t->added[i].id == t->eos && !t->eos_text)
            t->eos_text = strdup(t->added[i].content);
    return error;
}

static char *id_of(const char *text, size_t n)
{
    return format("crc32c:%08x:%zu", crc32c(0, text, n), n);
}

char *tokenizer_parse(Tokenizer **to, const char *text, size_t n, const char *config,
                      size_t nconfig)
{
    char *error;
    cJSON *json = json_parse(text, n, &error);
    if (!json)
        return error;
    Tokenizer *t = calloc(1, sizeof *t);
    t->eos = t->bos = -1;
    char *id = id_of(text, n);
    snprintf(t->id, sizeof t->id, "%s", id);
    free(id);
    error = load_model(t, json);
    cJSON_Delete(json);
    if (!error && config)
        error = prefixed("tokenizer_config.json", load_config(t, config, nconfig));
    if (error)
        tokenizer_free(t);
    else
        *to = t;
    return error;
}

char *tokenizer_load(Tokenizer **to, const char *path)
{
    if (!strcmp(path, "bytes")) {
        Tokenizer *t = calloc(1, sizeof *t);
        *t = (Tokenizer){.bytes = true, .size = BYTES_EOS + 1, .eos = BYTES_EOS, .bos = -1,
                         .id = "bytes"};
        *to = t;
        return NULL;
    }
    size_t n, nconfig = 0;
    struct stat is;
    if (stat(path, &is) && errno == ENOENT) {
        char *hint = path_hint(path), *missing = format("%s: %s%s", path, strerror(ENOENT), hint);
        free(hint);
        return missing;
    }
    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode))
        return format("%s: a folder; name %s/tokenizer.json", path, path);
    char *error, *text = file_read(path, FILE_MAX, &n, &error), *config = NULL;
    if (!text)
        return error;
    const char *slash = strrchr(path, '/');
    char *beside = format("%.*stokenizer_config.json", slash ? (int)(slash + 1 - path) : 0, path);
    bool there = file_named(beside);
    if (there)
        config = file_read(beside, FILE_MAX, &nconfig, &error);
    if (!there || config)
        error = prefixed(path, tokenizer_parse(to, text, n, config, nconfig));
    if (!error && (*to)->eos < 0) {
        beside[slash ? slash + 1 - path : 0] = 0;
        if ((error = find_eos(*to, beside)))
            tokenizer_free(*to);
    }
    free(text);
    free(config);
    free(beside);
    return error;
}

char *tokenizer_file_id(const char *path, char **id)
{
    size_t n;
    char *error, *text = file_read(path, FILE_MAX, &n, &error);
    if (text)
        *id = id_of(text, n);
    free(text);
    return error;
}

int tokenizer_size(const Tokenizer *t)
{
    return t->size;
}

int tokenizer_eos(const Tokenizer *t)
{
    return t->eos;
}

bool tokenizer_ends(const Tokenizer *t, int32_t id)
{
    bool ends = id == t->eos;
    for (int i = 0; i < (int)t->ends.n; i++)
        ends = ends || id == t->ends.id[i];
    return ends;
}

int tokenizer_bos(const Tokenizer *t)
{
    return t->bos;
}

const char *tokenizer_eos_text(const Tokenizer *t)
{
    return t->eos_text;
}

const char *tokenizer_id(const Tokenizer *t)
{
    return t->id;
}

const int32_t *tokenizer_prefix(const Tokenizer *t, size_t *n)
{
    *n = t->prefix.n;
    return t->prefix.id;
}

const int32_t *tokenizer_suffix(const Tokenizer *t, size_t *n)
{
    *n = t->suffix.n;
    return t->suffix.id;
}

Tokenizer *tokenizer_twin(const Tokenizer *t)
{
    Tokenizer *twin = malloc(sizeof *twin);
    if (!twin)
        abort();
    *twin = *t;
    twin->twin = true;
    if (!t->bytes) {
        twin->bpe = bpe_twin(t->bpe);
        twin->match = pcre2_match_data_create(1, NULL);
        if (!twin->match)
            abort();
    }
    return twin;
}

void tokenizer_free(Tokenizer *t)
{
    if (!t)
        return;
    pcre2_match_data_free(t->match);
    bpe_free(t->bpe);
    if (t->twin) {
        free(t);
        return;
    }
    for (int i = 0; i < t->nadded; i++) {
        free(t->added[i].content);
        free(t->added[i].match);
    }
    free(t->added);
    free(t->raw.token);
    free(t->normal.token);
    free(t->prefix.id);
    free(t->suffix.id);
    free(t->eos_text);
    free(t->ends.id);
    pcre2_code_free(t->split);
    pcre2_code_free(t->word);
    pcre2_match_context_free(t->limits);
    free(t);
}
