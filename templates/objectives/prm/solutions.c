/* solutions.c -- lays step-labelled solutions out as rows. */
#define _GNU_SOURCE
#include "solutions.h"

#include "runtime/base.h"             // format()
#include "runtime/data/vocabulary.h"  // the tokenizer that weights were trained with

const Flags *flags;
Data *trained;
Steps train_steps, eval_steps;
int32_t pad;

/* steps_open() checks the number of marks, which are the targets. */
const DataShape shape = {.kind = "@KIND@", .T = T, .vocab = V, .parts = steps_parts,
                         .columns = steps_columns, .finds_targets = true};

const FormatCode *const formats[] = {&steps_format, &stepwise_format, &candidates_format, NULL};

StepsRules steps_rules(bool scored)
{
    return (StepsRules){
        .mark = @PRM_MARK@, .steps = @PRM_STEPS@, .rewards = @PRM_REWARDS@, .unlabelled = true,
        .scored = scored,
//@ if PRM_NEW_MARK=true
        .mark_id = V - 1,        /* the row that was added to the model for it */
//@ end
//@ unless PRM_NEW_MARK=true
        .no_mark = format("gen %s prm.mark=NAME takes another one, prm.new_mark=true adds a row to "
                          "the model for it", model_words(&model, "prm.mark")),
//@ end
        .system = @PRM_SYSTEM@};
}

//@ from ../common.c suit

Inputs inputs_at(int64_t micro)
{
    const Batch to = batch_at(micro);
    return (Inputs){to.tokens, to.target_rows, to.target_of};
}

void set_record(const Inputs *to, int64_t b, const StepsRow *r, int marks)
{
    const int64_t n = r ? r->n : 0, first = b * T;
    for (int64_t t = 0; t < T; t++) {
        to->tokens[first + t] = t < n ? r->token[t] : pad;
        to->of[first + t] = -1;
    }
    for (int j = 0; j < MARKS; j++) {
        const bool there = r && j < marks;
        to->rows[b * MARKS + j] = there ? (int32_t)first + r->position[j] : -1;
        if (there)
            to->of[first + r->position[j]] = (int32_t)b * MARKS + j;
    }
}
