/* pack_encoded.c -- growing rows of ids with target bits. */
#include "runtime/pack/pack.h"

#include "runtime/base.h"

#include <stdlib.h>
#include <string.h>

static void encoded_room(Encoded *e, size_t n)
{
    if (e->cap - e->n >= n)
        return;
    e->cap = 2 * e->cap + n + 1024;
    e->id = realloc(e->id, e->cap * sizeof *e->id);
    e->target = realloc(e->target, e->cap);
    if (!e->id || !e->target)
        abort();
}

void encoded_put(Encoded *e, const int32_t *id, size_t n, bool target)
{
    encoded_room(e, n);
    if (n) {
        memcpy(e->id + e->n, id, n * sizeof *id);
        memset(e->target + e->n, target, n);
    }
    e->n += n;
}

void keys_free(KeyList *keys)
{
    for (int i = 0; i < keys->n; i++)
        free(keys->key[i].name), free(keys->key[i].meant);
    free(keys->key);
    *keys = (KeyList){0};
}

RowOut *encoded_row(Encoded *e, Form form, const RecordCode *records, int line)
{
    if (e->nrows == e->caprows) {
        e->caprows = 2 * e->caprows + 64;
        e->row = realloc(e->row, (size_t)e->caprows * sizeof *e->row);
        if (!e->row)
            abort();
    }
    e->row[e->nrows] = (RowOut){.begin = e->n, .form = form, .records = records,
                               .line = line};
    return &e->row[e->nrows];
}

RowOut *encoded_next_row(Encoded *e)
{
    RowOut *done = &e->row[e->nrows++];
    done->n = e->n - done->begin;
    return encoded_row(e, done->form, done->records, done->line);
}

void row_free(RowOut *row)
{
    if (row->records && row->records->free_row)
        row->records->free_row(row->more);
    row->more = NULL;
}

void encoded_free(Encoded *e)
{
    for (int i = 0; i < e->nrows; i++)
        row_free(&e->row[i]);
    free(e->id);
    free(e->target);
    free(e->row);
    free(e->seen);
    keys_free(&e->keys);
    for (int i = 0; i < e->nbad; i++)
        free(e->bad[i].why);
    free(e->bad);
    free(e->error);
}

char *encode_text(const Tokenizer *tok, const char *text, size_t n, bool specials, bool target,
                  Encoded *e)
{
    int32_t *ids;
    size_t count;
    char *error = tokenizer_encode(tok, text, n, specials, &ids, &count);
    if (error)
        return error;
    size_t around, off = 0;      /* off: the text begins with the prefix already */
    const int32_t *before = tokenizer_prefix(tok, &around);
    if (specials && around && count >= 2 * around &&
        !memcmp(ids + around, before, around * sizeof *ids))
        off = around;
    encoded_put(e, ids + off, count - off, target);
    free(ids);
    return NULL;
}

char *encode_ended(const Tokenizer *tok, const char *text, size_t n, bool specials, Encoded *e)
{
    const char *end = tokenizer_eos_text(tok);
    if (!end) {
        char *error = encode_text(tok, text, n, specials, true, e);
        encoded_put(e, &(int32_t){tokenizer_eos(tok)}, 1, true);
        return error;
    }
    size_t len = strlen(end);
    if (n >= len && !memcmp(text + n - len, end, len))
        return encode_text(tok, text, n, specials, true, e);
    char *joined = malloc(n + len);
    if (!joined)
        abort();
    memcpy(joined, text, n);
    memcpy(joined + n, end, len);
    char *error = encode_text(tok, joined, n + len, specials, true, e);
    free(joined);
    return error;
}

int32_t windows_first(const Tokenizer *tok)
{
    size_t n;
    const int32_t *prefix = tokenizer_prefix(tok, &n);
    return n ? prefix[0] : tokenizer_bos(tok);
}
