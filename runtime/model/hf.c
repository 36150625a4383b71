/* hf.c -- import and export of Hugging Face model folders.
 *
 * In:    config.json and safetensors of transformers 4.x or 5.x.
 * Method: import matches every tensor of the folder with one of the model by name, checks shapes,
 *         then reads; export lists the tensors, assigns them to shards and writes. */
#define _GNU_SOURCE
#include "runtime/model/hf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/ranks/comm.h"
#include "runtime/files/folder.h"
#include "runtime/model/hf_config.h"
#include "runtime/model/hf_files.h"
#include "runtime/files/json.h"
#include "runtime/model/weights.h"

/* ---- import --------------------------------------------------------------------------------- */

static cJSON *own_config(const Model *m)
{
    char *error = NULL;
    cJSON *config = json_parse(m->config_json, strlen(m->config_json), &error);
    if (!config)
        die(EXIT_INTERNAL, "config.json of this binary: %s", error);
    return config;
}

/* True for a row trained alongside adapters, which a model folder stores inside another tensor. */
static bool elsewhere(const Model *m, const Tensor *t)
{
    return t->not_in_model || (t->adapter && (hf_is_pair(t->name) || model_row_of(m, t)));
}

static HfWant *wanted(Model *m, int *n)
{
    HfWant *want = calloc((size_t)m->ntensors + 1, sizeof *want);
    if (!want)
        die(EXIT_IO, "out of memory for a list of %d tensors", m->ntensors);
    *n = 0;
    for (int i = 0; i < m->ntensors; i++) {
        Tensor *t = &m->tensors[i];
        if (elsewhere(m, t))
            continue;
        want[*n].name = format("%s", model_base_name(t->name));
        want[*n].t = t;
        want[(*n)++].optional = t->adapter || t->optional_in_checkpoint;
    }
    hf_want_sort(want, *n);
    return want;
}

void hf_note_padding(const Model *m, const char *folder)
{
    cJSON *ours = own_config(m), *theirs = hf_read_json(folder, "config.json");
    const int64_t own = hf_config_padding(ours), pad = hf_config_padding(theirs);
    if (own != pad && pad >= 0)
        note("%s/config.json: pad_token_id is %" PRId64
             ", so transformers gives that token's row of the embedding "
             "no gradient where it is read; this program trains it there, too: gen %s "
             "model.pad=%" PRId64 " does as transformers",
             folder, pad, model_words(m, "model.pad"), pad);
    else if (own != pad)
        note("%s/config.json has no pad_token_id: transformers would also train the embedding of "
             "token %" PRId64
             " where it is read; this program does not: gen %s model.pad=-1 does as transformers",
             folder, own, model_words(m, "model.pad"));
    cJSON_Delete(ours), cJSON_Delete(theirs);
}

/* Ends the program if the folder lacks only the layers that the objective reads from it. */
static void check_layers(const Model *m, const HfWant *want, int n, const char *folder)
{
    const Additions *a = m->additions;
    const char *missing = NULL;
    for (int i = 0; i < n && a && a->layers; i++) {
        if (want[i].from || want[i].optional)
            continue;
        if (strncmp(want[i].name, a->layers, strlen(a->layers)))
            return;
        missing = want[i].name;
    }
    if (missing)
        die(EXIT_MISMATCH,
            "%s: the model has no %s, which this program reads and does not train; gen %s %s=true "
            "makes "
            "one that adds and trains it",
            folder, missing, model_words(m, a->field), a->field);
}

/* read: also read the weights, else only check. */
static void take_in(Model *m, const char *folder, bool read, bool allow_nonfinite)
{
    comm_expect(weights_seconds(m));
    hf_check_kind(m, folder, false);
    cJSON *ours = own_config(m), *theirs = hf_read_json(folder, "config.json");
    if (model_extra_vocab_rows(m))
        hf_config_fewer(ours, theirs);
    char *error = hf_config_differs(ours, theirs, m->longest);
    if (error)
        die(EXIT_MISMATCH, "%s/config.json: %s%s", folder, error,
            hf_config_other(cJSON_GetStringValue(json_get(theirs, "model_type")))
                ? "" : "; gen new FILE.lua --from the "
            "folder writes a recipe for it, or says why there is none");
    StSet set;
    error = st_set_open(&set, folder);
    if (error)
        die(hf_has(folder, "model.safetensors") || hf_has(folder, "model.safetensors.index.json")
                ? EXIT_DATA : EXIT_MISMATCH, "%s", error);
    int n;
    HfWant *want = wanted(m, &n);
    Tensor *fewer;
    int code;
    error = hf_match(want, n, &set, ours, folder, &fewer, &code);
    if (error)
        check_layers(m, want, n, folder);
    if (error)
        die(code, "%s", error);
    for (int i = 0; i < n; i++)
        if (want[i].from && want[i].from->dtype == ST_BF16 && want[i].t->type == EL_F16)
            die(EXIT_MISMATCH, "%s: %s is BF16, which fp16 cannot represent; use a bf16 recipe",
                want[i].file->path, want[i].name);
    if (read)
        hf_want_read(want, n, allow_nonfinite);
    if (read && fewer) {
        fewer->shape[0]++;
        model_grow(fewer);
        note("%s has one row more than the folder's tensor; it becomes the mean of the others",
             fewer->name);
    }
    free(fewer);
    for (int i = 0; i < n; i++)
        free(want[i].name);
    free(want);
    st_set_close(&set);
    cJSON_Delete(ours);
    cJSON_Delete(theirs);
    comm_expect(0);
}

