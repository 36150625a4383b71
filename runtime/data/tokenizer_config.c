/* tokenizer_config.c -- added tokens of the files next to tokenizer.json, as transformers 5 reads
 * them.
 *
 * In:   tokenizer_config.json: added_tokens_decoder, the named tokens (bos_token ...),
 *       extra_special_tokens; without added_tokens_decoder also special_tokens_map.json and
 *       added_tokens.json, which are older.
 * Out:  those tokens in the order in which transformers adds them; files that it would read
 *       differently are refused. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX = 64 << 20 };

static const char *const named[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                    "pad_token", "cls_token",
                                    "mask_token"};
enum { NAMED = sizeof named / sizeof *named };

/* ---- the files ------------------------------------------------------------------------------- */

/* Reads the file `name` next to path; NULL and no error: there is none. */
static cJSON *read_config_file(const char *path, const char *name, char **error)
{
    const char *slash = strrchr(path, '/');
    char *file = format("%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
    size_t n;
    char *text = file_named(file) ? file_read(file, CONFIG_MAX, &n, error) : NULL;
    cJSON *json = text ? json_parse(text, n, error) : NULL;
    if (text && *error) {
        char *why = format("%s: %s", file, *error);
        free(*error);
        *error = why;
    }
    if (json && !cJSON_IsObject(json)) {
        *error = format("%s: must be an object", file);
        cJSON_Delete(json);
        json = NULL;
    }
    free(text), free(file);
    return json;
}

/* Returns an entry of added_tokens.json in the form of added_tokens_decoder. */
static void add_old(cJSON *decoder, const cJSON *token, bool special)
{
    char *id = format("%.0f", token->valuedouble);
    cJSON *entry = cJSON_AddObjectToObject(decoder, id);
    cJSON_AddStringToObject(entry, "content", token->string);
    cJSON_AddBoolToObject(entry, "special", special);
    cJSON_AddBoolToObject(entry, "normalized", !special);
    free(id);
}

static bool is_named(const cJSON *config, const char *content)
{
    bool found = false;
    for (int i = 0; i < NAMED; i++) {
        const char *its = config_token_name(config, named[i]);
        found = found || (its && !strcmp(its, content));
    }
    const cJSON *extra = json_get(config, "extra_special_tokens");
    for (const cJSON *i = cJSON_IsArray(extra) ? extra->child : NULL; i; i = i->next)
        found |= !strcmp(json_word(cJSON_IsObject(i) ? json_get(i, "content") : i), content);
    return found;
}

/* Merges the older files into the config. */
static char *take_old(const char *path, cJSON *config)
{
    char *error = NULL;
    cJSON *map = read_config_file(path, "special_tokens_map.json", &error);
    for (cJSON *i = map ? map->child : NULL, *next; i; i = next) {
        next = i->next;
        cJSON_DetachItemViaPointer(map, i);
        char *key = strdup(i->string);
        cJSON_DeleteItemFromObjectCaseSensitive(config, key);
        cJSON_AddItemToObject(config, key, i);
        free(key);
    }
    cJSON_Delete(map);
    cJSON *added = error ? NULL : read_config_file(path, "added_tokens.json", &error);
    cJSON *decoder = added && added->child ? cJSON_CreateObject() : NULL;
    for (const cJSON *i = decoder ? added->child : NULL; i && !error; i = i->next)
        if (tokens_json_id(i) < 0)
            error = format("added_tokens.json: %.60s: must be an id from 0 to 2^31-2", i->string);
        else
            add_old(decoder, i, is_named(config, i->string));
    if (decoder)
        cJSON_AddItemToObject(config, "added_tokens.json", decoder);
    cJSON_Delete(added);
    return error;
}

char *tokenizer_config_read(const char *path, cJSON **config)
{
    char *error = NULL;
    *config = read_config_file(path, "tokenizer_config.json", &error);
    if (error || json_get(*config, "added_tokens_decoder"))
        return error;
    cJSON *all = *config ? *config : cJSON_CreateObject();
    if ((error = take_old(path, all)) || (!*config && !all->child)) {
        cJSON_Delete(all);
        all = NULL;
    }
    *config = all;
    return error;
}

const char *config_token_name(const cJSON *config, const char *key)
{
    const cJSON *v = json_get(config, key);
    const char *name = cJSON_GetStringValue(cJSON_IsObject(v) ? json_get(v, "content") : v);
    return name && *name ? name : NULL;
}

/* ---- their tokens ---------------------------------------------------------------------------- */

static ConfigToken *put(ConfigTokens *to, ConfigToken b)
{
    if (to->n == to->cap) {
        to->cap = 2 * to->cap + 16;
        to->token = realloc(to->token, (size_t)to->cap * sizeof *to->token);
        if (!to->token)
            abort();
    }
    to->token[to->n++] = b;
    return &to->token[to->n - 1];
}

static ConfigToken *find(const ConfigTokens *list, const char *content)
{
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->token[i].is.content, content))
            return &list->token[i];
    return NULL;
}

