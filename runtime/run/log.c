/* log.c -- banner, lines of steps on standard error, history.jsonl, trainer_state.json.
 *
 * In:    sums of every step.  Out: records with the keys and roundings of transformers.
 * Keeps: history.jsonl has full precision, trainer_state.json the loss in 4 decimals. */
#define _GNU_SOURCE
#include "runtime/run/log.h"
#include "runtime/base.h"
#include "runtime/ranks/comm.h"
#include "runtime/device.h"
#include "runtime/files/json.h"
#include "runtime/run/progress.h"
#include "runtime/run/schedule.h"
#include "runtime/run/param_groups.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* LINE_MAX_BYTES: more is no record; LATE_MAX: lines that wait for room on a full disk. */
enum { RETRY_SECONDS = 5, LINE_MAX_BYTES = 1 << 16, LATE_MAX = 1 << 26 };

static double rounded(double x, double steps)
{
    return nearbyint(x * steps) / steps;
}

static void add_float(cJSON *o, const char *key, double x)
{
    if (isfinite(x))
        json_add_float(o, key, x);
    else
        cJSON_AddNullToObject(o, key);
}

static double epoch_at(const Log *l, int64_t step)
{
    return (double)step / (double)(l->per_epoch > 0 ? l->per_epoch : 1);
}

static void die_on(char *error)
{
    if (error)
        die(EXIT_IO, "%s", error);
}

/* A flat record as one line. */
static void write_line(FILE *to, const cJSON *record)
{
    char text[64];
    const char *between = "{";
    for (const cJSON *item = record->child; item; item = item->next, between = ", ") {
        fprintf(to, "%s\"%s\": ", between, item->string);
        if (cJSON_IsNull(item)) {
            fputs("null", to);
        } else if (cJSON_IsString(item)) {
            char *quoted = cJSON_PrintUnformatted(item);
            fputs(quoted ? quoted : "null", to);
            free(quoted);
        } else if (item->type & JSON_FLOAT) {
            json_float_text(item->valuedouble, text);
            fputs(text, to);
        } else {
            fprintf(to, "%.0f", item->valuedouble);
        }
    }
    fputs("}\n", to);
}

/* For records behind those that are whole; what a failed write left goes. NULL, or a malloc'ed message. */
static char *open_history(Log *l)
{
    char *error = NULL;
    l->history = file_open(l->path, O_WRONLY | O_CREAT | O_APPEND, &error);
    if (l->history >= 0 && TEMP_FAILURE_RETRY(ftruncate(l->history, l->whole))) {
        error = format("%s: truncate: %s", l->path, strerror(errno));
        close(l->history);
        l->history = -1;
    }
    return error;
}

/* The lines that wait go into the file. On failure false, errno, and the file is closed. */
static bool write_late(Log *l)
{
    if (file_write(l->history, l->late, l->nlate)) {
        l->whole += (int64_t)l->nlate;
        free(l->late);
        l->late = NULL, l->nlate = 0;
        return true;
    }
    const int why = errno;
    close(l->history);
    l->history = -1;
    l->tried = clock_seconds();
    errno = why;
    return false;
}

static void catch_up(Log *l)
{
    l->tried = clock_seconds();
    char *error = open_history(l);
    if (!error && write_late(l))
        note("history.jsonl has every record again");
    free(error);
}

/* A disk may be full for a while: training goes on, the lines wait in memory. */
static void write_record(Log *l, const cJSON *record)
{
    size_t n = 0;
    char *line = NULL, *longer = NULL;
    FILE *to = open_memstream(&line, &n);
    if (to) {
        write_line(to, record);
        fclose(to);
    }
    if (line && l->nlate + n <= LATE_MAX)
        longer = realloc(l->late, l->nlate + n);
    if (longer) {
        memcpy(longer + l->nlate, line, n);
        l->late = longer;
        l->nlate += n;
    }
    free(line);
    if (l->history >= 0 && !write_late(l))
        warn("history.jsonl: write: %s; training goes on, later records try again", strerror(errno));
    else if (l->history < 0 && clock_seconds() - l->tried > RETRY_SECONDS)
        catch_up(l);
}

/* Seconds since 1970, to the millisecond. */
static double wall_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return rounded((double)t.tv_sec + 1e-9 * (double)t.tv_nsec, 1e3);
}

