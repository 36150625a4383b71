/* metrics.c -- values of metrics from sums over ranks; their copy in checkpoints. */
#include "runtime/run/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

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
static const char *behind(const char *key, const char *before)
{
    const size_t n = strlen(before);
    return !strncmp(key, before, n) ? key + n : NULL;
}

/* Returns the row with that key among n of a step (eval: of a validation); NULL: none. */
static const Metric *row_of(const Metric *row, int n, bool eval, const char *key)
{
    const char *name = eval ? behind(key, "eval_") : key, *total = behind(key, "num_");
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
    const char *epoch = behind(key, "epoch_");
    row = row ? row : row_of(m->eval, m->neval, true, key);
    if (row)
        return format("%s", row->tag);
    for (const MetricTag *t = m->tags; t && t->key; t++)
        if (!strcmp(t->key, key))
            return format("%s", t->tag);
    if (epoch)
        return format("epoch/%s", epoch);
    const char *decides = m->eval[m->decides].tag, *slash = decides ? strrchr(decides, '/') : NULL;
    const char *eval = behind(key, "eval_");
    eval = eval ? eval : behind(key, "best_") ? key : NULL;
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
            return format("%s: want a number or null", row[i].name);
        value[i] = cJSON_IsNumber(v) ? v->valuedouble : NAN;
    }
    return NULL;
}
