/* tokenizer_encode.c -- text to ids, special tokens around it, and where a long text may be cut.
 *
 * In:     a text; `post_processor` of a tokenizer.json: its prefix and suffix.
 * Method: added tokens are found in the raw text, each gap is normalised separately, then tokens
 *         that match normalised text are found, then the rest is split and encoded. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

/* ---- the post-processor ---------------------------------------------------------------------- */

/* Prepends ids to the prefix, and frees them. */
static void put_before(Tokenizer *t, Ids *ids)
{
    ids_put(ids, t->prefix.id, t->prefix.n);
    free(t->prefix.id);
    t->prefix = *ids;
    *ids = (Ids){0};
}

/* Appends the ids of one special token of a template. */
static char *template_ids(const cJSON *p, const cJSON *special, Ids *to)
{
    const char *name = json_word(json_get(special, "id"));
    const cJSON *ids = json_get(json_get(json_get(p, "special_tokens"), name), "ids");
    for (const cJSON *i = cJSON_IsArray(ids) ? ids->child : NULL; i; i = i->next) {
        int32_t id = tokens_json_id(i);
        if (id < 0)
            return format("post_processor: special token %.60s: its ids must be from 0 to 2^31-2",
                          name);
        ids_put(to, &id, 1);
    }
    return cJSON_IsArray(ids) ? NULL
        : format("post_processor: special token %.60s has no ids", name);
}

static char *template_load(Tokenizer *t, const cJSON *p)
{
    const cJSON *single = json_get(p, "single");
    Ids before = {0}, after = {0};
    int texts = 0;
    char *error = NULL;
    for (const cJSON *i = cJSON_IsArray(single) ? single->child : NULL; i && !error; i = i->next) {
        const cJSON *special = json_get(i, "SpecialToken"), *text = json_get(i, "Sequence");
        if (special)
            error = template_ids(p, special, texts ? &after : &before);
        else if (!text || strcmp(json_word(json_get(text, "id")), "A"))
            error = format("post_processor: single: its items must be SpecialToken or Sequence A");
        else
            texts++;
    }
    if (!error && texts != 1)
        error = format("post_processor: single: must have Sequence A exactly once");
    if (!error) {                /* around what an earlier processor put there */
        put_before(t, &before);
        ids_put(&t->suffix, after.id, after.n);
    }
    free(before.id);
    free(after.id);
    return error;
}

/* Reads [SEP] or [CLS]: a list of text and id. */
static char *bert_id(const cJSON *p, const char *key, Ids *to)
{
    const cJSON *text = json_get(p, key), *item = cJSON_IsArray(text) ? text->child : NULL;
    int32_t id = item ? tokens_json_id(item->next) : -1;
    if (!cJSON_IsString(item) || id < 0 || item->next->next)
        return format("post_processor: BertProcessing: %s: must be a text and an id", key);
    ids_put(to, &id, 1);
    return NULL;
}

/* Loads a post-processor other than Sequence. */
static char *processor_load(Tokenizer *t, const cJSON *p)
{
    const char *type = json_word(json_get(p, "type"));
    if (!strcmp(type, "ByteLevel"))      /* moves offsets only */
        return NULL;
    if (!strcmp(type, "TemplateProcessing"))
        return template_load(t, p);
    if (strcmp(type, "BertProcessing"))
        return format("post_processor: must be ByteLevel, TemplateProcessing, BertProcessing or a "
                      "Sequence of them, got %.40s", type);
    Ids before = {0};
    char *error = bert_id(p, "cls", &before);
    if (!error)
        error = bert_id(p, "sep", &t->suffix);
    put_before(t, &before);
    return error;
}

char *specials_load(Tokenizer *t, const cJSON *p)
{
    const cJSON *list = json_get(p, "processors");
    char *error = NULL;
    if (!p || cJSON_IsNull(p))
        return NULL;
    if (strcmp(json_word(json_get(p, "type")), "Sequence") || !cJSON_IsArray(list))
        return processor_load(t, p);
    for (const cJSON *i = list->child; i && !error; i = i->next)
        error = processor_load(t, i);
    return error;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static char *encode_normal(const Tokenizer *t, const char *text, size_t n, bool first, Ids *to)
{
    if (!normal_changes(t, text, n))
        return added_cut_out(t, &t->normal, text, n, first, split_encode, to);
    size_t len;
    char *made = normal_text(t, text, n, &len, &first);
    char *error = added_cut_out(t, &t->normal, made, len, first, split_encode, to);
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
            error = added_cut_out(t, &t->raw, text, n, true, encode_normal, &to);
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
    /* no space, line feed | no space: all patterns end a piece here in any context, and no
     * normalisation joins anything with a line feed; only an lstrip token could extend back over
     * it */
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

/* True if a known pattern ends pieces there: only Digits, which has no context, comes before it,
 * and only such patterns after it. */
static bool patterns_end(const Tokenizer *t)
{
    bool known = false, other = false;
    for (int i = 0; i < t->nsplits; i++) {
        known = known || t->split[i].known;
        other = other || !(t->split[i].known || t->split[i].digits);
    }
    return known && !other;
}

/* True if no piece crosses a line feed, see tokenizer_cut(), and text is processed independently of
 * what precedes and follows it. */
static bool pieces_end(const Tokenizer *t)
{
    bool known = patterns_end(t), spaces = false, other = false;
    for (int i = 0; i < t->nsplits; i++) {
        const Split *s = &t->split[i];
        spaces = spaces || s->spaces;
        other = other || s->find == FIND_TEXT || s->find == FIND_NOTHING ||
                (s->find == FIND_PATTERN && !s->spaces) ||
                (s->find == FIND_META && (!spaces || s->prepend == PREPEND_FIRST));
    }
    /* patterns would treat a line feed that cleaning turns into a space differently, and a removed
     * mark after it */
    for (int i = 0; i < t->nsteps; i++) {
        known = known && t->step[i].kind <= NORMAL_LOWERCASE;
        other = other || t->step[i].kind >= NORMAL_STRIP;    /* ends matter, or who knows */
    }
    return known || (spaces && !other);
}

void cuts_find(Tokenizer *t)
{
    t->cuts = pieces_end(t);
    for (int i = 0; i < t->nadded; i++) {
        const Added *a = &t->added[i];
        if (memchr(a->match, '\n', a->nmatch) || memchr(a->content, '\n', strlen(a->content)))
            t->cuts = false;
        /* it may turn a line feed into a space */
        if (a->normalized && t->nsteps && memchr(a->match, ' ', a->nmatch) &&
            !patterns_end(t))
            t->cuts = false;
        if (!a->lstrip)
            continue;
        t->lstrip_first[(unsigned char)a->match[0]] = true;
        /* bytes that normalisation may turn into its first character */
        for (int c = 0x80; c < 0x100; c++)
            t->lstrip_first[c] = true;
        if ((unsigned char)a->match[0] >= 0x80 || utf8_is_space((unsigned char)a->match[0]))
            t->cuts = false;
    }
}
