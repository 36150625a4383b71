/* checkpoint_resume.c -- finding, verifying and loading checkpoints.
 *
 * In:    folders that may be damaged or hostile.
 * Keeps: no weight changes before every byte of every file is verified.
 * Method: rank 0 reads and decides, then broadcasts. */
#define _GNU_SOURCE
#include "runtime/run/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/data/fingerprint.h"
#include "runtime/device.h"
#include "runtime/ranks/comm.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/folder.h"
#include "runtime/model/hf.h"
#include "runtime/model/hf_match.h"
#include "runtime/model/model_parts.h"
#include "runtime/model/moments.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"
#include "runtime/model/weights.h"
#include "runtime/run/resume_path.h"

enum { JSON_MAX = 1 << 28 };

char *checkpoint_path(const char *out, int64_t step)
{
    return format("%s/checkpoint-%lld", out, (long long)step);
}

/* ---- verify --------------------------------------------------------------------------------- */

static bool whole(const cJSON *value, double most)
{
    return cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble <= most &&
           (double)(int64_t)value->valuedouble == value->valuedouble;
}

static bool is_crc(const char *text)
{
    return text && strlen(text) == 8 && strspn(text, "0123456789abcdef") == 8;
}

/* Returns the first tensor of a damaged file with a wrong checksum of its own; NULL: unknown. */
static char *damaged_tensor(const char *path, const char *name, const cJSON *tensors)
{
    StFile file;
    char *error = st_open(&file, path), *found = NULL;
    free(error);
    if (error)
        return NULL;
    const cJSON *row;
    cJSON_ArrayForEach(row, tensors) {
        const char *in = cJSON_GetStringValue(json_get(row, "file"));
        const char *tensor = cJSON_GetStringValue(json_get(row, "name"));
        const char *want = cJSON_GetStringValue(json_get(row, "crc32c"));
        const StTensor *t = in && tensor && !strcmp(in, name) ? st_find(&file, tensor) : NULL;
        static char block[1 << 16];
        uint32_t crc = 0;
        error = NULL;
        for (uint64_t at = 0, k; t && !error && at < t->end - t->begin; at += k) {
            k = t->end - t->begin - at < sizeof block ? t->end - t->begin - at : sizeof block;
            error = st_read(&file, t, block, at, k);
            crc = crc32c(crc, block, k);
        }
        free(error);
        if (t && is_crc(want) && strtoul(want, NULL, 16) != crc) {
            found = format("%s", tensor);
            break;
        }
    }
    st_close(&file);
    return found;
}

