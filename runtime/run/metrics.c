/* metrics.c -- sums over ranks -> the values of metrics; those in files. */
#include "runtime/run/metrics.h"

#include <math.h>
#include <stdlib.h>

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
        if (!cJSON_IsNumber(v) && !cJSON_IsNull(v))
            return format("%s: want a number or null", row[i].name);
        value[i] = cJSON_IsNumber(v) ? v->valuedouble : NAN;
    }
    return NULL;
}
