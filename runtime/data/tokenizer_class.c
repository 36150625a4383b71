/* tokenizer_class.c -- classes of transformers that rebuild a tokenizer instead of reading its
 * tokenizer.json.
 *
 * Method: of the classes that rebuild one, two are checked for building what the file has; any
 *         other is assumed to differ. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_class.h"

#include <string.h>

#include "runtime/data/tokenizer_parts.h"
#include "runtime/files/json.h"

const char tokenizer_class_plain[] = "PreTrainedTokenizerFast";

static const char qwen2_pattern[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char end_of_text[] = "<|endoftext|>";

static bool is_type(const cJSON *part, const char *type)
{
    return !strcmp(json_word(json_get(part, "type")), type);
}

static bool is_byte_level(const cJSON *part, bool regex)
{
    const cJSON *own = json_get(part, "use_regex");
    return is_type(part, "ByteLevel") && !cJSON_IsTrue(json_get(part, "add_prefix_space")) &&
           (!own || cJSON_IsTrue(own)) == regex;
}

static bool is_null(const cJSON *part) { return !part || cJSON_IsNull(part); }

static bool splits_as_gpt2(const cJSON *part) { return is_byte_level(part, true); }

static bool splits_as_qwen2(const cJSON *part)
{
    const cJSON *list = json_get(part, "pretokenizers"), *split = list ? list->child : NULL;
    return is_type(part, "Sequence") && cJSON_GetArraySize(list) == 2 && is_type(split, "Split") &&
           !strcmp(json_word(json_get(json_get(split, "pattern"), "Regex")), qwen2_pattern) &&
           !strcmp(json_word(json_get(split, "behavior")), "Isolated") &&
           !cJSON_IsTrue(json_get(split, "invert")) && is_byte_level(split->next, false);
}

static bool is_nfc(const cJSON *part)
{
    const cJSON *list = json_get(part, "normalizers");
    return is_type(part, "NFC") ||
           (is_type(part, "Sequence") && cJSON_GetArraySize(list) == 1 &&
            is_type(list->child, "NFC"));
}

/* What a class builds. named: keys of tokenizer_config.json that are <|endoftext|> by default. */
static const struct {
    const char *class;
    bool (*normalizes)(const cJSON *), (*splits)(const cJSON *);
    const char *named[3];
} built[] = {
    {"GPT2Tokenizer", is_null, splits_as_gpt2, {"unk_token", "bos_token", "eos_token"}},
    {"Qwen2Tokenizer", is_nfc, splits_as_qwen2, {"unk_token", "eos_token", "pad_token"}}};

/* True for the class and its name with Fast. */
static bool is_class(const char *class, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(class, name, n) && (!class[n] || !strcmp(class + n, "Fast"));
}

/* True for byte-level BPE without options. */
static bool is_plain_bpe(const cJSON *model)
{
    static const char *const on[] = {"ignore_merges", "byte_fallback"},
                            *const text[] = {"unk_token", "continuing_subword_prefix",
                                             "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof on / sizeof *on; i++)
        if (cJSON_IsTrue(json_get(model, on[i])))
            return false;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        const char *own = cJSON_GetStringValue(json_get(model, text[i]));
        if (own && *own)
            return false;
    }
    return is_type(model, "BPE") && is_null(json_get(model, "dropout"));
}

static bool has_token(const cJSON *tokenizer, const char *token)
{
    const cJSON *added = json_get(tokenizer, "added_tokens");
    for (const cJSON *a = added ? added->child : NULL; a; a = a->next)
        if (!strcmp(json_word(json_get(a, "content")), token))
            return true;
    return json_get(json_get(json_get(tokenizer, "model"), "vocab"), token);
}

const char *tokenizer_class_differs(const char *class, const cJSON *tokenizer, const cJSON *config)
{
    if (is_class(class, "PreTrainedTokenizer") || is_class(class, "TokenizersBackend"))
        return NULL;
    for (size_t i = 0; i < sizeof built / sizeof *built; i++) {
        if (!is_class(class, built[i].class))
            continue;
        if (!is_plain_bpe(json_get(tokenizer, "model")))
            return "its model";
        if (!built[i].normalizes(json_get(tokenizer, "normalizer")))
            return "its normalizer";
        if (!built[i].splits(json_get(tokenizer, "pre_tokenizer")))
            return "its pre_tokenizer";
        for (int k = 0; k < 3 && !has_token(tokenizer, end_of_text); k++)
            if (!json_get(config, built[i].named[k]))
                return "a token <|endoftext|>, which it lacks,";
        return NULL;
    }
    return "its parts";
}

const char *tokenizer_class_of(const char *model_type)
{
    static const struct { const char *type, *class; } row[] = {
        {"gpt2", "GPT2Tokenizer"},     {"qwen2", "Qwen2Tokenizer"},
        {"qwen3", "Qwen2Tokenizer"},   {"gemma", "GemmaTokenizer"},
        {"gemma3_text", "GemmaTokenizer"}, {"bert", "BertTokenizer"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].type, model_type))
            return row[i].class;
    return NULL;
}

const char *tokenizer_class_forced(const char *model_type)
{
    return strcmp(model_type, "qwen2") ? NULL : tokenizer_class_of(model_type);
}
