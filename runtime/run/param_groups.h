/* param_groups.h -- parameter groups: AdamW arguments and update count of each.
 *
 * In:    one row per group, flags.
 * Keeps: identical on every rank. Row 0 is "model", which every program has. */
#ifndef DIECAST_PARAM_GROUPS_H
#define DIECAST_PARAM_GROUPS_H

#include "runtime/run/flags.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

enum {
#define SET_FLAG(name) SET_FLAG_##name,
#include "runtime/run/param_groups.def"
#undef SET_FLAG
    SET_FLAGS
};

typedef struct {
    const char *name;
    bool with_step;              /* updated by step_train(), else on its own schedule */
    float **adamw_args, **norm;       /* inputs and outputs of StepIO: AdamW arguments, gradient
                                         norm */
    float **scaler;              /* fp16: loss scale, steps since its last change; else NULL */
    uint32_t **rounding;         /* key of stochastic rounding; NULL: none */
    int flag[SET_FLAGS];         /* the group's own flags, FLAG_...; 0: the shared ones */
} ParamGroupRow;

/* Returns the number of ranks for --lr-scale: that of the run's first start, read from a
 * checkpoint's state (NULL: no checkpoint); the current number `now` if --lr or --lr-scale has
 * changed (lr_changed). */
int64_t param_groups_ranks(bool lr_changed, const cJSON *state, int64_t now);
/* Rows and flags stay the caller's. EXIT_CONFIG: a flag was given for a group that does not exist,
 * or a floor is above its peak. */
void param_groups_open(const ParamGroupRow *row, int n, const Flags *f, int64_t ranks);
/* Notes groups whose warm-up is not over when the run of `total` steps ends. */
void param_groups_note_warmup(int64_t total);
/* EXIT_CONFIG if a group's rate depends on the number of ranks. */
void param_groups_check_order(void);
/* For updates inside the backward pass, of the model's group. EXIT_CONFIG if a flag clips its
 * gradient's norm, which is not known yet, or skips updates. */
void param_groups_check_backward(void);
/* Before an update: sets the AdamW arguments of update `turn` (0-based, skipped updates count) of
 * `total`. param_group_begin(): any one group; param_groups_begin(): all groups that step_train()
 * updates. */
void param_group_begin(int set, int64_t turn, int64_t total);
void param_groups_begin(int64_t step, int64_t total);
/* After the update: returns true if none was started, it succeeded, or fp16 reduces the loss scale
 * and tries again. false: the gradient norm is NaN or Inf, or the loss is (finite is false). */
bool param_group_end(int set, bool finite);
/* True if --nonfinite lets the run continue after that. */
bool param_group_skip(int set);
/* Learning rate and gradient norm of the last update (NAN before the first). */
double param_group_lr(int set);
double param_group_norm(int set);

/* Adds grad_norm_NAME and learning_rate_NAME of every group except "model" to a record. */
void param_groups_record(cJSON *record);
/* Save to and restore from a checkpoint's state; return NULL, or a malloc'ed message. */
void param_groups_save(cJSON *state);
char *param_groups_load(const cJSON *state);

#endif
