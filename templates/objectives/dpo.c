/* objective.c -- dpo on the host: pairs of answers, the reference's view of them, validation.
//@ head
 */
#include <stdlib.h>
#include <string.h>

#include "objective.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/vocabulary.h"  // which tokenizer weights were trained with
#include "runtime/data/workers.h"     // threads that make batches
#include "runtime/dpo.h"              // entries of io.stats
#include "runtime/run/records.h"      // opens what --data names
#include "shape.h"                    // B, S, T, N, V, ...
#include "step.h"                     // io, model

//@ metrics

enum { ANSWERS = 2 };            // of a pair: sequences 2i, chosen, and 2i + 1, rejected

static const char *const parts[] = {"chosen", "rejected", NULL};
static uint64_t seed;
static int32_t pad;              /* what follows an answer in its row */
//@ if reference
/* Of what is trained and validated on; (samples, 2): log-probabilities by the first weights. */
static const Data *opened[2];
static float *reference[2];
//@ end

/* ---- records --------------------------------------------------------------------------------- */

void objective_open(const Flags *f, Data *train, Data *eval)
{
    const DataShape of = {.kind = "@KIND@", .T = T, .vocab = V, .targets = N, .parts = parts,
                          .whole = true, .split = {0.85, 0.10}};
    const RecordRules rules = {0};
    seed = (uint64_t)f->seed;
    records_open(f, &model, &of, &rules, train, eval);
    const Data *d = records_train(f) ? train : eval;
//@ if reference
    opened[0] = records_train(f) ? train : NULL;
    opened[1] = records_validate(f) ? eval : NULL;
//@ end
    pad = (records_train(f) || records_validate(f)) && d->pad_id >= 0 ? (int32_t)d->pad_id : 0;
}

