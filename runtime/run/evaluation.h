/* evaluation.h -- how well a model learns in context, in the tasks that it was not trained on: agents of all
 * ranks, one report.
 *
 * In:    flags, a program that tells the next action (runtime/run/incontext.h). */
#ifndef DIECAST_EVALUATION_H
#define DIECAST_EVALUATION_H

#include "runtime/run/flags.h"
#include "runtime/run/incontext.h"
#include "runtime/run/returns.h"

typedef struct {
    const Actor *actor;
    ContextRules rules;
    bool reset;                  /* InContext.reset */
} Evaluation;

/* --evaluate: a line of JSON for each task on standard output and one over all, by rank 0; in OUT
 * eval_result.npy and .json, of one task (--goal-idx K) eval_result_goalK. weights: the folder that
 * they are of, NULL: random ones. The exit status, EXIT_STOPPED when a signal ended it: then nothing
 * is written; all ranks call. */
int evaluation_report(const Evaluation *e, const Flags *f, const char *weights);
/* Beside training: over all test tasks and --eval-episodes of each; a line in the log. All ranks have
 * the same; false: a rank was asked to stop before it was done, *to is as it was. */
bool evaluation_measure(const Evaluation *e, const Flags *f, Earned *to);

/* Files of OUT that evaluation_report() writes, behind the last NULL. */
extern const char *const evaluation_files[];

#endif
