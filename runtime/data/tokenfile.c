/* tokenfile.c -- reads and checks token files.
 *
 * In:    a RecordFile.  Out: its columns as arrays, the fields of TokenFile. */
#define _GNU_SOURCE
#include "runtime/data/tokenfile.h"

#include "runtime/base.h"
#include "runtime/files/crc32c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool meta_int(const StFile *s, const char *key, int64_t lo, int64_t *value)
{
    const char *text = st_meta(s, key);
    char *end;
    if (!text || !*text)
        return false;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return !errno && !*end && *value >= lo && *value <= INT32_MAX;
}

/* Reads an id; -1 if the key is absent. */
static bool meta_id(const StFile *s, const char *key, int64_t vocab, int64_t *value)
{
    *value = -1;
    return !st_meta(s, key) || (meta_int(s, key, 0, value) && *value < vocab);
}

static bool meta_text(const StFile *s, const char *key, char *to, size_t cap)
{
    const char *text = st_meta(s, key);
    if (!text || strlen(text) >= cap)
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static char *check_meta(TokenFile *f, const StFile *s)
{
    if (!meta_text(s, "kind", f->kind, sizeof f->kind) || !*f->kind ||
        f->kind[strspn(f->kind, "abcdefghijklmnopqrstuvwxyz")])
        return format("metadata kind: must be packed, rows or another word of at most %zu "
                      "lower-case letters", sizeof f->kind - 1);
    if (!meta_text(s, "tokenizer", f->tokenizer, sizeof f->tokenizer))
        return format("metadata tokenizer: must have at most %zu characters",
                      sizeof f->tokenizer - 1);
    if (!meta_text(s, "sha256", f->sha256, sizeof f->sha256) || !*f->sha256 ||
        f->sha256[strspn(f->sha256, "0123456789abcdef")])
        return format("metadata sha256: must be at most %zu hexadecimal digits",
                      sizeof f->sha256 - 1);
    if (st_meta(s, "fingerprint") &&
        !meta_text(s, "fingerprint", f->fingerprint, sizeof f->fingerprint))
        return format("metadata fingerprint: must have at most %zu characters",
                      sizeof f->fingerprint - 1);
    if (st_meta(s, "special") && (!meta_text(s, "special", f->special, sizeof f->special) ||
                                  f->special[strspn(f->special, "-0123456789,")]))
        return format("metadata special: must be ids with commas, at most %zu characters",
                      sizeof f->special - 1);
    if (!meta_int(s, "vocab", 1, &f->vocab))
        return format("metadata vocab: must be an integer from 1 to 2^31-1");
    if (!meta_int(s, "eos", -1, &f->eos) || f->eos >= f->vocab)
        return format("metadata eos: must be -1 or an id below vocab");
    const char *targets = st_meta(s, "targets");
    f->finds_targets = targets && !strcmp(targets, "own");
    if (targets && !f->finds_targets)
        return format("metadata targets: must be own, or absent");
    if (!meta_id(s, "mask_id", f->vocab, &f->mask_id))
        return format("metadata mask_id: must be an id below vocab, or absent");
    if (!meta_id(s, "pad_id", f->vocab, &f->pad_id))
        return format("metadata pad_id: must be an id below vocab, or absent");
    int64_t documents;
    if (st_meta(s, "documents") &&
        (!meta_int(s, "documents", 1, &documents) || documents != f->records.n))
        return format("metadata documents: is %.20s, but the file has %lld documents",
                      st_meta(s, "documents"), (long long)f->records.n);
    if (st_meta(s, "train") && (!meta_int(s, "train", 1, &f->train) || !strcmp(f->kind, "packed") ||
                                f->train >= f->records.n))
        return format("metadata train: must be an integer below the number of rows, or absent");
    if (strcmp(f->kind, "packed") && !meta_int(s, "max_length", 1, &f->max_length))
        return format("metadata max_length: must be an integer from 1 to 2^31-1");
    return NULL;
}

/* Adds column c, and that of its mask, as the next part. */
static char *take_part(TokenFile *f, const Column *c, const char *mask_name, int *columns)
{
    const Column *mask = recordfile_column(&f->records, mask_name);
    TokenPart *p = &f->part[f->nparts];
    if (f->nparts == TOKENFILE_PARTS)
        return format("column %s: more than %d parts", c->name, TOKENFILE_PARTS);
    if (c->dtype != ST_I32 || !c->offsets || c->n < 1)
        return format("column %s: must be I32, ragged, with at least one token", c->name);
    if (mask && (mask->dtype != ST_U8 || mask->offsets != c->offsets))
        return format("column %s: must be U8 [%lld], as %s", mask_name, (long long)c->n, c->name);
    *p = (TokenPart){.name = c->name, .tokens = (const int32_t *)c->data, .n = c->n,
                     .mask = mask ? (const uint8_t *)mask->data : NULL, .doc = c->offsets,
                     .offsets = c->offsets_name};
    *columns += 1 + !!mask;
    f->nparts++;
    return NULL;
}

/* True if name is a word of a space-separated list. */
static bool is_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *word = list; *word; word += strcspn(word, " "), word += *word == ' ')
        if (strcspn(word, " ") == n && !strncmp(word, name, n))
            return true;
    return false;
}