/* since: clock_seconds(). */
static double a_second(double work, double since)
{
    double seconds = clock_seconds() - since;
    return work / (seconds > 1e-9 ? seconds : 1e-9);
}

/* The newest record; takes it, and the oldest goes. */
static void remember(Log *l, cJSON *record)
{
    const cJSON *loss = json_get(record, l->metrics->step[0].name), *step = json_get(record, "step");
    if (l->losses && cJSON_IsNumber(loss) && cJSON_IsNumber(step))
        l->losses[l->nlosses++ % LOG_LOSSES] = (LogLoss){loss->valuedouble, step->valuedouble};
    cJSON_AddItemToArray(l->records, record);
    if (++l->nrecords > LOG_RECORDS) {
        cJSON_DeleteItemFromArray(l->records, 0);
        l->nrecords--;
    }
}

static void keep(Log *l, cJSON *record, int64_t step)
{
    add_float(record, "time", wall_clock());
    add_float(record, "epoch", epoch_at(l, step));
    cJSON_AddNumberToObject(record, "step", (double)step);
    remember(l, record);
    write_record(l, record);
    events_add(&l->events, record, l->nlate == 0);
}

/* A step's metric at its record: a mean over the steps since the last that had it, NAN: none of them
 * had; a total of the run. */
static double step_value(const Log *l, int i)
{
    const Metric *m = &l->metrics->step[i];
    if (m->kind == METRIC_COUNT)
        return l->all[i];
    return l->known[i] ? l->sum[i] / (double)l->known[i] : NAN;
}

/* What a step minimises it always has. */
static bool step_has(const Log *l, int i, const LogStep *s)
{
    const Metric *m = &l->metrics->step[i];
    return i == 0 || m->kind == METRIC_COUNT || s->sum[m->per] > 0;
}

/* The line of a step, where it is due. */
static void progress(Log *l, int64_t step, const LogStep *s, bool record)
{
    double now = clock_seconds();
    bool draws = note_terminal() && (now - l->drawn >= 0.1 || step == l->total);
    if (!draws && !record)
        return;
    l->drawn = draws ? now : l->drawn;
    const Metrics *m = l->metrics;
    double value[METRICS_MAX];
    for (int i = 0; i < m->nstep; i++)
        value[i] = step_value(l, i);
    char *texts = metrics_text(m->step, m->nstep, value, "  ");
    DeviceUse gpu;
    const Progress p = {
        .step = step, .total = l->total, .metrics = texts + strspn(texts, " "),
        .grad_norm = s->grad_norm, .lr = s->lr, .rate = a_second(l->work_mark, l->mark),
        .unit = m->step[m->step_work].name,
        .left = (now - l->start) / (double)(step - l->first) * (double)(l->total - step),
        .gpu = device_seen(&gpu) ? &gpu : NULL};
    if (record) {
        char *line = progress_line(&p);
        (note_terminal() ? note_there : note)("%s", line);
        free(line);
    }
    if (draws) {
        char *row = progress_row(&p, progress_columns());
        note_foot(row);
        free(row);
    }
    free(texts);
}

/* One line of the file: a record to keep. */
static bool wanted(const Log *l, const cJSON *record, int64_t resumed)
{
    const cJSON *step = json_get(record, "step");
    return cJSON_IsNumber(step) && step->valuedouble <= (double)resumed
        && (resumed >= l->total || !json_get(record, "train_runtime"));
}

/* The next line, of at most LINE_MAX_BYTES, as a record; its bytes. NULL and *bytes 0: the end; NULL: no record. */
static cJSON *read_record(FILE *from, char *line, size_t *bytes)
{
    char *error = NULL;
    *bytes = fgets(line, LINE_MAX_BYTES, from) ? strlen(line) : 0;
    cJSON *record = *bytes && line[*bytes - 1] == '\n' ? json_parse(line, *bytes - 1, &error) : NULL;
    free(error);
    return record;
}

/* The lines of `from` that are records to keep: remembered, and into `to`, NULL: nowhere. Whether these are all. Those
 * that the checkpoint has as late ones are not kept: the file got them after the save, and gets them again. */