void hf_load(Model *m, const char *folder, bool allow_nonfinite)
{
    take_in(m, folder, true, allow_nonfinite);
}

void hf_check(Model *m, const char *folder, bool adapter)
{
    if (adapter)
        hf_check_kind(m, folder, true);
    else
        take_in(m, folder, false, true);
}

/* ---- export --------------------------------------------------------------------------------- */

/* Dtype of the weights outside the adapter: for a merged head, and for config.json. */
static ElementType model_type(const Model *m)
{
    for (int i = 0; i < m->ntensors; i++)
        if (!m->tensors[i].adapter && m->tensors[i].type != EL_F32)
            return m->tensors[i].type;
    return EL_F32;
}

static WeightsItem *items(const Model *m, const HfHow *how, int *n)
{
    WeightsItem *item = calloc((size_t)m->ntensors + 1, sizeof *item);
    if (!item)
        die(EXIT_IO, "out of memory for a list of %d tensors", m->ntensors);
    *n = 0;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        if (elsewhere(m, t))
            continue;
        item[*n].name = model_base_name(t->name);
        item[*n].t = t;
        item[*n].dtype = weights_dtype(hf_type(how, t->adapter ? model_type(m) : t->type));
        item[*n].array = how->dtype && t->master ? t->master : t->weight;
        item[(*n)++].type = how->dtype && t->master ? EL_F32 : t->type;
    }
    return item;
}

static const Tensor *of_layer(const Model *m, const char *name, int layer)
{
    const char *hole = strstr(name, "%d");
    char *full = layer < 0 || !hole
                     ? format("%s", name)
                     : format("%.*s%d%s", (int)(hole - name), name, layer, hole + 2);
    const Tensor *t = model_need(m, full);
    free(full);
    return t;
}

static void add_pairs(const Model *m, WeightsItem *item, int n)
{
    for (int i = 0; i < m->nmerges; i++) {
        const Merge *merge = &m->merges[i];
        for (int l = merge->layers > 0 ? 0 : -1; l < merge->layers; l++) {
            const Tensor *t = of_layer(m, merge->weight, l);
            for (int k = 0; k < n; k++) {
                if (item[k].t != t)
                    continue;
                item[k].a = of_layer(m, merge->a, l);
                item[k].b = of_layer(m, merge->b, l);
                item[k].scale = merge->scale;
                if (t->master) {
                    item[k].array = t->master;
                    item[k].type = EL_F32;
                }
            }
            if (l < 0)
                break;
        }
    }
}

/* True if the source folder may be of another model class. */
static bool is_added_to(const Model *m)
{
    bool added = false;
    for (int i = 0; i < m->ntensors; i++)
        added |= m->tensors[i].optional_in_checkpoint;
    return added;
}

static char *write_config(const Model *m, const char *folder, const HfHow *how, cJSON *manifest)
{
    static const char *const dtype[] = {
        [EL_F32] = "float32", [EL_BF16] = "bfloat16", [EL_F16] = "float16",
    };
    cJSON *ours = own_config(m), *config = NULL;
    char *ignored = NULL, *differs = NULL;
    if (how->source && hf_has(how->source, "config.json"))
        config = folder_read_json(how->source, "config.json", 64u << 20, &ignored);
    if (config)
        differs = hf_config_differs(ours, config, m->longest);
    if (!config || differs) {
        cJSON_Delete(config);
        config = ours;
        ours = NULL;
    }
    hf_config_patch(config, dtype[hf_type(how, model_type(m))]);
    if (ours && is_added_to(m)) {
        cJSON_DeleteItemFromObjectCaseSensitive(config, "architectures");
        cJSON_AddItemToObject(config, "architectures",
                              cJSON_Duplicate(json_get(ours, "architectures"), true));
    }
    if (m->special)
        hf_config_special(config, m->special->mask, m->special->pad);
    char *error = folder_write_json(folder, "config.json", config, manifest);
    free(ignored);
    free(differs);
    cJSON_Delete(ours);
    cJSON_Delete(config);
    return error;
}

