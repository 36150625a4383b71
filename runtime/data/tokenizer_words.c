/* tokenizer_words.c -- converts a plain word vocabulary, "token": id, to a tokenizer.json. */
#include "runtime/data/words.h"

#include "runtime/base.h"
#include "runtime/data/tokenizer_parts.h"
#include "runtime/files/json.h"

#include <string.h>

const char *const words_special[WORDS_SPECIALS] = {"[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"};
enum { CLS = 1, SEP = 2, UNKNOWN = 3 };

/* The file Hugging Face tokenizers writes for such a tokenizer, without ids and words. */
static const char layout_text[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Replace\",\"pattern\":{},"
    "\"content\":\"\u03c2\"},{\"type\":\"Lowercase\"}]},"
    "\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\","
    "\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\","
    "\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}],"
    "\"pair\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\","
    "\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}},{\"Sequence\":{\"id\":"
    "\"B\",\"type_id\":1}},{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":1}}],"
    "\"special_tokens\":{}},\"decoder\":null,"
    "\"model\":{\"type\":\"WordLevel\",\"vocab\":{},\"unk_token\":\"[UNK]\"}}";

bool words_plain(const cJSON *json)
{
    return cJSON_IsObject(json) && cJSON_IsNumber(json->child);
}

static cJSON *added_token(const char *content, int id)
{
    static const char *const flag[] = {"single_word", "lstrip", "rstrip", "normalized"};
    cJSON *token = cJSON_CreateObject();
    cJSON_AddNumberToObject(token, "id", id);
    cJSON_AddStringToObject(token, "content", content);
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        cJSON_AddFalseToObject(token, flag[i]);
    cJSON_AddTrueToObject(token, "special");
    return token;
}

/* A special token around a text. */
static void template_put(cJSON *to, const char *content, int id)
{
    cJSON *token = cJSON_AddObjectToObject(to, content);
    cJSON_AddStringToObject(token, "id", content);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(token, "ids"), cJSON_CreateNumber(id));
    cJSON_AddItemToArray(cJSON_AddArrayToObject(token, "tokens"), cJSON_CreateString(content));
}

char *words_layout(const cJSON *plain, cJSON **layout)
{
    cJSON *json = cJSON_Parse(layout_text), *model = cJSON_GetObjectItem(json, "model");
    cJSON *steps = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "normalizer"), "normalizers");
    cJSON *around = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "post_processor"),
                                        "special_tokens");
    cJSON_AddStringToObject(cJSON_GetObjectItem(steps->child, "pattern"), "Regex",
                            NORMAL_SIGMA_REGEX);
    for (int i = 0; i < WORDS_SPECIALS; i++) {
        const cJSON *id = json_get(plain, words_special[i]);
        bool needed = i == CLS || i == SEP || i == UNKNOWN;
        if (tokens_json_id(id) < 0 && (id || needed)) {
            cJSON_Delete(json);
            return format("a plain vocabulary, \"token\": id, without an id for %s",
                          words_special[i]);
        }
        if (id)
            cJSON_AddItemToArray(cJSON_GetObjectItem(json, "added_tokens"),
                                 added_token(words_special[i], tokens_json_id(id)));
        if (i == CLS || i == SEP)
            template_put(around, words_special[i], tokens_json_id(id));
    }
    cJSON *vocab = cJSON_Duplicate(plain, true);
    cJSON_ReplaceItemInObjectCaseSensitive(model, "vocab", vocab);
    *layout = json;
    return NULL;
}
