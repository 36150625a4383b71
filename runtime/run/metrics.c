/* metrics.c -- values of metrics from sums over ranks, of steps and of epochs; their copy in
 * checkpoints.
 *
 * Keeps: numbers are written in full precision, NaN and Inf as null. */
#define _GNU_SOURCE
#include "runtime/run/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

/* ---- values ---------------------------------------------------------------------------------- */

void metrics_values(const Metric *row, int n, double *x)
{
    double sum[METRICS_MAX];
    for (int i = 0; i < n; i++)
        sum[i] = x[i];
    for (int i = 0; i < n; i++)
        if (row[i].kind != METRIC_COUNT) {
            double count = sum[row[i].per], mean = count > 0 ? sum[i] / count : i ? NAN : 0;
            x[i] = row[i].kind == METRIC_EXP ? exp(mean) : mean;
        }
}

char *metrics_text(const Metric *row, int n, const double *value, const char *before)
{
    char *text = format("%s", "");
    for (int i = 0; i < n; i++)
        if (row[i].text && (i == 0 || !isnan(value[i]))) {
            char *one = format(row[i].text, value[i]),
                 *longer = format("%s%s%s", text, before, one);
            free(text), free(one);
            text = longer;
        }
    return text;
}

char *metrics_one(const Metric *m, double value)
{
    return m->text ? format(m->text, value) : format("%s %.6g", m->name, value);
}

/* Returns the rest of a key after `before`; NULL: the key does not begin with it. */
static const char *after_prefix(const char *key, const char *before)
{
    const size_t n = strlen(before);
    return !strncmp(key, before, n) ? key + n : NULL;
}

/* Returns the row with that key among n of a step (eval: of a validation); NULL: none. */
static const Metric *row_of(const Metric *row, int n, bool eval, const char *key)
{
    const char *name = eval ? after_prefix(key, "eval_") : key, *total = after_prefix(key, "num_");
    for (int i = 0; i < n && name; i++) {
        const char *as = !eval && row[i].kind == METRIC_COUNT ? total : name;
        if (as && row[i].tag && !strcmp(row[i].name, as))
            return &row[i];
    }
    return NULL;
}

char *metrics_tag(const Metrics *m, const char *key)
{
    const Metric *row = row_of(m->step, m->nstep, false, key);
    const char *epoch = after_prefix(key, "epoch_");
    row = row ? row : row_of(m->eval, m->neval, true, key);
    if (row)
        return format("%s", row->tag);
    for (const MetricTag *t = m->tags; t && t->key; t++)
        if (!strcmp(t->key, key))
            return format("%s", t->tag);
    if (epoch)
        return format("epoch/%s", epoch);
    const char *decides = m->eval[m->decides].tag, *slash = decides ? strrchr(decides, '/') : NULL;
    const char *eval = after_prefix(key, "eval_");
    eval = eval ? eval : after_prefix(key, "best_") ? key : NULL;
    if (eval && slash)
        return format("%.*s%s", (int)(slash + 1 - decides), decides, eval);
    return format("%s/%s", eval ? "eval" : "train", eval ? eval : key);
}

void metrics_save(const Metric *row, int n, const double *value, cJSON *to)
{
    for (int i = 0; i < n; i++)
        if (isfinite(value[i]))
            json_add_float(to, row[i].name, value[i]);
        else
            cJSON_AddNullToObject(to, row[i].name);
}

char *metrics_load(const Metric *row, int n, double *value, const cJSON *from)
{
    for (int i = 0; i < n; i++) {
        const cJSON *v = json_get(from, row[i].name);
        if (!v)
            return format("%s is missing: saved by a program with other metrics; to use only its "
                          "weights: --init-from it, with another --out",
                          row[i].name);
        if (!cJSON_IsNumber(v) && !cJSON_IsNull(v))
            return format("%s: must be a number or null", row[i].name);
        value[i] = cJSON_IsNumber(v) ? v->valuedouble : NAN;
    }
    return NULL;
}

/* ---- epochs ---------------------------------------------------------------------------------- */

void epochs_open(Epochs *c, const Metrics *m, int64_t per_epoch, bool keeps)
{
    REQUIRE(m->nstep <= METRICS_MAX && m->neval <= METRICS_MAX && per_epoch > 0);
    *c = (Epochs){.metrics = m, .per_epoch = per_epoch, .keeps = keeps};
}

void epochs_step(Epochs *c, int64_t step, const double *sum)
{
    if ((step - 1) % c->per_epoch == 0)
        memset(c->sum, 0, sizeof c->sum);
    if (!isfinite(sum[0]))
        return;
    for (int i = 0; i < c->metrics->nstep; i++)
        c->sum[i] += sum[i];
}

