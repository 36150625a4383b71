/* hf_match.h -- matches the tensors of a folder to those of the model; used by programs and by gen.
 *
 * Keeps: a name in the file matches at most one tensor of the model. NULL means success, else a
 *        malloc'ed message. */
#ifndef DIECAST_HF_MATCH_H
#define DIECAST_HF_MATCH_H

#include <cjson/cJSON.h>

#include "runtime/files/safetensors.h"
#include "runtime/model/model.h"

/* Tensors that bitsandbytes stores next to the codes of an NF4 weight: NAME.absmax ... */
typedef enum {
    HF_NF4_ABSMAX, HF_NF4_MAP, HF_NF4_NESTED, HF_NF4_NESTED_MAP, HF_NF4_STATE, HF_NF4_PARTS
} HfNf4Part;

/* A tensor of the model expected in a file. */
typedef struct HfWant HfWant;
struct HfWant {
    char *name;                  /* name in the file */
    Tensor *t;
    bool optional;               /* keeps its initial values if the file lacks it */
    const StTensor *from;        /* the match; NULL: not found yet */
    const StFile *file;
    /* if `from` holds codes of NF4 */
    const StTensor *part[HF_NF4_PARTS];
    const StFile *part_file[HF_NF4_PARTS];
};

void hf_want_sort(HfWant *want, int n);                             /* by name */
HfWant *hf_want_find(HfWant *want, int n, const char *name);        /* after hf_want_sort() */
/* Returns NULL if every required tensor was found with the right shape, else a malloc'ed
 * message. */
char *hf_want_check(const HfWant *want, int n, const char *folder);
/* Collects up to four names for a message. */
typedef struct {
    int n;
    char *text;
} HfNames;
void hf_names_add(HfNames *names, const char *name);

/* Sets the shape of t in files. */
void hf_file_shape(const Tensor *t, int64_t shape[ST_RANK]);
/* Returns NULL if the file's tensor has t's shape (transposed if t is) and a floating-point dtype,
 * or holds t's codes of NF4. */
char *hf_shape_check(const StFile *file, const StTensor *from, const Tensor *t);
/* The same, for any dtype. */
char *hf_dims_check(const StFile *file, const StTensor *from, const Tensor *t);
/* Matches `want` (sorted) against all tensors of a folder with this config.json. *fewer: a copy,
 * with one row less, of the tensor of which the folder lacks the last row; NULL: none. *code: the
 * exit code that goes with a message. */
char *hf_match(HfWant *want, int n, const StSet *set, const cJSON *config, const char *folder,
               Tensor **fewer, int *code);

#endif
