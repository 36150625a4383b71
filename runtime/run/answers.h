/* answers.h -- answers generated for the prompts of preference records.
 *
 * In:    a view (data_view()) of records with two answers, parts 0 (the chosen one) and 1. Column 0
 *        holds the prompt's length in tokens; without that column the prompt is the common prefix
 *        of both parts, up to the first token with mask 1.
 * Keeps: collective, with the same result on every rank. A record's answer depends only on the
 *        weights, its prompt, its index and Sampling. */
#ifndef DIECAST_ANSWERS_H
#define DIECAST_ANSWERS_H

#include "runtime/data/data.h"
#include "runtime/run/generate.h"
#include <cjson/cJSON.h>

typedef struct {
    const Decoder *by;
    const Tokenizer *t;
    Sampling how;
} Answers;

typedef struct {
    int32_t *token;              /* (by->places) prompt, then answer; malloc'ed */
    int64_t prompt, n;           /* lengths of prompt and answer in tokens */
} Answer;

/* Answers records first .. first + n-1, batched. A prompt that leaves no room gets an empty answer.
 * Free with answers_free(). */
Answer *answers_of(const Answers *a, Data *d, int64_t first, int64_t n);
void answers_free(Answer *all, int64_t n);
/* Returns the answers to the first n records as an array of strings; the caller deletes it. */
cJSON *answers_list(const Answers *a, Data *d, int64_t n);
/* Returns text with, for each of the first n records, the prompt, theirs[i], the model's current
 * answer and the recorded one; malloc'ed. */
char *answers_text(const Answers *a, Data *d, int64_t n, const cJSON *theirs);
/* Prints one JSON line per record on rank 0: prompt, answer, chosen (the recorded answer). */
void answers_print(const Answers *a, Data *d, int64_t n);

#endif
