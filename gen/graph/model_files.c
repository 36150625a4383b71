/* model_files.c -- config.json, adapter_config.json and the model fields of checkpoints.
 *
 * In:    the model.* and lora.* fields, parameters of the graph.
 * Out:   text.
 * Keeps: keys and names of transformers and PEFT; keys that were renamed are written in both
 *        spellings. */
#define _GNU_SOURCE
#include "gen/config/objective.h"
#include "gen/config/rules.h"
#include "gen/graph/graph.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/json.h"

/* True if checkpoints of the recipe compare the field. */
static bool is_compared(const Config *c, int field)
{
    static const char *const also[] = {"precision", "objective", "data.kind", "optim.decay_rule"},
        *const shapeless[] = {"lora.dropout", "lora.fold", "lora.base", "model.init_std",
                              "model.dropout", "model.attention_dropout", "model.pad"};
    const char *path = field_row[field].path;
    bool wanted = !strncmp(path, "model.", 6) || !strncmp(path, "lora.", 5) ||
                  objective_owns(c->v[F_objective].s, path);
    for (size_t j = 0; j < sizeof also / sizeof also[0]; j++)
        wanted |= !strcmp(path, also[j]);
    for (size_t j = 0; j < sizeof shapeless / sizeof shapeless[0]; j++)
        wanted &= strcmp(path, shapeless[j]) != 0;
    const char *free_field = config_rules(c)->free_field;
    return wanted && field_applies(c, field) && (!free_field || strcmp(path, free_field));
}

char *model_fields(const Config *c)
{
    Str s = {0};
    for (int i = 0; i < NFIELDS; i++)
        if (is_compared(c, i))
            str_print(&s, "%s=%s\n", field_row[i].path, value_print(field_row[i].type, &c->v[i]));
    return s.text;
}

static cJSON *named_modules(const Graph *g, const Config *c);

char *other_fields(const Graph *g, const Config *c)
{
    const char *list = field_row[F_lora_targets].path;
    const int64_t update = c->v[F_batch_micro].i * c->v[F_batch_accum].i * c->v[F_gpus].i;
    Str s = {0};
    for (int i = 0; i < NFIELDS; i++) {
        if (i == F_name || i == F_about || !field_applies(c, i) || field_of_cluster(i) ||
            (g && is_compared(c, i)))
            continue;
        str_print(&s, "%s=%s\n", field_row[i].path, value_print(field_row[i].type, &c->v[i]));
        if (i == F_batch_global && field_applies(c, F_batch_micro) && c->v[i].i != update)
            str_print(&s, "%s=%" PRId64 "\n", field_row[i].path, update);
    }
    if (!g || !c->v[F_lora_rank].i)
        return s.text;
    cJSON *leaves = named_modules(g, c), *leaf;
    FieldValue all = {.list = arena_new((size_t)cJSON_GetArraySize(leaves) * sizeof *all.list)};
    cJSON_ArrayForEach(leaf, leaves)
        all.list[all.n++] = text_copy(leaf->valuestring);
    cJSON_Delete(leaves);
    str_print(&s, "%s=%s\n", list, value_print(FT_LIST, &all));
    return s.text;
}

/* ---- JSON files ------------------------------------------------------------------------------ */

char *json_text(cJSON *json)
{
    char *text;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    if (!to || !json_write_hf(to, json) || fclose(to))
        bug("cannot print JSON");
    char *copy = text_copy(text);
    free(text);
    cJSON_Delete(json);
    return copy;
}

static void add_int(cJSON *o, const char *key, int64_t n)
{
    cJSON_AddNumberToObject(o, key, (double)n);
}

/* -1: none. */
static void add_id(cJSON *o, const char *key, int64_t id)
{
    if (id < 0)
        cJSON_AddNullToObject(o, key);
    else
        add_int(o, key, id);
}

