/* objective.c -- dpo on the host: pairs of answers, the reference, validation, answers for people.
//@ head
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "objective.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/vocabulary.h"  // which tokenizer weights were trained with
#include "runtime/data/workers.h"     // threads that make batches
#include "runtime/dpo.h"              // what io.stats holds
#include "runtime/files/folder.h"     // OUT/results
#include "runtime/files/json.h"
#include "runtime/model/weights.h"    // how long that takes
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/answers.h"      // answers to prompts
#include "runtime/run/chat.h"         // --chat
#include "runtime/run/generate.h" // --sample, --prompts
#include "runtime/run/reference.h"    // log-probabilities by the first weights
#include "runtime/run/initial_weights.h"       // which weights those are
#include "runtime/run/records.h"      // opens what --data names
#include "shape.h"                    // B, S, T, N, V, ...
#include "step.h"                     // io, model

//@ metrics

/* Of pair i of a micro-batch answers 2 i and 2 i + 1. */
enum { CHOSEN, REJECTED, ANSWERS };
enum { PAIRS = BOTH / ANSWERS };
static const char *const parts[] = {"chosen", "rejected", NULL};

/* What --data are divided into, each read in the order of the files. */
typedef enum { TRAIN, TEST, VALIDATION, GROUPS } Group;
static const char *const group_name[GROUPS] = {"train", "test", "validation"};
static Data group[GROUPS];       /* n 0: there is none */

//@ if reference
/* Log-probabilities of the answers of all records of --data, and of --eval-data. */
enum { OF_DATA, OF_EVAL_DATA, REFERENCES };
static Reference reference[REFERENCES];

//@ end
static const Flags *flags;
static int32_t pad;              /* what follows an answer in its row */

/* ---- records --------------------------------------------------------------------------------- */

/* --data are 0.85, 0.10 and the rest: to train on, to test and to validate; with --eval-data or
 * another share for validation there is no test. */
//@ if DPO_SHARED_PROMPT=true
/* A row has both answers of a pair. */
static int64_t takes(int64_t may) { return may < T ? may : T; }

//@ end
/* For answers.h: tokens of the prompt. */
static const DataColumn columns[] = {{.name = "prompt", .dtype = ST_I32, .may = true},
                                     {.name = NULL}};
static DataShape shape = {.kind = "@KIND@", .T = T, .vocab = V, .parts = parts, .targets = N,
                          .columns = columns,
//@ if DPO_SHARED_PROMPT=true
                          .takes = takes,
//@ end
                          .split = {0.85, 0.10}, .whole = true};
static const double eval_share = 0.05;   /* --eval-share, where nobody says otherwise */

static void open_groups(const Data *train, const Data *eval)
{
    const bool trains = records_train(flags), evaluates = records_validate(flags),
               divided = trains && evaluates && !*flags->eval_data;
    if (trains)
        data_view(&group[TRAIN], train, 0, train->n, &model, &shape);
    if (divided && eval->base > train->n)
        data_view(&group[TEST], train, train->n, eval->base - train->n, &model, &shape);
    if (evaluates)
        data_view(&group[VALIDATION], eval, eval->base, eval->n, &model, &shape);
//@ if reference
    if (trains)
        data_view(&reference[OF_DATA].all, train, 0, divided ? eval->base + eval->n : train->n,
                  &model, &shape);
    if (evaluates && !divided)
        data_view(&reference[OF_EVAL_DATA].all, eval, 0, eval->n, &model, &shape);
//@ end
}

static bool is_target(const DataRow *row, int64_t t) { return !row->mask || row->mask[t]; }

//@ if DPO_SHARED_PROMPT=true
/* The row of a pair: of[0] from its first token on, n[0] of them, then of[1], its tokens from ..
 * n[1] - 1. `from` is the last token of what both begin with, before anything is a target. */
typedef struct {
    int64_t from, n[ANSWERS];
    bool cut, targets;           /* shorter than they are; each still has a target, if it had one */
} SharedRow;

static SharedRow shared_row(const DataRow of[ANSWERS])
{
    int64_t first[ANSWERS], same = 0;
    for (int k = 0; k < ANSWERS; k++) {
        first[k] = 1;
        while (first[k] < of[k].n && !is_target(&of[k], first[k]))
            first[k]++;
    }
    if (first[0] < of[0].n && first[1] < of[1].n)
        while (same < first[0] && same < first[1] && of[0].token[same] == of[1].token[same])
            same++;
    SharedRow s = {.from = same ? same - 1 : 0,
                   .n = {of[0].n, of[1].n ? of[1].n - 1 : 0}, .targets = true};
    /* of what follows the shared tokens */
    const int64_t a = of[0].n - same, b = of[1].n - same, room = T - (same ? same : -1),
                  rest = room - (a < b ? a : b), most = rest > room / 2 ? rest : room / 2;
    s.cut = a + b > room;
    for (int k = 0; s.cut && k < ANSWERS; k++) {
        const int64_t n = of[k].n - same > most ? same + most : of[k].n;
        s.n[k] = n - (k == REJECTED);
        s.targets &= first[k] >= of[k].n || first[k] < n;
    }
    return s;
}

