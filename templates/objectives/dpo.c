/* objective.c -- preference optimisation on the host: inputs and metrics of a step, validation,
 * hooks.
//@ head
 */
#define _GNU_SOURCE
#include "objective.h"

#include "answers.h"
#include "baseline.h"
#include "evaluation.h"
#include "pairs.h"
#include "results.h"
#include "runtime/base.h"             // format(), the world of ranks
#include "shape.h"                    // B, T, ...
#include "step.h"                     // io, model

/* Totals over all ranks: pairs, the divisor of the loss; tokens that are not padding. */
typedef struct {
    int64_t pairs, tokens;
} Counts;

static Counts counted[2];        /* of even and odd steps: one runs while the next is filled */

static void set_counts(int64_t step, Counts c)
{
    counted[step % 2] = c;
    *io.scale = c.pairs ? (float)(1.0 / (double)c.pairs) : 0;
}

void objective_fill(Data *d, int64_t step)
{
    set_counts(step, (Counts){d->G, data_tokens(d, step)});
    for (int64_t micro = 0; micro < model.accum; micro++)
        pairs_fill(d, step, micro);
}

void objective_fill_any(void)
{
    set_counts(0, (Counts){PAIRS * model.accum * model.ranks, objective_work()});
    for (int64_t micro = 0; micro < model.accum; micro++)
        pairs_fill_any(micro);
}

//@ from common.c work

void objective_step(int64_t step, int64_t micro, double *sum)
{
    step_sums(micro, sum);
    sum[STEP_tokens] = world.rank == 0 && micro == 0 ? (double)counted[step % 2].tokens : 0;
}

/* Also evaluates as many training records, the first ones: --stop-margin looks at both. Samples and
 * tokens are those of the validation records, as TRL counts them. */
void objective_validate(Data *d, int64_t batches, double *sum)
{
    double train[EVAL_METRICS] = {0};
    const int64_t n = batches * d->G < d->n ? batches * d->G : d->n;
    Data first = split[TRAIN];
    first.n = first.n < n ? first.n : n;
    if (first.n)
        evaluate(&first, batches, train);
    evaluate(d, batches, sum);
    sum[EVAL_train_loss] = train[EVAL_loss];
    sum[EVAL_train_margin] = train[EVAL_margin];
    sum[EVAL_train_accuracy] = train[EVAL_accuracy];
    sum[EVAL_seen] = train[EVAL_pairs];
}

/* --stop-margin X, in log-probabilities: the margin without the factor beta. */
static char *enough(const double *eval)
{
//@ if DPO_REWARD_BETA=true
    const double most = flags->stop_margin * @DPO_BETA@;
//@ end
//@ unless DPO_REWARD_BETA=true
    const double most = flags->stop_margin;
//@ end
    const bool train = eval[EVAL_train_margin] > most;
    if (!(most > 0) || !(train || eval[EVAL_margin] > most))
        return NULL;
    return format("the margin of %s is %.4g (--stop-margin %g)", train ? "training" : "validation",
                  eval[train ? EVAL_train_margin : EVAL_margin], flags->stop_margin);
}

static const FigureReader figures[] = {{"preferences", table_csv}, {NULL, NULL}};
const ObjectiveHooks objective_hooks = {
    .commands = commands,
    .show = pairs_show,
    .loaded = baseline_loaded,
    .wants_start = true,
    .enough = enough,
    .write = results_write,
    .files = result_files,
    .figures = figures,
    .finished = results_finished,
};
