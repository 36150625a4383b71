/* checkpoint_resume.c -- finds, verifies, compares and loads checkpoints.
 *
 * In:    folders that may be damaged or hostile.
 * Keeps: no weight is changed before every byte of every file was checked.
 * Method: rank 0 looks and judges, the others are told. */
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
#include "runtime/files/json.h"
#include "runtime/files/names.h"
#include "runtime/model/weights.h"

enum { JSON_MAX = 1 << 28 };

char *checkpoint_path(const char *out, int64_t step)
{
    return format("%s/checkpoint-%lld", out, (long long)step);
}

/* ---- before the first step ------------------------------------------------------------------ */

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

/* The first tensor of a damaged file whose own checksum is wrong; NULL: none can be told. */
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
        const StTensor *t = in && tensor && strcmp(in, name) == 0 ? st_find(&file, tensor) : NULL;
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
    if (!name || !*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return format("%s/files.json: a file without a plain name", folder);
    if (!whole(size, 0x1p53) || !is_crc(want))
        return format("%s/files.json: bytes or crc32c of %.200s are none", folder, name);
    char *path = folder_join(folder, name);
    uint64_t bytes;
    uint32_t crc;
    char *error = folder_file_crc(path, &bytes, &crc);
    if (!error && bytes != (uint64_t)size->valuedouble)
        error = format("%s: %llu bytes, files.json says %.0f", path, (unsigned long long)bytes,
                       size->valuedouble);
    if (!error && crc != strtoul(want, NULL, 16)) {
        char *tensor = damaged_tensor(path, name, tensors);
        error = format("%s: crc32c %08x, files.json says %s%s%s", path, crc, want,
                       tensor ? ", damaged tensor " : "", tensor ? tensor : "");
        free(tensor);
    }
    free(path);
    return error;
}

static char *verify_own_crc(const char *folder, cJSON *manifest)
{
    cJSON *own = cJSON_DetachItemFromObjectCaseSensitive(manifest, "crc32c");
    const char *want = cJSON_GetStringValue(own);
    char *text = folder_json_text(manifest), *error = NULL;
    uint32_t crc = crc32c(0, text, strlen(text));
    if (!is_crc(want) || crc != strtoul(want, NULL, 16))
        error = format("%s/files.json: crc32c %08x, it says %s", folder, crc, want ? want : "none");
    free(text);
    cJSON_Delete(own);
    return error;
}

static char *verify_rows(const char *folder, const cJSON *manifest)
{
    const cJSON *format_name = json_get(manifest, "format"), *row;
    if (!cJSON_IsString(format_name) ||
        strcmp(format_name->valuestring, "diecast-checkpoint-1") != 0)
        return format("%s/files.json: format is not diecast-checkpoint-1", folder);
    if (!whole(json_get(manifest, "step"), 1e15))
        return format("%s/files.json: step is no step", folder);
    bool state = false, optimizer = false, config = false;
    cJSON_ArrayForEach(row, json_get(manifest, "files")) {
        char *error = verify_file(folder, row, json_get(manifest, "tensors"));
        if (error)
            return error;
        const char *name = json_get(row, "name")->valuestring;
        state = state || strcmp(name, "train_state.json") == 0;
        optimizer = optimizer || strcmp(name, "optimizer.safetensors") == 0;
        config = config || strcmp(name, "config.json") == 0 ||
                 strcmp(name, "adapter_config.json") == 0;
    }
    if (!state || !optimizer || !config)
        return format("%s/files.json: lists no %s", folder,
                      !state ? "train_state.json" : !optimizer ? "optimizer.safetensors"
                                                               : "config.json");
    return NULL;
}

char *checkpoint_verify(const char *folder)
{
    char *error = NULL;
    cJSON *manifest = folder_read_own(folder, "files.json", JSON_MAX, &error);
    if (!manifest)
        return error;
    if (!cJSON_IsObject(manifest))
        error = format("%s/files.json: not a JSON object", folder);
    if (!error)
        error = verify_own_crc(folder, manifest);
    if (!error)
        error = verify_rows(folder, manifest);
    cJSON_Delete(manifest);
    return error;
}

/* ---- find ----------------------------------------------------------------------------------- */

