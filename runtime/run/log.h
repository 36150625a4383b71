/* log.h -- what a run tells: banner, progress, history.jsonl and the log of trainer_state.json.
 *
 * Keeps: a killed and resumed run writes the same history as a straight one, times aside; memory and
 *        trainer_state.json hold the last LOG_RECORDS records, only the file all of them.
 *        All ranks call; only rank 0 prints and writes. */
#ifndef DIECAST_LOG_H
#define DIECAST_LOG_H

#include "runtime/data/data.h"
#include "runtime/run/events.h"
#include "runtime/run/flags.h"
#include "runtime/model/model.h"
#include "runtime/run/metrics.h"
#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>

enum { LOG_RECORDS = 1000, LOG_LOSSES = 1 << 16 };

/* The loss (row 0) of a record. */
typedef struct {
    double loss, step;
} LogLoss;

/* One optimiser step, over all ranks and micro-batches. */
typedef struct {
    const double *sum, *value;   /* of each metric of a step: what it was made from; the value */
    double grad_norm;            /* before clipping */
    double lr;
    const Data *train;           /* of which sources it was */
} LogStep;

typedef struct {
    const double *value;         /* of each metric of a validation */
    double seconds;
    int64_t batches;             /* of all ranks */
} LogEval;

typedef struct {
    const Model *model;
    const Flags *flags;
    const Metrics *metrics;
    int64_t total, per_epoch;    /* steps */
    int history;                 /* rank 0 only: descriptor; -1 while it cannot be written */
    char *path;
    int64_t whole;               /* bytes of its whole records */
    char *late;                  /* lines that it has not taken yet; malloc'ed */
    size_t nlate;
    cJSON *records;              /* array: the last of them, numbers in full */
    int nrecords;
    LogLoss *losses;             /* of the last records, the one after losses[i] in (i + 1) % LOG_LOSSES */
    int64_t nlosses;             /* of the run */
    Events events;               /* the same for TensorBoard */
    /* Saved with checkpoints: sums of the metrics of steps, since the last record and over all steps
     * of the run, also before a resume; how many steps. */
    double sum[METRICS_MAX], all[METRICS_MAX];
    int64_t steps, steps_all;
    int64_t known[METRICS_MAX];  /* of the former those that had something to take the mean of */
    /* For this process only. */
    double start, mark, drawn;   /* clock at log_open, at the last line, when the terminal had the last */
    double epoch;                /* clock at the end of the last epoch, or at log_open */
    double tried;                /* clock when the history could not be written */
    int64_t first;               /* step at log_open */
    double work_mark;            /* work since the last line */
    double work_first;           /* all of it at log_open */
} Log;                           /* all zero before the first call */

/* Everything people should know about a run before it starts, on standard error. */
typedef struct {
    const Model *model;
    const Flags *flags;
    int threads;
    const Data *train, *eval;    /* NULL: none */
    const char *weights;         /* where they come from */
    int64_t lr_ranks;            /* that --lr-scale counts */
    int64_t total;               /* steps */
} Banner;
void log_banner(const Banner *b);
/* OUT/history.jsonl: records beyond step `resumed` and a closing one go (temporary file, rename),
 * the rest is read back; resumed 0 starts an empty one. A run with nothing left to do keeps all.
 * EXIT_IO when it cannot be written. */
void log_open(Log *l, const char *out, const Model *m, const Flags *f, const Metrics *of,
              int64_t total, int64_t per_epoch, int64_t resumed);
/* Behind it: the records in OUT/runs/NAME as well, from now on each that is made. argv: what this start was
 * called with. */
void log_events(Log *l, const char *name, int argc, char **argv);
/* After step `step` (1-based): sums, progress, and a record when the step is a multiple of
 * --log-every. */
void log_step(Log *l, int64_t step, const LogStep *s);
void log_eval(Log *l, int64_t step, const LogEval *e);
/* A record of an epoch that ends with step `step`: its mean loss, the rate of that step, seconds. */
void log_epoch(Log *l, int64_t step, double loss, double lr);
/* Seconds of something else than training (a save; log_eval knows its own), for tokens a second. */
void log_pause(Log *l, double seconds);
/* One line of JSON with what is kept of a validation, and its samples; NaN and Inf are null. */
void log_eval_line(FILE *to, const Metrics *of, const LogEval *e);
/* A record of the objective's own behind step `step`; takes it. */
void log_own(Log *l, int64_t step, cJSON *record);
/* The closing record (train_runtime, train_loss, ...). why: why the run ends early, or NULL. */
void log_end(Log *l, int64_t step, const char *why);
/* The last step whose record does not stand above the least loss (row 0) of the last LOG_LOSSES records
 * by more than losses usually differ from one record to the next, and its loss: from there on it rose.
 * -1: no records. */
int64_t log_before_rise(const Log *l, double *loss);
void log_close(Log *l);

/* trainer_state.json with exactly the keys transformers knows and the last LOG_RECORDS records; the caller deletes
 * it. */
cJSON *log_state(const Log *l, int64_t step);
/* The sums since the last record and over the run, as a member "log" of train_state.json. */
void log_save(const Log *l, cJSON *train_state);
/* NULL, or a malloc'ed message that names the member. Before log_open. */
char *log_load(Log *l, const Metrics *of, const cJSON *train_state);

#endif
