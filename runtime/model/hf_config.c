/* hf_config.c -- compares and patches config.json, through families.def.
 *
 * In:    parsed config.json of transformers 4.x or 5.x.
 * Method: every key of a family becomes a short text (its value, or the family's default); equal
 *         texts are equal values. */
#define _GNU_SOURCE
#include "runtime/model/hf_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

typedef struct {
    const char *family, *key, *written;
    const char *value;                   /* JSON; NULL: factor * a / b; "": not compared */
    double factor;                       /* PERIOD: every how many layers one has full attention */
    const char *a, *b;
} ConfigKey;

enum { PERIOD = -1 };

static const ConfigKey config_keys[] = {
#define CONFIG_KEY(family, key, written, value) { #family, key, written, value, 0, "", "" },
#define DERIVED_KEY(family, key, written, factor, a, b) \
    { #family, key, written, NULL, factor, a, b },
#define PERIOD_KEY(family, key, written, value) { #family, key, written, value, PERIOD, "", "" },
#include "runtime/model/families.def"
};
static const struct { const char *family, *key, *path; } places[] = {
#define CONFIG_PLACE(family, key, path) { #family, key, path },
#include "runtime/model/families.def"
};
static const struct { const char *family, *key, *value, *as; } same_values[] = {
#define CONFIG_SAME(family, key, value, as) { #family, key, value, as },
#include "runtime/model/families.def"
};
static const struct { const char *family; double theta; } ropes[] = {
#define ROPE(family, theta) { #family, theta },
#include "runtime/model/families.def"
};
static const struct { const char *model_type, *text; } others[] = {
#define OTHER(model_type, text) { model_type, text },
#include "runtime/model/families.def"
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct { const char *name, *fields; } rope_types[] = {
#define ROPE_TYPE(name, fields) { name, fields },
#include "runtime/model/families.def"
};
static const struct { const char *name, *text; } rope_others[] = {
#define ROPE_OTHER(name, text) { name, text },
#include "runtime/model/families.def"
};
static const struct { const char *family, *key, *value, *on, *from; int first; } windows[] = {
#define WINDOW(family, key, value, on, from, first) { #family, key, value, on, from, first },
#include "runtime/model/families.def"
};

/* Scaling fields of any rope_type. */
#define ORIGINAL "original_max_position_embeddings"
static const char *const scaling_fields[] = {
    "factor", "low_freq_factor", "high_freq_factor", ORIGINAL,
};

bool hf_rope_counts(const char *type, const char *field)
{
    size_t n = strlen(field);
    for (size_t i = 0; i < COUNT(rope_types); i++)
        for (const char *p = rope_types[i].fields; !strcmp(rope_types[i].name, type) && *p;
             p += strcspn(p, " "), p += *p == ' ')
            if (!strncmp(p, field, n) && (!p[n] || p[n] == ' '))
                return true;
    return false;
}

static const char *family_of(const cJSON *config)
{
    const char *family = cJSON_GetStringValue(json_get(config, "model_type"));
    return family ? family : "";
}

/* Short text of a value: numbers are equal if they are equal in fp32, and a list of equal items
 * equals that item. */
static char *value_text(const cJSON *value)
{
    if (cJSON_IsNumber(value)) {
        double d = value->valuedouble;
        return floor(d) == d && fabs(d) < 0x1p53 ? format("%.0f", d) : format("%.9g", d);
    }
    if (cJSON_IsArray(value) && value->child) {
        char *first = value_text(value->child);
        for (const cJSON *item = value->child->next; item; item = item->next) {
            char *text = value_text(item);
            bool same = !strcmp(text, first);
            if (!same) {
                free(first);
                return text;
            }
            free(text);
        }
        return first;
    }
    char *text = value ? cJSON_PrintUnformatted(value) : strdup("absent");
    if (!text)
        die(EXIT_IO, "out of memory for a value of config.json");
    if (strlen(text) > 80)
        memcpy(text + 77, "...", 4);
    return text;
}

static double number(const cJSON *config, const char *family, const char *key);

static char *json_text(const char *text)
{
    cJSON *json = cJSON_Parse(text);
    char *value = value_text(json);
    cJSON_Delete(json);
    return value;
}

/* Replaces a value by its canonical synonym; frees `text` if so. */
static char *meant_text(const ConfigKey *row, char *text)
{
    for (size_t i = 0; i < COUNT(same_values); i++) {
        if (strcmp(same_values[i].family, row->family) || strcmp(same_values[i].key, row->key))
            continue;
        char *value = json_text(same_values[i].value);
        bool same = !strcmp(value, text);
        free(value);
        if (same) {
            free(text);
            return json_text(same_values[i].as);
        }
    }
    return text;
}

/* Returns the value at a dotted path; NULL: not present. */
static const cJSON *value_at(const cJSON *config, const char *path)
{
    const cJSON *value = config;
    for (const char *p = path; value && *p; p += strcspn(p, "."), p += *p == '.') {
        char *name = format("%.*s", (int)strcspn(p, "."), p);
        value = json_get(value, name);
        free(name);
    }
    return value && !cJSON_IsNull(value) ? value : NULL;
}

/* Returns the key's value; NULL: not present. */
static const cJSON *key_value(const cJSON *config, const ConfigKey *row)
{
    const cJSON *value = value_at(config, row->key);
    for (size_t i = 0; i < COUNT(places) && !value; i++)
        if (!strcmp(places[i].family, row->family) && !strcmp(places[i].key, row->key))
            value = value_at(config, places[i].path);
    return value;
}

char *hf_config_twice(const cJSON *config)
{
    char *error = NULL;
    for (size_t i = 0; i < COUNT(places) && !error; i++) {
        const cJSON *a = value_at(config, places[i].key), *b = value_at(config, places[i].path);
        if (strcmp(places[i].family, family_of(config)) || !a || !b)
            continue;
        char *first = value_text(a), *second = value_text(b);
        if (strcmp(first, second))
            error = format("%s is %s, but %s is %s: remove the wrong one", places[i].key, first,
                           places[i].path, second);
        free(first), free(second);
    }
    return error;
}

/* Full-attention period in layers; a period above the number of layers means none. For lists that
 * are not periodic: the list itself. */
static char *period_text(const cJSON *config, const ConfigKey *row)
{
    const cJSON *kinds = json_get(config, "layer_types"), *kind;
    const int layers = (int)number(config, row->family, "num_hidden_layers");
    int period = 0, at = 0;
    bool even = true;
    if (!cJSON_IsArray(kinds)) {
        const cJSON *value = key_value(config, row);
        char *text = value ? value_text(value) : json_text(row->value);
        if (atoi(text) <= layers)
            return text;
        free(text);
        return format("%d", layers + 1);
    }
    cJSON_ArrayForEach(kind, kinds) {
        const char *word = cJSON_GetStringValue(kind);
        const bool full = word && !strcmp(word, "full_attention");
        at++;
        even &= full || (word && !strcmp(word, "sliding_attention"));
        if (full && !period)
            period = at;
        even &= full == (period && at % period == 0);
    }
    if (!even || at != layers) {
        char *list = cJSON_PrintUnformatted(kinds);
        char *text = format("%.160s", list ? list : "");
        free(list);
        return text;
    }
    return format("%d", period ? period : layers + 1);
}

static char *key_text(const cJSON *config, const ConfigKey *row)
{
    if (row->factor == PERIOD)
        return period_text(config, row);
    const cJSON *value = key_value(config, row);
    if (value)
        return meant_text(row, value_text(value));
    if (row->value)
        return json_text(row->value);
    double a = number(config, row->family, row->a);
    double b = *row->b ? number(config, row->family, row->b) : 1;
    return format("%.9g", row->factor * a / b);
}

/* Recursion terminates: a derived row depends only on plain rows. */
static double number(const cJSON *config, const char *family, const char *key)
{
    for (size_t i = 0; i < COUNT(config_keys); i++) {
        const ConfigKey *row = &config_keys[i];
        if (strcmp(row->family, family) || strcmp(row->key, key))
            continue;
        char *text = key_text(config, row);
        double value = atof(text);
        free(text);
        return value;
    }
    return 0;
}

static void add(char **list, const char *what)
{
    char *longer = format("%s%s%s", *list ? *list : "", *list ? "; " : "", what);
    free(*list);
    *list = longer;
}

/* Adds the key to the list if its two values differ. */
static void compare(char **list, const char *key, const char *found, const char *wanted)
{
    char *what = format("%s is %s, this program was built for %s", key, found, wanted);
    if (strcmp(found, wanted))
        add(list, what);
    free(what);
}

static void compare_key(char **list, const cJSON *ours, const cJSON *theirs, const ConfigKey *row)
{
    char *want = key_text(ours, row), *found = key_text(theirs, row);
    compare(list, row->key, found, want);
    free(want);
    free(found);
}

#define LOCAL_THETA "rope_local_base_freq"

/* True if sliding-window layers have their own RoPE base. */
static bool rope_by_layer(const cJSON *config)
{
    for (size_t i = 0; i < COUNT(places); i++)
        if (!strcmp(places[i].family, family_of(config)) && !strcmp(places[i].key, LOCAL_THETA))
            return true;
    return false;
}

/* Returns the type of rotary embeddings, a string in files that are right; NULL: none. */
static const cJSON *rope_type(const cJSON *object)
{
    const cJSON *type = json_get(object, "rope_type");
    return type ? type : json_get(object, "type");
}

/* Returns NULL, or why no recipe can express the rotary embeddings of config.json, whose `object`
 * holds them, malloc'ed: rope_parameters if is_new, else rope_scaling. */
static char *rope_error(const cJSON *config, const cJSON *object, bool is_new)
{
    const cJSON *theta = json_get(config, "rope_theta"), *inner = json_get(object, "rope_theta");
    if ((theta && !cJSON_IsNumber(theta) && !cJSON_IsNull(theta)) ||
        (inner && !cJSON_IsNumber(inner) && !cJSON_IsNull(inner)))
        return format("rope_theta must be a number");
    if (cJSON_IsNumber(theta) && cJSON_IsNumber(inner) && theta->valuedouble != inner->valuedouble)
        return format("rope_theta is %.9g and rope_parameters.rope_theta %.9g",
                      theta->valuedouble, inner->valuedouble);
    const cJSON *type = rope_type(object);
    const char *name = cJSON_GetStringValue(type);
    if (type && !name && !cJSON_IsNull(type))
        return format("rope_type must be a string");
    for (size_t i = 0; i < COUNT(rope_others) && name; i++)
        if (!strcmp(rope_others[i].name, name))
            return format("%s.%s is \"%s\": %s: not supported",
                          is_new ? "rope_parameters" : "rope_scaling", type->string, name,
                          rope_others[i].text);
    const cJSON *part = json_get(object, "partial_rotary_factor");
    if (!part || cJSON_IsNull(part))
        part = json_get(config, "partial_rotary_factor");
    if (part && !cJSON_IsNull(part) && !(cJSON_IsNumber(part) && part->valuedouble == 1)) {
        char *text = value_text(part);
        char *error = format("partial_rotary_factor is %s: rotating only part of each head is not "
                             "supported", text);
        free(text);
        return error;
    }
    if (!rope_by_layer(config) && (json_get(object, "full_attention") ||
                                   json_get(object, "sliding_attention")))
        return format("rope_parameters has one object a kind of layers: not supported in the "
                      "family %.40s", family_of(config));
    const cJSON *pretrained = json_get(object, ORIGINAL), *outer = json_get(config, ORIGINAL);
    if (outer && !cJSON_IsNull(outer) && name && hf_rope_counts(name, ORIGINAL) &&
        !cJSON_Compare(outer, pretrained, true)) {
        char *a = value_text(outer), *b = value_text(pretrained);
        char *error = format(ORIGINAL " is %s, and %s in the object of the rotary embeddings: "
                             "remove the wrong one", a, b);
        free(a), free(b);
        return error;
    }
    return NULL;
}

/* Returns one object from the keys of transformers 4 and 5: rope_theta, rope_type and any scaling
 * fields. NULL and *error if the two sets of keys contradict each other or no recipe can express
 * them. */
static cJSON *rope(const cJSON *config, double default_theta, char **error)
{
    const cJSON *new = json_get(config, "rope_parameters"), *old = json_get(config, "rope_scaling");
    if (rope_by_layer(config) && json_get(new, "full_attention"))
        new = json_get(new, "full_attention");
    const cJSON *object = cJSON_IsObject(new) ? new : cJSON_IsObject(old) ? old : NULL;
    *error = rope_error(config, object, object == new);
    if (*error)
        return NULL;
    const cJSON *theta = json_get(config, "rope_theta"), *inner = json_get(object, "rope_theta");
    const char *name = cJSON_GetStringValue(rope_type(object));
    cJSON *one = cJSON_CreateObject();
    const cJSON *base = cJSON_IsNumber(inner) ? inner : theta;
    if (cJSON_IsNumber(base))
        cJSON_AddItemToObject(one, "rope_theta", cJSON_Duplicate(base, true));
    else
        cJSON_AddNumberToObject(one, "rope_theta", default_theta);
    cJSON_AddStringToObject(one, "rope_type", name ? name : "default");
    for (size_t i = 0; i < COUNT(scaling_fields) && name; i++) {
        const cJSON *value = json_get(object, scaling_fields[i]);
        if (value && hf_rope_counts(name, scaling_fields[i]))
            cJSON_AddItemToObject(one, scaling_fields[i], cJSON_Duplicate(value, true));
    }
    return one;
}

/* In the format of transformers 5. */
static cJSON *rope_parameters(const cJSON *config, const cJSON *one)
{
    cJSON *copy = cJSON_Duplicate(one, true);
    if (!rope_by_layer(config))
        return copy;
    cJSON *both = cJSON_CreateObject(), *local = cJSON_CreateObject();
    cJSON_AddStringToObject(local, "rope_type", "default");
    cJSON_AddNumberToObject(local, "rope_theta", number(config, family_of(config), LOCAL_THETA));
    cJSON_AddItemToObject(both, "full_attention", copy);
    cJSON_AddItemToObject(both, "sliding_attention", local);
    return both;
}

static char *compare_ropes(const cJSON *want, const cJSON *found)
{
    char *list = NULL;
    for (size_t i = 0; i < COUNT(scaling_fields) + 2; i++) {
        const char *key = i == 0 ? "rope_theta" : i == 1 ? "rope_type" : scaling_fields[i - 2];
        char *a = value_text(json_get(want, key)), *b = value_text(json_get(found, key));
        compare(&list, key, b, a);
        free(a);
        free(b);
    }
    return list;
}

/* Keys of transformers 4 and 5 in one file must not contradict each other either. */
static char *compare_generations(const cJSON *config, double theta)
{
    if (!cJSON_IsObject(json_get(config, "rope_parameters")) ||
        !cJSON_IsObject(json_get(config, "rope_scaling")))
        return NULL;
    cJSON *copy = cJSON_Duplicate(config, true);
    cJSON_DeleteItemFromObjectCaseSensitive(copy, "rope_parameters");
    char *error = NULL, *inner = NULL;
    cJSON *new = rope(config, theta, &error), *old = new ? rope(copy, theta, &error) : NULL;
    /* transformers takes the default base then, unless layers have two */
    if (old && !json_get(config, "rope_theta") && rope_by_layer(config))
        cJSON_SetNumberValue(json_get(old, "rope_theta"), json_get(new, "rope_theta")->valuedouble);
    inner = old ? compare_ropes(new, old) : NULL;
    if (inner)
        error = format("rope_scaling contradicts rope_parameters");
    free(inner);
    cJSON_Delete(old);
    cJSON_Delete(new);
    cJSON_Delete(copy);
    return error;
}

static char *compare_rope(const cJSON *ours, const cJSON *theirs, double theta)
{
    char *error = compare_generations(theirs, theta);
    if (error)
        return error;
    cJSON *want = rope(ours, theta, &error), *found = want ? rope(theirs, theta, &error) : NULL;
    if (found)
        error = compare_ropes(want, found);
    cJSON_Delete(want);
    cJSON_Delete(found);
    return error;
}

cJSON *hf_config_rope(const cJSON *config, char **error)
{
    for (size_t i = 0; i < COUNT(ropes); i++)
        if (!strcmp(ropes[i].family, family_of(config))) {
            *error = compare_generations(config, ropes[i].theta);
            return *error ? NULL : rope(config, ropes[i].theta, error);
        }
    return NULL;
}

int hf_config_keys(const cJSON *config, HfKey **keys)
{
    HfKey *key = calloc(COUNT(config_keys), sizeof *key);
    int n = 0;
    if (!key)
        die(EXIT_IO, "out of memory for the keys of config.json");
    for (size_t i = 0; i < COUNT(config_keys); i++) {
        const ConfigKey *row = &config_keys[i];
        if (strcmp(row->family, family_of(config)))
            continue;
        const cJSON *value = key_value(config, row);
        cJSON *written = *row->written ? cJSON_Parse(row->written) : NULL;
        key[n++] = (HfKey){
            .key = row->key, .written = row->written, .compared = !row->value || *row->value,
            .there = value, .wanted = written ? meant_text(row, value_text(written)) : NULL,
            /* unknown for an absent key that is not compared */
            .value = row->value && !*row->value && !value ? NULL : key_text(config, row),
        };
        cJSON_Delete(written);
    }
    *keys = key;
    return n;
}

const char *hf_config_other(const char *model_type)
{
    for (size_t i = 0; model_type && i < COUNT(others); i++)
        if (!strcmp(others[i].model_type, model_type))
            return others[i].text;
    return NULL;
}

static bool is_on(const cJSON *how, const char *key, const char *older)
{
    return cJSON_IsTrue(json_get(how, key)) || cJSON_IsTrue(json_get(how, older));
}

/* Message if bitsandbytes' quantisation is not NF4 as in runtime/nf4.h. */
static char *bitsandbytes(const cJSON *how)
{
    const char *type = cJSON_GetStringValue(json_get(how, "bnb_4bit_quant_type")),
               *storage = cJSON_GetStringValue(json_get(how, "bnb_4bit_quant_storage"));
    if (!is_on(how, "load_in_4bit", "_load_in_4bit"))
        return format("load_in_8bit: int8 weights are not supported");
    if (!type || strcmp(type, "nf4"))
        return format("bnb_4bit_quant_type is %.40s: supported is nf4",
                      type ? type : "fp4");
    if (!cJSON_IsTrue(json_get(how, "bnb_4bit_use_double_quant")))
        return format("bnb_4bit_use_double_quant is not true: supported is NF4 with double "
                      "quantisation");
    if (storage && strcmp(storage, "uint8"))
        return format("bnb_4bit_quant_storage is %.40s: supported is uint8", storage);
    return NULL;
}

static char *quantised(const cJSON *how)
{
    if (!how || cJSON_IsNull(how))
        return NULL;
    const char *method = cJSON_GetStringValue(json_get(how, "quant_method"));
    const cJSON *number = json_get(how, "bits");
    char *bits = NULL, *error = NULL;
    if (method && !strcmp(method, "bitsandbytes")) {
        char *fault = bitsandbytes(how);
        if (fault)
            error = format("quantization_config (bitsandbytes): %s; use the original model", fault);
        free(fault);
        return error;
    }
    bits = cJSON_IsNumber(number) ? format(", %g bits", number->valuedouble) : format("%s", "");
    error = format("quantization_config (%.40s%s): quantised weights are not supported; use the "
                   "original model", method ? method : "of no quant_method", bits);
    free(bits);
    return error;
}

bool hf_config_is_nf4(const cJSON *config)
{
    const cJSON *how = json_get(config, "quantization_config");
    char *fault = quantised(how);
    free(fault);
    return how && !cJSON_IsNull(how) && !fault;
}

/* True if some layers have the window. *error: a layer is of an unsupported kind. */
static bool windowed(const cJSON *config, const char *family, const char *from, int first,
                     char **error)
{
    const cJSON *begin = json_get(config, from), *types = json_get(config, "layer_types"), *type;
    bool some = false;
    if (!cJSON_IsArray(types))
        return number(config, family, "num_hidden_layers") >
               (cJSON_IsNumber(begin) ? begin->valuedouble : first);
    cJSON_ArrayForEach(type, types) {
        const char *word = cJSON_GetStringValue(type);
        some = some || (word && !strcmp(word, "sliding_attention"));
        const bool known = word && (!strcmp(word, "sliding_attention") ||
                                    !strcmp(word, "full_attention"));
        if (!*error && !known)
            *error = format("layer_types has %.40s: supported are full_attention and "
                            "sliding_attention", word ? word : "a value that is not a string");
    }
    return some;
}

int64_t hf_config_window(const cJSON *config, char **error)
{
    *error = NULL;
    for (size_t i = 0; i < COUNT(windows); i++) {
        if (strcmp(windows[i].family, family_of(config)))
            continue;
        const cJSON *size = json_get(config, windows[i].key);
        bool on = !*windows[i].on || cJSON_IsTrue(json_get(config, windows[i].on));
        bool some = !*windows[i].from || windowed(config, windows[i].family, windows[i].from,
                                                  windows[i].first, error);
        if (*error || !on || !some || cJSON_IsNull(size))
            return 0;
        double keys = cJSON_IsNumber(size) ? size->valuedouble : size ? 0 : atof(windows[i].value);
        if (keys < 1 || keys > 0x1p53 || keys != floor(keys)) {
            char *text = value_text(size);
            *error = format("%s is %s: must be null or a number of tokens, at least 1",
                            windows[i].key, text);
            free(text);
            return 0;
        }
        return (int64_t)keys;
    }
    return 0;
}

int64_t hf_config_padding(const cJSON *config)
{
    for (size_t i = 0; i < COUNT(config_keys); i++) {
        const ConfigKey *row = &config_keys[i];
        if (strcmp(row->family, family_of(config)) || strcmp(row->written, "model.pad"))
            continue;
        const cJSON *id = key_value(config, row);
        return cJSON_IsNumber(id)   ? (int64_t)id->valuedouble
               : !id && *row->value ? atoll(row->value)
                                    : -1;
    }
    return -1;
}

/* A window at least as long as the sequences has no effect. */
static char *outgrown(const cJSON *config, int64_t longest)
{
    char *error;
    int64_t window = hf_config_window(config, &error);
    if (error || !window || longest <= window)
        return error;
    return format("sliding_window is %" PRId64 " tokens, but this program was built for "
                  "sequences of %" PRId64 "; generate it with seq.max=%" PRId64 " or less",
                  window, longest, window);
}

/* Returns a message if the model has fewer positions than a sequence, malloc'ed; NULL: it has
 * enough. The rows of most families do not compare positions. */
static char *overlong(const cJSON *config, int64_t longest)
{
    for (size_t i = 0; i < COUNT(config_keys); i++) {
        const ConfigKey *row = &config_keys[i];
        const cJSON *n = key_value(config, row);
        if (!strcmp(row->family, family_of(config)) && !strcmp(row->written, "model.positions") &&
            cJSON_IsNumber(n) && n->valuedouble < (double)longest)
            return format("%s is %.0f, but this program was built for sequences of %" PRId64
                          "; generate it with seq.max=%.0f or less", row->key, n->valuedouble,
                          longest, n->valuedouble);
    }
    return NULL;
}

/* Returns what is wrong with one id of a key, malloc'ed; NULL: nothing. */
static char *wrong_id(const char *key, const cJSON *id, double vocab)
{
    if (!cJSON_IsNumber(id) || id->valuedouble != floor(id->valuedouble) || id->valuedouble < -1) {
        char *text = cJSON_PrintUnformatted(id), *wrong;
        wrong = format("%s is %.60s: must be a token id or null", key, text ? text : "?");
        free(text);
        return wrong;
    }
    return !vocab || id->valuedouble < vocab ? NULL
           : format("%s is %.0f, but vocab_size is %.0f", key, id->valuedouble, vocab);
}

char *hf_config_ids(const cJSON *config, double vocab)
{
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    char *wrong = NULL;
    for (size_t i = 0; i < COUNT(keys) && !wrong; i++) {
        const cJSON *id = json_get(config, keys[i]);
        if (id && !cJSON_IsNull(id) && !cJSON_IsArray(id))
            wrong = wrong_id(keys[i], id, vocab);
        for (const cJSON *one = cJSON_IsArray(id) ? id->child : NULL; one && !wrong;
             one = one->next)
            wrong = wrong_id(keys[i], one, vocab);
    }
    return wrong;
}

/* Returns a message if special token ids are outside the vocabulary, or layer_types has another
 * number of layers; NULL: all is well. transformers fails with such files, some of them later. */
static char *contradicts(const cJSON *config)
{
    const cJSON *kinds = json_get(config, "layer_types");
    const int n = cJSON_GetArraySize(kinds);
    const double layers = number(config, family_of(config), "num_hidden_layers");
    if (cJSON_IsArray(kinds) && layers > 0 && n != layers)
        return format("layer_types has %d layers, but num_hidden_layers is %.0f", n, layers);
    return hf_config_ids(config, number(config, family_of(config), "vocab_size"));
}

void hf_config_fewer(cJSON *ours, const cJSON *theirs)
{
    cJSON *own = json_get(ours, "vocab_size");
    const cJSON *found = json_get(theirs, "vocab_size");
    if (cJSON_IsNumber(own) && cJSON_IsNumber(found) && found->valuedouble == own->valuedouble - 1)
        cJSON_SetNumberValue(own, found->valuedouble);
}

char *hf_config_differs(const cJSON *ours, const cJSON *theirs, int64_t longest)
{
    const char *family = family_of(ours), *other = family_of(theirs);
    char *list = NULL;
    if (!cJSON_IsObject(theirs))
        return format("not a JSON object");
    if (strcmp(family, other)) {
        compare(&list, "model_type", *other ? other : "absent", family);
        if (hf_config_other(other)) {
            char *longer = format("%s: not supported: %s", list, hf_config_other(other));
            free(list);
            return longer;
        }
        return list;
    }
    if ((list = quantised(json_get(theirs, "quantization_config"))))
        return list;
    if ((list = hf_config_twice(theirs)))
        return list;
    for (size_t i = 0; i < COUNT(config_keys); i++)
        if (!strcmp(config_keys[i].family, family) &&
            (!config_keys[i].value || *config_keys[i].value))
            compare_key(&list, ours, theirs, &config_keys[i]);
    for (size_t i = 0; i < COUNT(ropes); i++) {
        char *what = !strcmp(ropes[i].family, family)
                         ? compare_rope(ours, theirs, ropes[i].theta) : NULL;
        if (what)
            add(&list, what);
        free(what);
    }
    char *wrong[] = {outgrown(theirs, longest), overlong(theirs, longest),
                     list ? NULL : contradicts(theirs)};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        if (wrong[i])
            add(&list, wrong[i]);
        free(wrong[i]);
    }
    return list;
}

static void set(cJSON *object, const char *key, cJSON *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    cJSON_AddItemToObject(object, key, value);
}

void hf_config_patch(cJSON *config, const char *dtype)
{
    cJSON_DeleteItemFromObjectCaseSensitive(config, "quantization_config");
    set(config, "dtype", cJSON_CreateString(dtype));
    set(config, "torch_dtype", cJSON_CreateString(dtype));
    for (size_t i = 0; i < COUNT(ropes); i++) {
        char *error = NULL;
        cJSON *one = !strcmp(ropes[i].family, family_of(config))
                         ? rope(config, ropes[i].theta, &error) : NULL;
        free(error);
        if (!one)
            continue;
        const char *type = cJSON_GetStringValue(json_get(one, "rope_type"));
        if (!json_get(config, "rope_scaling") && strcmp(type, "default")) {
            cJSON *old = cJSON_Duplicate(one, true);
            cJSON_DeleteItemFromObjectCaseSensitive(old, "rope_theta");
            set(config, "rope_scaling", old);
        }
        if (!json_get(config, "rope_theta"))
            set(config, "rope_theta", cJSON_Duplicate(json_get(one, "rope_theta"), true));
        if (rope_by_layer(config) && !json_get(config, LOCAL_THETA))
            set(config, LOCAL_THETA,
                cJSON_CreateNumber(number(config, family_of(config), LOCAL_THETA)));
        if (!json_get(config, "rope_parameters"))
            set(config, "rope_parameters", rope_parameters(config, one));
        cJSON_Delete(one);
    }
}

void hf_config_special(cJSON *config, int64_t mask, int64_t pad)
{
    const struct {
        const char *key;
        int64_t id;
    } ids[] = {{"mask_token_id", mask}, {"pad_token_id", pad}};
    for (size_t i = 0; i < COUNT(ids); i++)
        if (ids[i].id >= 0 && json_get(config, ids[i].key))
            set(config, ids[i].key, cJSON_CreateNumber((double)ids[i].id));
}

bool hf_config_ties(const cJSON *config)
{
    bool ties = false;
    for (size_t i = 0; i < COUNT(config_keys); i++) {
        if (strcmp(config_keys[i].family, family_of(config)) ||
            strcmp(config_keys[i].key, "tie_word_embeddings"))
            continue;
        char *text = key_text(config, &config_keys[i]);
        ties = !strcmp(text, "true");
        free(text);
    }
    return ties;
}
