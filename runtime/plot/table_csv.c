/* table_csv.c -- reader for CSV files. */
#define _GNU_SOURCE
#include "runtime/plot/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"

/* Parses one cell of n characters; false: invalid. An empty cell is NAN. */
static bool cell(const char *from, size_t n, double *value)
{
    char text[64], *end;
    if (n >= sizeof text)
        return false;
    memcpy(text, from, n);
    text[n] = '\0';
    *value = n ? strtod(text, &end) : NAN;
    if (n && !isfinite(*value))
        *value = INFINITY;
    return !n || !*end;
}

/* Parses a CSV row with as many cells as there are columns. */
static bool csv_row(Table *t, const char *from, size_t n)
{
    double value[TABLE_COLUMNS];
    int k = 0;
    for (const char *end = from + n;; k++) {
        const char *comma = memchr(from, ',', (size_t)(end - from));
        const size_t length = (size_t)((comma ? comma : end) - from);
        if (k == t->columns || !cell(from, length, &value[k]))
            return false;
        if (!comma)
            break;
        from = comma + 1;
    }
    if (k + 1 != t->columns)
        return false;
    table_row(t);
    for (int i = 0; i < t->columns; i++)
        table_put(t, t->column[i].name, value[i]);
    return true;
}

char *table_csv(Table *t, const char *path)
{
    char *error;
    size_t n = 0;
    char *text = table_text(path, &n, &error);
    int64_t line = 1;
    for (char *at = text; at && at < text + n; line++) {
        char *end = memchr(at, '\n', (size_t)(text + n - at));
        if (!end)
            break;
        *end = '\0';
        if (line == 1) {
            int names = 0;
            char *save;
            for (char *name = strtok_r(at, ",", &save); name; names++) {
                table_make(t, name);
                name = strtok_r(NULL, ",", &save);
            }
            if (!names || names != t->columns)
                error = format("%s: its first line must name the columns, each only once", path);
        } else if (!error && !csv_row(t, at, (size_t)(end - at))) {
            table_skip(t, line);
        }
        at = end + 1;
    }
    free(text);
    return error;
}
