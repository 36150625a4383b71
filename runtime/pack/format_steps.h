/* format_steps.h -- solutions in steps as raw data: how they are to be read, what a row says.
 *
 * format_steps.c makes rows of them, pack_steps.c records of rows, as runtime/data/steps.h reads them. */
#ifndef DIECAST_FORMAT_STEPS_H
#define DIECAST_FORMAT_STEPS_H

#include "runtime/data/steps.h"
#include "runtime/pack/pack.h"

#define PACK_MARK "<extra_0>"
#define PACK_STEPS 5
#define PACK_STEPS_SYSTEM "You check solutions of mathematical problems step by step."

/* PackOptions.more, Rules.more. mark NULL: solutions in steps are refused. */
typedef struct {
    const char *mark;            /* the token behind steps */
    int64_t mark_id;             /* of a tokenizer that has no such token; 0: it has to have it */
    const char *no_mark;         /* what to do where it has none, for the message */
    int64_t steps;               /* of a solution, with a mark behind each but the last; 0: 2 to 16 */
    int64_t rewards;             /* labels, at least; of steps 0 as many as marks */
    const char *system;          /* what the model is told before the problem; "": nothing */
    bool unlabelled;             /* rows without any label are taken, too */
    bool scored;                 /* labels do not matter, and there may be fewer steps */
} StepsRules;

/* RowOut.more: what a solution in steps says beside its tokens. */
typedef struct {
    int nlabels;                 /* of the first marks */
    float label[STEPS_MARKS];
    int outcome, right;          /* 1 or 0; right also -1: not said */
    bool no_outcome, no_problem, preamble;   /* it does not say; text stands before its first step */
    bool more;                   /* candidates: of the same row as the one before */
    int candidate;               /* which of them, from 1; 0: it is none */
    char *domain, *id;           /* NULL: none; malloc'ed */
    char noisy;                  /* whether its labels are said to be noise: '0' or '1'; else '-' */
    size_t length;               /* of the row before it was cut */
} StepsSaid;

/* pack_steps.c: tokens with the columns of runtime/data/steps.def. */
extern const RecordCode steps_records;

#endif
