/* format_words.c -- samples of words for objectives that mask some: IMDB, and any corpus.
 *
 * In:    an object with a text, a string or a list of words; or a line.
 * Out:   the words with the tokenizer's special tokens around them, cut so that both ends stay;
 *        targets are all tokens that are not special. */
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/data/words.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

static int64_t count_words(const char *text, size_t n)
{
    int64_t words = 0;
    bool inside = false;
    for (size_t i = 0; i < n;) {
        int len = utf8_length_at(text, n, i);
        bool space = utf8_is_space(utf8_value(text + i, len));
        words += !space && !inside;
        inside = !space;
        i += (size_t)len;
    }
    return words;
}

static char *encode_words(const Rules *rules, const Tokenizer *tok, const char *text, size_t n,
                          Encoded *e, RowOut *row)
{
    size_t nprefix, nsuffix, begin = e->n;
    const int32_t *prefix = tokenizer_prefix(tok, &nprefix);
    const int32_t *suffix = tokenizer_suffix(tok, &nsuffix);
    row->stops = (size_t)rules->max_length <= nprefix + nsuffix;
    if (row->stops)
        return format("rows of %lld tokens (seq.max, --max-length) leave no room beyond their %zu "
                      "special tokens", (long long)rules->max_length, nprefix + nsuffix);
    if (utf8_check(text, n) < n) {
        row->drop = DROP_UTF8;
        return NULL;
    }
    int64_t words = count_words(text, n);
    if (words < rules->min_words || !words) {
        row->drop = words ? DROP_SHORT : DROP_EMPTY;
        return NULL;
    }
    row->bytes = (int64_t)n;
    encoded_put(e, prefix, nprefix, true);
    char *error = encode_text(tok, text, n, false, true, e);
    if (error)
        return error;
    size_t most = (size_t)rules->max_length - nsuffix;
    row->cut = e->n - begin > most;
    e->n = row->cut ? begin + most : e->n;
    encoded_put(e, suffix, nsuffix, true);
    for (size_t i = begin; i < e->n; i++)
        e->target[i] = !tokenizer_special(tok, e->id[i]);
    return NULL;
}

/* Joins the words of a list with spaces; NULL: not a list of strings. */
static char *joined(const cJSON *list)
{
    size_t n = 1;
    for (const cJSON *i = list->child; i; i = i->next) {
        if (!cJSON_IsString(i))
            return NULL;
        n += strlen(i->valuestring) + 1;
    }
    char *text = malloc(n), *to = text;
    if (!text)
        abort();
    *to = 0;
    for (const cJSON *i = list->child; i; i = i->next)
        to += sprintf(to, "%s%s", i == list->child ? "" : " ", i->valuestring);
    return text;
}

/* Encodes the value of a key; null is empty. */
static char *encode_value(const Rules *rules, const Tokenizer *tok, const cJSON *value, Encoded *e,
                          RowOut *row)
{
    char *list = cJSON_IsArray(value) ? joined(value) : NULL;
    const char *text = cJSON_IsNull(value) ? "" : list ? list : cJSON_GetStringValue(value);
    char *error = text ? encode_words(rules, tok, text, strlen(text), e, row)
                       : format("%s: must be a string or a list of words", value->string);
    free(list);
    return error;
}

static char *encode(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                   RowOut *row)
{
    static const char *const key[] = {"text", "content", "sentence", "passage", "article"};
    /* rows of IMDB may use the other keys for anything */
    size_t keys = row->form == FORM_IMDB ? 1 : sizeof key / sizeof *key;
    if (!s->json)
        return encode_words(rules, tok, s->text, s->n, e, row);
    for (size_t i = 0; i < keys; i++)
        if (json_get(s->json, key[i]))
            return encode_value(rules, tok, json_get(s->json, key[i]), e, row);
    row->drop = DROP_NO_TEXT;
    return NULL;
}

const FormatCode imdb_format = {.form = FORM_IMDB, .encode = encode, .words = &words_code},
                 corpus_format = {.form = FORM_CORPUS, .encode = encode, .words = &words_code};