static void add_rope(Config *c, cJSON *o, bool layered)
{
    double theta = config_float(c, F_model_rope_theta);
    bool scaled = !config_is(c, F_model_rope_scaling, "none");
    bool llama3 = config_is(c, F_model_rope_scaling, "llama3");
    const char *type = scaled ? config_text(c, F_model_rope_scaling) : "default";
    cJSON *both = cJSON_AddObjectToObject(o, "rope_parameters"), *parameters = both,
          *scaling = NULL;
    if (layered) {
        cJSON *local = cJSON_AddObjectToObject(both, "sliding_attention");
        parameters = cJSON_AddObjectToObject(both, "full_attention");
        json_add_float(local, "rope_theta", config_float(c, F_model_rope_local_theta));
        cJSON_AddStringToObject(local, "rope_type", "default");
    }
    json_add_float(o, "rope_theta", theta);
    json_add_float(parameters, "rope_theta", theta);
    cJSON_AddStringToObject(parameters, "rope_type", type);
    if (scaled)
        scaling = cJSON_AddObjectToObject(o, "rope_scaling");
    else
        cJSON_AddNullToObject(o, "rope_scaling");
    for (int i = 0; scaled && i < 2; i++) {
        cJSON *to = i ? scaling : parameters;
        json_add_float(to, "factor", config_float(c, F_model_rope_factor));
        if (llama3) {
            json_add_float(to, "low_freq_factor", config_float(c, F_model_rope_low_freq_factor));
            json_add_float(to, "high_freq_factor", config_float(c, F_model_rope_high_freq_factor));
            add_int(to, "original_max_position_embeddings",
                    config_int(c, F_model_rope_original_positions));
        }
        if (i)
            cJSON_AddStringToObject(to, "rope_type", type);
    }
}

static void add_field(Config *c, cJSON *o, const char *key, int field)
{
    switch (field_row[field].type) {
    case FT_BOOL: cJSON_AddBoolToObject(o, key, config_bool(c, field)); break;
    case FT_INT: add_id(o, key, config_int(c, field)); break;
    case FT_FLOAT: json_add_float(o, key, config_float(c, field)); break;
    default: bug("config.json: %s is no number", field_row[field].path);
    }
}

/* JSON value of a row; a number with a point keeps it. */
static void add_literal(cJSON *o, const char *key, const char *json)
{
    cJSON *value = cJSON_Parse(json);
    if (!value)
        bug("families.def: %s is no JSON: %s", key, json);
    if (cJSON_IsNumber(value) && strpbrk(json, ".e")) {
        json_add_float(o, key, value->valuedouble);
        cJSON_Delete(value);
    } else {
        cJSON_AddItemToObject(o, key, value);
    }
}

/* Rows of families.def that config.json has; written: a field's path, or JSON. */
static const struct { const char *family, *key, *written; } config_keys[] = {
#define CONFIG_KEY(family, key, written, value) {#family, key, written},
#define DERIVED_KEY(family, key, written, factor, a, b) {#family, key, written},
#define PERIOD_KEY(family, key, written, value) {#family, key, written},
#include "runtime/model/families.def"
};

/* A family's row replaces the row of all families. */
static void add_keys(Config *c, cJSON *o, const char *family)
{
    for (size_t i = 0; i < sizeof config_keys / sizeof config_keys[0]; i++) {
        const char *key = config_keys[i].key, *written = config_keys[i].written;
        if (strcmp(config_keys[i].family, family) || !*written)
            continue;
        int field = 0;
        while (field < NFIELDS && strcmp(field_row[field].path, written))
            field++;
        if (field == F_model_pad && config_int(c, field) < 0)
            continue;        /* transformers' default without the key is none */
        if (field == NFIELDS || field_applies(c, field))
            cJSON_DeleteItemFromObjectCaseSensitive(o, key);
        if (field == NFIELDS)
            add_literal(o, key, written);
        else if (field_applies(c, field))
            add_field(c, o, key, field);
    }
}

static const FamilyClass *class_of(const Graph *g)
{
    const FamilyClass *class = family_class(g->family, objective_find(g->objective)->head);
    if (!class)
        bug("%s has no class for the objective %s", g->family, g->objective);
    return class;
}

