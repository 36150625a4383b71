/* pack_encoded.c -- growing rows of ids with target bits; parts of answers that are no targets.
 *
 * In:    {"weight": 0} or {"train": false} of a message; spans [begin, end) of characters: "masked"
 *        of a message, KEY_masked for a string KEY.
 * Method: as with prompts: the ids of a span begin after as many as the text before it alone
 *         has. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"

/* ---- rows ------------------------------------------------------------------------------------ */

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

RowOut *encoded_row(Encoded *e, Form form, const RecordCode *records, int file, int line)
{
    if (e->nrows == e->caprows) {
        e->caprows = 2 * e->caprows + 64;
        e->row = realloc(e->row, (size_t)e->caprows * sizeof *e->row);
        if (!e->row)
            abort();
    }
    e->row[e->nrows] = (RowOut){.begin = e->n, .form = form, .records = records,
                               .file = file, .line = line};
    return &e->row[e->nrows];
}

RowOut *encoded_next_row(Encoded *e)
{
    RowOut *done = &e->row[e->nrows++];
    done->n = e->n - done->begin;
    return encoded_row(e, done->form, done->records, done->file, done->line);
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

/* ---- parts that are no targets --------------------------------------------------------------- */

/* NULL, or the message for a member of an object with a similar name. */
static char *misspelt(const cJSON *json, const char *key, int letters)
{
    for (const cJSON *m = json->child; m; m = m->next)
        if (strcmp(m->string, key) && names_distance(m->string, key) <= letters)
            return format("%.60s: did you mean %s?", m->string, key);
    return NULL;
}

char *spans_of_key(const cJSON *json, const char *key, const cJSON **masked)
{
    char *name = format("%s_masked", key), *error = NULL;
    *masked = sample_get(json, name);
    error = *masked ? NULL : misspelt(json, name, 2);
    free(name);
    return error;
}

char *spans_message(const cJSON *message, bool *hidden)
{
    const cJSON *weight = sample_get(message, "weight"), *train = sample_get(message, "train");
    char *error = NULL;
    *hidden = false;
    if (sample_get(message, "train_detail"))
        return format("train_detail: use masked, a list of [begin, end) to exclude from the loss");
    if (!json_get(message, "weight") && (error = misspelt(message, "weight", 2)))
        return error;
    if (!json_get(message, "train") && (error = misspelt(message, "train", 1)))
        return error;
    if (!json_get(message, "masked") && (error = misspelt(message, "masked", 2)))
        return error;
    if (weight && train)
        return format("a message has both weight and train");
    if (weight &&
        !(cJSON_IsNumber(weight) && (weight->valuedouble == 0 || weight->valuedouble == 1)))
        return format("weight: must be 0 or 1: a message is in the loss or not");
    if (train && !cJSON_IsBool(train))
        return format("train: must be true or false");
    *hidden = weight ? weight->valuedouble == 0 : cJSON_IsFalse(train);
    return NULL;
}

/* Returns the bytes before character `at` of a string, or before its end; -1: it is shorter. */
static int64_t bytes_before(const char *string, double at)
{
    int64_t characters = 0, i = 0;
    for (; string[i]; i++) {
        if (((unsigned char)string[i] & 0xc0) == 0x80)
            continue;
        if ((double)characters == at)
            return i;
        characters++;
    }
    return (double)characters == at ? i : -1;
}

/* Returns the position in the text of byte `at` of the string. */
static size_t place_of(const Spanned *s, size_t at)
{
    const int64_t offset = (int64_t)at - (int64_t)s->cut, kept = (int64_t)s->kept;
    return s->from + (size_t)(offset < 0 ? 0 : offset > kept ? kept : offset);
}

char *spans_count(const Tokenizer *tok, const char *text, size_t n, bool specials, size_t at,
                  size_t *count, bool *inside, Encoded *e)
{
    const size_t begin = e->n;
    char *error = encode_text(tok, text, n, specials, false, e);
    for (*count = 0; begin + *count < e->n && at + *count < begin; ++*count)
        if (e->id[at + *count] != e->id[begin + *count])
            break;
    *inside = begin + *count < e->n;
    e->n = begin;
    return error;
}

char *spans_read(const cJSON *span, const char *string, size_t *begin, size_t *end)
{
    const cJSON *from = cJSON_GetArrayItem(span, 0), *to = cJSON_GetArrayItem(span, 1);
    if (!cJSON_IsArray(span) || cJSON_GetArraySize(span) != 2 || !cJSON_IsNumber(from) ||
        !cJSON_IsNumber(to))
        return format("masked: must be a list of [begin, end), two numbers each");
    const int64_t first = bytes_before(string, from->valuedouble),
                  last = bytes_before(string, to->valuedouble);
    if (first < 0 || last < first)
        return format("masked: [%g, %g]: must have 0 <= begin <= end <= the characters of the "
                      "text", from->valuedouble, to->valuedouble);
    *begin = (size_t)first, *end = (size_t)last;
    return NULL;
}

char *spans_hide(const Tokenizer *tok, const cJSON *masked, const Spanned *s, bool specials,
                 size_t at, Encoded *e, RowOut *row)
{
    if (masked && !cJSON_IsArray(masked))
        return format("masked: must be a list of [begin, end)");
    for (const cJSON *span = masked ? masked->child : NULL; span; span = span->next) {
        size_t first, last, begin, end;
        bool inside = false;
        char *error = spans_read(span, s->string, &begin, &end);
        if (!error && begin < end)
            error = spans_count(tok, s->text, place_of(s, begin), specials, at, &first, &inside, e);
        row->joined |= inside;
        if (!error && begin < end)
            error = spans_count(tok, s->text, place_of(s, end), specials, at, &last, &inside, e);
        row->joined |= inside;
        if (error)
            return error;
        for (size_t i = at + first; begin < end && i < at + last + inside && i < e->n; i++)
            e->target[i] = e->target[i] ? TARGET_HIDDEN : 0;
        e->hides = true;
    }
    return NULL;
}

void spans_done(Encoded *e, size_t at)
{
    for (size_t i = at; i < e->n && e->hides; i++)
        e->target[i] = e->target[i] == 1;
    e->hides = false;
}