static char *verify_file(const char *folder, const cJSON *row, const cJSON *tensors)
{
    const char *name = cJSON_GetStringValue(json_get(row, "name"));
    const cJSON *size = json_get(row, "bytes");
    const char *want = cJSON_GetStringValue(json_get(row, "crc32c"));
    if (!name || !*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
        return format("%s/files.json: a file name with a path or special characters; the "
                      "checkpoint is damaged", folder);
    if (!whole(size, 0x1p53) || !is_crc(want))
        return format("%s/files.json: entry for %.200s has no valid \"bytes\" or \"crc32c\"; the "
                      "checkpoint is damaged", folder, name);
    char *path = folder_join(folder, name);
    uint64_t bytes;
    uint32_t crc;
    char *error = folder_file_crc(path, &bytes, &crc);
    if (!error && bytes != (uint64_t)size->valuedouble)
        error = format("%s: has %llu bytes, but files.json lists %.0f", path,
                       (unsigned long long)bytes, size->valuedouble);
    if (!error && crc != strtoul(want, NULL, 16)) {
        char *tensor = damaged_tensor(path, name, tensors);
        error = format("%s: has crc32c %08x, but files.json lists %s%s%s", path, crc, want,
                       tensor ? ", damaged tensor " : "", tensor ? tensor : "");
        free(tensor);
    }
    free(path);
    return error;
}

static char *verify_manifest_crc(const char *folder, cJSON *manifest)
{
    cJSON *recorded = cJSON_DetachItemFromObjectCaseSensitive(manifest, "crc32c");
    const char *want = cJSON_GetStringValue(recorded);
    char *text = folder_json_text(manifest), *error = NULL;
    uint32_t crc = crc32c(0, text, strlen(text));
    if (!is_crc(want) || crc != strtoul(want, NULL, 16))
        error = format("%s/files.json: has crc32c %08x, but records %s", folder, crc,
                       want ? want : "none");
    free(text);
    cJSON_Delete(recorded);
    return error;
}

static char *verify_rows(const char *folder, const cJSON *manifest)
{
    const cJSON *format_name = json_get(manifest, "format"), *row;
    if (!cJSON_IsString(format_name) ||
        strcmp(format_name->valuestring, "diecast-checkpoint-1"))
        return format("%s/files.json: format is not diecast-checkpoint-1", folder);
    if (!whole(json_get(manifest, "step"), 1e15))
        return format("%s/files.json: \"step\" must be a whole number from 0; the checkpoint is "
                      "damaged", folder);
    bool state = false, optimizer = false, config = false;
    cJSON_ArrayForEach(row, json_get(manifest, "files")) {
        char *error = verify_file(folder, row, json_get(manifest, "tensors"));
        if (error)
            return error;
        const char *name = json_get(row, "name")->valuestring;
        state = state || !strcmp(name, "train_state.json");
        optimizer = optimizer || !strcmp(name, "optimizer.safetensors");
        config = config || !strcmp(name, "config.json") ||
                 !strcmp(name, "adapter_config.json");
    }
    if (!state || !optimizer || !config)
        return format("%s/files.json: does not list %s; the checkpoint is damaged", folder,
                      !state ? "train_state.json" : !optimizer ? "optimizer.safetensors"
                                                               : "config.json");
    return NULL;
}

char *checkpoint_verify(const char *folder)
{
    char *error = NULL;
    cJSON *manifest = folder_read_nofollow(folder, "files.json", JSON_MAX, &error);
    if (!manifest)
        return error;
    if (!cJSON_IsObject(manifest))
        error = format("%s/files.json: not a JSON object", folder);
    if (!error)
        error = verify_manifest_crc(folder, manifest);
    if (!error)
        error = verify_rows(folder, manifest);
    cJSON_Delete(manifest);
    return error;
}

/* ---- find ----------------------------------------------------------------------------------- */

/* Returns train_state.json after checking the members that the functions below rely on; NULL and a
 * message. */
static cJSON *read_state(const char *folder, char **error)
{
    cJSON *all = folder_read_nofollow(folder, "train_state.json", JSON_MAX, error);
    if (!all)
        return NULL;
    const char *name = cJSON_GetStringValue(json_get(all, "format"));
    if (!name || strcmp(name, "diecast-train-state-1"))
        *error = format("%s/train_state.json: format is not diecast-train-state-1", folder);
    else if (!whole(json_get(all, "step"), 1e15) || !whole(json_get(all, "global_batch"), 1e15) ||
             !cJSON_IsString(json_get(all, "model_fields")) ||
             !cJSON_IsString(json_get(all, "data")) || !cJSON_IsObject(json_get(all, "layout")) ||
             (json_get(all, "sets") && !cJSON_IsObject(json_get(all, "sets"))) ||
             !cJSON_IsObject(json_get(all, "flags")) || !cJSON_IsObject(json_get(all, "state")))
        *error = format("%s/train_state.json: a member is missing or has the wrong type", folder);
    if (!*error)
        return all;
    cJSON_Delete(all);
    return NULL;
}

/* Returns the value of the line "NAME=VALUE" of text; malloc'ed, NULL: no such line. */
static char *field_of(const char *text, const char *name, int n)
{
    for (const char *at = text; *at; at = strchrnul(at, '\n'), at += *at == '\n')
        if (!strncmp(at, name, (size_t)n) && at[n] == '=')
            return format("%.*s", (int)strcspn(at + n + 1, "\n"), at + n + 1);
    return NULL;
}

/* Appends to the list the fields of `text` whose values in saved and ours differ. */
static void compare_fields(char **list, const char *text, const char *saved, const char *ours)
{
    for (const char *at = text; *at; at = strchrnul(at, '\n'), at += *at == '\n') {
        int n = (int)strcspn(at, "=\n");
        char *a = field_of(saved, at, n), *b = field_of(ours, at, n);
        bool new = text == ours || !b;           /* otherwise already listed */
        if (new && strcmp(a ? a : "", b ? b : "")) {
            char *longer = format("%s%s%.*s is %s in the checkpoint, %s here", *list ? *list : "",
                                  *list ? "; " : "", n, at, a ? a : "absent", b ? b : "absent");
            free(*list);
            *list = longer;
        }
        free(a);
        free(b);
    }
}

/* Ends with exit code 83 naming every field that differs. */
static void check_fields(const char *folder, const char *saved, const char *ours)
{
    char *list = NULL;
    compare_fields(&list, ours, saved, ours);
    compare_fields(&list, saved, saved, ours);
    if (list)
        die(EXIT_MISMATCH, "%s: checkpoint of another model: %s: give another --out, or build the "
                           "recipe of the checkpoint", folder, list);
}

/* Returns the parameter group of a tensor according to train_state.json. */
static const char *set_there(const cJSON *sets, const char *tensor)
{
    const cJSON *list, *name;
    cJSON_ArrayForEach(list, sets)
        cJSON_ArrayForEach(name, list)
            if (cJSON_IsString(name) && !strcmp(name->valuestring, tensor))
                return list->string;
    return "model";
}

/* Ends with exit code 83 naming the first tensor that is in another group there. */
static void check_sets(const char *folder, const cJSON *sets, const Model *m)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        const char *here = t->set ? t->set : "model", *there = set_there(sets, t->name);
        if (t->trained && strcmp(here, there))
            die(EXIT_MISMATCH, "%s: checkpoint with different parameter groups: %s is in group %s "
                               "in the checkpoint, in %s here: give another --out, or build the "
                               "recipe of the checkpoint",
                folder, t->name, there, here);
    }
}