char *model_config_json(const Graph *g, Config *c)
{
    const char *dtype = config_is(c, F_precision, "fp32") ? "float32" : "bfloat16";
    cJSON *o = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(o, "architectures");
    cJSON_AddItemToArray(list, cJSON_CreateString(class_of(g)->class));
    cJSON_AddStringToObject(o, "model_type", g->family);
    json_add_float(o, "initializer_range", config_float(c, F_model_init_std));
    add_id(o, "bos_token_id", config_int(c, F_model_bos));
    add_id(o, "eos_token_id", config_int(c, F_model_eos));
    cJSON_AddStringToObject(o, "torch_dtype", dtype);
    cJSON_AddStringToObject(o, "dtype", dtype);
    cJSON_AddTrueToObject(o, "use_cache");
    add_keys(c, o, g->family);
    const Family *f = family_find(g->family);
    if (f->rotary && !family_writes(f, "model.rope_theta"))
        add_rope(c, o, f->layered);
    return json_text(o);
}

/* Last path components of the modules with adapters. */
static cJSON *target_modules(const Graph *g)
{
    const char *leaf[32];
    int n = 0;
    for (int i = 0; i < g->nvalues; i++)
        for (int j = 0; g->values[i]->kind == VK_PARAM && j < g->values[i]->npieces; j++) {
            const char *name = g->values[i]->piece[j].name, *end = strstr(name, ".lora_A.weight");
            if (!end)
                continue;
            const char *start = end;
            while (start[-1] != '.')
                start--;
            const char *word = text_print("%.*s", (int)(end - start), start);
            bool known = false;
            for (int k = 0; k < n; k++)
                known |= !strcmp(leaf[k], word);
            if (!known && n < 32)
                leaf[n++] = word;
        }
    qsort(leaf, (size_t)n, sizeof leaf[0], text_order);
    return cJSON_CreateStringArray(leaf, n);
}

/* The same for PEFT; if the recipe has paths, because modules without adapters may share their last
 * component. */
static cJSON *named_modules(const Graph *g, const Config *c)
{
    const FieldValue *v = &c->v[F_lora_targets];
    for (int i = 0; i < v->n; i++)
        if (strchr(v->list[i], '.')) {
            const char **word = arena_new((size_t)v->n * sizeof *word);
            memcpy(word, v->list, (size_t)v->n * sizeof *word);
            qsort(word, (size_t)v->n, sizeof *word, text_order);
            return cJSON_CreateStringArray(word, v->n);
        }
    return target_modules(g);
}

/* PEFT matches the end of a module's path, so the head must not be named like a module of the
 * blocks that has adapters. */
static void add_excluded(const Graph *g, cJSON *o)
{
    const char *head = family_find(g->family)->head;
    cJSON *targets = target_modules(g), *target;
    cJSON_ArrayForEach(target, targets)
        if (!strcmp(target->valuestring, family_leaf(head)))
            cJSON_AddItemToObject(o, "exclude_modules", cJSON_CreateStringArray(&head, 1));
    cJSON_Delete(targets);
}

/* Layers that the family does not have, trained along with adapters: first components of their
 * paths. */
static void add_layers(const Graph *g, cJSON *list)
{
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (!v->optional_in_checkpoint || !v->adapter)
            continue;
        char *name = text_print("%.*s", (int)strcspn(v->piece[0].name, "."), v->piece[0].name);
        bool there = false;
        const cJSON *one;
        cJSON_ArrayForEach(one, list)
            there |= !strcmp(one->valuestring, name);
        if (!there)
            cJSON_AddItemToArray(list, cJSON_CreateString(name));
    }
}

