/* table.c -- readers for the files that runs write. */
#define _GNU_SOURCE
#include "runtime/plot/table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

#define FILE_MAX ((size_t)1 << 30)

/* ---- columns --------------------------------------------------------------------------------- */

static void *grown(void *from, int64_t n, size_t each)
{
    void *to = realloc(from, (size_t)n * each);
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
            t->column[i].v = grown(t->column[i].v, t->room, sizeof(double));
    }
    for (int i = 0; i < t->columns; i++)
        t->column[i].v[t->n] = NAN;
    t->n++;
}

/* Returns a column's index, creating it if needed; -1: too many columns, or a name too long to be
 * one of ours. */
static int column_of(Table *t, const char *name)
{
    const int i = find(t, name);
    if (i >= 0 || t->columns == TABLE_COLUMNS || strlen(name) >= TABLE_NAME)
        return i;
    TableColumn *c = &t->column[t->columns];
    strcpy(c->name, name);
    c->v = grown(NULL, t->room, sizeof(double));
    for (int64_t k = 0; k < t->n; k++)
        c->v[k] = NAN;
    return t->columns++;
}

double *table_make(Table *t, const char *name)
{
    const int i = column_of(t, name);
    return i < 0 ? NULL : t->column[i].v;
}

void table_put(Table *t, const char *name, double value)
{
    const int i = column_of(t, name);
    if (i >= 0)
        t->column[i].v[t->n - 1] = isfinite(value) || isnan(value) ? value : INFINITY;
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

static void left_out(Table *t, int64_t line)
{
    t->bad_line = t->bad++ ? t->bad_line : line;
}

/* Reads the whole file; NULL and no *error: it is missing. */
static char *read_text(const char *path, size_t *n, char **error)
{
    *error = NULL;
    return file_named(path) ? file_read_nofollow(path, FILE_MAX, n, error) : NULL;
}

static cJSON *read_json(const char *path, char **error)
{
    size_t n;
    char *text = read_text(path, &n, error), *inner = NULL;
    cJSON *json = text ? json_parse(text, n, &inner) : NULL;
    if (inner)
        *error = format("%s: %s", path, inner);
    free(inner), free(text);
    return json;
}

/* ---- lines ----------------------------------------------------------------------------------- */

char *table_lines(Table *t, const char *path)
{
    char *error, *inner;
    size_t n = 0, length;
    char *text = read_text(path, &n, &error);
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
            left_out(t, line);
        }
        if (!record)
            free(inner);
        cJSON_Delete(record);
    }
    free(text);
    return error;
}

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
    char *text = read_text(path, &n, &error);
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
                column_of(t, name);
                name = strtok_r(NULL, ",", &save);
            }
            if (!names || names != t->columns)
                error = format("%s: its first line must name the columns, each only once", path);
        } else if (!error && !csv_row(t, at, (size_t)(end - at))) {
            left_out(t, line);
        }
        at = end + 1;
    }
    free(text);
    return error;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

char *table_lists(Table *t, const char *path)
{
    char *error;
    cJSON *json = read_json(path, &error);
    if (json && !cJSON_IsObject(json))
        error = format("%s: must be a JSON object of lists", path);
    int rows = 0;
    for (const cJSON *list = error || !json ? NULL : json->child; list; list = list->next)
        if (cJSON_IsArray(list) && cJSON_GetArraySize(list) > rows)
            rows = cJSON_GetArraySize(list);
    for (int i = 0; i < rows; i++) {
        table_row(t);
        table_put(t, "epoch", i + 1);
    }
    for (const cJSON *list = rows ? json->child : NULL; list; list = list->next) {
        const int k = cJSON_IsArray(list) ? column_of(t, list->string) : -1;
        int64_t i = 0;
        for (const cJSON *item = k < 0 ? NULL : list->child; item; item = item->next, i++)
            t->column[k].v[i] = cJSON_IsNumber(item) ? item->valuedouble : INFINITY;
    }
    cJSON_Delete(json);
    return error;
}

/* Returns the records that have a weight; NULL and no *error: the file is missing. */
static cJSON *read_records(const char *path, char **error)
{
    cJSON *json = read_json(path, error);
    if (json && !cJSON_IsArray(json))
        *error = format("%s: must be a JSON list of records", path);
    return json;
}

