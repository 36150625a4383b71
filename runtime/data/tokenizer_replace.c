/* tokenizer_replace.c -- Replace steps of normalisers and decoders; Precompiled: the character map
 * of sentencepiece models.
 *
 * In:     `pattern` and `content` of a Replace; a Regex of characters, classes and repeats.
 *         precompiled_charsmap of a tokenizer.json, untrusted: the size of a trie in bytes, the
 *         trie (a double array of 32-bit units), NUL-terminated texts.
 * Keeps:  only patterns that mean the same in Onigmo (upstream) and PCRE2; others are refused, and
 *         so are those that match an empty text.
 * Method: as upstream: a grapheme cluster of less than 6 bytes, else each of its characters, is
 *         replaced by the text of its shortest prefix in the trie. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#define SPACE "\\p{White_Space}"

/* ---- Replace --------------------------------------------------------------------------------- */

/* Appends one character, escape or class at *p in PCRE2 syntax; false: not a simple one. */
static bool put_one(const char **p, bool inside, FILE *to)
{
    const unsigned char c = (unsigned char)*(*p)++;
    if (c == '\\') {
        const char e = *(*p)++;
        if (e == 's' || e == 'd')
            fputs(e == 's' ? SPACE : "\\p{Nd}", to);
        else if (e == 'n' || e == 'r' || e == 't' ||
                 (e > ' ' && e < 0x7f && !isalnum((unsigned char)e)))
            fprintf(to, "\\%c", e);
        else
            return false;
        return true;
    }
    if (c < ' ' || strchr(inside ? "[]^&-" : "[](){}*+?.^$|", c))
        return false;
    if (c < 0x80 && !isalnum(c))
        fputc('\\', to);
    fputc(c, to);
    return true;
}

/* Appends {2}, {2,}, {2,5}, +, *, ? at *p, or nothing; false: another or two of them. */
static bool put_repeat(const char **p, FILE *to)
{
    const char *from = *p;
    if (*from == '{') {
        size_t first = strspn(from + 1, "0123456789"), more = 0;
        const char *at = from + 1 + first;
        if (*at == ',')
            more = 1 + strspn(at + 1, "0123456789");
        if (!first || first > 3 || more > 4 || at[more] != '}')
            return false;
        *p = at + more + 1;
    } else if (*from && strchr("+*?", *from)) {
        (*p)++;
    }
    fwrite(from, 1, (size_t)(*p - from), to);
    return *p == from || !**p || !strchr("{+*?", **p);
}

char *pattern_simple(const char *regex)
{
    char *pcre = NULL;
    size_t n;
    FILE *to = open_memstream(&pcre, &n);
    bool good = to != NULL && *regex;
    for (const char *p = regex; good && *p;) {
        if (*p == '|') {
            fputc(*p++, to);
            continue;
        }
        if (*p != '[') {
            good = put_one(&p, false, to) && ((unsigned char)p[0] & 0xc0) != 0x80;
            while (!good && ((unsigned char)*p & 0xc0) == 0x80) {
                fputc(*p++, to);     /* the rest of a character */
                good = ((unsigned char)*p & 0xc0) != 0x80;
            }
        } else {
            fputc(*p++, to);
            good = *p != ']';
            while (good && *p && *p != ']')
                good = put_one(&p, true, to);
            good = good && *p == ']';
            if (good)
                fputc(*p++, to);
        }
        good = good && put_repeat(&p, to);
    }
    if (to)
        fclose(to);
    if (!good) {
        free(pcre);
        return NULL;
    }
    return pcre;
}

/* ---- the file -------------------------------------------------------------------------------- */

static char *compile(Replace *r, const char *where, const char *regex)
{
    int error;
    PCRE2_SIZE at;
    char *pcre = pattern_simple(regex);
    if (pcre)
        r->pattern = pcre2_compile((PCRE2_SPTR)pcre, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                   &error, &at, NULL);
    free(pcre);
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    const bool empty = r->pattern &&
                       pcre2_match(r->pattern, (PCRE2_SPTR)"", 0, 0, 0, match, NULL) > 0;
    pcre2_match_data_free(match);
    if (!r->pattern || empty)
        return format("%s: Replace: pattern %.80s: must be a String, or a Regex of characters, "
                      "\\s, \\d, [...] and repeats that does not match an empty text", where,
                      regex);
    pcre2_jit_compile(r->pattern, PCRE2_JIT_COMPLETE);
    return NULL;
}

