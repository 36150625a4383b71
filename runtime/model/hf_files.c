/* hf_files.c -- tensor reading and folder replacement for models and adapters.
 *
 * Keeps: all names and shapes are checked before the first value is read. */
#define _GNU_SOURCE
#include "runtime/model/hf_files.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/crc32c.h"
#include "runtime/ranks/comm.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/weights.h"

bool hf_is_pair(const char *name)
{
    return strstr(name, ".lora_A.") || strstr(name, ".lora_B.") ||
           strstr(name, ".lora_embedding_A") || strstr(name, ".lora_embedding_B");
}

bool hf_has(const char *folder, const char *name)
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
            "%s: is a PEFT adapter of %s, not a model, and this binary has no LoRA: merge "
            "it into its base, or generate with lora.rank > 0",
            folder, base && *base ? base : "a base it does not name");
    die(EXIT_CONFIG, "%s: is a PEFT adapter, not a model: use --adapter %s --init-from %s", folder,
        shell_word(folder), base && *base ? shell_word(base) : "its base, which it does not name");
}

void hf_check_kind(const Model *m, const char *folder, bool adapter)
{
    check_exists(folder);
    bool model = hf_has(folder, "config.json");
    if (hf_has(folder, "adapter_config.json")) {
        if (adapter || hf_has(folder, "model.safetensors") ||
            hf_has(folder, "model.safetensors.index.json"))
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
    if (hf_has(folder, "snapshots"))
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

void hf_want_read(const HfWant *want, int n, bool allow_nonfinite)
{
    for (int i = 0; i < n; i++) {
        const HfWant *w = &want[i];
        if (!w->from) {
            note("%s is not in the folder: it keeps its initial values", w->name);
            continue;
        }
        int64_t bad = 0;
        char *error = weights_read(w->file, w->from, w->t, w->t->master, w->t->weight, w->t->type,
                                   &bad);
        if (error)
            die(EXIT_DATA, "%s", error);
        if (bad > 0 && !allow_nonfinite)
            die(EXIT_DATA, "%s: %s holds %lld NaN or Inf; --allow-nonfinite loads it anyway",
                w->file->path, w->name, (long long)bad);
    }
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

static void check_replaceable(const char *folder, const char *source)
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
    for (struct dirent *d; (errno = 0, d = readdir(dir));)
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
    check_replaceable(final, how->source);
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
