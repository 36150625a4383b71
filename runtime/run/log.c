/* log.c -- progress lines, records of history.jsonl, trainer_state.json.
 *
 * In:    sums of every step.  Out: records with the keys and roundings of transformers.
 * Keeps: history.jsonl has full precision, trainer_state.json the loss in 4 decimals. */
#define _GNU_SOURCE
#include "runtime/run/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base.h"
#include "runtime/device.h"
#include "runtime/files/json.h"
#include "runtime/run/log_history.h"
#include "runtime/run/param_groups.h"
#include "runtime/run/progress.h"

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

/* Returns seconds since 1970, rounded to milliseconds. */
static double wall_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return rounded((double)t.tv_sec + 1e-9 * (double)t.tv_nsec, 1e3);
}

/* Returns work per second since clock_seconds() was `since`. */
static double a_second(double work, double since)
{
    double seconds = clock_seconds() - since;
    return work / (seconds > 1e-9 ? seconds : 1e-9);
}

static void keep(Log *l, cJSON *record, int64_t step)
{
    add_float(record, "time", wall_clock());
    add_float(record, "epoch", epoch_at(l, step));
    cJSON_AddNumberToObject(record, "step", (double)step);
    log_history_add(l, record);
    events_add(&l->events, record, l->nlate == 0);
}

/* Returns the recorded value of step metric i: a COUNT's total of the run; else the mean over the
 * steps since the last record that have it, NAN: none does. */
static double step_value(const Log *l, int i)
{
    const Metric *m = &l->metrics->step[i];
    if (m->kind == METRIC_COUNT)
        return l->all[i];
    return l->known[i] ? l->sum[i] / (double)l->known[i] : NAN;
}

/* True if step s has metric i; every step has the loss, i = 0, unless --nonfinite skipped it. */
static bool step_has(const Log *l, int i, const LogStep *s)
{
    const Metric *m = &l->metrics->step[i];
    return isfinite(s->value[i]) && (i == 0 || m->kind == METRIC_COUNT || s->sum[m->per] > 0);
}

/* Prints the line of a step if due: record: into the log; on a terminal: at most ten times a
 * second. */
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
    log_history_open(l, resumed);
}

void log_events(Log *l, const char *name, int argc, char **argv)
{
    REQUIRE(l->records);             /* log_open() was called */
    if (world.rank == 0)
        events_open(&l->events, name, l->model, l->flags, l->metrics, l->records, argc, argv);
}

/* Adds x under the key that `form` makes of name, e.g. "eval_%s". */
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
    l->steps_all += isfinite(s->value[0]);
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

/* Returns the metrics of a validation that are recorded. */
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
    log_history_line(to, r);
    cJSON_Delete(r);
}

void log_eval(Log *l, int64_t step, const LogEval *e)
{
    log_pause(l, e->seconds);
    if (world.rank != 0)
        return;
    const Metrics *m = l->metrics;
    const double seconds = e->seconds > 0.0 ? e->seconds : 1e-9, samples = e->value[m->samples],
                 steps = ceil(samples / (double)(l->model->micro * l->model->ranks));
    cJSON *r = eval_record(m, e);
    add_float(r, "eval_runtime", rounded(seconds, 1e4));
    add_float(r, "eval_samples_per_second", rounded(samples / seconds, 1e3));
    add_float(r, "eval_steps_per_second", rounded(steps / seconds, 1e3));
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

void log_record(Log *l, int64_t step, cJSON *record)
{
    if (world.rank == 0)
        keep(l, record, step);
    else
        cJSON_Delete(record);
}

/* Returns FLOPs by the rule of transformers: per parameter and unit of work (such as a token) 2 in
 * the forward pass, 4 in the backward pass; here of all parameters, embeddings included, and
 * without padding. */
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
    double loss = l->steps_all ? l->all[0] / (double)l->steps_all : NAN;
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
        note("%lld step%s in %s, mean %s %.4f", (long long)step, step == 1 ? "" : "s", text,
             row[0].name, loss);
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
    events_close(&l->events);
    note_foot(NULL);
    if (world.rank == 0)
        log_history_close(l);
    cJSON_Delete(l->records);
    free(l->losses), free(l->path);
    l->records = NULL, l->losses = NULL, l->path = NULL;
}

/* Returns a COUNT metric's total over the run; 0: the objective has no such metric. */
static double total_of(const Log *l, const char *name)
{
    for (int i = 0; i < l->metrics->nstep; i++)
        if (!strcmp(l->metrics->step[i].name, name))
            return l->all[i];
    return 0;
}

static void add_steps(cJSON *o, const char *key, int64_t steps)
{
    cJSON_AddNumberToObject(o, key, (double)steps);
}

cJSON *log_state(const Log *l, int64_t step)
{
    cJSON *s = cJSON_CreateObject(), *history = cJSON_Duplicate(l->records, true);
    /* keys that transformers does not log */
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
    add_steps(s, "eval_steps", flags_steps(l->flags->eval_every, l->per_epoch));
    add_steps(s, "global_step", step);
    cJSON_AddFalseToObject(s, "is_hyper_param_search");
    cJSON_AddTrueToObject(s, "is_local_process_zero");
    cJSON_AddTrueToObject(s, "is_world_process_zero");
    cJSON_AddItemToObject(s, "log_history", history);
    add_steps(s, "logging_steps", l->flags->log_every);
    add_steps(s, "max_steps", l->total);
    cJSON_AddNumberToObject(s, "num_input_tokens_seen", total_of(l, "tokens"));
    cJSON_AddNumberToObject(s, "num_train_epochs", ceil(epoch_at(l, l->total)));
    add_steps(s, "save_steps", flags_steps(l->flags->save_every, l->per_epoch));
    cJSON_AddItemToObject(s, "stateful_callbacks", cJSON_CreateObject());
    add_float(s, "total_flos", flops(l));
    cJSON_AddNumberToObject(s, "train_batch_size", (double)l->model->micro);
    cJSON_AddNullToObject(s, "trial_name");
    cJSON_AddNullToObject(s, "trial_params");
    return s;
}

/* True if "log" of train_state.json holds a step metric: under NAME the sum since the last record
 * (not of a COUNT), under NAME_all that of the run. NAME_steps: number of steps in the former,
 * unless all have it. */
static bool saved(const Metric *m, bool all)
{
    return m->tag && (all || m->kind != METRIC_COUNT);
}

void log_save(Log *l, cJSON *train_state)
{
    cJSON *o = cJSON_AddObjectToObject(train_state, "log");
    log_history_retry(l);
    if (l->nlate) {
        char *late = format("%.*s", (int)l->nlate, l->late);
        cJSON_AddStringToObject(o, "late", late);
        cJSON_AddNumberToObject(o, "late_from", (double)l->complete);
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

/* Reads a member of "log"; whole: must be a whole number from 0. Returns NULL, or a malloc'ed
 * message. */
static char *load(const cJSON *train_state, const char *form, const char *name, bool whole,
                  double *x)
{
    char *key = format(form, name), *error = NULL;
    const cJSON *item = json_get(json_get(train_state, "log"), key);
    double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    if (!cJSON_IsNumber(item) || (whole && !(v >= 0 && v <= 9e15 && v == floor(v))))
        error = format("train_state.json: log.%s: must be %s; the checkpoint is damaged", key,
                       whole ? "a whole number from 0" : "a number");
    *x = v;
    free(key);
    return error;
}

char *log_load(Log *l, const Metrics *of, const cJSON *train_state)
{
    REQUIRE(!l->records);            /* log_open() was not called yet */
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
