/* epochs.h -- training and validation metrics by epoch.
 *
 * In:    per-step sums over all ranks, and validation metrics.
 * Keeps: a killed and resumed run has the same rows as an uninterrupted one; every rank has all
 *        rows. */
#ifndef DIECAST_EPOCHS_H
#define DIECAST_EPOCHS_H

#include "runtime/run/metrics.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* A row is added after each validation, at the end of each epoch and after the last step; one row
 * if these coincide. */
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
