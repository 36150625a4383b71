/* export.c -- writes finished weights with the tokenizer of their records, its chat template and
 * generation settings; completes the tokenizer files of checkpoints in the same way.
 *
 * Keeps: a file of the base model changes only where it contradicts the training.
 * Method: completes the files that were copied from the base. */
#define _GNU_SOURCE
#include "runtime/run/export.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/data/tokenizer.h"
#include "runtime/data/tokenizer_class.h"
#include "runtime/data/vocabulary.h"
#include "runtime/data/words.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/hf.h"
#include "runtime/model/model_parts.h"
#include "runtime/pack/pack.h"
#include "runtime/run/card.h"
#include "runtime/run/records.h"

/* ---- the files of a folder ------------------------------------------------------------------- */

typedef struct {
    const Model *m;
    const char *chat;            /* chat format of the training data (chats.def), or NULL */
    const char *record;          /* their chat_template (render_record()), or NULL */
    const char *base;            /* folder of the adapter's base model, or NULL */
    bool adapter;
    bool trained;                /* the weights come from a checkpoint */
    bool checkpoint;             /* the folder is one: written often, and resumed from */
    bool bytes;                  /* write tokenizer.json of the byte vocabulary */
} ExportFiles;

enum { JSON_MAX = 64 << 20 };
static const char template_file[] = "chat_template.jinja", class_key[] = "tokenizer_class";

static bool has(const char *folder, const char *name)
{
    char *path = folder_join(folder, name);
    const bool there = file_named(path);
    free(path);
    return there;
}

/* Returns a JSON object of the folder; empty if there is no such file, or with *error set. */
static cJSON *read_object(const char *folder, const char *name, char **error)
{
    cJSON *json = folder && has(folder, name) ? folder_read_json(folder, name, JSON_MAX, error)
                                              : cJSON_CreateObject();
    if (json && !cJSON_IsObject(json)) {
        *error = format("%s/%s: must be an object", folder, name);
        cJSON_Delete(json);
        json = NULL;
    }
    return json;
}

static char *write_object(const char *folder, const char *name, const cJSON *json)
{
    char *path = folder_join(folder, name);
    unlink(path);
    free(path);
    return folder_write_json(folder, name, json, NULL);
}

static const char *word_of(const cJSON *json, const char *key)
{
    const char *word = cJSON_GetStringValue(json_get(json, key));
    return word ? word : "";
}

/* ---- the tokenizer --------------------------------------------------------------------------- */

static char *write_bytes(const char *folder)
{
    char *text = tokenizer_bytes_file(),
         *error = folder_write_text(folder, "tokenizer.json", text, NULL);
    free(text);
    if (error)
        return error;
    cJSON *config = cJSON_CreateObject();
    cJSON_AddStringToObject(config, "eos_token", "<|endoftext|>");
    cJSON_AddStringToObject(config, class_key, tokenizer_class_plain);
    error = write_object(folder, "tokenizer_config.json", config);
    cJSON_Delete(config);
    return error;
}

/* Returns the JSON of a plain word vocabulary; NULL: another kind of file. */
static cJSON *read_words(const char *path)
{
    size_t n;
    char *error = NULL, *text = file_named(path) ? file_read(path, JSON_MAX, &n, &error) : NULL;
    cJSON *json = text ? json_parse(text, n, &error) : NULL;
    free(text), free(error);
    if (words_plain(json))
        return json;
    cJSON_Delete(json);
    return NULL;
}

/* True if the file is a word-list vocabulary (words.h), which transformers cannot read. */
static bool is_words(const char *tokenizer)
{
    cJSON *words = read_words(tokenizer);
    cJSON_Delete(words);
    return words;
}

/* Writes the tokenizer file that transformers reads for a word vocabulary, if it is missing. */
static char *write_twin(const char *folder, const cJSON *words)
{
    static const char name[] = "tokenizer_hf.json";
    cJSON *twin = NULL;
    char *error = has(folder, name) ? NULL : words_layout(words, &twin);
    if (!error && twin)
        error = folder_write_json(folder, name, twin, NULL);
    cJSON_Delete(twin);
    return error;
}

