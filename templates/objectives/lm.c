/* objective.c -- language modelling on the host: token batches and their labels, validation,
 * sampling.
//@ head
 */
//@ unless positions
#include <stdio.h>
//@ end
#include <string.h>

#include "objective.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/vocabulary.h"  // the tokenizer that weights were trained with
#include "runtime/data/workers.h"     // data-loader threads
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/chat.h"         // --chat
#include "runtime/run/generate.h"     // --sample, --prompts
#include "runtime/run/records.h"      // opens the records of --data
#include "shape.h"                    // B, T, V, ...
#include "step.h"                     // io, model

//@ metrics

//@ if noise
static uint64_t seed;

//@ end
/* ---- records --------------------------------------------------------------------------------- */

void objective_open(const Flags *f, Data *train, Data *eval)
{
    const DataShape of = {
        .kind = "@KIND@",
        .T = T,
        .vocab = V,
//@ if positions
        .fill_bins = data_fill_bins,
//@ end
//@ if target_rows
        .targets = N,
//@ end
    };
    static const FormatCode *const formats[] = {&text_format,     &file_format,   &messages_format,
                                                &sharegpt_format, &prompt_format, &alpaca_format,
                                                NULL};
    const RecordRules rules = {.formats = formats};
//@ if noise
    seed = (uint64_t)f->seed;
//@ end
    records_open(f, &model, &of, &rules, train, eval);
}

//@ from common.c suit

/* ---- a step ---------------------------------------------------------------------------------- */

/* Totals over all ranks: targets, the divisor of the loss; tokens that are not padding. */
typedef struct {
    int64_t targets, tokens;
} Counts;

static Counts counted[2];        /* of even and odd steps: one runs while the next is filled */

//@ from common.c batch_at

/* The loss of a step is the mean over the targets of all its micro-batches and ranks. */
static void set_counts(int64_t step, Counts c)
{
    counted[step % 2] = c;
    *io.scale = c.targets ? (float)(1.0 / (double)c.targets) : 0;
}

typedef struct {
    Data *d;
    int64_t step;
} Fill;

static void fill_micro(void *fill, int64_t micro)
{
    const Fill *f = fill;
    data_batch(f->d, f->step, micro, batch_at(micro));
//@ if noise
    data_noise(io.noise[micro], seed, f->step, data_sample0(f->d, f->step, micro));
//@ end
}

void objective_fill(Data *d, int64_t step)
{
    set_counts(step, (Counts){data_targets(d, step), data_tokens(d, step)});
    workers_run(model.accum, fill_micro, &(Fill){d, step});
}

//@ if target_rows
/* Full rows with as many targets as fit, evenly spread. */
//@ end
void objective_fill_any(void)
{
    const int64_t rows = B * T, tokens = objective_work();
//@ if target_rows
    set_counts(0, (Counts){N * model.accum * model.ranks, tokens});
//@ end
//@ unless target_rows
    set_counts(0, (Counts){tokens, tokens});
//@ end
    for (int64_t micro = 0; micro < model.accum; micro++) {
        Batch to = batch_at(micro);
//@ if target_rows
        data_fill_any(to.tokens, to.target_of, rows, N, V, micro * rows);
//@ end
//@ unless target_rows
        data_fill_any(to.tokens, to.labels, rows, rows, V, micro * rows);
//@ end
//@ if positions
        for (int64_t i = 0; i < rows; i++) {
            to.positions[i] = (int32_t)(i % T);
            to.doc_ends[i] = (int32_t)T;
        }
//@ end
//@ if target_rows
        data_gather(to.target_of, rows, to.target_rows, to.labels, N);
//@ end
//@ if noise
        data_noise(io.noise[micro], seed, 0, micro * B);
//@ end
    }
}

//@ from common.c work

void objective_step(int64_t step, int64_t micro, double *sum)
{
    const Counts *c = &counted[step % 2];
    const bool tells = world.rank == 0 && micro == 0;
    sum[STEP_loss] = *io.loss[micro];
    sum[STEP_targets] = tells ? (double)c->targets : 0;
    sum[STEP_tokens] = tells ? (double)c->tokens : 0;
}

static bool show(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to)
{
    const Batch at = batch_at(micro);
    if (row == B)
        return false;
//@ if positions
    (void)d, (void)step;
    show_labels(to, &at, row, -1, T, true);
//@ end
//@ unless positions
    DataRow its;
    data_row(d, step, micro, row, &its);
    snprintf(to->about, sizeof to->about, "sample %lld", (long long)its.sample);
    show_labels(to, &at, row, its.n, T, true);
//@ end
    return true;
}

/* ---- validation ------------------------------------------------------------------------------ */

/* Sums for the mean over all targets and for the mean of batch means, as transformers reports. */
void objective_validate(Data *d, int64_t batches, double *sum)
{
//@ if target_rows
    const int64_t rows = N;
//@ end
//@ unless target_rows
    const int64_t rows = B * T;
//@ end
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    for (int64_t b = 0; b < batches; b++) {
        fill_micro(&(Fill){d, b}, 0);
        step_eval();
        step_wait();
        const double loss = *io.loss[0], samples = (double)data_rows(d, b, 0);
        double targets = 0, part[EVAL_METRICS] = {0};
        for (int64_t i = 0; i < rows; i++)
            targets += io.labels[0][i] >= 0;
        part[EVAL_loss] = targets > 0 ? loss / targets * samples : 0;
        part[EVAL_samples] = samples;
        part[EVAL_loss_token] = part[EVAL_perplexity] = loss;
        part[EVAL_targets] = targets;
        part[EVAL_tokens] = world.rank == 0 ? (double)data_tokens(d, b) : 0;
        comm_fold(part, 1, EVAL_METRICS, sum);
    }
}

/* ---- sampling -------------------------------------------------------------------------------- */

//@ from common.c decoder

//@ from common.c talk

static const ObjectiveCommand commands[] = {
    {FLAG_sample, sample}, {FLAG_prompts, sample}, {FLAG_chat, chat}, {0, NULL}};
const ObjectiveHooks objective_hooks = {.commands = commands, .show = show};