/* Reads a token: a string or an object; NULL is none, if that is allowed. */
static char *token_of(const cJSON *v, const char *where, ConfigToken *to)
{
    const cJSON *content = cJSON_IsObject(v) ? json_get(v, "content") : v;
    if (!cJSON_IsString(content))
        return format("%s: must be a text, or an object with a text in content", where);
    const cJSON *normalized = json_get(v, "normalized");
    *to = (ConfigToken){.is = {.content = content->valuestring, .id = -1,
                               .special = !cJSON_IsObject(v)}};
    if (cJSON_IsObject(v)) {
        to->is.single_word = cJSON_IsTrue(json_get(v, "single_word"));
        to->is.lstrip = cJSON_IsTrue(json_get(v, "lstrip"));
        to->is.rstrip = cJSON_IsTrue(json_get(v, "rstrip"));
        to->is.special = cJSON_IsTrue(json_get(v, "special"));
        to->is.normalized = normalized ? cJSON_IsTrue(normalized) : !to->is.special;
    }
    return NULL;
}

static int by_id(const void *pa, const void *pb)
{
    const ConfigToken *a = pa, *b = pb;
    return a->is.id < b->is.id ? -1 : a->is.id > b->is.id;
}

/* added_tokens_decoder, by id. */
static char *put_decoder(const cJSON *config, const char *key, ConfigTokens *to)
{
    const cJSON *decoder = json_get(config, key);
    if (decoder && !cJSON_IsObject(decoder))
        return format("%s: must be an object of id: token", key);
    for (const cJSON *i = decoder ? decoder->child : NULL; i; i = i->next) {
        ConfigToken b;
        char *end, *where = format("%s: %.40s", key, i->string);
        const long long id = strtoll(i->string, &end, 10);
        char *error = *i->string && !*end && id >= 0 && id < INT32_MAX ? token_of(i, where, &b)
                      : format("%s: must be an id from 0 to 2^31-2", where);
        free(where);
        if (error)
            return error;
        b.is.id = (int32_t)id;
        if (*b.is.content)
            put(to, b);
    }
    if (to->n)
        qsort(to->token, (size_t)to->n, sizeof *to->token, by_id);
    return NULL;
}

/* Adds a token to the list unless it is there; is_name: a key such as bos_token, whose token
 * becomes special. */
static char *put_special(const cJSON *v, const char *where, bool is_name, bool marks,
                         ConfigTokens *to)
{
    ConfigToken b, *known;
    char *error = token_of(v, where, &b);
    if (error || !*b.is.content)
        return error;
    if ((known = find(to, b.is.content))) {
        known->is.special |= is_name;
        return NULL;
    }
    b.is.special = b.is.special || is_name;
    b.marks = marks;
    put(to, b);
    return NULL;
}

/* Adds the token of any other key that ends in _token, e.g. image_token. */
static bool is_own_name(const cJSON *i)
{
    const size_t n = strlen(i->string);
    bool is_named = n > 6 && !strcmp(i->string + n - 6, "_token") &&
               (cJSON_IsString(i) || json_get(i, "content"));
    for (int k = 0; k < NAMED; k++)
        is_named = is_named && strcmp(i->string, named[k]);
    return is_named;
}

static char *put_names(const cJSON *config, bool decoded, ConfigTokens *to)
{
    char *error = NULL;
    for (int i = 0; i < NAMED && !error; i++) {
        const cJSON *v = json_get(config, named[i]);
        if (v && !cJSON_IsNull(v))
            error = put_special(v, named[i], true, !decoded, to);
    }
    for (const cJSON *i = config->child; i && !error; i = i->next)
        if (is_own_name(i))
            error = put_special(i, i->string, true, false, to);
    return error;
}

