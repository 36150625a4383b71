/* kept.h -- numbers of records that a run computes once: a file below OUT, with what they depend on.
 *
 * Keeps: PATH is whole or not there; numbers of other records, of other weights or made otherwise are
 *        never taken for those that are asked for. */
#ifndef DIECAST_KEPT_H
#define DIECAST_KEPT_H

#include <stdbool.h>
#include <stdint.h>

/* One thing that the numbers depend on: what it is, for people, and its fingerprint. NULL: whatever
 * it was when they were made, which kept_load() tells; malloc'ed then. */
typedef struct {
    const char *name;
    const char *value;
} KeptKey;

/* FOLDER/HASH.safetensors: HASH is of the first key, so that each has one file. malloc'ed. */
char *kept_path(const char *folder, const KeptKey *key);
/* value (n) from the file. NULL, or a malloc'ed message: *missing says whether there is no file, else
 * it is of another key, which is named, or damaged. */
char *kept_load(const char *path, KeptKey *key, int nkeys, float *value, int64_t n, bool *missing);
/* The file becomes these, at once; missing folders are made. */
char *kept_save(const char *path, const KeptKey *key, int nkeys, const float *value, int64_t n);

#endif