static char *take_parts(TokenFile *f)
{
    const RecordFile *r = &f->records;
    const char *listed = st_meta(&r->st, "parts");
    bool one = !strcmp(f->kind, "packed") || !strcmp(f->kind, "rows");
    char *error = NULL;
    int columns = 0;
    f->ndocs = r->n;
    if (one) {
        const Column *tokens = recordfile_column(r, "tokens");
        error = tokens ? take_part(f, tokens, "mask", &columns)
                       : format("column tokens: must be I32, ragged, with at least one token");
    }
    for (int i = 0; !one && i < r->ncolumns && !error; i++) {
        const char *name = r->column[i].name, *dot = strrchr(name, '.');
        if (listed ? !is_listed(listed, name) : dot && !strcmp(dot, ".mask"))
            continue;
        char *mask = format("%s.mask", name);
        error = take_part(f, &r->column[i], mask, &columns);
        free(mask);
    }
    if (listed && (one || !f->nparts))
        return error ? error : format("metadata parts: must be names of columns, with a kind other "
                                      "than packed and rows");
    if (!error && columns != r->ncolumns && !listed)
        error = one ? format("must have only the columns tokens and mask, found %d", r->ncolumns)
                    : format("must have only the columns of parts and their masks, found %d more",
                             r->ncolumns - columns);
    return error;
}

static char *check_part(const TokenFile *f, const TokenPart *p)
{
    for (int64_t i = 0; i < f->ndocs; i++) {
        if (p->doc[i + 1] == p->doc[i])
            return format("%s[%lld]: %lld after %lld: a document is empty", p->offsets,
                          (long long)i + 1, (long long)p->doc[i + 1], (long long)p->doc[i]);
        if (f->max_length && p->doc[i + 1] - p->doc[i] > f->max_length)
            return format("row %lld: %lld %s, max_length is %lld", (long long)i,
                          (long long)(p->doc[i + 1] - p->doc[i]),
                          f->nparts == 1 ? "tokens" : p->name, (long long)f->max_length);
    }
    for (int64_t i = 0; p->mask && i < p->n; i++)
        if (p->mask[i] > 1)
            return format("%s%smask[%lld]: %d, must be 0 or 1", f->nparts == 1 ? "" : p->name,
                          f->nparts == 1 ? "" : ".", (long long)i, p->mask[i]);
    return NULL;
}

static char *check_columns(TokenFile *f)
{
    char *error = take_parts(f);
    for (int i = 0; i < f->nparts && !error; i++)
        error = check_part(f, &f->part[i]);
    return error;
}

char *tokenfile_open(TokenFile *f, const char *path)
{
    *f = (TokenFile){0};
    char *error = recordfile_open(&f->records, path);
    if (error)
        return error;
    f->path = f->records.st.path;
    error = check_meta(f, &f->records.st);
    if (!error)
        error = check_columns(f);
    char *full = error ? format("%s: %s", path, error) : NULL;
    free(error);
    if (full)
        tokenfile_close(f);
    return full;
}