/* extra_special_tokens: a list, or an object by name; formerly additional_special_tokens. */
static char *put_extra(const cJSON *config, ConfigTokens *to)
{
    static const char *const keys[] = {"extra_special_tokens", "additional_special_tokens"};
    const char *key = keys[0];
    const cJSON *extra = json_get(config, key);
    if (!extra || cJSON_IsNull(extra) || (!extra->child && !cJSON_IsString(extra)))
        extra = json_get(config, key = keys[1]);
    if (!extra || cJSON_IsNull(extra))
        return NULL;
    if (!cJSON_IsArray(extra) && !cJSON_IsObject(extra))
        return format("%s: must be a list of tokens, or an object of name: token", key);
    char *error = NULL;
    for (const cJSON *i = extra->child; i && !error; i = i->next)
        error = put_special(i, key, cJSON_IsObject(extra), false, to);
    return error;
}

char *config_tokens_read(const cJSON *config, ConfigTokens *to)
{
    const bool decoded = json_get(config, "added_tokens_decoder");
    *to = (ConfigTokens){0};
    if (!config)
        return NULL;
    if (cJSON_IsTrue(json_get(config, "split_special_tokens")))
        return format("split_special_tokens is true: special tokens in a text would be split: set "
                      "it to false");
    char *error = put_decoder(config, decoded ? "added_tokens_decoder" : "added_tokens.json", to);
    if (!error)
        error = put_names(config, decoded, to);
    if (!error)
        error = put_extra(config, to);
    if (error) {
        free(to->token);
        *to = (ConfigTokens){0};
    }
    return error;
}

/* Returns the ByteLevel among the pre-tokenizers, or NULL. */
static const cJSON *byte_level(const cJSON *part)
{
    const cJSON *list = json_get(part, "pretokenizers"), *found = NULL;
    if (!strcmp(json_word(json_get(part, "type")), "ByteLevel"))
        return part;
    for (const cJSON *p = cJSON_IsArray(list) ? list->child : NULL; p && !found; p = p->next)
        found = strcmp(json_word(json_get(p, "type")), "ByteLevel") ? NULL : p;
    return found;
}

/* True for the class and its old name with Fast. */
static bool is_class(const char *class, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(class, name, n) && (!class[n] || !strcmp(class + n, "Fast"));
}

char *config_prefix_differs(const cJSON *config, const cJSON *tokenizer)
{
    const char *class = json_word(json_get(config, "tokenizer_class"));
    const cJSON *bytes = byte_level(json_get(tokenizer, "pre_tokenizer")),
                *said = json_get(config, "add_prefix_space");
    const bool obeys = is_class(class, "GPT2Tokenizer") ||
                       (cJSON_IsBool(said) && is_class(class, "Qwen2Tokenizer"));
    if (!bytes || !obeys ||
        cJSON_IsTrue(said) == cJSON_IsTrue(json_get(bytes, "add_prefix_space")))
        return NULL;
    return format("add_prefix_space is %s for %s, which transformers obeys, but %s in "
                  "tokenizer.json: make them equal", cJSON_IsTrue(said) ? "true" : "false", class,
                  cJSON_IsTrue(said) ? "false" : "true");
}

static bool same(const ConfigToken *b, const cJSON *added_token)
{
    const Added *a = &b->is;
    return !strcmp(json_word(json_get(added_token, "content")), a->content) &&
           (a->id < 0 || (a->id == tokens_json_id(json_get(added_token, "id")) &&
                          a->single_word == cJSON_IsTrue(json_get(added_token, "single_word")) &&
                          a->lstrip == cJSON_IsTrue(json_get(added_token, "lstrip")) &&
                          a->rstrip == cJSON_IsTrue(json_get(added_token, "rstrip")) &&
                          a->normalized == cJSON_IsTrue(json_get(added_token, "normalized"))));
}

bool config_tokens_differ(const ConfigTokens *list, const cJSON *added)
{
    for (int i = 0; i < list->n; i++) {
        bool found = false;
        for (const cJSON *one = cJSON_IsArray(added) ? added->child : NULL; one && !found;
             one = one->next)
            found = same(&list->token[i], one);
        if (!found)
            return true;
    }
    return false;
}
