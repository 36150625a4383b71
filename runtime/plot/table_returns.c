/* table_returns.c -- reader for a NumPy array of returns. */
#define _GNU_SOURCE
#include "runtime/plot/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"

/* Returns the data of a file of doubles, (rows, columns) in C order; NULL: another kind of file. */
static const char *npy_numbers(const char *text, size_t n, int64_t *rows, int64_t *columns)
{
    char head[512];
    const unsigned char *byte = (const unsigned char *)text;
    const size_t length = n < 10 ? 0 : byte[8] | (size_t)byte[9] << 8;
    if (!length || memcmp(text, "\x93NUMPY\x01", 7) || length >= sizeof head || n < 10 + length)
        return NULL;
    memcpy(head, text + 10, length);
    head[length] = '\0';
    const char *shape = strstr(head, "'shape': (");
    int whole = 0;
    if (!shape || !strstr(head, "'descr': '<f8'") || !strstr(head, "'fortran_order': False") ||
        sscanf(shape, "'shape': (%9" SCNd64 ", %9" SCNd64 ")%n", rows, columns, &whole) != 2 ||
        !whole || *rows < 1 || *columns < 1)
        return NULL;
    const uint64_t numbers = (uint64_t)*rows * (uint64_t)*columns;
    return numbers == (n - 10 - length) / sizeof(double) ? text + 10 + length : NULL;
}

/* Moving average over about a twentieth of all rows, half of that at the ends. */
static void smooth(Table *t)
{
    const double *mean = table_column(t, "mean");
    const int64_t half = t->n / 40;
    double *to = table_make(t, "smooth");
    for (int64_t i = 0; i < t->n && half; i++) {
        const int64_t first = i < half ? 0 : i - half,
                      end = i + half + 1 < t->n ? i + half + 1 : t->n;
        double sum = 0;
        for (int64_t k = first; k < end; k++)
            sum += mean[k];
        to[i] = sum / (double)(end - first);
    }
}

char *table_returns(Table *t, const char *path)
{
    char *error;
    size_t n = 0;
    int64_t tasks, episodes;
    char *text = table_text(path, &n, &error);
    const char *from = text ? npy_numbers(text, n, &tasks, &episodes) : NULL;
    if (text && !from)
        error = format("%s: not an array of float64 (tasks, episodes) as --evaluate writes it",
                       path);
    for (int64_t e = 0; from && e < episodes; e++) {
        double sum = 0, low = INFINITY, high = -INFINITY, v;
        for (int64_t i = 0; i < tasks; i++) {
            memcpy(&v, from + (i * episodes + e) * (int64_t)sizeof v, sizeof v);
            sum += v, low = fmin(low, v), high = fmax(high, v);
        }
        table_row(t);
        table_put(t, "episode", (double)e + 1);
        table_put(t, "mean", sum / (double)tasks);
        table_put(t, "low", low);
        table_put(t, "high", high);
    }
    if (t->n)
        smooth(t);
    free(text);
    return error;
}