/* True if the folder's chat template, if any, is that of the format. */
static bool template_is(const Chat *chat, const Tokenizer *t, const char *path)
{
    const Chat *its = NULL;
    char *why = NULL, *error = chat_choose(&its, &why, t, path, NULL);
    const bool same = !error && its == chat && why && strstr(why, "chat_template in ");
    free(error), free(why);
    return same;
}

/* True if the folder of a tokenizer has a chat template. */
static bool has_template(const char *tokenizer)
{
    ChatTemplate *t = NULL;
    free(render_open(&t, tokenizer));
    const bool there = t;
    render_free(t);
    return there;
}

/* Writes tokenizer_config.json; own_template: without its template, which chat_template.jinja
 * replaces. */
static char *complete_config(const char *folder, const ExportFiles *x, const Tokenizer *t,
                             bool own_template)
{
    const bool there = has(folder, "tokenizer_config.json");
    char *error = NULL;
    cJSON *config = read_object(folder, "tokenizer_config.json", &error);
    if (!config)
        return error;
    bool changed = own_template && json_get(config, "chat_template");
    if (changed)
        cJSON_DeleteItemFromObjectCaseSensitive(config, "chat_template");
    if (!there && tokenizer_eos_text(t)) {
        cJSON_AddStringToObject(config, "eos_token", tokenizer_eos_text(t));
        changed = true;
    }
    cJSON *tokenizer = read_object(folder, "tokenizer.json", &error),
          *model = error ? NULL : read_object(folder, "config.json", &error);
    const char *named = word_of(*word_of(config, class_key) ? config : model, class_key),
               *class = *named                 ? named
                        : there && !x->adapter ? tokenizer_class_of(word_of(model, "model_type"))
                                               : "";
    if (class && model && !json_get(config, "auto_map") &&
        tokenizer_class_differs(class, tokenizer, config)) {
        cJSON_DeleteItemFromObjectCaseSensitive(config, class_key);
        cJSON_AddStringToObject(config, class_key, tokenizer_class_plain);
        changed = true;
    }
    if (changed && !error)
        error = write_object(folder, "tokenizer_config.json", config);
    cJSON_Delete(tokenizer), cJSON_Delete(model), cJSON_Delete(config);
    return error;
}

static char *write_template(const char *folder, const char *text)
{
    char *path = folder_join(folder, template_file);
    unlink(path);
    char *error = folder_write_text(folder, template_file, text, NULL);
    free(path);
    return error;
}

/* True if the folder of a tokenizer has this template; an export warns if it writes other special
 * tokens. */
static bool renders_the_same(const ExportFiles *x, const ChatTemplate *t, const char *tokenizer)
{
    ChatTemplate *own = NULL;
    char *error = render_open(&own, tokenizer);
    const bool same = own && !strcmp(render_text(own), render_text(t));
    const char *token = own && !x->checkpoint ? render_other_token(t, own) : NULL;
    if (token)
        warn("%s of tokenizer_config.json is not the one that the chat_template of the training "
             "data wrote", token);
    render_free(own);
    free(error);
    return same;
}

/* Writes the template of the training data, unless the folder's means the same. */
static char *complete_template(const char *folder, const ExportFiles *x, const ChatTemplate *t,
                               const Chat *chat, bool *is_custom)
{
    char *text = t ? format("%s", render_text(t)) : chat_template(chat);
    *is_custom = text != NULL;
    if (!text && !x->checkpoint)
        warn("no chat_template.jinja written: chat format %s has no generated template; copy the "
             "model's own",
             chat->name);
    char *error = text ? write_template(folder, text) : NULL;
    free(text);
    return error;
}

/* ---- the ends of a text ---------------------------------------------------------------------- */

static bool holds(const cJSON *list, int id)
{
    for (const cJSON *i = list->child; i; i = i->next)
        if (i->valuedouble == id)
            return true;
    return false;
}

/* Appends eos_token_id, one or a list, to the list. */
static void add_ends(cJSON *list, const cJSON *ids)
{
    for (const cJSON *i = cJSON_IsArray(ids) ? ids->child : ids; i;
         i = cJSON_IsArray(ids) ? i->next : NULL)
        if (cJSON_IsNumber(i) && !holds(list, (int)i->valuedouble))
            cJSON_AddItemToArray(list, cJSON_CreateNumber(i->valuedouble));
}

/* Writes generation_config.json: the base's eos_token_id, then the ids that end a trained text. t
 * may be NULL. */
