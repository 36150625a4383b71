/* objective.c -- prm on the host: solutions in steps, weights of records, validation, scores.
//@ head
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objective.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/steps.h"       // records of solutions in steps
#include "runtime/data/vocabulary.h"  // which tokenizer weights were trained with
#include "runtime/data/workers.h"     // threads that make batches
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/model/weights.h"    // how long that takes
#include "runtime/prm.h"              // what io.stats holds, scores of solutions
#include "runtime/pack/format_steps.h" // solutions in steps as raw data
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/initial_weights.h"       // folders for other programs
#include "runtime/run/run_folder.h"          // names of checkpoints
#include "runtime/run/records.h"      // opens what --data names
#include "shape.h"                    // B, T, N, V, ...
#include "step.h"                     // io, model

//@ metrics

enum { MARKS = N / B };          /* of a record, at most */

static const Flags *flags;
static int32_t pad;              /* what follows a solution in its row */
static Data *trained;            /* --data */
static Steps train_steps, eval_steps;
//@ if meta_tokens
static Data meta;                /* --meta-data, shuffled */
static Steps meta_steps;
//@ end

/* ---- records --------------------------------------------------------------------------------- */

/* steps_open() bounds its marks, which are its targets. */
static const DataShape shape = {.kind = "@KIND@", .T = T, .vocab = V, .parts = steps_parts,
                                .columns = steps_columns, .own_targets = true};

static const FormatCode *const formats[] = {&steps_format, &stepwise_format,
                                            &candidates_format, NULL};

/* How raw data become records; scored: their labels do not matter. */
static StepsRules steps_rules(bool scored)
{
    return (StepsRules){
        .mark = @PRM_MARK@, .steps = @PRM_STEPS@, .rewards = @PRM_REWARDS@, .unlabelled = true,
        .scored = scored,
//@ if PRM_NEW_MARK=true
        .mark_id = V - 1,        /* the row that the model has for it alone */
//@ end
//@ unless PRM_NEW_MARK=true
        .no_mark = format("gen %s prm.mark=NAME takes another one, prm.new_mark=true adds a row to "
                          "the model for it", model_words(&model, "prm.mark")),
//@ end
        .system = @PRM_SYSTEM@};
}

//@ if PRM_WEIGHTS=instance
/* A weight a record. */
static void check_room(void)
{
    if (trained->n > @PRM_RECORDS@)
        die(EXIT_CONFIG, "--data: %lld records, and this program has @PRM_RECORDS@ weights: gen %s "
            "prm.records=%lld", (long long)trained->n, model_words(&model, "prm.records"),
            (long long)trained->n);
}

//@ end
//@ if PRM_WEIGHTS=domain
static void check_room(void)
{
    if (train_steps.ndomains > @PRM_DOMAINS@)
        die(EXIT_CONFIG, "--data: %d domains, and this program has @PRM_DOMAINS@ weights: gen %s "
            "prm.domains=%d", train_steps.ndomains, model_words(&model, "prm.domains"),
            train_steps.ndomains);
    if (train_steps.ndomains == 1)
        note("all records of --data are of one domain, whose weight is 1 for good: nothing is "
             "learned of domains");
}

//@ end
//@ if meta_tokens
enum { UNROLL = @PRM_UNROLL@ };  /* steps to an update of the weights */

/* Updates of the weights in the first `steps` steps. */
static int64_t turns(int64_t steps)
{
    return steps > flags->cold_start ? (steps - flags->cold_start) / UNROLL : 0;
}

/* The whole run may be a cold start that another one goes on from. */
static void note_turns(const Flags *f, const Data *train)
{
    const int64_t steps =
        f->steps ? f->steps : (int64_t)ceil(f->epochs * (double)data_steps_per_epoch(train));
    if (!turns(steps))
        note("the weights of records are not learned in %lld steps: their first update follows "
             "step %lld (--cold-start, prm.unroll)", (long long)steps,
             (long long)flags->cold_start + UNROLL);
}

/* Its batches are another size, its order another one. */
static void open_meta(const Flags *f, const RecordRules *rules, const Data *train, const Data *eval)
{
    DataShape other = shape;
    if (!*f->meta_data)
        die(EXIT_CONFIG, "--meta-data: want records that say whether they are right, of which the "
            "weights of --data's are learned; without any: gen %s prm.weights=none",
            model_words(&model, "prm.weights"));
    other.micro = META;
    /* those that are validated on are packed already */
    char *files = strcmp(f->meta_data, f->eval_data) ? format("%s", f->meta_data)
                                                     : data_paths(eval);
    records_open_more(f, &model, &other, rules, "meta-data", files, train, false, &meta);
    free(files);
    steps_open(&meta_steps, &meta, MARKS, false, false);
}

