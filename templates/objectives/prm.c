/* objective.c -- process reward model on the host: records, inputs and metrics of a step,
 * validation, hooks.
//@ head
 */
#define _GNU_SOURCE
#include "objective.h"

#include <stdio.h>
#include <string.h>

//@ if meta_tokens
#include "meta_records.h"
//@ end
//@ if record
#include "record_weights.h"
//@ end
#include "results.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/workers.h"     // data-loader threads
#include "runtime/prm.h"              // entries of io.stats
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/records.h"      // opens the records of --data
#include "score_files.h"
#include "scores.h"
#include "shape.h"                    // B, T, N, V, ...
#include "solutions.h"
#include "step.h"                     // io, model

//@ metrics

/* ---- records --------------------------------------------------------------------------------- */

//@ if PRM_WEIGHTS=instance
/* Each record has a weight of its own. */
static void check_room(void)
{
    if (trained->n > RECORDS)
        die(EXIT_CONFIG, "--data: %lld records, but this program has %d weights; use gen %s "
            "prm.records=%lld", (long long)trained->n, RECORDS,
            model_words(&model, "prm.records"), (long long)trained->n);
}

//@ end
//@ if PRM_WEIGHTS=domain
static void check_room(void)
{
    if (train_steps.ndomains > DOMAINS)
        die(EXIT_CONFIG, "--data: %d domains, but this program has %d weights; use gen %s "
            "prm.domains=%d", train_steps.ndomains, DOMAINS, model_words(&model, "prm.domains"),
            train_steps.ndomains);
    if (train_steps.ndomains == 1)
        note("all records of --data are of one domain, whose weight stays 1: no weights are "
             "learned");
}

