/* epochs.c -- metrics per epoch, and their copy in checkpoints.
 *
 * Keeps: numbers are written in full precision, NaN and Inf as null. */
#include "runtime/run/epochs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

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
        return format("want step, epoch and whole");
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
