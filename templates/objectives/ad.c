/* objective.c -- algorithm distillation on the host: sequences from learning histories, validation
 * on held-out tasks, evaluation in context.
//@ head
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "objective.h"
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/action_type.h"      // entries of io.stats
#include "runtime/darkroom.h"         // tokens, tasks
#include "runtime/data/contexts.h"    // sequences by their index
#include "runtime/data/histories.h"
#include "runtime/data/workers.h"     // data-loader threads
#include "runtime/device.h"           // name of the device
#include "runtime/files/json.h"       // numbers of a record
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/run/evaluation.h"   // --evaluate
#include "runtime/run/figures.h"      // a figure of the returns
#include "runtime/run/rank_agreement.h"
#include "runtime/run/regions.h"      // --show-regions
#include "runtime/run/run_folder.h"   // names of checkpoints
#include "shape.h"                    // B, T, N, ...
#include "step.h"                     // io, model

//@ metrics

enum { QUERIES = N / B };        /* of a sequence */

/* ---- histories ------------------------------------------------------------------------------- */

static const ContextRules rules = {
    .env = DARKROOM_@UPPER_AD_ENV@, .n_transit = @AD_N_TRANSIT@,
//@ if AD_CONTEXT=compressed
    .compressed = true, .region = @AD_REGION@,
//@ if AD_BOUNDARY=last
    .last = true,
//@ end
//@ end
//@ if AD_QUERIES=all
    .all = true,
//@ end
//@ if AD_RAGGED=true
    .ragged = true,
//@ end
};

//@ if AD_CONTEXT=compressed
static const char cut_name[] = "region";
//@ end
//@ if AD_CONTEXT=plain
static const char cut_name[] = "window";
//@ end

static const Flags *flags;
/* Files of histories. */
typedef struct {
    const Histories **file;
    char **path;
    int files;
} Sources;
/* Files of training and of validation, and the sequences cut from them. */
static Sources source[2];
static Contexts contexts[2];
static int64_t steps_an_epoch;

/* Returns n zeroed elements; ends the program if memory runs out. */
static void *room(int64_t n, size_t size)
{
    void *p = calloc((size_t)n, size);
    if (!p)
        die(EXIT_INTERNAL, "out of memory for %lld histories", (long long)n);
    return p;
}

/* Reads a file, each only once. */
static const Histories *read_histories(const char *path)
{
    static struct Read {
        struct Read *next;
        const char *path;
        Histories histories;
    } *all;
    for (const struct Read *one = all; one; one = one->next)
        if (!strcmp(one->path, path))
            return &one->histories;
    const HistoriesWanted wanted = {
        .env = rules.env,
//@ if AD_NEXT_STATE=reset
        .resets = true,
//@ end
    };
    struct Read *one = room(1, sizeof *one);
    char *error = histories_open(&one->histories, path, &wanted);
    if (error)
        die(EXIT_DATA, "%s", error);
    one->path = path, one->next = all, all = one;
    return &one->histories;
}

/* Reads the files of a comma-separated list; EXIT_DATA if two have the same histories. */
static Sources read_sources(const char *paths)
{
    Sources s = {.path = split_names(paths, &s.files)};
    if (!s.files)
        die(EXIT_CONFIG, "--data and --eval-data name files of histories, but got \"%s\"", paths);
    s.file = room(s.files, sizeof *s.file);
    for (int i = 0; i < s.files; i++) {
        s.file[i] = read_histories(s.path[i]);
        for (int k = 0; k < i; k++)
            if (!strcmp(s.file[k]->fingerprint, s.file[i]->fingerprint))
                die(EXIT_DATA, "%s has the same histories as %s: name each once", s.path[i],
                    s.path[k]);
    }
    return s;
}

/* The number of streams or steps that a flag selects, of the `have` in a file; asked 0: all. */
static int64_t first_of(const char *path, int flag, int64_t asked, int64_t have, const char *what)
{
    if (asked > have)
        die(EXIT_CONFIG, "%s has %lld %s, but %s is %lld: give %s %lld, or 0 for all", path,
            (long long)have, what, flags_spelt(flag), (long long)asked, flags_spelt(flag),
            (long long)have);
    return asked ? asked : have;
}

