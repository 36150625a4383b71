/* course.c -- rows of what steps and validations had, and how a checkpoint keeps them.
 *
 * Keeps: numbers are written in full, NaN and Inf as null. */
#include "runtime/run/course.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

void course_open(Course *c, const Metrics *m, int64_t per_epoch, bool keeps)
{
    *c = (Course){.metrics = m, .per_epoch = per_epoch, .keeps = keeps};
}

void course_step(Course *c, int64_t step, const double *sum)
{
    if ((step - 1) % c->per_epoch == 0)
        memset(c->sum, 0, sizeof c->sum);
    if (!isfinite(sum[0]))
        return;
    for (int i = 0; i < c->metrics->nstep; i++)
        c->sum[i] += sum[i];
}

static void step_values(const Course *c, double *value)
{
    memcpy(value, c->sum, sizeof c->sum);
    metrics_values(c->metrics->step, c->metrics->nstep, value);
}

char *course_text(const Course *c)
{
    double value[METRICS_MAX];
    step_values(c, value);
    return metrics_text(c->metrics->step, c->metrics->nstep, value, "  ");
}

static CourseRow *new_row(Course *c)
{
    if ((c->n & (c->n - 1)) == 0) {
        size_t room = c->n ? 2 * (size_t)c->n : 1;
        c->row = realloc(c->row, sizeof *c->row * room);
        if (!c->row)
            die(EXIT_INTERNAL, "out of memory for %lld rows of the run", (long long)c->n);
    }
    CourseRow *r = &c->row[c->n++];
    *r = (CourseRow){.step = 0};
    for (int i = 0; i < METRICS_MAX; i++)
        r->step_value[i] = r->eval_value[i] = NAN;
    return r;
}

void course_mark(Course *c, int64_t step, const double *eval)
{
    if (!c->keeps)
        return;
    CourseRow *r = new_row(c);
    r->step = step;
    r->epoch = (step + c->per_epoch - 1) / c->per_epoch;
    r->whole = step && step % c->per_epoch == 0;
    r->validated = eval != NULL;
    if (step)
        step_values(c, r->step_value);
    if (eval)
        memcpy(r->eval_value, eval, sizeof *eval * (size_t)c->metrics->neval);
}

/* ---- in a checkpoint ------------------------------------------------------------------------- */

static void add_values(cJSON *to, const char *key, const Metric *row, int n, const double *x)
{
    cJSON *o = cJSON_AddObjectToObject(to, key);
    for (int i = 0; i < n; i++)
        if (isfinite(x[i]))
            json_add_float(o, row[i].name, x[i]);
        else
            cJSON_AddNullToObject(o, row[i].name);
}

void course_save(const Course *c, cJSON *state)
{
    const Metrics *m = c->metrics;
    cJSON *course = cJSON_AddObjectToObject(state, "course");
    add_values(course, "sum", m->step, m->nstep, c->sum);
    cJSON *rows = cJSON_AddArrayToObject(course, "rows");
    for (int64_t i = 0; i < c->n; i++) {
        const CourseRow *r = &c->row[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "step", (double)r->step);
        cJSON_AddNumberToObject(o, "epoch", (double)r->epoch);
        cJSON_AddBoolToObject(o, "whole", r->whole);
        add_values(o, "train", m->step, m->nstep, r->step_value);
        if (r->validated)
            add_values(o, "eval", m->eval, m->neval, r->eval_value);
        cJSON_AddItemToArray(rows, o);
    }
}

/* NULL, or the member that is none. */
static char *get_values(const cJSON *from, const Metric *row, int n, double *x)
{
    for (int i = 0; i < n; i++) {
        const cJSON *v = json_get(from, row[i].name);
        if (!cJSON_IsNumber(v) && !cJSON_IsNull(v))
            return format("%s: want a number or null", row[i].name);
        x[i] = cJSON_IsNumber(v) ? v->valuedouble : NAN;
    }
    return NULL;
}

static char *get_row(const Course *c, const cJSON *o, CourseRow *r)
{
    const Metrics *m = c->metrics;
    const cJSON *step = json_get(o, "step"), *epoch = json_get(o, "epoch"),
                *whole = json_get(o, "whole"), *eval = json_get(o, "eval");
    if (!cJSON_IsNumber(step) || !cJSON_IsNumber(epoch) || !cJSON_IsBool(whole))
        return format("want step, epoch and whole");
    r->step = (int64_t)step->valuedouble;
    r->epoch = (int64_t)epoch->valuedouble;
    r->whole = cJSON_IsTrue(whole);
    r->validated = eval != NULL;
    char *error = get_values(json_get(o, "train"), m->step, m->nstep, r->step_value);
    return error || !eval ? error : get_values(eval, m->eval, m->neval, r->eval_value);
}

char *course_load(Course *c, const cJSON *state)
{
    const cJSON *course = json_get(state, "course"), *o;
    if (!course) {
        for (int i = 0; i < METRICS_MAX; i++)
            c->sum[i] = NAN;     /* of this epoch's first steps nothing is known */
        return NULL;
    }
    char *error = get_values(json_get(course, "sum"), c->metrics->step, c->metrics->nstep, c->sum),
         *where = error ? format("course.sum.%s", error) : NULL;
    cJSON_ArrayForEach(o, json_get(course, "rows")) {
        if (where || !c->keeps)
            break;
        error = get_row(c, o, new_row(c));
        where = error ? format("course.rows[%lld]: %s", (long long)c->n - 1, error) : NULL;
    }
    free(error);
    return where;
}