/* Rows that have no room for a pair are said, or refused where nothing would be learned of it. */
static void check_rows(void)
{
    int64_t cut = 0, all = 0, longest = 0;
    for (int g = 0; g < GROUPS; g++)
        for (int64_t i = 0; i < group[g].n; i++) {
            DataRow of[ANSWERS];
            for (int k = 0; k < ANSWERS; k++)
                data_sample(&group[g], i, k, &of[k]);
            const SharedRow s = shared_row(of);
            const int64_t want = of[0].n + of[1].n - 1 - s.from;
            longest = want > longest ? want : longest;
            cut += s.cut, all++;
            if (!s.targets)
                die(EXIT_DATA, "sample %lld: its prompt has %lld tokens, which leave an answer none "
                    "of a row of T=%d tokens that holds both: gen %s seq.max=%lld",
                    (long long)(group[g].base + i), (long long)s.from + 1, T,
                    model_words(&model, "seq.max"), (long long)want);
        }
    if (cut)
        note("%lld of %lld pairs are longer than a row of T=%d tokens with both answers, which are "
             "cut: seq.max=%lld has room for all", (long long)cut, (long long)all, T,
             (long long)longest);
}

//@ end
void objective_open(const Flags *f, Data *train, Data *eval)
{
    const bool silent = strcmp(f->system, "none") == 0;
    const char *system = silent ? "" : *f->system ? f->system : NULL;
    static const FormatCode *const formats[] = {&pairs_format, NULL};
    const RecordRules rules = {.format = "pairs", .formats = formats, .system = system};
    flags = f;
    if (f->eval_share != eval_share)
        memset(shape.split, 0, sizeof shape.split);
    if (f->given[FLAG_stop_margin] && f->stop_margin > 0 && !records_validate(f))
        die(EXIT_CONFIG, "--stop-margin: wants validations: --eval-data FILE or --eval-share X");
    records_open(f, &model, &shape, &rules, train, eval);
    open_groups(train, eval);
//@ if DPO_SHARED_PROMPT=true
    check_rows();
//@ end
    const Data *any = records_train(f) ? train : eval;
    pad = any->pad_id < 0 ? 0 : (int32_t)any->pad_id;
}

//@ from common.c suit

/* ---- a step ---------------------------------------------------------------------------------- */

/* Of all ranks: pairs, by which the loss is divided; tokens that are not padding. */
typedef struct {
    int64_t pairs, tokens;
} Counts;

static Counts counted[2];        /* of even and odd steps: one runs while the next is filled */

//@ from common.c batch_at

static void set_counts(int64_t step, Counts c)
{
    counted[step % 2] = c;
    *io.scale = c.pairs ? (float)(1.0 / (double)c.pairs) : 0;
}

//@ if reference
static float reference_of(const Data *d, int64_t sample, int answer)
{
    const bool other = d->file == reference[OF_EVAL_DATA].all.file;
    const float *value = reference[other ? OF_EVAL_DATA : OF_DATA].value;
    return value ? value[(d->base + sample) * ANSWERS + answer] : 0;
}

//@ end
//@ unless DPO_SHARED_PROMPT=true
/* Pair i: each answer behind its prompt in a row of its own. */
static void set_pair(const Batch *to, int64_t i, const DataRow of[ANSWERS])
{
    for (int k = 0; k < ANSWERS; k++) {
        const int64_t at = (i * ANSWERS + k) * T, n = of[k].n;
        for (int64_t t = 0; t < T; t++) {
            to->tokens[at + t] = t < n ? of[k].token[t] : pad;
            to->target_of[at + t] = t + 1 < n && is_target(&of[k], t + 1) ? of[k].token[t + 1] : -1;
        }
    }
}

/* What follows from the rows of all pairs. */
static void set_targets(const Batch *to)
{
    data_gather(to->target_of, B * T, to->target_rows, to->labels, N);
}

static int64_t targets_of(const Batch *at, int64_t answer)
{
    int64_t n = 0;
    for (int64_t t = 0; t < T; t++)
        n += at->target_of[answer * T + t] >= 0;
    return n;
}

//@ end
//@ if DPO_SHARED_PROMPT=true
/* Pair i: the prompt and the chosen answer, then the prompt's last token once more and the rejected
 * answer, up to the token before its last. */
static void set_pair(const Batch *to, int64_t i, const DataRow of[ANSWERS])
{
    const SharedRow s = shared_row(of);
    int32_t *token = to->tokens + i * T, *target = to->target_of + i * T,
            *place = to->places + i * T, *hole = to->holes + i * 2;
    hole[0] = (int32_t)s.from, hole[1] = (int32_t)s.n[CHOSEN];
    for (int64_t t = 0; t < T; t++) {
        const int k = t >= s.n[CHOSEN];
        const int64_t at = k ? t - s.n[CHOSEN] + s.from : t;
        const bool there = at < s.n[k],
                   answer = there && at + 1 < s.n[k] + k && is_target(&of[k], at + 1);
        token[t] = there ? of[k].token[at] : pad;
        target[t] = answer ? of[k].token[at + 1] : -1;
        place[t] = there ? (int32_t)at : 0;
    }
}

