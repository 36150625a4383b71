/* solutions.h -- step-labelled solutions as rows of a micro-batch.
 *
 * A score is read at each mark, the token after a step. Row b * MARKS + j of a micro-batch is mark
 * j of record b. */
#ifndef SOLUTIONS_H
#define SOLUTIONS_H

#include "objective.h"
#include "runtime/data/steps.h"
#include "runtime/pack/format_steps.h"
#include "shape.h"
#include "step.h"

extern const Flags *flags;           /* since objective_open() */
extern Data *trained;                /* --data */
extern Steps train_steps, eval_steps;
extern int32_t pad;                  /* token after the end of a solution */

extern const DataShape shape;
extern const FormatCode *const formats[];

/* Returns the rules for raw data; scored: labels are not needed. */
StepsRules steps_rules(bool scored);

/* Inputs for some records. */
typedef struct {
    int32_t *tokens;                 /* (records, T) */
    int32_t *rows;                   /* (records * MARKS) position of each mark; -1: none */
    int32_t *of;                     /* (records, T) inverse of rows; -1: no mark */
} Inputs;

//@ from ../common.c batch_at

Inputs inputs_at(int64_t micro);
/* Sets record b with its first `marks` marks; r NULL: an empty row. */
void set_record(const Inputs *to, int64_t b, const StepsRow *r, int marks);

/* The argument of functions that fill a record of a micro-batch, for workers_run(). */
typedef struct {
    const Steps *s;
    int64_t step, micro;
} Fill;

#endif
