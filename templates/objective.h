/* objective.h -- what train.c asks of the objective; objective.c answers.
 *
 * Keeps: what a step reads from io, io.adamw_args aside, is written by the objective alone. */
#ifndef OBJECTIVE_H
#define OBJECTIVE_H

#include "runtime/data/data.h"
#include "runtime/run/checkpoint.h"
#include "runtime/run/epochs.h"
#include "runtime/run/flags.h"
#include "runtime/run/metrics.h"
#include "runtime/run/param_groups.h"
#include "runtime/run/show.h"

/* Folders of weights, the nearest first: a checkpoint, adapters, a model; NULL: none. */
enum { WEIGHT_FOLDERS = 3 };
typedef const char *WeightFolders[WEIGHT_FOLDERS];

/* Opens the records of --data and --eval-data, those that are given: all of them suit the model,
 * each other and what the flags say of them, on every rank; or the program ends. Before any
 * step. */
void objective_open(const Flags *f, Data *train, Data *eval);
/* The program ends unless the weights were made with such records, NULL: none. */
void objective_suit(const WeightFolders folder, const Data *records);

/* Parameter groups, each updated by itself. */
//@ sets

/* Every input of a step for step_train(). */
void objective_fill(Data *d, int64_t step);
/* The same of no meaning, for timing: as much work as a step can have. */
void objective_fill_any(void);
/* That work, of all ranks: what a second's rate is told of. */
int64_t objective_work(void);

/* What is reported; ranks give their part of each (runtime/run/metrics.h). */
//@ metrics
extern const Metrics objective_metrics;
/* Of a step that has run, until the one after the next is filled: STEP_METRICS sums. */
void objective_step(int64_t step, double *sum);
/* Validates on that many batches a rank: EVAL_METRICS sums. Writes over the inputs of a step. */
void objective_validate(Data *d, int64_t batches, double *sum);

/* A use of the program that other objectives do not have. The weights are loaded; returns the exit
 * status. */
typedef struct {
    int flag;                    /* FLAG_..., that asks for it */
    int (*run)(const Flags *f, const WeightFolders folder);
} ObjectiveUse;

/* Hooks of the objective; those that it has no use for are not in this program. All ranks call
 * each. After `updated` said so, and after `loaded`, `write` and a validation, the inputs of a step
 * are filled again. */
typedef struct {
    const ObjectiveUse *use;     /* behind the last one of run NULL */
//@ if hook_without
    const ObjectiveUse *without; /* the same, of those that want no weights: all folders are NULL */
//@ end
//@ if hook_banner
    /* Lines of its own in the banner, behind those that every run has; eval: NULL, none. */
    void (*banner)(const Flags *f, const Data *train, const Data *eval);
//@ end
    /* --show N: a row of the micro-batch as objective_fill() has made it (runtime/run/show.h).
     * Objectives that have it say USES(NAME, batches). */
    bool (*show)(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to);
//@ if hook_beside
    /* What data_fingerprint() says of records that steps take beside those of --data: a run goes on
     * with the same alone. malloc'ed. */
    char *(*beside)(void);
//@ end
//@ if hook_loaded
    /* The weights are in, before the first step or --eval-only. start: those that the run begins
     * with; else those of its checkpoint folder[0]. Returns whether it wants the former as well:
     * then they are loaded (EXIT_MISMATCH unless they are the same as at the beginning), it is
     * called with them, and those of the checkpoint come back. */
    bool (*loaded)(const Flags *f, const WeightFolders folder, bool start);
//@ end
//@ if hook_wants_start
    bool wants_start;            /* it may: a checksum of the former is kept (reads all of them) */
//@ end
//@ if hook_updated
    /* After each update by step_train(), also one that was skipped, the step counted from 0, of
     * `total`: updates of sets by schedules of the objective's own. For each
     *     param_group_begin(SET_x, turn, turns);  step_x();  step_wait();
     * turns: how many of them the run has; the rest, as whether the gradient is finite, is seen
     * to. sum: STEP_METRICS sums of that step over all ranks, in which it writes what its updates
     * tell, the same on all ranks. Returns whether inputs of a step were written over. */
    bool (*updated)(int64_t step, int64_t total, double *sum);
//@ end
//@ if hook_measured
    /* Behind each step, `step` of them done, and its validation: the members of a record of its
     * own, the same on all ranks; NULL: none is due. Writes over inputs of a step. *stop, in: the
     * run ends here, on request; out: one was made while it worked; then a record that is due is
     * left to the next start: NULL, and *left. */
    cJSON *(*measured)(int64_t step, bool *stop, bool *left);
//@ end
//@ if hook_updated_any
    /* The same for timing: upon objective_fill_any(), of which it writes over nothing. */
    void (*updated_any)(int64_t step, int64_t total);
//@ end
//@ if hook_round
    int64_t round;               /* steps from one such update to the next; 0: there is none */
//@ end
    /* Why a validation with these values, EVAL_METRICS of all ranks, ends the run, for people and
     * with the flag that decides; malloc'ed. NULL: it goes on. A function of the values and the
     * flags: a run that is found with such a validation is over unless other flags are given. */
    char *(*enough)(const double *eval);
//@ if hook_write
    /* Writes files of its own into f->out, from rank 0: behind each row of the epochs, that is
     * after each validation, at the end of each epoch and after the last step, then also when
     * the run is found finished. So it may not depend on earlier calls, and replaces what is
     * there, each folder or file at once: folder_replace() of runtime/files/folder.h;
     * epochs_csv() makes a table of it. NULL, or a malloc'ed message; a failure ends the run
     * only after the last step. */
    char *(*write)(const Flags *f, const WeightFolders folder, const Epochs *epochs);
//@ end
//@ if hook_name
    /* Of the checkpoint of that step, whose row, if there is one, is epochs_at(course, step); best:
     * after the best validation so far: a name of its own below OUT, "epochs/epoch_5", malloc'ed;
     * NULL: none. It stands there too, as long as nobody removes it, and --resume takes it. Rank 0
     * alone. */
    char *(*name)(const Epochs *epochs, int64_t step, bool best);
//@ end
//@ if hook_named
    /* Behind that, from rank 0; path: OUT/NAME. NULL, or a malloc'ed message, which is said. */
    char *(*named)(const Flags *f, const char *path, const Epochs *epochs);
//@ end
    /* Names in OUT that write() and name() make, or patterns of them, behind the last NULL: told at
     * the end, moved by --force. */
    const char *const *files;
//@ if hook_additions
    const Additions *additions;  /* what the model has besides its base; NULL: nothing */
//@ end
    const char *runs;            /* what TensorBoard calls its runs; NULL: as the recipe */
    const char *log;             /* pattern of a log file a start (runtime/run/logfile.h), else
                                  * training.log */
//@ if hook_finished
    /* With the weights of a run that is over, by its last step or early: after training, and in the
     * place of it when the run is found finished. last: of the checkpoint with these weights, for
     * export_write(). */
    void (*finished)(const Flags *f, const WeightFolders folder, const Checkpoints *last);
//@ end
} ObjectiveHooks;
extern const ObjectiveHooks objective_hooks;

#endif