/* What follows from the rows of all pairs. */
static void set_targets(const Batch *to)
{
    data_gather(to->target_of, B * T, to->target_rows, to->labels, N);
    for (int64_t n = 0; n < N; n++) {
        const int64_t place = to->target_rows[n], i = place / T, t = place % T;
        const int64_t answer = i * ANSWERS + (t >= to->holes[i * 2 + 1]);
        to->answers[n] = place < 0 ? -1 : (int32_t)(answer * T + t);
    }
}

static int64_t targets_of(const Batch *at, int64_t answer)
{
    int64_t n = 0;
    for (int64_t i = 0; i < N; i++)
        n += at->answers[i] >= answer * T && at->answers[i] < (answer + 1) * T;
    return n;
}
//@ end

typedef struct {
    Data *d;
    int64_t step, micro;
} Fill;

static void fill_pair(void *fill, int64_t i)
{
    const Fill *f = fill;
    const Batch to = batch_at(f->micro);
    DataRow row[ANSWERS] = {{.n = 0}};
    for (int k = 0; k < ANSWERS; k++) {
//@ if reference
        const bool there = data_part(f->d, f->step, f->micro, i, k, &row[k]);
        to.reference[i * ANSWERS + k] = there ? reference_of(f->d, row[k].sample, k) : 0;
//@ end
//@ unless reference
        data_part(f->d, f->step, f->micro, i, k, &row[k]);
//@ end
    }
    set_pair(&to, i, row);
}

/* Pairs of a micro-batch of this rank. */
static void fill_micro(Data *d, int64_t step, int64_t micro)
{
    const Batch to = batch_at(micro);
    data_order(d, step);
    workers_run(PAIRS, fill_pair, &(Fill){d, step, micro});
    set_targets(&to);
//@ if noise
    data_noise(io.noise[micro], (uint64_t)flags->seed, step,
               B / PAIRS * data_sample0(d, step, micro));
//@ end
}

void objective_fill(Data *d, int64_t step)
{
    set_counts(step, (Counts){d->G, data_tokens(d, step)});
    for (int64_t micro = 0; micro < model.accum; micro++)
        fill_micro(d, step, micro);
}

/* Whole rows, as many targets as there may be, evenly spread. */
void objective_fill_any(void)
{
    const int64_t rows = B * T;
    set_counts(0, (Counts){PAIRS * model.accum * model.ranks, objective_work()});
    for (int64_t micro = 0; micro < model.accum; micro++) {
        const Batch to = batch_at(micro);
        data_fill_any(to.tokens, to.target_of, rows, N, V, micro * rows);
//@ if DPO_SHARED_PROMPT=true
        for (int64_t t = 0; t < rows; t++)
            to.places[t] = (int32_t)(t % T);
        for (int64_t b = 0; b < B; b++)
            to.holes[2 * b] = T / 3, to.holes[2 * b + 1] = 2 * T / 3;
//@ end
        set_targets(&to);
//@ if reference
        for (int64_t i = 0; i < BOTH; i++)
            to.reference[i] = 0;
//@ end
//@ if noise
        data_noise(io.noise[micro], 0, 0, micro * B);
//@ end
    }
}

//@ from common.c work

/* What metrics have of pairs: the entry `of` of io.stats, less the entry `less`. */
static const struct {
    int step, eval, of, less;    /* less negative: nothing */
} told[] = {
    {STEP_margin, EVAL_margin, DPO_REWARD_CHOSEN, DPO_REWARD_REJECTED},
    {STEP_accuracy, EVAL_accuracy, DPO_ACCURATE, -1},
    {STEP_reward_chosen, EVAL_reward_chosen, DPO_REWARD_CHOSEN, -1},
    {STEP_reward_rejected, EVAL_reward_rejected, DPO_REWARD_REJECTED, -1},
    {STEP_policy_chosen, EVAL_policy_chosen, DPO_POLICY_CHOSEN, -1},
    {STEP_policy_rejected, EVAL_policy_rejected, DPO_POLICY_REJECTED, -1},
    {STEP_reference_chosen, EVAL_reference_chosen, DPO_REFERENCE_CHOSEN, -1},
    {STEP_reference_rejected, EVAL_reference_rejected, DPO_REFERENCE_REJECTED, -1},
    {STEP_pairs, EVAL_pairs, DPO_PAIRS, -1}};
enum { TOLD = sizeof told / sizeof *told };

static double told_of(int i)
{
    return io.stats[told[i].of] - (told[i].less < 0 ? 0 : io.stats[told[i].less]);
}

void objective_step(int64_t step, double *sum)
{
    sum[STEP_loss] = *io.loss;
    for (int i = 0; i < TOLD; i++)
        sum[told[i].step] = told_of(i);
    sum[STEP_tokens] = world.rank == 0 ? (double)counted[step % 2].tokens : 0;
}

