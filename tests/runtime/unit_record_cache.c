/* unit_record_cache.c -- numbers that a run keeps: back as they were, and never for others'. */
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/run/record_cache.h"
#include <stdlib.h>
#include <string.h>

enum { N = 5 };

/* message of record_cache_load for a key; "": it gives the values */
static void load(const char *name, const char *path, const char *records, const char *weights,
                 int64_t n, const char *want)
{
    static const float value[N] = {-1, 0.5f, -3e-8f, 7, -2};
    float got[N] = {0};
    bool missing;
    RecordCacheKey key[] = {{"records", records}, {"weights", weights}};
    char *error = record_cache_load(path, key, 2, got, n, &missing);
    check(*want ? error && strstr(error, want)
                : !error && memcmp(got, value, sizeof got) == 0 && strcmp(key[1].value, "w") == 0,
          name, "%s", error ? error : "other values");
    free(error);
}

static void flip(const char *path)
{
    FILE *f = fopen(path, "r+");
    fseek(f, -1, SEEK_END);
    int c = getc(f);
    fseek(f, -1, SEEK_END);
    putc(c ^ 1, f);
    fclose(f);
}

void test_record_cache(const char *scratch)
{
    static const float value[N] = {-1, 0.5f, -3e-8f, 7, -2};
    const RecordCacheKey key[] = {{"records", "r"}, {"weights", "w"}}, other = {"records", "other"};
    char *folder = format("%s/out/.kept", scratch), *path = record_cache_path(folder, key),
         *second = record_cache_path(folder, &other);
    bool missing;
    RecordCacheKey asked[] = {{"records", "r"}, {"weights", NULL}};
    float got[N];
    char *error = record_cache_load(path, asked, 2, got, N, &missing);
    check(error && missing, "kept: nothing yet", "%s", error ? error : "something");
    free(error);
    check(strcmp(path, second) != 0, "kept: a file for each", "%s", path);
    error = record_cache_save(path, key, 2, value, N);
    check(!error, "kept: saved", "%s", error ? error : "");
    free(error);
    load("kept: the same", path, "r", "w", N, "");
    load("kept: of any weights", path, "r", NULL, N, "");
    load("kept: other weights", path, "r", "v", N, "belongs to different weights: w, not v");
    load("kept: other records", path, "q", "w", N, "belongs to different records");
    load("kept: fewer", path, "r", "w", N - 1, "must hold 4 F32 values");
    flip(path);
    load("kept: damaged", path, "r", "w", N, "damaged");
    free(folder), free(path), free(second);
}
