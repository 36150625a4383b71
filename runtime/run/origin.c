/* origin.c -- chooses, loads and writes out weights. */
#include "runtime/run/origin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/data/vocabulary.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/hf.h"
#include "runtime/run/card.h"
#include "runtime/run/records.h"

const char *origin_folder(const char *value)
{
    return *value && strcmp(value, "none") ? value : NULL;
}

void origin_choose(Checkpoints *c, const Model *m)
{
    const Flags *f = c->flags;
    const char *recorded = cJSON_GetStringValue(json_get(json_get(c->file, "base"), "path"));
    const bool adapts = m->adapter_json;
    if (adapts && !*f->init_from && !recorded)
        die(EXIT_CONFIG, "adapters want a model to work on: --init-from FOLDER; "
                         "--init-from none is one of random weights");
    if (!adapts && origin_folder(f->adapter) && !c->found)
        die(EXIT_CONFIG, "--adapter: this binary has no LoRA; generate it with lora.rank > 0");
    c->base = origin_folder(adapts && !*f->init_from ? recorded : f->init_from);
    c->source = !adapts && c->found ? c->found : c->base;
}

char *origin_words(const Checkpoints *c, const Model *m)
{
    if (!m->adapter_json && c->found)
        return format("%s", c->found);
    char *base = c->base ? format("%s", c->base)
                         : format("random, made from seed %" PRId64, c->flags->seed);
    if (!m->adapter_json)
        return base;
    const char *adapter = c->found ? c->found : origin_folder(c->flags->adapter);
    char *both = format("%s; adapters: %s", base, adapter ? adapter : "new");
    free(base);
    return both;
}

/* Of the seed, over them those of a model folder. */
static void load_base(const Checkpoints *c, Model *m)
{
    model_init(m, (uint64_t)c->flags->seed);
    if (c->base)
        hf_load(m, c->base, c->flags->allow_nonfinite);
    model_take_rows(m);
}

static void load_adapter(const Checkpoints *c, Model *m)
{
    const char *adapter = origin_folder(c->flags->adapter);
    if (m->adapter_json && adapter)
        hf_load_adapter(m, adapter, c->flags->allow_nonfinite);
}

void origin_check(const Checkpoints *c, Model *m)
{
    const char *base = c->base ? c->base : origin_folder(c->flags->init_from),
               *adapter = origin_folder(c->flags->adapter);
    if (base && (!c->found || m->adapter_json))
        hf_check(m, base, false);
    if (adapter && !c->found)
        hf_check(m, adapter, true);
}

/* What origin_load() was called with last. */
static const Checkpoints *loaded;
static Model *loaded_into;

void origin_load(Checkpoints *c, Model *m)
{
    if (!c->found || m->adapter_json)
        load_base(c, m);
    if (c->found)
        checkpoint_load(c, m);
    else
        load_adapter(c, m);
    checkpoint_same_weights(c, m);
    loaded = c, loaded_into = m;
}

char *origin_mark(const Model *m)
{
    return format("%08x", model_crc(m));
}

void origin_load_first(const Checkpoints *c, Model *m)
{
    const char *began = cJSON_GetStringValue(json_get(c->state, "began")),
               *adapter = origin_folder(c->flags->adapter);
    load_base(c, m);
    load_adapter(c, m);
    char *now = origin_mark(m);
    if (!began || strcmp(began, now) != 0)
        die(EXIT_MISMATCH, "%s: the run began with weights of crc32c %s, %s%s%s%s have %s: name "
            "those it began with", c->found, began ? began : "unknown",
            c->base ? c->base : "random ones",
            m->adapter_json ? " and adapters " : "",
            !m->adapter_json ? "" : adapter ? adapter : "of the seed",
            *c->flags->init_from ? "" : " (there is no --init-from)", now);
    free(now);
}

void origin_load_start(const char *flag, const char *folder)
{
    Checkpoints start = *loaded;
    if (!start.found)
        die(EXIT_CONFIG, "%s: these weights are of no run here: want --out, a run folder", flag);
    start.base = folder ? origin_folder(folder) : start.base;
    origin_load_first(&start, loaded_into);
}

/* ---- finished weights ------------------------------------------------------------------------ */

void origin_finished(Checkpoints *c, const Flags *f, const Model *m, bool start)
{
    const bool adapts = m->adapter_json;
    const char *flag = adapts ? "--adapter" : "--init-from",
               *named = !f->given[adapts ? FLAG_adapter : FLAG_init_from] ? NULL
                        : adapts ? f->adapter : f->init_from;
    bool random = adapts && f->given[FLAG_init_from] && !origin_folder(f->init_from);
    bool looks = !named || f->given[FLAG_out] || f->given[FLAG_resume];
    *c = (Checkpoints){.out = f->out, .flags = f, .looks = true};
    if (looks && checkpoint_find(c, m) && named && !start)
        die(EXIT_CONFIG, "both %s and %s %s hold weights: leave %s out, or --out and --resume",
            c->found, flag, named, flag);
    if (!c->found && !named && !random)
        die(EXIT_NO_CKPT, "no checkpoint in %s%s; did you mean %s", f->out,
            folder_exists(f->out) ? "" : ", which is not there",
            !adapts ? "--init-from? (a model folder; none: random weights)"
            : f->given[FLAG_init_from]
                ? "--adapter beside --init-from? (a PEFT folder; none: adapters that change "
                  "nothing)"
                : "--init-from? (with --adapter FOLDER; --adapter none: adapters that change "
                  "nothing)");
    origin_choose(c, m);
}

/* how: but for the card; its tokenizer goes along where how.source has none. */
static void save(const Checkpoints *c, Model *m, const char *folder, bool adapter, HfHow how)
{
    char *own = vocabulary_own(&how.source, 1), *card = card_text(c, m, adapter, own || how.tokenizer);
    how.card = card;
    how.tokenizer = own ? NULL : how.tokenizer;
    if (adapter)
        hf_save_adapter(m, folder, &how);
    else
        hf_save(m, folder, &how);
    free(own), free(card);
}

void origin_write(const Checkpoints *c, Model *m, const char *folder, const char *tokenizer)
{
    char *error = folder_make_parents(folder);
    if (error)
        die(EXIT_IO, "%s", error);
    save(c, m, folder, m->adapter_json, (HfHow){.source = c->source, .tokenizer = tokenizer});
    note("wrote %s", folder);
}

/* The tokenizer of the checkpoint's weights: beside them, or the file named when it is of their records. Of weights
 * that do not say which one they mean the file named; malloc'ed; NULL: there is none. */
static char *tokenizer_of(const Checkpoints *c)
{
    const char *named = records_tokenizer(c->flags);
    char *file, *id;
    if (!vocabulary_of(c->found, &file, &id))
        return *named && strcmp(named, "bytes") ? format("%s", named) : NULL;
    if (!file)
        file = vocabulary_file(id, named, NULL, 0);
    free(id);
    return file;
}

void origin_export(const Checkpoints *c, Model *m)
{
    const Flags *f = c->flags;
    const bool merged = *f->merge_lora, adapter = m->adapter_json && !merged;
    const char *folder = merged ? f->merge_lora : f->export;
    const char *source = adapter ? c->base : c->source ? c->source : c->found;
    char *tokenizer = tokenizer_of(c);
    const HfHow how = {.source = source, .merged = merged, .dtype = *f->export_dtype ? f->export_dtype : NULL,
                       .tokenizer = tokenizer};
    if (world.rank == 0)
        save(c, m, folder, adapter, how);
    note("wrote %s", folder);
    free(tokenizer);
}
