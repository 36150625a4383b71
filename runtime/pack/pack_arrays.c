/* pack_arrays.c -- packs texts as windows into a folder of token ids that pack_prepared.c reads.
 *
 * Method: packs a temporary record file, then copies its windows. */
#define _GNU_SOURCE
#include "runtime/pack/pack_work.h"

#include "runtime/base.h"
#include "runtime/data/recordfile.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The packed windows. */
typedef struct {
    RecordFile file;
    const Column *tokens;
    int64_t T, train;
    TokenIds ids;
} Windowed;

static int64_t says(const Windowed *w, const char *key)
{
    const char *text = st_meta(&w->file.st, key);
    return text ? strtoll(text, NULL, 10) : -1;
}

/* Rows first .. end-1. */
typedef struct {
    const Windowed *w;
    int64_t first, end;
} Array;

static char *write_array(FILE *to, const void *with)
{
    const Array *a = with;
    const Windowed *w = a->w;
    char dict[128];
    int n = snprintf(dict, sizeof dict, "{'descr': '<i8', 'fortran_order': False, "
                     "'shape': (%lld, %lld), }", (long long)(a->end - a->first), (long long)w->T);
    int all = (10 + n + 1 + 63) / 64 * 64 - 10;  /* the data begin at a multiple of 64 */
    if (fwrite("\x93NUMPY\1\0", 1, 8, to) != 8 || fputc(all & 0xff, to) == EOF ||
        fputc(all >> 8, to) == EOF || fprintf(to, "%s%*s\n", dict, all - n - 1, "") < 0)
        return format("%s", strerror(errno));
    for (int64_t i = a->first; i < a->end; i++) {
        int64_t count;
        const int32_t *id = recordfile_at(&w->file, w->tokens, i, &count);
        if (count != w->T)
            return format("a window has %lld tokens, but the arrays need %lld: the text, or its "
                          "part for validation, is shorter than a window", (long long)count,
                          (long long)w->T);
        for (int64_t k = 0; k < count; k++) {
            if (id[k] == w->ids.mask)
                return format("the text contains the mask token, id %d", id[k]);
            if (fwrite(&(int64_t){id[k]}, 8, 1, to) != 1)
                return format("%s", strerror(errno));
        }
    }
    return NULL;
}

static char *write_arrays(const Windowed *w, const char *folder)
{
    const int64_t limit[ARRAYS + 1] = {0, w->train, w->file.n};
    char *error = NULL;
    for (int i = 0; i < ARRAYS && !error; i++)
        error = folder_replace_file(folder, array_name[i], write_array,
                                    &(Array){w, limit[i], limit[i + 1]});
    return error;
}

static char *write_metadata(const Windowed *w, int64_t bos, const char *folder)
{
    const struct { const char *key; int64_t value; } all[] = {
        {"sequence_length", w->T}, {"vocab_size", w->ids.size}, {"train_samples", w->train},
        {"val_samples", w->file.n - w->train}, {"total_tokens", w->train * w->T},
        {"mask_token", w->ids.mask}, {"bos_token", bos}, {"eos_token", w->ids.eos},
        {"pad_token", w->ids.pad}};
    cJSON *meta = cJSON_CreateObject();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cJSON_AddNumberToObject(meta, all[i].key, (double)all[i].value);
    char *text = folder_json_text(meta),
         *error = folder_replace_text(folder, "metadata.json", text);
    free(text);
    cJSON_Delete(meta);
    return error;
}

