/* model_folder.c -- recipe fields from a Hugging Face model folder.
 *
 * In:    an untrusted folder: config.json, safetensors headers, tokenizer files.
 * Out:   field=value words for the model; ends the program with a list of all settings that no
 *        recipe can express.
 * Method: rows of families.def in both directions; hf_config_differs(), with which programs check
 *         the folder, decides. */
#define _GNU_SOURCE
#include "gen/tools/model_folder.h"

#include <dirent.h>
#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/data/tokenizer.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/hf_config.h"
#include "runtime/model/hf_match.h"
#include "runtime/pack/pack.h"

enum { CONFIG_MAX = 64 << 20 };

/* ---- which folder ---------------------------------------------------------------------------- */

static bool holds(const char *folder, const char *name)
{
    return !access(text_print("%s/%s", folder, name), F_OK);
}

/* First file of the folder that matches the pattern, or NULL. */
static const char *one_like(const char *folder, const char *pattern)
{
    struct dirent **file;
    const char *found = NULL;
    int n = scandir(folder, &file, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (!found && !fnmatch(pattern, file[i]->d_name, FNM_CASEFOLD))
            found = text_copy(file[i]->d_name);
        free(file[i]);
    }
    if (n >= 0)
        free(file);
    return found;
}

static const char *text_in(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(json_get(object, key));
    return text ? text : "";
}

static cJSON *read_json(const char *folder, const char *name)
{
    char *error = NULL;
    cJSON *json = folder_read_json(folder, name, CONFIG_MAX, &error);
    if (!json)
        err((Loc){0}, "%s", error);
    return json;
}

static void refuse_file(const char *path)
{
    char head[4] = "";
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    if (f)
        fclose(f);
    if (!fnmatch("*.gguf", path, FNM_CASEFOLD) || (n == 4 && !memcmp(head, "GGUF", 4)))
        err((Loc){0},
            "%s: is a GGUF file, which is not read; give the Hugging Face folder that it was made "
            "from",
            path);
    err((Loc){0}, "%s: is a file; give the folder that holds config.json and the weights", path);
}

static void refuse_missing(const char *word, const char *command)
{
    const char *hint = path_hint(word), *slash = strrchr(word, '/');
    err((Loc){0}, "%s: no such folder%s%s", word, hint,
        strstr(hint, "hf download") && slash ? text_print(": %s %s", command, slash + 1) : "");
}

static void refuse_adapter(const char *folder)
{
    char *error = NULL;
    cJSON *config = folder_read_json(folder, "adapter_config.json", CONFIG_MAX, &error);
    const char *base = text_in(config, "base_model_name_or_path");
    const cJSON *r = json_get(config, "r");
    err((Loc){0},
        "%s: is a PEFT adapter, not a model: give the folder of its base, %s, with --lora %.0f; "
        "the program takes both: --init-from BASE --adapter %s",
        folder, *base ? base : "which it does not name",
        cJSON_IsNumber(r) && r->valuedouble > 0 ? r->valuedouble : 16, text_shell(folder));
}

static void refuse_own(const char *folder)
{
    char *error = NULL;
    cJSON *state = holds(folder, "train_state.json")
                       ? folder_read_json(folder, "train_state.json", CONFIG_MAX, &error)
                       : NULL;
    if (state && !strncmp(text_in(state, "format"), "diecast-", 8))
        err((Loc){0},
            "%s: is a checkpoint of a run of %s: that recipe resumes from it; for another recipe "
            "export it (out/NAME/run.sh --out RUN --export DIR) and use DIR",
            folder, *text_in(state, "recipe") ? text_in(state, "recipe") : "a recipe");
    int n;
    int64_t *steps = folder_steps(folder, &n);
    if (n > 0)
        err((Loc){0},
            "%s: is a run folder; export the model (out/NAME/run.sh --out %s --export DIR) and use "
            "DIR",
            folder, text_shell(folder));
    free(steps);
    if (holds(folder, "manifest.json") && holds(folder, "train.c"))
        err((Loc){0},
            "%s: is a folder that gen wrote, not a model; the head of its train.c names its recipe",
            folder);
}

