/* evaluation.c -- metrics of preference pairs, for steps and validations. */
#include "evaluation.h"

#include <string.h>

#include "runtime/base.h"             // note(), the world of ranks
#include "runtime/dpo.h"              // entries of io.stats
#include "runtime/files/json.h"
#include "runtime/ranks/comm.h"       // sums over ranks
#include "step.h"                     // io, model

//@ metrics

/* Metrics of pairs: the entry `of` of io.stats, less the entry `less`. */
static const struct {
    int step, eval, of, less;    /* less negative: nothing */
} reported[] = {
    {STEP_margin, EVAL_margin, DPO_REWARD_CHOSEN, DPO_REWARD_REJECTED},
    {STEP_accuracy, EVAL_accuracy, DPO_ACCURATE, -1},
    {STEP_reward_chosen, EVAL_reward_chosen, DPO_REWARD_CHOSEN, -1},
    {STEP_reward_rejected, EVAL_reward_rejected, DPO_REWARD_REJECTED, -1},
    {STEP_policy_chosen, EVAL_policy_chosen, DPO_POLICY_CHOSEN, -1},
    {STEP_policy_rejected, EVAL_policy_rejected, DPO_POLICY_REJECTED, -1},
    {STEP_reference_chosen, EVAL_reference_chosen, DPO_REFERENCE_CHOSEN, -1},
    {STEP_reference_rejected, EVAL_reference_rejected, DPO_REFERENCE_REJECTED, -1},
    {STEP_pairs, EVAL_pairs, DPO_PAIRS, -1}};
enum { REPORTED = sizeof reported / sizeof *reported };

static double value_of(int64_t micro, int i)
{
    const double *stats = io.stats[micro];
    return stats[reported[i].of] - (reported[i].less < 0 ? 0 : stats[reported[i].less]);
}

void step_sums(int64_t micro, double *sum)
{
    sum[STEP_loss] = *io.loss[micro];
    for (int i = 0; i < REPORTED; i++)
        sum[reported[i].step] = value_of(micro, i);
}

void evaluate(Data *d, int64_t batches, double *sum)
{
    const int64_t most = data_steps_per_epoch(d);
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    for (int64_t b = 0; b < batches && b < most; b++) {
        pairs_fill(d, b, 0);
        step_eval();
        step_wait();
        double part[EVAL_METRICS] = {0};
        part[EVAL_loss] = *io.loss[0];
        for (int i = 0; i < REPORTED; i++)
            part[reported[i].eval] = value_of(0, i);
        part[EVAL_samples] = (double)data_rows(d, b, 0);
        part[EVAL_tokens] = world.rank == 0 ? (double)data_tokens(d, b) : 0;
        comm_fold(part, 1, EVAL_METRICS, sum);
    }
}

void evaluate_splits(double value[SPLITS][EVAL_METRICS])
{
    for (int g = 0; g < SPLITS; g++) {
        memset(value[g], 0, sizeof value[g]);
        if (!split[g].n)
            continue;
        evaluate(&split[g], data_eval_batches(&split[g], &model, flags->eval_batches), value[g]);
        metrics_values(objective_metrics.eval, EVAL_METRICS, value[g]);
    }
}

void say_splits(const char *when, double value[SPLITS][EVAL_METRICS])
{
    for (int g = 0; g < SPLITS; g++)
        if (split[g].n)
            note("%s training: %s, %.0f pair%s: loss %.6f  margin %.4f  accuracy %.3f", when,
                 split_name[g], value[g][EVAL_pairs], value[g][EVAL_pairs] == 1 ? "" : "s",
                 value[g][EVAL_loss], value[g][EVAL_margin], value[g][EVAL_accuracy]);
}

cJSON *splits_json(double value[SPLITS][EVAL_METRICS])
{
    cJSON *all = cJSON_CreateObject();
    for (int g = 0; g < SPLITS; g++) {
        if (!split[g].n)
            continue;
        cJSON *of = cJSON_AddObjectToObject(all, split_name[g]);
        json_add_float(of, "loss", value[g][EVAL_loss]);
        for (int i = 0; i < REPORTED; i++)
            json_add_float(of, objective_metrics.eval[reported[i].eval].name,
                           value[g][reported[i].eval]);
    }
    return all;
}