//@ if DPO_SHARED_PROMPT=true
/* --show N: a row is a pair. */
static bool show(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to)
{
    const Batch at = batch_at(micro);
    DataRow of[ANSWERS] = {{.n = 0}};
    for (int k = 0; k < ANSWERS; k++)
        if (row >= B || !data_part(d, step, micro, row, k, &of[k]))
            return false;
    const SharedRow s = shared_row(of);
    snprintf(to->about, sizeof to->about, "sample %lld, %s and %s",
             (long long)(d->base + of[0].sample), parts[CHOSEN], parts[REJECTED]);
    show_labels(to, &at, row, s.n[CHOSEN] + s.n[REJECTED] - s.from, T, true);
    return true;
}
//@ end
//@ unless DPO_SHARED_PROMPT=true
/* --show N: rows 2 i and 2 i + 1 are the answers to one prompt. */
static bool show(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to)
{
    const Batch at = batch_at(micro);
    DataRow own;
    if (row >= B || !data_part(d, step, micro, row / ANSWERS, (int)(row % ANSWERS), &own))
        return false;
    snprintf(to->about, sizeof to->about, "sample %lld, %s", (long long)(d->base + own.sample),
             parts[row % ANSWERS]);
    show_labels(to, &at, row, own.n, T, true);
    return true;
}
//@ end

/* ---- validation ------------------------------------------------------------------------------ */

/* This rank's sums of the first batches, at most of all. */
static void evaluate(Data *d, int64_t batches, double *sum)
{
    const int64_t most = data_steps_per_epoch(d);
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    for (int64_t b = 0; b < batches && b < most; b++) {
        fill_micro(d, b, 0);
        step_eval();
        step_wait();
        comm_advance();
        sum[EVAL_loss] += *io.loss;
        for (int i = 0; i < TOLD; i++)
            sum[told[i].eval] += told_of(i);
        sum[EVAL_samples] += (double)data_rows(d, b, 0);
        sum[EVAL_tokens] += world.rank == 0 ? (double)data_tokens(d, b) : 0;
    }
}

/* Of records that are trained on as many, the first ones: --stop-margin goes by both. */
void objective_validate(Data *d, int64_t batches, double *sum)
{
    double train[EVAL_METRICS] = {0};
    const int64_t n = batches * d->G < d->n ? batches * d->G : d->n;
    Data first = group[TRAIN];
    first.n = first.n < n ? first.n : n;
    if (first.n)
        evaluate(&first, batches, train);
    evaluate(d, batches, sum);
    sum[EVAL_train_loss] = train[EVAL_loss];
    sum[EVAL_train_margin] = train[EVAL_margin];
    sum[EVAL_train_accuracy] = train[EVAL_accuracy];
    sum[EVAL_seen] = train[EVAL_pairs];
}

/* --stop-margin X: of margins that are not times beta. */
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

/* Values of each group, all ranks; as many batches as validations have. */
static void evaluate_groups(double value[GROUPS][EVAL_METRICS])
{
    for (int g = 0; g < GROUPS; g++) {
        memset(value[g], 0, sizeof value[g]);
        if (!group[g].n)
            continue;
        evaluate(&group[g], data_eval_batches(&group[g], &model, flags->eval_batches), value[g]);
        comm_allreduce_double(value[g], EVAL_METRICS);
        metrics_values(objective_metrics.eval, EVAL_METRICS, value[g]);
    }
}

static void say_groups(const char *when, double value[GROUPS][EVAL_METRICS])
{
    for (int g = 0; g < GROUPS; g++)
        if (group[g].n)
            note("%s training: %s, %.0f pair%s: loss %.6f  margin %.4f  accuracy %.3f", when,
                 group_name[g], value[g][EVAL_pairs], value[g][EVAL_pairs] == 1 ? "" : "s",
                 value[g][EVAL_loss], value[g][EVAL_margin], value[g][EVAL_accuracy]);
}

/* ---- answers --------------------------------------------------------------------------------- */

//@ from common.c decoder

/* The first records of a group that are shown with answers. */
static const int examples[GROUPS] = {[TEST] = 5, [VALIDATION] = 3};

static int64_t examples_of(Group g)
{
    return group[g].n < examples[g] ? group[g].n : examples[g];
}

static Answers answers_by(const Tokenizer *t)
{
    return (Answers){.by = &decoder, .t = t, .how = generate_sampling(flags)};
}

/* The tokenizer of the records; NULL, and that is said: there is none. */
static Tokenizer *find_tokenizer(const Flags *f, const WeightFolders folder, const char *without)
{
    const Data *d = group[TRAIN].n ? &group[TRAIN] : &group[VALIDATION];
    Tokenizer *t = vocabulary_of_data(d, records_tokenizer(f), folder, WEIGHT_FOLDERS);
    if (!t)
        note("no tokenizer.json with the id %s is named, beside the weights or beside the records: "
             "%s; --tokenizer FILE names it", d->tokenizer, without);
    return t;
}

/* ---- of the first weights -------------------------------------------------------------------- */

/* What is computed of the weights that the run begins with stays in OUT/.reference_cache/. */
static const char start_file[] = "start.json";

static cJSON *start;             /* what that holds; of rank 0 */