static bool take_back(Log *l, FILE *from, FILE *to, const char *path, int64_t resumed)
{
    char *line = malloc(LINE_MAX_BYTES);
    size_t bytes;
    int64_t at = 0;
    cJSON *record;
    l->whole = 0;
    while (line && (!l->nlate || at < l->late_from) && ((record = read_record(from, line, &bytes)) || bytes)) {
        if (!record && !to)
            warn("%s: byte %lld: not a record; the rest is dropped", path, (long long)at);
        at += (int64_t)bytes;
        if (!record)
            break;
        if (!wanted(l, record, resumed)) {
            cJSON_Delete(record);
            continue;
        }
        l->whole += (int64_t)bytes;
        if (to)
            fwrite(line, 1, bytes, to);
        if (to)
            cJSON_Delete(record);
        else
            remember(l, record);
    }
    free(line);
    return l->whole == at && at > 0;
}

/* The file becomes that with the records to keep alone: temporary file, rename. NULL, or a malloc'ed message. */
static char *rewrite(Log *l, FILE *from, const char *path, int64_t resumed)
{
    char *temporary = format("%s.tmp", path), *error = NULL;
    int fd = file_create(temporary, &error);
    if (fd >= 0) {
        FILE *to = fdopen(fd, "w");
        if (to && from) {
            rewind(from);
            take_back(l, from, to, path, resumed);
        }
        bool good = to && !ferror(to) && fflush(to) == 0 && fsync(fd) == 0;
        good = (to ? fclose(to) : close(fd)) == 0 && good && rename(temporary, path) == 0;
        if (!good) {
            error = format("%s: write: %s", path, strerror(errno));
            unlink(temporary);
        }
    }
    free(temporary);
    return error;
}

/* Reads the records up to `resumed` back and rewrites the file when it holds others. */
static void read_back(Log *l, int64_t resumed)
{
    const char *path = l->path;
    char *error = NULL;
    const int fd = file_open(path, O_RDONLY, &error);
    FILE *from = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd < 0 && (errno == ELOOP || errno == ENXIO))
        die_on(error);               /* a link or a FIFO: not ours to replace */
    if (!from)
        warn("%s: this run's history starts at step %lld", error ? error : path, (long long)resumed);
    if (!from || !take_back(l, from, NULL, path, resumed))
        die_on(rewrite(l, from, path, resumed));
    if (from)
        fclose(from);
    free(error);
}

/* Writes and remembers the records that were late when the checkpoint was saved; none where the history is not the one
 * that they are missing from. */
static void add_late(Log *l)
{
    if (l->whole != l->late_from) {
        free(l->late);
        l->late = NULL, l->nlate = 0;
    }
    for (size_t at = 0, n; at < l->nlate; at += n) {
        const char *line = l->late + at, *end = memchr(line, '\n', l->nlate - at);
        char *error = NULL;
        n = end ? (size_t)(end - line) + 1 : l->nlate - at;
        cJSON *record = json_parse(line, n, &error);
        if (record)
            remember(l, record);
        free(error);
    }
    if (l->nlate && !write_late(l))
        warn("history.jsonl: write: %s; training goes on, later records try again", strerror(errno));
}

/* " in text.txt", " in a.jsonl and 2 more"; malloc'ed. paths: as they were typed, "": only their number is known. */
static char *banner_files(const Data *d, const char *paths)
{
    const size_t first = strcspn(paths, ",");
    int more = 0;
    for (const char *c = paths + first; *c; c++)
        more += *c == ',';
    if (!d->nfiles)
        return NULL;
    if (!*paths)
        return format(" in %d file%s", d->nfiles, d->nfiles == 1 ? "" : "s");
    char *others = more ? format(" and %d more", more) : format("%s", ""),
         *text = format(" in %.*s%s", (int)first, paths, others);
    free(others);
    return text;
}

/* most: batches of a rank, of an evaluation, that count; else 0 */
static void banner_data(const char *what, const Data *d, const char *paths, int64_t most)
{
    if (!d)
        return;
    char *documents = d->bins.n ? format("%lld documents, ", (long long)d->bins.first[d->n]) : NULL;
    int64_t steps = data_steps_per_epoch(d);
    bool some = d->eval && most > 0 && most < steps;
    char *part = some ? format("%lld of ", (long long)most) : NULL;
    char *files = banner_files(d, paths);
    note("  %-10s %lld samples of %lld %s (%s%s)%s, %s%lld %s", what, (long long)d->n,
         (long long)d->T, files ? "tokens" : "places", documents ? documents : "", d->kind,
         files ? files : "", part ? part : "", (long long)steps,
         d->eval ? "batches a rank" : "steps an epoch");
    free(files);
    free(documents);
    free(part);
}

