/* hf_match.h -- which tensor of a folder is which of the model; of programs and of gen.
 *
 * Keeps: a name of the file belongs to one tensor of the model at most; NULL means fine, else a malloc'ed message. */
#ifndef DIECAST_HF_MATCH_H
#define DIECAST_HF_MATCH_H

#include <cjson/cJSON.h>

#include "runtime/files/safetensors.h"
#include "runtime/model/model.h"

/* A tensor of the model that a file should hold. */
typedef struct {
    char *name;                  /* in the file */
    Tensor *t;
    bool optional;               /* keeps its first values when the file has none */
    const StTensor *from;        /* found; NULL: not yet */
    const StFile *file;
} HfWant;

void hf_want_sort(HfWant *want, int n);
HfWant *hf_want_find(HfWant *want, int n, const char *name);        /* after hf_want_sort */
/* All found, of the right shape; else a message, malloc'ed. */
char *hf_want_check(const HfWant *want, int n, const char *folder);
/* Up to four names for a message. */
typedef struct {
    int n;
    char *text;
} HfNames;
void hf_names_add(HfNames *names, const char *name);

/* The shape of t in files. */
void hf_file_shape(const Tensor *t, int64_t shape[ST_RANK]);
/* NULL when the file's tensor has t's shape (transposed when t is) and a floating dtype. */
char *hf_shape_check(const StFile *file, const StTensor *from, const Tensor *t);
/* Finds what is wanted (sorted) among all tensors of a folder with this config.json. *fewer: the tensor, a copy with
 * one row less, of which the folder has all rows but the last; NULL: none. *code: the exit code behind a message. */
char *hf_match(HfWant *want, int n, const StSet *set, const cJSON *config, const char *folder, Tensor **fewer,
               int *code);

#endif
