/* hf_adapter.c -- import and export of PEFT adapter folders.
 *
 * In:    adapter_config.json and adapter_model.safetensors of any PEFT version.
 * Keeps: tensor names decide which modules are adapted; the config must give them the same scale.
 *        LoRA pairs are fp32 in the file, for any dtype of the base. */
#define _GNU_SOURCE
#include "runtime/model/hf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/model/hf_files.h"
#include "runtime/files/json.h"
#include "runtime/model/weights.h"

/* Keys that must have the program's value, with PEFT's default and our field. */
static const struct { const char *key, *value, *field; } scale_keys[] = {
    { "r", "8", "lora.rank" }, { "lora_alpha", "8", "lora.alpha" },
    { "use_rslora", "false", "lora.rslora" },
};

/* Keys that select another kind of adapter: its name, and the values (besides absent and null) that
 * mean plain LoRA. */
static const struct { const char *key, *name, *plain; } kind_keys[] = {
#define PEFT_KIND(key, name, plain) { key, name, plain },
#include "runtime/model/hf_peft.def"
};
static const char *const known_keys[] = {
#define PEFT_KIND(key, name, plain) key,
#define PEFT_KEY(key) key,
#include "runtime/model/hf_peft.def"
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static cJSON *own_config(const Model *m)
{
    char *error = NULL;
    if (!m->adapter_json)
        die(EXIT_MISMATCH, "this program was built without LoRA: it has no adapter");
    cJSON *config = json_parse(m->adapter_json, strlen(m->adapter_json), &error);
    if (!config)
        die(EXIT_INTERNAL, "adapter_config.json of this program: %s", error);
    return config;
}

static char *printed(const cJSON *value)
{
    char *text = cJSON_PrintUnformatted(value);
    if (!text)
        die(EXIT_IO, "out of memory for a value of adapter_config.json");
    if (strlen(text) > 80)
        memcpy(text + 77, "...", 4);
    return text;
}

/* True if absent or one of the values of a JSON list. */
static bool among(const cJSON *value, const char *list)
{
    cJSON *all = cJSON_Parse(list), *one;
    bool found = !value || cJSON_IsNull(value);
    cJSON_ArrayForEach(one, all)
        found = found || cJSON_Compare(one, value, true);
    cJSON_Delete(all);
    return found;
}

static void check_kind(const cJSON *ours, const cJSON *theirs, const char *folder)
{
    for (size_t i = 0; i < COUNT(kind_keys); i++) {
        const cJSON *found = json_get(theirs, kind_keys[i].key);
        if (!among(found, kind_keys[i].plain) &&
            !cJSON_Compare(found, json_get(ours, kind_keys[i].key), true))
            die(EXIT_MISMATCH, "%s/adapter_config.json: %s is %s: %s is not supported; plain LoRA "
                "and rsLoRA are", folder, kind_keys[i].key, printed(found), kind_keys[i].name);
    }
}

/* Ends the program at a key that is not known, unless its value turns nothing on. */
static void check_known(const cJSON *theirs, const char *folder)
{
    const cJSON *value;
    cJSON_ArrayForEach(value, theirs) {
        bool known = among(value, "[false,\"\",[],{}]");
        for (size_t i = 0; i < COUNT(known_keys); i++)
            known = known || !strcmp(known_keys[i], value->string);
        if (!known)
            die(EXIT_MISMATCH, "%s/adapter_config.json: %.60s is %s: not known here, and may "
                "change what the adapter computes; if it does not, remove it from the file", folder,
                value->string, printed(value));
    }
}

static void check_scale(const cJSON *ours, const cJSON *theirs, const char *folder)
{
    char *list = NULL, *words = NULL;
    for (size_t i = 0; i < COUNT(scale_keys); i++) {
        const char *key = scale_keys[i].key;
        cJSON *standard = cJSON_Parse(scale_keys[i].value);
        const cJSON *want = json_get(ours, key), *found = json_get(theirs, key);
        if (!want || cJSON_IsNull(want))
            want = standard;
        if (!found || cJSON_IsNull(found))
            found = standard;
        if (!cJSON_Compare(want, found, true)) {
            char *value = printed(found);
            char *longer = format("%s%s%s is %s, this program was built for %s", list ? list : "",
                                  list ? "; " : "", key, value, printed(want));
            char *more = format("%s %s=%s", words ? words : "", scale_keys[i].field, value);
            free(list), free(words), free(value);
            list = longer;
            words = more;
        }
        cJSON_Delete(standard);
    }
    if (list)
        die(EXIT_MISMATCH, "%s/adapter_config.json: %s: generate it with%s", folder, list, words);
}

/* Fully trained layers: their tensors identify them; a layer missing here is reported by name. */
static void check_whole(const cJSON *ours, const cJSON *theirs, const char *folder)
{
    const cJSON *want = json_get(ours, "modules_to_save");
    const cJSON *found = json_get(theirs, "modules_to_save");
    bool wants = cJSON_GetArraySize(want) > 0, has = cJSON_GetArraySize(found) > 0;
    if (wants != has)
        die(EXIT_MISMATCH, "%s/adapter_config.json: modules_to_save is %s, this program was built "
            "for %s: generate it with lora.modules_to_save of the same", folder,
            has ? printed(found) : "absent", wants ? printed(want) : "none");
}

/* Returns the module of a tensor and its length: "base_model.model.lm_head.weight" -> "lm_head". */
static const char *module_of(const char *tensor, size_t *n)
{
    const char *name = model_base_name(tensor), *end = strstr(name, ".lora_");
    if (!end)
        end = strrchr(name, '.');
    *n = end ? (size_t)(end - name) : strlen(name);
    return name;
}

/* PEFT's rule for list entries: the whole path, or a suffix after a dot. */
static bool names_module(const char *entry, const char *module, size_t n)
{
    size_t k = strlen(entry);
    return k <= n && memcmp(module + n - k, entry, k) == 0 && (k == n || module[n - k - 1] == '.');
}

/* Checks that every entry of target_modules names an adapted module and every adapted module is
 * named. A pattern instead of a list is not checked; the tensor names decide. */
static void check_targets(const Model *m, const cJSON *theirs, const char *folder)
{
    const cJSON *list = json_get(theirs, "target_modules"), *entry;
    if (!cJSON_IsArray(list))
        return;
    cJSON_ArrayForEach(entry, list) {
        const char *text = cJSON_GetStringValue(entry);
        bool used = false;
        for (int i = 0; i < m->ntensors && text; i++) {
            size_t n;
            const char *module = module_of(m->tensors[i].name, &n);
            used = used || (m->tensors[i].adapter && hf_is_pair(m->tensors[i].name) &&
                            names_module(text, module, n));
        }
        if (!used)
            die(EXIT_MISMATCH, "%s/adapter_config.json: target_modules has %s, which this program "
                "does not adapt", folder, printed(entry));
    }
    for (int i = 0; i < m->ntensors; i++) {
        if (!m->tensors[i].adapter || !hf_is_pair(m->tensors[i].name))
            continue;
        size_t n;
        const char *module = module_of(m->tensors[i].name, &n);
        bool named = false;
        cJSON_ArrayForEach(entry, list)
            named = named || names_module(cJSON_GetStringValue(entry), module, n);
        if (!named)
            die(EXIT_MISMATCH, "%s/adapter_config.json: target_modules lacks %.*s, which this "
                "program adapts", folder, (int)n, module);
    }
}

/* PEFT's FEATURE_EXTRACTION adapts AutoModel's class for the folder, the decoder alone, whose
 * modules are named "layers..." instead of "model.layers...". */
static bool of_decoder(const cJSON *config)
{
    const char *task = cJSON_GetStringValue(json_get(config, "task_type"));
    return task && !strcmp(task, "FEATURE_EXTRACTION");
}

static const char wrapped[] = "base_model.model.", decoder[] = "model.";

/* Returns our tensor's name in the file of such an adapter; and the reverse. malloc'ed. */
static char *decoder_name(const char *name)
{
    const char *base = model_base_name(name);
    bool its = base != name && !strncmp(base, decoder, strlen(decoder));
    return its ? format("%s%s", wrapped, base + strlen(decoder)) : format("%s", name);
}

static char *whole_name(const char *name)
{
    const char *base = model_base_name(name);
    return base != name ? format("%s%s%s", wrapped, decoder, base) : format("%s", name);
}

/* Checks an adapter folder; reads: loads its weights, too. */
static void take_in(Model *m, const char *folder, bool reads, bool allow_nonfinite)
{
    cJSON *ours = own_config(m);
    hf_check_kind(m, folder, true);
    cJSON *theirs = hf_read_json(folder, "adapter_config.json");
    if (!cJSON_IsObject(theirs))
        die(EXIT_DATA, "%s/adapter_config.json: not a JSON object", folder);
    check_kind(ours, theirs, folder);
    check_known(theirs, folder);
    check_scale(ours, theirs, folder);
    check_whole(ours, theirs, folder);
    check_targets(m, theirs, folder);
    char *path = folder_join(folder, "adapter_model.safetensors");
    char *pickle = folder_join(folder, "adapter_model.bin");
    if (access(path, F_OK) != 0 && access(pickle, F_OK) == 0)
        die(EXIT_MISMATCH,
            "%s: pickle files can run code and are not read; convert it once: python3 "
            "-c \"import torch, safetensors.torch as s; s.save_file(torch.load('%s', "
            "weights_only=True), '%s')\"",
            pickle, pickle, path);
    StFile file;
    char *error = st_open(&file, path);
    if (error)
        die(EXIT_DATA, "%s", error);

    HfWant *want = calloc((size_t)m->ntensors + 1, sizeof *want);
    if (!want)
        die(EXIT_IO, "out of memory for a list of %d tensors", m->ntensors);
    int n = 0;
    for (int i = 0; i < m->ntensors; i++)
        if (m->tensors[i].adapter) {
            want[n].name = format("%s", m->tensors[i].name);
            want[n++].t = &m->tensors[i];
        }
    hf_want_sort(want, n);
    HfNames unexpected = { 0, NULL };
    for (int i = 0; i < file.n; i++) {
        HfWant *w = hf_want_find(want, n, file.t[i].name);
        if (!w && of_decoder(ours)) {
            char *whole = whole_name(file.t[i].name);
            w = hf_want_find(want, n, whole);
            free(whole);
        }
        if (w) {
            w->from = &file.t[i];
            w->file = &file;
        } else {
            hf_names_add(&unexpected, file.t[i].name);
        }
    }
    if (unexpected.n > 0)
        die(EXIT_MISMATCH, "%s: %d unexpected tensors: %s%s", path, unexpected.n, unexpected.text,
            unexpected.n > 4 ? ", ..." : "");
    error = hf_want_check(want, n, path);
    if (error)
        die(EXIT_MISMATCH, "%s", error);
    (reads ? hf_want_read : hf_want_scan)(want, n, allow_nonfinite);
    for (int i = 0; i < n; i++)
        free(want[i].name);
    free(want);
    st_close(&file);
    free(path);
    free(pickle);
    cJSON_Delete(ours);
    cJSON_Delete(theirs);
}

void hf_load_adapter(Model *m, const char *folder, bool allow_nonfinite)
{
    take_in(m, folder, true, allow_nonfinite);
}

static void check_adapter(Model *m, const char *folder, bool allow_nonfinite)
{
    take_in(m, folder, false, allow_nonfinite);
}

static WeightsItem *items(const Model *m, const cJSON *config, const HfHow *how, int *n)
{
    WeightsItem *item = calloc((size_t)m->ntensors + 1, sizeof *item);
    if (!item)
        die(EXIT_IO, "out of memory for a list of %d tensors", m->ntensors);
    *n = 0;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        if (!t->adapter)
            continue;
        item[*n].name = of_decoder(config) ? decoder_name(t->name) : format("%s", t->name);
        item[*n].t = t;
        item[*n].dtype = element_dtype(hf_type(how, EL_F32));
        item[(*n)++].array = model_precise(t);
    }
    return item;
}

