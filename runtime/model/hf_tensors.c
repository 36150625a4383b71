/* hf_tensors.c -- tensor names in Hugging Face files: the rows TENSOR_... of families.def. */
#define _GNU_SOURCE
#include "runtime/model/hf_tensors.h"

#include <fnmatch.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/model/hf_config.h"

typedef struct {
    const char *family, *name, *of;
} TensorRule;

static const TensorRule prefixes[] = {
#define TENSOR_PREFIX(family, prefix) { #family, prefix, "" },
#include "runtime/model/families.def"
};
static const TensorRule skips[] = {
#define TENSOR_SKIP(family, pattern) { #family, pattern, "" },
#include "runtime/model/families.def"
};
static const TensorRule endings[] = {
#define TENSOR_ENDING(family, old, now) { #family, old, now },
#include "runtime/model/families.def"
};
static const TensorRule ties[] = {
#define TENSOR_TIED(family, name, of) { #family, name, of },
#include "runtime/model/families.def"
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool is_of(const TensorRule *rule, const cJSON *config)
{
    const char *family = cJSON_GetStringValue(json_get(config, "model_type"));
    return family && !strcmp(rule->family, family);
}

char *hf_tensor_name(const cJSON *config, const char *in_file)
{
    size_t n = strlen(in_file);
    for (size_t i = 0; i < COUNT(endings); i++) {
        size_t k = strlen(endings[i].name);
        if (is_of(&endings[i], config) && k <= n &&
            !strcmp(in_file + n - k, endings[i].name) && (k == n || in_file[n - k - 1] == '.'))
            return format("%.*s%s", (int)(n - k), in_file, endings[i].of);
    }
    return format("%s", in_file);
}

char *hf_tensor_prefixed(const cJSON *config, const char *name)
{
    for (size_t i = 0; i < COUNT(prefixes); i++)
        if (is_of(&prefixes[i], config))
            return format("%s%s", prefixes[i].name, name);
    return NULL;
}

bool hf_tensor_skipped(const cJSON *config, const char *name)
{
    for (size_t i = 0; i < COUNT(skips); i++)
        if (is_of(&skips[i], config) && fnmatch(skips[i].name, name, 0) == 0)
            return true;
    return false;
}

const char *hf_tensor_tied(const cJSON *config, const char *name)
{
    for (size_t i = 0; i < COUNT(ties); i++)
        if (is_of(&ties[i], config) && !strcmp(ties[i].name, name))
            return hf_config_ties(config) ? ties[i].of : NULL;
    return NULL;
}