/* Checks that it is a model folder, with readable weights or none; else ends the program. */
static void check_folder(const char *folder, const char *word, const char *command)
{
    struct stat st;
    if (stat(folder, &st))
        refuse_missing(word, command);
    if (!S_ISDIR(st.st_mode))
        refuse_file(folder);
    bool weights =
        holds(folder, "model.safetensors") || holds(folder, "model.safetensors.index.json");
    if (holds(folder, "adapter_config.json") && !weights)
        refuse_adapter(folder);
    refuse_own(folder);
    if (holds(folder, "config.json"))
        return;
    if (holds(folder, "snapshots"))
        err((Loc){0},
            "%s: is a model in the hub's cache; give the folder of one of its revisions in "
            "%s/snapshots",
            folder, folder);
    if (one_like(folder, "*.gguf"))
        err((Loc){0},
            "%s: holds %s and no config.json: GGUF is not read; give the Hugging Face folder that "
            "it was made from",
            folder, one_like(folder, "*.gguf"));
    if (one_like(folder, "consolidated*.p*") || holds(folder, "params.json"))
        err((Loc){0},
            "%s: has no config.json, but files of the model's own release; convert it to Hugging "
            "Face's layout",
            folder);
    err((Loc){0}, "%s: is not a model's folder: it has no config.json%s", folder,
        holds(folder, "model_index.json")
            ? ", but a model_index.json, which lists the models of a pipeline below it"
            : "");
}

/* ---- config.json ----------------------------------------------------------------------------- */

/* Appends a note. */
static void add_line(Str *to, const char *before, const char *after, const char *fmt, va_list args)
{
    char *text;
    if (vasprintf(&text, fmt, args) < 0)
        bug("out of memory");
    str_print(to, "%s%s%s", before, text_comment(text), after);
    free(text);
}

