/* emit_model.c -- what the binary knows of its model's files: tensor rows, config.json,
 * adapter_config.json.
 *
 * In:    parameters of the graph and the model.* and lora.* fields.   Out: text.
 * Keeps: keys and names of transformers and PEFT; both generations of renamed keys are written. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/json.h"

/* ---- tensor rows ----------------------------------------------------------------------------- */

static const char *state_name(const Graph *g, const char *prefix, const Value *v)
{
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i]->of && !strcmp(g->values[i]->of, v->name) &&
            !strncmp(g->values[i]->name, prefix, strlen(prefix)) &&
            g->values[i]->name[strlen(prefix)] == '.')
            return c_name(g->values[i]->name);
    return "NULL";
}

/* A module trained as a whole beside adapters is in the adapter file, under PEFT's name. */
static const char *file_name(const Value *v, const Piece *piece)
{
    bool peft = !strncmp(piece->name, "base_model.", 11);
    return v->adapter && !peft ? text_print("base_model.model.%s", piece->name) : piece->name;
}

static void tensor_row(Str *s, const Graph *g, const Value *v, const Piece *piece)
{
    static const char *const init[][2] = {{"zeros", "INIT_ZEROS"},
                                          {"ones", "INIT_ONES"},
                                          {"normal", "INIT_NORMAL"},
                                          {"uniform", "INIT_UNIFORM"}};
    const char *kind = NULL;
    for (int i = 0; i < 4; i++)
        if (!strcmp(init[i][0], v->init))
            kind = init[i][1];
    int64_t cols = v->rank == 2 ? piece_columns(v, piece) : 1,
            pitch = v->rank == 2 ? v->dim[1].n : 1;
    str_print(s, "    {.name = \"%s\",\n     .layers = %" PRId64 ", .rank = %d, .shape = {%" PRId64,
              file_name(v, piece), v->count, v->rank, piece->rows);
    if (v->rank == 2)
        str_print(s, ", %" PRId64, cols);
    const char *flags =
        text_print("%s%s%s%s", piece->transposed ? " .transposed = true," : "",
                   v->adapter ? " .adapter = true," : "", v->trained ? " .trained = true," : "",
                   v->decay ? " .decay = true," : "");
    str_print(s, "},\n%s%s%s", *flags ? "    " : "", flags, *flags ? "\n" : "");
    str_print(s,
              "     .init = %s, .init_arg = %sf, .first = %" PRId64 ", .stride = %" PRId64
              "%s, .type = %s,\n",
              kind, text_float(v->std), piece->row0 * pitch,
              v->count ? v->stride / dtype_bytes[v->dtype] : 0,
              pitch > cols ? text_print(", .pitch = %" PRId64, pitch) : "",
              v->dtype == DT_BF16  ? "EL_BF16"
              : v->dtype == DT_F16 ? "EL_F16"
                                   : "EL_F32");
    str_print(s, "     .weight = %s", c_name(v->name));
    if (v->trained) {
        if (v->dtype != DT_F32)
            str_print(s, ", .master = %s", state_name(g, "master", v));
        str_print(s, ",\n     .exp_avg = %s, .exp_avg_sq = %s, .grad = %s", state_name(g, "m", v),
                  state_name(g, "v", v), state_name(g, "grad", v));
    }
    str_print(s, "},\n");
}

char *emit_tensors(const Graph *g)
{
    Str s = {0};
    for (int i = 0; i < g->nvalues; i++)
        for (int j = 0; g->values[i]->kind == VK_PARAM && j < g->values[i]->npieces; j++)
            tensor_row(&s, g, g->values[i], &g->values[i]->piece[j]);
    Str lines = {0};
    print_wrapped(&lines, s.text);
    return lines.text;
}

/* What the sum of the adapters whose A's these are is multiplied with. */
static double adapter_scale(const Graph *g, const Value *a)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++) {
            const Op *op = &g->programs[i]->ops[j];
            const Attr *scale = op_attr(op, "scale");
            for (int k = 0; k < op->nin; k++)
                if (op->in[k].v == a && scale)
                    return scale->f;
        }
    bug("no op reads %s", a->name);
}

/* Each lora_A piece with its lora_B and the weight of the same module. */
char *emit_merges(const Graph *g)
{
    Str s = {0};
    for (int i = 0; i < g->nvalues; i++)
        for (int j = 0; g->values[i]->kind == VK_PARAM && j < g->values[i]->npieces; j++) {
            const Value *v = g->values[i];
            const char *name = v->piece[j].name, *suffix = strstr(name, ".lora_A.weight");
            if (!suffix)
                continue;
            size_t skip = strlen("base_model.model.");
            const char *module = text_print("%.*s", (int)(suffix - name - (long)skip), name + skip);
            str_print(&s,
                      "    {\"%s.weight\",\n     \"%s\",\n     "
                      "\"base_model.model.%s.lora_B.weight\", %" PRId64 ", %sf},\n",
                      module, name, module, v->count, text_float(adapter_scale(g, v)));
        }
    return s.n ? s.text : "";
}