/* Renames a checkpoint out of the way, never over another one. Returns false, with a warning, on
 * failure. */
static bool put_aside(const char *folder, const char *suffix, const char *why)
{
    char *aside = format("%s%s", folder, suffix);
    for (int i = 2; i < 1000 && folder_exists(aside); i++) {
        free(aside);
        aside = format("%s%s.%d", folder, suffix, i);
    }
    bool renamed = rename(folder, aside) == 0;
    if (renamed)
        warn("%s; renamed to %s", why, aside);
    else
        warn("%s; not renamed to %s: %s", why, aside, strerror(errno));
    free(aside);
    return renamed;
}

void checkpoint_leave_newer(const Checkpoints *c)
{
    int n;
    int64_t *list = world.rank == 0 ? folder_steps(c->out, &n) : NULL;
    for (int i = 0; list && i < n; i++) {
        char *folder = checkpoint_path(c->out, list[i]);
        char *why = format("%s is newer than step %lld, from which this run continues", folder,
                           (long long)c->step);
        if (list[i] > c->step && !put_aside(folder, ".aside", why))
            die(EXIT_IO, "%s: the next start would resume from it", folder);
        free(why);
        free(folder);
    }
    free(list);
}

/* Returns the newest valid checkpoint of OUT, or NULL; renames damaged ones on the way. */
static char *newest(const Checkpoints *c, int *had)
{
    int64_t *list = folder_steps(c->out, had);
    char *found = NULL;
    if (*had < 0 && errno == ENOENT)
        *had = 0;                /* --export and --sample need no run folder */
    if (*had < 0)
        die(EXIT_IO, "%s: open: %s", c->out, strerror(errno));
    for (int i = *had - 1; i >= 0 && !found; i--) {
        char *folder = checkpoint_path(c->out, list[i]);
        char *error = checkpoint_verify(folder);
        cJSON *all = error ? NULL : read_state(folder, &error);
        if (all && json_get(all, "step")->valuedouble != (double)list[i])
            error = format("%s/train_state.json: step is %.0f", folder,
                           json_get(all, "step")->valuedouble);
        cJSON_Delete(all);
        if (error && error_remedy(error))        /* unreadable is not damaged: leave it */
            die(EXIT_IO, "%s", error);
        if (error) {
            char *why = format("damaged checkpoint: %s", error);
            if (c->read_only)
                warn("%s; left in place", why);
            else
                put_aside(folder, ".corrupt", why);
            free(why);
            free(folder);
        } else {
            found = folder;
        }
        free(error);
    }
    free(list);
    return found;
}