//@ end
void objective_open(const Flags *f, Data *train, Data *eval)
{
    const bool meta_alone = *f->meta_data && !strcmp(f->meta_data, f->eval_data);
    const StepsRules steps = steps_rules(false);
    const RecordRules rules = {.formats = formats, .more = &steps,
                               .asked = meta_alone ? "meta-data" : NULL};
    flags = f;
    trained = train;
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
        open_meta(f, &rules, train, eval);
        note_turns(f, train);
//@ end
    }
    if (records_validate(f))
        steps_open(&eval_steps, eval, MARKS, false, false);
    const Data *any = records_train(f) ? train : eval;
    pad = any->pad_id < 0 ? 0 : (int32_t)any->pad_id;
}

//@ from common.c suit

/* ---- a step ---------------------------------------------------------------------------------- */

/* Of all ranks, of even and odd steps: one runs while the next is filled. */
static int64_t tokens[2];

//@ from common.c batch_at

/* A batch of records: row b * MARKS + j is mark j of record b. */
typedef struct {
    int32_t *tokens;             /* (records, T) */
    int32_t *rows;               /* (records * MARKS) the place of each mark; -1: none */
    int32_t *of;                 /* (records, T) the inverse */
} Places;

static Places places_at(int64_t micro)
{
    const Batch to = batch_at(micro);
    return (Places){to.tokens, to.target_rows, to.target_of};
}

/* Record b; of its marks the first `marks`. NULL: there is none. */
static void set_record(const Places *to, int64_t b, const StepsRow *r, int marks)
{
    const int64_t n = r ? r->n : 0, first = b * T;
    for (int64_t t = 0; t < T; t++) {
        to->tokens[first + t] = t < n ? r->token[t] : pad;
        to->of[first + t] = -1;
    }
    for (int j = 0; j < MARKS; j++) {
        const bool there = r && j < marks;
        to->rows[b * MARKS + j] = there ? (int32_t)first + r->place[j] : -1;
        if (there)
            to->of[first + r->place[j]] = (int32_t)b * MARKS + j;
    }
}

typedef struct {
    const Steps *s;
    int64_t step, micro;
} Fill;

//@ if record
/* The entry of a record among what weights are made of; -1: it counts 1. */
static int32_t entry_of(const StepsRow *r, int64_t step)
{
    if (step < flags->cold_start)
        return -1;
//@ if PRM_WEIGHTS=domain
    return r->domain;
//@ end
//@ unless PRM_WEIGHTS=domain
    return (int32_t)r->sample;
//@ end
}

//@ end
static void fill_record(void *fill, int64_t b)
{
    const Fill *f = fill;
    const Batch to = batch_at(f->micro);
    const Places places = places_at(f->micro);
    StepsRow r;
    bool there = steps_row(f->s, f->step, f->micro, b, &r);
    set_record(&places, b, there ? &r : NULL, there ? r.nlabels : 0);
    for (int j = 0; j < MARKS; j++)
        to.rewards[b * MARKS + j] = there && j < r.nlabels ? r.label[j] : 0;
//@ if record
    to.record[b] = there ? entry_of(&r, f->step) : -1;
//@ end
}

/* Of a step the part that it is trained on. */
void objective_fill(Data *d, int64_t step)
{
    tokens[step % 2] = data_tokens(d, step);
    *io.scale = (float)(1.0 / (double)d->G);
    data_order(d, step);
    for (int64_t micro = 0; micro < model.accum; micro++) {
        workers_run(B, fill_record, &(Fill){&train_steps, step, micro});
//@ if noise
        data_noise(io.noise[micro], (uint64_t)flags->seed, step, data_sample0(d, step, micro));
//@ end
    }
//@ if domains
    *io.domains = train_steps.ndomains;
//@ end
}

//@ if meta_tokens
static void fill_any_meta(int64_t micro)
{
    const Batch to = batch_at(micro);
    int32_t behind[METAN];
    data_fill_any(to.meta_tokens, to.meta_of, META * T, METAN, V, micro * META * T);
    data_gather(to.meta_of, META * T, to.meta_rows, behind, METAN);
    for (int64_t b = 0; b < META; b++)
        to.outcomes[b] = (float)(b % 2);
}

