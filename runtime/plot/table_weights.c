/* table_weights.c -- readers for a JSON list of weighted records: histogram, means by domain. */
#include "runtime/plot/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

/* Returns the records that have a weight; NULL and no *error: the file is missing. */
static cJSON *read_records(const char *path, char **error)
{
    cJSON *json = table_json(path, error);
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

static void add_name(Table *t, const char *name)
{
    t->name = realloc(t->name, ((size_t)t->names + 1) * sizeof *t->name);
    if (!t->name)
        die(EXIT_INTERNAL, "out of memory for the name of a domain");
    t->name[t->names++] = format("%s", name);
}

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
    Weighted *w = malloc(((size_t)most + 1) * sizeof *w);
    if (!w)
        die(EXIT_INTERNAL, "out of memory for %d records", most);
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
        add_name(t, w[i].domain);
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