/* train_state.json, with the members that the functions below take for granted. */
static cJSON *read_state(const char *folder, char **error)
{
    cJSON *all = folder_read_own(folder, "train_state.json", JSON_MAX, error);
    if (!all)
        return NULL;
    const char *name = cJSON_GetStringValue(json_get(all, "format"));
    if (!name || strcmp(name, "diecast-train-state-1") != 0)
        *error = format("%s/train_state.json: format is not diecast-train-state-1", folder);
    else if (!whole(json_get(all, "step"), 1e15) || !whole(json_get(all, "global_batch"), 1e15) ||
             !cJSON_IsString(json_get(all, "model_fields")) ||
             !cJSON_IsString(json_get(all, "data")) || !cJSON_IsObject(json_get(all, "layout")) ||
             (json_get(all, "sets") && !cJSON_IsObject(json_get(all, "sets"))) ||
             !cJSON_IsObject(json_get(all, "flags")) || !cJSON_IsObject(json_get(all, "state")))
        *error = format("%s/train_state.json: a member is missing or of another type", folder);
    if (!*error)
        return all;
    cJSON_Delete(all);
    return NULL;
}

/* Value of the line "NAME=VALUE" of text; malloc'ed, NULL: there is none. */
static char *field_of(const char *text, const char *name, int n)
{
    for (const char *at = text; *at; at = strchrnul(at, '\n'), at += *at == '\n')
        if (strncmp(at, name, (size_t)n) == 0 && at[n] == '=')
            return format("%.*s", (int)strcspn(at + n + 1, "\n"), at + n + 1);
    return NULL;
}

/* Adds to the list the fields of `text` whose values in saved and ours are two. */
static void compare_fields(char **list, const char *text, const char *saved, const char *ours)
{
    for (const char *at = text; *at; at = strchrnul(at, '\n'), at += *at == '\n') {
        int n = (int)strcspn(at, "=\n");
        char *a = field_of(saved, at, n), *b = field_of(ours, at, n);
        bool new = text == ours || !b;           /* else it was said already */
        if (new && strcmp(a ? a : "", b ? b : "") != 0) {
            char *longer = format("%s%s%.*s is %s there, %s here", *list ? *list : "",
                                  *list ? "; " : "", n, at, a ? a : "absent", b ? b : "absent");
            free(*list);
            *list = longer;
        }
        free(a);
        free(b);
    }
}

/* 83 naming every field that differs. */
static void check_fields(const char *folder, const char *saved, const char *ours)
{
    char *list = NULL;
    compare_fields(&list, ours, saved, ours);
    compare_fields(&list, saved, saved, ours);
    if (list)
        die(EXIT_MISMATCH, "%s: a checkpoint of another model: %s: name another --out, or build "
            "the recipe it was made with", folder, list);
}

/* The parameter group that a tensor belongs to, as train_state.json has it. */
static const char *set_there(const cJSON *sets, const char *tensor)
{
    const cJSON *list, *name;
    cJSON_ArrayForEach(list, sets)
        cJSON_ArrayForEach(name, list)
            if (cJSON_IsString(name) && strcmp(name->valuestring, tensor) == 0)
                return list->string;
    return "model";
}

/* 83 naming the first tensor that is trained with others there than here. */
static void check_sets(const char *folder, const cJSON *sets, const Model *m)
{
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        const char *here = t->set ? t->set : "model", *there = set_there(sets, t->name);
        if (t->trained && strcmp(here, there) != 0)
            die(EXIT_MISMATCH, "%s: a checkpoint with other parameter groups: %s is of the set "
                "%s there, %s here: name another --out, or build the recipe it was made with",
                folder, t->name, there, here);
    }
}

/* Renames a checkpoint out of the way, never over another one. false: it cannot be, which is said. */
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
        char *why = format("%s is beyond step %lld, from which this run goes on", folder,
                           (long long)c->step);
        if (list[i] > c->step && !put_aside(folder, ".aside", why))
            die(EXIT_IO, "%s: the next start would take it", folder);
        free(why);
        free(folder);
    }
    free(list);
}

/* Newest valid one of OUT, or NULL; the damaged ones on the way are put aside. */
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
        if (error && error_remedy(error))        /* unreadable, which is not damaged: leave it */
            die(EXIT_IO, "%s", error);
        if (error) {
            char *why = format("damaged checkpoint: %s", error);
            if (c->looks)
                warn("%s; left as it is", why);
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

/* How many damaged checkpoints of OUT were put aside. */
static int put_aside_before(const char *out)
{
    int n = 0;
    DIR *dir = opendir(out);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        const char *rest;
        n += folder_step_of(d->d_name, &rest) >= 0 && strncmp(rest, ".corrupt", 8) == 0;
    }
    if (dir)
        closedir(dir);
    return n;
}

/* X of X.pt, as PyTorch's checkpoints are called; else NULL. malloc'ed. */
static char *without_pt(const char *path)
{
    static const char *const ends[] = {".pt", ".pth", ".ckpt", ".bin"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t k = strlen(ends[i]);
        if (n > k && strcmp(path + n - k, ends[i]) == 0 && path[n - k - 1] != '/')
            return format("%.*s", (int)(n - k), path);
    }
    return NULL;
}

