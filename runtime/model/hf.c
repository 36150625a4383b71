/* hf.c -- import and export of Hugging Face model folders; what adapter folders share with them.
 *
 * In:    config.json and safetensors of transformers 4.x or 5.x.
 * Keeps: all names and shapes are checked before the first value is read.
 * Method: import matches every tensor of the folder with one of the model by name, checks shapes,
 *         then reads; export lists the tensors, assigns them to shards and writes. */
#define _GNU_SOURCE
#include "runtime/model/hf.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/hf_config.h"
#include "runtime/model/hf_files.h"
#include "runtime/model/nf4_weights.h"
#include "runtime/model/weights.h"
#include "runtime/ranks/comm.h"

/* ---- shared with adapters -------------------------------------------------------------------- */

bool hf_is_pair(const char *name)
{
    return strstr(name, ".lora_A.") || strstr(name, ".lora_B.") ||
           strstr(name, ".lora_embedding_A") || strstr(name, ".lora_embedding_B");
}

static bool has(const char *folder, const char *name)
{
    char *path = folder_join(folder, name);
    bool there = file_named(path);
    free(path);
    return there;
}

static void check_exists(const char *folder)
{
    if (folder_exists(folder))
        return;
    if (access(folder, F_OK) == 0)
        die(EXIT_CONFIG, "%s: is a file; name the folder that contains it", folder);
    die(EXIT_CONFIG, "%s: no such folder%s", folder, path_hint(folder));
}

/* The folder is an adapter, not a model: ends with the flags that load both. */
static void end_adapter(const Model *m, const char *folder)
{
    char *error = NULL;
    cJSON *config = folder_read_json(folder, "adapter_config.json", 64u << 20, &error);
    const char *base = cJSON_GetStringValue(json_get(config, "base_model_name_or_path"));
    if (!m->adapter_json)
        die(EXIT_CONFIG,
            "%s: is a PEFT adapter of %s, not a model, and this program has no LoRA: merge "
            "it into its base, or generate with lora.rank > 0",
            folder, base && *base ? base : "a base it does not name");
    die(EXIT_CONFIG, "%s: is a PEFT adapter, not a model: use --adapter %s --init-from %s", folder,
        shell_word(folder), base && *base ? shell_word(base) : "its base, which it does not name");
}

void hf_check_kind(const Model *m, const char *folder, bool adapter)
{
    check_exists(folder);
    bool model = has(folder, "config.json");
    if (has(folder, "adapter_config.json")) {
        if (adapter || has(folder, "model.safetensors") ||
            has(folder, "model.safetensors.index.json"))
            return;
        end_adapter(m, folder);
    }
    if (model && adapter)
        die(EXIT_CONFIG, "%s: is a model, not a PEFT adapter: use --init-from %s", folder,
            shell_word(folder));
    if (model)
        return;
    int n;
    int64_t *steps = folder_steps(folder, &n);
    if (n > 0)
        die(EXIT_CONFIG, "%s: is a run folder; name one of its checkpoints: %s/checkpoint-%lld",
            folder, folder, (long long)steps[n - 1]);
    free(steps);
    if (has(folder, "snapshots"))
        die(EXIT_CONFIG, "%s: a model in the hub's cache; name the folder of one of its revisions "
            "in %s/snapshots", folder, folder);
}

cJSON *hf_read_json(const char *folder, const char *name)
{
    char *error = NULL;
    cJSON *json = folder_read_json(folder, name, 64u << 20, &error);
    if (!json)
        die(EXIT_DATA, "%s", error);
    return json;
}

static void want_read(const HfWant *w, bool store, bool allow_nonfinite)
{
    int64_t bad = 0;
    int code = EXIT_DATA;
    char *error = w->from->dtype == ST_U8
                      ? w->t->nf4.access->load(w, store, &code)
                  : store            ? weights_read(w->file, w->from, w->t, NULL, &bad)
                  : !allow_nonfinite ? weights_scan(w->file, w->from, &bad)
                                     : NULL;
    if (error)
        die(code, "%s", error);
    if (bad > 0 && !allow_nonfinite)
        die(EXIT_DATA, "%s: %s holds %lld NaN or Inf; --allow-nonfinite loads it anyway",
            w->file->path, w->name, (long long)bad);
}