char *replace_load(Replace *r, const char *where, const cJSON *from)
{
    const cJSON *pattern = json_get(from, "pattern");
    const char *regex = cJSON_GetStringValue(json_get(pattern, "Regex"));
    const char *text = cJSON_GetStringValue(json_get(pattern, "String"));
    const char *put = cJSON_GetStringValue(json_get(from, "content"));
    *r = (Replace){0};
    if (!put || (!regex && (!text || !*text)))
        return format("%s: Replace: needs a content, and a pattern that is a Regex or a String, "
                      "not empty", where);
    r->put = strdup(put);
    r->nput = strlen(put);
    if (regex)
        return compile(r, where, regex);
    r->find = strdup(text);
    r->nfind = strlen(text);
    return NULL;
}

void replace_free(Replace *r)
{
    free(r->find);
    free(r->put);
    pcre2_code_free(r->pattern);
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Finds the first match at or after `at`. */
static bool find(const Replace *r, const Tokenizer *t, const char *text, size_t n, size_t at,
                 size_t *from, size_t *end)
{
    if (!r->pattern) {
        const char *there = at < n ? memmem(text + at, n - at, r->find, r->nfind) : NULL;
        *from = there ? (size_t)(there - text) : n;
        *end = *from + r->nfind;
        return there != NULL;
    }
    int rc = pcre2_match(r->pattern, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, t->match,
                         t->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(r->pattern, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         t->match, t->limits);
    if (rc <= 0 && rc != PCRE2_ERROR_NOMATCH)
        abort();                 /* out of memory: the patterns are simple */
    if (rc <= 0)
        return false;
    *from = pcre2_get_ovector_pointer(t->match)[0];
    *end = pcre2_get_ovector_pointer(t->match)[1];
    return true;
}

char *replace_text(const Replace *r, const Tokenizer *t, const char *text, size_t n, size_t *nout,
                   size_t *begins)
{
    size_t cap = n + 64, done = 0, from, end;
    char *out = malloc(cap);
    *nout = *begins = 0;
    while (out && find(r, t, text, n, done, &from, &end)) {
        const size_t need = *nout + (from - done) + r->nput + (n - end) + 1;
        if (need > cap)
            out = realloc(out, cap = 2 * need);
        if (!out)
            break;
        if (!from)
            *begins = end;
        memcpy(out + *nout, text + done, from - done);
        memcpy(out + *nout + (from - done), r->put, r->nput);
        *nout += from - done + r->nput;
        done = end;
    }
    if (!out)
        abort();
    memcpy(out + *nout, text + done, n - done);
    *nout += n - done;
    return out;
}

void out_put(Out *to, const char *text, size_t n)
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

/* ---- Metaspace ------------------------------------------------------------------------------- */

bool is_character(const char *text)
{
    return text && *text && utf8_length_at(text, strlen(text), 0) == (int)strlen(text);
}

char *metaspace_mark(const cJSON *p, const char *where, char **mark)
{
    const char *given = cJSON_GetStringValue(json_get(p, "replacement"));
    if (!is_character(given))
        return format("%s: Metaspace: the replacement must be one character", where);
    *mark = strdup(given);
    return NULL;
}

/* ---- Precompiled ----------------------------------------------------------------------------- */

enum { CLUSTER_MAX = 6 };

struct Charsmap {
    uint32_t *unit;
    size_t nunits, ntexts;
    char *texts;                 /* NUL-terminated */
};

/* ---- the file -------------------------------------------------------------------------------- */

/* out has room for 3/4 of n; false: not base64. */
static bool unpack(const char *text, size_t n, unsigned char *out, size_t *nout)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    *nout = 0;
    if (n % 4)
        return false;
    while (n && text[n - 1] == '=' && n % 4 != 2)
        n--;
    for (size_t i = 0; i < n; i++) {
        const char *at = strchr(digits, text[i]);
        if (!at)
            return false;
        bits = bits << 6 | (uint32_t)(at - digits);
        if (i % 4)
            out[(*nout)++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    return n > 0;
}

static uint32_t read_unit(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

char *charsmap_load(Charsmap **to, const char *base64)
{
    const size_t given = strlen(base64);
    unsigned char *bytes = malloc(given + 1);
    size_t n;
    Charsmap *map = calloc(1, sizeof *map);
    if (!bytes || !map)
        abort();
    char *error = NULL;
    const size_t trie = unpack(base64, given, bytes, &n) && n >= 8 ? read_unit(bytes) : 0;
    if (!trie || trie % 4 || trie > n - 4) {
        error = format("normalizer: Precompiled: precompiled_charsmap: must be base64 of a trie "
                       "and its texts");
    } else {
        map->nunits = trie / 4;
        map->ntexts = n - 4 - trie;
        map->unit = malloc(trie);
        map->texts = malloc(map->ntexts + 1);
        if (!map->unit || !map->texts)
            abort();
        for (size_t i = 0; i < map->nunits; i++)
            map->unit[i] = read_unit(bytes + 4 + 4 * i);
        memcpy(map->texts, bytes + 4 + trie, map->ntexts);
        map->texts[map->ntexts] = 0;
        if (utf8_check(map->texts, map->ntexts) < map->ntexts)
            error = format("normalizer: Precompiled: precompiled_charsmap: its texts are not "
                           "UTF-8");
    }
    free(bytes);
    if (error)
        charsmap_free(map);
    else
        *to = map;
    return error;
}

void charsmap_free(Charsmap *map)
{
    if (!map)
        return;
    free(map->unit);
    free(map->texts);
    free(map);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static uint32_t offset_of(uint32_t unit)
{
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

/* Returns the text of the shortest prefix of key in the trie; NULL: none. */
static const char *mapped(const Charsmap *map, const char *key, size_t n)
{
    uint32_t at = offset_of(map->unit[0]);
    for (size_t i = 0; i < n && key[i]; i++) {
        const unsigned char byte = (unsigned char)key[i];
        at ^= byte;
        if (at >= map->nunits)
            return NULL;
        const uint32_t unit = map->unit[at];
        if ((unit & (1u << 31 | 0xff)) != byte)
            return NULL;
        at ^= offset_of(unit);
        if (unit >> 8 & 1) {
            const uint32_t value = at < map->nunits ? map->unit[at] & ~(1u << 31) : UINT32_MAX;
            return value < map->ntexts && ((unsigned char)map->texts[value] & 0xc0) != 0x80
                   ? map->texts + value : NULL;
        }
    }
    return NULL;
}

/* Returns the end of the grapheme cluster that begins at `at`. */
static size_t cluster_end(const char *text, size_t n, size_t at)
{
    utf8proc_int32_t state = 0;
    int len = utf8_length_at(text, n, at);
    uint32_t before = utf8_value(text + at, len);
    for (at += (size_t)len; at < n; at += (size_t)len) {
        len = utf8_length_at(text, n, at);
        const uint32_t c = utf8_value(text + at, len);
        if (utf8proc_grapheme_break_stateful((int)before, (int)c, &state))
            return at;
        before = c;
    }
    return n;
}

char *charsmap_text(const Charsmap *map, const char *text, size_t n, size_t *nout)
{
    Out out = {0};
    out_put(&out, NULL, 0);
    for (size_t at = 0, end; at < n; at = end) {
        end = cluster_end(text, n, at);
        const char *made = end - at < CLUSTER_MAX ? mapped(map, text + at, end - at) : NULL;
        if (made)
            out_put(&out, made, strlen(made));
        for (size_t len; !made && at < end; at += len) {
            len = (size_t)utf8_length_at(text, n, at);
            const char *one = mapped(map, text + at, len);
            out_put(&out, one ? one : text + at, one ? strlen(one) : len);
        }
    }
    *nout = out.n;
    return out.text;
}
