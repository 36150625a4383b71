/* hf_files.h -- code shared by model and adapter folders; included by hf.c and hf_adapter.c
 * only. */
#ifndef DIECAST_HF_FILES_H
#define DIECAST_HF_FILES_H

#include <cjson/cJSON.h>

#include "runtime/model/hf.h"
#include "runtime/model/hf_match.h"
#include "runtime/model/weights.h"
#include "runtime/files/safetensors.h"

/* True if the name is that of a LoRA A or B matrix. */
bool hf_is_pair(const char *name);

/* Exit 80 if folder is not a model folder (adapter: not an adapter folder), saying what it is
 * instead. */
void hf_check_kind(const Model *m, const char *folder, bool adapter);
/* Returns the parsed file, which the caller deletes; exit 88 if it is damaged or missing. */
cJSON *hf_read_json(const char *folder, const char *name);
/* Reads all matched tensors into weights and fp32 master weights. */
void hf_want_read(const HfWant *want, int n, bool allow_nonfinite);
/* Reads them without storing anything, and ends the program as hf_want_read() would. The ranks of a
 * machine share the tensors. Prints how much was read if it was much. */
void hf_want_scan(const HfWant *want, int n, bool allow_nonfinite);
/* Returns the dtype in the file of weights of `type`, by how->dtype. */
ElementType hf_type(const HfHow *how, ElementType type);
/* Exit 80 if a value overflows the dtype it is to be written as. */
void hf_check_range(const WeightsItem *item, int n);

/* Calls write for a temporary folder next to `folder`, then commits it; ends the program on an
 * error. */
typedef char *HfWriter(const Model *m, const char *temp, const HfHow *how);
void hf_replace(const Model *m, const char *folder, const HfHow *how, HfWriter *write);

#endif
