/* hf_tensors.h -- tensor names in Hugging Face files, by the family of config.json. */
#ifndef DIECAST_HF_TENSORS_H
#define DIECAST_HF_TENSORS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* Returns the program's name for a tensor of a file, apart from the prefix; malloc'ed. */
char *hf_tensor_name(const cJSON *config, const char *in_file);
/* Returns the name with the prefix that files may omit; malloc'ed. NULL: the family has no
 * prefix. */
char *hf_tensor_prefixed(const cJSON *config, const char *name);
/* True if the tensor of a file is no weight of this model: a buffer, or the head of another
 * class. */
bool hf_tensor_skipped(const cJSON *config, const char *name);
/* Returns the tensor that `name` is tied to by the config; NULL: not tied. */
const char *hf_tensor_tied(const cJSON *config, const char *name);

#endif