/* Steps of a stream, the same in every file. */
static int64_t steps_of(const Sources *s, int64_t asked)
{
    int64_t steps = 0;
    for (int i = 0; i < s->files; i++) {
        const int64_t file_steps = first_of(s->path[i], FLAG_source_steps, asked, s->file[i]->steps,
                                     "steps a stream");
        if (i && file_steps != steps)
            die(EXIT_DATA, "%s: %lld steps a stream, %s has %lld: %s N takes the first N of each",
                s->path[i], (long long)file_steps, s->path[0], (long long)steps,
                flags_spelt(FLAG_source_steps));
        steps = file_steps;
    }
    return steps;
}

/* The kind of data that a checkpoint is bound to: "histories:FINGERPRINT/100x1000"; several files
 * have a joint fingerprint. */
static char *kind_of(const Sources *s, int64_t streams, int64_t steps)
{
    char joint[SHA256_HEX];
    Sha256 hash;
    sha256_begin(&hash);
    for (int i = 0; i < s->files; i++)
        sha256_add(&hash, s->file[i]->fingerprint, strlen(s->file[i]->fingerprint));
    sha256_text(&hash, joint);
    return format("histories:%.16s/%lldx%lld", s->files == 1 ? s->file[0]->fingerprint : joint,
                  (long long)streams, (long long)steps);
}

/* Opens the training tasks with all their streams, or the held-out tasks with the first stream of
 * each file. */
static void open_contexts(const Flags *f, const char *paths, Data *d, bool eval)
{
    source[eval] = read_sources(paths);
    const Sources *s = &source[eval];
    const int64_t steps = steps_of(s, f->source_steps);
    int64_t most = 0, streams = 0, n = 0;
    for (int i = 0; i < s->files; i++)
        most += s->file[i]->streams;
    const uint16_t **history = room(darkroom_tasks(rules.env) * most + 1, sizeof *history);
    ContextRules used = rules;
    for (int i = 0; i < s->files; i++) {
        const Histories *h = s->file[i];
        const int64_t mine = eval ? 1 : first_of(s->path[i], FLAG_source_streams,
                                                 f->source_streams, h->streams, "streams a task");
        streams += mine;
        for (int task = 0; task < h->tasks; task++)
            for (int k = 0; (darkroom_test_of(rules.env, task) >= 0) == eval && k < mine; k++)
                history[n++] = histories_of(h, task, k);
    }
    used.ragged = used.ragged && !eval;
    contexts_open(&contexts[eval], &used, history, n, steps);
    if (!contexts[eval].n)
        die(EXIT_DATA, "%s: streams have %lld steps, fewer than a %s", paths, (long long)steps,
            cut_name);
    data_open_samples(d, kind_of(s, streams, steps), paths, contexts[eval].n, T, &model,
                      (uint64_t)f->seed, eval);
}

void objective_open(const Flags *f, Data *train, Data *eval)
{
    const bool trains = *f->data, evaluates = *f->eval_data;
    flags = f;
    if (trains)
        open_contexts(f, f->data, train, false);
    if (evaluates)
        open_contexts(f, f->eval_data, eval, true);
    steps_an_epoch = trains ? data_steps_per_epoch(train) : 0;
    ranks_check_data(trains ? train : NULL, evaluates ? eval : NULL);
    workers_start(f->num_workers);
}

