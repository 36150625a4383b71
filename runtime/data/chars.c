/* chars.c -- character vocabulary: a WordLevel model whose words are characters. */
#define _GNU_SOURCE
#include "runtime/data/chars.h"

#include "runtime/base.h"
#include "runtime/data/tokenizer_parts.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { CODE_POINTS = 0x110000 };

struct Chars {
    Tokenizer *t;                /* has only the specials */
    int64_t n;
    unsigned char *seen;         /* (CODE_POINTS) */
};

static const char *const specials[CHARS_SPECIALS] = {"[PAD]", "[BOS]", "[EOS]", "[MASK]"};
static const char *const roles[CHARS_SPECIALS] = {"pad_token", "bos_token", "eos_token",
                                                  "mask_token"};
enum { BOS = 1, MASK = 3 };

/* ---- the layout ------------------------------------------------------------------------------ */

/* The file Hugging Face tokenizers writes for such a tokenizer, without ids and characters. */
static const char layout_text[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
    "\"normalizer\":null,"
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\","
    "\"invert\":false},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\","
    "\"single\":[{\"SpecialToken\":{\"id\":\"[BOS]\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
    "\"pair\":[{\"SpecialToken\":{\"id\":\"[BOS]\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}],"
    "\"special_tokens\":{\"[BOS]\":{\"id\":\"[BOS]\",\"ids\":[1],\"tokens\":[\"[BOS]\"]}}},"
    "\"decoder\":{\"type\":\"Fuse\"},"
    "\"model\":{\"type\":\"WordLevel\",\"vocab\":{},\"unk_token\":\"\"}}";

static void special_put(cJSON *json, cJSON *vocab, int which, int64_t id)
{
    static const char *const flag[] = {"single_word", "lstrip", "rstrip", "normalized"};
    cJSON *token = cJSON_CreateObject();
    cJSON_AddNumberToObject(token, "id", (double)id);
    cJSON_AddStringToObject(token, "content", specials[which]);
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        cJSON_AddFalseToObject(token, flag[i]);
    cJSON_AddTrueToObject(token, "special");
    cJSON_AddItemToArray(cJSON_GetObjectItem(json, "added_tokens"), token);
    cJSON_AddNumberToObject(vocab, specials[which], (double)id);
}

static char *text_of(const cJSON *json)
{
    char *text;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    if (!to || !json_write_hf(to, json) || fclose(to))
        abort();                 /* out of memory */
    return text;
}

static char *layout(const Chars *c)
{
    cJSON *json = cJSON_Parse(layout_text),
          *vocab = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "model"), "vocab");
    int64_t id = 0;
    cJSON *split = cJSON_GetObjectItem(json, "pre_tokenizer");
    cJSON_AddStringToObject(cJSON_GetObjectItem(split, "pattern"), "Regex", TOKENIZER_CHARACTERS);
    for (int i = 0; i < MASK; i++)
        special_put(json, vocab, i, id++);
    cJSON *last = vocab->child->prev;    /* append directly: cJSON would walk the list each time */
    for (uint32_t p = 1; p < CODE_POINTS; p++) {
        char text[5] = "";
        if (!c->seen[p])
            continue;
        utf8_put(text, p);
        cJSON *item = cJSON_CreateNumber((double)id++);
        item->string = strdup(text);
        last->next = item;
        item->prev = last;
        last = item;
    }
    vocab->child->prev = last;
    special_put(json, vocab, MASK, id);
    char *text = text_of(json);
    cJSON_Delete(json);
    return text;
}

void chars_vocabulary(const Chars *c, char **tokenizer, char **config)
{
    cJSON *json = cJSON_CreateObject();
    for (int i = 0; i < CHARS_SPECIALS; i++)
        cJSON_AddStringToObject(json, roles[i], specials[i]);
    cJSON_AddStringToObject(json, "tokenizer_class", "PreTrainedTokenizerFast");
    *config = text_of(json);
    *tokenizer = layout(c);
    cJSON_Delete(json);
}

/* ---- counting -------------------------------------------------------------------------------- */

static void note_character(void *user, const char *text, size_t n)
{
    Chars *c = user;
    uint32_t p = utf8_value(text, (int)n);
    c->n += !c->seen[p];
    c->seen[p] = 1;
}

char *chars_begin(Chars **to)
{
    Chars *c = calloc(1, sizeof *c);
    if (!c || !(c->seen = calloc(CODE_POINTS, 1)))
        abort();
    char *text = layout(c), *error = tokenizer_parse(&c->t, text, strlen(text), NULL, 0);
    free(text);
    if (error) {
        chars_free(c);
        return error;
    }
    c->t->each = note_character;
    c->t->user = c;
    *to = c;
    return NULL;
}

const Tokenizer *chars_counter(const Chars *c)
{
    return c->t;
}

int64_t chars_distinct(const Chars *c)
{
    return c->n;
}

void chars_free(Chars *c)
{
    if (!c)
        return;
    tokenizer_free(c->t);
    free(c->seen);
    free(c);
}
