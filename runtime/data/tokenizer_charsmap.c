/* tokenizer_charsmap.c -- Precompiled: the character map of sentencepiece models.
 *
 * In:     precompiled_charsmap of a tokenizer.json, untrusted: the size of a trie in bytes, the
 *         trie (a double array of 32-bit units), NUL-terminated texts.
 * Method: as upstream: a grapheme cluster of less than 6 bytes, else each of its characters, is
 *         replaced by the text of its shortest prefix in the trie. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

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
        error = format("normalizer: Precompiled: precompiled_charsmap: want base64 of a trie and "
                       "its texts");
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
static const char *find(const Charsmap *map, const char *key, size_t n)
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
        const char *made = end - at < CLUSTER_MAX ? find(map, text + at, end - at) : NULL;
        if (made)
            out_put(&out, made, strlen(made));
        for (size_t len; !made && at < end; at += len) {
            len = (size_t)utf8_length_at(text, n, at);
            const char *one = find(map, text + at, len);
            out_put(&out, one ? one : text + at, one ? strlen(one) : len);
        }
    }
    *nout = out.n;
    return out.text;
}
