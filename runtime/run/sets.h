/* sets.h -- sets of parameters, each updated by itself: its hyper values, how often it was updated.
 *
 * In:    a row a set, flags.
 * Keeps: every rank has the same. "model", which every program has, is row 0. */
#ifndef DIECAST_SETS_H
#define DIECAST_SETS_H

#include "runtime/run/flags.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

enum {
#define SET_FLAG(name) SET_FLAG_##name,
#include "runtime/run/sets.def"
#undef SET_FLAG
    SET_FLAGS
};

typedef struct {
    const char *name;
    bool with_step;              /* updated by step_train(), else by another schedule */
    float **hyper, **norm;       /* of StepIO: what it is told, the norm of its gradient */
    float **scaler;              /* fp16: its loss scale, steps since that changed; else NULL */
    int own[SET_FLAGS];          /* flags of its own, FLAG_...; 0: those of all */
} SetRow;

/* The ranks that --lr-scale counts: those that the run began on, as what a checkpoint keeps has it (NULL:
 * none was found); those of now, where --lr or --lr-scale is another than it was. */
int64_t sets_ranks(bool anew, const cJSON *state, int64_t now);
/* Rows and flags stay the caller's. EXIT_CONFIG: a flag was given of a set that is not there. */
void sets_open(const SetRow *row, int n, const Flags *f, int64_t ranks);
/* Before an update: the hyper values of update `turn` (0-based, those that were skipped too) of
 * `total`. Any set; all of them that step_train() updates. */
void set_begin(int set, int64_t turn, int64_t total);
void sets_begin(int64_t step, int64_t total);
/* Once the program has run: true where no update was begun, or it was made, or is made up for: in
 * fp16 a smaller loss scale is searched. false: the gradient's norm is NaN or Inf, or not `finite` is
 * the loss. */
bool set_end(int set, bool finite);
/* Whether --nonfinite lets the run go on after that. */
bool set_skip(int set);
/* Of the last update: its rate, the norm of its gradient (NAN before any). */
double set_lr(int set);
double set_norm(int set);

/* Of sets but "model", for a record: grad_norm_NAME, learning_rate_NAME. */
void sets_record(cJSON *record);
/* Into what a checkpoint keeps, and back: NULL, or a malloc'ed message. */
void sets_save(cJSON *state);
char *sets_load(const cJSON *state);

#endif
