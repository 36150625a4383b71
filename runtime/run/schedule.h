/* schedule.h -- lr schedule: learning rate as a function of the optimizer step; rows in
 * schedule.def. */
#ifndef DIECAST_SCHEDULE_H
#define DIECAST_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the learning rate of update s + 1, s = 0, 1, ...; warmup in updates (schedule_warmup()),
 * total: updates of the run. name must be a row of schedule.def. */
double schedule_lr(const char *name, double lr, double min_lr, int64_t s, int64_t warmup,
                   int64_t total);
/* Returns AdamW's beta1 for update s + 1: beta1, except that onecycle runs it 0.95 -> 0.85 -> 0.95
 * opposite to the learning rate. */
double schedule_beta1(const char *name, double beta1, int64_t s, int64_t total);
/* Return true if the schedule has a warm-up, has a floor min_lr, and uses the given beta1. */
bool schedule_warms(const char *name);
bool schedule_floors(const char *name);
bool schedule_keeps_beta1(const char *name);
/* Returns the floor: min_lr, or 1e-7 for polynomial without one, as in transformers. */
double schedule_floor(const char *name, double min_lr);
/* Returns the warm-up in updates: below 1, warmup is a fraction of total; a fractional result is
 * rounded "up" or "down". */
int64_t schedule_warmup(double warmup, const char *round, int64_t total);
/* Applies --lr-scale: lr, lr * sqrt(ranks) or lr * ranks. */
double schedule_scaled(const char *lr_scale, double lr, int64_t ranks);

/* Names of all schedules, each with a leading bar: "|linear|cosine...". */
#define SCHEDULE(name, ...) "|" #name
static const char SCHEDULE_NAMES[] =
#include "runtime/run/schedule.def"
    ;
#undef SCHEDULE

#endif
