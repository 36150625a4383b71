/* initial_weights.c -- choice, loading and export of weights. */
#define _GNU_SOURCE
#include "runtime/run/initial_weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/hf.h"
#include "runtime/model/hf_config.h"
#include "runtime/model/model_parts.h"
#include "runtime/run/card.h"

const char *initial_folder(const char *value)
{
    return *value && strcmp(value, "none") ? value : NULL;
}

/* Checks the folders before data are packed, which may take minutes. */
static void check_there(const char *flag, const char *folder)
{
    if (folder && !file_named(folder))
        die(EXIT_CONFIG, "%s %s: no such folder%s", flag, folder, path_hint(folder));
}

/* Checks the ids of generation_config.json. */
static char *check_generation(const char *folder)
{
    static const char name[] = "generation_config.json";
    enum { JSON_MAX = 64 << 20 };
    char *path = folder_join(folder, name), *error = NULL;
    cJSON *json = file_named(path) ? folder_read_json(folder, name, JSON_MAX, &error) : NULL,
          *config = json ? folder_read_json(folder, "config.json", JSON_MAX, &error) : NULL;
    const cJSON *vocab = json_get(config, "vocab_size");
    char *wrong = error ? NULL : hf_config_ids(json, vocab ? vocab->valuedouble : 0);
    if (wrong)
        error = format("%s: %s", path, wrong);
    cJSON_Delete(json), cJSON_Delete(config);
    free(path), free(wrong);
    return error;
}

/* Ends the program if checkpoints could not copy the files of the base model. */
static void check_extras(const Checkpoints *c)
{
    char *error = c->base && c->source == c->base ? folder_check_extras(c->base) : NULL;
    if (!error && c->base && c->source == c->base)
        error = check_generation(c->base);
    if (error)
        die(EXIT_DATA, "%s; checkpoints copy this file: repair it, or take it out of the folder",
            error);
}

/* Notes a folder that was given, but not read: a resumed run has the weights of its checkpoint. */
static void note_unread(const Checkpoints *c, int flag, const char *folder, const char *key)
{
    const cJSON *start = json_get(c->state, "start");
    const char *before = cJSON_GetStringValue(json_get(start, key));
    folder = initial_folder(folder);
    if (!start || !c->flags->given[flag] || (!folder && !before))
        return;
    char *a = folder ? realpath(folder, NULL) : NULL, *b = before ? realpath(before, NULL) : NULL;
    if (!folder || !before || (strcmp(folder, before) && (!a || !b || strcmp(a, b))))
        note("%s %s is not read: %s has the weights, and this run began with %s; another --out "
             "begins a new run", flags_spelt(flag), folder ? folder : "none", c->found,
             before ? before : "none");
    free(a), free(b);
}

void initial_choose(Checkpoints *c, const Model *m)
{
    const Flags *f = c->flags;
    const char *recorded = cJSON_GetStringValue(json_get(json_get(c->file, "base"), "path"));
    const bool adapts = m->adapter_json;
    if (adapts && !*f->init_from && !recorded)
        die(EXIT_CONFIG, "adapters need a base model: --init-from FOLDER, or --init-from none for "
                         "random weights");
    if (!adapts && initial_folder(f->adapter))
        die(EXIT_CONFIG, "--adapter: this program has no LoRA; build it with lora.rank=N");
    c->base = initial_folder(adapts && !*f->init_from ? recorded : f->init_from);
    c->source = !adapts && c->found ? c->found : c->base;
    if (!c->found || adapts)
        check_there("--init-from", c->base);
    if (!c->found)
        check_there("--adapter", initial_folder(f->adapter));
    if (c->found && !c->read_only && !adapts)
        note_unread(c, FLAG_init_from, f->init_from, "model");
    if (c->found && !c->read_only && adapts)
        note_unread(c, FLAG_adapter, f->adapter, "adapter");
    if (!c->read_only)
        check_extras(c);
}