/* The files that an epoch has shares of, and how often each of their samples comes in the whole run. */
static void banner_sources(const Banner *b)
{
    const Data *d = b->train;
    const char *name = b->flags->data;
    for (int k = 0; d && k < d->nsources; k++, name += strcspn(name, ",")) {
        const DataSource *s = &d->source[k];
        name += strspn(name, ",");
        const double passes = s->n ? (double)s->drawn / (double)s->n : 0,
                     epochs = (double)b->total / (double)data_steps_per_epoch(d);
        char *source = format("source %d", k + 1);
        note("  %-10s %.*s: weight %g, %lld of the samples of an epoch, from its %lld: %.3g passes an epoch, "
             "%.3g in all",
             source, (int)strcspn(name, ","), name, s->weight, (long long)s->drawn, (long long)s->n, passes,
             passes * epochs);
        free(source);
    }
}

/* Of the line `name=value` of model_fields the value, strings and lists without their marks; "" when
 * there is none. malloc'ed. */
static char *field_text(const Model *m, const char *name)
{
    size_t n = strlen(name), k = 0;
    const char *line = m->model_fields;
    while (line && !(strncmp(line, name, n) == 0 && line[n] == '=')) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    char *text = format("%.*s", line ? (int)strcspn(line + n + 1, "\n") : 0, line ? line + n + 1 : "");
    for (const char *c = text; *c; c++)
        if (!strchr("{}\"", *c))
            text[k++] = *c;
    text[k] = '\0';
    return text;
}

static void banner_lora(const Model *m)
{
    char *rank = field_text(m, "lora.rank"), *alpha = field_text(m, "lora.alpha"),
         *targets = field_text(m, "lora.targets"), *whole = field_text(m, "lora.modules_to_save");
    note("  %-10s rank %s, alpha %s%s, targets %s%s%s", "lora", rank, alpha,
         strstr(m->model_fields, "lora.rslora=true") ? " (rslora)" : "", targets,
         *whole ? ", whole: " : "", whole);
    free(rank), free(alpha), free(targets), free(whole);
}

/* " = 5e-06 x 2, --lr-scale linear of 2 ranks" */
static char *banner_scaled(const Banner *b)
{
    const Flags *f = b->flags;
    if (strcmp(f->lr_scale, "none") == 0)
        return format("%s", "");
    return format(" = %g x %g, --lr-scale %s of %s%lld rank%s", f->lr,
                  schedule_scaled(f->lr_scale, 1, b->lr_ranks), f->lr_scale,
                  b->lr_ranks == b->model->ranks ? "" : "the run's first ",
                  (long long)b->lr_ranks, b->lr_ranks == 1 ? "" : "s");
}

static void banner_settings(void)
{
    char *all = format("%s", "");
    const char *setting;
    bool chosen;
    for (int i = 0; (setting = comm_setting(i, &chosen)); i++)
        if (chosen) {
            char *longer = format("%s%s%s", all, *all ? " " : "", setting);
            free(all);
            all = longer;
        }
    if (*all)
        note("  %-10s %s: the last bits of sums over ranks depend on this environment", "nccl", all);
    free(all);
}

