/* log.h -- the run log: banner, progress lines, history.jsonl and the log of trainer_state.json.
 *
 * Keeps: a killed and resumed run writes the same history as an uninterrupted one, except for
 *        times. Memory and trainer_state.json hold the last LOG_RECORDS records, the file all of
 *        them. All functions are collective; only rank 0 prints and writes. */
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

/* Loss (row 0) of a record. */
typedef struct {
    double loss, step;
} LogLoss;

/* One optimizer step, over all ranks and micro-batches. */
typedef struct {
    const double *sum, *value;   /* step metrics: raw sums; values */
    double grad_norm;            /* before clipping */
    double lr;
    const Data *train;           /* data sources that the step drew from */
} LogStep;

typedef struct {
    const double *value;         /* validation metrics */
    double seconds;
} LogEval;

typedef struct {
    const Model *model;
    const Flags *flags;
    const Metrics *metrics;
    int64_t total, per_epoch;    /* in steps */
    int history;                 /* rank 0: file descriptor; -1 while it cannot be written */
    char *path;
    int64_t complete;            /* length of its complete records in bytes */
    char *late;                  /* lines not written yet; malloc'ed */
    size_t nlate;
    int64_t late_from;           /* log_load(): late belongs after this many bytes of the history */
    int64_t lost;                /* records that never reached the file for lack of memory */
    cJSON *records;              /* array of the most recent records, full precision */
    int nrecords;
    LogLoss *losses;             /* ring buffer: the entry after losses[i] is at (i + 1) %
                                    LOG_LOSSES */
    int64_t nlosses;             /* of the whole run */
    Events events;               /* TensorBoard copy of the records */
    /* Saved with checkpoints: metric sums since the last record, and over all steps of the run
     * including those before a resume; number of steps since the last record, and of all steps
     * with a finite loss. */
    double sum[METRICS_MAX], all[METRICS_MAX];
    int64_t steps, steps_all;
    int64_t known[METRICS_MAX];  /* number of steps since the last record with a defined mean */
    /* This process only. */
    double start, mark, drawn;   /* clock at log_open(), at the last line, at the last terminal
                                    update */
    double epoch;                /* clock at the end of the last epoch, or at log_open() */
    double tried;                /* clock at the last failed write of the history */
    int64_t first;               /* step at log_open() */
    double work_mark;            /* work since the last line */
    double work_first;           /* work up to log_open() */
} Log;                           /* all zero before the first call */

/* Summary of the run, printed on standard error before the first step. */
typedef struct {
    const Model *model;
    const Flags *flags;
    int threads;
    const Data *train, *eval;    /* NULL: none */
    const char *weights;         /* origin of the weights */
    const char *libraries;       /* those that compute, with their versions */
    int64_t lr_ranks;            /* ranks for --lr-scale */
    int64_t total;               /* steps */
} Banner;
void log_banner(const Banner *b);
/* Opens OUT/history.jsonl: removes records after step `resumed` and a closing record (temporary
 * file, rename), and reads the rest back; resumed 0 starts an empty file. A run with no steps left
 * keeps everything. EXIT_IO if it cannot be written. */
void log_open(Log *l, const char *out, const Model *m, const Flags *f, const Metrics *of,
              int64_t total, int64_t per_epoch, int64_t resumed);
/* After log_open(): also writes all records, present and future, to OUT/runs/NAME. argv: command
 * line of this start. */
void log_events(Log *l, const char *name, int argc, char **argv);
/* After step `step` (1-based): adds to the sums, prints progress, and writes a record every
 * --log-every steps. */
void log_step(Log *l, int64_t step, const LogStep *s);
void log_eval(Log *l, int64_t step, const LogEval *e);
/* Records the epoch that ends with step `step`: mean loss, learning rate of that step, seconds. */
void log_epoch(Log *l, int64_t step, double loss, double lr);
/* Excludes seconds spent outside training, such as a save, from the throughput; log_eval() accounts
 * for its own. */
void log_pause(Log *l, double seconds);
/* Writes one JSON line with the recorded metrics of a validation and its sample count; NaN and Inf
 * become null. */
void log_eval_line(FILE *to, const Metrics *of, const LogEval *e);
/* Adds a record of the objective after step `step`; takes ownership of it. */
void log_record(Log *l, int64_t step, cJSON *record);
/* Writes the closing record (train_runtime, train_loss, ...). why: reason for stopping early, or
 * NULL. */
void log_end(Log *l, int64_t step, const char *why);
/* Detects a diverging loss: among the last LOG_LOSSES records, returns the last step whose loss
 * (row 0) exceeds the minimum by no more than the usual record-to-record change, and that loss.
 * From there on the loss rose. -1: no records. */
int64_t log_before_rise(const Log *l, double *loss);
void log_close(Log *l);

/* Returns trainer_state.json with exactly the keys that transformers reads and the last LOG_RECORDS
 * records; the caller deletes it. */
cJSON *log_state(const Log *l, int64_t step);
/* Saves the sums since the last record and over the run as member "log" of train_state.json, and
 * the records that still cannot be written to the history. */
void log_save(Log *l, cJSON *train_state);
/* Restores them. Returns NULL, or a malloc'ed message naming the member. Call before log_open(). */
char *log_load(Log *l, const Metrics *of, const cJSON *train_state);

#endif
