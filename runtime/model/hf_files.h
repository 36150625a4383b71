/* hf_files.h -- what model folders and adapter folders share; for hf.c and hf_adapter.c only.
 *
 * Keeps: a name of the file belongs to one tensor of the model at most. */
#ifndef DIECAST_HF_FILES_H
#define DIECAST_HF_FILES_H

#include <cjson/cJSON.h>

#include "runtime/model/hf.h"
#include "runtime/model/weights.h"
#include "runtime/files/safetensors.h"

/* A tensor of the model that a file should hold. */
typedef struct {
    char *name;                  /* in the file */
    Tensor *t;
    bool optional;               /* keeps its first values when the file has none */
    const StTensor *from;        /* found; NULL: not yet */
    const StFile *file;
} HfWant;

/* "base_model.model.lm_head.weight" -> "lm_head.weight"; other names unchanged. */
const char *hf_base_name(const char *name);
/* Half of a LoRA pair, by its name. */
bool hf_is_pair(const char *name);

/* Dies with 80 when folder is no model folder (adapter: no adapter folder), saying what it is. */
void hf_check_kind(const Model *m, const char *folder, bool adapter);
/* Dies with 88 when the file is damaged or missing. */
cJSON *hf_read_json(const char *folder, const char *name);
bool hf_has(const char *folder, const char *name);
void hf_want_sort(HfWant *want, int n);
HfWant *hf_want_find(HfWant *want, int n, const char *name);        /* after hf_want_sort */
/* All found, of the right shape; else dies with 83. */
void hf_want_check(const HfWant *want, int n, const char *folder);
/* Reads all that were found into weights and fp32 copies. */
void hf_want_read(const HfWant *want, int n, bool allow_nonfinite);
/* Up to four names for a message. */
typedef struct {
    int n;
    char *text;
} HfNames;
void hf_names_add(HfNames *names, const char *name);

/* What `how` asks weights of `type` to become in the file. */
ElementType hf_type(const HfHow *how, ElementType type);
/* Dies with 80 when a value of these is too large for what it is to be written as. */
void hf_check_range(const WeightsItem *item, int n);
/* Calls write for a temporary folder beside `folder` and commits it, or dies. */
typedef char *HfWriter(const Model *m, const char *temp, const HfHow *how);
void hf_replace(const Model *m, const char *folder, const HfHow *how, HfWriter *write);

#endif