void log_banner(const Banner *b)
{
    const Model *m = b->model;
    const Flags *f = b->flags;
    cpu_set_t cpus;
    int ncpus = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 0;
    bool cpu = strcmp(device_name(), "CPU") == 0;
    note("%s  %.12s  (%s, %s, %s)", m->recipe, m->hash, m->objective, m->family, m->generator);
    if (m->overrides)
        note("  %-10s %s", "changed by", m->overrides);
    char *gpus = cpu ? format("%s", "") : format(" and %s, %d GPU%s visible,", device_name(), device_visible(),
                                                 device_visible() == 1 ? "" : "s");
    note("  %-10s %d rank%s x %d thread%s on %d CPU%s%s of %s (launcher %s, %s %s)", m->target,
         world.size, world.size == 1 ? "" : "s", b->threads, b->threads == 1 ? "" : "s", ncpus,
         ncpus == 1 ? "" : "s", gpus, world.host,
         comm_launcher(), cpu ? "MPI" : "NCCL", comm_library());
    free(gpus);
    banner_settings();
    char *vocab = field_text(m, "model.vocab");
    note("  %-10s %s, %lld parameters, %lld trained%s%s, %.3f GiB planned a rank", "model",
         m->precision, (long long)m->parameters, (long long)m->trained, *vocab ? ", vocabulary of " : "", vocab,
         (double)m->planned_bytes / (1 << 30));
    free(vocab);
    if (m->adapter_json)
        banner_lora(m);
    note("  %-10s %s", "weights", b->weights);
    note("  %-10s %lld x %lld accumulated x %lld rank%s = %lld samples a step", "batch",
         (long long)m->micro, (long long)m->accum, (long long)m->ranks, m->ranks == 1 ? "" : "s",
         (long long)(m->micro * m->accum * m->ranks));
    char *scaled = banner_scaled(b);
    note("  %-10s %g%s (%s), weight decay %g, clip %g, seed %lld", "rate",
         schedule_scaled(f->lr_scale, f->lr, b->lr_ranks), scaled, f->schedule, f->weight_decay,
         f->clip, (long long)f->seed);
    free(scaled);
    if (b->train)
        note("  %-10s %lld step%s, %.4g epochs", "length", (long long)b->total, b->total == 1 ? "" : "s",
             (double)b->total / (double)data_steps_per_epoch(b->train));
    banner_data("data", b->train, f->data, 0);
    banner_sources(b);
    banner_data("validation", b->eval, *f->eval_data ? f->eval_data : f->data,
                b->eval ? data_eval_batches(b->eval, m, f->eval_batches) : 0);
    note("  %-10s %s", "run folder", f->out);
}

void log_open(Log *l, const char *out, const Model *m, const Flags *f, const Metrics *of,
              int64_t total, int64_t per_epoch, int64_t resumed)
{
    l->model = m;
    l->flags = f;
    l->metrics = of;
    l->total = total;
    l->per_epoch = per_epoch;
    l->records = cJSON_CreateArray();
    l->start = l->mark = l->epoch = clock_seconds();
    l->first = resumed;
    l->work_first = l->all[of->step_work];
    l->history = -1;
    if (world.rank != 0)
        return;
    l->path = format("%s/history.jsonl", out);
    l->losses = calloc(LOG_LOSSES, sizeof *l->losses);
    if (resumed > 0)
        read_back(l, resumed);
    die_on(open_history(l));
    if (l->nlate)
        add_late(l);
}

void log_events(Log *l, const char *name, int argc, char **argv)
{
    if (world.rank == 0)
        events_open(&l->events, name, l->model, l->flags, l->metrics, l->records, argc, argv);
}

/* "eval_loss", for instance, into a record. */
static void add_named(cJSON *record, const char *form, const char *name, double x)
{
    char *key = format(form, name);
    add_float(record, key, x);
    free(key);
}

static void add_count(cJSON *record, const char *form, const char *name, double x)
{
    char *key = format(form, name);
    cJSON_AddNumberToObject(record, key, x);
    free(key);
}

static cJSON *step_record(const Log *l, const LogStep *s)
{
    const Metrics *m = l->metrics;
    cJSON *r = cJSON_CreateObject();
    for (int i = 0; i < m->nstep; i++)
        if (m->step[i].tag && m->step[i].kind != METRIC_COUNT)
            add_float(r, m->step[i].name, step_value(l, i));
    add_float(r, "grad_norm", s->grad_norm);
    add_float(r, "learning_rate", s->lr);
    param_groups_record(r);
    for (int i = 0; i < m->nstep; i++)
        if (m->step[i].tag && m->step[i].kind == METRIC_COUNT)
            add_count(r, "num_%s", m->step[i].name, l->all[i]);
    for (int k = 0; s->train && k < s->train->nsources; k++) {
        char *number = format("%d", k + 1);
        add_count(r, "drawn_%s", number, (double)s->train->source[k].taken);
        free(number);
    }
    add_named(r, "%s_per_second", m->step[m->step_work].name,
              rounded(a_second(l->work_mark, l->mark), 10));
    return r;
}