/* Weights fit any histories. */
void objective_suit(const WeightFolders folder, const Data *records)
{
    (void)folder, (void)records;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Totals over all ranks. */
typedef struct {
    int64_t actions, predictions, tokens;
} Counts;

static Counts counted[2];        /* of even and odd steps: one runs while the next is filled */

//@ from common.c batch_at

/* The samples of a step on all ranks, -1 for none at the end of a validation; valid until the next
 * call. */
static const int64_t *samples_of(Data *d, int64_t step)
{
    static int64_t *sample, room;
    if (room < d->G) {
        free(sample);
        sample = malloc(sizeof *sample * (size_t)(room = d->G));
        if (!sample)
            die(EXIT_INTERNAL, "out of memory for the samples of a step");
    }
    data_samples(d, step, sample, d->G);
    return sample;
}

static ContextAt at_of(const Data *d, int64_t step, int64_t sample)
{
    return contexts_at(&contexts[d->eval], sample, d->seed, data_epoch(d, step));
}

static void count(const Data *d, int64_t step, const int64_t *sample, Counts *to)
{
    for (int64_t g = 0; g < d->G; g++)
        if (sample[g] >= 0) {
            const ContextAt at = at_of(d, step, sample[g]);
            to->actions += contexts_actions(&contexts[d->eval], &at);
            to->predictions += QUERIES;
            to->tokens += contexts_length(&contexts[d->eval], &at);
        }
}

/* Sets row b to a sequence; at NULL: an empty row. */
static void set_row(const Batch *to, int64_t b, const Contexts *c, const ContextAt *at)
{
    const int64_t first = b * T, asked = b * QUERIES;
    int32_t query[QUERIES], type[QUERIES];
    ContextRow r = {.token = to->tokens + first, .position = to->positions + first, .query = query,
                    .action = to->labels + asked, .type = type};
    if (at)
        contexts_row(c, at, &r);
    for (int64_t t = r.n; t < T; t++)
        to->tokens[first + t] = to->positions[first + t] = 0;
    for (int64_t t = 0; t < T; t++)
        to->target_of[first + t] = -1;
    for (int64_t k = 0; k < QUERIES; k++) {
        const bool there = k < r.queries;
        to->target_rows[asked + k] = there ? (int32_t)first + query[k] : -1;
        if (there)
            to->target_of[first + query[k]] = (int32_t)(asked + k);
        else
            to->labels[asked + k] = -1;
//@ if kinds
        to->kinds[asked + k] = there ? type[k] : -1;
//@ end
    }
}

typedef struct {
    const Data *d;
    const int64_t *sample;       /* of this micro-batch */
    int64_t step, micro;
} Fill;

static void fill_row(void *fill, int64_t b)
{
    const Fill *f = fill;
    const Batch to = batch_at(f->micro);
    if (f->sample[b] < 0) {
        set_row(&to, b, NULL, NULL);
        return;
    }
    const ContextAt at = at_of(f->d, f->step, f->sample[b]);
    set_row(&to, b, &contexts[f->d->eval], &at);
}

static void fill_micro(const Data *d, int64_t step, const int64_t *sample, int64_t micro)
{
    const int64_t first = data_sample0(d, step, micro);
    workers_run(B, fill_row, &(Fill){d, sample + first, step, micro});
//@ if noise
    data_noise(io.noise[micro], d->seed, step, first);
//@ end
}

/* The losses of actions and of types are separate means over all micro-batches and ranks. */
static void set_counts(int64_t step, const Counts *c)
{
    counted[step % 2] = *c;
    *io.scale = c->actions ? (float)(1.0 / (double)c->actions) : 0;
//@ if type_scale
    *io.type_scale = (float)(@AD_TYPE_WEIGHT@ / (double)c->predictions);
//@ end
}

void objective_fill(Data *d, int64_t step)
{
    const int64_t *sample = samples_of(d, step);
    Counts c = {0};
    count(d, step, sample, &c);
    set_counts(step, &c);
    for (int64_t micro = 0; micro < model.accum; micro++)
        fill_micro(d, step, sample, micro);
}

/* Fills in the longest sequences. */
void objective_fill_any(void)
{
    enum { STEPS = 2 * (@AD_N_TRANSIT@ + @AD_REGION@) };
    static uint16_t code[STEPS];
    const uint16_t *const history = code;
    Contexts c;
    Counts all = {.predictions = objective_work()};
    for (int i = 0; i < STEPS; i++)
        code[i] = (uint16_t)(i * 7 % DARKROOM_TRANSITIONS);
    contexts_open(&c, &rules, &history, 1, STEPS);
    ContextAt at = contexts_at(&c, c.n - 1, 0, 0);
    while (at.position > 0 && !contexts_actions(&c, &at))
        at.position--;
    all.actions = contexts_actions(&c, &at) * B * model.accum * model.ranks;
    set_counts(0, &all);
    for (int64_t micro = 0; micro < model.accum; micro++) {
        const Batch to = batch_at(micro);
        for (int64_t b = 0; b < B; b++)
            set_row(&to, b, &c, &at);
//@ if noise
        data_noise(io.noise[micro], 0, 0, micro * B);
//@ end
    }
}

int64_t objective_work(void)
{
    return N * model.accum * model.ranks;
}

/* The part of the loss of these counts. */
static double loss_of(const double *stats, const Counts *c)
{
    double loss = c->actions ? stats[ACTION_TYPE_LOSS] / (double)c->actions : 0;
//@ if kinds
    if (c->predictions)
        loss += @AD_TYPE_WEIGHT@ * stats[ACTION_TYPE_TYPE_LOSS] / (double)c->predictions;
//@ end
    return loss;
}

void objective_step(int64_t step, int64_t micro, double *sum)
{
    const Counts *c = &counted[step % 2];
    const double *stats = io.stats[micro];
    const bool tells = world.rank == 0 && micro == 0;
    memset(sum, 0, STEP_METRICS * sizeof *sum);
    sum[STEP_loss] = loss_of(stats, c);
    sum[STEP_loss_action] = stats[ACTION_TYPE_LOSS];
    sum[STEP_acc_action] = stats[ACTION_TYPE_HITS];
    sum[STEP_actions] = tells ? (double)c->actions : 0;
//@ if kinds
    sum[STEP_loss_token_type] = stats[ACTION_TYPE_TYPE_LOSS];
    sum[STEP_acc_token_type] = stats[ACTION_TYPE_TYPE_HITS];
    sum[STEP_types] = tells ? (double)c->predictions : 0;
//@ end
    sum[STEP_predictions] = tells ? (double)c->predictions : 0;
    sum[STEP_tokens] = tells ? (double)c->tokens : 0;
    sum[STEP_updates] = tells;
}

/* ---- banner and sample rows ------------------------------------------------------------------ */

static void banner(const Flags *f, const Data *train, const Data *eval)
{
    const bool alone = world.size == 1, cpu = !strcmp(device_name(), "CPU");
    (void)f, (void)train;
//@ if AD_CONTEXT=compressed
    note("  %-10s %lld a step, those of %.4g regions", "predicts", (long long)objective_work(),
         (double)objective_work() / (double)contexts_positions(&rules));
//@ end
//@ if AD_CONTEXT=plain
    note("  %-10s %lld a step, in %lld windows", "predicts", (long long)objective_work(),
         (long long)(B * model.accum * model.ranks));
//@ end
    note("  %-10s %lld to train on, %lld to test on", "histories",
         (long long)contexts[0].histories, (long long)(eval ? contexts[1].histories : 0));
    note("  %-10s Number of processes: %d, distributed type: %s, mixed precision: %s, gradient "
         "accumulation steps: %lld, device: %s", "launch", world.size,
         alone ? "NO" : cpu ? "MULTI_CPU" : "MULTI_GPU",
         !strcmp(model.precision, "fp32") ? "no" : model.precision, (long long)model.accum,
         device_name());
}

enum { ACTION = DARKROOM_CODES, END = ACTION + DARKROOM_ACTIONS };   /* words for labels */

/* A token or label as text: "4,4 a3 4,3 +1" is a transition with its reward, if any; "4,3 ?" a
 * query; "a3" an action. malloc'ed. */
static char *word(int32_t id)
{
    const int state = id < DARKROOM_OPEN ? darkroom_state_of(id) : 0;
    const int row = darkroom_row(state), column = darkroom_column(state);
    if (id >= ACTION && id < END)
        return format("a%d", id - ACTION);
    if (!darkroom_is_transition(id))
        return darkroom_is_query(id) ? format("%d,%d ?", row, column)
                                     : format("%s", id == DARKROOM_OPEN ? "<c>" : "</c>");
    const int next = darkroom_next_of(darkroom_start(rules.env), id);
    return format("%d,%d a%d %d,%d%s", row, column, darkroom_action_of(id), darkroom_row(next),
                  darkroom_column(next), darkroom_reward_of(id) ? " +1" : "");
}

static bool show(Data *d, int64_t step, int64_t micro, int64_t b, ShownRow *to)
{
    static uint8_t target[T];
    static int32_t label[T];
    const Batch at = batch_at(micro);
    if (b == B)
        return false;
    const int64_t sample = samples_of(d, step)[data_sample0(d, step, micro) + b];
    const ContextAt of = at_of(d, step, sample);
    const uint16_t *history = contexts[d->eval].history[of.history];
    const Sources *from = &source[d->eval];
    int file = 0;
    while (!histories_has(from->file[file], history))
        file++;
    const int64_t stream = (history - from->file[file]->code) / from->file[file]->steps,
                  streams = from->file[file]->streams;
    int n = snprintf(to->about, sizeof to->about,
                     "sample %lld: task %lld, stream %lld, %s from step %lld", (long long)sample,
                     (long long)(stream / streams), (long long)(stream % streams), cut_name,
                     (long long)of.first);
    if (from->files > 1)
        snprintf(to->about + n, sizeof to->about - (size_t)n, " of %s",
                 basename(from->path[file]));
    to->n = contexts_length(&contexts[d->eval], &of), to->padding = T - to->n;
    for (int64_t t = 0; t < to->n; t++) {
        const int32_t k = at.target_of[b * T + t];
        target[t] = k >= 0;
        label[t] = k < 0 ? 0 : at.labels[k] < 0 ? END : ACTION + at.labels[k];
    }
    to->token = at.tokens + b * T, to->target = target, to->label = label, to->word = word;
    return true;
}

/* ---- validation ------------------------------------------------------------------------------ */

void objective_validate(Data *d, int64_t batches, double *sum)
{
    Counts c = {0};
    double stats[ACTION_TYPE_STATS] = {0};
    memset(sum, 0, EVAL_METRICS * sizeof *sum);
    for (int64_t b = 0; b < batches; b++) {
        const int64_t *sample = samples_of(d, b);
        count(d, b, sample, &c);
        fill_micro(d, b, sample, 0);
        step_eval();
        step_wait();
        const double samples = (double)data_rows(d, b, 0);
        comm_fold(io.stats[0], 1, ACTION_TYPE_STATS, stats);
        comm_fold(&samples, 1, 1, &sum[EVAL_samples]);
    }
    sum[EVAL_loss] = loss_of(stats, &c);
    sum[EVAL_loss_action] = stats[ACTION_TYPE_LOSS];
    sum[EVAL_acc_action] = stats[ACTION_TYPE_HITS];
    sum[EVAL_actions] = (double)c.actions;
//@ if kinds
    sum[EVAL_loss_token_type] = stats[ACTION_TYPE_TYPE_LOSS];
    sum[EVAL_acc_token_type] = stats[ACTION_TYPE_TYPE_HITS];
    sum[EVAL_types] = (double)c.predictions;
//@ end
    sum[EVAL_predictions] = (double)c.predictions;
    sum[EVAL_whole] = 1;
}

/* ---- in context ------------------------------------------------------------------------------ */

static const float *logits_of_queries(void)
{
    step_act();
    step_wait();
    return io.logits;
}

/* Evaluates in context with this program. */
static Evaluation evaluation(const Actor *actor)
{
    return (Evaluation){
        .actor = actor, .rules = rules,
//@ if AD_NEXT_STATE=reset
        .reset = true,
//@ end
    };
}

static Actor acting(void)
{
    return (Actor){
        .rows = EVAL, .positions = TA,
//@ if kinds
        .types = CONTEXT_TYPES,
//@ end
        .tokens = io.act_tokens, .at = io.act_positions, .query = io.act_rows,
//@ if communicates_act
        .collective = true,
//@ end
        .logits = logits_of_queries};
}

static const FigureReader figures[] = {{"returns", table_returns}, {NULL, NULL}};

static FiguresOf figures_in(const char *out)
{
    return (FiguresOf){out, &model, &objective_metrics, figures};
}

/* --evaluate */
static int evaluate(const Flags *f, const WeightFolders folder)
{
    const Actor actor = acting();
    const Evaluation e = evaluation(&actor);
    const int code = evaluation_report(&e, f, folder[0] ? folder[0] : folder[2]);
    const FiguresOf drawn = figures_in(f->out);
    if (f->figures)
        figures_source(&drawn, "returns");
    return code;
}

/* --evaluate-every N: each evaluation starts from an empty context. */
static cJSON *measured(int64_t step, bool *stop, bool *left)
{
    if (!flags_due(flags->evaluate_every, 0, step, steps_an_epoch))
        return NULL;
    const Actor actor = acting();
    const Evaluation e = evaluation(&actor);
    Earned all;
    *left = *stop = *stop || !evaluation_measure(&e, flags, &all);
    if (*left) {
        note("step %lld: the in-context evaluation is postponed, because the run is stopping",
             (long long)step);
        return NULL;
    }
    cJSON *record = cJSON_CreateObject();
    json_add_float(record, "return", all.mean);
    return record;
}

/* --show-regions TASK */
static int show_regions(const Flags *f, const WeightFolders folder)
{
    (void)folder;
    if (!*f->data)
        die(EXIT_CONFIG, "--show-regions needs --data FILE, the histories");
    const Sources files = read_sources(f->data);
    if (files.files != 1)
        die(EXIT_CONFIG, "--show-regions: --data must name one file, got %d", files.files);
    const Histories *h = files.file[0];
    if (f->show_regions >= h->tasks)
        die(EXIT_CONFIG, "--show-regions: must be 0..%d, a task of %s, got %lld", h->tasks - 1,
            f->data, (long long)f->show_regions);
    const RegionsOf of = {
        .h = h, .task = (int)f->show_regions, .steps = steps_of(&files, f->source_steps),
        .streams = (int)first_of(f->data, FLAG_source_streams, f->source_streams, h->streams,
                                 "streams a task"),
//@ if AD_CONTEXT=compressed
        .region = rules.region};
//@ end
//@ if AD_CONTEXT=plain
        .region = HISTORIES_ROLLOUT};
//@ end
    if (world.rank != 0)
        return EXIT_OK;
    regions_print(stdout, &of);
    const FiguresOf drawn = figures_in(f->out);
    if (f->figures)
        regions_draw(&drawn, &of);
    return EXIT_OK;
}

/* ---- names of checkpoints -------------------------------------------------------------------- */

static char *name(const Epochs *epochs, int64_t step, bool best)
{
    (void)epochs, (void)best;
    return format("ckpt-%lld", (long long)step);
}

static char *named(const Flags *f, const char *path, const Epochs *epochs)
{
    (void)path, (void)epochs;
    return run_folder_forget(f->out, "ckpt-");
}

static const ObjectiveCommand commands[] = {{FLAG_evaluate, evaluate}, {0, NULL}};
static const ObjectiveCommand without_weights[] = {{FLAG_show_regions, show_regions}, {0, NULL}};
static const char *const files[] = {"ckpt-[0-9]*", "eval_result*", NULL};
const ObjectiveHooks objective_hooks = {
    .commands = commands,
    .without_weights = without_weights,
    .measured = measured,
    .log = "logs/multi_gpu_%Y%m%d_%H%M%S/training.log",
    .banner = banner,
    .show = show,
    .name = name,
    .named = named,
    .files = files,
    .figures = figures,
    .runs = "AD-@AD_ENV@-seed0",
};
