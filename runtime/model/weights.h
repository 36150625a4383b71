/* weights.h -- moves tensors between memory and safetensors files, in pieces of a few MiB.
 *
 * In:    arrays of a Tensor, open files.
 * Keeps: NULL means done, else a malloc'ed message; memory use does not grow with the tensors. */
#ifndef DIECAST_WEIGHTS_H
#define DIECAST_WEIGHTS_H

#include <cjson/cJSON.h>

#include "runtime/model/model.h"
#include "runtime/files/safetensors.h"

/* One tensor to be written. With a != NULL, scale * b a is added in fp32 before the one rounding. */
typedef struct {
    const char *name;            /* in the file */
    StDtype dtype;               /* in the file */
    const Tensor *t;
    const void *array;           /* one of t's arrays, of this type */
    ElementType type;
    const Tensor *a, *b;         /* (r, in), (out, r) */
    float scale;
} WeightsItem;

StDtype weights_dtype(ElementType type);
/* Writes folder/file and adds it and its tensors to the manifest. */
char *weights_write(const WeightsItem *item, int n, const char *folder, const char *file,
                    cJSON *manifest);
uint64_t weights_bytes(const WeightsItem *item);
/* NULL, or which finite value of these is too large for the fp16 it is to be written as. */
char *weights_beyond(const WeightsItem *item, int n);
/* Seconds that writing or reading all of a checkpoint may take: at 50 MB/s, and 120 more. */
double weights_seconds(const Model *m);

/* After hf_shape_check: reads into fp32 (an array of t, may be NULL) and, rounded once, into
 * rounded of that type (may be NULL). Adds the number of NaN and Inf to *nonfinite. */
char *weights_read(const StFile *file, const StTensor *from, const Tensor *t, float *fp32,
                   void *rounded, ElementType type, int64_t *nonfinite);

#endif