static void fault(ModelFolder *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fault(ModelFolder *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_line(&m->faults, "\n    ", "", fmt, args);
    va_end(args);
}

static void remark(ModelFolder *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void remark(ModelFolder *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_line(&m->notes, "", "\n", fmt, args);
    va_end(args);
}

static void set_field(ModelFolder *m, int field, const char *key, const char *text)
{
    m->value[field] = text;
    m->key[field] = key;
}

/* Expected value of a field; NULL: text is valid. */
static const char *wrong_value(int field, const char *text)
{
    const FieldRow *row = &field_row[field];
    FieldValue v = {0};
    const char *p = text;
    if (row->type == FT_CHOICE)
        return choice_find(field_choices(field), text, &v.i)
                   ? NULL
                   : range_print(row->type, 0, 0, field_choices(field));
    bool number = row->type == FT_INT || row->type == FT_FLOAT;
    if (value_parse(row->type, &p, &v) || *p ||
        (number && (!isfinite(v.f) || v.f < row->lo || v.f > row->hi)))
        return range_print(row->type, row->lo, row->hi, "");
    return NULL;
}

/* Number with all digits of the file, which value_text() would round. */
static const char *whole_number(const cJSON *value, const char *text)
{
    char digits[64];
    if (!cJSON_IsNumber(value) || strspn(text, "-0123456789") == strlen(text))
        return text;
    json_float_text(value->valuedouble, digits);
    return text_copy(digits);
}

/* True if recipes of the objective have the field. */
static bool of_objective(const ModelFolder *m, int field)
{
    const char *all = field_objectives(field);
    return !all || names_listed(all, m->objective->name);
}

/* Takes a key that determines the model: a field, or the only value that the family supports. */
static void take_compared(ModelFolder *m, const HfKey *key)
{
    int field = field_find(key->written);
    if (field < 0 && key->wanted && strcmp(key->value, key->wanted))
        fault(m, "%s is %s: programs of the family %s have only %s", key->key, key->value,
              m->family->name, key->wanted);
    if (field < 0 || !of_objective(m, field))
        return;
    const char *text = whole_number(json_get(m->config, key->key), key->value),
               *wanted = wrong_value(field, text);
    if (wanted)
        fault(m, "%s is %s%s: the field %s must be %s", key->key, text,
              key->there ? "" : " where it is absent", field_row[field].path, wanted);
    else if (m->value[field] && strcmp(m->value[field], text))
        fault(m, "%s is %s and %s %s: both are the field %s", m->key[field], m->value[field],
              key->key, text, field_row[field].path);
    else if (!m->value[field])
        set_field(m, field, key->key, text);
}

/* Takes the value of a key that programs do not compare, if its field is free; otherwise reports it
 * if that matters. */
static void take_free(ModelFolder *m, const char *key, int field, const char *text)
{
    if (field < 0 || !text || !of_objective(m, field))
        return;
    const char *wanted = wrong_value(field, text);
    bool other = m->value[field] && strcmp(m->value[field], text);
    if (wanted)
        remark(m, "%s is %s and left out: the field %s must be %s", key, text,
               field_row[field].path,
             wanted);
    else if (other && m->free[field])
        remark(m, "%s is %s, but %s %s, and the field %s is both: the latter is taken", key, text,
             m->key[field], m->value[field], field_row[field].path);
    else if (!m->value[field]) {
        set_field(m, field, key, text);
        m->free[field] = true;
    }
}

static const char *number_of(const cJSON *value)
{
    char digits[64];
    if (!cJSON_IsNumber(value))
        return NULL;
    json_float_text(value->valuedouble, digits);
    size_t n = strlen(digits);
    return n > 2 && !strcmp(digits + n - 2, ".0") ? text_print("%.*s", (int)n - 2, digits)
                                                  : text_copy(digits);
}

/* Token id of config.json, else of generation_config.json; of a list the first. */
static void take_id(ModelFolder *m, const cJSON *config, const char *key, int field)
{
    const cJSON *value = json_get(config, key),
                *first = cJSON_IsArray(value) ? value->child : value;
    const char *text = number_of(first), *vocab = m->value[F_model_vocab];
    if (!text || m->value[field])
        return;
    if (vocab && strtod(text, NULL) >= strtod(vocab, NULL))
        remark(m, "%s is %s, outside the vocabulary, and left out", key, text);
    else
        take_free(m, key, field, text);
    if (m->value[field] && cJSON_IsArray(value) && first->next)
        remark(m, "%s has %d ids: %s = %s, the first; --sample ends at all of them", key,
             cJSON_GetArraySize(value), field_row[field].path, text);
}

static void take_rope(ModelFolder *m)
{
    static const struct {
        const char *key;
        int field;
    } number[] = {{"rope_theta", F_model_rope_theta},
                  {"factor", F_model_rope_factor},
                  {"low_freq_factor", F_model_rope_low_freq_factor},
                  {"high_freq_factor", F_model_rope_high_freq_factor},
                  {"original_max_position_embeddings", F_model_rope_original_positions}};
    char *error = NULL;
    cJSON *rope = hf_config_rope(m->config, &error);
    char *twice = hf_config_twice(m->config);
    if (error)
        fault(m, "%s", error);
    if (twice)
        fault(m, "%s", twice);
    free(twice);
    if (!rope)
        return;
    const char *type = text_in(rope, "rope_type");
    bool plain = !strcmp(type, "default");
    if (!plain && wrong_value(F_model_rope_scaling, type))
        fault(m, "rope_type is \"%s\": the field %s must be %s", type,
              field_row[F_model_rope_scaling].path, wrong_value(F_model_rope_scaling, type));
    else if (!plain)
        set_field(m, F_model_rope_scaling, "rope_type", type);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        if (i && !hf_rope_counts(type, number[i].key))
            continue;
        const char *text = number_of(json_get(rope, number[i].key)),
                   *row = field_row[number[i].field].path;
        const char *wanted = text ? wrong_value(number[i].field, text) : "a number";
        if (wanted)
            fault(m, "%s is %s: the field %s must be %s", number[i].key, text ? text : "absent",
                  row, wanted);
        else
            set_field(m, number[i].field, number[i].key, text);
    }
}

/* Sets the objective that trains a model with the head of its class. If several have that head, the
 * one with a field of its own in config.json, such as the mask token, is chosen. */
static void choose_objective(ModelFolder *m, const HfKey *key, int n)
{
    const char *head = family_class_head(m->family->name, m->class);
    if (!head)
        bug("family %s has no class", m->family->name);
    for (int i = 0; i < objective_count(); i++) {
        const Objective *o = objective_row(i);
        if (o->standalone || strcmp(o->head, head))
            continue;
        bool sets_field = false;
        for (int k = 0; k < n; k++)
            sets_field |= key[k].there && field_find(key[k].written) >= 0 &&
                   objective_owns(o->name, key[k].written);
        if (!m->objective || sets_field)
            m->objective = o;
    }
    if (!m->objective)
        bug("no objective trains %s", head);
}

static void find_family(ModelFolder *m)
{
    const char *type = text_in(m->config, "model_type"), *other = hf_config_other(type);
    Str all = {0};
    for (int i = 0; i < family_count(); i++) {
        if (!strcmp(family_row(i)->name, type))
            m->family = family_row(i);
        str_print(&all, "%s%s", i ? ", " : "", family_row(i)->name);
    }
    if (!m->family)
        err((Loc){text_print("%s/config.json", m->path), 0},
            "model_type is %s%s%s: must be one of %s (gen list families)",
            *type ? text_shown(type) : "absent", other ? ", " : "", other ? other : "", all.text);
}

static void read_config(ModelFolder *m, const char *objective)
{
    static const char generation[] = "generation_config.json";
    HfKey *key;
    m->config = read_json(m->path, "config.json");
    m->nf4 = hf_config_is_nf4(m->config);
    if (!cJSON_IsObject(m->config))
        err((Loc){text_print("%s/config.json", m->path), 0}, "must be a JSON object");
    const cJSON *list = json_get(m->config, "architectures");
    const char *class = cJSON_IsArray(list) ? cJSON_GetStringValue(list->child) : NULL;
    m->class = class ? class : "";
    find_family(m);
    int n = hf_config_keys(m->config, &key);
    if (objective)
        m->objective = objective_find(objective);
    else
        choose_objective(m, key, n);
    set_field(m, F_model_family, "model_type", m->family->name);
    for (int i = 0; i < n; i++)
        if (key[i].compared)
            take_compared(m, &key[i]);
    take_rope(m);
    char *error = NULL;
    const cJSON *both[] = {m->config, folder_read_json(m->path, generation, CONFIG_MAX, &error)};
    if (!both[1] && holds(m->path, generation))
        remark(m, "%s", error);
    for (int i = 0; i < 2; i++) {
        take_id(m, both[i], "bos_token_id", F_model_bos);
        take_id(m, both[i], "eos_token_id", F_model_eos);
    }
    if (!m->family->torch_init)
        take_free(m, "initializer_range", F_model_init_std,
                  number_of(json_get(m->config, "initializer_range")));
    for (int i = 0; i < n; i++)
        if (!key[i].compared && key[i].there)
            take_free(m, key[i].key, field_find(key[i].written), key[i].value);
    if (m->faults.n)
        err((Loc){text_print("%s/config.json", m->path), 0}, "a recipe cannot express this:%s",
            m->faults.text);
}

/* ---- as a Config ----------------------------------------------------------------------------- */

static void place_all(Rval *r, Loc loc)
{
    r->loc = loc;
    for (int i = 0; i < r->nkeys; i++)
        place_all(r->value[i], loc);
}

Config *model_folder_config(const ModelFolder *m, const char *recipe, char **word, int n)
{
    Rval *r = arena_new(sizeof *r);
    *r = (Rval){.kind = RV_TABLE};
    if (strcmp(m->objective->name, field_default_word(F_objective)))
        recipe_override(r, text_print("objective=%s", m->objective->name));
    for (int i = 0; i < NFIELDS; i++)
        if (m->value[i])
            recipe_override(r, text_print("%s=%s", field_row[i].path, m->value[i]));
    place_all(r, (Loc){text_print("%s/config.json", m->path), 0});
    for (int i = 0; i < n; i++)
        recipe_override(r, word[i]);
    Config *c = config_fill(r, recipe);
    check_config(c);
    return c;
}

/* Stores the tensors that a program of this graph reads from a model folder. */
static HfWant *wanted(const Graph *g, int *n)
{
    HfWant *want = NULL;
    *n = 0;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        const bool is_pair = v->npieces && !strncmp(v->piece[0].name, "base_model.", 11);
        for (int j = 0; v->kind == VK_PARAM && !v->not_in_model && !is_pair && j < v->npieces; j++)
            for (int l = 0; l < (v->count ? v->count : 1); l++) {
                const Piece *piece = &v->piece[j];
                const char *hole = v->count ? strstr(piece->name, "%d") : NULL;
                Tensor *t = arena_new(sizeof *t);
                t->name = hole ? text_print("%.*s%d%s", (int)(hole - piece->name), piece->name, l,
                                            hole + 2)
                               : piece->name;
                t->rank = v->rank;
                t->weight.type = value_is_nf4(v) ? EL_NF4 : EL_F32;
                t->shape[0] = piece->rows;
                t->shape[1] = v->rank == 2 ? piece_columns(v, piece) : 0;
                t->transposed = piece->transposed;
                t->optional_in_checkpoint = v->optional_in_checkpoint;
                t->extra_vocab_row = v->extra_vocab_row;
                if (!(*n & (*n - 1)))
                    want = arena_grow(want, (size_t)*n * sizeof *want,
                                      (size_t)(*n ? 2 * *n : 1) * sizeof *want);
                want[(*n)++] = (HfWant){.name = text_copy(t->name),
                                        .t = t,
                                        .optional = v->optional_in_checkpoint};
            }
    }
    hf_want_sort(want, *n);
    return want;
}

