/* tokenizer_specials.c -- the post-processor: ids that go before and behind every text.
 *
 * In:  `post_processor` of a tokenizer.json.  Out: prefix and suffix. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

/* The ids of one special token of a template, appended. */
static char *template_ids(const cJSON *p, const cJSON *special, Ids *to)
{
    const char *name = json_word(json_get(special, "id"));
    const cJSON *ids = json_get(json_get(json_get(p, "special_tokens"), name), "ids");
    for (const cJSON *i = cJSON_IsArray(ids) ? ids->child : NULL; i; i = i->next) {
        int32_t id = bpe_json_id(i);
        if (id < 0)
            return format("post_processor: special token %.60s: want ids from 0 to 2^31-2", name);
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
            error = format("post_processor: single: want SpecialToken or Sequence A");
        else
            texts++;
    }
    if (!error && texts != 1)
        error = format("post_processor: single: want Sequence A once");
    if (!error) {                /* around what an earlier processor put there */
        ids_put(&before, t->prefix.id, t->prefix.n);
        ids_put(&t->suffix, after.id, after.n);
        free(t->prefix.id);
        t->prefix = before;
        before = (Ids){0};
    }
    free(before.id);
    free(after.id);
    return error;
}

char *specials_load(Tokenizer *t, const cJSON *p)
{
    const char *type = json_word(json_get(p, "type"));
    if (!p || cJSON_IsNull(p) || !strcmp(type, "ByteLevel"))     /* the latter moves offsets only */
        return NULL;
    if (!strcmp(type, "TemplateProcessing"))
        return template_load(t, p);
    const cJSON *list = json_get(p, "processors");
    if (strcmp(type, "Sequence") || !cJSON_IsArray(list))
        return format("post_processor: want ByteLevel, TemplateProcessing or Sequence, got %.40s",
                      type);
    for (const cJSON *i = list->child; i; i = i->next) {
        const char *inner = json_word(json_get(i, "type"));
        char *error = NULL;
        if (!strcmp(inner, "TemplateProcessing"))
            error = template_load(t, i);
        else if (strcmp(inner, "ByteLevel"))
            error = format("post_processor: Sequence: want ByteLevel or TemplateProcessing, "
                           "got %.40s", inner);
        if (error)
            return error;
    }
    return NULL;
}
