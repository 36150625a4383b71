/* metrics.h -- metrics of a training step, an epoch and a validation, by the objective's rows.
 *
 * Keeps: every micro-batch of every rank has its part of each row, and the parts are added in the
 *        order of their numbers (comm_fold()); a value of all of them that every rank has is in one
 *        part only, of rank 0. */
#ifndef DIECAST_METRICS_H
#define DIECAST_METRICS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum {
    METRIC_COUNT,                /* the sum, an integer */
    METRIC_MEAN,                 /* the sum divided by a count */
    METRIC_EXP                   /* exp of that mean */
} MetricKind;

typedef struct {
    const char *name;
    MetricKind kind;
    int per;                     /* row of the count that a mean is divided by */
    bool more;                   /* higher is better, else lower */
    /* TensorBoard tag; NULL: not recorded. Records name it <name> for a step (for a count, its
     * total as num_<name>) and eval_<name> for a validation. */
    const char *tag;
    const char *text;            /* printf format for the terminal; NULL: not shown */
} Metric;

enum { METRICS_MAX = 16 };       /* rows of a step, and of a validation */

/* TensorBoard tag of any other number in the records, by its key. */
typedef struct {
    const char *key, *tag;
} MetricTag;

typedef struct {
    const Metric *step, *eval;
    int nstep, neval;
    /* Row indices. Row 0 of a step is the training loss. */
    int step_work, eval_work;    /* count whose rate is reported */
    int samples;                 /* eval: count of samples */
    int decides;                 /* eval: metric that selects the best checkpoint; has a text */
    const MetricTag *tags;       /* ends with {NULL, NULL}; NULL: none */
} Metrics;

/* Turns sums over all ranks into values, in place. A mean over nothing is NAN, for row 0 it is
 * 0. */
void metrics_values(const Metric *row, int n, double *x);
/* Returns the terminal's text of row 0 and of all rows that are not NAN, each preceded by `before`;
 * malloc'ed. */
char *metrics_text(const Metric *row, int n, const double *value, const char *before);
/* Returns one metric as shown on the terminal, "eval loss 1.9875"; malloc'ed. */
char *metrics_one(const Metric *m, double value);
/* Returns the TensorBoard tag of a key of the records, malloc'ed. A key without row and tag gets
 * transformers' name, train/<key>; eval_<key> and best_<key> take the prefix of the deciding row's
 * tag: eval/<key>, test/best_<key>. */
char *metrics_tag(const Metrics *m, const char *key);
/* Saves to and restores from members of an object; NaN and Inf are saved as null, null is restored
 * as NAN. Returns NULL, or a malloc'ed message naming the first member that is neither number nor
 * null. */
void metrics_save(const Metric *row, int n, const double *value, cJSON *to);
char *metrics_load(const Metric *row, int n, double *value, const cJSON *from);

/* ---- by epoch -------------------------------------------------------------------------------- */

/* Per-step sums over all ranks and validation metrics, a row after each validation, at the end of
 * each epoch and after the last step; one row if these coincide. Every rank has all rows, the same
 * ones in a killed and resumed run as in an uninterrupted one. */
typedef struct {
    int64_t step;                /* steps done; 0: validation before the first step */
    int64_t epoch;               /* epoch of that step, from 1; 0 before the first step */
    bool ends_epoch;             /* the epoch ends here */
    bool validated;
    /* Metrics of the epoch's steps so far, each weighted as its row says (a loss by its targets),
     * and of the validation. NAN: none. */
    double step_value[METRICS_MAX], eval_value[METRICS_MAX];
} EpochRow;

typedef struct {
    const Metrics *metrics;
    int64_t per_epoch;           /* steps per epoch */
    bool keeps;                  /* store rows; else only the sums */
    int64_t n;
    EpochRow *row;
    double sum[METRICS_MAX];     /* over the steps of the current epoch */
} Epochs;

/* keeps: store rows, because some output reads them. */
void epochs_open(Epochs *c, const Metrics *m, int64_t per_epoch, bool keeps);
/* Adds step `step` (1-based): its metric sums over all ranks, before metrics_values(). A step with
 * a non-finite loss is not counted. */
void epochs_step(Epochs *c, int64_t step, const double *sum);
/* Adds a row after step `step` if one is due. eval: validation metrics, or NULL. */
void epochs_mark(Epochs *c, int64_t step, const double *eval);
/* Returns the last row if it belongs to that step, else NULL. */
const EpochRow *epochs_at(const Epochs *c, int64_t step);
/* Returns the mean training loss of the current epoch. */
double epochs_loss(const Epochs *c);
/* Returns the means of the current epoch as "loss 1.2345"; malloc'ed. */
char *epochs_text(const Epochs *c);

/* Saves to and restores from the member "course" of a checkpoint's state. Load after epochs_open();
 * returns NULL, or a malloc'ed message. Old checkpoints lack the member: rows then start after
 * them. */
void epochs_save(const Epochs *c, cJSON *state);
char *epochs_load(Epochs *c, const cJSON *state);

#endif
