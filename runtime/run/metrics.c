/* metrics.c -- sums over ranks -> the values of metrics. */
#include "runtime/run/metrics.h"

#include <math.h>

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