/* Returns the number of damaged checkpoints in OUT that were renamed. */
static int put_aside_before(const char *out)
{
    int n = 0;
    DIR *dir = opendir(out);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        const char *rest;
        n += folder_step_of(d->d_name, &rest) >= 0 && !strncmp(rest, ".corrupt", 8);
    }
    if (dir)
        closedir(dir);
    return n;
}

/* Training that starts over would replace the history of a finished run. */
static void refuse_done(const Checkpoints *c)
{
    char *done = folder_join(c->out, "DONE");
    if (!c->read_only && file_named(done))
        die(EXIT_NO_CKPT, "%s: a finished run without checkpoints; --force moves its files aside "
            "and starts over, another --out leaves them alone", c->out);
    free(done);
}

static char *choose(const Checkpoints *c)
{
    const char *which = c->flags->resume;
    bool automatic = !strcmp(which, "auto"), last = !strcmp(which, "last");
    int had;
    if (c->flags->force)
        return NULL;
    if (!strcmp(which, "never")) {
        free(folder_steps(c->out, &had));
        if (had > 0)
            die(EXIT_CONFIG, "%s: has %d checkpoint%s; give another --out, continue from the "
                "newest with --resume last, or move them aside with --force", c->out, had,
                had == 1 ? "" : "s");
        if (put_aside_before(c->out) == 0)
            refuse_done(c);
        return NULL;
    }
    if (automatic || last) {
        char *found = newest(c, &had);
        bool damaged = !found && (had > 0 || put_aside_before(c->out) > 0);
        if (!found && (last || damaged))
            die(EXIT_NO_CKPT, "%s: no valid checkpoint to resume from%s", c->out,
                !damaged ? "" : c->read_only ? ", all are damaged"
                : ", all are damaged; --resume never starts over at step 0 and leaves them there");
        if (!found)
            refuse_done(c);
        return found;
    }
    char *found = resume_path(which, c->out), *error = checkpoint_verify(found);
    cJSON *all = error ? NULL : read_state(found, &error);
    cJSON_Delete(all);
    if (error)
        die(EXIT_NO_CKPT, "--resume %s: %s", which, error);
    return found;
}

void checkpoint_out(const char *out)
{
    char *list = folder_join(out, "files.json"), *state = folder_join(out, "train_state.json");
    if (access(list, F_OK) == 0 && access(state, F_OK) == 0) {
        char *parent = format("%s/..", out), *path = realpath(parent, NULL);
        die(EXIT_NO_CKPT, "--out %s is a checkpoint itself; did you mean its run folder, --out %s? "
            "(--resume %s takes this one)", out, shell_word(path ? path : parent), shell_word(out));
    }
    free(list);
    free(state);
    char *blocked = folder_blocked(out);
    if (blocked)
        die(EXIT_IO, "--out %s", blocked);
}

bool checkpoint_find(Checkpoints *c, const Model *m)
{
    char path[PATH_MAX] = "";
    comm_expect(3 * weights_seconds(m));         /* several may be damaged */
    if (world.rank == 0) {
        char *found = choose(c);
        if (found && strlen(found) >= sizeof path)
            die(EXIT_CONFIG, "--resume: the path is too long, %zu characters", strlen(found));
        if (found)
            strcpy(path, found);
        free(found);
    }
    comm_broadcast(path, sizeof path, 0);
    comm_expect(0);
    if (!*path)
        return false;
    char *error = NULL;
    c->found = strdup(path);
    c->file = read_state(path, &error);
    if (!c->file)
        die(EXIT_NO_CKPT, "%s; do all ranks see the same folder?", error);
    char *fields = renamed_lines(json_get(c->file, "model_fields")->valuestring);
    check_fields(path, fields, m->model_fields);
    free(fields);
    check_sets(path, json_get(c->file, "sets"), m);
    c->step = (int64_t)json_get(c->file, "step")->valuedouble;
    c->state = json_get(c->file, "state");
    return true;
}

void checkpoint_written(Checkpoints *c, int64_t step)
{
    if (world.rank != 0)
        return;
    char *folder = checkpoint_path(c->out, step), *error = NULL;
    cJSON *file = read_state(folder, &error);
    if (file) {
        cJSON_Delete(c->file);
        c->found = folder;               /* not freed: c->source may be what it was */
        c->file = file;
        c->step = step;
        c->state = json_get(file, "state");
    } else {
        free(folder);
    }
    free(error);
}