char *initial_words(const Checkpoints *c, const Model *m)
{
    if (!m->adapter_json && c->found)
        return format("%s", c->found);
    char *base = c->base ? format("%s", c->base)
                         : format("random, made from seed %" PRId64, c->flags->seed);
    if (!m->adapter_json)
        return base;
    const char *adapter = c->found ? c->found : initial_folder(c->flags->adapter);
    char *both = format("%s; adapters: %s", base, adapter ? adapter : "new");
    free(base);
    return both;
}

/* Loads the weights of the model folder `base`, if any; initialises all others from the seed. */
static void load_base(const Flags *f, Model *m, const char *base)
{
    if (base)
        hf_init(m, base, (uint64_t)f->seed, f->allow_nonfinite);
    else
        model_init(m, (uint64_t)f->seed);
    model_take_rows(m);
}

static void load_adapter(const Flags *f, Model *m, const char *adapter)
{
    if (m->adapter_json && adapter)
        m->adapter_folders->load(m, adapter, f->allow_nonfinite);
}

void initial_check(const Checkpoints *c, Model *m)
{
    const char *base = c->base ? c->base : initial_folder(c->flags->init_from),
               *adapter = initial_folder(c->flags->adapter);
    if (base && (!c->found || m->adapter_json))
        hf_check(m, base, false, c->flags->allow_nonfinite);
    if (adapter && !c->found)
        hf_check(m, adapter, true, c->flags->allow_nonfinite);
    check_extras(c);
}

void initial_note_padding(const Checkpoints *c, const Model *m)
{
    if (!c->found && c->base && !m->adapter_json)
        hf_note_padding(m, c->base);
}

/* Arguments of the last initial_load(). */
static const Checkpoints *loaded;
static Model *loaded_into;

void initial_load(Checkpoints *c, Model *m)
{
    if (!c->found || m->adapter_json)
        load_base(c->flags, m, c->base);
    if (c->found)
        checkpoint_load(c, m);
    else
        load_adapter(c->flags, m, initial_folder(c->flags->adapter));
    checkpoint_same_weights(c, m);
    loaded = c, loaded_into = m;
}

char *initial_mark(const Model *m)
{
    return format("%08x", model_crc(m));
}

/* ---- initial weights in the training state --------------------------------------------------- */

/* Folders; NULL: random weights, adapters of the seed. */
typedef struct {
    const char *base, *adapter;
} Start;

void initial_save_start(const Checkpoints *c, cJSON *state)
{
    const cJSON *before = c->found ? json_get(c->state, "start") : NULL;
    const char *adapter = initial_folder(c->flags->adapter);
    if (before)
        cJSON_AddItemToObject(state, "start", cJSON_Duplicate(before, true));
    if (c->found)
        return;
    cJSON *start = cJSON_AddObjectToObject(state, "start");
    if (c->base)
        cJSON_AddStringToObject(start, "model", c->base);
    if (adapter)
        cJSON_AddStringToObject(start, "adapter", adapter);
}

/* Returns the flag's value if given, else the checkpoint's, else the default. */
static const char *began_with(const Checkpoints *c, int flag, const char *value, const char *key)
{
    const cJSON *start = json_get(c->state, "start");
    return start && !c->flags->given[flag] ? cJSON_GetStringValue(json_get(start, key))
                                           : initial_folder(value);
}

static Start start_of(const Checkpoints *c, const Model *m)
{
    const Flags *f = c->flags;
    return (Start){
        .base = m->adapter_json ? c->base : began_with(c, FLAG_init_from, f->init_from, "model"),
        .adapter = m->adapter_json ? began_with(c, FLAG_adapter, f->adapter, "adapter") : NULL};
}

static void check_start(const Checkpoints *c, const char *folder, const char *flag)
{
    if (folder && !folder_exists(folder))
        die(EXIT_CONFIG,
            "%s: the run started from %s, which no longer exists; if it was moved, give its new "
            "path: %s FOLDER", c->found, folder, flag);
}