/* Weights mean something only with the ids they were trained on. */
void objective_suit(const WeightFolders folder, const Data *records)
{
    vocabulary_check(folder, WEIGHT_FOLDERS, records);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Of all ranks: pairs, by which the loss is divided, and tokens that are not padding. */
typedef struct {
    int64_t pairs, tokens;
} Counts;

static Counts counted[2];        /* of even and odd steps: one runs while the next is filled */

/* Where the inputs of a micro-batch stand. */
static Batch batch_at(int64_t micro)
{
    return (Batch){
//@ batch
    };
}

static void set_counts(int64_t step, Counts c)
{
    counted[step % 2] = c;
    *io.scale = c.pairs ? (float)(1.0 / (double)c.pairs) : 0;
}

/* The tokens of an answer behind its prompt, and padding: row b of a micro-batch. */
static void fill_row(const Batch *to, int64_t b, const DataRow *row)
{
    int32_t *token = to->tokens + b * T, *label = to->target_of + b * T;
    for (int64_t t = 0; t < T; t++) {
        token[t] = t < row->n ? row->token[t] : pad;
        label[t] = t + 1 < row->n && (!row->mask || row->mask[t + 1]) ? row->token[t + 1] : -1;
    }
}

static void fill_tokens(Data *d, int64_t step, int64_t micro)
{
    const Batch to = batch_at(micro);
    for (int64_t b = 0; b < B; b++) {
        DataRow row = {0};
        if (!data_part(d, step, micro, b / ANSWERS, (int)(b % ANSWERS), &row))
            row.n = 0;
        fill_row(&to, b, &row);
//@ if reference
        to.reference[b] = row.n ? reference[d->eval][ANSWERS * row.sample + b % ANSWERS] : 0;
//@ end
    }
    data_gather(to.target_of, B * T, to.target_rows, to.labels, N);
}

typedef struct {
    Data *d;
    int64_t step;
} Fill;

static void fill_micro(void *fill, int64_t micro)
{
    Data *d = ((const Fill *)fill)->d;
    const int64_t step = ((const Fill *)fill)->step;
    fill_tokens(d, step, micro);
//@ if noise
    data_noise(io.noise[micro], seed, step, ANSWERS * data_sample0(d, step, micro));
//@ end
}

//@ if reference
/* The pairs from a place on, counted through all steps, as micro-batch 0: their answers' scores. */
static void score_pairs(Data *all, int64_t place, float *to)
{
    const Batch at = batch_at(0);
    DataRow row[B];
    for (int64_t b = 0; b < B; b++) {
        int64_t p = place + b / ANSWERS;
        if (!data_part_of_step(all, p / all->G, p % all->G, (int)(b % ANSWERS), &row[b]))
            row[b].n = 0;
        fill_row(&at, b, &row[b]);
    }
    data_gather(at.target_of, B * T, at.target_rows, at.labels, N);
    step_score();
    step_wait();
    for (int64_t b = 0; b < B; b++)
        if (row[b].n)
            to[ANSWERS * row[b].sample + b % ANSWERS] = io.score[b];
}

/* Every sample of d by the weights as they are, (samples, 2); malloc'ed. Writes over
 * micro-batch 0. */
static float *score_all(const Data *d)
{
    Data all = *d;
    all.whole = false;
    float *to = calloc((size_t)(ANSWERS * d->n), sizeof *to);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for the reference's log-probabilities");
    const int64_t places = data_steps_per_epoch(&all) * all.G;
    for (int64_t p = 0; p < places; p += S)
        score_pairs(&all, p, to);
    return to;
}

/* Before the first step: later weights are not the reference. */
static void make_reference(int64_t step)
{
    if (reference[0] || reference[1])
        return;
    if (step)
        die(EXIT_NO_CKPT, "the log-probabilities of the reference are those of the first weights, "
            "which are gone: train anew, --force");
    for (int i = 0; i < 2; i++)
        if (opened[i])
            reference[i] = score_all(opened[i]);
}
//@ end

void objective_fill(Data *d, int64_t step)
{
//@ if reference
    make_reference(step);
//@ end
    set_counts(step, (Counts){d->G, data_tokens(d, step)});
    workers_run(model.accum, fill_micro, &(Fill){d, step});
}

/* A token of no meaning. */
static int32_t any_token(int64_t n)
{
    return (int32_t)((uint64_t)n * 2654435761u % (uint64_t)V);
}

/* Whole rows, as many targets as there may be, evenly spread. */
void objective_fill_any(void)
{
    const int64_t rows = B * T, all = model.accum * model.ranks;
    set_counts(0, (Counts){S * all, rows * all});
    for (int64_t micro = 0; micro < model.accum; micro++) {
        const Batch to = batch_at(micro);
        for (int64_t i = 0; i < rows; i++) {
            bool target = (i + 1) * N / rows > i * N / rows;
            to.tokens[i] = any_token(micro * rows + i);
            to.target_of[i] = target ? any_token(micro * rows + i + 1) : -1;
        }
        data_gather(to.target_of, rows, to.target_rows, to.labels, N);
//@ if reference
        for (int64_t b = 0; b < B; b++)
            to.reference[b] = -5;
//@ end
//@ if noise
        data_noise(io.noise[micro], seed, 0, micro * B);
//@ end
    }
}

int64_t objective_work(void)
{
    return B * T * model.accum * model.ranks;
}

/* What io.stats has of pairs, as the metrics of a step. */
void objective_step(int64_t step, double *sum)
{
    const Counts *c = &counted[step % 2];
    const double *s = io.stats;
    sum[STEP_loss] = *io.loss;
    sum[STEP_margin] = s[DPO_REWARD_CHOSEN] - s[DPO_REWARD_REJECTED];
    sum[STEP_accuracy] = s[DPO_ACCURATE];
    sum[STEP_reward_chosen] = s[DPO_REWARD_CHOSEN];
    sum[STEP_reward_rejected] = s[DPO_REWARD_REJECTED];
    sum[STEP_policy_chosen] = s[DPO_POLICY_CHOSEN];
    sum[STEP_policy_rejected] = s[DPO_POLICY_REJECTED];
    sum[STEP_reference_chosen] = s[DPO_REFERENCE_CHOSEN];
    sum[STEP_reference_rejected] = s[DPO_REFERENCE_REJECTED];
    sum[STEP_pairs] = s[DPO_PAIRS];
    sum[STEP_tokens] = world.rank == 0 ? (double)c->tokens : 0;
}

/* ---- validation ------------------------------------------------------------------------------ */

void objective_validate(Data *d, int64_t batches, double *sum)
{
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
//@ if reference
    if (!reference[1])
        die(EXIT_NO_CKPT, "the log-probabilities of the reference are those of the first weights: "
            "this program validates while it trains");
//@ end
    for (int64_t b = 0; b < batches; b++) {
        fill_micro(&(Fill){d, b}, 0);
        step_eval();
        step_wait();
        const double *s = io.stats;
        sum[EVAL_loss] += *io.loss;
        sum[EVAL_margin] += s[DPO_REWARD_CHOSEN] - s[DPO_REWARD_REJECTED];
        sum[EVAL_accuracy] += s[DPO_ACCURATE];
        sum[EVAL_reward_chosen] += s[DPO_REWARD_CHOSEN];
        sum[EVAL_reward_rejected] += s[DPO_REWARD_REJECTED];
        sum[EVAL_policy_chosen] += s[DPO_POLICY_CHOSEN];
        sum[EVAL_policy_rejected] += s[DPO_POLICY_REJECTED];
        sum[EVAL_reference_chosen] += s[DPO_REFERENCE_CHOSEN];
        sum[EVAL_reference_rejected] += s[DPO_REFERENCE_REJECTED];
        sum[EVAL_pairs] += s[DPO_PAIRS];
        sum[EVAL_samples] += (double)data_rows(d, b, 0);
        sum[EVAL_tokens] += world.rank == 0 ? (double)data_tokens(d, b) : 0;
    }
}

const ObjectiveHooks objective_hooks = {0};
