/* answers.c -- generates answers, and scores recorded and generated ones. */
#define _GNU_SOURCE
#include "answers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/vocabulary.h"  // the tokenizer that weights were trained with
#include "runtime/files/json.h"
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/chat.h"         // --chat
#include "runtime/run/generate.h"     // --sample, --prompts
#include "runtime/run/records.h"      // the tokenizer that --tokenizer names
#include "step.h"                     // io, model

//@ from ../common.c decoder

static const int examples[SPLITS] = {[TEST] = 5, [VALIDATION] = 3};

int64_t examples_of(Split s)
{
    return split[s].n < examples[s] ? split[s].n : examples[s];
}

Answers answers_by(const Tokenizer *t)
{
    return (Answers){.by = &decoder, .t = t, .how = generate_sampling(flags)};
}

Tokenizer *find_tokenizer(const Flags *f, const WeightFolders folder, const char *without)
{
    const Data *d = pairs_known();
    Tokenizer *t = vocabulary_of_data(d, records_tokenizer(f), folder, WEIGHT_FOLDERS);
    if (!t)
        note("no tokenizer.json with the id %s was named, or found next to the weights or the "
             "records: %s; name one with --tokenizer FILE", d->tokenizer, without);
    return t;
}

/* ---- commands -------------------------------------------------------------------------------- */

//@ from ../common.c talk

/* Opens the records of a command and returns a split without training records: the test split, or
 * the validation split if there is none. */
static Data *open_held_out(const Flags *f, const WeightFolders folder, const char *flag)
{
    static Data train, eval;
    if (!records_validate(f))
        die(EXIT_CONFIG, "%s needs records that are not trained on: --data FILE and "
            "--eval-share X, or --eval-data FILE", flag);
    objective_open(f, &train, &eval);
    objective_suit(folder, &eval);
    return &split[split[TEST].n ? TEST : VALIDATION];
}

/* --answers N: a line of JSON for each record. */
static int answers(const Flags *f, const WeightFolders folder)
{
    Data *d = open_held_out(f, folder, "--answers");
    Tokenizer *t = find_tokenizer(f, folder, "nothing is answered");
    if (!t)
        return EXIT_CONFIG;
    const Answers by = answers_by(t);
    answers_print(&by, d, f->answers < d->n ? f->answers : d->n);
    tokenizer_free(t);
    return EXIT_OK;
}

/* Log-probability and number of the tokens of answers. */
typedef struct {
    double sum, tokens;
} Logp;

/* Adds an answer of micro-batch 0, after step_score(). */
static void add_score(Logp *to, int64_t answer)
{
    const double n = (double)pairs_targets(answer);
//@ if DPO_LOGP=mean
    to->sum += io.score[answer] * n;
//@ end
//@ if DPO_LOGP=sum
    to->sum += io.score[answer];
//@ end
    to->tokens += n;
}

/* The model's own answers to the first records, each scored alone; the same on every rank. */
static Logp score_own(const Tokenizer *t, Data *d)
{
    const Answers by = answers_by(t);
    Logp sum = {0, 0};
    const int64_t some = d->n < examples[TEST] ? d->n : examples[TEST];
    Answer *all = answers_of(&by, d, 0, some);
    for (int64_t i = 0; i < some; i++) {
        uint8_t mask[T];
        const int64_t prompt = all[i].prompt, n = all[i].n < N ? all[i].n : N;
        for (int64_t at = 0; at < T; at++)
            mask[at] = at >= prompt;
        pairs_fill_alone(&(DataRow){.token = all[i].token, .mask = mask, .n = prompt + n});
        step_score();
        step_wait();
        add_score(&sum, 0);
    }
    answers_free(all, some);
    return sum;
}

static double perplexity_of(Logp n)
{
    return n.tokens > 0 ? exp(-n.sum / n.tokens) : 0;
}

/* --perplexity: one line of JSON. */
static int perplexity(const Flags *f, const WeightFolders folder)
{
    Data *d = open_held_out(f, folder, "--perplexity");
    Logp of[ANSWERS] = {{0, 0}};
    for (int64_t b = 0; b < data_steps_per_epoch(d); b++) {
        pairs_fill(d, b, 0);
        step_score();
        step_wait();
        comm_advance();
        for (int64_t i = 0; i < BOTH; i++)
            add_score(&of[i % ANSWERS], i);
    }
    comm_allreduce_double(&of[0].sum, 2 * ANSWERS);
    Tokenizer *t = find_tokenizer(f, folder, "the model's own answers are not scored");
    Logp generated = t ? score_own(t, d) : (Logp){0, 0};
    cJSON *line = cJSON_CreateObject();
    json_add_float(line, "chosen_perplexity", perplexity_of(of[CHOSEN]));
    json_add_float(line, "rejected_perplexity", perplexity_of(of[REJECTED]));
    if (generated.tokens > 0)
        json_add_float(line, "own_perplexity", perplexity_of(generated));
    else
        cJSON_AddNullToObject(line, "own_perplexity");
    cJSON_AddNumberToObject(line, "records", (double)d->n);
    cJSON_AddNumberToObject(line, "own_tokens", generated.tokens);
    if (world.rank == 0)
        json_say(line);
    else
        cJSON_Delete(line);
    if (t)
        tokenizer_free(t);
    return EXIT_OK;
}

const ObjectiveCommand commands[] = {
    {FLAG_sample, sample},   {FLAG_prompts, sample},       {FLAG_chat, chat},
    {FLAG_answers, answers}, {FLAG_perplexity, perplexity}, {0, NULL}};
