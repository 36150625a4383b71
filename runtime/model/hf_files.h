/* hf_files.h -- what model folders and adapter folders share; for hf.c and hf_adapter.c only. */
#ifndef DIECAST_HF_FILES_H
#define DIECAST_HF_FILES_H

#include <cjson/cJSON.h>

#include "runtime/model/hf.h"
#include "runtime/model/hf_match.h"
#include "runtime/model/weights.h"
#include "runtime/files/safetensors.h"

/* Half of a LoRA pair, by its name. */
bool hf_is_pair(const char *name);

/* Dies with 80 when folder is no model folder (adapter: no adapter folder), saying what it is. */
void hf_check_kind(const Model *m, const char *folder, bool adapter);
/* Dies with 88 when the file is damaged or missing. */
cJSON *hf_read_json(const char *folder, const char *name);
bool hf_has(const char *folder, const char *name);
/* Reads all that were found into weights and fp32 copies. */
void hf_want_read(const HfWant *want, int n, bool allow_nonfinite);
/* What `how` asks weights of `type` to become in the file. */
ElementType hf_type(const HfHow *how, ElementType type);
/* Dies with 80 when a value of these is too large for what it is to be written as. */
void hf_check_range(const WeightsItem *item, int n);

/* Calls write for a temporary folder beside `folder` and commits it, or dies. */
typedef char *HfWriter(const Model *m, const char *temp, const HfHow *how);
void hf_replace(const Model *m, const char *folder, const HfHow *how, HfWriter *write);

#endif