//@ end
/* Whole rows, as many marks as there may be, evenly spread. */
void objective_fill_any(void)
{
    tokens[0] = objective_work();
    *io.scale = (float)(1.0 / (double)(B * model.accum * model.ranks));
    for (int64_t micro = 0; micro < model.accum; micro++) {
        const Batch to = batch_at(micro);
        int32_t behind[N];       /* the token that follows each mark, which nobody asks for */
        data_fill_any(to.tokens, to.target_of, B * T, N, V, micro * B * T);
        data_gather(to.target_of, B * T, to.target_rows, behind, N);
        for (int64_t i = 0; i < N; i++)
            to.rewards[i] = 0.5f;
//@ if record
        for (int64_t b = 0; b < B; b++)
//@ if PRM_WEIGHTS=instance
            to.record[b] = (int32_t)(b % @PRM_RECORDS@);
//@ end
//@ unless PRM_WEIGHTS=instance
            to.record[b] = 0;
//@ end
//@ end
//@ if noise
        data_noise(io.noise[micro], 0, 0, micro * B);
//@ end
//@ if meta_tokens
        fill_any_meta(micro);
//@ end
    }
//@ if meta_tokens
    *io.meta_scale = (float)(1.0 / (double)(META * model.accum * model.ranks));
//@ end
//@ if domains
    *io.domains = 1;
//@ end
}

//@ from common.c work

void objective_step(int64_t step, double *sum)
{
    memset(sum, 0, STEP_METRICS * sizeof *sum);
    sum[STEP_loss] = *io.loss;
    sum[STEP_inner_loss] = io.stats[PRM_LOSS];
    sum[STEP_step_accuracy] = io.stats[PRM_RIGHT];
    sum[STEP_samples] = io.stats[PRM_RECORDS];
    sum[STEP_marks] = io.stats[PRM_MARKS];
    sum[STEP_tokens] = world.rank == 0 ? (double)tokens[step % 2] : 0;
}

/* ---- rows for people ------------------------------------------------------------------------- */

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
        target[r.place[j]] = 1;
    memcpy(token, r.token, sizeof *token * (size_t)r.n);
    to->n = r.n, to->padding = T - r.n;
    to->token = to->label = token, to->target = target;
    return true;
}

/* ---- scores of solutions --------------------------------------------------------------------- */

static double score_of(const float *margin, const int32_t *rows)
{
    return prm_aggregate(PRM_@UPPER_PRM_AGGREGATE@, margin, rows, MARKS);
}

static void fill_solution(void *fill, int64_t b)
{
    const Fill *f = fill;
    const Places places = places_at(0);
    StepsRow r;
    bool there = steps_row(f->s, f->step, 0, b, &r);
    set_record(&places, b, there ? &r : NULL, there ? r.nmarks : 0);
}

/* io.margins of a batch of this rank. */
static void score_batch(const Steps *s, int64_t batch)
{
    data_order(s->d, batch);
    workers_run(B, fill_solution, &(Fill){s, batch, 0});
    step_score();
    step_wait();
    comm_advance();
}

/* Solution b of the batch that was scored last, of this rank. */
typedef struct {
    StepsRow of;
    const float *margin;         /* of each mark */
    double score;                /* of the whole */
} Scored;

static bool scored(const Steps *s, int64_t batch, int64_t b, Scored *to)
{
    if (!steps_row(s, batch, 0, b, &to->of))
        return false;
    to->margin = io.margins + b * MARKS;
    to->score = score_of(to->margin, batch_at(0).target_rows + b * MARKS);
    return true;
}

/* Margins and score of each solution, MARKS + 1 numbers, in the order of the files; malloc'ed.
 * Every rank has all. */
static double *score_all(const Steps *s)
{
    enum { WIDTH = MARKS + 1, PIECE = COMM_DOUBLES };
    const int64_t n = s->d->n, all = n * WIDTH;
    double *to = calloc((size_t)all, sizeof *to);
    Scored one;
    if (!to)
        die(EXIT_INTERNAL, "out of memory for the scores of %lld solutions", (long long)n);
    for (int64_t batch = 0; batch < data_steps_per_epoch(s->d); batch++) {
        score_batch(s, batch);
        for (int64_t b = 0; b < B; b++)
            if (scored(s, batch, b, &one)) {
                double *own = to + one.of.sample * WIDTH;
                own[MARKS] = one.score;
                for (int j = 0; j < one.of.nmarks; j++)
                    own[j] = one.margin[j];
            }
    }
    for (int64_t i = 0; i < all; i += PIECE)
        comm_allreduce_double(to + i, (int)(all - i < PIECE ? all - i : PIECE));
    return to;
}

/* ---- weights of records ---------------------------------------------------------------------- */

//@ if record
/* What each training record counts. */
typedef struct {
//@ unless PRM_WEIGHTS=net
    float *raw;                  /* (n) what it is made of */
//@ end
    float *weight;               /* (n) */
    int64_t n;                   /* 0: not known */
} Weights;

static Weights weights;

