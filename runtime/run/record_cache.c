/* record_cache.c -- per-record values in a safetensors file: one tensor "values", keys as metadata.
 *
 * Keeps: a foreign, damaged or truncated file is refused as a whole. */
#include "runtime/run/record_cache.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/folder.h"
#include "runtime/files/safetensors.h"
#include "runtime/files/sha256.h"

static const char format_name[] = "diecast-kept-1", tensor[] = "values", sum_name[] = "crc32c";

static char *sum_of(const float *value, int64_t n)
{
    return format("%08x", crc32c(0, value, (size_t)n * sizeof *value));
}

char *record_cache_path(const char *folder, const RecordCacheKey *key)
{
    Sha256 h;
    char hex[SHA256_HEX];
    REQUIRE(key->value);
    sha256_begin(&h);
    sha256_add(&h, key->value, strlen(key->value));
    sha256_text(&h, hex);
    return format("%s/%.16s.safetensors", folder, hex);
}

/* Returns NULL, or a malloc'ed message naming the key of the file that differs. */
static char *differs(const StFile *f, const char *path, RecordCacheKey *key, int nkeys)
{
    const char *made = st_meta(f, "format");
    if (!made || strcmp(made, format_name))
        return format("%s: must be a file of %s", path, format_name);
    for (int i = 0; i < nkeys; i++) {
        const char *value = st_meta(f, key[i].name);
        if (!value)
            return format("%s: does not record its %s", path, key[i].name);
        if (key[i].value && strcmp(value, key[i].value))
            return format("%s belongs to different %s: %s, not %s", path, key[i].name, value,
                          key[i].value);
    }
    for (int i = 0; i < nkeys; i++)
        if (!key[i].value)
            key[i].value = format("%s", st_meta(f, key[i].name));
    return NULL;
}

static char *read_values(const StFile *f, const char *path, float *value, int64_t n)
{
    const StTensor *t = st_find(f, tensor);
    if (!t || t->dtype != ST_F32 || t->rank != 1 || t->shape[0] != n)
        return format("%s: must hold %lld F32 values", path, (long long)n);
    char *error = st_read(f, t, value, 0, (uint64_t)n * sizeof *value);
    if (error)
        return error;
    const char *recorded = st_meta(f, sum_name);
    char *sum = sum_of(value, n);
    if (!recorded || strcmp(recorded, sum))
        error = format("%s: damaged: its values have checksum %s, not %s", path, sum,
                       recorded ? recorded : "any");
    free(sum);
    return error;
}

char *record_cache_load(const char *path, RecordCacheKey *key, int nkeys, float *value, int64_t n,
                        bool *missing)
{
    StFile f;
    *missing = !file_named(path);
    if (*missing)
        return format("%s is missing", path);
    char *error = st_open(&f, path);
    if (error)
        return error;
    error = differs(&f, path, key, nkeys);
    if (!error)
        error = read_values(&f, path, value, n);
    st_close(&f);
    return error;
}

char *record_cache_save(const char *path, const RecordCacheKey *key, int nkeys, const float *value,
                        int64_t n)
{
    StWriter *w = st_writer(format_name);
    char *sum = sum_of(value, n), *error = folder_make_parents(path);
    if (!error)
        error = st_add(w, tensor, ST_F32, 1, &n);
    for (int i = 0; i < nkeys && !error; i++)
        error = st_add_meta(w, key[i].name, key[i].value);
    if (!error)
        error = st_add_meta(w, sum_name, sum);
    if (!error)
        error = st_begin(w, path);
    if (!error)
        error = st_write(w, tensor, value, (uint64_t)n * sizeof *value);
    uint32_t crc;
    if (!error)
        error = st_end(w, &crc);
    st_free(w);
    free(sum);
    return error;
}