static char *complete_ends(const char *folder, const ExportFiles *x, const Tokenizer *t,
                           const Chat *chat, const ChatTemplate *render)
{
    const char *of = x->adapter ? x->base : folder;      /* an adapter folder has neither file */
    char *error = NULL;
    cJSON *generation = read_object(of, "generation_config.json", &error),
          *config = error ? NULL : read_object(of, "config.json", &error),
          *list = cJSON_CreateArray();
    const cJSON *ids = json_get(generation, "eos_token_id");
    if (!error) {
        add_ends(list, ids && !cJSON_IsNull(ids) ? ids : json_get(config, "eos_token_id"));
        const int before = cJSON_GetArraySize(list);
        for (int id = 0; t && id < tokenizer_size(t); id++)
            if (((chat && chat_ends(chat, t, id)) || (render && render_ends(render, t, id)) ||
                 tokenizer_ends(t, id)) && !holds(list, id))
                cJSON_AddItemToArray(list, cJSON_CreateNumber(id));
        const int n = cJSON_GetArraySize(list);
        cJSON_DeleteItemFromObjectCaseSensitive(generation, "eos_token_id");
        /* makes transformers 4 take eos_token_id from config.json again */
        cJSON_DeleteItemFromObjectCaseSensitive(generation, "_from_model_config");
        if (n)
            cJSON_AddItemToObject(generation, "eos_token_id",
                                  cJSON_Duplicate(n > 1 ? list : list->child, true));
        if (n > before || x->adapter)        /* the card of an adapter mentions the file */
            error = write_object(folder, "generation_config.json", generation);
    }
    cJSON_Delete(generation), cJSON_Delete(config), cJSON_Delete(list);
    return error;
}

/* Adds the token that was added to the model to the copied tokenizer. */
static char *add_token(const char *folder, const Model *m)
{
    const char *token = m->additions ? m->additions->token : NULL;
    const int64_t rows = model_extra_vocab_rows(m);
    return token && rows ? vocabulary_add(folder, token, rows - 1) : NULL;
}

/* Adds to a folder that has its weights and, if there is one, its tokenizer:
 *   tokenizer.json of the byte vocabulary; the added token in any tokenizer.json;
 *   tokenizer_hf.json, which transformers reads, next to a word-list vocabulary;
 *   tokenizer_class in tokenizer_config.json, if that of the base reads another tokenizer;
 *   chat_template.jinja of the training data, unless the base's template means the same format;
 *   generation_config.json with every end-of-text id, except of a checkpoint.
 * A checkpoint whose base has no template gets none: a resumed run would read it.
 * with: an ExportFiles. Returns NULL or a malloc'ed message. */
static char *complete_folder(const char *folder, const void *with)
{
    const ExportFiles *x = with;
    char *error = x->bytes ? write_bytes(folder) : NULL,
         *path = folder_join(folder, "tokenizer.json"), *why = NULL;
    Tokenizer *t = NULL;
    const Chat *chat = NULL;
    if (!error)
        error = add_token(folder, x->m);
    const bool there = !error && file_named(path);
    cJSON *words = there ? read_words(path) : NULL;
    if (words)
        error = write_twin(folder, words);
    if (there && !error && (error = tokenizer_load(&t, path)) && !x->chat) {
        free(error);             /* an unsupported kind: copied as it is */
        error = NULL;
    }
    if (t && x->chat && (error = chat_choose(&chat, &why, t, path, x->chat))) {
        if (!x->checkpoint)
            warn("no chat_template.jinja written: %s", error);
        free(error);
        error = NULL;
    }
    ChatTemplate *render = NULL;
    if (t && x->record && !error)
        error = render_recall(&render, x->record, "the training data");
    if (render)
        render_find_ends(render, t);
    bool is_custom = render ? !renders_the_same(x, render, path)
                            : t && chat && !template_is(chat, t, path);
    is_custom = is_custom && (!x->checkpoint || has_template(path));
    if (!error && is_custom)
        error = complete_template(folder, x, render, chat, &is_custom);
    if (!error && t && !words)
        error = complete_config(folder, x, t, is_custom);
    if (!error && there && x->trained && card_generates(x->m))
        error = complete_ends(folder, x, t, chat, render);
    render_free(render);
    tokenizer_free(t);
    cJSON_Delete(words);
    free(path), free(why);
    return error;
}