static float *floats(int64_t n)
{
    float *to = malloc(sizeof *to * (size_t)n);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for %lld weights", (long long)n);
    return to;
}

/* What was learned under a name in checkpoints, malloc'ed. */
static float *read_learned(const char *named)
{
    const Tensor *t = model_need(&model, named);
    float *to = floats(model_elements(t));
    model_get(t, t->weight, t->type, 0, model_elements(t), to);
    return to;
}

//@ if PRM_WEIGHTS=instance
static void find_weights(const float *table)
{
    for (int64_t i = 0; i < weights.n; i++) {
        weights.raw[i] = table[i];
        weights.weight[i] = (float)prm_activation(PRM_@UPPER_PRM_ACTIVATION@, table[i]);
    }
}

//@ end
//@ if PRM_WEIGHTS=domain
/* Of each training record; malloc'ed. */
static int32_t *read_domains(void)
{
    int32_t *to = malloc(sizeof *to * (size_t)weights.n);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for %lld domains", (long long)weights.n);
    for (int64_t i = 0; i < weights.n; i++) {
        StepsRow r;
        steps_sample(&train_steps, i, &r);
        to[i] = r.domain;
    }
    return to;
}

static void find_weights(const float *table)
{
    static int32_t *domain;      /* (n) of each record */
    const int n = train_steps.ndomains;
    const double total = prm_domains_total(table, n);
    if (!domain)
        domain = read_domains();
    for (int64_t i = 0; i < weights.n; i++) {
        weights.raw[i] = table[domain[i]];
        weights.weight[i] = (float)prm_domain_weight(table[domain[i]], total, n);
    }
}

//@ end
//@ unless PRM_WEIGHTS=net
static void read_weights(void)
{
    if (!weights.n)
        weights = (Weights){floats(trained->n), floats(trained->n), trained->n};
    float *table = read_learned("weights.table");
    find_weights(table);
    free(table);
}

//@ end
//@ if PRM_WEIGHTS=net
/* Scores all training records. */
static void read_weights(void)
{
    static Data all;
    static Steps steps;
    if (!weights.n) {
        weights = (Weights){floats(trained->n), trained->n};
        data_view(&all, trained, 0, trained->n, &model, &shape);
        steps_open(&steps, &all, MARKS, false, false);
    }
    float *w1 = read_learned("weights.net.0.weight"), *b1 = read_learned("weights.net.0.bias"),
          *w2 = read_learned("weights.net.2.weight"), *b2 = read_learned("weights.net.2.bias");
    const PrmNet net = {w1, b1, w2, b2};
    double *margins = score_all(&steps);
    for (int64_t i = 0; i < weights.n; i++) {
        StepsRow r;
        float d[MARKS];
        int32_t row[MARKS];
        steps_sample(&steps, i, &r);
        for (int j = 0; j < MARKS; j++) {
            d[j] = (float)margins[i * (MARKS + 1) + j];
            row[j] = j < r.nlabels ? j : -1;
        }
        weights.weight[i] = (float)prm_net_weight(&net, d, row, MARKS);
    }
    free(w1), free(b1), free(w2), free(b2), free(margins);
}

//@ end
//@ end
//@ if meta_tokens
//@ unless PRM_WEIGHTS=net
/* Of all training records. */
static void tell_weights(double *sum)
{
    const double n = (double)weights.n;
    double mean = 0, square = 0, least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < weights.n; i++) {
        const double w = weights.weight[i];
        mean += w;
        least = w < least ? w : least;
        most = w > most ? w : most;
    }
    mean /= n;
    for (int64_t i = 0; i < weights.n; i++)
        square += (weights.weight[i] - mean) * (weights.weight[i] - mean);
    sum[STEP_instance_weight_mean] = mean;
    sum[STEP_instance_weight_std] = sqrt(square / n);
    sum[STEP_instance_weight_min] = least;
    sum[STEP_instance_weight_max] = most;
    sum[STEP_weighted] = 1;
}

//@ end
static void fill_meta_record(void *fill, int64_t b)
{
    const Fill *f = fill;
    const Batch to = batch_at(f->micro);
    const Places places = {to.meta_tokens, to.meta_rows, to.meta_of};
    StepsRow r;
    bool there = steps_row(f->s, f->step, f->micro, b, &r);
    set_record(&places, b, there ? &r : NULL, there ? r.nmarks : 0);
    to.outcomes[b] = there ? r.outcome : 0;
}

/* The meta records of an update of the weights. */
static void fill_meta(int64_t turn)
{
    *io.meta_scale = (float)(1.0 / (double)meta.G);
    data_order(&meta, turn);
    for (int64_t micro = 0; micro < model.accum; micro++)
        workers_run(META, fill_meta_record, &(Fill){&meta_steps, turn, micro});
}