void hf_want_read(const HfWant *want, int n, bool allow_nonfinite)
{
    for (int i = 0; i < n; i++)
        if (want[i].from)
            want_read(&want[i], true, allow_nonfinite);
        else
            note("%s is not in the folder: it keeps its initial values", want[i].name);
}

void hf_want_scan(const HfWant *want, int n, bool allow_nonfinite)
{
    const double much = 1e9, began = clock_seconds();
    const int ranks = world.local_size > 0 ? world.local_size : 1;
    double bytes = 0;
    for (int i = 0; i < n; i++) {
        const StTensor *from = want[i].from;
        if (from && i % ranks == (world.local_rank > 0 ? world.local_rank : 0))
            want_read(&want[i], false, allow_nonfinite);
        bytes += from && from->dtype != ST_U8 ? (double)(from->end - from->begin) : 0;
    }
    if (bytes >= much && !allow_nonfinite)
        note("weights: no NaN or Inf in %.1f GB, read in %.0f s", bytes / 1e9,
             clock_seconds() - began);
}

/* True for names written by model or adapter exports. */
static bool is_ours(const char *name)
{
    static const char *const pattern[] = {
        "config.json", "model.safetensors", "model.safetensors.index.json",
        "model-*-of-*.safetensors", "adapter_config.json", "adapter_model.safetensors", "README.md",
    };
    for (size_t i = 0; i < sizeof pattern / sizeof *pattern; i++)
        if (fnmatch(pattern[i], name, 0) == 0)
            return true;
    return folder_is_extra(name);
}

/* ---- README.md: the card, then a line with its checksum that detects edits ----------------- */

static char *card_line(const char *card, size_t n)
{
    return format("\n<!-- written by diecast, crc32c %08x -->\n", crc32c(0, card, n));
}

/* True if it is unchanged since it was written. */
static bool card_is_ours(const char *folder)
{
    size_t n, end;
    char *path = folder_join(folder, "README.md"), *error = NULL,
         *card = file_read_nofollow(path, 1 << 24, &n, &error), *line = card_line("", 0);
    bool ours = false;
    if (error && error_remedy(error))
        die(EXIT_IO, "%s", error);
    if (card && n > strlen(line)) {
        end = n - strlen(line);
        free(line);
        line = card_line(card, end);
        ours = !strcmp(card + end, line);
    }
    free(path), free(error), free(card), free(line);
    return ours;
}

static char *write_card(const char *folder, const char *card)
{
    char *line = card_line(card, strlen(card)), *text = format("%s%s", card, line),
         *error = folder_write_text(folder, "README.md", text, NULL);
    free(line), free(text);
    return error;
}

/* Ends the program unless the folder is absent, empty, or an export; card: exports have one,
 * unchanged. */
