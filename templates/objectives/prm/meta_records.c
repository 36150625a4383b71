/* meta_records.c -- opens and fills meta records, updates record weights. */
#define _GNU_SOURCE
#include "meta_records.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"             // die()
#include "runtime/data/workers.h"     // data-loader threads
#include "runtime/prm.h"              // entries of io.meta_stats
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/more_records.h" // opens --meta-data
#include "step.h"                     // io, model

static Data meta;                /* shuffled */
static Steps meta_steps;

int64_t meta_updates(int64_t steps)
{
    return steps > flags->cold_start ? (steps - flags->cold_start) / UNROLL : 0;
}

/* A run may be all cold start, which another run continues. */
static void note_updates(const Flags *f, const Data *train)
{
    const int64_t steps =
        f->steps ? f->steps : (int64_t)ceil(f->epochs * (double)data_steps_per_epoch(train));
    if (!meta_updates(steps))
        note("the weights of records are not learned in %lld steps: their first update follows "
             "step %lld (--cold-start, prm.unroll)", (long long)steps,
             (long long)flags->cold_start + UNROLL);
}

void meta_open(const Flags *f, const RecordRules *rules, const Data *train, const Data *eval)
{
    DataShape other = shape;
    if (!*f->meta_data)
        die(EXIT_CONFIG, "--meta-data is missing: records labelled right or wrong as a whole, from "
            "which the weights of --data's records are learned; to train without weights: gen %s "
            "prm.weights=none", model_words(&model, "prm.weights"));
    if (!strcmp(f->meta_data, f->data))
        note("--meta-data is --data: weights learned on the records that they weigh do not find "
             "wrong labels");
    other.micro = META;
    /* the records validated on are packed already */
    char *files = strcmp(f->meta_data, f->eval_data) ? format("%s", f->meta_data)
                                                     : data_paths(eval);
    records_open_more(f, &model, &other, rules, "meta-data", files, train, false, &meta);
    free(files);
    steps_open(&meta_steps, &meta, MARKS, false, false);
    note_updates(f, train);
}

char *meta_fingerprint(void)
{
    return data_fingerprint(&meta);
}

static void fill_record(void *fill, int64_t b)
{
    const Fill *f = fill;
    const Batch to = batch_at(f->micro);
    const Inputs inputs = {to.meta_tokens, to.meta_rows, to.meta_of};
    StepsRow r;
    bool there = steps_row(f->s, f->step, f->micro, b, &r);
    set_record(&inputs, b, there ? &r : NULL, there ? r.nmarks : 0);
    to.outcomes[b] = there ? r.outcome : 0;
}

/* The meta records of an update. */
static void fill(int64_t turn)
{
    *io.meta_scale = (float)(1.0 / (double)meta.G);
    data_order(&meta, turn);
    for (int64_t micro = 0; micro < model.accum; micro++)
        workers_run(META, fill_record, &(Fill){&meta_steps, turn, micro});
}

void meta_update(int64_t turn, int64_t of, double *sum)
{
    double part[MICROS][PRM_META_STATS], all[PRM_META_STATS] = {0};
    fill(turn);
    param_group_begin(SET_meta, turn, of);
    step_meta();
    step_wait();
    for (int64_t micro = 0; micro < MICROS; micro++)
        memcpy(part[micro], io.meta_stats[micro], sizeof part[micro]);
    comm_fold(part[0], MICROS, PRM_META_STATS, all);
    sum[STEP_meta_loss] = all[PRM_META_LOSS];
    sum[STEP_avg_aggregate_score] = all[PRM_META_SCORE];
    sum[STEP_meta_right] = all[PRM_META_RIGHT];
    sum[STEP_outcomes] = all[PRM_META_RECORDS];
}

void meta_fill_any(int64_t micro)
{
    const Batch to = batch_at(micro);
    int32_t next[METAN];         /* tokens after the marks, not used */
    data_fill_any(to.meta_tokens, to.meta_of, META * T, METAN, V, micro * META * T);
    data_gather(to.meta_of, META * T, to.meta_rows, next, METAN);
    for (int64_t b = 0; b < META; b++)
        to.outcomes[b] = (float)(b % 2);
    *io.meta_scale = (float)(1.0 / (double)(META * model.accum * model.ranks));
}

void meta_update_any(int64_t step, int64_t total)
{
    const int64_t turn = meta_updates(step);
    if (meta_updates(step + 1) == turn)
        return;
    param_group_begin(SET_meta, turn, meta_updates(total));
    step_meta();
    step_wait();
}
