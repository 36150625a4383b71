/* answers.c -- batched generation for the prompts of preference records; see answers.h. */
#define _GNU_SOURCE
#include "runtime/run/answers.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

static DataRow record_at(Data *d, int64_t i, int part)
{
    DataRow row = {.n = 0};
    if (!data_part_of_step(d, i / d->G, i % d->G, part, &row))
        die(EXIT_INTERNAL, "answers: no record %lld", (long long)i);
    return row;
}

/* Returns the length of a record's prompt in tokens. Files without that column (older ones, or
 * those in which every token of an answer is a target): the common prefix of both parts. */
static int64_t prompt_of(Data *d, int64_t i)
{
    const DataRow a = record_at(d, i, 0), b = record_at(d, i, 1);
    int64_t n = 0, one;
    const int32_t *recorded = data_column(d, 0, a.sample, &one);
    const int32_t prompt = recorded ? *recorded : 0;
    if (recorded && (prompt < 1 || prompt >= a.n))
        die(EXIT_DATA,
            "record %lld: column prompt: %d, must be from 1 to %lld, its tokens less one: pack it "
            "again",
            (long long)(d->base + a.sample), prompt, (long long)a.n - 1);
    if (recorded)
        return prompt;
    while (n < a.n && n < b.n && a.token[n] == b.token[n] && a.mask && !a.mask[n] && b.mask &&
           !b.mask[n])
        n++;
    return n;
}

static void *room(int64_t n, size_t size)
{
    void *p = calloc((size_t)(n + 1), size);
    if (!p)
        die(EXIT_INTERNAL, "out of memory for answers");
    return p;
}

Answer *answers_of(const Answers *a, Data *d, int64_t first, int64_t n)
{
    Answer *all = room(n, sizeof *all);
    GeneratedText *text = room(n, sizeof *text);
    int64_t asked = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t prompt = prompt_of(d, first + i);
        const DataRow row = record_at(d, first + i, 0);
        all[i] = (Answer){.token = room(a->by->positions, sizeof *all->token), .prompt = prompt};
        memcpy(all[i].token, row.token, sizeof *all->token * (size_t)all[i].prompt);
        if (all[i].prompt >= 1 && all[i].prompt < a->by->positions)
            text[asked++] = (GeneratedText){.token = all[i].token, .n = all[i].prompt,
                                            .number = d->base + first + i + 1};
    }
    generate_texts(a->by, &a->how, a->t, text, asked, &(GenerateCost){0});
    for (int64_t k = 0; k < asked; k++)
        all[text[k].number - d->base - first - 1].n = text[k].more;
    free(text);
    return all;
}

void answers_free(Answer *all, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        free(all[i].token);
    free(all);
}

/* malloc'ed */
typedef struct {
    char *prompt, *answer, *recorded_answer;
} Texts;

static Texts *texts_of(const Answers *a, Data *d, int64_t first, int64_t n)
{
    Answer *all = answers_of(a, d, first, n);
    Texts *t = room(n, sizeof *t);
    for (int64_t i = 0; i < n; i++) {
        const DataRow row = record_at(d, first + i, 0);
        const int64_t prompt = all[i].prompt;
        t[i] = (Texts){generate_text(a->t, row.token, prompt, NULL),
                       generate_text(a->t, all[i].token + prompt, all[i].n, NULL),
                       generate_text(a->t, row.token + prompt, row.n - prompt, NULL)};
    }
    answers_free(all, n);
    return t;
}

static void texts_free(Texts *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        free(t[i].prompt), free(t[i].answer), free(t[i].recorded_answer);
    free(t);
}

cJSON *answers_list(const Answers *a, Data *d, int64_t n)
{
    cJSON *all = cJSON_CreateArray();
    Texts *t = texts_of(a, d, 0, n);
    for (int64_t i = 0; i < n; i++)
        cJSON_AddItemToArray(all, cJSON_CreateString(t[i].answer));
    texts_free(t, n);
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
    Texts *t = texts_of(a, d, 0, n);
    for (int64_t i = 0; i < n; i++) {
        const char *before = cJSON_GetStringValue(cJSON_GetArrayItem(theirs, (int)i));
        fprintf(to, "Input:\n%s\n\nReference:\n%s\n\nTrained:\n%s\n\nChosen:\n%s\n\n%s\n\n",
                t[i].prompt, before ? before : "", t[i].answer, t[i].recorded_answer, line);
    }
    texts_free(t, n);
    if (fclose(to))
        die(EXIT_INTERNAL, "out of memory for answers");
    return text;
}

void answers_print(const Answers *a, Data *d, int64_t n)
{
    const int64_t part = a->by->texts;
    for (int64_t at = 0; at < n; at += part) {
        const int64_t some = n - at < part ? n - at : part;
        Texts *t = texts_of(a, d, at, some);
        for (int64_t i = 0; i < some; i++) {
            cJSON *line = cJSON_CreateObject();
            cJSON_AddStringToObject(line, "prompt", t[i].prompt);
            cJSON_AddStringToObject(line, "answer", t[i].answer);
            cJSON_AddStringToObject(line, "chosen", t[i].recorded_answer);
            if (world.rank == 0)
                json_say(line);
            else
                cJSON_Delete(line);
        }
        texts_free(t, some);
    }
}