/* ---- what must agree ------------------------------------------------------------------------ */

/* Returns the flag's value in the checkpoint found, as flags_text() writes it, malloc'ed; NULL:
 * none. */
static char *flag_saved(const Checkpoints *c, int flag)
{
    const cJSON *saved = json_get(json_get(c->file, "flags"), flags_name(flag)), *item;
    const char *text = cJSON_GetStringValue(saved);
    if (!flags_repeats(flag) || !cJSON_IsArray(saved))
        return text && !flags_repeats(flag) ? format("%s", text) : NULL;
    char *all = format("%s", "");
    cJSON_ArrayForEach(item, saved) {
        const char *one = cJSON_GetStringValue(item);
        char *longer = format("%s%s%s", all, item == saved->child ? "" : ", ", one ? one : "");
        free(all);
        all = longer;
    }
    return all;
}

bool checkpoint_changes(const Checkpoints *c, const Flags *f, int flag)
{
    char *saved = flag_saved(c, flag), *now = flags_text(f, flag);
    const bool other = saved && strcmp(now, saved);
    free(saved), free(now);
    return other;
}

/* Sets a flag to its value in the checkpoint found, which has one; lives as long as c. */
static void restore_flag(const Checkpoints *c, Flags *f, int i)
{
    const cJSON *saved = json_get(json_get(c->file, "flags"), flags_name(i)), *item;
    char *error = NULL;
    if (flags_repeats(i)) {
        flags_clear(f, i);
        cJSON_ArrayForEach(item, saved)
            if (cJSON_IsString(item))
                flags_add(f, i, item->valuestring);
    } else {
        error = flags_set(f, i, saved->valuestring);
    }
    if (error)
        die(EXIT_MISMATCH, "%s/train_state.json: %s: %s", c->found, flags_name(i), error);
}

void checkpoint_flags_of_run(const Checkpoints *c, Flags *f, int command)
{
    char *taken = NULL;
    for (int i = 0; c->found && i < FLAG_COUNT; i++) {
        char *saved = flags_of_run(i, command) && !f->given[i] ? flag_saved(c, i) : NULL;
        if (saved && checkpoint_changes(c, f, i)) {
            restore_flag(c, f, i);
            char *spelt = flags_spelt(i), *longer = format("%s%s%s %s", taken ? taken : "",
                                                           taken ? ", " : "", spelt, saved);
            free(spelt), free(taken);
            taken = longer;
        }
        free(saved);
    }
    if (taken)
        note("as in the run of %s: %s", c->found, taken);
    free(taken);
}

char *checkpoint_flags(const Checkpoints *c, Flags *f)
{
    REQUIRE(c->found);
    char *changes = NULL;
    for (int i = 0; i < FLAG_COUNT; i++) {
        char *saved = flags_sticky(i) ? flag_saved(c, i) : NULL;
        if (!saved)
            continue;
        if (f->given[i]) {
            char *now = flags_text(f, i);
            if (checkpoint_changes(c, f, i)) {
                note("CHANGED ON RESUME: %s %s -> %s", flags_name(i), saved, now);
                char *longer = format("%s%s%s %s -> %s", changes ? changes : "",
                                      changes ? ", " : "", flags_name(i), saved, now);
                free(changes);
                changes = longer;
            }
            free(now);
        } else {
            restore_flag(c, f, i);
        }
        free(saved);
    }
    return changes;
}

static char *text_of(const cJSON *value)
{
    char *text = value ? cJSON_PrintUnformatted(value) : strdup("absent");
    if (!text)
        die(EXIT_IO, "out of memory for a value of train_state.json");
    return text;
}

enum { SHOWN = 160 };            /* characters of a value in a message */

/* Returns the position from which to show two texts, one of which is too long: where they
 * differ. */
static size_t shown_from(const char *a, const char *b)
{
    size_t from = 0;
    if (strlen(a) <= SHOWN && strlen(b) <= SHOWN)
        return 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == ';' && a[i + 1] == ' ')
            from = i + 2;
    return from;
}