char *model_adapter_json(const Graph *g, Config *c)
{
    if (!config_int(c, F_lora_rank))
        return NULL;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToObject(o, "alpha_pattern", cJSON_CreateObject());
    cJSON_AddNullToObject(o, "base_model_name_or_path");
    cJSON_AddStringToObject(o, "bias", "none");
    add_excluded(g, o);
    cJSON_AddBoolToObject(o, "fan_in_fan_out", family_find(g->family)->transposed);
    cJSON_AddTrueToObject(o, "inference_mode");
    cJSON_AddTrueToObject(o, "init_lora_weights");
    cJSON_AddNullToObject(o, "layers_pattern");
    cJSON_AddNullToObject(o, "layers_to_transform");
    double alpha = config_float(c, F_lora_alpha);
    if (alpha == (double)(int64_t)alpha)
        add_int(o, "lora_alpha", (int64_t)alpha);
    else
        json_add_float(o, "lora_alpha", alpha);
    json_add_float(o, "lora_dropout", config_float(c, F_lora_dropout));
    const FieldValue *saved = &c->v[F_lora_modules_to_save];
    cJSON *whole = cJSON_CreateArray();
    for (int i = 0; i < saved->n; i++)
        cJSON_AddItemToArray(whole, cJSON_CreateString(saved->list[i]));
    add_layers(g, whole);
    cJSON_AddItemToObject(o, "modules_to_save",
                          cJSON_GetArraySize(whole) ? whole : cJSON_CreateNull());
    cJSON_AddStringToObject(o, "peft_type", "LORA");
    add_int(o, "r", config_int(c, F_lora_rank));
    cJSON_AddItemToObject(o, "rank_pattern", cJSON_CreateObject());
    cJSON_AddNullToObject(o, "revision");
    cJSON_AddItemToObject(o, "target_modules", named_modules(g, c));
    if (*class_of(g)->task)
        cJSON_AddStringToObject(o, "task_type", class_of(g)->task);
    else
        cJSON_AddNullToObject(o, "task_type");
    if (ir_value(g, "wte.last")) {
        const int last = (int)config_int(c, F_model_vocab) - 1;
        const char *table = family_leaf(family_find(g->family)->tokens);
        cJSON_AddItemToObject(cJSON_AddObjectToObject(o, "trainable_token_indices"), table,
                              cJSON_CreateIntArray(&last, 1));
    }
    cJSON_AddFalseToObject(o, "use_dora");
    cJSON_AddBoolToObject(o, "use_rslora", config_bool(c, F_lora_rslora));
    return json_text(o);
}

/* ---- the contract: repeated facts agree ---------------------------------------------------- */

static const struct { int field; const char *size; } sized[] = {
    {F_model_layers, "L"}, {F_model_hidden, "C"},   {F_model_heads, "H"},
    {F_model_kv_heads, "K"}, {F_model_head_dim, "D"}, {F_model_ffn, "F"},
    {F_model_vocab, "V"},  {F_model_positions, "P"}, {F_lora_rank, "R"}};
enum { SIZED = sizeof sized / sizeof sized[0] };

/* Expected line of model_fields; NULL: nothing else determines it. */
static char *wanted_line(const Graph *g, int field)
{
    const struct {
        int field;
        const char *text;
    } words[] = {{F_precision, g->setting[SETTING_precision].text},
                 {F_data_kind, g->setting[SETTING_data_kind].text},
                 {F_objective, g->objective},
                 {F_model_family, g->family}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].field == field)
            return text_print("%s=\"%s\"", field_row[field].path, words[i].text);
    for (int i = 0; i < SIZED; i++)
        if (sized[i].field == field && (field == F_lora_rank || ir_size(g, sized[i].size)))
            return text_print("%s=%" PRId64, field_row[field].path, ir_size(g, sized[i].size));
    return NULL;
}

/* Expected value of a field, if the n bytes at value are not valid; NULL: they are. Fields that
 * nothing sets may be 0. */
static char *value_fault(int field, const char *text, size_t n)
{
    const FieldRow *row = &field_row[field];
    const char *p = text;
    FieldValue v = {0};
    const bool bad = value_parse(row->type, &p, &v) || p != text + n,
               number = row->type == FT_INT || row->type == FT_FLOAT;
    if (bad || (number && v.f != 0 && !(v.f >= row->lo && v.f <= row->hi)) ||
        (row->type == FT_CHOICE && !choice_find(field_choices(field), v.s, &v.i)))
        return range_print(row->type, row->lo, row->hi, field_choices(field));
    return NULL;
}