void log_step(Log *l, int64_t step, const LogStep *s)
{
    const Metrics *m = l->metrics;
    for (int i = 0; i < m->nstep; i++)
        if (step_has(l, i, s)) {
            l->sum[i] += s->value[i];
            l->all[i] += s->value[i];
            l->known[i]++;
        }
    l->steps++;
    l->steps_all++;
    l->work_mark += s->value[m->step_work];
    bool due = step % l->flags->log_every == 0;
    if (due)
        device_watch();
    if (world.rank == 0) {
        progress(l, step, s, due);
        if (due)
            keep(l, step_record(l, s), step);
    }
    if (due) {
        l->mark = clock_seconds();
        l->work_mark = 0;
        memset(l->sum, 0, sizeof l->sum);
        memset(l->known, 0, sizeof l->known);
        l->steps = 0;
    }
}

void log_pause(Log *l, double seconds)
{
    l->mark += seconds;
}

/* What is kept of a validation. */
static cJSON *eval_record(const Metrics *m, const LogEval *e)
{
    cJSON *r = cJSON_CreateObject();
    for (int i = 0; i < m->neval; i++)
        if (m->eval[i].tag)
            add_named(r, "eval_%s", m->eval[i].name, e->value[i]);
    return r;
}

void log_eval_line(FILE *to, const Metrics *of, const LogEval *e)
{
    cJSON *r = eval_record(of, e);
    cJSON_AddNumberToObject(r, "eval_samples", e->value[of->samples]);
    write_line(to, r);
    cJSON_Delete(r);
}

void log_eval(Log *l, int64_t step, const LogEval *e)
{
    log_pause(l, e->seconds);
    if (world.rank != 0)
        return;
    const Metrics *m = l->metrics;
    double seconds = e->seconds > 0.0 ? e->seconds : 1e-9, samples = e->value[m->samples];
    cJSON *r = eval_record(m, e);
    add_float(r, "eval_runtime", rounded(seconds, 1e4));
    add_float(r, "eval_samples_per_second", rounded(samples / seconds, 1e3));
    add_float(r, "eval_steps_per_second", rounded((double)e->batches / seconds, 1e3));
    add_named(r, "eval_%s_per_second", m->eval[m->eval_work].name,
              rounded(e->value[m->eval_work] / seconds, 10));
    keep(l, r, step);
    char *texts = metrics_text(m->eval, m->neval, e->value, "  ");
    note("step %lld/%lld%s  %.0f samples in %.1f s", (long long)step, (long long)l->total, texts,
         samples, e->seconds);
    free(texts);
}

void log_epoch(Log *l, int64_t step, double loss, double lr)
{
    double seconds = clock_seconds() - l->epoch;
    l->epoch += seconds;
    if (world.rank != 0)
        return;
    cJSON *r = cJSON_CreateObject();
    add_float(r, "epoch_loss", loss);
    add_float(r, "epoch_learning_rate", lr);
    add_float(r, "epoch_runtime", rounded(seconds, 1e4));
    keep(l, r, step);
}

void log_own(Log *l, int64_t step, cJSON *record)
{
    if (world.rank == 0)
        keep(l, record, step);
    else
        cJSON_Delete(record);
}

/* As transformers counts: 2 a parameter forward, 4 backward, for each token or whatever work is. */
static double flops(const Log *l)
{
    return 6.0 * (double)l->model->parameters * l->all[l->metrics->step_work];
}

