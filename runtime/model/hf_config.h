/* hf_config.h -- config.json: comparison with this program's model, and corrections of a copy.
 *
 * In:    config.json of transformers 4.x or 5.x; any key may be missing.
 * Keeps: messages are malloc'ed, NULL means success; keys that do not affect the model are neither
 *        read nor changed. */
#ifndef DIECAST_HF_CONFIG_H
#define DIECAST_HF_CONFIG_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns all keys that differ, with both values: "hidden_size is 128, this program was built for
 * 64; ...". ours describes the program; longest: its sequence length in tokens, which an attention
 * window must cover. Also refuses quantised models, except those of hf_config_is_nf4(). */
char *hf_config_differs(const cJSON *ours, const cJSON *theirs, int64_t longest);
/* True if bitsandbytes quantised the model to NF4 with double quantisation, in bytes. */
bool hf_config_is_nf4(const cJSON *config);
/* Returns the padding token of config.json, whose embedding row gets no gradient on lookup; -1:
 * none, or the family has no such token. */
int64_t hf_config_padding(const cJSON *config);
/* For a program that adds a row to the vocabulary: sets ours' vocab_size to theirs if that is one
 * less. */
void hf_config_fewer(cJSON *ours, const cJSON *theirs);
/* Returns the attention window in keys, if any layer has one; 0: full attention, or *error is
 * set. */
int64_t hf_config_window(const cJSON *config, char **error);
/* True if this rope_scaling field applies to the rope_type. */
bool hf_rope_counts(const char *type, const char *field);
/* A key of a family's config.json, as its rows define it. */
typedef struct {
    const char *key, *written;   /* written: path of a recipe field, JSON, or "": nothing */
    bool compared;               /* affects the model */
    bool there;                  /* present and not null */
    char *value;                 /* value to compare: short text of the file's value, or of the
                                    default */
    char *wanted;                /* the same for `written` if that is JSON, else NULL */
} HfKey;
/* Returns the keys of the family named by model_type, in row order, and their number; 0:
 * unsupported family. */
int hf_config_keys(const cJSON *config, HfKey **keys);
/* Returns rope_theta, rope_type and the scaling fields, from the keys of transformers 4 or 5. NULL:
 * the family has no such keys, or *error is set. */
cJSON *hf_config_rope(const cJSON *config, char **error);
/* Returns a message if a key and another name of it have different values; NULL: none does. */
char *hf_config_twice(const cJSON *config);
/* Returns a message if bos_token_id, eos_token_id or pad_token_id is neither null nor ids below
 * vocab (0: unknown); malloc'ed. NULL: all is well. For config.json and generation_config.json. */
char *hf_config_ids(const cJSON *config, double vocab);
/* Describes a model_type that is not a supported family; NULL: unknown. */
const char *hf_config_other(const char *model_type);
/* Sets the weights' dtype ("float32", "bfloat16", "float16") and the RoPE base and scaling, under
 * the keys of both transformers 4 and 5; deletes how the weights were quantised. */
void hf_config_patch(cJSON *config, const char *dtype);
/* Updates mask_token_id and pad_token_id if present; adds neither. */
void hf_config_special(cJSON *config, int64_t mask, int64_t pad);
/* True if the output head is the embedding: tie_word_embeddings, or the family's default. */
bool hf_config_ties(const cJSON *config);

#endif