/* Appends "name a -> b" to *list if the values differ. */
static void compare(char **list, const char *name, const cJSON *saved, const cJSON *now)
{
    if (saved && now && cJSON_Compare(saved, now, true))
        return;
    char *a = text_of(saved), *b = text_of(now);
    const size_t from = shown_from(a, b);
    char *longer = format("%s%s%s %.*s -> %.*s", *list ? *list : "", *list ? ", " : "", name, SHOWN,
                          a + from, SHOWN, b + from);
    free(*list);
    *list = longer;
    free(a);
    free(b);
}

/* The same as compare(), for the data. */
static void compare_data(char **list, const cJSON *saved, const char *now)
{
    const char *before = cJSON_GetStringValue(saved);
    char *changes = before && strcmp(before, now) ? fingerprint_changes(before, now) : NULL;
    if (changes && !*changes) {
        free(changes);
        return;
    }
    if (changes) {
        char *longer = format("%s%sdata: %s", *list ? *list : "", *list ? ", " : "", changes);
        free(*list), free(changes);
        *list = longer;
        return;
    }
    cJSON *text = cJSON_CreateString(now);
    compare(list, "data", saved, text);
    cJSON_Delete(text);
}

/* Returns the recipe's optim.master; NULL: all weights are fp32. */
static const char *master_kind(const Model *m)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        if (t->trained && t->weight.type != EL_F32)
            return !t->master.at ? "none" : t->master.type == EL_F32 ? "fp32" : "remainder";
    }
    return NULL;
}

cJSON *checkpoint_layout(const Checkpoints *c, const Model *m)
{
    cJSON *layout = c->layout ? cJSON_Duplicate(c->layout, true) : cJSON_CreateObject();
    cJSON_AddNumberToObject(layout, "ranks", (double)m->ranks);
    cJSON_AddNumberToObject(layout, "micro", (double)m->micro);
    cJSON_AddNumberToObject(layout, "accum", (double)m->accum);
    cJSON_AddStringToObject(layout, "recipe_hash", m->hash);
    cJSON_AddStringToObject(layout, "generator", m->generator);
    if (m->order)
        cJSON_AddStringToObject(layout, "order", m->order);
    if (master_kind(m))
        cJSON_AddStringToObject(layout, "optim.master", master_kind(m));
    if (model_has_nf4(m))
        cJSON_AddStringToObject(layout, "lora.base", "nf4");
    if (strcmp(moments_type(m), "fp32"))
        cJSON_AddStringToObject(layout, "optim.moments", moments_type(m));
    if (strcmp(device_name(), "CPU")) {
        cJSON_AddStringToObject(layout, "gpu", device_name());
        cJSON_AddStringToObject(layout, "nccl", comm_library());
        cJSON_AddNumberToObject(layout, "ranks_per_host", world.local_size);
        const char *setting;
        bool chosen;
        for (int i = 0; (setting = comm_setting(i, &chosen)); i++) {
            const size_t n = strcspn(setting, "=");
            char *name = format("%.*s", (int)n, setting);
            cJSON_AddStringToObject(layout, name, setting + n + 1);
            free(name);
        }
    }
    return layout;
}

/* True if that entry does not matter: libraries that a layout from before it named them lacks; of
 * two layouts of canonical order, whose bits do not depend on ranks; products where one has another
 * order, for which there is a message of its own. */
static bool is_free(const cJSON *saved, const cJSON *now, const char *entry)
{
    static const char *const of_ranks[] = {"ranks", "accum", "recipe_hash", "nccl",
                                           "ranks_per_host"};
    const char *order = cJSON_GetStringValue(json_get(saved, "order")),
               *here = cJSON_GetStringValue(json_get(now, "order"));
    bool found = !strncmp(entry, "NCCL_", 5);
    for (size_t i = 0; i < sizeof of_ranks / sizeof *of_ranks; i++)
        found |= !strcmp(entry, of_ranks[i]);
    if (!strcmp(entry, "libraries"))
        return !json_get(saved, entry);
    if (!strcmp(entry, "products"))
        return !order || !here;
    return found && order && here && !strcmp(order, here);
}

/* Returns the layout with the type of its moments, which it names only if that is not fp32, and
 * with the master weights of a run from before it named them. Programs whose 16-bit products on the
 * CPU depended on the number of threads named that. */
