/* checkpoint.c -- saving checkpoints, and cleaning up OUT.
 *
 * In:    arrays of the model, between two steps.
 * Keeps: the rename is the commit; older checkpoints are removed only after the new one was read
 *        back.
 * Method: see checkpoint.h. Rank 0 writes every file, as ranks are replicas. */
#define _GNU_SOURCE
#include "runtime/run/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/ranks/comm.h"
#include "runtime/files/crc32c.h"
#include "runtime/device.h"
#include "runtime/run/card.h"
#include "runtime/run/fault.h"
#include "runtime/files/folder.h"
#include "runtime/model/hf.h"
#include "runtime/files/json.h"
#include "runtime/model/absmax.h"
#include "runtime/model/model_parts.h"
#include "runtime/model/moments.h"
#include "runtime/model/weights.h"
#include "runtime/run/replicas.h"

/* ---- before the first step ------------------------------------------------------------------ */

/* True for a leftover of a killed start: NAME.tmp of a run file, or its probe. */
static bool half_written(const char *name)
{
    static const char *const leaf[] = {
#define RUN_FILE(name, kind, owners, about) name ".tmp",
#include "runtime/run/run_files.def"
        "probe.[0-9]*"};
    for (size_t i = 0; i < sizeof leaf / sizeof *leaf; i++)
        if (fnmatch(leaf[i], name, 0) == 0)
            return true;
    return false;
}

static void remove_leftovers(const char *out)
{
    DIR *dir = opendir(out);
    if (!dir)
        die(EXIT_IO, "%s: open: %s", out, strerror(errno));
    for (struct dirent *d; (d = readdir(dir));) {
        const char *rest;
        if (folder_step_of(d->d_name, &rest) < 0) {
            if (half_written(d->d_name))
                unlinkat(dirfd(dir), d->d_name, 0);
            continue;
        }
        if (strcmp(rest, ".tmp") && strcmp(rest, ".del"))
            continue;
        char *path = folder_join(out, d->d_name), *error = folder_remove(path);
        if (error)
            warn("%s: left by an earlier run; cannot remove it", error);
        else
            note("%s: removed, left by an earlier run", path);
        free(error);
        free(path);
    }
    closedir(dir);
}

