/* table.c -- columns of a table; the reader for JSON lines. */
#define _GNU_SOURCE
#include "runtime/plot/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

#define FILE_MAX ((size_t)1 << 30)

/* ---- columns --------------------------------------------------------------------------------- */

static double *grown(double *from, int64_t n)
{
    double *to = realloc(from, (size_t)n * sizeof *to);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for a table of %" PRId64 " rows", n);
    return to;
}

static int find(const Table *t, const char *name)
{
    for (int i = 0; i < t->columns; i++)
        if (!strcmp(t->column[i].name, name))
            return i;
    return -1;
}

const double *table_column(const Table *t, const char *name)
{
    const int i = find(t, name);
    return i < 0 ? NULL : t->column[i].v;
}

void table_row(Table *t)
{
    if (t->n == t->room) {
        t->room = 2 * t->room + 64;
        for (int i = 0; i < t->columns; i++)
            t->column[i].v = grown(t->column[i].v, t->room);
    }
    for (int i = 0; i < t->columns; i++)
        t->column[i].v[t->n] = NAN;
    t->n++;
}

double *table_make(Table *t, const char *name)
{
    const int i = find(t, name);
    if (i >= 0)
        return t->column[i].v;
    if (t->columns == TABLE_COLUMNS || strlen(name) >= TABLE_NAME)
        return NULL;
    TableColumn *c = &t->column[t->columns++];
    strcpy(c->name, name);
    c->v = grown(NULL, t->room);
    for (int64_t k = 0; k < t->n; k++)
        c->v[k] = NAN;
    return c->v;
}

void table_put(Table *t, const char *name, double value)
{
    double *v = table_make(t, name);
    if (v)
        v[t->n - 1] = isfinite(value) || isnan(value) ? value : INFINITY;
}

void table_free(Table *t)
{
    for (int i = 0; i < t->columns; i++)
        free(t->column[i].v);
    for (int64_t i = 0; i < t->names; i++)
        free(t->name[i]);
    free(t->name);
    *t = (Table){0};
}

void table_skip(Table *t, int64_t line)
{
    t->bad_line = t->bad++ ? t->bad_line : line;
}

char *table_text(const char *path, size_t *n, char **error)
{
    *error = NULL;
    return file_named(path) ? file_read_nofollow(path, FILE_MAX, n, error) : NULL;
}

/* ---- JSON lines ------------------------------------------------------------------------------ */

char *table_lines(Table *t, const char *path)
{
    char *error, *inner;
    size_t n = 0, length;
    char *text = table_text(path, &n, &error);
    int64_t line = 1;
    for (size_t at = 0; text && at < n; at += length + 1, line++) {
        const char *end = memchr(text + at, '\n', n - at);
        if (!end)
            break;
        length = (size_t)(end - text) - at;
        cJSON *record = json_parse(text + at, length, &inner);
        if (cJSON_IsObject(record)) {
            table_row(t);
            for (const cJSON *item = record->child; item; item = item->next)
                if (cJSON_IsNumber(item) || cJSON_IsNull(item))
                    table_put(t, item->string, cJSON_IsNull(item) ? INFINITY : item->valuedouble);
        } else {
            table_skip(t, line);
        }
        if (!record)
            free(inner);
        cJSON_Delete(record);
    }
    free(text);
    return error;
}