/* An update of the weights, by the records of this step and the next meta records. */
static void update_weights(int64_t step, int64_t turn, int64_t of, double *sum)
{
    double all[PRM_META_STATS];
    objective_fill(trained, step);
    fill_meta(turn);
    param_group_begin(SET_meta, turn, of);
    step_meta();
    step_wait();
    memcpy(all, io.meta_stats, sizeof all);
    comm_allreduce_double(all, PRM_META_STATS);
    sum[STEP_meta_loss] = all[PRM_META_LOSS];
    sum[STEP_avg_aggregate_score] = all[PRM_META_SCORE];
    sum[STEP_meta_right] = all[PRM_META_RIGHT];
    sum[STEP_outcomes] = all[PRM_META_RECORDS];
}

/* The same with the inputs there are. */
static void updated_any(int64_t step, int64_t total)
{
    if (turns(step + 1) == turns(step))
        return;
    param_group_begin(SET_meta, turns(step), turns(total));
    step_meta();
    step_wait();
}

static char *beside(void)
{
    return data_fingerprint(&meta);
}

static bool updated(int64_t step, int64_t total, double *sum)
{
    const bool due = turns(step + 1) > turns(step);
    if (due)
        update_weights(step, turns(step), turns(total), sum);
//@ unless PRM_WEIGHTS=net
    if (due || !weights.n)
        read_weights();
    tell_weights(sum);
//@ end
    return due;
}

//@ end
/* ---- validation ------------------------------------------------------------------------------ */

void objective_validate(Data *d, int64_t batches, double *sum)
{
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    for (int64_t batch = 0; batch < batches; batch++) {
        Scored one;
        score_batch(&eval_steps, batch);
        for (int64_t b = 0; b < B; b++) {
            if (!scored(&eval_steps, batch, b, &one))
                continue;
            const double off = one.score - one.of.outcome;
            sum[EVAL_loss] += off * off;
            sum[EVAL_avg_aggregate_score] += one.score;
            sum[EVAL_accuracy] += (one.score > 0.5) == (one.of.outcome > 0.5);
            sum[EVAL_samples]++;
            for (int j = 0; j < one.of.nlabels; j++)
                sum[EVAL_step_accuracy] += (one.margin[j] > 0) == (one.of.label[j] > 0.5f);
            sum[EVAL_marks] += one.of.nlabels;
        }
        sum[EVAL_tokens] += world.rank == 0 ? (double)data_tokens(d, batch) : 0;
    }
}

/* ---- uses of finished weights ---------------------------------------------------------------- */

static const char checkpoints[] = "checkpoints";

/* What transformers or PEFT load, at the end of a run; malloc'ed. */
static char *final_folder(const Flags *f)
{
    return format("%s/%s/%s", f->out, checkpoints,
                  model.adapter_json ? "lora_adapters" : "final_model");
}

/* The tokenizer of the weights, or the one that is named; malloc'ed. */
static char *tokenizer_of(const Flags *f, const char *flag, const WeightFolders folder)
{
    char *final = final_folder(f);
    const char *named = records_tokenizer(f), *all[WEIGHT_FOLDERS + 1];
    memcpy(all, folder, sizeof(WeightFolders));
    all[WEIGHT_FOLDERS] = final;
    char *path = *named ? format("%s", named) : vocabulary_own(all, WEIGHT_FOLDERS + 1);
    Tokenizer *t = vocabulary_load(flag, path ? path : "", folder, WEIGHT_FOLDERS, V);
    pad = tokenizer_pad(t) < 0 ? 0 : tokenizer_pad(t);
    tokenizer_free(t);
    free(final);
    return path;
}

/* Solutions as they are read, in row 0 ... of a batch. */
typedef struct {
    int64_t n;
    struct {
        char *name;
        const char *dropped;     /* why it is left out; NULL: it is not */
        int marks;
    } row[B];
} Asked;

/* margin: of each of its marks. */
static void answer_line(const char *id, double whole, const double *margin, int marks)
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "id", id);
    json_add_float(line, "score", whole);
    cJSON *steps = cJSON_AddArrayToObject(line, "steps");
    for (int j = 0; j < marks; j++)
        cJSON_AddItemToArray(steps, cJSON_CreateNumber(prm_logistic(margin[j])));
    json_say(line);
}