char *emit_model_fields(const Graph *g)
{
    static const char *const also[] = {"precision", "objective", "data.kind", "optim.decay_rule"};
    Str s = {0};
    for (int i = 0; i < NFIELDS; i++) {
        const char *path = field_row[i].path;
        bool wanted = !strncmp(path, "model.", 6) || !strncmp(path, "lora.", 5);
        for (size_t j = 0; j < sizeof also / sizeof also[0]; j++)
            wanted |= !strcmp(path, also[j]);
        if (wanted && strcmp(path, "lora.dropout") && strcmp(path, "lora.fold") &&
            strcmp(path, "model.init_std"))
            str_print(&s, "%s=%s\n", path, value_print(field_row[i].type, &g->cfg->v[i]));
    }
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

/* -1 stands for none. */
static void add_id(cJSON *o, const char *key, int64_t id)
{
    if (id < 0)
        cJSON_AddNullToObject(o, key);
    else
        add_int(o, key, id);
}

static void add_rope(Config *c, cJSON *o)
{
    double theta = config_float(c, F_model_rope_theta);
    bool llama3 = !strcmp(config_text(c, F_model_rope_scaling), "llama3");
    cJSON *parameters = cJSON_AddObjectToObject(o, "rope_parameters"), *scaling = NULL;
    json_add_float(o, "rope_theta", theta);
    json_add_float(parameters, "rope_theta", theta);
    cJSON_AddStringToObject(parameters, "rope_type", llama3 ? "llama3" : "default");
    if (llama3)
        scaling = cJSON_AddObjectToObject(o, "rope_scaling");
    else
        cJSON_AddNullToObject(o, "rope_scaling");
    for (int i = 0; llama3 && i < 2; i++) {
        cJSON *to = i ? scaling : parameters;
        json_add_float(to, "factor", config_float(c, F_model_rope_factor));
        json_add_float(to, "low_freq_factor", config_float(c, F_model_rope_low_freq_factor));
        json_add_float(to, "high_freq_factor", config_float(c, F_model_rope_high_freq_factor));
        add_int(to, "original_max_position_embeddings",
                config_int(c, F_model_rope_original_positions));
        if (i)
            cJSON_AddStringToObject(to, "rope_type", "llama3");
    }
}

static void add_field(Config *c, cJSON *o, const char *key, int field)
{
    switch (field_row[field].type) {
    case FT_BOOL: cJSON_AddBoolToObject(o, key, config_bool(c, field)); break;
    case FT_INT: add_int(o, key, config_int(c, field)); break;
    case FT_FLOAT: json_add_float(o, key, config_float(c, field)); break;
    default: bug("config.json: %s is no number", field_row[field].path);
    }
}

/* JSON of a row; a number with a point keeps it. */
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
#include "runtime/model/families.def"
};

static void add_keys(Config *c, cJSON *o, const char *family)
{
    for (size_t i = 0; i < sizeof config_keys / sizeof config_keys[0]; i++) {
        const char *key = config_keys[i].key, *written = config_keys[i].written;
        if (strcmp(config_keys[i].family, family) || !*written)
            continue;
        int field = 0;
        while (field < NFIELDS && strcmp(field_row[field].path, written))
            field++;
        if (field < NFIELDS)
            add_field(c, o, key, field);
        else
            add_literal(o, key, written);
    }
}

static const FamilyClass *class_of(const Graph *g)
{
    return family_class(g->family, objective_find(g->objective)->head);
}

char *emit_config_json(const Graph *g)
{
    Config *c = g->cfg;
    const char *dtype = !strcmp(config_text(c, F_precision), "fp32") ? "float32" : "bfloat16";
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
    if (family_find(g->family)->rotary)
        add_rope(c, o);
    return json_text(o);
}

/* Leaf names of the modules that have adapters. */
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

char *emit_adapter_json(const Graph *g)
{
    Config *c = g->cfg;
    if (!config_int(c, F_lora_rank))
        return NULL;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToObject(o, "alpha_pattern", cJSON_CreateObject());
    cJSON_AddNullToObject(o, "base_model_name_or_path");
    cJSON_AddStringToObject(o, "bias", "none");
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
    if (saved->n)
        cJSON_AddItemToObject(o, "modules_to_save", cJSON_CreateStringArray(saved->list, saved->n));
    else
        cJSON_AddNullToObject(o, "modules_to_save");
    cJSON_AddStringToObject(o, "peft_type", "LORA");
    add_int(o, "r", config_int(c, F_lora_rank));
    cJSON_AddItemToObject(o, "rank_pattern", cJSON_CreateObject());
    cJSON_AddNullToObject(o, "revision");
    cJSON_AddItemToObject(o, "target_modules", target_modules(g));
    cJSON_AddStringToObject(o, "task_type", class_of(g)->task);
    cJSON_AddFalseToObject(o, "use_dora");
    cJSON_AddBoolToObject(o, "use_rslora", config_bool(c, F_lora_rslora));
    return json_text(o);
}