static void load_start(const Checkpoints *c, Model *m, Start s)
{
    const char *began = cJSON_GetStringValue(json_get(c->state, "began"));
    const bool adapts = m->adapter_json;
    check_start(c, s.base, "--init-from");
    check_start(c, s.adapter, "--adapter");
    load_base(c->flags, m, s.base);
    load_adapter(c->flags, m, s.adapter);
    char *now = initial_mark(m);
    if (!began || strcmp(began, now))
        die(EXIT_MISMATCH,
            "%s: the run began with weights of crc32c %s, %s%s%s have %s: give its initial "
            "weights, --init-from FOLDER%s",
            c->found, began ? began : "unknown", s.base ? s.base : "random ones of --seed",
            adapts ? " and adapters " : "",
            !adapts     ? ""
            : s.adapter ? s.adapter
                        : "of the seed",
            now, adapts ? " and --adapter FOLDER" : "");
    free(now);
}

void initial_load_first(const Checkpoints *c, Model *m)
{
    load_start(c, m, start_of(c, m));
}

void initial_load_start(const char *flag, const char *folder)
{
    if (!loaded->found)
        die(EXIT_CONFIG, "%s: these weights belong to no run that is known here; name the run's "
            "folder with --out", flag);
    Start start = start_of(loaded, loaded_into);
    if (folder)
        start.base = initial_folder(folder);
    load_start(loaded, loaded_into, start);
}

/* ---- finished weights ------------------------------------------------------------------------ */

void initial_finished(Checkpoints *c, const Flags *f, const Model *m, bool start)
{
    const bool adapts = m->adapter_json;
    const char *flag = adapts ? "--adapter" : "--init-from",
               *named = !f->given[adapts ? FLAG_adapter : FLAG_init_from] ? NULL
                        : adapts ? f->adapter : f->init_from;
    bool random = adapts && f->given[FLAG_init_from] && !initial_folder(f->init_from);
    bool looks = !named || f->given[FLAG_out] || f->given[FLAG_resume];
    *c = (Checkpoints){.out = f->out, .flags = f, .read_only = true};
    if (looks && checkpoint_find(c, m) && named && !start)
        die(EXIT_CONFIG, "both %s and %s %s have weights: leave out %s, or --out and --resume",
            c->found, flag, named, flag);
    if (!c->found && !named && !random)
        die(EXIT_NO_CKPT, "no checkpoint in %s%s; did you mean %s", f->out,
            folder_exists(f->out) ? "" : ", which is not there",
            !adapts ? "--init-from? (a model folder; none: random weights)"
            : f->given[FLAG_init_from]
                ? "--adapter in addition to --init-from? (a PEFT folder; none: adapters that "
                  "change nothing)"
                : "--init-from? (with --adapter FOLDER; --adapter none: adapters that change "
                  "nothing)");
    initial_choose(c, m);
}

void initial_check_export(const Flags *f, const char *dir)
{
    char *path = format("%s", dir);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    char *leaf = strrchr(path, '/');
    long long step;
    int end = 0;
    const bool named = sscanf(leaf ? leaf + 1 : path, "checkpoint-%lld%n", &step, &end) == 1 &&
                       !(leaf ? leaf + 1 : path)[end];
    if (leaf)
        leaf[leaf == path] = 0;
    char *a = realpath(leaf ? path : ".", NULL), *b = realpath(f->out, NULL);
    if (named && a && b && !strcmp(a, b))
        die(EXIT_CONFIG, "%s: is the name of a checkpoint of this run, and would be taken for a "
            "damaged one; name another folder", dir);
    free(a), free(b), free(path);
}

void initial_export(const Checkpoints *c, Model *m)
{
    const Flags *f = c->flags;
    char *card = card_text(c, m, false, NULL, false, false);
    if (parts_gather(m)) {
        hf_save(m, f->export, &(HfHow){.source = c->source ? c->source : c->found, .card = card,
                                       .dtype = *f->export_dtype ? f->export_dtype : NULL});
        parts_gathered();
    }
    note("wrote %s", f->export);
    free(card);
}