/* A line of JSON each. */
static void answer(Asked *a)
{
    const Places places = places_at(0);
    for (int64_t b = a->n; b < B; b++)
        set_record(&places, b, NULL, 0);
    step_score();
    step_wait();
    for (int64_t b = 0; b < a->n; b++) {
        const float *margin = io.margins + b * MARKS;
        double own[MARKS];
        for (int j = 0; j < MARKS; j++)
            own[j] = margin[j];
        if (a->row[b].dropped) {
            cJSON *line = cJSON_CreateObject();
            cJSON_AddStringToObject(line, "id", a->row[b].name);
            cJSON_AddStringToObject(line, "left_out", a->row[b].dropped);
            json_say(line);
        } else {
            const double whole = score_of(margin, places.rows + b * MARKS);
            answer_line(a->row[b].name, whole, own, a->row[b].marks);
        }
        free(a->row[b].name);
    }
    fflush(stdout);
    a->n = 0;
}

/* The next solution; NULL: there is none for now. */
static void ask(void *user, const PackedRow *p)
{
    Asked *a = user;
    const Places places = places_at(0);
    if (p) {
        StepsRow r = {.token = p->id, .n = (int64_t)p->n};
        for (int64_t t = 0; t < r.n && r.nmarks < MARKS; t++)
            if (p->target[t])
                r.place[r.nmarks++] = (int32_t)t;
        set_record(&places, a->n, &r, r.nmarks);
        a->row[a->n].name = format("%s", p->name ? p->name : "");
        a->row[a->n].dropped = p->row->drop ? drop_why[p->row->drop] : NULL;
        a->row[a->n++].marks = r.nmarks;
    }
    if (p ? a->n == B : a->n > 0)
        answer(a);
}

/* A line of JSON for each solution of packed files. Returns the exit status. */
static int score_packed(const Flags *f, const RecordRules *rules, const WeightFolders folder,
                        const char *tokenizer)
{
    Flags of = *f;
    Data d;
    Steps s;
    StepsRow r;
    of.data = "", of.eval_data = f->score, of.tokenizer = tokenizer;
    records_open(&of, &model, &shape, rules, NULL, &d);
    objective_suit(folder, &d);
    steps_open(&s, &d, MARKS, false, false);
    double *all = score_all(&s);
    for (int64_t i = 0; world.rank == 0 && i < d.n; i++) {
        const double *own = all + i * (MARKS + 1);
        char *id = steps_id(&s, i);
        steps_sample(&s, i, &r);
        answer_line(id, own[MARKS], own, r.nmarks);
        free(id);
    }
    free(all);
    return EXIT_OK;
}

/* --score FILE */
static int score(const Flags *f, const WeightFolders folder)
{
    enum { SECONDS = 7 * 24 * 3600 };    /* that other ranks may wait */
    const StepsRules steps = steps_rules(true);
    const RecordRules rules = {.formats = formats, .more = &steps};
    char *tokenizer = tokenizer_of(f, "--score", folder);
    Asked asked = {0};
    if (records_packed("score", f->score))
        return score_packed(f, &rules, folder, tokenizer);
    comm_expect(SECONDS);
    if (world.rank == 0)
        records_each(f, &model, &shape, &rules, "score", f->score, tokenizer, ask, &asked);
    comm_barrier();
    comm_expect(0);
    free(tokenizer);
    return EXIT_OK;
}

/* Solutions in a file that a flag names, several to a question. */
static void open_candidates(Steps *s, Data *d, const Flags *f, const WeightFolders folder)
{
    Flags of = *f;
    DataShape other = shape;
    const StepsRules steps = steps_rules(true);
    const RecordRules rules = {.format = "candidates", .formats = formats, .more = &steps,
                               .asked = "best-of-n"};
    char *tokenizer = tokenizer_of(f, "--best-of-n", folder);
    other.kind = "candidates", other.columns = candidates_columns;
    of.data = "", of.eval_data = f->best_of_n, of.tokenizer = tokenizer;
    records_open(&of, &model, &other, &rules, NULL, d);
    objective_suit(folder, d);
    steps_open(s, d, MARKS, false, false);
    free(tokenizer);
}

/* Of the first `most` candidates to each question. */
typedef struct {
    int64_t questions;           /* that have a candidate */
    int64_t most;                /* candidates of one */
    double chosen, mean, best;   /* right ones: of those chosen by score, of any, of the best */
} Choice;

typedef struct {
    int64_t n;                   /* candidates so far */
    double score, right;         /* of the chosen one */
    double sum;                  /* right ones */
} Question;

