/* metrics.h -- what an objective reports of a step and of a validation: the rows of its metrics.
 *
 * Keeps: every rank reports its part of each row, and the parts are summed; a row that all ranks know
 *        whole is reported by rank 0. */
#ifndef DIECAST_METRICS_H
#define DIECAST_METRICS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

typedef enum {
    METRIC_COUNT,                /* the sum; a whole number */
    METRIC_MEAN,                 /* the sum divided by a count */
    METRIC_EXP                   /* e to the power of that */
} MetricKind;

typedef struct {
    const char *name;
    MetricKind kind;
    int per;                     /* the row of the count that a mean is divided by */
    bool more;                   /* more of it is better, else less */
    /* Its name in TensorBoard's event files; NULL: it is not in the records. They have it as <name>, of a step's
     * counts the total as num_<name>, of a validation as eval_<name>. */
    const char *tag;
    const char *text;            /* on the terminal, with its printf conversion; NULL: it is not */
} Metric;

enum { METRICS_MAX = 16 };       /* rows of a step, and of a validation */

/* Of another number of the records, by its key. */
typedef struct {
    const char *key, *tag;
} MetricTag;

typedef struct {
    const Metric *step, *eval;
    int nstep, neval;
    /* Rows. What a step minimises is row 0 of it. */
    int step_work, eval_work;    /* the count whose rate is told */
    int samples;                 /* eval: the count of them */
    int decides;                 /* eval: which validation is the best; it has a text */
    const MetricTag *tags;       /* behind the last one {NULL, NULL}; NULL: none */
} Metrics;

/* Sums over all ranks become values, in place; a mean of nothing is NAN, of row 0 it is 0. */
void metrics_values(const Metric *row, int n, double *x);
/* What the terminal has of them, each behind `before`, of row 0 and those that are not NAN;
 * malloc'ed. */
char *metrics_text(const Metric *row, int n, const double *value, const char *before);
/* One of them as the terminal has it: "eval loss 1.9875"; malloc'ed. */
char *metrics_one(const Metric *m, double value);
/* The name in event files of a number of the records, malloc'ed. That of no row and no tag is called as transformers
 * would, train/<key>; that of eval_<key> and best_<key> begins as the tag of the row that decides: eval/<key>,
 * test/best_<key>. */
char *metrics_tag(const Metrics *m, const char *key);
/* As members of an object, NaN and Inf as null, and back, null as NAN: NULL, or a malloc'ed message that
 * names the first member which is neither. */
void metrics_save(const Metric *row, int n, const double *value, cJSON *to);
char *metrics_load(const Metric *row, int n, double *value, const cJSON *from);

#endif
