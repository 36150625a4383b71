/* vocabulary.c -- checks that data and weights have the same tokenizer. */
#define _GNU_SOURCE
#include "runtime/data/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

bool vocabulary_of(const char *folder, char **file, char **id)
{
    char *error = NULL, *path = format("%s/tokenizer.json", folder ? folder : ""),
         *state = format("%s/train_state.json", folder ? folder : "");
    *file = *id = NULL;
    if (folder && file_named(path)) {
        *file = path;
        error = tokenizer_file_id(path, id);
    } else if (folder && file_named(state)) {
        cJSON *saved = folder_read_json(folder, "train_state.json", 1 << 28, &error);
        const char *data = cJSON_GetStringValue(json_get(saved, "data"));
        if (data)
            *id = data_fingerprint_tokenizer(data);
        cJSON_Delete(saved);
    }
    if (error)
        die(EXIT_DATA, "%s", error);
    if (!*file)
        free(path);
    free(state);
    return *id != NULL;
}

void vocabulary_check(const char *const folder[], int nfolders, const Data *data)
{
    for (int i = 0; data && i < nfolders; i++) {
        char *file, *id;
        if (!vocabulary_of(folder[i], &file, &id))
            continue;
        if (file)
            data_check_tokenizer(data, id, file);
        else
            data_check_same(data, id, -1, folder[i]);
        free(file), free(id);
    }
}

Tokenizer *vocabulary_load(const char *flag, const char *named, const char *const folder[],
                           int nfolders, int64_t vocab)
{
    const char *whose = NULL;
    char *found = NULL, *id = NULL, *error;
    for (int i = 0; i < nfolders && !id; i++)
        if (vocabulary_of(folder[i], &found, &id))
            whose = found ? found : folder[i];
    bool bytes = id ? !strcmp(id, "bytes") : vocab == 257;
    const char *path = *named ? named : found ? found : "bytes";
    if (!*named && !found && !bytes)
        die(EXIT_CONFIG, "%s: no tokenizer.json next to the weights; name one with --tokenizer",
            flag);
    Tokenizer *t = NULL;
    if ((error = tokenizer_load(&t, path)))
        die(EXIT_CONFIG, "%s: %s", flag, error);
    if (id && strcmp(id, tokenizer_id(t)))
        die(EXIT_MISMATCH, "%s: tokenizer %s is %s, that of the weights (%s) is %s", flag, path,
            tokenizer_id(t), whose, id);
    if (tokenizer_size(t) > vocab)
        die(EXIT_MISMATCH, "%s: tokenizer %s has %d ids, the model %" PRId64, flag, path,
            tokenizer_size(t), vocab);
    free(found), free(id);
    return t;
}

static bool has_id(const char *path, const char *id)
{
    char *found = NULL, *error = file_named(path) ? tokenizer_file_id(path, &found) : NULL;
    bool same = found && !strcmp(found, id);
    free(error), free(found);
    return same;
}

char *vocabulary_file(const char *id, const char *named, const char *const folder[], int nfolders)
{
    if (has_id(named, id))
        return format("%s", named);
    for (int i = 0; i < nfolders; i++) {
        char *path = format("%s/tokenizer.json", folder[i] ? folder[i] : "");
        if (folder[i] && has_id(path, id))
            return path;
        free(path);
    }
    return NULL;
}

char *vocabulary_of_records(const Data *d, const char *named)
{
    const char *const folders[] = {d->folder};
    return d->tokenizer ? vocabulary_file(d->tokenizer, named, folders, 1) : NULL;
}

char *vocabulary_of_folder(const char *const folder[], int nfolders)
{
    for (int i = 0; i < nfolders; i++) {
        char *path = format("%s/tokenizer.json", folder[i] ? folder[i] : "");
        if (folder[i] && file_named(path))
            return path;
        free(path);
    }
    return NULL;
}

/* Returns the id that Hugging Face tokenizers gives to the next added token. */
static int64_t next_id(const cJSON *added, const cJSON *vocab)
{
    int64_t next = cJSON_GetArraySize(vocab);
    for (const cJSON *i = added ? added->child : NULL; i; i = i->next) {
        const cJSON *id = json_get(i, "id");
        if (cJSON_IsNumber(id) && id->valuedouble >= (double)next)
            next = (int64_t)id->valuedouble + 1;
    }
    return next;
}