/* Lines of known fields with values that they may have; once: each field has one. */
static char *lines_fault(const char *lines, bool once)
{
    bool there[NFIELDS] = {false};
    for (const char *p = lines; *p; p += *p == '\n') {
        const size_t all = strcspn(p, "\n"), path = strcspn(p, "=\n");
        const int field = field_find(text_print("%.*s", (int)path, p));
        const char *value = p + path + (path < all);
        const char *want = field < 0 ? NULL : value_fault(field, value, all - (size_t)(value - p));
        if (field < 0)
            return text_print("%.*s is no line FIELD=VALUE", (int)all, p);
        if (there[field] && once)
            return text_print("%s appears twice", field_row[field].path);
        if (want)
            return text_print("%s: must be %s, found %.*s", field_row[field].path, want,
                              (int)(p + all - value), value);
        there[field] = true;
        p += all;
    }
    return NULL;
}

/* The line of `lines` that begins with the field's path; NULL: none. */
static const char *line_in(const char *lines, const char *path)
{
    const size_t n = strlen(path);
    for (const char *p = lines; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (!strncmp(p, path, n) && p[n] == '=')
            return p;
    return NULL;
}

static char *fields_fault(const Graph *g)
{
    const char *lines = g->setting[SETTING_model_fields].text;
    Config c = {0};
    c.v[F_objective].s = g->objective;
    c.v[F_model_family].s = g->family;
    for (int i = 0; i < NFIELDS; i++) {
        const char *want = wanted_line(g, i), *path = field_row[i].path,
                   *line = line_in(lines, path);
        const size_t n = line ? strcspn(line, "\n") : 0;
        if (want && (n != strlen(want) || strncmp(line, want, n)))
            return text_print("expected the line %s, found %.*s", want, line ? (int)n : 4,
                              line ? line : "none");
        if (!line && is_compared(&c, i))
            return text_print("expected a line %s=VALUE, found none", path);
    }
    return lines_fault(lines, true);
}

static char *number_fault(const cJSON *o, const char *key, int64_t want)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (cJSON_IsNumber(v) && v->valuedouble == (double)want)
        return NULL;
    return text_print("\"%s\" must be %" PRId64 ", the size", key, want);
}

static char *json_fault(const Graph *g, int setting)
{
    char *error = NULL, *fault = NULL;
    const char *text = g->setting[setting].text;
    cJSON *o = text ? json_parse(text, strlen(text), &error) : NULL;
    if (text && !cJSON_IsObject(o))
        return text_print("no JSON object: %s", error ? error : "it is something else");
    bool config = o && setting == SETTING_config_json;
    for (size_t i = 0; config && i < sizeof config_keys / sizeof *config_keys; i++)
        for (int k = 0; k < SIZED && !fault && !strcmp(config_keys[i].family, g->family); k++)
            if (ir_size(g, sized[k].size) &&
                !strcmp(config_keys[i].written, field_row[sized[k].field].path))
                fault = number_fault(o, config_keys[i].key, ir_size(g, sized[k].size));
    if (o && setting == SETTING_adapter_json)
        fault = number_fault(o, "r", ir_size(g, "R"));
    if (setting == SETTING_adapter_json && !o && ir_size(g, "R"))
        fault = text_copy("is missing, but there is a size R");
    cJSON_Delete(o);
    return fault;
}

char *model_fault(const Graph *g, int *setting)
{
    *setting = SETTING_model_fields;
    char *fault = fields_fault(g);
    const char *others = g->setting[SETTING_other_fields].text;
    if (!fault && others) {
        *setting = SETTING_other_fields;
        fault = lines_fault(others, false);
    }
    for (int i = 0; i < 2 && !fault; i++)
        fault = json_fault(g, *setting = i ? SETTING_adapter_json : SETTING_config_json);
    return fault;
}