static bool grows(const Graph *g)
{
    bool grown = false;
    for (int i = 0; i < g->nvalues; i++)
        grown |= g->values[i]->extra_vocab_row;
    return grown;
}

/* Field values of a program of the graph, for the comparison with the folder. */
static cJSON *own_config(const ModelFolder *m, const Graph *g)
{
    const char *text = g->setting[SETTING_config_json].text;
    char *error = NULL;
    cJSON *ours = json_parse(text, strlen(text), &error);
    if (!ours)
        bug("config.json of a program: %s", error);
    if (grows(g))
        hf_config_fewer(ours, m->config);
    return ours;
}

static bool has_nf4(const Graph *g)
{
    bool some = false;
    for (int i = 0; i < g->nvalues; i++)
        some |= value_is_nf4(g->values[i]);
    return some;
}

const char *model_folder_differs(const ModelFolder *m, const Graph *g)
{
    if (m->nf4 && !has_nf4(g))
        return "quantization_config (bitsandbytes): weights in NF4 are not trained: set lora.rank "
               "and lora.base = \"nf4\"";
    cJSON *ours = own_config(m, g);
    char *error = hf_config_differs(ours, m->config, ir_size(g, "T"));
    cJSON_Delete(ours);
    return error;
}

void model_folder_check(ModelFolder *m, const Graph *g)
{
    const char *differs = model_folder_differs(m, g);
    if (differs)
        err((Loc){text_print("%s/config.json", m->path), 0}, "a recipe cannot express this: %s",
            differs);
    if (!m->weights)
        return;
    int n, code;
    HfWant *want = wanted(g, &n);
    Tensor *fewer;
    char *error = hf_match(want, n, &m->set, own_config(m, g), m->path, &fewer, &code);
    if (error)
        err((Loc){0}, "the weights do not match the %s that config.json describes: %s",
            m->family->name, error);
    for (int i = 0; i < n; i++)
        m->lacks_added |= want[i].t->optional_in_checkpoint && !want[i].from;
}

