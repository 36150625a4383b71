/* tokenizer_added.c -- added tokens: cut out of a text before anything else looks at it.
 *
 * In:     `added_tokens` of a tokenizer.json.
 * Method: sorted by their bytes; a match narrows the range of those that agree, byte by byte. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

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

const Added *added_of(const Tokenizer *t, int32_t id)
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

char *added_load(Tokenizer *t, const cJSON *list)
{
    if (list && !cJSON_IsArray(list))
        return format("added_tokens: want a list");
    int n = list ? cJSON_GetArraySize(list) : 0;
    t->added = calloc((size_t)n + 1, sizeof *t->added);
    for (const cJSON *i = list ? list->child : NULL; i; i = i->next) {
        Added *a = &t->added[t->nadded];
        const cJSON *content = json_get(i, "content");
        a->id = tokens_json_id(json_get(i, "id"));
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
        bool first = true;
        a->match = a->normalized ? normal_text(t, a->content, a->nmatch, &a->nmatch, &first)
                                 : strdup(a->content);
        t->nadded++;
        if (!a->nmatch)
            return format("added_tokens: %.60s: nothing is left when it is normalised",
                          a->content);
        int known = model_id(t, a->content);
        size_t len;
        if (known >= 0 ? known != a->id : model_text(t, a->id, &len) != NULL)
            return format("added_tokens: %.60s: id %d, the vocabulary %s", a->content, a->id,
                          known >= 0 ? "has it under another" : "gives that id to another token");
        if (a->id >= t->size)
            t->size = a->id + 1;
    }
    qsort(t->added, (size_t)t->nadded, sizeof *t->added, added_order);
    for (int i = 1; i < t->nadded; i++)
        if (t->added[i].id == t->added[i - 1].id)
            return format("added_tokens: id %d given twice", t->added[i].id);
    char *error = finder_make(&t->raw, t, false);
    return error ? error : finder_make(&t->normal, t, true);
}

char *tokenizer_add(Tokenizer *t, const char *content, int32_t id)
{
    size_t len;
    if (t->bytes)
        return format("the vocabulary of bytes has no token %s, and none can be added to it", content);
    if (!*content || tokenizer_added(t, content) >= 0 || model_id(t, content) >= 0 || added_of(t, id) ||
        model_text(t, id, &len))
        return format("%s: is no new token, or %d no new id", content, id);
    Added *all = realloc(t->added, ((size_t)t->nadded + 2) * sizeof *all);
    if (!all)
        return format("out of memory for %d tokens", t->nadded + 1);
    t->added = all;
    all[t->nadded++] = (Added){.content = strdup(content), .match = strdup(content), .nmatch = strlen(content),
                               .id = id, .special = true};
    qsort(all, (size_t)t->nadded, sizeof *all, added_order);
    if (id >= t->size)
        t->size = id + 1;
    char *error = finder_make(&t->raw, t, false);
    return error ? error : finder_make(&t->normal, t, true);
}
