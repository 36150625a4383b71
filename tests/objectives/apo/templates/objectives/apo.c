/* objective.c -- apo on the host: prompts with one answer each, desired or not; validation.
//@ head
 */
#include <stdio.h>
#include <string.h>

#include "objective.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/vocabulary.h"  // which tokenizer weights were trained with
#include "runtime/data/workers.h"     // threads that make batches
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/records.h"      // opens what --data names
#include "shape.h"                    // B, T, V, ...
#include "step.h"                     // io, model

//@ metrics

//@ if noise
static uint64_t seed;

//@ end
/* ---- records --------------------------------------------------------------------------------- */

/* A prompt with its completion, of which the prompt is masked, and a label each. */
void objective_open(const Flags *f, Data *train, Data *eval)
{
    static const char *const parts[] = {"answer", NULL};
    static const DataColumn columns[] = {{.name = "label", .dtype = ST_U8}, {.name = NULL}};
    const DataShape of = {
        .kind = "@KIND@", .T = T, .vocab = V, .parts = parts, .targets = N, .columns = columns};
    const RecordRules rules = {0};
//@ if noise
    seed = (uint64_t)f->seed;
//@ end
    records_open(f, &model, &of, &rules, train, eval);
}

void objective_suit(const WeightFolders folder, const Data *records)
{
    vocabulary_check(folder, WEIGHT_FOLDERS, records);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static int64_t tokens_of[2];     /* of all ranks, of even and odd steps */

static Batch batch_at(int64_t micro)
{
    return (Batch){
//@ batch
    };
}

/* The loss of a step is the mean over its samples. */
static void set_counts(int64_t step, int64_t samples, int64_t tokens)
{
    tokens_of[step % 2] = tokens;
    *io.scale = samples ? (float)(1.0 / (double)samples) : 0;
}

typedef struct {
    Data *d;
    int64_t step;
} Fill;

static void fill_micro(void *fill, int64_t micro)
{
    Data *d = ((const Fill *)fill)->d;
    const int64_t step = ((const Fill *)fill)->step;
    const Batch to = batch_at(micro);
    for (int64_t i = 0; i < B; i++) {
        DataRow row = {.n = 0};
        int64_t n;
        const bool there = data_part(d, step, micro, i, 0, &row);
        const uint8_t *label = there ? data_column(d, 0, row.sample, &n) : NULL;
        to.desired[i] = label && *label;
        for (int64_t t = 0; t < T; t++) {
            const bool target = t + 1 < row.n && (!row.mask || row.mask[t + 1]);
            to.tokens[i * T + t] = t < row.n ? row.token[t] : 0;
            to.target_of[i * T + t] = target ? row.token[t + 1] : -1;
        }
    }
    data_gather(to.target_of, B * T, to.target_rows, to.labels, N);
//@ if noise
    data_noise(io.noise[micro], seed, step, data_sample0(d, step, micro));
//@ end
}

void objective_fill(Data *d, int64_t step)
{
    set_counts(step, d->G, data_tokens(d, step));
    data_order(d, step);
    workers_run(model.accum, fill_micro, &(Fill){d, step});
}

void objective_fill_any(void)
{
    const int64_t rows = B * T;
    set_counts(0, B * model.accum * model.ranks, objective_work());
    for (int64_t micro = 0; micro < model.accum; micro++) {
        const Batch to = batch_at(micro);
        data_fill_any(to.tokens, to.target_of, rows, N, V, micro * rows);
        data_gather(to.target_of, rows, to.target_rows, to.labels, N);
        for (int64_t i = 0; i < B; i++)
            to.desired[i] = i % 2;
//@ if noise
        data_noise(io.noise[micro], seed, 0, micro * B);
//@ end
    }
}

int64_t objective_work(void)
{
    return B * T * model.accum * model.ranks;
}

void objective_step(int64_t step, int64_t micro, double *sum)
{
    const double *stats = io.stats[micro];
    sum[STEP_loss] = *io.loss[micro];
    sum[STEP_chosen] = stats[0], sum[STEP_rejected] = stats[1];
    sum[STEP_reward_chosen] = stats[2], sum[STEP_reward_rejected] = stats[3];
    sum[STEP_samples] = stats[0] + stats[1];
    sum[STEP_tokens] = world.rank == 0 && micro == 0 ? (double)tokens_of[step % 2] : 0;
}

static bool show(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to)
{
    const Batch at = batch_at(micro);
    DataRow its;
    if (row == B || !data_part(d, step, micro, row, 0, &its))
        return false;
    snprintf(to->about, sizeof to->about, "sample %lld, %s", (long long)its.sample,
             at.desired[row] ? "desired" : "undesired");
    show_labels(to, &at, row, its.n, T, true);
    return true;
}

/* ---- validation ------------------------------------------------------------------------------ */

void objective_validate(Data *d, int64_t batches, double *sum)
{
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    for (int64_t b = 0; b < batches; b++) {
        data_order(d, b);
        fill_micro(&(Fill){d, b}, 0);
        step_eval();
        step_wait();
        const double *stats = io.stats[0];
        double part[EVAL_METRICS] = {0};
        part[EVAL_loss] = *io.loss[0];
        part[EVAL_chosen] = stats[0], part[EVAL_rejected] = stats[1];
        part[EVAL_reward_chosen] = stats[2], part[EVAL_reward_rejected] = stats[3];
        part[EVAL_samples] = (double)data_rows(d, b, 0);
        part[EVAL_tokens] = world.rank == 0 ? (double)data_tokens(d, b) : 0;
        comm_fold(part, 1, EVAL_METRICS, sum);
    }
}

/* The reference is a copy of the weights that the run began with. */
static bool loaded(const Flags *f, const WeightFolders folder, bool start)
{
    (void)f, (void)folder;
    if (start)
        model_keep_start(&model);
    return !start;
}

const ObjectiveHooks objective_hooks = {.show = show, .loaded = loaded, .wants_start = true};
