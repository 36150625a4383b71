/* tokenizer_added.c -- added tokens: found in a text before anything else.
 *
 * In:     `added_tokens` of a tokenizer.json, and those of the files next to it.
 * Method: tokens are sorted; each byte of the text narrows the range of matching ones. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the longest token of f at the start of text, or NULL. */
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
        if (char_is(t, t->word, text + before, (int)(from - before)))
            return false;
    }
    return to == n || !char_is(t, t->word, text + to, utf8_length_at(text, n, to));
}

char *added_cut_out(const Tokenizer *t, const Finder *f, const char *text, size_t n, bool first,
                    Gap *gap, Ids *to)
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
        if (a->lstrip && from < done)        /* begins in the space that the one before took */
            from = done;
        while (a->rstrip && end < n) {
            int len = utf8_length_at(text, n, end);
            if (!utf8_is_space(utf8_value(text + end, len)))
                break;
            end += (size_t)len;
        }
        if (end <= from)
            continue;
        if (from > done)
            error = gap(t, text + done, from - done, first && !done, to);
        ids_put(to, &a->id, 1);
        done = end;
    }
    if (!error && n > done)
        error = gap(t, text + done, n - done, first && !done, to);
    return error;
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

static char *finder_make(Finder *f, const Tokenizer *t, bool normalized)
{
    free(f->token);
    *f = (Finder){0};
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

/* Sets the text to find: the content, normalised if the token is `normalized`. */
static char *set_match(const Tokenizer *t, Added *a)
{
    bool first = true;
    free(a->match);
    a->nmatch = strlen(a->content);
    a->match = a->normalized ? normal_text(t, a->content, a->nmatch, &a->nmatch, &first)
                             : strdup(a->content);
    return a->nmatch ? NULL : format("%.60s: is empty when normalised", a->content);
}

/* Returns the id that Hugging Face tokenizers assigns: the vocabulary's, else the next one. */
static int64_t id_for(const Tokenizer *t, const char *content)
{
    const int known = model_id(t, content), count = model_count(t);
    const int64_t last = t->nadded ? t->added[t->nadded - 1].id : -1;
    return known >= 0 ? known : last >= count ? last + 1 : count;
}

/* Inserts a token, sorted by id. Copies its content. */
static char *put_added(Tokenizer *t, Added a)
{
    size_t len;
    int at = t->nadded;
    if (model_id(t, a.content) < 0 && model_text(t, a.id, &len))
        return format("%.60s: id %d is another token in the vocabulary", a.content, a.id);
    if (added_of(t, a.id))
        return format("id %d given twice", a.id);
    a.content = strdup(a.content);
    a.match = NULL;
    while (at && t->added[at - 1].id > a.id)
        at--;
    memmove(t->added + at + 1, t->added + at, (size_t)(t->nadded - at) * sizeof a);
    t->added[at] = a;
    t->nadded++;
    if (a.id >= t->size)
        t->size = a.id + 1;
    return set_match(t, &t->added[at]);
}

/* Returns NULL, or why the id that a file gives a token is refused: Hugging Face would ignore it
 * and assign another. */
static char *wrong_id(const Tokenizer *t, const char *content, int32_t id)
{
    const int64_t its = id_for(t, content);
    return id == its ? NULL
           : model_id(t, content) >= 0
               ? format("%.60s: id %d, but the vocabulary gives it %lld", content, id,
                        (long long)its)
               : format("%.60s: id %d, but Hugging Face tokenizers numbers added tokens "
                        "consecutively after the vocabulary (%d tokens) and gives it %lld: change "
                        "the id, or add the missing ids to model.vocab", content, id,
                        model_count(t), (long long)its);
}

static char *put_own(Tokenizer *t, const cJSON *list)
{
    int at = 0;
    char *error = NULL;
    for (const cJSON *i = list ? list->child : NULL; i && !error; i = i->next, at++) {
        const cJSON *content = json_get(i, "content");
        Added a = {.content = cJSON_GetStringValue(content),
                   .id = tokens_json_id(json_get(i, "id")),
                   .single_word = cJSON_IsTrue(json_get(i, "single_word")),
                   .lstrip = cJSON_IsTrue(json_get(i, "lstrip")),
                   .rstrip = cJSON_IsTrue(json_get(i, "rstrip")),
                   .normalized = cJSON_IsTrue(json_get(i, "normalized")),
                   .special = cJSON_IsTrue(json_get(i, "special"))};
        if (!a.content || !*a.content || a.id < 0)
            return format("added_tokens[%d]: needs an id from 0 to 2^31-2 and a content that is "
                          "not empty", at);
        if (tokenizer_added(t, a.content) >= 0)
            error = format("%.60s given twice", a.content);
        if (!error)
            error = wrong_id(t, a.content, a.id);
        if (!error)
            error = put_added(t, a);
        if (error) {
            char *full = format("added_tokens: %s", error);
            free(error);
            error = full;
        }
    }
    return error;
}

/* Returns the added token with that content, or NULL. id: tried first; -1: unknown. */
static Added *own_of(const Tokenizer *t, const char *content, int32_t id)
{
    const Added *there = id < 0 ? NULL : added_of(t, id);
    if (there && !strcmp(there->content, content))
        return t->added + (there - t->added);
    for (int i = 0; i < t->nadded; i++)
        if (!strcmp(t->added[i].content, content))
            return &t->added[i];
    return NULL;
}

/* Adds a token of a file next to tokenizer.json. A known token keeps its id and takes the flags of
 * added_tokens_decoder. Writes a line to `more` if ids of texts may change. */
static char *put_config(Tokenizer *t, const ConfigToken *b, FILE *more)
{
    Added a = b->is, *present = own_of(t, a.content, a.id);
    char *error = NULL;
    bool changes = !present;
    if (present && a.id >= 0 && present->id != a.id)
        return format("%.60s: id %d, but added_tokens in tokenizer.json gives it %d: use that id",
                      a.content, a.id,
                      present->id);
    if (!present && a.id >= 0 && (error = wrong_id(t, a.content, a.id)))
        return error;
    if (!present) {
        const int64_t id = id_for(t, a.content);
        if (id >= INT32_MAX)
            return format("%.60s: no id is left for it", a.content);
        a.id = (int32_t)id;
        error = put_added(t, a);
    } else if (a.id >= 0) {
        changes = present->single_word != a.single_word || present->lstrip != a.lstrip ||
                  present->rstrip != a.rstrip || (present->normalized != a.normalized && t->nsteps);
        a.special |= present->special;       /* upstream skips in decoding what was ever special */
        a.content = present->content;
        a.match = present->match;
        *present = a;
        error = set_match(t, present);
    } else {
        present->special |= b->marks;
    }
    if (!error && changes)
        fprintf(more, "%d %d%d%d%d %s\n", a.id, a.single_word, a.lstrip, a.rstrip, a.normalized,
                a.content);
    return error;
}

char *added_load(Tokenizer *t, const cJSON *list, const ConfigTokens *extra, char **more)
{
    if (list && !cJSON_IsArray(list))
        return format("added_tokens: must be a list");
    size_t nmore;
    FILE *to = open_memstream(more, &nmore);
    const int listed = list ? cJSON_GetArraySize(list) : 0;
    t->added = calloc((size_t)listed + (size_t)extra->n + 1, sizeof *t->added);
    if (!t->added || !to)
        abort();
    char *error = put_own(t, list);
    for (int i = 0; i < extra->n && !error; i++)
        if ((error = put_config(t, &extra->token[i], to))) {
            char *full = format("tokenizer_config.json: %s", error);
            free(error);
            error = full;
        }
    fclose(to);
    if (!error)
        error = finder_make(&t->raw, t, false);
    return error ? error : finder_make(&t->normal, t, true);
}

char *tokenizer_add(Tokenizer *t, const char *content, int32_t id)
{
    size_t len;
    if (t->bytes)
        return format("no token %s can be added to the byte vocabulary: use another tokenizer, "
                      "--tokenizer DIR/tokenizer.json", content);
    if (!*content || tokenizer_added(t, content) >= 0 || model_id(t, content) >= 0 ||
        added_of(t, id) || model_text(t, id, &len))
        return format("%s: the token or its id %d exists already", content, id);
    Added *all = realloc(t->added, ((size_t)t->nadded + 2) * sizeof *all);
    if (!all)
        return format("out of memory for %d tokens", t->nadded + 1);
    t->added = all;
    all[t->nadded++] = (Added){.content = strdup(content), .match = strdup(content),
                               .nmatch = strlen(content), .id = id, .special = true};
    qsort(all, (size_t)t->nadded, sizeof *all, added_order);
    if (id >= t->size)
        t->size = id + 1;
    char *error = finder_make(&t->raw, t, false);
    return error ? error : finder_make(&t->normal, t, true);
}
