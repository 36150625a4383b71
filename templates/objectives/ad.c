/* objective.c -- ad on the host: sequences of transitions and queries, validation.
//@ head
 */
#include <string.h>

#include "objective.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/choice.h"           // what io.stats holds
#include "runtime/darkroom.h"         // tokens
#include "shape.h"                    // B, T, N, ...
#include "step.h"                     // io, model

//@ metrics

/* ---- records --------------------------------------------------------------------------------- */

void objective_open(const Flags *f, Data *train, Data *eval)
{
    (void)train, (void)eval;
    if (*f->data || *f->eval_data)
        die(EXIT_CONFIG, "--data: this program reads no histories; --profile tells how fast it is");
}

void objective_suit(const WeightFolders folder, const Data *records)
{
    (void)folder, (void)records;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Where the inputs of a micro-batch stand. */
static Batch batch_at(int64_t micro)
{
    return (Batch){
//@ batch
    };
}

void objective_fill(Data *d, int64_t step)
{
    (void)d, (void)step;
    objective_fill_any();
}

/* Whole sequences, the queries last. */
void objective_fill_any(void)
{
    enum { QUERIES = N / B };
    const float scale = (float)(1.0 / (double)objective_work());
    *io.scale = scale;
//@ if type_scale
    *io.type_scale = scale;
//@ end
    for (int64_t micro = 0; micro < model.accum; micro++) {
        const Batch to = batch_at(micro);
        for (int64_t i = 0; i < B * T; i++) {
            const int64_t query = i % T - (T - QUERIES);
            to.tokens[i] = query < 0 ? (int32_t)(i * 7 % DARKROOM_TRANSITIONS)
                                     : darkroom_query((int)(i % DARKROOM_STATES));
            to.places[i] = (int32_t)(query < 0 ? i % T : query + T + 1 - 2 * QUERIES);
            to.target_of[i] = query < 0 ? -1 : (int32_t)(i / T * QUERIES + query);
            if (query >= 0)
                to.target_rows[to.target_of[i]] = (int32_t)i;
        }
        for (int64_t i = 0; i < N; i++) {
            to.labels[i] = (int32_t)(i % DARKROOM_ACTIONS);
//@ if kinds
            to.kinds[i] = 0;
//@ end
        }
//@ if noise
        data_noise(io.noise[micro], 0, 0, micro * B);
//@ end
    }
}

int64_t objective_work(void)
{
    return N * model.accum * model.ranks;
}

void objective_step(int64_t step, double *sum)
{
    const double n = (double)(N * model.accum);
    (void)step;
    memset(sum, 0, STEP_METRICS * sizeof *sum);
    sum[STEP_loss] = *io.loss / (n * model.ranks);
    sum[STEP_loss_action] = io.stats[CHOICE_LOSS];
    sum[STEP_acc_action] = io.stats[CHOICE_HITS];
    sum[STEP_loss_token_type] = io.stats[CHOICE_TYPE_LOSS];
    sum[STEP_acc_token_type] = io.stats[CHOICE_TYPE_HITS];
    sum[STEP_actions] = sum[STEP_types] = sum[STEP_predictions] = n;
    sum[STEP_tokens] = (double)(B * T * model.accum);
}

void objective_validate(Data *d, int64_t batches, double *sum)
{
    (void)d, (void)batches;
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
}

const ObjectiveHooks objective_hooks = {0};
