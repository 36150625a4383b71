/* table_json.c -- reader for JSON files; objects of lists. */
#include "runtime/plot/table.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

cJSON *table_json(const char *path, char **error)
{
    size_t n;
    char *text = table_text(path, &n, error), *inner = NULL;
    cJSON *json = text ? json_parse(text, n, &inner) : NULL;
    if (inner)
        *error = format("%s: %s", path, inner);
    free(inner), free(text);
    return json;
}

char *table_lists(Table *t, const char *path)
{
    char *error;
    cJSON *json = table_json(path, &error);
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
        double *v = cJSON_IsArray(list) ? table_make(t, list->string) : NULL;
        int64_t i = 0;
        for (const cJSON *item = v ? list->child : NULL; item; item = item->next, i++)
            v[i] = cJSON_IsNumber(item) ? item->valuedouble : INFINITY;
    }
    cJSON_Delete(json);
    return error;
}