void model_folder_new_token(ModelFolder *m, const char *field, const char *token)
{
    const char *vocab = m->value[F_model_vocab];
    if (m->loaded && tokenizer_added(m->loaded, token) >= 0)
        err((Loc){0}, "%s: %s has the token %s already, %d: leave %s out", field, m->tokenizer,
            token, tokenizer_added(m->loaded, token), field);
    if (!vocab)
        return;
    set_field(m, F_model_vocab, "vocab_size", text_print("%lld", atoll(vocab) + 1));
}

/* ---- weights, tokenizer ---------------------------------------------------------------------- */

/* Type in which most numbers are stored. */
static void read_weights(ModelFolder *m)
{
    static const char *const other[] = {"*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack",
                                        "*.safetensors", "*.onnx"};
    static const struct { StDtype dtype; const char *precision; } type[] = {
        {ST_BF16, "bf16"}, {ST_F16, "fp16"}, {ST_F32, "fp32"}, {ST_F64, "fp32"}};
    char *error = st_set_open(&m->set, m->path);
    double elements[ST_NDTYPES] = {0};
    size_t most = 0;
    if (error) {
        bool some =
            holds(m->path, "model.safetensors") || holds(m->path, "model.safetensors.index.json");
        for (size_t i = 0; i < sizeof other / sizeof *other; i++)
            some = some || one_like(m->path, other[i]);
        if (some)
            err((Loc){0}, "%s", error);
        const char *dtype = text_in(m->config, "dtype");
        dtype = *dtype ? dtype : text_in(m->config, "torch_dtype");
        m->stored = !strcmp(dtype, "bfloat16")  ? "bf16"
                    : !strcmp(dtype, "float16") ? "fp16"
                                                : "fp32";
        m->stored_by = *dtype ? "as config.json says" : "nothing says how weights are stored";
        return;
    }
    for (int f = 0; f < m->set.nfiles; f++)
        for (int i = 0; i < m->set.file[f].n; i++)
            elements[m->set.file[f].t[i].dtype] += (double)st_elements(&m->set.file[f].t[i]);
    for (size_t i = 1; i < sizeof type / sizeof *type; i++)
        if (elements[type[i].dtype] > elements[type[most].dtype])
            most = i;
    m->weights = true;
    m->wide = elements[ST_BF16] > 0;
    m->stored = type[most].precision;
    m->stored_by = text_print("as the weights are stored (%s)", st_dtype_name[type[most].dtype]);
}