//@ end
void objective_open(const Flags *f, Data *train, Data *eval)
{
    const bool meta_alone = *f->meta_data && !strcmp(f->meta_data, f->eval_data);
    const StepsRules steps = steps_rules(false);
    const RecordRules rules = {.formats = formats, .more = &steps,
                               .eval_flag = meta_alone ? "meta-data" : NULL};
    flags = f;
    trained = train;
//@ unless meta_tokens
    if (f->given[FLAG_cold_start] && f->cold_start)
        die(EXIT_CONFIG, "--cold-start: this program learns no record weights (prm.weights=none): "
            "leave it out");
//@ end
    records_open(f, &model, &shape, &rules, train, eval);
    if (records_train(f)) {
//@ if PRM_WEIGHTS=domain
        steps_open(&train_steps, train, MARKS, true, true);
        check_room();
//@ end
//@ unless PRM_WEIGHTS=domain
        steps_open(&train_steps, train, MARKS, true, false);
//@ end
//@ if PRM_WEIGHTS=instance
        check_room();
//@ end
//@ if meta_tokens
        meta_open(f, &rules, train, eval);
//@ end
    }
    if (records_validate(f))
        steps_open(&eval_steps, eval, MARKS, false, false);
    const Data *any = records_train(f) ? train : eval;
    pad = any->pad_id < 0 ? 0 : (int32_t)any->pad_id;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Totals over all ranks, for even and odd steps: one runs while the next is filled. */
static int64_t tokens[2];

static void fill_record(void *fill, int64_t b)
{
    const Fill *f = fill;
    const Batch to = batch_at(f->micro);
    const Inputs inputs = inputs_at(f->micro);
    StepsRow r;
    bool there = steps_row(f->s, f->step, f->micro, b, &r);
    set_record(&inputs, b, there ? &r : NULL, there ? r.nlabels : 0);
    for (int j = 0; j < MARKS; j++)
        to.rewards[b * MARKS + j] = there && j < r.nlabels ? r.label[j] : 0;
//@ if record
    to.record[b] = there ? entry_of(&r, f->step) : -1;
//@ end
}

//@ if meta_tokens
/* All inputs but those of meta records. */
//@ end
void objective_fill(Data *d, int64_t step)
{
    tokens[step % 2] = data_tokens(d, step);
    *io.scale = (float)(1.0 / (double)d->G);
    data_order(d, step);
    for (int64_t micro = 0; micro < model.accum; micro++)
        workers_run(B, fill_record, &(Fill){&train_steps, step, micro});
//@ if noise
    for (int64_t micro = 0; micro < model.accum; micro++)
        data_noise(io.noise[micro], (uint64_t)flags->seed, step, data_sample0(d, step, micro));
//@ end
//@ if domains
    *io.domains = train_steps.ndomains;
//@ end
}

/* Full rows with as many marks as fit, evenly spread. */
void objective_fill_any(void)
{
    tokens[0] = objective_work();
    *io.scale = (float)(1.0 / (double)(B * model.accum * model.ranks));
    for (int64_t micro = 0; micro < model.accum; micro++) {
        const Batch to = batch_at(micro);
        int32_t next[N];         /* tokens after the marks, not used */
        data_fill_any(to.tokens, to.target_of, B * T, N, V, micro * B * T);
        data_gather(to.target_of, B * T, to.target_rows, next, N);
        for (int64_t i = 0; i < N; i++)
            to.rewards[i] = 0.5f;
//@ if record
        for (int64_t b = 0; b < B; b++)
//@ if PRM_WEIGHTS=instance
            to.record[b] = (int32_t)(b % RECORDS);
//@ end
//@ unless PRM_WEIGHTS=instance
            to.record[b] = 0;
//@ end
//@ end
//@ if noise
        data_noise(io.noise[micro], 0, 0, micro * B);
//@ end
//@ if meta_tokens
        meta_fill_any(micro);
//@ end
    }
//@ if domains
    *io.domains = 1;
//@ end
}

//@ from common.c work

void objective_step(int64_t step, int64_t micro, double *sum)
{
    const double *stats = io.stats[micro];
    memset(sum, 0, STEP_METRICS * sizeof *sum);
    sum[STEP_loss] = *io.loss[micro];
    sum[STEP_inner_loss] = stats[PRM_LOSS];
    sum[STEP_step_accuracy] = stats[PRM_RIGHT];
    sum[STEP_samples] = stats[PRM_RECORDS];
    sum[STEP_marks] = stats[PRM_MARKS];
    sum[STEP_tokens] = world.rank == 0 && micro == 0 ? (double)tokens[step % 2] : 0;
}

//@ if meta_tokens
static bool updated(int64_t step, int64_t total, double *sum)
{
    const int64_t turn = meta_updates(step);
    const bool due = meta_updates(step + 1) > turn;
    if (due) {
        objective_fill(trained, step);
        meta_update(turn, meta_updates(total), sum);
    }
//@ unless PRM_WEIGHTS=net
    record_weights_report(due, sum);
//@ end
    return due;
}

//@ end
/* Its targets are the marks that have a label. */
static bool show(Data *d, int64_t step, int64_t micro, int64_t b, ShownRow *to)
{
    static int32_t token[T];
    static uint8_t target[T];
    StepsRow r;
    (void)d;
    if (b >= B || !steps_row(&train_steps, step, micro, b, &r))
        return false;
    int n = snprintf(to->about, sizeof to->about, "sample %lld, labels", (long long)r.sample);
    for (int j = 0; j < r.nlabels && n < (int)sizeof to->about - 10; j++)
        n += snprintf(to->about + n, sizeof to->about - (size_t)n, " %.3g", r.label[j]);
    memset(target, 0, sizeof target);
    for (int j = 0; j < r.nlabels; j++)
        target[r.position[j]] = 1;
    memcpy(token, r.token, sizeof *token * (size_t)r.n);
    to->n = r.n, to->padding = T - r.n;
    to->token = to->label = token, to->target = target;
    return true;
}

/* ---- validation ------------------------------------------------------------------------------ */

void objective_validate(Data *d, int64_t batches, double *sum)
{
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    for (int64_t batch = 0; batch < batches; batch++) {
        Scored one;
        double part[EVAL_METRICS] = {0};
        score_batch(&eval_steps, batch);
        for (int64_t b = 0; b < B; b++) {
            if (!scored(&eval_steps, batch, b, &one))
                continue;
            const double off = one.score - one.of.outcome;
            part[EVAL_loss] += off * off;
            part[EVAL_avg_aggregate_score] += one.score;
            part[EVAL_accuracy] += (one.score > 0.5) == (one.of.outcome > 0.5);
            part[EVAL_samples]++;
            for (int j = 0; j < one.of.nlabels; j++)
                part[EVAL_step_accuracy] += (one.margin[j] > 0) == (one.of.label[j] > 0.5f);
            part[EVAL_marks] += one.of.nlabels;
        }
        part[EVAL_tokens] = world.rank == 0 ? (double)data_tokens(d, batch) : 0;
        comm_fold(part, 1, EVAL_METRICS, sum);
    }
}

/* ---- hooks ----------------------------------------------------------------------------------- */

//@ if record
//@ unless PRM_WEIGHTS=net
static char *write_weights(const Flags *f, const WeightFolders folder, const Epochs *epochs)
{
    (void)f, (void)folder, (void)epochs;
    return record_weights_write();
}

//@ end
//@ end
/* EXIT_CONFIG if the score head is all zeros and not trained: no layer would get a gradient. */
static bool loaded(const Flags *f, const WeightFolders folder, bool start)
{
    const Tensor *t = model_need(&model, "score.2.weight");
    (void)f, (void)folder, (void)start;
    if (!t->trained && model_all_zeros(t))
        die(EXIT_CONFIG, "--init-from: the score head is all zeros and is not trained, so nothing "
            "would be learned; name a model that has one, or use gen %s prm.train_head=true",
            model_words(&model, "prm.train_head"));
    return false;
}

static void finished(const Flags *f, const WeightFolders folder, const Checkpoints *last)
{
//@ if PRM_WEIGHTS=net
    char *error = record_weights_write();
    if (error)
        die(EXIT_IO, "%s", error);
//@ end
//@ if record
    record_weights_say_suspects();
//@ end
    model_write(f, folder, last);
}

static const char *const files[] = {
    checkpoints,
//@ if record
    weights_file,
    suspects_file,
//@ end
    NULL,
};
static const Additions additions = {
    .mark = @PRM_MARK@,
    .system = @PRM_SYSTEM@,
//@ if PRM_NEW_MARK=true
    .token = @PRM_MARK@,
//@ end
//@ unless PRM_TRAIN_HEAD=true
    .layers = "score.",
    .field = "prm.train_head",
//@ end
};
static const FigureReader figures[] = {
    {"weights", table_weights}, {"domains", table_domains}, {NULL, NULL}};
const ObjectiveHooks objective_hooks = {
    .commands = commands,
    .show = show,
    .additions = &additions,
    .figures = figures,
//@ if meta_tokens
    .other_records = meta_fingerprint,
    .updated = updated,
    .updated_any = meta_update_any,
    .round = UNROLL,
//@ end
//@ if record
//@ unless PRM_WEIGHTS=net
    .write = write_weights,
//@ end
//@ end
    .name = checkpoint_name,
    .named = checkpoint_named,
    .files = files,
    .loaded = loaded,
    .finished = finished,
};
