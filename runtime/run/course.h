/* course.h -- the course of a run: what its steps and validations had, epoch by epoch.
 *
 * In:    sums over all ranks of each step, values of validations.
 * Keeps: a killed and resumed run has the same rows as a straight one; every rank has them. */
#ifndef DIECAST_COURSE_H
#define DIECAST_COURSE_H

#include "runtime/run/metrics.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* After a validation, at the end of an epoch, after the last step; one row where these are one. */
typedef struct {
    int64_t step;                /* steps done; 0: a validation before the first */
    int64_t epoch;               /* of that step, from 1; 0 before the first */
    bool whole;                  /* the epoch ends here */
    bool validated;
    /* Values of the metrics: of the steps of that epoch so far, each weighted as its row says (a
     * loss by its targets); of the validation. NAN where there are none. */
    double step_value[METRICS_MAX], eval_value[METRICS_MAX];
} CourseRow;

typedef struct {
    const Metrics *metrics;
    int64_t per_epoch;           /* steps */
    bool keeps;                  /* rows; else only the sums */
    int64_t n;
    CourseRow *row;
    double sum[METRICS_MAX];     /* of the steps since the epoch began */
} Course;

/* keeps: somebody will read the rows. */
void course_open(Course *c, const Metrics *m, int64_t per_epoch, bool keeps);
/* Step `step` (1-based): the sums of its metrics over all ranks, before they become values. One
 * whose loss is not finite does not count. */
void course_step(Course *c, int64_t step, const double *sum);
/* Behind step `step`; eval: the values of a validation, NULL: there was none. */
void course_mark(Course *c, int64_t step, const double *eval);
/* The last row, if it is of that step; NULL: it is not. */
const CourseRow *course_at(const Course *c, int64_t step);
/* What the steps of the epoch so far minimised, their mean. */
double course_loss(const Course *c);
/* The means of the epoch so far, for people: "loss 1.2345"; malloc'ed. */
char *course_text(const Course *c);

/* The rows as a table, numbers between commas, malloc'ed: epoch (a fraction), step, and by name the
 * means and powers that records keep, of steps as "loss", of validations as "eval_loss". Nothing
 * stands where there is no number. */
char *course_csv(const Course *c);

/* As a member "course" of what a checkpoint keeps, and back: NULL, or a malloc'ed message. Older
 * checkpoints have none: the rows begin behind them. After course_open. */
void course_save(const Course *c, cJSON *state);
char *course_load(Course *c, const cJSON *state);

#endif