static void probe(const char *out)
{
    char *path = format("%s/probe.%ld", out, (long)getpid());
    int fd = TEMP_FAILURE_RETRY(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    bool bad = fd < 0 || !file_write(fd, "probe\n", 6) || fsync(fd);
    int why = errno;
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    if (bad)
        die(EXIT_IO, "%s: the run folder cannot be written: %s", out, strerror(why));
    free(path);
}

/* Bytes of a tensor and its optimiser state in the files of a checkpoint. */
static int64_t saved_bytes(const Model *m, const Tensor *t)
{
    int64_t each = 0;
    if (t->adapter || t->not_in_model)
        each = 4;
    else if (!m->adapter_json)
        each = element_bytes(t->weight.type) + (t->master.at ? element_bytes(t->master.type) : 0);
    return each * model_elements(t) + moments_bytes(t);
}

/* Returns NULL, or a malloc'ed message if the next checkpoint will not fit; reserves room for small
 * files. */
static char *room(const Checkpoints *c, const Model *m)
{
    const double reserve = 1 << 20, mib = 1 << 20;
    double need = reserve;
    for (int i = 0; i < m->ntensors; i++)
        need += 1.05 * (double)saved_bytes(m, &m->tensors[i]);
    int64_t have = folder_free_bytes(c->out);
    if (have < 0 || (double)have >= need)
        return NULL;
    return format("%s: %s: a checkpoint needs %.1f MiB, %.1f MiB are free", c->out,
                  strerror(ENOSPC), need / mib, (double)have / mib);
}

void checkpoint_start(Checkpoints *c, const Model *m)
{
    REQUIRE(c->out && c->flags);
    if (world.rank != 0)
        return;
    remove_leftovers(c->out);
    probe(c->out);
    char *error = room(c, m);
    if (error)
        die(EXIT_IO, "%s", error);
    if (c->flags->save_total_limit == 1)
        note("--save-total-limit 1 counts as 2: in case the newest checkpoint is damaged");
}

/* ---- one checkpoint ------------------------------------------------------------------------- */

static void add_item(WeightsItem *item, int *n, const Tensor *t, const char *suffix,
                     Array array)
{
    if (!array.at)
        return;
    item[*n].name = format("%s.%s", t->name, suffix);
    item[*n].t = t;
    item[*n].dtype = array.type == EL_I16 ? ST_I16 : array.type == EL_U8 ? ST_U8 : ST_F32;
    item[(*n)++].array = array;
}

/* In 8 bit with its magnitudes; *blocks: room for their tensor. */
static void add_moment(WeightsItem *item, int *n, const Tensor *t, const char *suffix,
                       Array array, Tensor *blocks)
{
    add_item(item, n, t, suffix, array);
    if (array.type != EL_U8)
        return;
    *blocks = absmax_tensor(t, array);
    add_item(item, n, blocks, "absmax", absmax_array(array));
    free((char *)item[*n - 1].name);
    item[*n - 1].name = format("%s.%s.absmax", t->name, suffix);
}

static char *write_optimizer(const Model *m, const char *folder, cJSON *manifest)
{
    enum { EACH = 6 };           /* files of a tensor at most */
    WeightsItem *item = calloc(EACH * (size_t)m->ntensors + 1, sizeof *item);
    Tensor *blocks = calloc(2 * (size_t)m->ntensors + 1, sizeof *blocks);
    if (!item || !blocks)
        die(EXIT_IO, "out of memory for a list of %d tensors", EACH * m->ntensors);
    int n = 0;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        add_moment(item, &n, t, "exp_avg", t->exp_avg, &blocks[2 * i]);
        add_moment(item, &n, t, "exp_avg_sq", t->exp_avg_sq, &blocks[2 * i + 1]);
        const Array none = {0}, remainder = model_remainder(t);
        if (!t->adapter)         /* whose file has fp32 weights */
            add_item(item, &n, t, remainder.at ? "remainder" : "master",
                     remainder.at ? remainder : t->master);
        add_item(item, &n, t, "value", t->not_in_model ? t->weight : none);
    }
    char *error = weights_write(item, n, folder, "optimizer.safetensors", manifest);
    for (int i = 0; i < n; i++)
        free((char *)item[i].name);
    free(item), free(blocks);
    return error;
}

/* Returns the trained tensors of parameter groups other than "model", {"head": ["lm_head.weight"]};
 * NULL: none. */
static cJSON *sets_of(const Model *m)
{
    cJSON *sets = NULL;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        if (!t->trained || !t->set)
            continue;
        sets = sets ? sets : cJSON_CreateObject();
        cJSON *list = json_get(sets, t->set);
        list = list ? list : cJSON_AddArrayToObject(sets, t->set);
        cJSON_AddItemToArray(list, cJSON_CreateString(t->name));
    }
    return sets;
}

cJSON *checkpoint_state(const Checkpoints *c, const Model *m, int64_t step, const cJSON *state)
{
    cJSON *all = cJSON_CreateObject();
    cJSON_AddStringToObject(all, "format", "diecast-train-state-1");
    cJSON_AddNumberToObject(all, "step", (double)step);
    cJSON_AddStringToObject(all, "recipe", m->recipe);
    cJSON_AddStringToObject(all, "model_fields", m->model_fields);
    cJSON_AddNumberToObject(all, "global_batch", (double)(m->ranks * m->micro * m->accum));
    cJSON_AddStringToObject(all, "data", c->fingerprint ? c->fingerprint : "");
    cJSON_AddItemToObject(all, "made_of", card_sources(c));
    cJSON *sets = sets_of(m);
    if (sets)
        cJSON_AddItemToObject(all, "sets", sets);
    cJSON_AddItemToObject(all, "layout", checkpoint_layout(c, m));
    cJSON *flags = cJSON_AddObjectToObject(all, "flags");
    for (int i = 0; i < FLAG_COUNT; i++)
        if (flags_sticky(i)) {
            char *text = flags_text(c->flags, i);
            if (flags_repeats(i))
                cJSON_AddItemToObject(flags, flags_name(i), cJSON_CreateStringArray(
                    c->flags->many[i], (int)flags_many(c->flags, i)));
            else
                cJSON_AddStringToObject(flags, flags_name(i), text);
            free(text);
        }
    if (m->adapter_json) {
        REQUIRE(c->base_known);
        char text[9];
        snprintf(text, sizeof text, "%08x", c->base_crc);
        cJSON *base = cJSON_AddObjectToObject(all, "base");
        cJSON_AddStringToObject(base, "path", c->base ? c->base : "");
        cJSON_AddStringToObject(base, "crc32c", text);
    }
    cJSON_AddItemToObject(all, "state", cJSON_Duplicate(state, true));
    return all;
}