static void check_replaceable(const char *folder, const char *source, bool card)
{
    struct stat s, t;
    if (lstat(folder, &s))
        return;
    if (!S_ISDIR(s.st_mode))
        die(EXIT_CONFIG, "%s: exists and is not a folder; name another", folder);
    if (source && stat(source, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino)
        die(EXIT_CONFIG, "%s: is the folder that the model came from; name another", folder);
    DIR *dir = opendir(folder);
    if (!dir)
        die(EXIT_IO, "%s: open: %s", folder, strerror(errno));
    bool any = false, has_card = false;
    for (struct dirent *d; (errno = 0, d = readdir(dir));) {
        any |= strcmp(d->d_name, ".") && strcmp(d->d_name, "..");
        has_card |= !strcmp(d->d_name, "README.md");
        if (!strcmp(d->d_name, "README.md") && !card_is_ours(folder))
            die(EXIT_CONFIG,
                "%s: holds a README.md that was not written here, or was changed since; move it "
                "away, or "
                "name another folder",
                folder);
        else if (strcmp(d->d_name, ".") && strcmp(d->d_name, "..") && !is_ours(d->d_name))
            die(EXIT_CONFIG,
                "%s: holds %s, which does not belong to a model folder; name another folder",
                folder, d->d_name);
    }
    if (card && any && !has_card)
        die(EXIT_CONFIG, "%s: holds a model that was not written here (it has no README.md); move "
                         "it away, or name another folder", folder);
    if (errno)
        die(EXIT_IO, "%s: read: %s", folder, strerror(errno));
    closedir(dir);
}

ElementType hf_type(const HfHow *how, ElementType type)
{
    static const char *const word[] = {[EL_F32] = "fp32", [EL_BF16] = "bf16", [EL_F16] = "fp16"};
    for (size_t i = 0; how->dtype && i < sizeof word / sizeof *word; i++)
        if (!strcmp(how->dtype, word[i]))
            return (ElementType)i;
    if (how->dtype)
        die(EXIT_INTERNAL, "weights as %s: no such type", how->dtype);
    return type;
}

void hf_check_range(const WeightsItem *item, int n)
{
    char *error = weights_beyond(item, n);
    if (error)
        die(EXIT_CONFIG, "--export-dtype fp16: %s: bf16 and fp32 hold it", error);
}

void hf_replace(const Model *m, const char *folder, const HfHow *how, HfWriter *write)
{
    char *final = strdup(folder);
    for (size_t n = strlen(final); n > 1 && final[n - 1] == '/'; n--)
        final[n - 1] = 0;
    check_replaceable(final, how->source, how->card);
    char *temp = format("%s.tmp", final), *error = folder_make_parents(final);
    comm_expect(weights_seconds(m));
    if (!error && folder_exists(temp))
        error = folder_remove(temp);
    if (!error)
        error = folder_make(temp);
    if (!error) {
        error = write(m, temp, how);
        if (!error && how->card)
            error = write_card(temp, how->card);
        if (!error && how->tokenizer)
            error = folder_copy_tokenizer(how->tokenizer, temp, NULL);
        if (!error && how->complete)
            error = how->complete(temp, how->with);
        if (!error)
            error = folder_commit(temp, final);
        if (error)
            free(folder_remove(temp));
    }
    if (error)
        die(EXIT_IO, "%s", error);
    comm_expect(0);
    free(temp);
    free(final);
}

/* ---- import --------------------------------------------------------------------------------- */

static cJSON *own_config(const Model *m)
{
    char *error = NULL;
    cJSON *config = json_parse(m->config_json, strlen(m->config_json), &error);
    if (!config)
        die(EXIT_INTERNAL, "config.json of this program: %s", error);
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

/* Ends the program if it cannot read a folder that bitsandbytes quantised. */
static void check_quantised(const Model *m, const HfWant *want, int n, const char *folder)
{
    if (!model_has_nf4(m))
        die(EXIT_MISMATCH,
            "%s: the model is quantised to NF4, this program was built for lora.base = \"same\"; "
            "gen %s%s lora.base=nf4 makes one that reads it",
            folder, model_words(m, "lora.base"), m->nmerges ? "" : " lora.rank=16");
    for (int i = 0; i < n; i++)
        if (want[i].from && want[i].t->weight.type == EL_NF4 && want[i].from->dtype != ST_U8)
            die(EXIT_MISMATCH,
                "%s: %s is %s, though config.json says that the model is quantised; models with "
                "only some layers quantised are not supported: use the original model",
                want[i].file->path, want[i].name, st_dtype_name[want[i].from->dtype]);
}

/* Draws values for the tensors that the folder lacks. */
static void init_others(Model *m, const HfWant *want, int n, uint64_t seed)
{
    bool *read = calloc((size_t)m->ntensors + 1, sizeof *read);
    if (!read)
        die(EXIT_IO, "out of memory for a list of %d tensors", m->ntensors);
    for (int i = 0; i < m->ntensors; i++)
        for (int j = 0; j < n; j++)
            read[i] |= want[j].from && want[j].t == &m->tensors[i];
    model_init_except(m, seed, read);
    free(read);
}

/* read: also load the weights, else only check them. seed: of the tensors that the folder lacks;
 * NULL: they keep their values. */
static void take_in(Model *m, const char *folder, bool read, const uint64_t *seed,
                    bool allow_nonfinite)
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
        die(has(folder, "model.safetensors") || has(folder, "model.safetensors.index.json")
                ? EXIT_DATA : EXIT_MISMATCH, "%s", error);
    int n;
    HfWant *want = wanted(m, &n);
    Tensor *fewer;
    int code;
    if (hf_config_is_nf4(theirs) && !model_has_nf4(m))
        check_quantised(m, want, 0, folder);
    error = hf_match(want, n, &set, ours, folder, &fewer, &code);
    if (error)
        check_layers(m, want, n, folder);
    if (error)
        die(code, "%s", error);
    if (hf_config_is_nf4(theirs))
        check_quantised(m, want, n, folder);
    for (int i = 0; i < n; i++)
        if (want[i].from && want[i].from->dtype == ST_BF16 && want[i].t->weight.type == EL_F16)
            die(EXIT_MISMATCH, "%s: %s is BF16, which fp16 cannot represent; use a bf16 recipe",
                want[i].file->path, want[i].name);
    if (seed)
        init_others(m, want, n, *seed);
    (read ? hf_want_read : hf_want_scan)(want, n, allow_nonfinite);
    if (read && fewer) {
        fewer->shape[0]++;
        model_grow(m, model_need(m, fewer->name));
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
    take_in(m, folder, true, NULL, allow_nonfinite);
}

void hf_init(Model *m, const char *folder, uint64_t seed, bool allow_nonfinite)
{
    take_in(m, folder, true, &seed, allow_nonfinite);
}

void hf_check(Model *m, const char *folder, bool adapter, bool allow_nonfinite)
{
    if (adapter && m->adapter_folders)
        m->adapter_folders->check(m, folder, allow_nonfinite);
    else if (adapter)
        hf_check_kind(m, folder, true);
    else
        take_in(m, folder, false, NULL, allow_nonfinite);
}

/* ---- export --------------------------------------------------------------------------------- */

/* Dtype of the weights outside the adapter: for a merged head, and for config.json. */
static ElementType model_type(const Model *m)
{
    for (int i = 0; i < m->ntensors; i++)
        if (!m->tensors[i].adapter && model_computes(&m->tensors[i]) != EL_F32)
            return model_computes(&m->tensors[i]);
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
        item[*n].dtype =
            element_dtype(hf_type(how, t->adapter ? model_type(m) : model_computes(t)));
        item[(*n)++].array = how->dtype ? model_precise(t) : t->weight;
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
                item[k].array = model_precise(t);
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
    if (how->source && has(how->source, "config.json"))
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

/* Gives each tensor the row trained alongside adapters that replaces its last. */
static void add_rows(const Model *m, WeightsItem *item, int n)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *of = model_row_of(m, &m->tensors[i]);
        for (int k = 0; of && k < n; k++)
            if (item[k].t == of)
                item[k].row = &m->tensors[i];
    }
}

/* Items of the model with all that is trained alongside it. */
static WeightsItem *merged_items(const Model *m, const HfHow *how, int *n)
{
    WeightsItem *item = items(m, how, n);
    add_rows(m, item, *n);
    add_pairs(m, item, *n);
    return item;
}

char *hf_write_model(const Model *m, const char *folder, const HfHow *how, uint64_t shard_bytes,
                     cJSON *manifest)
{
    int n, nshards = 0;
    WeightsItem *item = (how->merged ? merged_items : items)(m, how, &n);
    for (int i = 0; i < n; i = shard_end(item, n, i, shard_bytes))
        nshards++;
    char *error = nshards == 1
                      ? weights_write(item, n, folder, "model.safetensors", manifest)
                      : write_shards(item, n, nshards, folder, shard_bytes, manifest);
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
    WeightsItem *item = merged_items(m, &(HfHow){0}, &n);
    char *error = weights_write(item, n, folder, file, NULL);
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
    WeightsItem *item = (how->merged ? merged_items : items)(m, how, &n);
    hf_check_range(item, n);
    free(item);
    hf_replace(m, folder, how, write_model);
}
