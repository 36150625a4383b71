/* tokenizer_bytes.c -- the byte vocabulary as a tokenizer.json, for other programs.
 *
 * Out: byte-level BPE without merges: the 256 bytes are tokens 0 to 255, <|endoftext|> is 256. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

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
    char *own = tokenizer_bytes_file();
    const bool is = strlen(own) == n && !memcmp(own, text, n);
    free(own);
    return is;
}