/* Returns the end of a shard: consecutive items of at most shard_bytes, at least one item. */
static int shard_end(const WeightsItem *item, int n, int begin, uint64_t shard_bytes)
{
    uint64_t bytes = weights_bytes(&item[begin]);
    int end = begin + 1;
    while (end < n && bytes + weights_bytes(&item[end]) <= shard_bytes)
        bytes += weights_bytes(&item[end++]);
    return end;
}

static char *write_shards(const WeightsItem *item, int n, int nshards, const char *folder,
                          uint64_t shard_bytes, cJSON *manifest)
{
    cJSON *index = cJSON_CreateObject(), *about = cJSON_AddObjectToObject(index, "metadata");
    cJSON *map = cJSON_AddObjectToObject(index, "weight_map");
    double elements = 0, bytes = 0;
    char *error = NULL;
    for (int begin = 0, shard = 1; begin < n && !error; shard++) {
        int end = shard_end(item, n, begin, shard_bytes);
        char *name = format("model-%05d-of-%05d.safetensors", shard, nshards);
        for (int i = begin; i < end; i++) {
            cJSON_AddStringToObject(map, item[i].name, name);
            elements += (double)model_elements(item[i].t);
            bytes += (double)weights_bytes(&item[i]);
        }
        error = weights_write(item + begin, end - begin, folder, name, manifest);
        free(name);
        begin = end;
    }
    cJSON_AddNumberToObject(about, "total_parameters", elements);
    cJSON_AddNumberToObject(about, "total_size", bytes);
    if (!error)
        error = folder_write_json(folder, "model.safetensors.index.json", index, manifest);
    cJSON_Delete(index);
    return error;
}

/* Writes a row trained alongside adapters over the row it replaces in the model's tensor, which no
 * program reads; called with the returned `back`, restores that row. */
static float *put_row(const Model *m, float *back)
{
    float *was = NULL;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i], *of = model_row_of(m, t);
        if (!of)
            continue;
        const int64_t n = model_elements(t), at = model_elements(of) - n;
        was = back ? back : malloc(2 * (size_t)n * sizeof *was);
        if (!was)
            die(EXIT_IO, "out of memory for a row of %s", of->name);
        if (!back) {
            model_get(of, of->weight, of->type, at, n, was);
            if (t->master)
                model_get(t, t->master, EL_F32, 0, n, was + n);
            else
                model_get(t, t->weight, t->type, 0, n, was + n);
        }
        model_put(of, of->weight, of->type, at, n, back ? was : was + n);
    }
    return was;
}

char *hf_write_model(const Model *m, const char *folder, const HfHow *how, uint64_t shard_bytes,
                     cJSON *manifest)
{
    int n, nshards = 0;
    WeightsItem *item = items(m, how, &n);
    float *row = how->merged ? put_row(m, NULL) : NULL;
    if (how->merged)
        add_pairs(m, item, n);
    for (int i = 0; i < n; i = shard_end(item, n, i, shard_bytes))
        nshards++;
    char *error = nshards == 1
                      ? weights_write(item, n, folder, "model.safetensors", manifest)
                      : write_shards(item, n, nshards, folder, shard_bytes, manifest);
    if (row)
        put_row(m, row);
    free(row);
    free(item);
    if (!error)
        error = write_config(m, folder, how, manifest);
    if (!error && how->source)
        error = folder_copy_extras(how->source, folder, manifest);
    return error;
}

char *hf_write_weights(const Model *m, const char *folder, const char *file)
{
    int n;
    WeightsItem *item = items(m, &(HfHow){0}, &n);
    float *row = put_row(m, NULL);
    add_pairs(m, item, n);
    char *error = weights_write(item, n, folder, file, NULL);
    if (row)
        put_row(m, row);
    free(row);
    free(item);
    return error;
}

static char *write_model(const Model *m, const char *temp, const HfHow *how)
{
    return hf_write_model(m, temp, how, HF_SHARD_BYTES, NULL);
}

void hf_save(const Model *m, const char *folder, const HfHow *how)
{
    int n;
    WeightsItem *item = items(m, how, &n);
    float *row = how->merged ? put_row(m, NULL) : NULL;
    if (how->merged)
        add_pairs(m, item, n);
    hf_check_range(item, n);
    if (row)
        put_row(m, row);
    free(row);
    free(item);
    hf_replace(m, folder, how, write_model);
}
