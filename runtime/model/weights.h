/* weights.h -- tensor I/O between memory and safetensors files, in pieces of a few MiB.
 *
 * In:    arrays of a Tensor, open files.
 * Keeps: NULL means success, else a malloc'ed message; memory use is independent of tensor size. */
#ifndef DIECAST_WEIGHTS_H
#define DIECAST_WEIGHTS_H

#include <cjson/cJSON.h>

#include "runtime/model/model.h"
#include "runtime/files/safetensors.h"

/* A tensor to write. If row is not NULL, its values, rounded to the type of t's weights, replace
 * t's last row. If a is not NULL, adds scale * b a in fp32 before the single rounding. */
typedef struct {
    const char *name;            /* in the file */
    StDtype dtype;               /* in the file */
    const Tensor *t;
    Array array;                 /* one of t's */
    const Tensor *a, *b;         /* (r, in), (out, r) */
    float scale;
    const Tensor *row;           /* (1, in) */
} WeightsItem;

/* Writes folder/file and adds it and its tensors to the manifest. */
char *weights_write(const WeightsItem *item, int n, const char *folder, const char *file,
                    cJSON *manifest);
uint64_t weights_bytes(const WeightsItem *item);
/* Returns NULL, or a message naming the finite value that overflows the fp16 it is to be written
 * as. */
char *weights_beyond(const WeightsItem *item, int n);
/* Returns the time limit in seconds for writing or reading a whole checkpoint: at 50 MB/s, plus
 * 120. */
double weights_seconds(const Model *m);

/* Reads n elements of a file's tensor, from `first` on, as fp32. */
char *weights_values(const StFile *file, const StTensor *from, int64_t first, int64_t n, float *to);
/* Call after the checks of hf_match.h. Reads into an array of t, or with NULL into those of its
 * weights, each rounded once from the file's value, or quantised. Adds the number of NaN and Inf to
 * *nonfinite. */
char *weights_read(const StFile *file, const StTensor *from, const Tensor *t, const Array *to,
                   int64_t *nonfinite);
/* Reads the file's tensor only to count its NaN and Inf, as weights_read() does. */
char *weights_scan(const StFile *file, const StTensor *from, int64_t *nonfinite);
/* Returns the CRC-32C of all values that were read from files for divided arrays, by weights_read()
 * or reported to weights_has_read(): equal on ranks with the same files. */
uint32_t weights_read_crc(void);
void weights_has_read(const void *bytes, int64_t n);

#endif
