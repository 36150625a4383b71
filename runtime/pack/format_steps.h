/* format_steps.h -- step-labelled solutions as raw data: reading rules and parsed rows.
 *
 * format_steps.c converts them to rows, pack_steps.c rows to the records of
 * runtime/data/steps.h. */
#ifndef DIECAST_FORMAT_STEPS_H
#define DIECAST_FORMAT_STEPS_H

#include "runtime/data/steps.h"
#include "runtime/pack/pack.h"

#define PACK_MARK "<extra_0>"
#define PACK_STEPS 5
#define PACK_STEPS_SYSTEM "You check solutions of mathematical problems step by step."

/* PackOptions.more, Rules.more. mark NULL: step-labelled solutions are refused. */
typedef struct {
    const char *mark;            /* the token after each step */
    int64_t mark_id;             /* id to add if the tokenizer lacks it; 0: it must have it */
    const char *no_mark;         /* advice for the message if it lacks it */
    int64_t steps;               /* per solution, with a mark after all but the last; 0: 2 to 16 */
    int64_t rewards;             /* minimum number of labels; if steps is 0: one per mark */
    const char *system;          /* system message before the problem; "": none */
    bool unlabelled;             /* accept rows without any label */
    bool scored;                 /* labels do not matter, and fewer steps are accepted */
} StepsRules;

/* RowOut.more: a step-labelled solution, besides its tokens. */
typedef struct {
    int nlabels;                 /* labels, of the first marks */
    float label[STEPS_MARKS];
    int outcome, right;          /* 1 or 0; right also -1: unknown */
    bool no_outcome, no_problem; /* the row has none */
    bool preamble;               /* it has text before its first step */
    bool more;                   /* candidates: of the same row as the previous one */
    int candidate;               /* its number, from 1; 0: not a candidate */
    char *domain, *id;           /* malloc'ed, or NULL */
    char noisy;                  /* '1' or '0': its labels are known to be noisy or not; else '-' */
    size_t length;               /* of the row before it was cut */
} ParsedSteps;

/* pack_steps.c: tokens with the columns of runtime/data/steps.def. */
extern const RecordCode steps_records;

#endif