//@ if reference
/* Log-probabilities of both answers to each prompt of a batch. */
static const float *score(Data *d, int64_t batch)
{
    fill_micro(d, batch, 0);
    step_score();
    step_wait();
    return io.score;
}

/* Finds or computes it; whether it is there. first: the weights are the first ones. */
static bool find_reference(Reference *r, const char *weights, bool first)
{
    r->width = ANSWERS;
    r->score = score;
    r->made = format("@DPO_LOGP@ of an answer, %s, T=%d", model.precision, T);
    if (!reference_load(r, flags->out, weights, first) && first)
        reference_make(r, flags->eval_only ? NULL : flags->out, weights);
    return r->value;
}

//@ end
/* Which weights the run of a checkpoint began with, malloc'ed; NULL: it does not say. */
static char *began_with(const char *checkpoint)
{
    char *error = NULL;
    cJSON *all = folder_read_own(checkpoint, "train_state.json", 1 << 28, &error);
    const char *mark = cJSON_GetStringValue(json_get(json_get(all, "state"), "began"));
    char *copy = mark ? format("%s", mark) : NULL;
    cJSON_Delete(all);
    free(error);
    return copy;
}

/* What start.json depends on beside the weights; malloc'ed. */
static char *start_key(void)
{
    static const char rule[] =
        "@DPO_LOSS@ of @DPO_LOGP@, reference @DPO_REFERENCE@, beta @DPO_BETA@ smoothing "
        "@DPO_SMOOTHING@ margin @DPO_MARGIN@ penalty @DPO_PENALTY@ shift @DPO_SHIFT@ kl @DPO_KL@ "
        "@DPO_KL_WEIGHT@ reward_beta @DPO_REWARD_BETA@";
    const Sampling s = generate_sampling(flags);
    char *train = group[TRAIN].n ? data_fingerprint(&group[TRAIN]) : format("none"),
         *eval = group[VALIDATION].n ? data_fingerprint(&group[VALIDATION]) : format("none"),
         *narrow = s.rule.top_k || s.rule.min_p > 0 || s.rule.repetition_penalty != 1
                       ? format(" --top-k %lld --min-p %.9g --repetition-penalty %.9g",
                                (long long)s.rule.top_k, s.rule.min_p, s.rule.repetition_penalty)
                       : format("%s", ""),
         *key = format("%s; %s, T=%d; %s; %s; %lld to test on; --temperature %.9g --top-p %.9g "
                       "--seed %llu --max-new-tokens %lld --eval-batches %lld%s", rule,
                       model.precision, T, train, eval, (long long)group[TEST].n,
                       s.rule.temperature, s.rule.top_p, (unsigned long long)s.seed,
                       (long long)s.most, (long long)flags->eval_batches, narrow);
    free(train), free(eval), free(narrow);
    return key;
}

static cJSON *groups_json(double value[GROUPS][EVAL_METRICS])
{
    cJSON *all = cJSON_CreateObject();
    for (int g = 0; g < GROUPS; g++) {
        if (!group[g].n)
            continue;
        cJSON *of = cJSON_AddObjectToObject(all, group_name[g]);
        json_add_float(of, "loss", value[g][EVAL_loss]);
        for (int i = 0; i < TOLD; i++)
            json_add_float(of, objective_metrics.eval[told[i].eval].name, value[g][told[i].eval]);
    }
    return all;
}

static char *save_own(const char *folder, const char *name, const cJSON *json)
{
    char *in = folder_join(flags->out, folder), *path = folder_join(in, name),
         *text = folder_json_text(json), *error = folder_make_below(flags->out, path);
    if (!error)
        error = folder_replace_text(in, name, text);
    free(path), free(in), free(text);
    return error;
}

/* Rank 0 reads it; whether it is there and of these weights, NULL: any. */
static bool load_start(const char *weights)
{
    char *folder = folder_join(flags->out, REFERENCE_FOLDER), *error = NULL, *key = start_key();
    bool there = false;
    if (world.rank == 0) {
        cJSON *all = folder_read_own(folder, start_file, 1 << 28, &error);
        const char *mark = cJSON_GetStringValue(json_get(all, "weights")),
                   *of = cJSON_GetStringValue(json_get(all, "of"));
        there = mark && of && (!weights || !strcmp(mark, weights)) && !strcmp(of, key) &&
                json_get(all, "before") && json_get(all, "answers");
        start = there ? all : NULL;
        if (!there)
            cJSON_Delete(all);
    }
    comm_broadcast(&there, sizeof there, 0);
    free(folder), free(error), free(key);
    return there;
}

/* The weights of now, before training: values, and answers to the first records. */
static void make_start(const Flags *f, const WeightFolders folder, const char *weights)
{
    double value[GROUPS][EVAL_METRICS];
    char *key = start_key();
    evaluate_groups(value);
    say_groups("before", value);
    Tokenizer *t = find_tokenizer(f, folder, "nothing is answered");
    start = cJSON_CreateObject();
    cJSON_AddStringToObject(start, "weights", weights);
    cJSON_AddStringToObject(start, "of", key);
    cJSON_AddItemToObject(start, "before", groups_json(value));
    cJSON *all = cJSON_AddObjectToObject(start, "answers");
    const Answers by = answers_by(t);
    for (int g = 0; t && g < GROUPS; g++)
        cJSON_AddItemToObject(all, group_name[g], answers_list(&by, &group[g], examples_of(g)));
    char *error = world.rank == 0 ? save_own(REFERENCE_FOLDER, start_file, start) : NULL;
    if (error)
        die(EXIT_IO, "%s", error);
    if (t)
        tokenizer_free(t);
    free(key);
}

