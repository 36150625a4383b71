/* best.h -- what validations decide: which was the best so far, whether its checkpoint is there,
 * and when the run is over before its last step.
 *
 * Keeps: every rank has the same values; what is there, rank 0 knows. */
#ifndef DIECAST_BEST_H
#define DIECAST_BEST_H

#include "runtime/run/metrics.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* The metric of a validation that decides, NAN before any, and the step after which it was
 * taken. */
typedef struct {
    double value;
    int64_t step;
} Validation;

typedef struct {
    const Metrics *of;
    char *(*enough)(const double *eval);  /* the objective's, or NULL: see best_over() */
    Validation seen, best;       /* the last, the best */
    Validation kept;             /* the best that was saved; best_is_kept(): it still is */
    int64_t worse;               /* validations since the best */
    bool told;                   /* that its checkpoint is gone */
    double last[METRICS_MAX];    /* values of the last one, NAN before any */
} Best;

void best_clear(Best *b, const Metrics *of, char *(*enough)(const double *eval));
/* After a validation, with its values; that of step 0, before any training, does not count. Whether
 * it is the best. */
bool best_see(Best *b, int64_t step, const double *value);
/* Why the run is over, for people, malloc'ed: the last `patience` (0: any number) validations were
 * not better than the best, or the objective says so of the last one. NULL: it is not. */
char *best_over(const Best *b, int64_t patience);
/* "eval loss 1.9875 at step 40": the value as the log shows it; malloc'ed. */
char *best_text(const Best *b, const Validation *v);
/* Whether the checkpoint of b->kept is in out. */
bool best_is_kept(const Best *b, const char *out);
/* Into what a checkpoint of `step` in out keeps, before it is written: b is then as it will be
 * once that checkpoint is there. trainer: best_metric and best_model_checkpoint of
 * trainer_state.json, null where that checkpoint is gone, which is reported. */
void best_save(Best *b, const char *out, int64_t step, cJSON *state, cJSON *trainer);
/* From a checkpoint of a run in out. Values of another metric than the one that decides now are
 * set aside, with a line that says so. */
void best_load(Best *b, const char *out, const cJSON *state);

#endif
