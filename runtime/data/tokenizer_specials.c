/* tokenizer_specials.c -- the post-processor: special tokens around every text.
 *
 * In:  `post_processor` of a tokenizer.json.  Out: prefix and suffix. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

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
        return format("post_processor: BertProcessing: %s: want a text and an id", key);
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
        return format("post_processor: want ByteLevel, TemplateProcessing, BertProcessing or a "
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