//@ unless DPO_REFERENCE=none
//@ if DPO_LOGP=sum
/* Of an answer of the batch that was evaluated last, of all ranks, the mean. */
static double targets_an_answer(void)
{
    double n[2] = {0, 0};        /* targets, answers */
    const Batch at = batch_at(0);
    for (int64_t i = 0; i < BOTH; i++) {
        const int64_t own = targets_of(&at, i);
        n[0] += (double)own, n[1] += own > 0;
    }
    comm_allreduce_double(n, 2);
    return n[1] > 0 ? n[0] / n[1] : 1;
}

//@ end
/* The weights are their own reference: all rewards are 0, whatever the rule. */
static void check_start(void)
{
    const bool exact = !strcmp(model.precision, "fp32");
    const DpoRule rule = {
//@ if DPO_LOSS=ipo
        .loss = DPO_IPO,
//@ end
//@ unless DPO_LOSS=ipo
        .loss = DPO_SIGMOID,
//@ end
        .beta = @DPO_BETA@, .smoothing = @DPO_SMOOTHING@, .margin = @DPO_MARGIN@, .shift = 1};
    double v[EVAL_METRICS];
    float coef[ANSWERS];
    evaluate(group[TRAIN].n ? &group[TRAIN] : &group[VALIDATION], 1, v);
    comm_allreduce_double(v, EVAL_METRICS);
    metrics_values(objective_metrics.eval, EVAL_METRICS, v);
    const double want = dpo_pair(coef, &rule, &(DpoPair){0}), within = exact ? 1e-5 : 1e-2,
                 nats = fabs(v[EVAL_policy_chosen]) + fabs(v[EVAL_policy_rejected]);
//@ if DPO_LOGP=sum
    /* what the tokens of a sum are off by adds up like the root of their number, of which this is
     * three times */
    const double n = targets_an_answer(),
                 size = fmin(1 + nats, (1 + nats / n) * 3 * sqrt(n));
//@ end
//@ unless DPO_LOGP=sum
    const double size = 1 + nats;
//@ end
    if (!(fabs(v[EVAL_loss] - want) <= within * size * (1 + want)) ||
        !(fabs(v[EVAL_margin]) <= within * size))
        die(EXIT_MISMATCH, "before the first step the weights are their own reference, so the loss "
            "has to be %.7g and the margin 0, but they are %.7g and %.7g: is %s/%s of these "
            "weights? without it it is made anew", want, v[EVAL_loss], v[EVAL_margin], flags->out,
            REFERENCE_FOLDER);
    note("before the first step: loss %.7g, margin %.3g, as the weights are their own reference",
         v[EVAL_loss], v[EVAL_margin]);
}

//@ end
//@ if DPO_REFERENCE=adapter_off
/* Whether adapters add nothing: the factor that begins with zeros still is that. */
static bool adapters_add_nothing(void)
{
    for (int i = 0; i < model.ntensors; i++) {
        const Tensor *t = &model.tensors[i];
        const int64_t n = t->adapter && t->init == INIT_ZEROS ? model_elements(t) : 0;
        for (int64_t at = 0; at < n; at++) {
            float x;
            model_get(t, t->master ? (void *)t->master : t->weight, t->master ? EL_F32 : t->type,
                      at, 1, &x);
            if (x != 0)
                return false;
        }
    }
    return true;
}

//@ end
static double loaded_at;         /* clock */

/* Returns whether something is missing that only the first weights tell. */
static bool loaded(const Flags *f, const WeightFolders folder, bool first)
{
    const bool trains = !f->eval_only;
    bool missing = false;
//@ if DPO_REFERENCE=copy
    if (first || f->bench_steps)
        model_keep_start(&model);
    else
        missing = true;
//@ end
    if (f->bench_steps)
        return false;
//@ if DPO_REFERENCE=adapter_off
    if (folder[1] && first && trains && !adapters_add_nothing())
        die(EXIT_CONFIG, "--adapter %s: of this program the reference is the model without "
            "adapters, which is not what training begins with; take gen %s dpo.reference=%s, or merge "
            "them before: --merge-lora", folder[1], model_words(&model, "dpo.reference"),
//@ if DPO_KL=token
            "copy");
//@ end
//@ unless DPO_KL=token
            "cache");
//@ end
//@ end
    char *weights = first ? initial_mark(&model) : began_with(folder[0]);
//@ if reference
    if (first && !trains && !folder[0])
        note("reference: the weights are their own, as there is no run that trained them: --out "
             "RUN has a run's evaluated beside what it began with");
    for (int i = 0; i < REFERENCES; i++)
        if (reference[i].all.n && !reference[i].value)
            missing = !find_reference(&reference[i], weights, first) || missing;