/* Writes files.json, with the checksum of its own text without that line. */
static char *write_manifest(cJSON *manifest, const Model *m, int64_t step, const char *folder)
{
    cJSON_AddStringToObject(manifest, "format", "diecast-checkpoint-1");
    cJSON_AddNumberToObject(manifest, "step", (double)step);
    cJSON_AddStringToObject(manifest, "recipe_hash", m->hash);
    char *text = folder_json_text(manifest), crc[9];
    snprintf(crc, sizeof crc, "%08x", crc32c(0, text, strlen(text)));
    free(text);
    cJSON_AddStringToObject(manifest, "crc32c", crc);
    return folder_write_json(folder, "files.json", manifest, NULL);
}

static char *write_files(const Checkpoints *c, const Model *m, int64_t step, const cJSON *all,
                         const cJSON *trainer, const char *temp)
{
    cJSON *manifest = manifest_new();
    char *error;
    if (m->adapter_json) {
        error = m->adapter_folders->write(m, temp, &(HfHow){.source = c->base}, manifest);
        if (!error && c->source)
            error = folder_copy_extras(c->source, temp, manifest);
    } else {
        error = hf_write_model(m, temp, &(HfHow){.source = c->source}, HF_SHARD_BYTES, manifest);
    }
    if (!error && c->tokenizer)  /* defines the ids that the weights belong to */
        error = folder_copy_tokenizer(c->tokenizer, temp, manifest);
    if (!error && c->complete)
        error = c->complete(temp, m, json_get(all, "state"));
    if (!error && c->complete)
        error = folder_manifest_extras(temp, manifest);
    if (!error)
        error = write_optimizer(m, temp, manifest);
    if (!error)
        error = folder_write_json(temp, "train_state.json", all, manifest);
    if (!error)
        error = folder_write_json(temp, "trainer_state.json", trainer, manifest);
    if (!error)
        error = write_manifest(manifest, m, step, temp);
    cJSON_Delete(manifest);
    return error;
}

/* Tries once to write the checkpoint; removes the files of a failed attempt. */
static char *save(const Checkpoints *c, const Model *m, int64_t step, const cJSON *all,
                  const cJSON *trainer)
{
    char *error = room(c, m);
    if (error)
        return error;
    char *final = checkpoint_path(c->out, step);
    char *temp = format("%s.tmp", final);
    if (folder_exists(temp))
        error = folder_remove(temp);
    if (!error)
        error = folder_make(temp);
    if (!error)
        error = write_files(c, m, step, all, trainer, temp);
    fault_save(step);
    if (!error)
        error = folder_commit(temp, final);
    if (error && folder_exists(temp))
        free(folder_remove(temp));
    free(temp);
    free(final);
    return error;
}

int64_t checkpoint_best_step(const cJSON *trainer)
{
    const char *best = cJSON_GetStringValue(json_get(trainer, "best_model_checkpoint")), *rest;
    const char *slash = best ? strrchr(best, '/') : NULL;
    return best ? folder_step_of(slash ? slash + 1 : best, &rest) : -1;
}

void checkpoint_remove_oldest(const Checkpoints *c, int64_t step, int64_t best)
{
    if (world.rank != 0)
        return;
    int64_t keep = c->flags->save_total_limit == 1 ? 2 : c->flags->save_total_limit;
    int n;
    int64_t *list = folder_steps(c->out, &n), left = n;
    for (int i = 0; i < n && keep > 0 && left > keep; i++) {
        if (list[i] == step || list[i] == best)
            continue;
        char *path = checkpoint_path(c->out, list[i]);
        char *del = format("%s.del", path), *error = NULL;
        if (folder_exists(del))
            error = folder_remove(del);
        if (!error && rename(path, del))
            error = format("%s: rename: %s", path, strerror(errno));
        if (!error)
            error = folder_sync(c->out);
        if (!error)
            error = folder_remove(del);
        if (error)
            warn("old checkpoint not removed: %s", error);
        free(error);
        free(del);
        free(path);
        left--;
    }
    free(list);
}