static void refuse_pt(const char *path, const char *folder)
{
    die(EXIT_NO_CKPT, "--resume %s: files of PyTorch are not read, and there is no folder %s here or in --out; for its "
        "weights alone, without the optimiser: python3 -c \"import sys, torch, safetensors.torch as s; "
        "x = torch.load(sys.argv[1], map_location='cpu', weights_only=True); s.save_file({k: v.contiguous() "
        "for k, v in x.get('model_state_dict', x).items()}, sys.argv[2])\" %s DIR/model.safetensors; then "
        "--init-from DIR, a folder that has the model's config.json too", path, folder, path);
}

/* The folder that --resume PATH means: here, else in OUT; of X.pt the folder X. malloc'ed. */
static char *named(const Checkpoints *c)
{
    const char *which = c->flags->resume;
    char *bare = without_pt(which), *inside = folder_join(c->out, which);
    bool here = file_named(which), there = *which != '/' && file_named(inside);
    if (bare && !folder_exists(which) && !folder_exists(inside)) {
        const char *pt = which;
        free(inside);
        which = bare;
        inside = folder_join(c->out, which);
        here = folder_exists(which), there = *which != '/' && folder_exists(inside);
        if (!here && !there)
            refuse_pt(pt, bare);
        note("--resume %s: taking the folder %s", pt, here ? which : inside);
    }
    if (!here && !there)
        die(EXIT_NO_CKPT, "--resume %s: no such folder%s%s", which,
            *which == '/' ? "" : " here, nor in ", *which == '/' ? "" : c->out);
    char *found = format("%s", here ? which : inside);
    for (size_t n = strlen(found); n > 1 && found[n - 1] == '/'; n--)
        found[n - 1] = 0;
    free(inside);
    free(bare);
    return found;
}

static char *choose(const Checkpoints *c)
{
    const char *which = c->flags->resume;
    bool automatic = strcmp(which, "auto") == 0, last = strcmp(which, "last") == 0;
    int had;
    if (c->flags->force)
        return NULL;
    if (strcmp(which, "never") == 0) {
        free(folder_steps(c->out, &had));
        if (had > 0)
            die(EXIT_CONFIG, "%s: holds %d checkpoints; name another --out, go on from the newest "
                "with --resume last, or have them moved aside with --force", c->out, had);
        return NULL;
    }
    if (automatic || last) {
        char *found = newest(c, &had);
        bool damaged = !found && (had > 0 || put_aside_before(c->out) > 0);
        if (!found && (last || damaged))
            die(EXIT_NO_CKPT, "%s: no valid checkpoint to resume from%s", c->out,
                !damaged ? "" : c->looks ? ", all are damaged"
                : ", all are damaged; --resume never starts anew at step 0 and leaves them there");
        return found;
    }
    char *found = named(c), *error = checkpoint_verify(found);
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
}