char *export_checkpoint(const char *folder, const Model *m, const cJSON *state)
{
    const ExportFiles files = {.m = m,
                               .chat = cJSON_GetStringValue(json_get(state, "chat")),
                               .record = cJSON_GetStringValue(json_get(state, "chat_template")),
                               .adapter = m->adapter_json,
                               .checkpoint = true};
    return complete_folder(folder, &files);
}

char *export_reads_otherwise(const Model *m, const char *tokenizer)
{
    char *error = NULL, *text = NULL;
    cJSON *model = json_parse(m->config_json, strlen(m->config_json), &error);
    const char *class = tokenizer_class_forced(word_of(model, "model_type"));
    if (class && tokenizer && strchr(tokenizer, '/')) {
        char *folder = format("%.*s", (int)(strrchr(tokenizer, '/') - tokenizer), tokenizer);
        cJSON *file = read_object(folder, strrchr(tokenizer, '/') + 1, &error),
              *config = error ? NULL : read_object(folder, "tokenizer_config.json", &error);
        const char *what = error ? NULL : tokenizer_class_differs(class, file, config);
        if (what)
            text = format("transformers 5 reads each tokenizer.json of a %s model as %s, which "
                          "replaces %s: load it with %s instead of AutoTokenizer",
                          word_of(model, "model_type"), class, what, tokenizer_class_plain);
        cJSON_Delete(file), cJSON_Delete(config);
        free(folder);
    }
    cJSON_Delete(model);
    free(error);
    return text;
}

char *export_ends_otherwise(const Model *m, const char *tokenizer)
{
    Tokenizer *t = NULL;
    char *error = NULL, *text = NULL, *refused = tokenizer ? tokenizer_load(&t, tokenizer) : NULL;
    cJSON *model = json_parse(m->config_json, strlen(m->config_json), &error);
    const cJSON *id = json_get(model, "eos_token_id");
    const int eos = t ? tokenizer_eos(t) : -1;
    if (eos >= 0 && cJSON_IsNumber(id) && !tokenizer_ends(t, (int32_t)id->valuedouble)) {
        char *words = model_words(m, "model.bos|model.eos");
        text = format("model.eos is %.0f, but the tokenizer ends texts with token %d; transformers "
                      "would stop generating at token %.0f: gen %s model.bos=%d model.eos=%d",
                      id->valuedouble, eos, id->valuedouble, words,
                      tokenizer_bos(t) < 0 ? eos : tokenizer_bos(t), eos);
        free(words);
    }
    cJSON_Delete(model);
    tokenizer_free(t);
    free(error), free(refused);
    return text;
}

/* ---- export ---------------------------------------------------------------------------------- */

/* Exports the weights. how: all but the card; its tokenizer, "bytes" or a file, is copied if the
 * source of a model has none. An adapter gets that of its base. */
static void save(const Checkpoints *c, Model *m, const char *folder, bool adapter, HfHow how)
{
    char *found = vocabulary_of_folder(&how.source, 1);
    const char *tokenizer = adapter && how.tokenizer ? how.tokenizer
                            : found           ? found
                                                     : how.tokenizer;
    const bool bytes = tokenizer && !strcmp(tokenizer, "bytes");
    const ExportFiles files = {.m = m,
                               .chat = cJSON_GetStringValue(json_get(c->state, "chat")),
                               .record =
                                   cJSON_GetStringValue(json_get(c->state, "chat_template")),
                               .base = c->base,
                               .adapter = adapter,
                               .trained = c->file,
                               .bytes = bytes};
    char *otherwise = adapter ? NULL : export_reads_otherwise(m, tokenizer);
    char *card = card_text(c, m, adapter, tokenizer, tokenizer && is_words(tokenizer), otherwise);
    how.card = card;
    how.tokenizer = bytes || (found && !adapter) ? NULL : tokenizer;
    how.complete = complete_folder;
    how.with = &files;
    if (adapter)
        m->adapter_folders->save(m, folder, &how);
    else
        hf_save(m, folder, &how);
    if (otherwise)
        warn("%s", otherwise);
    free(found), free(card), free(otherwise);
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
    if (parts_gather(m)) {
        save(c, m, folder, adapter, how);
        parts_gathered();
    }
    note("wrote %s", folder);
    free(tokenizer);
}