//@ end
    if (trains && !start && !load_start(weights)) {
        if (first)
            make_start(f, folder, weights);
        missing = missing || !first;
    }
//@ unless DPO_REFERENCE=none
    if (first && trains)
        check_start();
//@ end
    loaded_at = clock_seconds();
    free(weights);
    return missing;
}

/* ---- files of its own ------------------------------------------------------------------------ */

static const char results[] = "results";

/* A number of a row that was validated. */
static const struct {
    const char *name;
    int eval;
} column[] = {
    {"train_loss", EVAL_train_loss},           {"val_loss", EVAL_loss},
    {"train_margin", EVAL_train_margin},       {"val_margin", EVAL_margin},
    {"train_accuracy", EVAL_train_accuracy},   {"val_accuracy", EVAL_accuracy},
    {"policy_chosen", EVAL_policy_chosen},     {"policy_rejected", EVAL_policy_rejected},
    {"reference_chosen", EVAL_reference_chosen},
    {"reference_rejected", EVAL_reference_rejected}};
enum { COLUMNS = sizeof column / sizeof *column };

/* A row a validation; tokens: of both answers that were trained on until then. */
static char *table(const Epochs *epochs)
{
    char *text = NULL;
    size_t n;
    double before = 0;           /* tokens of the epochs that are over */
    FILE *to = open_memstream(&text, &n);
    if (!to)
        die(EXIT_INTERNAL, "out of memory for a table of the run");
    fputs("epoch,step,tokens", to);
    for (int i = 0; i < COLUMNS; i++)
        fprintf(to, ",%s", column[i].name);
    fputc('\n', to);
    for (int64_t i = 0; i < epochs->n; i++) {
        const EpochRow *r = &epochs->row[i];
        const double own = r->step ? r->step_value[STEP_tokens] : 0;
        if (r->validated) {
            fprintf(to, "%.9g,%lld,%.0f", (double)r->step / (double)epochs->per_epoch,
                    (long long)r->step, before + own);
            for (int k = 0; k < COLUMNS; k++)
                fprintf(to, ",%.9g", r->eval_value[column[k].eval]);
            fputc('\n', to);
        }
        before += r->whole ? own : 0;
    }
    if (fclose(to))
        die(EXIT_INTERNAL, "out of memory for a table of the run");
    return text;
}

/* OUT/results/NAME. */
static char *write_result(const char *name, const char *text)
{
    char *in = folder_join(flags->out, results), *path = folder_join(in, name),
         *error = folder_make_below(flags->out, path);
    if (!error)
        error = folder_replace_text(in, name, text);
    free(in), free(path);
    return error;
}

static char *write_own(const Flags *f, const WeightFolders folder, const Epochs *epochs)
{
    (void)f, (void)folder;
    if (world.rank != 0)
        return NULL;
    char *text = table(epochs), *error = write_result("dpo.csv", text);
    free(text);
    return error;
}

/* The first records of a group with the answers of both. */
static void write_examples(const Tokenizer *t, Group g, const char *name)
{
    const Answers by = answers_by(t);
    const cJSON *theirs = json_get(json_get(start, "answers"), group_name[g]);
    char *text = answers_text(&by, &group[g], examples_of(g), theirs),
         *error = world.rank == 0 ? write_result(name, text) : NULL;
    if (error)
        die(EXIT_IO, "%s", error);
    free(text);
}

/* OUT/workspace/NAME_fine-tuned: what transformers or PEFT load. */
static void write_model(const Flags *f, const Checkpoints *last)
{
    const Data *d = group[TRAIN].n ? &group[TRAIN] : &group[VALIDATION];
    char *path = format("%s/workspace/%s_fine-tuned", f->out, model.name),
         *tokenizer = vocabulary_of_records(d, records_tokenizer(f));
    initial_write(last, &model, path, tokenizer);
    free(path), free(tokenizer);
}

static void finished(const Flags *f, const WeightFolders folder, const Checkpoints *last)
{
    const double seconds = clock_seconds() - loaded_at;
    double value[GROUPS][EVAL_METRICS];
    evaluate_groups(value);
    say_groups("after", value);
    note("%.1f minutes since the weights were loaded", seconds / 60);
    cJSON *all = cJSON_CreateObject();
    cJSON_AddItemToObject(all, "before", cJSON_Duplicate(json_get(start, "before"), true));
    cJSON_AddItemToObject(all, "after", groups_json(value));
    cJSON_AddNumberToObject(all, "minutes", seconds / 60);
    char *error = world.rank == 0 ? save_own(results, "evaluation.json", all) : NULL;
    if (error)
        die(EXIT_IO, "%s", error);
    cJSON_Delete(all);
    Tokenizer *t = find_tokenizer(f, folder, "there are no example answers");
    if (t && group[VALIDATION].n)
        write_examples(t, VALIDATION, "distributed_output_val.txt");
    if (t && group[TEST].n)
        write_examples(t, TEST, "distributed_output_test.txt");
    if (t)
        tokenizer_free(t);
    comm_expect(weights_seconds(&model));
    if (world.rank == 0)
        write_model(f, last);
    comm_barrier();
    comm_expect(0);
}

