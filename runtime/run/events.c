/* events.c -- TensorBoard event files.
 *
 * Method: each start writes a file whose name sorts after those of earlier starts; it begins with a
 *         session event that discards their later steps, so that TensorBoard also shows a resumed
 *         run correctly. A failed write ends the file; the next one contains all records of
 *         history.jsonl. */
#define _GNU_SOURCE
#include "runtime/run/events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/files/tfevents.h"

enum { RETRY_SECONDS = 5, SAMPLES_MAX = 1 << 28 };
static const char ours[] = "events.out.tfevents.*.diecast";

static double number(const cJSON *record, const char *key)
{
    const cJSON *item = json_get(record, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static double time_of(const Events *e, const cJSON *record)
{
    const double time = number(record, "time");
    return isnan(time) ? e->start_time : time;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Updates the best validation with this record, if it has the metric; only of trained weights, as
 * for --patience. */
static void add_best(Events *e, const cJSON *record, TfBytes *summary)
{
    const Metric *decides = &e->metrics->eval[e->metrics->decides];
    char *key = format("eval_%s", decides->name), *best = format("best_%s", decides->name);
    const double value = number(record, key);
    if (!isnan(value) && number(record, "step") > 0) {
        char *tag = metrics_tag(e->metrics, best);
        if (isnan(e->best) || (decides->more ? value > e->best : value < e->best))
            e->best = value;
        tf_scalar(summary, tag, e->best);
        free(tag);
    }
    free(key), free(best);
}

/* Skips null, which means no value; for the loss of a step it means NaN or Inf. */
static bool is_value(const Events *e, const cJSON *item, const cJSON *record)
{
    const char *key = item->string;
    if (!strcmp(key, "step") || !strcmp(key, "time"))
        return false;
    if (!strcmp(key, "epoch"))           /* once a step */
        return json_get(record, "learning_rate") != NULL;
    return cJSON_IsNumber(item) || (cJSON_IsNull(item) && !strcmp(key, e->metrics->step[0].name));
}

static void add_record(Events *e, const cJSON *record, TfBytes *file)
{
    TfBytes summary = {0};
    for (const cJSON *item = record->child; item; item = item->next) {
        char *tag = metrics_tag(e->metrics, item->string);
        if (is_value(e, item, record))
            tf_scalar(&summary, tag, cJSON_IsNumber(item) ? item->valuedouble : NAN);
        else if (cJSON_IsString(item))
            tf_text(&summary, tag, item->valuestring);
        free(tag);
    }
    add_best(e, record, &summary);
    if (json_get(record, "train_runtime"))
        tf_session_end(&summary, time_of(e, record));
    tf_summary(file, time_of(e, record), (int64_t)number(record, "step"), &summary);
}

/* Adds the sample texts up to that record's step. */
static void add_samples(Events *e, const cJSON *samples, const cJSON *record, TfBytes *file)
{
    for (const cJSON *s = samples ? samples->child : NULL; s; s = s->next) {
        const double step = number(s, "step");
        const char *prompt = cJSON_GetStringValue(json_get(s, "prompt")),
                   *answer = cJSON_GetStringValue(json_get(s, "answer"));
        if (!(step > e->sampled && step <= number(record, "step")) || !prompt || !answer)
            continue;
        TfBytes summary = {0};
        char *text = format("**%s**%s", prompt, answer);
        tf_text(&summary, "sample", text);
        tf_summary(file, time_of(e, record), (int64_t)step, &summary);
        e->sampled = step;
        free(text);
    }
}

/* Returns the lines of OUT/samples.jsonl as an array; NULL: none. */
static cJSON *read_samples(const Events *e)
{
    char *path = folder_join(e->flags->out, "samples.jsonl"), *error = NULL;
    size_t n = 0;
    char *text = file_named(path) ? file_read_nofollow(path, SAMPLES_MAX, &n, &error) : NULL;
    cJSON *all = text ? cJSON_CreateArray() : NULL;
    for (char *at = text, *line; at && (line = strsep(&at, "\n"));) {
        cJSON *row = *line ? json_parse(line, strlen(line), &error) : NULL;
        if (row)
            cJSON_AddItemToArray(all, row);
    }
    free(path), free(text), free(error);
    return all;
}

/* ---- what a start says ----------------------------------------------------------------------- */

static void append(char **text, char *more)
{
    char *longer = format("%s%s", *text, more);
    free(*text), free(more);
    *text = longer;
}

/* Adds the settings: the recipe's, then flags that are part of the training or were given. */
static void add_settings(const Events *e, TfBytes *settings, char **recipe, char **flags)
{
    const Model *m = e->model;
    const struct { const char *name; int64_t value;
    } counts[] = {{"batch.micro", m->micro},
                  {"batch.accum", m->accum},
                  {"gpus", m->ranks},
                  {"parameters", m->parameters},
                  {"trained", m->trained}};
    *recipe = format("%s, %s, made by %s%s%s\n\n", m->recipe, m->hash, m->generator,
                     m->overrides ? ", changed by " : "", m->overrides ? m->overrides : "");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        char *text = format("%" PRId64, counts[i].value);
        tf_setting(settings, counts[i].name, text);
        append(recipe, format("    %s=%s\n", counts[i].name, text));
        free(text);
    }
    tf_setting(settings, "target", m->target);
    append(recipe, format("    target=%s\n", m->target));
    for (const char *line = m->model_fields; line && *line;
         line += strcspn(line, "\n"), line += *line == '\n') {
        const int name = (int)strcspn(line, "="), all = (int)strcspn(line, "\n");
        const bool quoted = line[name + 1] == '"' && all > name + 2;
        char *key = format("%.*s", name, line),
             *value = format("%.*s", all - name - 1 - 2 * quoted, line + name + 1 + quoted);
        tf_setting(settings, key, value);
        append(recipe, format("    %.*s\n", all, line));
        free(key), free(value);
    }
    *flags = format("| flag | value |\n|---|---|\n");
    for (int i = 0; i < FLAG_COUNT; i++) {
        const bool tells = flags_has(i) && (flags_sticky(i) || e->flags->given[i]);
        char *value = tells ? flags_text(e->flags, i) : NULL;
        if (value && *value) {
            if (flags_sticky(i))
                tf_setting(settings, flags_name(i), value);
            char *spelt = flags_spelt(i);
            append(flags, format("| %s`%s`%s | `%s` |\n", e->flags->given[i] ? "**" : "", spelt,
                                 e->flags->given[i] ? "**" : "", value));
            free(spelt);
        }
        free(value);
    }
}

/* start_time: time of the first record, or of this start. */
static void add_start(Events *e, TfBytes *file, double start_time)
{
    const int64_t step = (int64_t)e->step;
    TfBytes settings = {0}, summary = {0};
    char *recipe, *flags;
    tf_version(file, e->start_time);
    tf_begin(file, e->start_time, 0);
    add_settings(e, &settings, &recipe, &flags);
    tf_session_start(&summary, &settings, start_time);
    tf_text(&summary, "recipe", recipe);
    tf_text(&summary, "flags", flags);
    tf_text(&summary, "command", e->command);
    tf_summary(file, e->start_time, step, &summary);
    free(recipe), free(flags);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Removes the files of earlier starts. */
static void remove_others(const Events *e)
{
    DIR *dir = opendir(e->folder);
    const char *current = strrchr(e->path, '/') + 1;
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (fnmatch(ours, d->d_name, 0) == 0 && strcmp(d->d_name, current))
            unlinkat(dirfd(dir), d->d_name, 0);
    if (dir)
        closedir(dir);
}

/* Encodes the start and every record of OUT/history.jsonl; writes them in pieces, and leaves the
 * last ones in *file. */
static bool add_history(Events *e, int fd, TfBytes *file)
{
    enum { LINE = 1 << 16, MANY = 1 << 20 };
    char *path = folder_join(e->flags->out, "history.jsonl"), *line = malloc(LINE), *error = NULL;
    const int from = file_open(path, O_RDONLY, &error);
    FILE *history = from < 0 ? NULL : fdopen(from, "r");
    cJSON *samples = read_samples(e), *r;
    bool begun = false, good = true;
    int why = 0;
    e->best = NAN;
    e->sampled = -1;
    while (good && history && line && fgets(line, LINE, history)) {
        char *wrong = NULL;
        if (!(r = json_parse(line, strlen(line), &wrong))) {
            free(wrong);
            break;
        }
        if (!begun)
            add_start(e, file, time_of(e, r));
        begun = true;
        add_record(e, r, file);
        add_samples(e, samples, r, file);
        cJSON_Delete(r);
        if (file->n > MANY) {
            good = file_write(fd, file->data, file->n);
            why = errno;
            file->n = 0;
        }
    }
    if (!begun)
        add_start(e, file, e->start_time);
    if (history)
        fclose(history);
    cJSON_Delete(samples);
    free(path), free(line), free(error);
    errno = why;
    return good;
}

/* Writes a complete file: a temporary one, which TensorBoard ignores, then a rename. Returns NULL,
 * or a malloc'ed message with errno set. */
static char *write_all(Events *e)
{
    TfBytes file = {0};
    char *temporary = folder_join(e->folder, "new"), *error = NULL;
    const int fd = file_create(temporary, &error);
    int why = errno;
    bool good = fd >= 0 && add_history(e, fd, &file);
    if (fd >= 0 &&
        !(good && file_write(fd, file.data, file.n) && rename(temporary, e->path) == 0)) {
        why = errno;
        error = format("%s: write: %s", e->path, strerror(why));
        close(fd);
        unlink(temporary);
    } else if (fd >= 0) {
        e->fd = fd;
        remove_others(e);
    }
    free(file.data), free(temporary);
    errno = why;
    return error;
}

/* a full disk does not stop the run, at the start either */
static void fails(Events *e, const char *error)
{
    warn("%s; training goes on, later records try again", error);
    e->tried = clock_seconds();
}

static void catch_up(Events *e)
{
    e->tried = clock_seconds();
    char *error = write_all(e);
    if (!error)
        note("runs/ is complete again");
    free(error);
}

/* Frees the bytes. */
static void add(Events *e, TfBytes *bytes)
{
    if (!file_write(e->fd, bytes->data, bytes->n)) {
        char *error = format("%s: write: %s", e->path, strerror(errno));
        fails(e, error);
        free(error);
        close(e->fd);
        e->fd = -1;
    }
    free(bytes->data);
}

void events_open(Events *e, const char *name, const Model *m, const Flags *f, const Metrics *of,
                 const cJSON *records, int argc, char **argv)
{
    const time_t now = time(NULL);
    const int n = cJSON_GetArraySize(records);
    const double step = n ? number(cJSON_GetArrayItem(records, n - 1), "step") : 0;
    char *leaf = format("%010lld", (long long)now), *error = NULL;
    char *file = format("events.out.tfevents.%s.%s.%ld.diecast", leaf, world.host, (long)getpid());
    *e = (Events){.model = m, .flags = f, .metrics = of, .records = records, .fd = -1,
                  .command = format("%s", ""), .start_time = (double)now, .step = step};
    for (int i = 0; i < argc; i++)
        append(&e->command, format("%s%s", i ? " " : "    ", argv[i]));
    e->folder = format("%s/runs/%s", f->out, name);
    e->path = folder_join(e->folder, file);
    if ((error = folder_make_below(f->out, e->path)) || (error = write_all(e))) {
        if (errno != ENOSPC && errno != EDQUOT)
            die(EXIT_IO, "%s; --tensorboard false writes no events", error);
        fails(e, error);
    }
    free(error), free(file), free(leaf);
}

void events_add(Events *e, const cJSON *record, bool complete)
{
    TfBytes bytes = {0};
    if (!e->path)
        return;
    if (e->fd < 0) {
        if (complete && clock_seconds() - e->tried > RETRY_SECONDS)
            catch_up(e);
        return;
    }
    add_record(e, record, &bytes);
    add(e, &bytes);
}

void events_samples(Events *e)
{
    const int n = e->path && e->fd >= 0 ? cJSON_GetArraySize(e->records) : 0;
    cJSON *samples = n ? read_samples(e) : NULL;
    TfBytes bytes = {0};
    if (samples)
        add_samples(e, samples, cJSON_GetArrayItem(e->records, n - 1), &bytes);
    if (bytes.n)
        add(e, &bytes);
    cJSON_Delete(samples);
}

void events_close(Events *e)
{
    if (!e->path)
        return;
    if (e->fd < 0)
        catch_up(e);
    if (e->fd < 0)
        warn("%s is incomplete: make room on the disk and repeat the command to rewrite it",
             e->path);
    if (e->fd >= 0 && (fsync(e->fd) | close(e->fd)))
        warn("%s: write: %s", e->path, strerror(errno));
    free(e->command), free(e->folder), free(e->path);
    *e = (Events){.fd = -1};
}
