/* export.c -- writes finished weights with the tokenizer of their records. */
#include "runtime/run/export.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/data/vocabulary.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/hf.h"
#include "runtime/run/card.h"
#include "runtime/run/export_files.h"
#include "runtime/run/records.h"

/* Exports the weights. how: all but the card; its tokenizer, "bytes" or a file, is copied if the
 * source of a model has none. An adapter gets that of its base. */
static void save(const Checkpoints *c, Model *m, const char *folder, bool adapter, HfHow how)
{
    char *own = vocabulary_of_folder(&how.source, 1);
    const char *tokenizer = adapter && how.tokenizer ? how.tokenizer : own ? own : how.tokenizer;
    const bool bytes = tokenizer && !strcmp(tokenizer, "bytes");
    const ExportFiles files = {.m = m,
                               .chat = cJSON_GetStringValue(json_get(c->state, "chat")),
                               .base = c->base,
                               .adapter = adapter,
                               .trained = c->file,
                               .bytes = bytes};
    char *card = card_text(c, m, adapter, tokenizer, tokenizer && export_words(tokenizer));
    how.card = card;
    how.tokenizer = bytes || (own && !adapter) ? NULL : tokenizer;
    how.complete = export_files_write;
    how.with = &files;
    if (adapter)
        hf_save_adapter(m, folder, &how);
    else
        hf_save(m, folder, &how);
    free(own), free(card);
}

void export_write(const Checkpoints *c, Model *m, const char *folder, const char *tokenizer)
{
    char *error = folder_make_parents(folder);
    if (error)
        die(EXIT_IO, "%s", error);
    save(c, m, folder, m->adapter_json, (HfHow){.source = c->source, .tokenizer = tokenizer});
    note("wrote %s", folder);
}

/* Returns the tokenizer of the checkpoint's weights: next to them, or the given file if it matches
 * their records; "bytes". For weights that do not name one: the given file. malloc'ed; NULL:
 * none. */
static char *tokenizer_of(const Checkpoints *c)
{
    const char *named = records_tokenizer(c->flags);
    char *file, *id;
    if (!vocabulary_of(c->found, &file, &id))
        return *named ? format("%s", named) : NULL;
    if (!file)
        file = strcmp(id, "bytes") ? vocabulary_file(id, named, NULL, 0) : format("%s", id);
    free(id);
    return file;
}

void export_text(const Checkpoints *c, Model *m)
{
    const Flags *f = c->flags;
    const bool merged = *f->merge_lora, adapter = m->adapter_json && !merged;
    const char *folder = merged ? f->merge_lora : f->export;
    const char *source = adapter ? c->base : c->source ? c->source : c->found;
    char *tokenizer = tokenizer_of(c);
    const HfHow how = {.source = source,
                       .merged = merged,
                       .dtype = *f->export_dtype ? f->export_dtype : NULL,
                       .tokenizer = tokenizer};
    if (world.rank == 0)
        save(c, m, folder, adapter, how);
    note("wrote %s", folder);
    free(tokenizer);
}