static cJSON *with_states(cJSON *layout, const Model *m)
{
    cJSON *full = cJSON_IsObject(layout) ? layout : cJSON_CreateObject();
    if (full != layout)
        cJSON_Delete(layout);
    if (!json_get(full, "optim.moments"))
        cJSON_AddStringToObject(full, "optim.moments", "fp32");
    if (!json_get(full, "optim.master") && master_kind(m))
        cJSON_AddStringToObject(full, "optim.master", "fp32");
    return full;
}

void checkpoint_check_data(const Checkpoints *c, const Model *m)
{
    cJSON *now = with_states(checkpoint_layout(c, m), m),
          *saved = with_states(cJSON_Duplicate(json_get(c->file, "layout"), true), m);
    const cJSON *item;
    cJSON *batch = cJSON_CreateNumber((double)(m->ranks * m->micro * m->accum));
    char *list = NULL;
    compare(&list, "global_batch", json_get(c->file, "global_batch"), batch);
    compare_data(&list, json_get(c->file, "data"), c->fingerprint ? c->fingerprint : "");
    if (list && !c->flags->allow_inexact)
        die(EXIT_MISMATCH, "%s: %s; --allow-inexact resumes anyway", c->found, list);
    if (json_get(saved, "threads"))
        cJSON_AddStringToObject(now, "threads", "any number");
    cJSON_ArrayForEach(item, saved)
        if (!is_free(saved, now, item->string))
            compare(&list, item->string, item, json_get(now, item->string));
    cJSON_ArrayForEach(item, now)
        if (!json_get(saved, item->string) && !is_free(saved, now, item->string))
            compare(&list, item->string, NULL, item);
    if (list && c->flags->exact)
        die(EXIT_MISMATCH,
            "%s: --exact, but %s; restore the checkpoint's values or leave out --exact", c->found,
            list);
    if (list)
        note("INEXACT RESUME: %s; restore the checkpoint's values for the bits of an undisturbed "
             "run",
             list);
    free(list);
    cJSON_Delete(batch);
    cJSON_Delete(saved);
    cJSON_Delete(now);
}

/* ---- load ----------------------------------------------------------------------------------- */

void checkpoint_know_base(Checkpoints *c, const Model *m)
{
    if (m->adapter_json && !c->base_known)
        c->base_crc = model_base_crc(m, &c->base_whole);
    c->base_known = true;
}

static void check_base(Checkpoints *c, const Model *m)
{
    const cJSON *base = json_get(c->file, "base");
    const char *path = cJSON_GetStringValue(json_get(base, "path"));
    const char *want = cJSON_GetStringValue(json_get(base, "crc32c"));
    const char *saved = cJSON_GetStringValue(json_get(json_get(c->file, "layout"), "lora.base"));
    const char *before = saved ? saved : "same", *now = model_has_nf4(m) ? "nf4" : "same";
    if (strcmp(before, now))
        die(EXIT_MISMATCH, "%s: its adapters were trained with lora.base=%s, this program has "
            "lora.base=%s; build the recipe with lora.base=%s", c->found, before, now, before);
    checkpoint_know_base(c, m);
    if (!path || !is_crc(want) || strtoul(want, NULL, 16) != c->base_crc)
        die(EXIT_MISMATCH, "%s: trained on the base %s with crc32c %s, this run's base %s has %08x",
            c->found, path && *path ? path : "made from the seed", want ? want : "none",
            c->base ? c->base : "made from the seed", c->base_crc);
}

/* Returns the file's tensor for a state of t, with its dimensions. */
static const StTensor *find(const StFile *file, const Tensor *t, const char *suffix, int *used)
{
    char *name = format("%s.%s", t->name, suffix), *error = NULL;
    const StTensor *found = st_find(file, name);
    if (!found)
        die(EXIT_MISMATCH, "%s: %s is missing", file->path, name);
    const bool remainder = !strcmp(suffix, "remainder");
    if (remainder != (found->dtype == ST_I16))
        error = format("%s: %s is %s; it must be %s", file->path, name, st_dtype_name[found->dtype],
                       remainder ? "I16" : "F32");
    error = error ? error : remainder ? hf_dims_check(file, found, t)
                                      : hf_shape_check(file, found, t);
    if (error)
        die(EXIT_MISMATCH, "%s", error);
    (*used)++;
    free(name);
    return found;
}

