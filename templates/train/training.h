/* training.h -- state of a run, training steps, validation and checkpoints. */
#ifndef TRAINING_H
#define TRAINING_H

#include "objective.h"
#include "runtime/library.h"
#include "runtime/run/best.h"
#include "runtime/run/figures.h"
#include "runtime/run/log.h"

extern const ParamGroupRow param_groups[SETS];

/* Numbers that all ranks add up in a step: its metrics, then these. */
enum {
    SUM_STOP = STEP_METRICS,     /* ranks with a request to stop */
//@ if checkpoint_async
    SUM_WRITTEN,                 /* above 0: the checkpoint under way is written, or failed */
//@ end
    SUMS
};

typedef struct {
    Flags flags;
    Data train, eval;
    int command;                 /* its flag; -1: trains */
    bool trains, evaluates;      /* there are records to train on, to validate on */
    Checkpoints checkpoints;
    Log log;
    Epochs epochs;
    int64_t total;               /* steps */
    int64_t lr_ranks;            /* ranks that --lr-scale counts */
    int64_t ready;               /* the step whose inputs are in io; -1: none */
    /* Last step: sums over ranks, and the metrics computed from them. Last validation: its
     * metrics. */
    double sum[SUMS], metric[STEP_METRICS], validation[EVAL_METRICS];
    Best best;                   /* validation */
//@ if hook_wants_start
    char *began;                 /* crc32c of the initial weights; NULL: unknown */
//@ end
    char *stop_reason;           /* why the run ends before its last step; NULL: it does not */
    char *saved;                 /* the last checkpoint, if the next one copies files from it */
//@ if uses_tokens
    bool tokenizer_is_copy;      /* the tokenizer is the copy in the last checkpoint */
//@ end
//@ if hook_measured
    bool measurement_due;        /* the objective's record of this step was left on a stop */
//@ end
    char *changes;               /* flags that differ from those of the checkpoint, as text */
    char *logfile;               /* in OUT */
    int argc;
    char **argv;
    double started;              /* clock */
} Run;

/* Sets `list` to the libraries of the program, at most LIBRARY_VERSIONS; returns their number. */
int libraries_of_program(LibraryVersion *list);
/* Folders of the weights, for the objective. */
void folders_of(const Run *r, WeightFolders to);
/* Opens --data and --eval-data and checks that they suit the weights. */
void open_data(Run *r);
/* The second check alone. */
void check_records(const Run *r);
/* Finds the checkpoint to resume from and the data, checks that they fit together, and prints the
 * banner. */
void prepare(Run *r);
//@ if hook_wants_start
/* True if --init-from and --adapter name the initial weights of a checkpoint's run. */
bool names_start(const Flags *f);
//@ end
//@ if hook_loaded
/* Calls the objective's hook `loaded`.
//@ if hook_wants_start
 * If it asks for the initial weights, or flags name them, they are loaded for a second call.
//@ end
 */
void tell_loaded(Run *r);
//@ end
/* One optimiser step; fills the inputs of the next one while it runs. True if a rank received a
 * request to stop. */
bool train_step(Run *r, int64_t step, LogStep *report);
/* Metrics of a validation over all ranks. */
LogEval validate(Run *r);
/* The figures of the run folder. */
FiguresOf figures_of(const Flags *f);
/* The whole run. Returns the exit status. */
int train(Run *r);

#endif