/* ---- uses of finished weights ---------------------------------------------------------------- */

//@ from common.c talk

/* Records that were not trained on, those to test on if there are any. */
static Data *open_others(const Flags *f, const WeightFolders folder, const char *flag)
{
    static Data train, eval;
    if (!records_validate(f))
        die(EXIT_CONFIG, "%s: want --data, of which some are not trained on, or --eval-data", flag);
    objective_open(f, &train, &eval);
    objective_suit(folder, &eval);
    return &group[group[TEST].n ? TEST : VALIDATION];
}

/* --answers N: a line of JSON a record. */
static int answers(const Flags *f, const WeightFolders folder)
{
    Data *d = open_others(f, folder, "--answers");
    Tokenizer *t = find_tokenizer(f, folder, "nothing is answered");
    if (!t)
        return EXIT_CONFIG;
    const Answers by = answers_by(t);
    answers_print(&by, d, f->answers < d->n ? f->answers : d->n);
    tokenizer_free(t);
    return EXIT_OK;
}

/* Log-probability and tokens of answers: e to minus their quotient is the perplexity. */
typedef struct {
    double sum, tokens;
} Nats;

/* Those of an answer of micro-batch 0, which has been scored. */
static void add_score(Nats *to, int64_t answer)
{
    const Batch at = batch_at(0);
    const double n = (double)targets_of(&at, answer);
//@ if DPO_LOGP=mean
    to->sum += io.score[answer] * n;
//@ end
//@ if DPO_LOGP=sum
    to->sum += io.score[answer];
//@ end
    to->tokens += n;
}

/* Of the weights' own answers to the first records, each scored alone; every rank has the same. */
static Nats score_own(const Tokenizer *t, Data *d)
{
    const Batch to = batch_at(0);
    const Answers by = answers_by(t);
    Nats own = {0, 0};
    const int64_t some = d->n < examples[TEST] ? d->n : examples[TEST];
    Answer *all = answers_of(&by, d, 0, some);
    for (int64_t i = 0; i < some; i++) {
        const DataRow none[ANSWERS] = {{.n = 0}};
        uint8_t mask[T];
        const int64_t prompt = all[i].prompt, n = all[i].n < N ? all[i].n : N;
        for (int64_t at = 0; at < T; at++)
            mask[at] = at >= prompt;
        const DataRow row = {.token = all[i].token, .mask = mask, .n = prompt + n};
        set_pair(&to, 0, (DataRow[ANSWERS]){row});
        for (int64_t p = 1; p < PAIRS; p++)
            set_pair(&to, p, none);
        set_targets(&to);
        step_score();
        step_wait();
        add_score(&own, 0);
    }
    answers_free(all, some);
    return own;
}

static double perplexity_of(Nats n)
{
    return n.tokens > 0 ? exp(-n.sum / n.tokens) : 0;
}

/* --perplexity: one line of JSON. */
static int perplexity(const Flags *f, const WeightFolders folder)
{
    Data *d = open_others(f, folder, "--perplexity");
    Nats of[ANSWERS] = {{0, 0}};
    for (int64_t b = 0; b < data_steps_per_epoch(d); b++) {
        fill_micro(d, b, 0);
        step_score();
        step_wait();
        comm_advance();
        for (int64_t i = 0; i < BOTH; i++)
            add_score(&of[i % ANSWERS], i);
    }
    comm_allreduce_double(&of[0].sum, 2 * ANSWERS);
    Tokenizer *t = find_tokenizer(f, folder, "the model's own text has no perplexity");
    Nats own = t ? score_own(t, d) : (Nats){0, 0};
    cJSON *line = cJSON_CreateObject();
    json_add_float(line, "chosen_perplexity", perplexity_of(of[CHOSEN]));
    json_add_float(line, "rejected_perplexity", perplexity_of(of[REJECTED]));
    if (own.tokens > 0)
        json_add_float(line, "own_perplexity", perplexity_of(own));
    else
        cJSON_AddNullToObject(line, "own_perplexity");
    cJSON_AddNumberToObject(line, "records", (double)d->n);
    cJSON_AddNumberToObject(line, "own_tokens", own.tokens);
    char *said = cJSON_PrintUnformatted(line);
    if (world.rank == 0)
        puts(said);
    cJSON_Delete(line);
    free(said);
    if (t)
        tokenizer_free(t);
    return EXIT_OK;
}

static const ObjectiveUse uses[] = {
    {FLAG_sample, sample},   {FLAG_prompts, sample},       {FLAG_chat, chat},
    {FLAG_answers, answers}, {FLAG_perplexity, perplexity}, {0, NULL}};
static const char *const files[] = {results, "workspace", REFERENCE_FOLDER, NULL};
const ObjectiveHooks objective_hooks = {
    .use = uses, .show = show, .loaded = loaded, .wants_start = true, .enough = enough,
    .write = write_own, .files = files, .finished = finished};