static Choice choose(const Steps *s, const double *all, int64_t most)
{
    Question *q = calloc((size_t)s->questions, sizeof *q);
    Choice c = {0};
    if (!q)
        die(EXIT_INTERNAL, "out of memory for %lld questions", (long long)s->questions);
    for (int64_t i = 0; i < s->d->n; i++) {
        StepsRow r;
        steps_sample(s, i, &r);
        Question *of = &q[r.question];
        const double own = all[i * (MARKS + 1) + MARKS];
        if (of->n == most)
            continue;
        if (!of->n++ || own >= of->score)
            of->score = own, of->right = r.right;
        of->sum += r.right;
    }
    for (int64_t i = 0; i < s->questions; i++)
        if (q[i].n) {
            c.questions++;
            c.most = q[i].n > c.most ? q[i].n : c.most;
            c.chosen += q[i].right;
            c.mean += q[i].sum / (double)q[i].n;
            c.best += q[i].sum > 0;
        }
    free(q);
    return c;
}

static void check_candidates(const Steps *s)
{
    for (int64_t i = 0; i < s->d->n; i++) {
        StepsRow r;
        steps_sample(s, i, &r);
        if (r.right < 0) {
            char *id = steps_id(s, i);
            die(EXIT_DATA, "--best-of-n: candidate %s: want true_false, that says which are right; "
                "--score FILE scores them without", id);
        }
    }
}

/* --best-of-n FILE: how often the solution with the highest score is right, of 1, 2, 4 ...
 * candidates and of all. */
static int best_of_n(const Flags *f, const WeightFolders folder)
{
    Data d;
    Steps s;
    open_candidates(&s, &d, f, folder);
    check_candidates(&s);
    double *all = score_all(&s);
    Choice last = choose(&s, all, INT64_MAX);
    if (last.questions < s.questions)
        note("%lld of %lld questions have no candidate that can be scored and are left out",
             (long long)(s.questions - last.questions), (long long)s.questions);
    for (int64_t n = 1; world.rank == 0; n *= 2) {
        const Choice c = n < last.most ? choose(&s, all, n) : last;
        const double q = (double)c.questions;
        cJSON *line = cJSON_CreateObject();
        cJSON_AddNumberToObject(line, "n", (double)c.most);
        json_add_float(line, "accuracy", c.chosen / q);
        json_add_float(line, "mean", c.mean / q);
        json_add_float(line, "best", c.best / q);
        cJSON_AddNumberToObject(line, "questions", q);
        json_say(line);
        if (n >= last.most)
            break;
    }
    free(all);
    return EXIT_OK;
}

/* ---- files of its own ------------------------------------------------------------------------ */

/* Every checkpoint. */
static char *name(const Epochs *epochs, int64_t step, bool best)
{
    (void)epochs, (void)best;
    return format("%s/checkpoint_step_%lld", checkpoints, (long long)step);
}

/* Names of checkpoints that are gone go, too. */
static char *named(const Flags *f, const char *path, const Epochs *epochs)
{
    (void)path, (void)epochs;
    return run_folder_forget(f->out, "checkpoints/checkpoint_step_");
}

//@ if record
static const char weights_file[] = "instance_weights.json";
static const char suspects_file[] = "suspicious_records.jsonl";
enum { SUSPECTS = 100 };

/* As JSON has it; malloc'ed. */
static char *quoted(const char *text)
{
    cJSON *string = cJSON_CreateString(text);
    char *all = cJSON_PrintUnformatted(string);
    cJSON_Delete(string);
    return all;
}

/* {"id", "raw", "weight"} of a record; behind the id its "domain", if it has one, and whether it is
 * said to be "noisy". */
static void write_weight(FILE *to, int64_t i)
{
    char *id = steps_id(&train_steps, i), *text = quoted(id), weight[64], raw[64] = "null";
    StepsRow row;
    steps_sample(&train_steps, i, &row);
//@ unless PRM_WEIGHTS=net
    json_float_text(weights.raw[i], raw);
//@ end
    json_float_text(weights.weight[i], weight);
    fprintf(to, "{\"id\": %s", text);
    if (row.domain >= 0) {
        char *domain = quoted(train_steps.domain[row.domain]);
        fprintf(to, ", \"domain\": %s", domain);
        free(domain);
    }
    if (row.noisy >= 0)
        fprintf(to, ", \"noisy\": %s", row.noisy ? "true" : "false");
    fprintf(to, ", \"raw\": %s, \"weight\": %s}", raw, weight);
    free(text), free(id);
}

static int by_weight(const void *a, const void *b)
{
    const int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    const float x = weights.weight[i], y = weights.weight[k];
    return x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

/* Training records, those of the least weight first; malloc'ed. */
static int64_t *order_by_weight(void)
{
    int64_t *order = malloc(sizeof *order * (size_t)weights.n);
    if (!order)
        die(EXIT_INTERNAL, "out of memory for %lld weights", (long long)weights.n);
    for (int64_t i = 0; i < weights.n; i++)
        order[i] = i;
    qsort(order, (size_t)weights.n, sizeof *order, by_weight);
    return order;
}

/* What write(to) makes, in OUT. */
static char *write_text(const char *leaf, void (*write)(FILE *to))
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for %s", leaf);
    write(to);
    if (fclose(to))
        die(EXIT_INTERNAL, "out of memory for %s", leaf);
    char *error = folder_replace_text(flags->out, leaf, text);
    free(text);
    return error;
}

