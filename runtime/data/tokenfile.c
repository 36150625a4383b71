/* tokenfile.c -- what a record file of tokens says of itself.
 *
 * In:    a RecordFile.  Out: its columns as arrays, the fields of TokenFile. */
#include "runtime/data/tokenfile.h"

#include "runtime/base.h"

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

/* An id, -1 where the key is not there. */
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
    if (!meta_text(s, "kind", f->kind, sizeof f->kind) ||
        (strcmp(f->kind, "packed") && strcmp(f->kind, "rows")))
        return format("metadata kind: want packed or rows");
    if (!meta_text(s, "tokenizer", f->tokenizer, sizeof f->tokenizer))
        return format("metadata tokenizer: want at most %zu characters", sizeof f->tokenizer - 1);
    if (!meta_text(s, "sha256", f->sha256, sizeof f->sha256))
        return format("metadata sha256: want at most %zu characters", sizeof f->sha256 - 1);
    if (st_meta(s, "fingerprint") &&
        !meta_text(s, "fingerprint", f->fingerprint, sizeof f->fingerprint))
        return format("metadata fingerprint: want at most %zu characters",
                      sizeof f->fingerprint - 1);
    if (!meta_int(s, "vocab", 1, &f->vocab))
        return format("metadata vocab: want an integer from 1 to 2^31-1");
    if (!meta_int(s, "eos", -1, &f->eos) || f->eos >= f->vocab)
        return format("metadata eos: want -1 or an id below vocab");
    const char *targets = st_meta(s, "targets");
    f->own_targets = targets && !strcmp(targets, "own");
    if (targets && !f->own_targets)
        return format("metadata targets: want own, or no such key");
    if (!meta_id(s, "mask_id", f->vocab, &f->mask_id))
        return format("metadata mask_id: want an id below vocab, or no such key");
    if (!meta_id(s, "pad_id", f->vocab, &f->pad_id))
        return format("metadata pad_id: want an id below vocab, or no such key");
    if (!strcmp(f->kind, "rows") && !meta_int(s, "max_length", 1, &f->max_length))
        return format("metadata max_length: want an integer from 1 to 2^31-1");
    return NULL;
}

static char *check_columns(TokenFile *f)
{
    const Column *tokens = recordfile_column(&f->records, "tokens");
    const Column *mask = recordfile_column(&f->records, "mask");
    if (!tokens || tokens->dtype != ST_I32 || !tokens->offsets || tokens->n < 1)
        return format("column tokens: want I32, ragged, with a token at least");
    if (mask && (mask->dtype != ST_U8 || mask->offsets != tokens->offsets))
        return format("column mask: want U8 [%lld], as tokens", (long long)tokens->n);
    if (f->records.ncolumns != 1 + !!mask)
        return format("want the columns tokens and at most mask; %d are there",
                      f->records.ncolumns);
    f->ntokens = tokens->n;
    f->ndocs = f->records.n;
    f->tokens = (const int32_t *)tokens->data;
    f->doc = tokens->offsets;
    f->offsets = tokens->offsets_name;
    f->mask = mask ? (const uint8_t *)mask->data : NULL;
    for (int64_t i = 0; i < f->ndocs; i++) {
        if (f->doc[i + 1] == f->doc[i])
            return format("%s[%lld]: %lld after %lld, want no empty document", f->offsets,
                          (long long)i + 1, (long long)f->doc[i + 1], (long long)f->doc[i]);
        if (f->max_length && f->doc[i + 1] - f->doc[i] > f->max_length)
            return format("row %lld: %lld tokens, max_length is %lld", (long long)i,
                          (long long)(f->doc[i + 1] - f->doc[i]), (long long)f->max_length);
    }
    for (int64_t i = 0; f->mask && i < f->ntokens; i++)
        if (f->mask[i] > 1)
            return format("mask[%lld]: %d, want 0 or 1", (long long)i, f->mask[i]);
    return NULL;
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

char *tokenfile_check_ids(const TokenFile *f, int64_t vocab)
{
    enum { PIECE = 1 << 16 };
    int64_t pieces = (f->ntokens + PIECE - 1) / PIECE, bad = INT64_MAX;
#pragma omp parallel for reduction(min : bad)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t end = (p + 1) * PIECE < f->ntokens ? (p + 1) * PIECE : f->ntokens;
        for (int64_t i = p * PIECE; i < end; i++)
            if ((uint32_t)f->tokens[i] >= (uint64_t)vocab && i < bad)
                bad = i;
    }
    return bad == INT64_MAX ? NULL
         : format("%s: tokens[%lld]: id %d, want 0 to %lld", f->path, (long long)bad,
                  f->tokens[bad], (long long)vocab - 1);
}

void tokenfile_check_copy(const TokenFile *f, int64_t vocab, int64_t first, const int32_t *ids,
                          int64_t n)
{
    int bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= (uint32_t)ids[i] >= (uint64_t)vocab;
    for (int64_t i = 0; bad && i < n; i++)
        if ((uint32_t)ids[i] >= (uint64_t)vocab)
            die(EXIT_DATA, "%s: tokens[%lld], byte %lld: id %d, want 0 to %lld: the file was "
                "changed while it was in use", f->path, (long long)(first + i),
                (long long)((const char *)(f->tokens + first + i) - (const char *)f->records.map_), ids[i],
                (long long)vocab - 1);
}

void tokenfile_close(TokenFile *f)
{
    recordfile_close(&f->records);
    *f = (TokenFile){0};
}
