/* objective.c -- process reward models on the host: records whose steps have marks and labels.
//@ head
 */
#include <string.h>

#include "objective.h"
#include "runtime/base.h"               // die(), the world of ranks
#include "runtime/prm.h"                // the entries of io.stats
#include "shape.h"                      // B, T, N
#include "step.h"                       // io, model

//@ metrics

void objective_open(const Flags *f, Data *train, Data *eval)
{
    (void)train, (void)eval;
    if (*f->data || *f->eval_data)
        die(EXIT_CONFIG, "%s: records of steps have no reader; try --bench-steps 20 without --data",
            *f->data ? f->data : f->eval_data);
}

void objective_suit(const WeightFolders folder, const Data *own)
{
    (void)folder, (void)own;
}

void objective_fill(Data *d, int64_t step)
{
    (void)d, (void)step;
    objective_fill_any();
}

/* Records of T tokens with all their marks at the end. */
void objective_fill_any(void)
{
    for (int64_t micro = 0; micro < model.accum; micro++) {
        memset(io.target_of[micro], -1, sizeof *io.target_of[micro] * B * T);
        for (int64_t i = 0; i < B * T; i++)
            io.tokens[micro][i] = (int32_t)(i % 256);
        for (int64_t i = 0; i < N; i++) {
            const int64_t marks = N / B, at = (i / marks + 1) * T - marks + i % marks;
            io.target_rows[micro][i] = (int32_t)at;
            io.target_of[micro][at] = (int32_t)i;
            io.rewards[micro][i] = (float)(i % 2);
        }
//@ if record
        for (int64_t i = 0; i < B; i++)
            io.record[micro][i] = -1;
//@ end
//@ if noise
        data_noise(io.noise[micro], 0, 0, micro * B);
//@ end
    }
    *io.scale = (float)(1.0 / (double)(B * model.accum * model.ranks));
}

int64_t objective_work(void)
{
    return B * T * model.accum * model.ranks;
}

void objective_step(int64_t step, double *sum)
{
    (void)step;
    sum[STEP_loss] = *io.loss;
    sum[STEP_samples] = io.stats[PRM_RECORDS];
    sum[STEP_tokens] = (double)(B * T * model.accum);
}

void objective_validate(Data *d, int64_t batches, double *sum)
{
    (void)d, (void)batches;
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
}

const ObjectiveHooks objective_hooks = {0};
