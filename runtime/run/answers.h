/* answers.h -- what a model answers to the prompts of records, for people.
 *
 * In:    records of two answers, parts 0 and 1, behind a prompt of as many tokens as column 0 says, where it is
 *        there; else of those that both begin with, up to the first whose mask is 1. A view of them (data_view());
 *        the answer of part 0 is the one beside ours.
 * Keeps: all ranks call and have the same; a record's answer depends on the weights, its prompt,
 *        its place and Sampling alone. */
#ifndef DIECAST_ANSWERS_H
#define DIECAST_ANSWERS_H

#include "runtime/data/data.h"
#include "runtime/run/continuation.h"
#include <cjson/cJSON.h>

typedef struct {
    const Decoder *by;
    const Tokenizer *t;
    Sampling how;
} Answers;

typedef struct {
    int32_t *token;              /* (by->places) the prompt, behind it the answer; malloc'ed */
    int64_t prompt, n;           /* tokens of both */
} Answer;

/* To n records from `first` on, side by side; a prompt that leaves no room has none. */
Answer *answers_of(const Answers *a, Data *d, int64_t first, int64_t n);
void answers_free(Answer *all, int64_t n);
/* To the first n records: an array of strings. */
cJSON *answers_list(const Answers *a, Data *d, int64_t n);
/* Of the first n records: prompt, theirs[i], the answer of now, that of the record; malloc'ed. */
char *answers_text(const Answers *a, Data *d, int64_t n, const cJSON *theirs);
/* From rank 0, a line of JSON each: prompt, answer, chosen (that of the record). */
void answers_print(const Answers *a, Data *d, int64_t n);

#endif
