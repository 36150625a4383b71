/* best.h -- best checkpoint and early stopping.
 *
 * Keeps: all fields are equal on every rank; only rank 0 checks which checkpoints exist. */
#ifndef DIECAST_BEST_H
#define DIECAST_BEST_H

#include "runtime/run/metrics.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* Value of the deciding metric at a validation (NAN: none yet) and the step after which it ran. */
typedef struct {
    double value;
    int64_t step;
} Validation;

typedef struct {
    const Metrics *of;
    char *(*enough)(const double *eval);  /* the objective's own stop rule, or NULL: see
                                             best_over() */
    Validation seen, best;       /* last and best validation */
    Validation saved;            /* best validation that was saved; see best_is_saved() */
    int64_t worse;               /* validations since the best one */
    bool reported;               /* reported that its checkpoint is gone */
    double last[METRICS_MAX];    /* metrics of the last validation, NAN before the first */
} Best;

/* Sets *b to the state before the first validation. */
void best_clear(Best *b, const Metrics *of, char *(*enough)(const double *eval));
/* Records a validation's metrics. Step 0, before any training, does not count. Returns true if it
 * is the best so far. */
bool best_see(Best *b, int64_t step, const double *value);
/* Returns why the run should stop early, as malloc'ed text for the user: none of the last
 * `patience` validations (0: no limit) beat the best, or the objective's rule stops at the last
 * one. NULL: go on. */
char *best_over(const Best *b, int64_t patience);
/* Formats as the log does, "eval loss 1.9875 at step 40"; malloc'ed. */
char *best_text(const Best *b, const Validation *v);
/* True if the checkpoint of b->saved exists in out. */
bool best_is_saved(const Best *b, const char *out);
/* Adds *b to the state of the checkpoint of `step` before it is written, as *b will be once that
 * checkpoint exists. trainer: gets best_metric and best_model_checkpoint of trainer_state.json; the
 * latter is null, with a warning, if that checkpoint is gone. */
void best_save(Best *b, const char *out, int64_t step, cJSON *state, cJSON *trainer);
/* Restores *b from the state of a checkpoint in out. Values of a metric that no longer decides are
 * dropped, with a note. */
void best_load(Best *b, const char *out, const cJSON *state);

#endif