static void put_added(cJSON *list, const char *token, int64_t id)
{
    static const char *const no[] = {"single_word", "lstrip", "rstrip", "normalized"};
    cJSON *one = cJSON_CreateObject();
    cJSON_AddNumberToObject(one, "id", (double)id);
    cJSON_AddStringToObject(one, "content", token);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        cJSON_AddFalseToObject(one, no[i]);
    cJSON_AddTrueToObject(one, "special");
    cJSON_AddItemToArray(list, one);
}

/* Hugging Face tokenizers numbers added tokens in order: rows without a token before id get one. */
static bool put_token(cJSON *json, const char *token, int64_t id, const char *before)
{
    cJSON *model = json_get(json, "model"), *vocab = json_get(model, "vocab"),
          *added = json_get(json, "added_tokens");
    if (!vocab || (added && !cJSON_IsArray(added)))
        return false;
    if (!added)
        added = cJSON_AddArrayToObject(json, "added_tokens");
    for (int64_t next = next_id(added, vocab); next < id; next++) {
        char *name = format("<|unused_%lld|>", (long long)next);
        put_added(added, name, next);
        free(name);
    }
    put_added(added, token, id);
    return cJSON_AddStringToObject(model, TOKENIZER_EXTENDS, before);
}

/* True if the tokenizer.json `text` has the added token with this id. */
static bool gives(const char *text, const char *token, int64_t id)
{
    Tokenizer *t = NULL;
    char *error = tokenizer_parse(&t, text, strlen(text), NULL, 0);
    const bool good = !error && tokenizer_added(t, token) == id;
    free(error);
    tokenizer_free(t);
    return good;
}

char *vocabulary_add(const char *folder, const char *token, int64_t id)
{
    char *path = folder_join(folder, "tokenizer.json"), *before = NULL, *text = NULL, *error = NULL;
    size_t n;
    if (file_named(path) && !(error = tokenizer_file_id(path, &before)) &&
        (text = file_read(path, TOKENIZER_BYTES, &n, &error)) && !gives(text, token, id)) {
        cJSON *json = folder_read_json(folder, "tokenizer.json", TOKENIZER_BYTES, &error);
        free(text);
        text = json && put_token(json, token, id, before) ? folder_json_text(json) : NULL;
        if (text && gives(text, token, id))
            error = folder_replace_text(folder, "tokenizer.json", text);
        else if (json)
            note("tokenizer.json lacks the token %s: it cannot give it the id %lld", token,
                 (long long)id);
        cJSON_Delete(json);
    }
    free(path), free(before), free(text);
    return error;
}

char *vocabulary_for_raw(const char *const folder[], int nfolders)
{
    char *file = NULL, *id;
    for (int i = 0; i < nfolders && !file; i++) {
        if (vocabulary_of(folder[i], &file, &id) && !file && !strcmp(id, "bytes"))
            file = format("%s", id);
        free(id);
    }
    return file;
}

const char *vocabulary_folder(const Data *data)
{
    bool matches = false;
    if (data->folder && data->tokenizer) {
        char *path = folder_join(data->folder, "tokenizer.json");
        matches = has_id(path, data->tokenizer);
        free(path);
    }
    return matches ? data->folder : NULL;
}

Tokenizer *vocabulary_of_data(const Data *d, const char *named, const char *const folder[],
                              int nfolders)
{
    const char *id = d->tokenizer ? d->tokenizer : "", *own_folder = vocabulary_folder(d);
    char *path = vocabulary_file(id, named, folder, nfolders);
    Tokenizer *t = NULL;
    if (!path && own_folder)
        path = folder_join(own_folder, "tokenizer.json");
    if (!path && !strcmp(id, "bytes"))
        path = format("%s", id);
    if (!path && d->nfiles)
        note("no tokenizer.json with the id %s is given or next to the weights or the records: "
             "printing ids; --tokenizer FILE names one", *id ? id : "none");
    char *error = path ? tokenizer_load(&t, path) : NULL;
    if (error)
        die(EXIT_CONFIG, "%s: %s", path, error);
    free(path);
    return t;
}

char *vocabulary_flag(const char *named, const char *last, const char *source)
{
    const char *folder[] = {last, source};
    char *file = NULL, *id = NULL;
    for (int i = 0; i < 2 && !id; i++)
        if (vocabulary_of(folder[i], &file, &id) && !*named && !file && strcmp(id, "bytes"))
            named = "FILE";      /* the path of the file with that id is unknown here */
    char *word = shell_word(named);
    char *words = *named ? format(" --tokenizer %s", word) : format("%s", "");
    free(file), free(id), free(word);
    return words;
}