bool checkpoint_find(Checkpoints *c, const Model *m)
{
    char path[PATH_MAX] = "";
    comm_expect(3 * weights_seconds(m));         /* several may be damaged */
    if (world.rank == 0) {
        char *found = choose(c);
        if (found && strlen(found) >= sizeof path)
            die(EXIT_CONFIG, "--resume: a path of %zu characters", strlen(found));
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

/* The value of the flag in the checkpoint found; NULL: it has none. */
static const char *flag_saved(const Checkpoints *c, int flag)
{
    return cJSON_GetStringValue(json_get(json_get(c->file, "flags"), flags_name(flag)));
}

bool checkpoint_changes(const Checkpoints *c, const Flags *f, int flag)
{
    const char *saved = flag_saved(c, flag);
    char *now = flags_text(f, flag);
    const bool other = saved && strcmp(now, saved) != 0;
    free(now);
    return other;
}

char *checkpoint_flags(const Checkpoints *c, Flags *f)
{
    char *changes = NULL;
    for (int i = 0; i < FLAG_COUNT; i++) {
        const char *saved = flag_saved(c, i);
        if (!saved || !flags_sticky(i))
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
            continue;
        }
        char *error = flags_set(f, i, saved);
        if (error)
            die(EXIT_MISMATCH, "%s/train_state.json: %s: %s", c->found, flags_name(i), error);
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

/* Where to show two texts from, of which one is too long: from the part that differs on. */
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

/* Appends "name a -> b" to *list when the values differ. */
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

/* The same as compare(), of what the data are. */
static void compare_data(char **list, const cJSON *saved, const char *now)
{
    const char *before = cJSON_GetStringValue(saved);
    char *changes = before && strcmp(before, now) ? fingerprint_changes(before, now) : NULL;
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

cJSON *checkpoint_layout(const Checkpoints *c, const Model *m)
{
    cJSON *layout = c->layout ? cJSON_Duplicate(c->layout, true) : cJSON_CreateObject();
    cJSON_AddNumberToObject(layout, "ranks", (double)m->ranks);
    cJSON_AddNumberToObject(layout, "micro", (double)m->micro);
    cJSON_AddNumberToObject(layout, "accum", (double)m->accum);
    cJSON_AddStringToObject(layout, "recipe_hash", m->hash);
    cJSON_AddStringToObject(layout, "generator", m->generator);
    if (strcmp(device_name(), "CPU") != 0) {
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

void checkpoint_agree(const Checkpoints *c, const Model *m)
{
    cJSON *now = checkpoint_layout(c, m);
    const cJSON *saved = json_get(c->file, "layout"), *item;
    cJSON *batch = cJSON_CreateNumber((double)(m->ranks * m->micro * m->accum));
    char *list = NULL;
    compare(&list, "global_batch", json_get(c->file, "global_batch"), batch);
    compare_data(&list, json_get(c->file, "data"), c->fingerprint ? c->fingerprint : "");
    if (list && !c->flags->allow_inexact)
        die(EXIT_MISMATCH, "%s: %s; --allow-inexact resumes all the same", c->found, list);
    cJSON_ArrayForEach(item, saved)
        compare(&list, item->string, item, json_get(now, item->string));
    cJSON_ArrayForEach(item, now)
        if (!json_get(saved, item->string))
            compare(&list, item->string, NULL, item);
    if (list && c->flags->exact)
        die(EXIT_MISMATCH, "%s: --exact, but %s; restore the checkpoint's values or leave out --exact",
            c->found, list);
    if (list)
        note("INEXACT RESUME: %s; restore the checkpoint's values for the bits of an undisturbed run",
             list);
    free(list);
    cJSON_Delete(batch);
    cJSON_Delete(now);
}

/* ---- load ----------------------------------------------------------------------------------- */

static void check_base(Checkpoints *c, const Model *m)
{
    const cJSON *base = json_get(c->file, "base");
    const char *path = cJSON_GetStringValue(json_get(base, "path"));
    const char *want = cJSON_GetStringValue(json_get(base, "crc32c"));
    c->base_crc = model_base_crc(m);
    c->base_known = true;
    if (!path || !is_crc(want) || strtoul(want, NULL, 16) != c->base_crc)
        die(EXIT_MISMATCH, "%s: trained on the base %s with crc32c %s, this run's base %s has %08x",
            c->found, path && *path ? path : "made from the seed", want ? want : "none",
            c->base ? c->base : "made from the seed", c->base_crc);
}

static void load(const StFile *file, const Tensor *t, const char *suffix, float *array, int *used)
{
    if (!array)
        return;
    char *name = format("%s.%s", t->name, suffix);
    const StTensor *from = st_find(file, name);
    if (!from)
        die(EXIT_MISMATCH, "%s: %s is missing", file->path, name);
    int64_t ignored = 0;         /* a run that was never stopped would go on with these bits too */
    char *error = hf_shape_check(file, from, t);
    if (error)
        die(EXIT_MISMATCH, "%s", error);
    error = weights_read(file, from, t, array, NULL, EL_F32, &ignored);
    if (error)
        die(EXIT_NO_CKPT, "%s", error);
    (*used)++;
    free(name);
}

void checkpoint_load(Checkpoints *c, Model *m)
{
    comm_expect(weights_seconds(m));
    if (m->adapter_json) {
        check_base(c, m);
        hf_load_adapter(m, c->found, false);
    } else {
        hf_load(m, c->found, false);
    }
    char *path = folder_join(c->found, "optimizer.safetensors");
    StFile file;
    char *error = st_open(&file, path);
    if (error)
        die(EXIT_NO_CKPT, "%s", error);
    int used = 0;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        load(&file, t, "exp_avg", t->exp_avg, &used);
        load(&file, t, "exp_avg_sq", t->exp_avg_sq, &used);
        load(&file, t, "master", t->adapter ? NULL : t->master, &used);
        load(&file, t, "value", t->not_in_model ? t->weight : NULL, &used);
    }
    if (used != file.n)
        die(EXIT_MISMATCH, "%s: holds %d tensors, this binary has %d", path, file.n, used);
    st_close(&file);
    free(path);
    comm_expect(0);
}
