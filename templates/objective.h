/* objective.h -- the interface of the objective, which train.c and its modules call.
 *
 * Keeps: the objective alone writes the inputs of a step in io, except io.adamw_args. */
#ifndef OBJECTIVE_H
#define OBJECTIVE_H

#include "runtime/data/data.h"
#include "runtime/run/checkpoint.h"
//@ if hook_figures
#include "runtime/run/figures.h"
//@ end
#include "runtime/run/flags.h"
#include "runtime/run/metrics.h"
#include "runtime/run/param_groups.h"
#include "runtime/run/show.h"

/* Folders of the weights, innermost first: a checkpoint, adapters, a model; NULL: none. */
enum { WEIGHT_FOLDERS = 3 };
typedef const char *WeightFolders[WEIGHT_FOLDERS];

/* Opens the records of --data and --eval-data, if given, on every rank, before any step. Ends the
 * program unless they suit the model, each other and the flags. */
void objective_open(const Flags *f, Data *train, Data *eval);
/* Ends the program unless the weights were trained on such records; NULL: no records. */
void objective_suit(const WeightFolders folder, const Data *records);

/* Parameter groups. */
//@ sets

/* Fills the inputs of step_train(). */
void objective_fill(Data *d, int64_t step);
/* Fills them with arbitrary values, for timing: as much work as a step can have. */
void objective_fill_any(void);
/* Units of work in such a step, over all ranks; the log shows their rate. */
int64_t objective_work(void);

/* Metrics: sums (runtime/run/metrics.h). */
//@ metrics
extern const Metrics objective_metrics;
/* STEP_METRICS sums of this rank's micro-batch of a step that has run; valid until the step after
 * the next is filled. Numbers of the whole step that all ranks have are in micro-batch 0 of
 * rank 0. */
void objective_step(int64_t step, int64_t micro, double *sum);
/* Validates on `batches` batches of each rank: EVAL_METRICS sums over all ranks, batch by batch.
 * Overwrites a step's inputs. */
void objective_validate(Data *d, int64_t batches, double *sum);

/* A command of the objective. The weights are loaded; returns the exit status. */
typedef struct {
    int flag;                    /* FLAG_..., which requests it */
    int (*run)(const Flags *f, const WeightFolders folder);
} ObjectiveCommand;

/* Hooks; this program has only those that its objective fills. All ranks call each, unless it says
 * otherwise. The inputs of a step are filled again after `updated` returned true, and after
 * `loaded`, `write` and a validation. */
typedef struct {
    const ObjectiveCommand *commands;            /* ends with run NULL */
//@ if hook_without_weights
    const ObjectiveCommand *without_weights;     /* commands that load none: folders are NULL */
//@ end
//@ if hook_banner
    /* Prints lines after the common ones of the banner; eval NULL: no validation. */
    void (*banner)(const Flags *f, const Data *train, const Data *eval);
//@ end
    /* --show N: sets *to to a row of the micro-batch that objective_fill() filled; false: there is
     * no such row. Objectives with this hook have a row USES(NAME, batches). */
    bool (*show)(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to);
//@ if hook_other_records
    /* The data_fingerprint() of records other than those of --data that steps read; a run only
     * resumes with the same ones. malloc'ed. */
    char *(*other_records)(void);
//@ end
//@ if hook_loaded
    /* Called when the weights are loaded, before the first step and before --eval-only. start: they
     * are the initial weights, else those of the checkpoint folder[0]. If it returns true for a
     * checkpoint, the initial weights are loaded (EXIT_MISMATCH if they have changed since), it is
     * called with them, and the checkpoint's are loaded again. */
    bool (*loaded)(const Flags *f, const WeightFolders folder, bool start);
//@ end
//@ if hook_wants_start
    bool wants_start;            /* it may: a checksum of the initial weights is kept (reads all) */
//@ end
//@ if hook_updated
    /* Called after each update by step_train(), also a skipped one; `step` counts from 0, of
     * `total`. Updates other parameter groups on the objective's own schedule, each with
     *     param_group_begin(SET_x, turn, turns);  step_x();  step_wait();
     * where turns is the number of such updates in the run; the caller does the rest, such as
     * checking for a finite gradient. sum: the step's STEP_METRICS sums over all ranks, to which it
     * adds what its updates report, the same on all ranks. Returns whether it overwrote inputs of a
     * step. */
    bool (*updated)(int64_t step, int64_t total, double *sum);
//@ end
//@ if hook_measured
    /* Called after each step and its validation, with `step` steps done. Returns the members of a
     * record of its own, the same on all ranks; NULL: none is due. Overwrites inputs of a step.
     * *stop: on entry, the run ends here on request; set if a request came meanwhile. Then a record
     * that is due is left to the next start: it returns NULL and sets *left. */
    cJSON *(*measured)(int64_t step, bool *stop, bool *left);
//@ end
//@ if hook_updated_any
    /* `updated` for timing, after objective_fill_any(), whose inputs it leaves alone. */
    void (*updated_any)(int64_t step, int64_t total);
//@ end
//@ if hook_round
    int64_t round;               /* steps between such updates */
//@ end
    /* Returns why a validation with these EVAL_METRICS of all ranks ends the run, naming the flag
     * that decides, malloc'ed; NULL: the run continues. Depends on the values and the flags only: a
     * resumed run whose last validation has such values is over unless flags change. */
    char *(*enough)(const double *eval);
//@ if hook_write
    /* Writes the objective's own files to f->out, from rank 0: after each validation, at the end of
     * each epoch, after the last step, and when the run is found finished. So it must not depend on
     * earlier calls, and replaces each folder or file at once: folder_replace() of
     * runtime/files/folder.h. NULL, or a malloc'ed message; a failure ends the run only after the
     * last step. */
    char *(*write)(const Flags *f, const WeightFolders folder, const Epochs *epochs);
//@ end
//@ if hook_name
    /* A second name in OUT, "epochs/epoch_5", for the checkpoint of that step; best: it is after
     * the best validation so far; epochs_at(epochs, step) is its row, if it has one. malloc'ed;
     * NULL: none. --resume accepts it. Rank 0 only. */
    char *(*name)(const Epochs *epochs, int64_t step, bool best);
//@ end
//@ if hook_named
    /* Called after that name was made, on rank 0; path: OUT/NAME. NULL, or a malloc'ed message. */
    char *(*named)(const Flags *f, const char *path, const Epochs *epochs);
//@ end
    /* Names in OUT that write() and name() make, or patterns of them, ending with NULL: listed at
     * the end of a run, moved by --force. */
    const char *const *files;
//@ if hook_additions
    const Additions *additions;  /* parts of the model that its base lacks; NULL: none */
//@ end
//@ if hook_figures
    const FigureReader *figures; /* a reader for each SOURCE row (runtime/run/figures.h) */
//@ end
    const char *runs;            /* name of runs in TensorBoard; NULL: the recipe's */
    const char *log;             /* pattern of the log file of each start (runtime/run/logfile.h);
                                  * NULL: training.log */
//@ if hook_finished
    /* Called with the weights of a run that is over: after training, or instead of it when the run
     * is found finished. last: the checkpoint with these weights, for export_write(). */
    void (*finished)(const Flags *f, const WeightFolders folder, const Checkpoints *last);
//@ end
} ObjectiveHooks;
extern const ObjectiveHooks objective_hooks;

#endif