static void free_items(WeightsItem *item, int n)
{
    for (int i = 0; i < n; i++)
        free((char *)(uintptr_t)item[i].name);
    free(item);
}

static char *write_files(const Model *m, const char *folder, const HfHow *how, cJSON *manifest)
{
    int n;
    cJSON *config = own_config(m);
    WeightsItem *item = items(m, config, how, &n);
    if (how->source) {
        cJSON_DeleteItemFromObjectCaseSensitive(config, "base_model_name_or_path");
        cJSON_AddStringToObject(config, "base_model_name_or_path", how->source);
    }
    char *error = weights_write(item, n, folder, "adapter_model.safetensors", manifest);
    if (!error)
        error = folder_write_json(folder, "adapter_config.json", config, manifest);
    cJSON_Delete(config);
    free_items(item, n);
    return error;
}

static char *write_adapter(const Model *m, const char *temp, const HfHow *how)
{
    return write_files(m, temp, how, NULL);
}

void hf_save_adapter(const Model *m, const char *folder, const HfHow *how)
{
    int n;
    cJSON *config = own_config(m);
    WeightsItem *item = items(m, config, how, &n);
    hf_check_range(item, n);
    free_items(item, n);
    cJSON_Delete(config);
    hf_replace(m, folder, how, write_adapter);
}

const AdapterFolders hf_adapter_folders = {hf_load_adapter, check_adapter, hf_save_adapter,
                                          write_files};
