/* words.c -- vocabularies of whole words: the plain tokenizer.json, and one counted from texts.
 *
 * Method: words are counted in a hash table in the order of their first occurrence. */
#define _GNU_SOURCE
#include "runtime/data/words.h"

#include "runtime/base.h"
#include "runtime/data/tokenizer_parts.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

static const char *const specials[] = {"[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"};
enum { CLS = 1, SEP = 2, UNKNOWN = 3 };
_Static_assert(sizeof specials / sizeof *specials == WORDS_SPECIALS, "as the header says");

/* ---- the layout ------------------------------------------------------------------------------ */

/* What Hugging Face tokenizers write for such a tokenizer, but for ids and words. */
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
        const cJSON *id = json_get(plain, specials[i]);
        bool needed = i == CLS || i == SEP || i == UNKNOWN;
        if (tokens_json_id(id) < 0 && (id || needed)) {
            cJSON_Delete(json);
            return format("a plain vocabulary, \"token\": id, without an id for %s", specials[i]);
        }
        if (id)
            cJSON_AddItemToArray(cJSON_GetObjectItem(json, "added_tokens"),
                                 added_token(specials[i], tokens_json_id(id)));
        if (i == CLS || i == SEP)
            template_put(around, specials[i], tokens_json_id(id));
    }
    cJSON *vocab = cJSON_Duplicate(plain, true);
    cJSON_ReplaceItemInObjectCaseSensitive(model, "vocab", vocab);
    *layout = json;
    return NULL;
}

/* ---- counting -------------------------------------------------------------------------------- */

typedef struct {
    char *text;
    size_t n;
    int64_t count;
} Word;

struct Words {
    Tokenizer *t;                /* of the specials alone */
    Word *word;                  /* in the order of their first occurrence */
    int64_t n, cap;
    int64_t *table;              /* hash -> word + 1, 0: empty */
    uint64_t mask;
};

static cJSON *specials_alone(void)
{
    cJSON *plain = cJSON_CreateObject();
    for (int i = 0; i < WORDS_SPECIALS; i++)
        cJSON_AddNumberToObject(plain, specials[i], i);
    return plain;
}

static int64_t *slot_of(const Words *w, const char *text, size_t n)
{
    for (uint64_t i = tokens_hash(text, n, false);; i++) {
        int64_t *slot = &w->table[i & w->mask];
        const Word *k = *slot ? &w->word[*slot - 1] : NULL;
        if (!k || (k->n == n && !memcmp(k->text, text, n)))
            return slot;
    }
}

static void table_grow(Words *w)
{
    w->mask = 2 * w->mask + 1;
    free(w->table);
    w->table = calloc(w->mask + 1, sizeof *w->table);
    for (int64_t i = 0; i < w->n; i++)
        *slot_of(w, w->word[i].text, w->word[i].n) = i + 1;
}

static void count(void *user, const char *text, size_t n)
{
    Words *w = user;
    int64_t *slot = slot_of(w, text, n);
    if (*slot) {
        w->word[*slot - 1].count++;
        return;
    }
    if (w->n == w->cap) {
        w->cap = 2 * w->cap + 1024;
        w->word = realloc(w->word, (size_t)w->cap * sizeof *w->word);
    }
    char *copy = malloc(n + 1);
    if (!w->word || !copy)
        abort();
    memcpy(copy, text, n);
    copy[n] = 0;
    w->word[w->n++] = (Word){copy, n, 1};
    *slot = w->n;
    if ((uint64_t)w->n * 2 > w->mask)
        table_grow(w);
}

char *words_begin(Words **to)
{
    Words *w = calloc(1, sizeof *w);
    cJSON *plain = specials_alone();
    char *text = cJSON_PrintUnformatted(plain);
    char *error = tokenizer_parse(&w->t, text, strlen(text), NULL, 0);
    cJSON_Delete(plain);
    free(text);
    w->mask = 1023;
    w->table = calloc(w->mask + 1, sizeof *w->table);
    if (error) {
        words_free(w);
        return error;
    }
    w->t->each = count;
    w->t->user = w;
    *to = w;
    return NULL;
}

const Tokenizer *words_counter(const Words *w)
{
    return w->t;
}

int64_t words_distinct(const Words *w)
{
    return w->n;
}

/* Words by count, falling; equal ones as they first came, which is where they stand. */
static int count_order(const void *pa, const void *pb)
{
    const Word *a = *(const Word *const *)pa, *b = *(const Word *const *)pb;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return a < b ? -1 : 1;
}

void words_vocabulary(const Words *w, int64_t most, char **plain, char **twin)
{
    const Word **order = malloc(((size_t)w->n + 1) * sizeof *order);
    cJSON *json = specials_alone(), *layout;
    size_t n;
    for (int64_t i = 0; i < w->n; i++)
        order[i] = &w->word[i];
    qsort(order, (size_t)w->n, sizeof *order, count_order);
    for (int64_t i = 0; i < w->n && i < most; i++)
        cJSON_AddNumberToObject(json, order[i]->text, (double)(WORDS_SPECIALS + i));
    char *error = words_layout(json, &layout);
    FILE *to = open_memstream(plain, &n);
    bool good = !error && to && json_write_object(to, json) && !fclose(to);
    to = good ? open_memstream(twin, &n) : NULL;
    if (!to || !json_write_hf(to, layout) || fclose(to))
        abort();                 /* out of memory */
    cJSON_Delete(json);
    cJSON_Delete(layout);
    free(order);
}

void words_free(Words *w)
{
    if (!w)
        return;
    for (int64_t i = 0; i < w->n; i++)
        free(w->word[i].text);
    free(w->word);
    free(w->table);
    tokenizer_free(w->t);
    free(w);
}