static char *check_tokenizer(const PackOptions *o, const Tokenizer *tok)
{
    const int64_t size = tokenizer_size(tok), mask = o->mask ? o->mask : tokenizer_mask(tok),
                  want = mask < size ? size : mask + 1;
    const char *lacks = windows_first(tok) < 0 ? "begin-of-text"
                      : tokenizer_eos(tok) < 0 ? "end-of-text" : mask < 0 ? "mask" : NULL;
    if (lacks)
        return format("the tokenizer has no %s token, which metadata.json needs", lacks);
    return want <= (o->vocab ? o->vocab : size) ? NULL
         : format("ids go up to %lld (the tokenizer has %lld, the mask is %lld), but the model has "
                  "%lld: gen %s model.vocab=%lld%s", (long long)want - 1, (long long)size,
                  (long long)mask, (long long)(o->vocab ? o->vocab : size),
                  o->recipe ? o->recipe : "RECIPE", (long long)want,
                  o->recipe ? "" : ", and --vocab with that number");
}

static void remove_arrays(const char *folder)
{
    const char *const name[] = {array_name[ARRAY_TRAIN], array_name[ARRAY_EVAL], "metadata.json"};
    for (int i = 0; i < 3; i++) {
        char *path = format("%s/%s", folder, name[i]);
        unlink(path);
        free(path);
    }
}

/* Writes the windows of a record file, some for validation, to the existing folder. bos: the
 * begin-of-text token. */
static char *write_windows(const char *records, const PackOptions *o, int64_t bos,
                           const char *folder)
{
    Windowed w = {0};
    char *error = recordfile_open(&w.file, records);
    if (error)
        return error;
    const int64_t vocab = says(&w, "vocab"), pad = says(&w, "pad_id");
    w.tokens = recordfile_column(&w.file, "tokens");
    w.T = says(&w, "max_length"), w.train = says(&w, "train");
    w.ids = (TokenIds){.size = o->vocab ? o->vocab : vocab, .eos = says(&w, "eos"),
                       .mask = o->mask ? o->mask : says(&w, "mask_id")};
    w.ids.pad = pad >= 0 ? pad : w.ids.eos;
    error = write_arrays(&w, folder);
    error = error ? error : write_metadata(&w, bos, folder);
    recordfile_close(&w.file);
    return error;
}

/* ---- the whole pack -------------------------------------------------------------------------- */

/* Sets the options for windows that were not given. */
static PackOptions prepare_options(const PackOptions *o, const char *records)
{
    PackOptions p = *o;
    p.format = pack_format[FORM_WINDOWS].name;
    p.kind = KIND_ROWS;
    p.held_out = o->held_out ? o->held_out : HELD_OUT_TAIL;
    p.out = records;
    p.suits = check_tokenizer;
    return p;
}

/* Copies the given tokenizer next to the ids; one made from the data is there already. */
static char *copy_tokenizer(const char *from, const char *folder)
{
    size_t n;
    char *error = NULL, *text;
    if (vocabulary_made(from) || !strcmp(from, "bytes"))
        return NULL;
    text = file_read(from, 256 << 20, &n, &error);
    if (text)
        error = folder_replace_text(folder, "tokenizer.json", text);
    free(text);
    return error;
}

PackError pack_prepare(const PackOptions *o, const char *to, FILE *summary)
{
    char name[SHA256_HEX], *records = folder_join(to, "records.tmp"), *error = NULL;
    PackOptions options = prepare_options(o, records);
    bool there = prepared_is(to);
    const bool made = !folder_exists(to);
    if (there)
        error = format("%s has arrays of ids already: remove it, or name another folder", to);
    error = error ? error : folder_make_parents(records);
    if (error)
        return (PackError){.text = error, .code = there ? EXIT_CONFIG : EXIT_IO};
    Work w = work_begin(&options);
    work_do(&w, name);
    if (!w.pack.error.text)
        error = write_windows(records, o, windows_first(w.tok), to);
    if (!w.pack.error.text && !error)
        error = copy_tokenizer(o->tokenizer, to);
    if (error) {
        remove_arrays(to);
        pack_fail(&w.pack, EXIT_DATA, (Location){0}, error);
    }
    w.pack.out = to;
    if (!w.pack.error.text)
        report_all(&w, summary);
    unlink(records);
    if (made && w.pack.error.text)
        rmdir(to);               /* if it is empty */
    free(records);
    return work_end(&w);
}
