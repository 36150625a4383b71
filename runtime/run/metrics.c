/* metrics.c -- sums over ranks -> the values of metrics. */
#include "runtime/run/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/base.h"

void metrics_values(const Metric *row, int n, double *x)
{
    double sum[METRICS_MAX];
    for (int i = 0; i < n; i++)
        sum[i] = x[i];
    for (int i = 0; i < n; i++)
        if (row[i].kind != METRIC_COUNT) {
            double count = sum[row[i].per], mean = count > 0 ? sum[i] / count : 0;
            x[i] = row[i].kind == METRIC_EXP ? exp(mean) : mean;
        }
}

char *metrics_text(const Metric *row, int n, const double *value, const char *before)
{
    char *text = format("%s", "");
    for (int i = 0; i < n; i++)
        if (row[i].text) {
            char *one = format(row[i].text, value[i]),
                 *longer = format("%s%s%s", text, before, one);
            free(text), free(one);
            text = longer;
        }
    return text;
}
