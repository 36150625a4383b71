/* json.c -- reads what gen prints with --json.
 *
 *   json FILE ...            each is one strict JSON object: exit 0; else its name and why, exit 1
 *   json FILE -q PATH ...    prints the values of these paths, one a line: a.b, list[0], list[*].name, list# (its length)
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/json.h"

static void print(const cJSON *v)
{
    if (!v)
        puts("(missing)");
    else if (cJSON_IsString(v))
        puts(v->valuestring);
    else {
        char *text = cJSON_PrintUnformatted(v);
        puts(text);
        free(text);
    }
}

static void query(const cJSON *at, const char *path)
{
    while (at && *path) {
        size_t n = strcspn(path, ".[#");
        if (n) {
            char *name = strndup(path, n);
            at = json_get(at, name);
            free(name);
            path += n;
        }
        path += *path == '.';
        if (*path == '#') {
            printf("%d\n", cJSON_GetArraySize(at));
            return;
        }
        if (*path == '[') {
            const char *end = strchr(path, ']') + 1;
            const cJSON *item;
            if (path[1] == '*') {
                cJSON_ArrayForEach(item, at) query(item, end);
                return;
            }
            at = cJSON_GetArrayItem(at, atoi(path + 1));
            path = end;
        }
    }
    print(at);
}

static cJSON *load(const char *path)
{
    size_t n;
    char *error = NULL, *text = file_read(path, 1 << 28, &n, &error);
    cJSON *o = text ? json_parse(text, n, &error) : NULL;
    if (o && !cJSON_IsObject(o))
        error = "no object";
    if (error)
        printf("%s: %s\n", path, error);
    free(text);
    return error ? NULL : o;
}

int main(int argc, char **argv)
{
    int bad = 0;
    cJSON *o = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-q")) {
            for (i++; o && i < argc; i++)
                query(o, argv[i]);
            break;
        }
        cJSON_Delete(o);
        o = load(argv[i]);
        bad |= !o;
    }
    cJSON_Delete(o);
    return bad;
}
