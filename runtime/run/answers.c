/* answers.c -- prompts of records, continued. */
#define _GNU_SOURCE
#include "runtime/run/answers.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"

/* How many tokens of a row are no answer. */
static int64_t prompt_of(const DataRow *row)
{
    int64_t n = 0;
    while (row->mask && n < row->n && !row->mask[n])
        n++;
    return n;
}

static DataRow record_at(Data *d, int64_t i)
{
    DataRow row = {.n = 0};
    if (!data_part_of_step(d, i / d->G, i % d->G, 0, &row))
        die(EXIT_INTERNAL, "answers: no record %lld", (long long)i);
    return row;
}

static int32_t *places(const Answers *a)
{
    int32_t *all = malloc(sizeof *all * (size_t)a->by->places);
    if (!all)
        die(EXIT_INTERNAL, "out of memory for an answer");
    return all;
}

int64_t answers_tokens(const Answers *a, Data *d, int64_t i, int32_t *to, int64_t *prompt)
{
    const DataRow row = record_at(d, i);
    const int64_t T = a->by->places;
    *prompt = prompt_of(&row);
    memcpy(to, row.token, sizeof *to * (size_t)*prompt);
    if (*prompt < 1 || *prompt >= T)
        return 0;
    ContinuedText text = {.token = to, .n = *prompt, .number = d->base + i + 1};
    continuation(a->by, &a->how, a->t, &text, 1, &(ContinuationCost){0});
    return text.more;
}

/* malloc'ed */
typedef struct {
    char *prompt, *answer, *own; /* own: the record's */
} Texts;

static Texts texts_of(const Answers *a, Data *d, int64_t i)
{
    int32_t *token = places(a);
    int64_t prompt, n = answers_tokens(a, d, i, token, &prompt);
    const DataRow row = record_at(d, i);
    Texts t = {continuation_text(a->t, row.token, prompt, NULL), continuation_text(a->t, token + prompt, n, NULL),
               continuation_text(a->t, row.token + prompt, row.n - prompt, NULL)};
    free(token);
    return t;
}

static void texts_free(Texts *t)
{
    free(t->prompt), free(t->answer), free(t->own);
}

cJSON *answers_list(const Answers *a, Data *d, int64_t n)
{
    cJSON *all = cJSON_CreateArray();
    for (int64_t i = 0; i < n; i++) {
        Texts t = texts_of(a, d, i);
        cJSON_AddItemToArray(all, cJSON_CreateString(t.answer));
        texts_free(&t);
    }
    return all;
}

char *answers_text(const Answers *a, Data *d, int64_t n, const cJSON *theirs)
{
    enum { DIVIDER = 80 };
    char line[DIVIDER + 1], *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for answers");
    memset(line, '-', DIVIDER);
    line[DIVIDER] = 0;
    for (int64_t i = 0; i < n; i++) {
        Texts t = texts_of(a, d, i);
        const char *before = cJSON_GetStringValue(cJSON_GetArrayItem(theirs, (int)i));
        fprintf(to, "Input:\n%s\n\nReference:\n%s\n\nTrained:\n%s\n\nChosen:\n%s\n\n%s\n\n",
                t.prompt, before ? before : "", t.answer, t.own, line);
        texts_free(&t);
    }
    if (fclose(to))
        die(EXIT_INTERNAL, "out of memory for answers");
    return text;
}

void answers_print(const Answers *a, Data *d, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        Texts t = texts_of(a, d, i);
        cJSON *line = cJSON_CreateObject();
        cJSON_AddStringToObject(line, "prompt", t.prompt);
        cJSON_AddStringToObject(line, "answer", t.answer);
        cJSON_AddStringToObject(line, "chosen", t.own);
        char *said = cJSON_PrintUnformatted(line);
        if (world.rank == 0)
            puts(said);
        cJSON_Delete(line);
        free(said), texts_free(&t);
    }
}
