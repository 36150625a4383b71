/* evaluation.h -- in-context evaluation on held-out tasks: agents on all ranks, one report.
 *
 * In:    flags, and a program that predicts the next action (runtime/run/incontext.h). */
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

/* Runs --evaluate: rank 0 prints one JSON line per task and one over all tasks, and writes
 * eval_result.npy and .json to OUT (eval_result_goalK for the single task of --goal-idx K).
 * weights: folder they came from, NULL: random. Collective. Returns the exit status; EXIT_STOPPED
 * after a signal, with nothing written. */
int evaluation_report(const Evaluation *e, const Flags *f, const char *weights);
/* During training: evaluates --eval-episodes episodes of every test task and logs one line. Every
 * rank gets the same *to. Returns false, with *to unchanged, if a rank was asked to stop. */
bool evaluation_measure(const Evaluation *e, const Flags *f, Earned *to);

/* Files in OUT written by evaluation_report(); ends with NULL. */
extern const char *const evaluation_files[];

#endif