/* Reads one of the file's tensors into an array of t, or with NULL into those of its weights. */
static void read_tensor(const StFile *file, const StTensor *from, const Tensor *t, const Array *to)
{
    int64_t ignored = 0;         /* NaN and Inf do not change the bits of an undisturbed run */
    char *error = weights_read(file, from, t, to, &ignored);
    if (error)
        die(EXIT_NO_CKPT, "%s", error);
}

static void load(const StFile *file, const Tensor *t, const char *suffix, Array array, int *used)
{
    if (!array.at)
        return;
    read_tensor(file, find(file, t, suffix, used), t, &array);
}

/* Sets all arrays of t's weights to the values of the weights with the file's remainders, NULL:
 * none. */
static void join_remainder(const StFile *file, const StTensor *from, const Tensor *t)
{
    enum { PIECE = 1 << 18 };
    const int64_t elements = model_elements(t), most = elements < PIECE ? elements : PIECE;
    float *weight = malloc((size_t)most * sizeof *weight),
          *remainder = calloc((size_t)most, sizeof *remainder);
    if (!weight || !remainder)
        die(EXIT_IO, "out of memory for %lld weights of %s", (long long)most, t->name);
    for (int64_t done = 0, k; done < elements; done += k) {
        k = elements - done < most ? elements - done : most;
        if (t->weight.part)
            parts_own(t, t->weight, ORDER_FILE, done, k, weight);
        else
            model_get(t, t->weight, done, k, weight);
        char *error = from ? weights_values(file, from, done, k, remainder) : NULL;
        if (error)
            die(EXIT_NO_CKPT, "%s", error);
        model_join(weight, remainder, k);
        model_put_weights(t, done, k, weight);
    }
    free(weight), free(remainder);
}

/* Sets the master weights of t from a checkpoint of another or the same optim.master, `saved`. */
static void load_master(const StFile *file, const Tensor *t, const char *saved, int *used)
{
    if (t->adapter || t->weight.type == EL_F32 || !t->trained)
        return;
    const bool fp32 = !strcmp(saved, "fp32"), none = !strcmp(saved, "none");
    const StTensor *from = none ? NULL : find(file, t, fp32 ? "master" : "remainder", used);
    const Array raw = model_remainder(t);
    if (!t->master.at)
        return;
    if (fp32)
        read_tensor(file, from, t, t->master.type == EL_F32 ? &t->master : NULL);
    else if (from && raw.at)
        read_tensor(file, from, t, &raw);
    else
        join_remainder(file, from, t);
}

/* Returns the optim.master of the checkpoint's run. */
static const char *saved_master(const Checkpoints *c)
{
    const cJSON *entry = json_get(json_get(c->file, "layout"), "optim.master");
    const char *word = cJSON_GetStringValue(entry);
    if (entry && (!word || !names_listed("fp32|remainder|none", word)))
        die(EXIT_NO_CKPT, "%s/train_state.json: \"optim.master\" must be \"fp32\", \"remainder\" "
            "or \"none\"", c->found);
    return word ? word : "fp32";
}

void checkpoint_load(Checkpoints *c, Model *m)
{
    REQUIRE(c->found);
    comm_expect(weights_seconds(m));
    if (m->adapter_json) {
        check_base(c, m);
        m->adapter_folders->load(m, c->found, false);
    } else {
        hf_load(m, c->found, false);
    }
    char *path = folder_join(c->found, "optimizer.safetensors");
    StFile file;
    char *error = st_open(&file, path);
    if (error)
        die(EXIT_NO_CKPT, "%s", error);
    const char *master = saved_master(c);
    int used = 0;
    moments_load(&file, m, "exp_avg", &used);
    moments_load(&file, m, "exp_avg_sq", &used);
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        load_master(&file, t, master, &used);
        load(&file, t, "value", t->not_in_model ? t->weight : (Array){0}, &used);
    }
    if (used != file.n)
        die(EXIT_MISMATCH, "%s: has %d tensors, but this program has %d", path, file.n, used);
    st_close(&file);
    free(path);
    comm_expect(0);
}