void log_end(Log *l, int64_t step, const char *why)
{
    if (world.rank != 0)
        return;
    double seconds = clock_seconds() - l->start, steps = (double)(step - l->first);
    const Model *m = l->model;
    cJSON *r = cJSON_CreateObject();
    add_float(r, "train_runtime", rounded(seconds, 1e4));
    add_float(r, "train_samples_per_second",
              rounded(steps * (double)(m->micro * m->accum * m->ranks) / seconds, 1e3));
    add_float(r, "train_steps_per_second", rounded(steps / seconds, 1e3));
    const Metric *row = l->metrics->step;
    int work = l->metrics->step_work;
    add_named(r, "train_%s_per_second", row[work].name,
              rounded((l->all[work] - l->work_first) / seconds, 10));
    add_float(r, "total_flos", flops(l));
    double loss = l->steps_all ? l->all[0] / (double)l->steps_all : 0.0;
    add_named(r, "train_%s", row[0].name, loss);
    if (why)
        cJSON_AddStringToObject(r, "early_stop", why);
    keep(l, r, step);
    char text[32];
    progress_clock(text, seconds);
    if (l->first)
        note("%lld step%s more in %s; mean %s of all %lld steps of the run %.4f",
             (long long)(step - l->first), step - l->first == 1 ? "" : "s", text, row[0].name,
             (long long)l->steps_all, loss);
    else
        note("%lld steps in %s, mean %s %.4f", (long long)step, text, row[0].name, loss);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int64_t log_before_rise(const Log *l, double *loss)
{
    const int64_t first = l->nlosses > LOG_LOSSES ? l->nlosses - LOG_LOSSES : 0;
    const int n = (int)(l->nlosses - first);
    int least = 0, last = -1;
    double *value = calloc((size_t)n * 3 + 1, sizeof *value), *step = value + n, *change = step + n;
    if (!value)
        return -1;
    for (int i = 0; i < n; i++) {
        value[i] = l->losses[(first + i) % LOG_LOSSES].loss;
        step[i] = l->losses[(first + i) % LOG_LOSSES].step;
    }
    for (int i = 0; i < n; i++)
        least = value[i] < value[least] ? i : least;
    for (int i = 0; i < least; i++)
        change[i] = fabs(value[i + 1] - value[i]);
    if (least)
        qsort(change, (size_t)least, sizeof *change, ascending);
    for (int i = 0; i < n; i++)
        if (value[i] <= value[least] + 3 * (least ? change[least / 2] : 0))
            last = i;
    if (last >= 0)
        *loss = value[last];
    int64_t at = last < 0 ? -1 : (int64_t)step[last];
    free(value);
    return at;
}

void log_close(Log *l)
{
    if (world.rank == 0 && l->history < 0)
        catch_up(l);
    events_close(&l->events);
    note_foot(NULL);
    if (world.rank == 0 && !(l->history >= 0 && fsync(l->history) == 0 && close(l->history) == 0))
        die(EXIT_IO, "%s: write: %s", l->path, strerror(errno));
    l->history = -1;
    cJSON_Delete(l->records);
    free(l->losses), free(l->path);
    l->records = NULL, l->losses = NULL, l->path = NULL;
}

/* Of a count of steps over the run; 0: the objective does not count it. */
static double total_of(const Log *l, const char *name)
{
    for (int i = 0; i < l->metrics->nstep; i++)
        if (strcmp(l->metrics->step[i].name, name) == 0)
            return l->all[i];
    return 0;
}

cJSON *log_state(const Log *l, int64_t step)
{
    cJSON *s = cJSON_CreateObject(), *history = cJSON_Duplicate(l->records, true);
    /* what transformers does not log */
    const Metrics *m = l->metrics;
    static const char *const ours[] = { "%s_per_second", "eval_%s_per_second",
                                        "train_%s_per_second", "time", "early_stop" };
    enum { OURS = sizeof ours / sizeof *ours };
    char *key[OURS];
    for (int i = 0; i < OURS; i++)
        key[i] = format(ours[i], i == 1 ? m->eval[m->eval_work].name : m->step[m->step_work].name);
    for (cJSON *r = history->child; r; r = r->next) {
        for (int i = 0; i < OURS; i++)
            cJSON_DeleteItemFromObjectCaseSensitive(r, key[i]);
        cJSON *loss = json_get(r, "loss");
        if (cJSON_IsNumber(loss))
            loss->valuedouble = rounded(loss->valuedouble, 1e4);
    }
    for (int i = 0; i < OURS; i++)
        free(key[i]);
    cJSON_AddNullToObject(s, "best_metric");
    cJSON_AddNullToObject(s, "best_model_checkpoint");
    add_float(s, "epoch", epoch_at(l, step));
    cJSON_AddNumberToObject(s, "eval_steps", (double)flags_steps(l->flags->eval_every, l->per_epoch));
    cJSON_AddNumberToObject(s, "global_step", (double)step);
    cJSON_AddFalseToObject(s, "is_hyper_param_search");
    cJSON_AddTrueToObject(s, "is_local_process_zero");
    cJSON_AddTrueToObject(s, "is_world_process_zero");
    cJSON_AddItemToObject(s, "log_history", history);
    cJSON_AddNumberToObject(s, "logging_steps", (double)l->flags->log_every);
    cJSON_AddNumberToObject(s, "max_steps", (double)l->total);
    cJSON_AddNumberToObject(s, "num_input_tokens_seen", total_of(l, "tokens"));
    cJSON_AddNumberToObject(s, "num_train_epochs", ceil(epoch_at(l, l->total)));
    cJSON_AddNumberToObject(s, "save_steps", (double)flags_steps(l->flags->save_every, l->per_epoch));
    cJSON_AddItemToObject(s, "stateful_callbacks", cJSON_CreateObject());
    add_float(s, "total_flos", flops(l));
    cJSON_AddNumberToObject(s, "train_batch_size", (double)l->model->micro);
    cJSON_AddNullToObject(s, "trial_name");
    cJSON_AddNullToObject(s, "trial_params");
    return s;
}

/* Whether "log" of train_state.json holds a step's metric: as NAME the sum since the last record, as
 * NAME_all that of the run. Of counts only the run's. NAME_steps: of how many steps the former is,
 * where that are not all. */
static bool saved(const Metric *m, bool all)
{
    return m->tag && (all || m->kind != METRIC_COUNT);
}

void log_save(Log *l, cJSON *train_state)
{
    cJSON *o = cJSON_AddObjectToObject(train_state, "log");
    if (l->nlate && l->history < 0)
        catch_up(l);
    if (l->nlate) {
        char *late = format("%.*s", (int)l->nlate, l->late);
        cJSON_AddStringToObject(o, "late", late);
        cJSON_AddNumberToObject(o, "late_from", (double)l->whole);
        free(late);
    }
    for (int i = 0; i < 2 * l->metrics->nstep; i++) {
        const Metric *m = &l->metrics->step[i / 2];
        if (saved(m, i % 2))
            (m->kind == METRIC_COUNT ? add_count : add_named)(
                o, i % 2 ? "%s_all" : "%s", m->name, i % 2 ? l->all[i / 2] : l->sum[i / 2]);
        if (saved(m, i % 2) && !(i % 2) && l->known[i / 2] != l->steps)
            add_count(o, "%s_steps", m->name, (double)l->known[i / 2]);
    }
    cJSON_AddNumberToObject(o, "steps", (double)l->steps);
    cJSON_AddNumberToObject(o, "steps_all", (double)l->steps_all);
}

/* A member of "log"; whole: an integer from 0. NULL, or what is wrong with it. */
static char *load(const cJSON *train_state, const char *form, const char *name, bool whole,
                  double *x)
{
    char *key = format(form, name), *error = NULL;
    const cJSON *item = json_get(json_get(train_state, "log"), key);
    double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    if (!cJSON_IsNumber(item) || (whole && !(v >= 0 && v <= 9e15 && v == floor(v))))
        error = format("train_state.json: log.%s: want %s", key, whole ? "an integer" : "a number");
    *x = v;
    free(key);
    return error;
}

char *log_load(Log *l, const Metrics *of, const cJSON *train_state)
{
    char *error = NULL;
    double steps, steps_all;
    for (int i = 0; i < 2 * of->nstep && !error; i++) {
        const Metric *m = &of->step[i / 2];
        if (saved(m, i % 2))
            error = load(train_state, i % 2 ? "%s_all" : "%s", m->name, m->kind == METRIC_COUNT,
                         i % 2 ? &l->all[i / 2] : &l->sum[i / 2]);
    }
    if (error || (error = load(train_state, "%s", "steps", true, &steps)) ||
        (error = load(train_state, "%s", "steps_all", true, &steps_all)))
        return error;
    l->steps = (int64_t)steps;
    l->steps_all = (int64_t)steps_all;
    const char *late = cJSON_GetStringValue(json_get(json_get(train_state, "log"), "late"));
    double from = 0;
    if (late && (error = load(train_state, "%s", "late_from", true, &from)))
        return error;
    if (late && world.rank == 0) {
        l->late = format("%s", late);
        l->nlate = strlen(late);
        l->late_from = (int64_t)from;
    }
    for (int i = 0; i < of->nstep && !error; i++) {
        double known = steps;
        char *key = format("%s_steps", of->step[i].name);
        if (json_get(json_get(train_state, "log"), key))
            error = load(train_state, "%s", key, true, &known);
        l->known[i] = (int64_t)known;
        free(key);
    }
    return error;
}