/* Ends the job if replicas differ: some rank has computed wrong values, and rank 0's may be
 * those. */
static void check_replicas(const Model *m, int64_t step)
{
    if (world.size == 1)
        return;
    fault_check(m);
    comm_expect(weights_seconds(m));
    char *difference = replicas_rounding(m);
    if (!difference)
        difference = replicas_difference(m, 0, "weights or moments");
    comm_expect(0);
    if (!difference)
        return;
    if (world.rank != 0)
        comm_barrier();          /* rank 0 ends the job with the one line */
    die(EXIT_REPLICAS, "step %lld: %s: faulty memory or processor; nothing of this step is saved",
        (long long)step, difference);
}

void checkpoint_same_weights(Checkpoints *c, const Model *m)
{
    if (world.size == 1)
        return;
    comm_expect(weights_seconds(m));
    checkpoint_know_base(c, m);
    char *difference = replicas_difference(m, c->base_whole ^ weights_read_crc(),
                                           "weights to start from");
    comm_expect(0);
    if (difference && world.rank != 0)
        comm_barrier();          /* rank 0 ends the job with the one line */
    if (difference)
        die(EXIT_MISMATCH, "%s: all hosts need the same files", difference);
}

char *checkpoint_write(const Checkpoints *c, const Model *m, int64_t step, const cJSON *all,
                       const cJSON *trainer)
{
    char *error = save(c, m, step, all, trainer);
    if (error) {
        warn("checkpoint of step %lld: %s; trying once more", (long long)step, error);
        free(error);
        error = save(c, m, step, all, trainer);
    }
    if (!error) {
        char *path = checkpoint_path(c->out, step);
        error = checkpoint_verify(path);
        free(path);
    }
    return error;
}

void checkpoint_check_finite(const Checkpoints *c, int64_t bad, const char *where)
{
    if (bad > 0 && world.rank != 0)
        comm_barrier();          /* rank 0 ends the job with the one line */
    if (bad > 0)
        die(EXIT_NONFINITE, "%lld weights are NaN or Inf, the first in %s: nothing is saved%s%s",
            (long long)bad, where, c->advice ? "; " : "", c->advice ? c->advice : "");
}

void checkpoint_check(Checkpoints *c, const Model *m, int64_t step)
{
    check_replicas(m, step);
    comm_expect(weights_seconds(m));
    checkpoint_know_base(c, m);
    comm_expect(0);
}

bool checkpoint_count(Checkpoints *c, int64_t step, char *error)
{
    if (!error) {
        c->failures = 0;
        return true;
    }
    c->failures++;
    if (c->failures >= 3)
        die(EXIT_IO, "%s; the third save in a row that failed", error);
    warn("checkpoint of step %lld not saved: %s; training goes on", (long long)step, error);
    free(c->why);
    c->why = error;
    return false;
}

bool checkpoint_save(Checkpoints *c, const Model *m, int64_t step, const cJSON *state,
                     const cJSON *trainer)
{
    char *error = NULL;
    const char *where;
    checkpoint_check(c, m, step);
    comm_expect(3 * weights_seconds(m));         /* two attempts, one verification */
    const int64_t bad = model_nonfinite(m, &where);
    checkpoint_check_finite(c, bad, where);
    if (parts_gather(m)) {
        cJSON *all = checkpoint_state(c, m, step, state);
        error = checkpoint_write(c, m, step, all, trainer);
        cJSON_Delete(all);
        parts_gathered();
    }
    comm_expect(0);
    if (world.rank != 0)
        return true;
    const bool saved = checkpoint_count(c, step, error);
    if (saved)
        checkpoint_remove_oldest(c, step, checkpoint_best_step(trainer));
    return saved;
}
