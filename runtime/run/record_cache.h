/* record_cache.h -- per-record values computed once per run and cached in OUT.
 *
 * Keeps: the file is complete or absent; values of other records, other weights or another method
 *        are never returned for the requested ones. */
#ifndef DIECAST_RECORD_CACHE_H
#define DIECAST_RECORD_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* One dependency of the values: its name for messages, and its fingerprint. value NULL: any;
 * record_cache_load() then returns the stored one, malloc'ed. */
typedef struct {
    const char *name;
    const char *value;
} RecordCacheKey;

/* Returns FOLDER/HASH.safetensors, malloc'ed; HASH is of the first key, which has a value, so each
 * first key has its own file. */
char *record_cache_path(const char *folder, const RecordCacheKey *key);
/* Reads value (n) from the file. Returns NULL, or a malloc'ed message: *missing is true if there is
 * no file, else a key differs, which is named, or the file is damaged. */
char *record_cache_load(const char *path, RecordCacheKey *key, int nkeys, float *value, int64_t n,
                        bool *missing);
/* Replaces the file atomically and creates missing folders. Returns NULL, or a malloc'ed
 * message. */
char *record_cache_save(const char *path, const RecordCacheKey *key, int nkeys, const float *value,
                        int64_t n);

#endif
