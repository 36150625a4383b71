/* reference.c -- per-record reference values, computed by all ranks and cached by rank 0. */
#include "runtime/run/reference.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/ranks/comm.h"
#include "runtime/run/record_cache.h"

enum { KEYS = 3, PIECE = 1 << 20 };

/* Returns the cache file, malloc'ed, and what its values depend on. */
static char *key_of(const Reference *r, const char *out, const char *weights,
                    RecordCacheKey key[KEYS])
{
    const char *special = data_special(&r->all);
    key[0] = (RecordCacheKey){"records", data_fingerprint_files(&r->all)};
    key[1] = (RecordCacheKey){"weights", weights};
    key[2] = (RecordCacheKey){"log-probabilities", *special ? format("%s special=%s", r->made,
                                                                     special) : r->made};
    char *folder = folder_join(out, REFERENCE_FOLDER), *path = record_cache_path(folder, key);
    free(folder);
    return path;
}

static float *room(const Reference *r)
{
    float *value = calloc((size_t)(r->all.n * r->width), sizeof *value);
    if (!value)
        die(EXIT_INTERNAL, "out of memory for the reference of %lld records", (long long)r->all.n);
    return value;
}

bool reference_load(Reference *r, const char *out, const char *weights, bool last)
{
    const int64_t n = r->all.n * r->width;
    RecordCacheKey key[KEYS];
    char *path = key_of(r, out, weights, key), *error = NULL;
    float *value = room(r);
    bool there = false, missing = false;
    if (world.rank == 0) {
        error = record_cache_load(path, key, KEYS, value, n, &missing);
        there = !error;
    }
    if (error && !missing && last)
        note("reference: %s: recomputing", error);
    comm_broadcast(&there, sizeof there, 0);
    for (int64_t at = 0, count; there && at < n; at += count) {
        count = n - at < PIECE ? n - at : PIECE;
        comm_broadcast(value + at, sizeof *value * (size_t)count, 0);
    }
    if (there)
        note("reference values of %lld records from %s", (long long)r->all.n, path);
    if (there)
        r->value = value;
    else
        free(value);
    free(path), free(error);
    return there;
}

/* One rank has each number, the others 0: the sums are exact. */
static void sum_ranks(float *value, int64_t n)
{
    double part[COMM_DOUBLES];
    for (int64_t at = 0; at < n; at += COMM_DOUBLES) {
        const int count = (int)(n - at < COMM_DOUBLES ? n - at : COMM_DOUBLES);
        for (int i = 0; i < count; i++)
            part[i] = value[at + i];
        comm_allreduce_double(part, count);
        for (int i = 0; i < count; i++)
            value[at + i] = (float)part[i];
    }
}

void reference_make(Reference *r, const char *out, const char *weights)
{
    const double began = clock_seconds();
    Data *d = &r->all;
    float *value = room(r);
    for (int64_t b = 0; b < data_steps_per_epoch(d); b++) {
        const float *of = r->score(d, b);
        const int64_t first = b * d->G + data_sample0(d, b, 0), rows = data_rows(d, b, 0);
        if (rows)
            memcpy(value + first * r->width, of, sizeof *of * (size_t)(rows * r->width));
        comm_advance();
    }
    sum_ranks(value, d->n * r->width);
    r->value = value;
    RecordCacheKey key[KEYS];
    char *path = out ? key_of(r, out, weights, key) : NULL, *error = NULL;
    if (out && world.rank == 0) {
        error = folder_make_below(out, path);
        error = error ? error : record_cache_save(path, key, KEYS, value, d->n * r->width);
    }
    if (error)
        die(EXIT_IO, "%s", error);
    note("reference values of %lld records in %.1f s%s%s", (long long)d->n, clock_seconds() - began,
         path ? ", cached in " : "", path ? path : "");
    free(path);
}
