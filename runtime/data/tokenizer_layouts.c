/* tokenizer_layouts.c -- vocabularies of bytes and of plain words as a tokenizer.json, for other
 * programs.
 *
 * Out: bytes: byte-level BPE without merges: the 256 bytes are tokens 0 to 255, <|endoftext|> is
 *      256; words, "token": id: what Hugging Face tokenizers writes for such a tokenizer. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/data/words.h"
#include "runtime/files/json.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Returns the vocabulary, each byte in the byte alphabet. */
static cJSON *byte_vocabulary(void)
{
    enum { ALPHABET = 0x100 + 68 };
    char text[256][3] = {{0}}, byte;
    cJSON *vocab = cJSON_CreateObject();
    for (int c = 1; c < ALPHABET; c++) {
        const char utf8[3] = {(char)(c < 0x80 ? c : 0xc0 | c >> 6),
                              (char)(c < 0x80 ? 0 : 0x80 | (c & 0x3f)), 0};
        size_t n;
        if (bpe_unmap(utf8, strlen(utf8), &byte, &n))
            memcpy(text[(unsigned char)byte], utf8, sizeof utf8);
    }
    for (int b = 0; b < 256; b++)
        cJSON_AddNumberToObject(vocab, text[b], b);
    return vocab;
}

char *tokenizer_bytes_file(void)
{
    static const char layout[] =
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[{\"id\":256,"
        "\"content\":\"<|endoftext|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
        "\"normalized\":false,\"special\":true}],\"normalizer\":null,\"pre_tokenizer\":{"
        "\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
        "\"use_regex\":false},\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\"model\":{"
        "\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
        "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
        "\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{},\"merges\":[]}}";
    cJSON *json = cJSON_Parse(layout);
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItem(json, "model"), "vocab",
                                           byte_vocabulary());
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    if (!text)
        abort();
    return text;
}

bool tokenizer_is_bytes(const char *text, size_t n)
{
    char *bytes_file = tokenizer_bytes_file();
    const bool is = strlen(bytes_file) == n && !memcmp(bytes_file, text, n);
    free(bytes_file);
    return is;
}

/* ---- words ----------------------------------------------------------------------------------- */

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