/* Returns the CRC-32C of the data, computed by all threads. */
static uint32_t sum_of(const char *data, uint64_t bytes)
{
    enum { PIECE = 16 << 20 };
    const int64_t pieces = (int64_t)((bytes + PIECE - 1) / PIECE);
    uint32_t *sum = calloc((size_t)pieces + 1, sizeof *sum), all = 0;
    if (!sum)
        die(EXIT_INTERNAL, "out of memory for %lld checksums", (long long)pieces);
#pragma omp parallel for
    for (int64_t k = 0; k < pieces; k++) {
        uint64_t left = bytes - (uint64_t)k * PIECE;
        sum[k] = crc32c(0, data + k * PIECE, left < PIECE ? left : PIECE);
    }
    for (int64_t k = 0; k < pieces; k++) {
        uint64_t left = bytes - (uint64_t)k * PIECE;
        all = crc32c_join(all, sum[k], left < PIECE ? left : PIECE);
    }
    free(sum);
    return all;
}

/* Checks a word NAME:SUM of the metadata. */
static char *check_sum(const TokenFile *f, char *word)
{
    char *colon = strrchr(word, ':'), *end = NULL;
    unsigned long says = colon ? strtoul(colon + 1, &end, 16) : 0;
    if (!colon || end != colon + 9 || *end)
        return format("%s: metadata crc32c: must be NAME:0123abcd, got \"%.60s\"", f->path, word);
    *colon = 0;
    const StTensor *t = st_find(&f->records.st, word);
    if (!t)
        return format("%s: metadata crc32c: tensor %.60s: is missing", f->path, word);
    uint32_t is = sum_of((const char *)f->records.map_ + t->begin, t->end - t->begin);
    return is == says ? NULL
         : format("%s: tensor %s: its checksum is %08x, it was packed with %08lx: the file has "
                  "been damaged: pack it again (in a .dataset_cache: remove its folder)", f->path,
                  word, is, says);
}

char *tokenfile_check_sums(const TokenFile *f)
{
    const char *sums = st_meta(&f->records.st, "crc32c");
    char *list = format("%s", sums ? sums : ""), *rest = list, *error = NULL, *word;
    while (sums && !error && (word = strsep(&rest, " ")))
        error = check_sum(f, word);
    free(list);
    return error;
}

/* Returns the position of the first invalid id of a part; p->n: none. */
static int64_t first_bad(const TokenPart *p, int64_t vocab)
{
    enum { PIECE = 1 << 16 };
    int64_t pieces = (p->n + PIECE - 1) / PIECE, bad = p->n;
#pragma omp parallel for reduction(min : bad)
    for (int64_t k = 0; k < pieces; k++) {
        int64_t end = (k + 1) * PIECE < p->n ? (k + 1) * PIECE : p->n;
        for (int64_t i = k * PIECE; i < end; i++)
            if ((uint32_t)p->tokens[i] >= (uint64_t)vocab && i < bad)
                bad = i;
    }
    return bad;
}

char *tokenfile_check_ids(const TokenFile *f, int64_t vocab)
{
    for (int k = 0; k < f->nparts; k++) {
        const TokenPart *p = &f->part[k];
        int64_t bad = first_bad(p, vocab);
        if (bad < p->n)
            return format("%s: %s[%lld]: id %d is outside the vocabulary, 0 to %lld", f->path,
                          p->name, (long long)bad, p->tokens[bad], (long long)vocab - 1);
    }
    return NULL;
}

void tokenfile_check_copy(const TokenFile *f, const TokenPart *p, int64_t vocab, int64_t first,
                          const int32_t *ids, int64_t n)
{
    int bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= (uint32_t)ids[i] >= (uint64_t)vocab;
    for (int64_t i = 0; bad && i < n; i++)
        if ((uint32_t)ids[i] >= (uint64_t)vocab)
            die(EXIT_DATA, "%s: %s[%lld], byte %lld: id %d is outside the vocabulary, 0 to %lld: "
                           "the file was changed while in use", f->path, p->name,
                           (long long)(first + i),
                (long long)((const char *)(p->tokens + first + i) - (const char *)f->records.map_),
                ids[i], (long long)vocab - 1);
}

void tokenfile_close(TokenFile *f)
{
    recordfile_close(&f->records);
    *f = (TokenFile){0};
}