static void write_all(FILE *to)
{
    for (int64_t i = 0; i < weights.n; i++) {
        fputs(i ? ",\n " : "[", to);
        write_weight(to, i);
    }
    fputs("]\n", to);
}

static void write_suspects(FILE *to)
{
    int64_t *order = order_by_weight();
    for (int64_t i = 0; i < weights.n && i < SUSPECTS; i++) {
        write_weight(to, order[i]);
        fputc('\n', to);
    }
    free(order);
}

static char *write_weights(void)
{
    read_weights();
    if (world.rank != 0)
        return NULL;
    char *error = write_text(weights_file, write_all);
    return error ? error : write_text(suspects_file, write_suspects);
}

//@ unless PRM_WEIGHTS=net
static char *write_own(const Flags *f, const WeightFolders folder, const Epochs *epochs)
{
    (void)f, (void)folder, (void)epochs;
    return write_weights();
}

//@ end

static void say_suspects(void)
{
    enum { SAID = 5 };
    int64_t *order = order_by_weight();
    const float least = weights.weight[order[0]], most = weights.weight[order[weights.n - 1]];
    for (int64_t i = 0; i < weights.n && i < SAID && least < most; i++) {
        char *id = steps_id(&train_steps, order[i]);
        note("%s %s, weight %.4f", i ? "                   " : "most suspicious are", id,
             weights.weight[order[i]]);
        free(id);
    }
    free(order);
}

//@ end
static void write_model(const Flags *f, const WeightFolders folder, const Checkpoints *last)
{
    const char *all[WEIGHT_FOLDERS + 1];
    memcpy(all, folder, sizeof(WeightFolders));
    all[WEIGHT_FOLDERS] = trained->folder;
    char *path = final_folder(f),
         *file = vocabulary_file(trained->tokenizer, records_tokenizer(f), all, WEIGHT_FOLDERS + 1);
    initial_write(last, &model, path, file);
    free(path), free(file);
}

/* Nothing changes the score of a head of zeros but its own training. */
static bool loaded(const Flags *f, const WeightFolders folder, bool start)
{
    enum { PIECE = 256 };
    const Tensor *t = model_need(&model, "score.2.weight");
    const int64_t n = model_elements(t);
    bool zeros = !t->trained;
    (void)f, (void)folder, (void)start;
    for (int64_t i = 0; i < n && zeros; i += PIECE) {
        float piece[PIECE];
        const int64_t all = n - i < PIECE ? n - i : PIECE;
        model_get(t, t->weight, t->type, i, all, piece);
        for (int64_t k = 0; k < all; k++)
            zeros = zeros && piece[k] == 0;
    }
    if (zeros)
        die(EXIT_CONFIG, "--init-from: the score head is all zeros and is not trained, so that "
            "nothing would be learned: name a model that has one, or: gen %s prm.train_head=true",
            model_words(&model, "prm.train_head"));
    return false;
}

static void finished(const Flags *f, const WeightFolders folder, const Checkpoints *last)
{
//@ if PRM_WEIGHTS=net
    char *error = write_weights();
    if (error)
        die(EXIT_IO, "%s", error);
//@ end
//@ if record
    say_suspects();
//@ end
    comm_expect(weights_seconds(&model));
    if (world.rank == 0)
        write_model(f, folder, last);
    comm_barrier();
    comm_expect(0);
}

static const ObjectiveUse uses[] = {{FLAG_score, score}, {FLAG_best_of_n, best_of_n}, {0, NULL}};
static const char *const files[] = {
    checkpoints,
//@ if record
    weights_file, suspects_file,
//@ end
    NULL};
static const Additions additions = {
    .mark = @PRM_MARK@, .system = @PRM_SYSTEM@,
//@ if PRM_NEW_MARK=true
    .token = @PRM_MARK@,
//@ end
//@ unless PRM_TRAIN_HEAD=true
    .layers = "score.", .field = "prm.train_head",
//@ end
};
const ObjectiveHooks objective_hooks = {
    .use = uses, .show = show, .additions = &additions,
//@ if meta_tokens
    .beside = beside, .updated = updated, .updated_any = updated_any,
    .round = UNROLL,
//@ end
//@ if record
//@ unless PRM_WEIGHTS=net
    .write = write_own,
//@ end
//@ end
    .name = name, .named = named, .files = files, .loaded = loaded, .finished = finished};