static void read_tokenizer(ModelFolder *m)
{
    Tokenizer *tok;
    const Chat *chat = NULL;
    char *why = NULL, *path = text_print("%s/tokenizer.json", m->path);
    if (access(path, F_OK))
        return;
    char *error = NULL;
    cJSON *config = folder_read_json(m->path, "tokenizer_config.json", CONFIG_MAX, &error);
    m->template = holds(m->path, "chat_template.jinja") ||
                  cJSON_IsString(json_get(config, "chat_template")) ||
                  cJSON_IsArray(json_get(config, "chat_template"));
    m->tokenizer = path;
    m->tokenizer_fault = tokenizer_load(&tok, path);
    if (m->tokenizer_fault)
        return;
    const char *rows = m->value[F_model_vocab];
    if (rows && tokenizer_size(tok) > strtod(rows, NULL))
        remark(m, "tokenizer.json has %d ids, but vocab_size is %s, which programs refuse: "
               "resize_token_embeddings(%d) of transformers adds the rows; then run gen new again",
               tokenizer_size(tok), rows, tokenizer_size(tok));
    m->loaded = tok;
    m->bos = tokenizer_bos(tok);
    m->eos = tokenizer_eos(tok);
    m->chat_fault = chat_choose(&chat, &why, tok, path, NULL);
    ChatTemplate *own = NULL;    /* which no format by hand renders */
    char *fault = m->chat_fault ? render_open(&own, path) : NULL;
    m->chat = own ? CHAT_TEMPLATE : m->chat_fault ? NULL : chat->name;
    m->chat_why = own ? render_about(own) : why;
    m->chat_fault = own ? NULL : fault ? fault : m->chat_fault;
    render_free(own);
}

/* Takes settings from the weights, and notes those that no file has. */
static void take_names(ModelFolder *m)
{
    static const struct { const char *family, *name, *field, *value; } says[] = {
#define TENSOR_SAYS(family, name, field, value) {#family, name, field, value},
#include "runtime/model/families.def"
    };
    static const struct { const char *family, *text; } unsaid[] = {
#define UNSAID(family, text) {#family, text},
#include "runtime/model/families.def"
    };
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        const int field = field_find(says[i].field);
        bool there = false;
        for (int f = 0; f < m->set.nfiles; f++)
            there = there || st_find(&m->set.file[f], says[i].name);
        if (there && !strcmp(says[i].family, m->family->name) && of_objective(m, field))
            set_field(m, field, says[i].name, says[i].value);
    }
    for (size_t i = 0; i < sizeof unsaid / sizeof *unsaid; i++)
        if (!strcmp(unsaid[i].family, m->family->name))
            m->unsaid = unsaid[i].text;
}

ModelFolder *model_folder_read(const char *word, const char *command, const char *objective)
{
    ModelFolder *m = arena_new(sizeof *m);
    size_t n = strlen(word);
    if (!n)
        err((Loc){0}, "--from: needs a folder, got nothing");
    while (n > 1 && word[n - 1] == '/')
        n--;
    m->path = text_print("%.*s", (int)n, word);
    m->bos = m->eos = -1;
    check_folder(m->path, word, command);
    read_config(m, objective);
    read_weights(m);
    take_names(m);
    read_tokenizer(m);
    return m;
}
