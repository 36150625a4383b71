// link: base json hf_config hf_tensors -lcjson -lm
/* config_fuzz.c -- config.json of a model folder: compared with a binary's, then patched.
 *
 * In: first byte: family of the program; then config.json.
 * Method: a config that is no contradiction agrees with itself; patching keeps the verdict and
 *         changes nothing the second time. */
#define _GNU_SOURCE
#include "../../runtime/model/hf_config.h"
#include "../../runtime/model/hf_tensors.h"
#include "../../runtime/files/json.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANT(x) do { if (!(x)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,               \
                                         #x); abort(); } } while (0)

static const char *const ours_text[] = {
    "{\"model_type\": \"llama\", \"vocab_size\": 257, \"hidden_size\": 64, \"rope_parameters\": "
    "{\"rope_theta\": 1e4, \"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
    "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 16}}",
    "{\"model_type\": \"qwen2\", \"rope_theta\": 1e6, \"tie_word_embeddings\": true}",
    "{\"model_type\": \"gpt2\"}",
    "{\"model_type\": \"bert\"}",
};

static bool differs(const cJSON *ours, const cJSON *theirs)
{
    char *error = hf_config_differs(ours, theirs, 16);
    WANT(!error || *error);
    free(error);
    return error != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0)
        return 0;
    char *error = NULL;
    const char *text = ours_text[data[0] % 4];
    cJSON *ours = json_parse(text, strlen(text), &error);
    WANT(ours);
    cJSON *theirs = json_parse((const char *)data + 1, n - 1, &error);
    free(error);
    if (cJSON_IsObject(theirs)) {
        bool agrees = !differs(ours, theirs);
        WANT(!agrees || !differs(theirs, theirs));
        hf_config_patch(theirs, "float32");
        WANT(!agrees || !differs(ours, theirs));
        char *once = cJSON_PrintUnformatted(theirs);
        hf_config_patch(theirs, "float32");
        char *twice = cJSON_PrintUnformatted(theirs);
        cJSON *a = cJSON_Parse(once), *b = cJSON_Parse(twice);
        WANT(cJSON_Compare(a, b, true));
        cJSON_Delete(a);
        cJSON_Delete(b);
        free(once);
        free(twice);
        const cJSON *item;
        cJSON_ArrayForEach(item, theirs) {
            char *name = hf_tensor_name(theirs, item->string), *longer = hf_tensor_prefixed(theirs, name);
            hf_tensor_skipped(theirs, name);
            hf_tensor_tied(theirs, name);
            free(name);
            free(longer);
        }
    }
    cJSON_Delete(ours);
    cJSON_Delete(theirs);
    return 0;
}