/* Sets value to the means over the epoch; NAN: no step had the metric; every step has the loss. */
static void step_values(const Epochs *c, double *value)
{
    memcpy(value, c->sum, sizeof c->sum);
    metrics_values(c->metrics->step, c->metrics->nstep, value);
}

const EpochRow *epochs_at(const Epochs *c, int64_t step)
{
    const EpochRow *last = c->n ? &c->row[c->n - 1] : NULL;
    return last && last->step == step ? last : NULL;
}

double epochs_loss(const Epochs *c)
{
    double value[METRICS_MAX];
    step_values(c, value);
    return value[0];
}

char *epochs_text(const Epochs *c)
{
    double value[METRICS_MAX];
    step_values(c, value);
    return metrics_text(c->metrics->step, c->metrics->nstep, value, "  ");
}

static EpochRow *new_row(Epochs *c)
{
    if ((c->n & (c->n - 1)) == 0) {
        size_t room = c->n ? 2 * (size_t)c->n : 1;
        c->row = realloc(c->row, sizeof *c->row * room);
        if (!c->row)
            die(EXIT_INTERNAL, "out of memory for %lld rows of the run", (long long)c->n);
    }
    EpochRow *r = &c->row[c->n++];
    *r = (EpochRow){.step = 0};
    for (int i = 0; i < METRICS_MAX; i++)
        r->step_value[i] = r->eval_value[i] = NAN;
    return r;
}

void epochs_mark(Epochs *c, int64_t step, const double *eval)
{
    if (!c->keeps)
        return;
    EpochRow *r = new_row(c);
    r->step = step;
    r->epoch = (step + c->per_epoch - 1) / c->per_epoch;
    r->ends_epoch = step && step % c->per_epoch == 0;
    r->validated = eval != NULL;
    if (step)
        step_values(c, r->step_value);
    if (eval)
        memcpy(r->eval_value, eval, sizeof *eval * (size_t)c->metrics->neval);
}

/* ---- in a checkpoint ------------------------------------------------------------------------- */

void epochs_save(const Epochs *c, cJSON *state)
{
    const Metrics *m = c->metrics;
    cJSON *epochs = cJSON_AddObjectToObject(state, "course");
    metrics_save(m->step, m->nstep, c->sum, cJSON_AddObjectToObject(epochs, "sum"));
    cJSON *rows = cJSON_AddArrayToObject(epochs, "rows");
    for (int64_t i = 0; i < c->n; i++) {
        const EpochRow *r = &c->row[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "step", (double)r->step);
        cJSON_AddNumberToObject(o, "epoch", (double)r->epoch);
        cJSON_AddBoolToObject(o, "whole", r->ends_epoch);
        metrics_save(m->step, m->nstep, r->step_value, cJSON_AddObjectToObject(o, "train"));
        if (r->validated)
            metrics_save(m->eval, m->neval, r->eval_value, cJSON_AddObjectToObject(o, "eval"));
        cJSON_AddItemToArray(rows, o);
    }
}

static char *get_row(const Epochs *c, const cJSON *o, EpochRow *r)
{
    const Metrics *m = c->metrics;
    const cJSON *step = json_get(o, "step"), *epoch = json_get(o, "epoch"),
                *whole = json_get(o, "whole"), *eval = json_get(o, "eval");
    if (!cJSON_IsNumber(step) || !cJSON_IsNumber(epoch) || !cJSON_IsBool(whole))
        return format("needs step, epoch and whole");
    r->step = (int64_t)step->valuedouble;
    r->epoch = (int64_t)epoch->valuedouble;
    r->ends_epoch = cJSON_IsTrue(whole);
    r->validated = eval != NULL;
    char *error = metrics_load(m->step, m->nstep, r->step_value, json_get(o, "train"));
    return error || !eval ? error : metrics_load(m->eval, m->neval, r->eval_value, eval);
}

char *epochs_load(Epochs *c, const cJSON *state)
{
    const cJSON *epochs = json_get(state, "course"), *o;
    if (!epochs) {
        for (int i = 0; i < METRICS_MAX; i++)
            c->sum[i] = NAN;     /* the first steps of this epoch are unknown */
        return NULL;
    }
    const Metrics *m = c->metrics;
    char *error = metrics_load(m->step, m->nstep, c->sum, json_get(epochs, "sum")),
         *where = error ? format("course.sum.%s", error) : NULL;
    cJSON_ArrayForEach(o, json_get(epochs, "rows")) {
        if (where || !c->keeps)
            break;
        error = get_row(c, o, new_row(c));
        where = error ? format("course.rows[%lld]: %s", (long long)c->n - 1, error) : NULL;
    }
    free(error);
    return where;
}
