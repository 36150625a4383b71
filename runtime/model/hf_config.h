/* hf_config.h -- config.json: does it describe the model of this binary, and what do its tensor names mean.
 *
 * In:    config.json of transformers 4.x or 5.x, any key missing.
 * Keeps: messages malloc'ed, NULL means fine; keys that shape nothing are neither read nor changed. */
#ifndef DIECAST_HF_CONFIG_H
#define DIECAST_HF_CONFIG_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* Every key that differs with both values: "hidden_size is 128, this binary was built for 64; ...". ours describes the
 * binary, whose sequences have up to `longest` tokens: a window of attention has to reach over all of them. Also
 * refuses quantised models. */
char *hf_config_differs(const cJSON *ours, const cJSON *theirs, int64_t longest);
/* The token whose row of the embedding gets no gradient where it is read, by config.json; -1: none, or a family
 * that has none. */
int64_t hf_config_padding(const cJSON *config);
/* Of a program that adds a row to the vocabulary: ours gets theirs' vocab_size where that is one less. */
void hf_config_fewer(cJSON *ours, const cJSON *theirs);
/* How many keys a query meets at most, in some of the layers; 0: all before it, or *error. */
int64_t hf_config_window(const cJSON *config, char **error);
/* Whether that number of the scaling counts for the rope_type. */
bool hf_rope_counts(const char *type, const char *field);
/* A key of a family's config.json, as its rows say. */
typedef struct {
    const char *key, *written;   /* written: a recipe field's path, JSON, or "": nothing */
    bool compared;               /* it shapes the model */
    bool there;                  /* and is no null */
    char *value;                 /* what is compared: short text of the file's value or of the default */
    char *wanted;                /* likewise of `written` where that is JSON; else NULL */
} HfKey;
/* Those of the family that model_type names, in the order of the rows; how many, 0: no family of ours. */
int hf_config_keys(const cJSON *config, HfKey **keys);
/* rope_theta, rope_type and the fields of the scaling, of keys of either generation. NULL: the family has no such
 * keys, or *error. */
cJSON *hf_config_rope(const cJSON *config, char **error);
/* What a model_type is that is no family of ours; NULL: nobody knows. */
const char *hf_config_other(const char *model_type);
/* Sets the weights' dtype ("float32", "bfloat16", "float16") and the rotary base and scaling under the keys of both
 * generations. */
void hf_config_patch(cJSON *config, const char *dtype);
/* Sets the ids that are there, mask_token_id and pad_token_id; keys of none are not added. */
void hf_config_special(cJSON *config, int64_t mask, int64_t pad);

/* Name of a file's tensor as this binary calls it, but for its prefix; malloc'ed. */
char *hf_tensor_name(const cJSON *config, const char *in_file);
/* The same with the prefix that files may leave out; malloc'ed. NULL: the family has none. */
char *hf_tensor_prefixed(const cJSON *config, const char *name);
bool hf_tensor_skipped(const cJSON *config, const char *name);
/* The tensor that `name` must equal because the config ties them; NULL when it does not. */
const char *hf_tensor_tied(const cJSON *config, const char *name);

#endif