static double weight_of(const cJSON *record)
{
    const cJSON *w = json_get(record, "weight");
    return cJSON_IsNumber(w) ? w->valuedouble : NAN;
}

char *table_weights(Table *t, const char *path)
{
    enum { PIECES = 30, ALL = 0, RIGHT, NOISY, GROUPS };
    static const char *const name[GROUPS] = {"all", "right", "noisy"};
    double lo = INFINITY, hi = -INFINITY, many[GROUPS] = {0}, count[GROUPS][PIECES] = {{0}};
    char *error;
    cJSON *json = read_records(path, &error);
    for (const cJSON *r = error || !json ? NULL : json->child; r; r = r->next)
        if (isfinite(weight_of(r)))
            lo = fmin(lo, weight_of(r)), hi = fmax(hi, weight_of(r));
    if (lo == hi) {
        const double room = lo != 0 ? 0.05 * fabs(lo) : 1;
        lo -= room, hi += room;
    }
    for (const cJSON *r = lo < hi ? json->child : NULL; r; r = r->next) {
        const double share = (weight_of(r) - lo) / (hi - lo) * PIECES;
        const cJSON *noisy = json_get(r, "noisy");
        if (!isfinite(share))
            continue;
        const int i = share < PIECES ? (int)share : PIECES - 1,
                  group = cJSON_IsTrue(noisy) ? NOISY : cJSON_IsFalse(noisy) ? RIGHT : ALL;
        count[group][i]++, many[group]++;
        if (group != ALL)
            count[ALL][i]++, many[ALL]++;
    }
    for (int i = 0; i <= PIECES && lo < hi; i++) {
        table_row(t);
        table_put(t, "weight", lo + (hi - lo) * i / PIECES);
        for (int k = 0; k < GROUPS; k++)
            if (many[k] > 0 && (k != ALL || many[RIGHT] + many[NOISY] == 0))
                table_put(t, name[k], i < PIECES ? 100 * count[k][i] / many[k] : 0);
    }
    cJSON_Delete(json);
    return error;
}

typedef struct { const char *domain; double weight; } Weighted;

static int by_domain(const void *a, const void *b)
{
    return strcmp(((const Weighted *)a)->domain, ((const Weighted *)b)->domain);
}

char *table_domains(Table *t, const char *path)
{
    char *error;
    cJSON *json = read_records(path, &error);
    const int most = error || !json ? 0 : cJSON_GetArraySize(json);
    int n = 0;
    Weighted *w = grown(NULL, most + 1, sizeof *w);
    for (const cJSON *r = most ? json->child : NULL; r; r = r->next) {
        const char *domain = cJSON_GetStringValue(json_get(r, "domain"));
        if (domain && isfinite(weight_of(r)))
            w[n++] = (Weighted){domain, weight_of(r)};
    }
    qsort(w, (size_t)n, sizeof *w, by_domain);
    for (int i = 0, k; i < n; i = k) {
        double sum = 0, low = INFINITY, high = -INFINITY;
        for (k = i; k < n && !strcmp(w[i].domain, w[k].domain); k++)
            sum += w[k].weight, low = fmin(low, w[k].weight), high = fmax(high, w[k].weight);
        t->name = grown(t->name, t->names + 1, sizeof *t->name);
        t->name[t->names++] = format("%s", w[i].domain);
        table_row(t);
        table_put(t, "domain", (double)t->names);
        table_put(t, "mean", sum / (k - i));
        table_put(t, "low", low);
        table_put(t, "high", high);
    }
    free(w);
    cJSON_Delete(json);
    return error;
}

/* ---- arrays of NumPy ------------------------------------------------------------------------- */

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
    const int to = column_of(t, "smooth");
    for (int64_t i = 0; i < t->n && half; i++) {
        const int64_t first = i < half ? 0 : i - half,
                      end = i + half + 1 < t->n ? i + half + 1 : t->n;
        double sum = 0;
        for (int64_t k = first; k < end; k++)
            sum += mean[k];
        t->column[to].v[i] = sum / (double)(end - first);
    }
}

char *table_returns(Table *t, const char *path)
{
    char *error;
    size_t n = 0;
    int64_t tasks, episodes;
    char *text = read_text(path, &n, &error);
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
