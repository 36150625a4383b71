/* words.c -- word vocabulary, counted from texts.
 *
 * Method: words are counted in a hash table in the order of their first occurrence. */
#define _GNU_SOURCE
#include "runtime/data/words.h"

#include "runtime/base.h"
#include "runtime/data/tokenizer_parts.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    char *text;
    size_t n;
    int64_t count;
} Word;

struct Words {
    Tokenizer *t;                /* has only the specials */
    Word *word;                  /* in the order of their first occurrence */
    int64_t n, cap;
    int64_t *table;              /* hash -> word + 1, 0: empty */
    uint64_t mask;
};

static cJSON *specials_alone(void)
{
    cJSON *plain = cJSON_CreateObject();
    for (int i = 0; i < WORDS_SPECIALS; i++)
        cJSON_AddNumberToObject(plain, words_special[i], i);
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

/* Descending by count; ties by first occurrence, their order in memory. */
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

const WordsCode words_code = {words_begin, words_counter, words_distinct, words_vocabulary,
                              words_free};
