/* unit_param_groups.c -- two parameter groups: AdamW arguments, counts, skipped updates, what a checkpoint keeps. */
#include "tests/runtime/unit.h"
#include "runtime/files/json.h"
#include "runtime/adamw_args.h"
#include "runtime/run/param_groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float adamw_args[2][ADAMW_CLIP + 2], norm[2], scaler[2][2];
static float *adamw_args_at[2] = {adamw_args[0], adamw_args[1]}, *norm_at[2] = {&norm[0], &norm[1]},
             *scaler_at[2] = {scaler[0], scaler[1]};

/* The other one's rate is a flag of its own: min_lr stands for one. */
static const ParamGroupRow plain[] = {
    {.name = "model", .with_step = true, .adamw_args = &adamw_args_at[0], .norm = &norm_at[0]},
    {.name = "other", .adamw_args = &adamw_args_at[1], .norm = &norm_at[1],
     .flag = {[SET_FLAG_lr] = FLAG_min_lr}}};
static const ParamGroupRow scaled[] = {
    {.name = "model", .with_step = true, .adamw_args = &adamw_args_at[0], .norm = &norm_at[0],
     .scaler = &scaler_at[0]},
    {.name = "other", .adamw_args = &adamw_args_at[1], .norm = &norm_at[1], .scaler = &scaler_at[1]}};

static bool near(float x, double y)
{
    return fabs(x - y) <= 1e-6 * fabs(y);
}

static void updates(Flags *f)
{
    param_groups_open(plain, 2, f, 1);
    param_groups_begin(4, 10);
    check(near(adamw_args[0][ADAMW_LR], 0.5) && adamw_args[1][ADAMW_LR] == 0, "sets: those of a step",
          "%g %g", adamw_args[0][ADAMW_LR], adamw_args[1][ADAMW_LR]);
    param_group_begin(1, 1, 5);
    check(near(adamw_args[1][ADAMW_LR], 2), "sets: a rate and a number of updates of its own", "%g",
          adamw_args[1][ADAMW_LR]);
    check(near(adamw_args[1][ADAMW_BIAS1], 0.1), "sets: its first update", "%g", adamw_args[1][ADAMW_BIAS1]);
    norm[0] = INFINITY, norm[1] = 3;
    check(!param_group_end(0, true) && param_group_end(1, true), "sets: a gradient that is none is of one set", "?");
    check(param_group_end(0, true) && param_group_end(1, true), "sets: nothing was begun since", "?");
    check(!param_group_skip(0), "sets: stop", "skips");
    f->nonfinite = "skip";
    int skips = 0;
    while (skips < 9 && param_group_skip(0))
        skips++;
    check(skips == 3, "sets: skips in a row", "%d", skips);
    param_group_begin(1, 2, 5);
    check(near(adamw_args[1][ADAMW_BIAS1], 1 - 0.9 * 0.9), "sets: its second update", "%g",
          adamw_args[1][ADAMW_BIAS1]);
    param_group_begin(0, 5, 10);
    check(near(adamw_args[0][ADAMW_BIAS1], 0.1), "sets: one that was skipped does not count", "%g",
          adamw_args[0][ADAMW_BIAS1]);
    norm[0] = 1;
    check(!param_group_end(0, false), "sets: a loss that is none", "goes on");
    cJSON *record = cJSON_CreateObject();
    param_groups_record(record);
    char *text = cJSON_PrintUnformatted(record);
    check(!strcmp(text, "{\"grad_norm_other\":3,\"learning_rate_other\":1.5}"), "sets: a record",
          "%s", text);
    free(text);
    cJSON_Delete(record);
}

/* fp16: what is out of range is skipped while the loss scale of its set is searched. */
static void scales(const Flags *f)
{
    param_groups_open(scaled, 2, f, 4);
    scaler[0][0] = 65536, scaler[1][0] = 512, scaler[1][1] = 7;
    int searched = 0;
    for (norm[1] = INFINITY; searched < 99; searched++) {
        param_group_begin(1, searched, 100);
        if (!param_group_end(1, true))
            break;
    }
    check(searched == 40, "sets: steps of a search for a loss scale", "%d", searched);
    param_group_begin(0, 0, 100), norm[0] = 1;
    check(param_group_end(0, true), "sets: the other's goes on", "it does not");
    cJSON *state = cJSON_CreateObject();
    param_groups_save(state);
    char *text = cJSON_PrintUnformatted(state);
    check(text && !strcmp(text, "{\"updates\":1,\"skipped\":0,\"loss_scale\":65536,\"loss_scale_steps\":0,"
                        "\"lr_ranks\":4,\"sets\":{\"other\":{\"updates\":0,\"skipped\":41,\"loss_scale\":512,"
                        "\"loss_scale_steps\":7,\"lr\":0.5,\"norm\":null}}}"),
          "sets: in a checkpoint", "%s", text ? text : "nothing");
    check(param_groups_ranks(false, state, 2) == 4 && param_groups_ranks(true, state, 2) == 2 &&
          param_groups_ranks(false, NULL, 2) == 2,
          "sets: the ranks that scale rates", "%d", (int)param_groups_ranks(false, state, 2));
    memset(scaler, 0, sizeof scaler);
    param_groups_open(scaled, 2, f, param_groups_ranks(false, state, 2));
    char *error = param_groups_load(state), *again;
    cJSON *copy = cJSON_CreateObject();
    param_groups_save(copy);
    again = cJSON_PrintUnformatted(copy);
    check(!error && !strcmp(text, again) && scaler[1][0] == 512, "sets: and back", "%s",
          error ? error : again);
    cJSON_DeleteItemFromObject(json_get(state, "sets"), "other");
    error = param_groups_load(state);
    check(error && !strcmp(error, "of the group other updates or skipped is missing"),
          "sets: one is missing", "%s", error ? error : "taken");
    /* as written by programs with one parameter group */
    param_groups_open(plain, 1, f, 1);
    error = param_groups_load(state);
    check(!error, "sets: a checkpoint of one set", "%s", error);
    cJSON_Delete(state), cJSON_Delete(copy);
    free(text), free(again);
}

void test_param_groups(void)
{
    Flags f = {.schedule = "linear", .lr_scale = "none", .warmup_round = "up", .lr = 5.0 / 6,
               .min_lr = 2.5, .warmup = 0, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .clip = 1, .nonfinite = "stop"};
    updates(&f);
    scales(&f);
}
