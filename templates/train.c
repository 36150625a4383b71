/* train.c -- trains the model of this folder.
//@ head
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "objective.h"                // the inputs of a step, validation
#include "runtime/base.h"             // die(), note(), the world of ranks
#include "runtime/data/vocabulary.h"  // the tokenizer of the records
#include "runtime/device.h"           // the model's arrays
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/files/lock.h"       // one run a folder
#include "runtime/model/weights.h"    // how long files of them take
#include "runtime/libraries.h"        // versions of libraries
#include "runtime/ranks/comm.h"       // sums over ranks
#include "runtime/ranks/launch.h"     // which rank this is
#include "runtime/run/rank_agreement.h"        // what all ranks must have the same
#include "runtime/run/bench.h"        // --bench-steps
#include "runtime/run/best.h"         // the best validation, what ends a run early
#include "runtime/run/checkpoint.h"   // OUT/checkpoint-<step>/
#include "runtime/run/epochs.h"       // what epochs had
#include "runtime/run/failure.h"      // what to do after a failure
#include "runtime/run/fault.h"        // faults on purpose
#include "runtime/run/figures.h"      // figures of what is in OUT
#include "runtime/run/flags.h"        // the command line
#include "runtime/run/log.h"          // banner, progress, history.jsonl
#include "runtime/run/logfile.h"      // OUT/logs/
#include "runtime/run/hints.h"         // what to do with a finished run
#include "runtime/run/run_folder.h"          // what a run has in OUT
#include "runtime/run/profile.h"      // --profile
#include "runtime/run/records.h"      // --data, --eval-data
#include "runtime/run/param_groups.h"         // parameter groups
#include "runtime/run/show.h"         // --show
#include "runtime/run/stale.h"        // whether gen wrote other sources since
#include "runtime/run/initial_weights.h"       // the weights of a run
#include "runtime/run/stop.h"         // signals, DONE, fault files
#include "runtime/run/version.h"      // --version
#include "sources.h"                  // their hash
#include "step.h"                     // the programs of a step

/* What the recipe set in run = {...}; the command line goes first. */
static const FlagDefault defaults[] = {
//@ defaults
    {NULL, NULL}
};

/* What is updated by itself. */
static const ParamGroupRow sets[SETS] = {
//@ sets
};

typedef struct {
    Flags flags;
    Data train, eval;
    bool trains, evaluates;      /* --data, --eval-data were given */
    Checkpoints checkpoints;
    Log log;
    Epochs epochs;
    int64_t total;               /* steps */
    int64_t lr_ranks;            /* that --lr-scale counts */
    int64_t ready;               /* the step whose batch is in io; -1: none */
    /* Of the last step: sums over ranks, behind them whether one was asked to stop, and the values
     * that they become; of the last validation. */
    double sum[STEP_METRICS + 1], metric[STEP_METRICS], validation[EVAL_METRICS];
    Best best;                   /* validation */
//@ if hook_wants_start
    char *began;                 /* crc32c of the weights it began with; NULL: unknown */
//@ end
    char *stop_reason;                 /* why the run is over before its last step; or NULL */
    char *own;                   /* the checkpoint saved last, when the next takes files from it */
    bool follows;                /* the tokenizer is the copy in the checkpoint saved last */
//@ if hook_measured
    bool measurement_due;  /* the objective's record of this step was left on a stop */
//@ end
    char *changes;               /* flags that are others than those of the checkpoint */
    char *logfile;               /* below OUT */
    int argc;
    char **argv;
    double started;              /* clock */
} Run;

/* ---- a step ---------------------------------------------------------------------------------- */

/* Non-finite loss or gradient: every rank sees the same norm and loss, and no weight of the set has
 * changed. Returns where the run goes on without this update. */
static void skip_update(Run *r, int64_t step, int set, double loss)
{
    const char *of = set ? " of the set " : "", *name = set ? sets[set].name : "";
    double norm = param_group_norm(set);
    int64_t sample[8], n = 0;
    char list[256] = "";
    if (r->trains)
        n = data_samples(&r->train, step, sample, 8);
    for (int64_t i = 0; i < n && i < 8; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%" PRId64, i ? " " : "",
                 sample[i]);
    if (param_group_skip(set)) {
        note("step %" PRId64 ": loss %g, gradient norm%s%s %g: update skipped; samples %s%s",
             step + 1, loss, of, name, norm, list, n > 8 ? " ..." : "");
        return;
    }
    if (world.rank != 0)
        comm_barrier();          /* rank 0 ends the job with the one line */
    die(EXIT_NONFINITE,
        "loss %g, gradient norm%s%s %g; samples %s%s; nothing of this step is saved; %s", loss, of,
        name, norm, list, n > 8 ? " ..." : "", hint_nonfinite(&r->log, r->flags.out));
}

/* The inputs of a step, for step_train(). */
static void fill(Run *r, int64_t step)
{
    objective_fill(&r->train, step);
    r->ready = step;
}

/* What became of the updates that were begun. finite: the loss of them, as far as it is known. */
static void end_updates(Run *r, int64_t step, bool finite)
{
    for (int i = 0; i < SETS; i++)
        if (!param_group_end(i, finite))
            skip_update(r, step, i, r->metric[0]);
}

static void set_values(Run *r)
{
    memcpy(r->metric, r->sum, sizeof r->metric);
    metrics_values(objective_metrics.step, STEP_METRICS, r->metric);
}

/* One optimiser step; the batch of the next is made while it runs. Returns whether any rank was
 * asked to stop. */
static bool train_step(Run *r, int64_t step, LogStep *said)
{
    profile_phase(PROFILE_BATCH);
    param_groups_begin(step, r->total);
    if (r->ready != step)
        fill(r, step);
    fault_step(&model, io.scale);
    data_count(&r->train, step);
    profile_phase(PROFILE_LAUNCH);
    step_train();
    profile_phase(PROFILE_BATCH);
    if (step + 1 < r->total)
        fill(r, step + 1);
    profile_phase(PROFILE_WAIT);
    step_wait();
    profile_phase(PROFILE_HOST);
    objective_step(step, r->sum);
    r->sum[STEP_METRICS] = stop_requested();
    profile_phase(PROFILE_SUMS);
    comm_allreduce_double(r->sum, STEP_METRICS + 1);
    profile_phase(PROFILE_HOST);
    set_values(r);
    end_updates(r, step, isfinite(r->metric[0]));
//@ if hook_updated
    if (objective_hooks.updated(step, r->total, r->sum))
        r->ready = -1;
    set_values(r);
    end_updates(r, step, true);
//@ end
    *said = (LogStep){r->sum, r->metric, param_group_norm(SET_model),
                      param_group_lr(SET_model), &r->train};
    return r->sum[STEP_METRICS] > 0;
}

static LogEval validate(Run *r)
{
    double start = clock_seconds();
    r->ready = -1;               /* the same inputs are used */
    const int64_t batches = data_eval_batches(&r->eval, &model, r->flags.eval_batches);
    objective_validate(&r->eval, batches, r->validation);
    comm_allreduce_double(r->validation, EVAL_METRICS);
    metrics_values(objective_metrics.eval, EVAL_METRICS, r->validation);
    return (LogEval){.value = r->validation, .seconds = clock_seconds() - start,
                     .batches = batches * model.ranks};
}

/* Whether it is the best so far. */
static bool evaluate(Run *r, int64_t step)
{
    LogEval e = validate(r);
    log_eval(&r->log, step, &e);
    return best_see(&r->best, step, e.value);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

//@ if hook_name
/* The checkpoint of that step under a name of the objective's as well. */
static void name_checkpoint(Run *r, int64_t step)
{
    const Epochs *c = &r->epochs;
    char *from = checkpoint_path(r->flags.out, step), *name = NULL, *path = NULL, *error = NULL;
    comm_expect(weights_seconds(&model));
    if (world.rank == 0 && folder_exists(from))
        name = objective_hooks.name(c, step, r->best.best.step == step);
    if (name) {
        path = folder_join(r->flags.out, name);
        error = folder_make_below(r->flags.out, path);
        error = error ? error : folder_link(from, path);
//@ if hook_named
        if (!error)
            error = objective_hooks.named(&r->flags, path, c);
//@ end
    }
    comm_expect(0);
    if (error)
        warn("%s; training goes on", error);
    free(from), free(name), free(path), free(error);
}

//@ end
/* must: the run ends here, so a checkpoint that cannot be written is its end too. */
static void save(Run *r, int64_t step, bool must)
{
    double start = clock_seconds();
    Checkpoints *c = &r->checkpoints;
    cJSON *state = cJSON_CreateObject(), *trainer = log_state(&r->log, step);
    param_groups_save(state);
    cJSON_AddNumberToObject(state, "total", (double)r->total);
//@ if hook_wants_start
    if (r->began) {
        cJSON_AddStringToObject(state, "began", r->began);
        initial_save_start(c, state);
    }
//@ end
    Best before = r->best;
    best_save(&r->best, r->flags.out, step, state, trainer);
    log_save(&r->log, state);
    records_save(&r->train, state);
    epochs_save(&r->epochs, state);
//@ if hook_measured
    if (r->measurement_due)
        cJSON_AddTrueToObject(state, "owes");
//@ end
    char *try = world.rank == 0 ? hint_nonfinite(&r->log, r->flags.out) : NULL;
    c->advice = try;
    bool saved = checkpoint_save(c, &model, step, state, trainer);
    if (!saved && must)
        die(EXIT_IO,
            "%s: the last checkpoint could not be written; step %" PRId64
            " is lost back to the one before",
            c->why, step);
    if (!saved)
        r->best = before;
    if (saved && r->follows) {
        char *folder = checkpoint_path(r->flags.out, step);
        c->tokenizer = folder_join(folder, "tokenizer.json");
        free(folder);
    }
//@ unless lora
    if (saved && c->found) {     /* which may be removed from now on */
        free(r->own);
        c->source = r->own = checkpoint_path(r->flags.out, step);
    }
//@ end
//@ if hook_name
    if (saved)
        name_checkpoint(r, step);
//@ end
    free(try);
    cJSON_Delete(state);
    cJSON_Delete(trainer);
    log_pause(&r->log, clock_seconds() - start);
}

/* What this program adds to a checkpoint, back from it. */
static void restore(Run *r)
{
    const cJSON *s = r->checkpoints.state;
    best_load(&r->best, r->flags.out, s);
    records_load(&r->train, s);
//@ if hook_measured
    r->measurement_due = cJSON_IsTrue(json_get(s, "owes"));
//@ end
    char *error = param_groups_load(s);
    if (!error)
        error = log_load(&r->log, &objective_metrics, s);
    if (!error)
        error = epochs_load(&r->epochs, s);
    if (error)
        die(EXIT_NO_CKPT, "%s/train_state.json: %s", r->checkpoints.found, error);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Where the weights come from, for the objective. */
static void folders_of(const Run *r, WeightFolders to)
{
    const Checkpoints *c = &r->checkpoints;
    to[0] = c->found;
    to[1] = initial_folder(r->flags.adapter);
    to[2] = c->source;
}

//@ if hook_wants_start
/* Beside a checkpoint --init-from and --adapter name what its run began with. */
static bool names_start(const Flags *f) { return f->eval_only || *f->beside_start; }

//@ end
//@ if hook_loaded
/* The weights are in: tells the objective.
//@ if hook_wants_start
 * For one that wants them those that the run began with come in between, also where they are named,
 * so that they are looked at.
//@ end
 */
static void tell_loaded(Run *r)
{
    Checkpoints *c = &r->checkpoints;
    WeightFolders folder;
    folders_of(r, folder);
    r->ready = -1;
//@ unless hook_wants_start
    objective_hooks.loaded(&r->flags, folder, !c->found);
//@ end
//@ if hook_wants_start
    const char *before = cJSON_GetStringValue(json_get(c->state, "began"));
    r->began = !c->found ? initial_mark(&model) : before ? format("%s", before) : NULL;
    const int flag = model.adapter_json ? FLAG_adapter : FLAG_init_from;
    const bool named = names_start(&r->flags) && r->flags.given[flag];
    if ((!objective_hooks.loaded(&r->flags, folder, !c->found) && !named) || !c->found)
        return;
    initial_load_first(c, &model);
    objective_hooks.loaded(&r->flags, folder, true);
    initial_load(c, &model);
//@ end
}

//@ end
static void check_records(const Run *r)
{
    WeightFolders folder;
    folders_of(r, folder);
    objective_suit(folder, r->trains ? &r->train : NULL);
    objective_suit(folder, r->evaluates ? &r->eval : NULL);
}

static void open_data(Run *r)
{
    r->trains = records_train(&r->flags);
    r->evaluates = records_validate(&r->flags);
    objective_open(&r->flags, &r->train, &r->eval);
    check_records(r);
}

static void set_schedule(Run *r)
{
    const Flags *f = &r->flags;
    int64_t per_epoch = data_steps_per_epoch(&r->train);
    r->total = f->steps ? f->steps : (int64_t)ceil(f->epochs * (double)per_epoch);
    const Checkpoints *c = &r->checkpoints;
    const bool anew = checkpoint_changes(c, f, FLAG_lr) || checkpoint_changes(c, f, FLAG_lr_scale);
    r->lr_ranks = param_groups_ranks(anew, c->state, model.ranks);
    param_groups_open(sets, SETS, f, r->lr_ranks);
}

/* Refuses flags that need validations where the run has none; defaults get a note. */
static void check_validations(const Run *r)
{
    static const struct {
        int flag;
        bool repeated;               /* needs validations during training, not only the last */
    } needs[] = {{FLAG_eval_every, false}, {FLAG_eval_batches, false}, {FLAG_patience, true},
                 {FLAG_keep_best, true}, {FLAG_eval_from, true}};
    const Flags *f = &r->flags;
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const int flag = needs[i].flag;
        const char *lacks = !r->evaluates ? "--eval-data FILE or --eval-share X"
                            : needs[i].repeated && !f->eval_every ? "--eval-every N" : NULL;
        if (!lacks || !flags_on(f, flag))
            continue;
        if (f->given[flag])
            die(EXIT_CONFIG, "%s: this run has no validations; add %s", flags_spelt(flag),
                lacks);
        if (needs[i].repeated)
            note("%s, a default here, has no effect: this run has no validations; add %s",
                 flags_spelt(flag), lacks);
    }
    if (f->given[FLAG_run_name] && !f->tensorboard)
        note("%s has no effect: --tensorboard is false, and it names the run in TensorBoard",
             flags_spelt(FLAG_run_name));
    if (r->evaluates && f->given[FLAG_eval_every] && !f->eval_every)
        note("%s 0: the validation data is used once, after the last step",
             flags_spelt(FLAG_eval_every));
}

/* Of all records that steps take; malloc'ed. */
static char *fingerprint(const Run *r)
{
//@ unless hook_beside
    return data_fingerprint(&r->train);
//@ end
//@ if hook_beside
    char *own = data_fingerprint(&r->train), *beside = objective_hooks.beside(),
         *all = format("%s; beside %s", own, beside);
    free(own), free(beside);
    return all;
//@ end
}

/* Raw data of a resumed run are encoded as at its start, also where no flag names the tokenizer
 * again: by that of the base, else by the copy in the checkpoint. */
static void keep_tokenizer(Run *r)
{
    const Checkpoints *c = &r->checkpoints;
    const char *const folder[] = {c->base, c->found};
    if (!*r->flags.tokenizer && !initial_folder(r->flags.init_from) && records_raw(&r->flags))
        r->flags.tokenizer = vocabulary_for_raw(folder, 2);
    if (!r->flags.tokenizer)
        r->flags.tokenizer = "";
}

/* Finds what the run goes on from, agrees with it and says what it is going to do. */
static void prepare(Run *r)
{
    Checkpoints *c = &r->checkpoints;
    if (checkpoint_find(c, &model))
        r->changes = checkpoint_flags(c, &r->flags);
    initial_choose(c, &model);
    if (c->found)
        keep_tokenizer(r);
    open_data(r);
    if (!r->trains)
        die(EXIT_CONFIG,
            "--data: want files to train on: text, JSON Lines, or what gen pack makes");
    check_validations(r);
    c->fingerprint = fingerprint(r);
    c->tokenizer = vocabulary_of_records(&r->train, records_tokenizer(&r->flags));
    r->follows = c->found && c->tokenizer && strncmp(c->tokenizer, c->found, strlen(c->found)) == 0;
    if (c->found)
        checkpoint_agree(c, &model);
    set_schedule(r);
    log_banner(&(Banner){.model = &model, .flags = &r->flags, .threads = omp_get_max_threads(),
                         .train = &r->train, .eval = r->evaluates ? &r->eval : NULL,
                         .weights = initial_words(c, &model), .lr_ranks = r->lr_ranks,
                         .total = r->total});
//@ if hook_banner
    objective_hooks.banner(&r->flags, &r->train, r->evaluates ? &r->eval : NULL);
//@ end
}

/* As TensorBoard calls it. */
static const char *run_name(const Flags *f)
{
    const char *name = f->run_name;
    if (strchr(name, '/') || *name == '.')
        die(EXIT_CONFIG, "--run-name %s: names a folder of OUT/runs: want no / and no . at its "
            "beginning", name);
    return *name ? name : objective_hooks.runs ? objective_hooks.runs : model.name;
}

static void resume_or_start(Run *r)
{
    Checkpoints *c = &r->checkpoints;
    run_name(&r->flags);             /* a bad one ends the program before anything is written */
    *c = (Checkpoints){.out = r->flags.out, .flags = &r->flags};
    best_clear(&r->best, &objective_metrics, objective_hooks.enough);
    r->ready = -1;
    if (r->flags.force)
        run_folder_set_aside(r->flags.out, objective_hooks.files);
    checkpoint_start(c, &model);
    r->logfile = logfile_open(r->flags.out, &model, objective_hooks.log, r->argc, r->argv);
    prepare(r);
    epochs_open(&r->epochs, &objective_metrics, data_steps_per_epoch(&r->train),
                objective_hooks.files != NULL);
    initial_load(c, &model);
    initial_tell_padding(c, &model);
//@ if hook_loaded
    tell_loaded(r);
//@ end
    if (c->found)
        restore(r);
    r->stop_reason = c->step < r->total ? best_over(&r->best, r->flags.patience) : NULL;
    bool over = c->found && (c->step >= r->total || r->stop_reason);
    if (over && r->changes)
        die(EXIT_CONFIG, "%s holds a finished run, step %" PRId64 " of %" PRId64 ", of other "
            "flags: %s; --force moves it aside and trains anew, another --out leaves it alone",
            r->flags.out, c->step, r->total, r->changes);
    if (!over)
        stop_undone(r->flags.out);
    if (c->found && !over)
        checkpoint_leave_newer(c);
    log_open(&r->log, r->flags.out, &model, &r->flags, &objective_metrics,
             over ? c->step : r->total, data_steps_per_epoch(&r->train), c->found ? c->step : 0);
    if (r->flags.tensorboard)
        log_events(&r->log, run_name(&r->flags), r->argc, r->argv);
    if (c->found) {
        note("resumed from %s", c->found);
//@ if hook_name
        name_checkpoint(r, c->step);     /* if it was killed before */
//@ end
    }
}

//@ if hook_write
/* The objective's own files. must: the run ends here, so that they cannot be written is its end. */
static void write_own(Run *r, bool must)
{
    double start = clock_seconds();
    WeightFolders folder;
    r->ready = -1;
    folders_of(r, folder);
    comm_expect(weights_seconds(&model));
    char *error = objective_hooks.write(&r->flags, folder, &r->epochs);
    comm_expect(0);
    if (error && must)
        die(EXIT_IO, "%s", error);
    if (error)
        warn("%s; training goes on", error);
    free(error);
    events_samples(&r->log.events);
    log_pause(&r->log, clock_seconds() - start);
}

//@ end
/* Behind a step: the validation and the end of an epoch that are due. Whether it is the best so
 * far; *marked: whether there is more to tell. */
static bool validate_if_due(Run *r, int64_t step, bool last, bool *marked)
{
    const Flags *f = &r->flags;
    int64_t per_epoch = r->epochs.per_epoch;
    bool whole = step % per_epoch == 0, better = false,
         validates = r->evaluates &&
                     (last || flags_due(f->eval_every, f->eval_from, step, per_epoch));
    if (whole && f->eval_every < 0) {
        char *text = epochs_text(&r->epochs);
        note("epoch %" PRId64 "/%" PRId64 "%s", step / per_epoch,
             (r->total + per_epoch - 1) / per_epoch, text);
        log_epoch(&r->log, step, epochs_loss(&r->epochs), param_group_lr(SET_model));
        free(text);
    }
    if (validates)
        better = evaluate(r, step);
    *marked = validates || whole || last;
    if (*marked)
        epochs_mark(&r->epochs, step, validates ? r->validation : NULL);
    return better;
}

//@ if hook_measured
/* Behind a step: what the objective measures. Returns whether the run is to stop. */
static bool record_measurement(Run *r, int64_t step, bool stop)
{
    const double start = clock_seconds();
    r->measurement_due = false;
    cJSON *record = objective_hooks.measured(step, &stop, &r->measurement_due);
    if (record || r->measurement_due)
        r->ready = -1;
    if (record)
        log_own(&r->log, step, record);
    log_pause(&r->log, clock_seconds() - start);
    return stop;
}

//@ end
static int train(Run *r)
{
    const Flags *f = &r->flags;
    resume_or_start(r);
    int64_t step = r->checkpoints.found ? r->checkpoints.step : 0;
    if (r->stop_reason)
        note("nothing to do: stopped early after step %" PRId64 " of %" PRId64 ": %s; another "
             "value of that flag goes on", step, r->total, r->stop_reason);
    else if (step >= r->total)
        note("nothing to do: step %" PRId64 " of %" PRId64 " is done; --force trains anew", step,
             r->total);
    if (step == 0 && r->evaluates && f->eval_every) {
        evaluate(r, 0);
        epochs_mark(&r->epochs, 0, r->validation);
    }
//@ if hook_write
    if (r->stop_reason || step >= r->total)
        write_own(r, true);
//@ end
//@ if hook_measured
    bool stop = r->measurement_due && record_measurement(r, step, false);
//@ end
//@ unless hook_measured
    bool stop = false;
//@ end
    profile_open(step_ops, step_nops, f->out, f->profile, step, r->stop_reason ? step : r->total);
    while (step < r->total && !stop && !r->stop_reason) {
        world.step = step + 1;
        LogStep said;
        profile_begin(step);
        stop = train_step(r, step, &said);
        step++;
        log_step(&r->log, step, &said);
        epochs_step(&r->epochs, step, r->sum);
        profile_end();
        bool last = step == r->total, marked, better = validate_if_due(r, step, last, &marked);
//@ if hook_measured
        stop = record_measurement(r, step, stop);
//@ end
        if (!last && r->best.seen.step == step &&
            (r->stop_reason = best_over(&r->best, f->patience)))
            note("stopped early after step %" PRId64 ": %s", step, r->stop_reason);
        last = last || r->stop_reason;
//@ if hook_measured
        r->measurement_due = r->measurement_due && !last;
//@ end
        if (last)
            log_end(&r->log, step, r->stop_reason);
//@ if hook_write
        if (marked && !last)
            write_own(r, false);
//@ end
        if (last || stop || (better && f->keep_best) ||
            flags_due(f->save_every, 0, step, r->epochs.per_epoch))
            save(r, step, last || stop);
//@ if hook_write
        if (last)
            write_own(r, true);
//@ end
    }
    profile_close();
    log_close(&r->log);
    bool done = step >= r->total || r->stop_reason;
    note("plan %.1f MiB, allocated %.1f MiB", (double)model.planned_bytes / (1 << 20),
         (double)device_used() / (1 << 20));
    logfile_devices();
    if (done && world.rank == 0) {
        stop_done(f->out, step, r->stop_reason);
        if (f->figures)
            figures_end(&(FiguresOf){f->out, &model, &objective_metrics});
        run_folder_report(f->out, objective_hooks.files, r->logfile);
        hints_print(&model, &r->checkpoints, &r->best, step);
    }
//@ if hook_finished
    if (done) {
        WeightFolders folder;
        checkpoint_written(&r->checkpoints, step);
        folders_of(r, folder);
        objective_hooks.finished(f, folder, &r->checkpoints);
    }
//@ end
    bool stopped = stop && !done;
    if (stopped)
        stop_report(EXIT_STOPPED);
    lock_release();
    if (stopped) {
        note("stopped on %s after step %" PRId64 ", checkpoint-%" PRId64
             " saved; the same command goes on from there",
             *stop_signal() ? stop_signal() : "request", step, step);
        failure_again("", "goes on from there");
        comm_finish();
        return EXIT_STOPPED;
    }
    comm_finish();
    return EXIT_OK;
}

/* ---- other uses ------------------------------------------------------------------------------ */

static void load_found(Run *r)
{
    Checkpoints *c = &r->checkpoints;
    initial_load(c, &model);
    note("weights: %s", initial_words(c, &model));
}

/* Raw data are encoded as those that the weights were trained on. */
static void take_tokenizer(Run *r)
{
    WeightFolders folder;
    folders_of(r, folder);
    char *own = r->flags.given[FLAG_tokenizer] || !records_raw(&r->flags)
                    ? NULL : vocabulary_for_raw(folder, WEIGHT_FOLDERS);
    if (own)
        r->flags.tokenizer = own;
}

/* Finds them; where a use asks for those that the run began with, too, flags may name these. */
static void find_finished(Run *r)
{
//@ if hook_wants_start
    initial_finished(&r->checkpoints, &r->flags, &model, names_start(&r->flags));
//@ end
//@ unless hook_wants_start
    initial_finished(&r->checkpoints, &r->flags, &model, false);
//@ end
    take_tokenizer(r);
}

/* For uses of finished weights. */
static void load_finished(Run *r)
{
    find_finished(r);
    check_records(r);
    load_found(r);
}

static int export_weights(Run *r)
{
//@ unless lora
    if (*r->flags.merge_lora)
        die(EXIT_CONFIG, "--merge-lora: this binary has no LoRA; --export writes its weights");
//@ end
    load_finished(r);
    initial_export(&r->checkpoints, &model);
    const char *dir = *r->flags.merge_lora ? r->flags.merge_lora : r->flags.export;
    note("next: %s/README.md shows how to load it", dir);
    return EXIT_OK;
}

/* One JSON line with the metrics of a validation of the weights. */
static int eval_only(Run *r)
{
    const Flags *f = &r->flags;
    if (!records_validate(f) && f->eval_share > 0)
        die(EXIT_CONFIG, "--eval-only: --data is missing, whose last %g is to validate on "
            "(--eval-share): name it, or --eval-data FILE", f->eval_share);
    if (!records_validate(f))
        die(EXIT_CONFIG, "--eval-only: want --eval-data FILE, or --data FILE and --eval-share X");
    find_finished(r);
    open_data(r);
    load_found(r);
//@ if hook_loaded
    tell_loaded(r);
//@ end
    LogEval e = validate(r);
    const Metrics *m = &objective_metrics;
    double decides = e.value[m->decides];
    if (!isfinite(decides) && !r->flags.allow_nonfinite)
        die(EXIT_NONFINITE, "the validation %s is %g; --allow-nonfinite prints it as null",
            m->eval[m->decides].name, decides);
    if (world.rank == 0)
        log_eval_line(stdout, m, &e);
    return EXIT_OK;
}

/* Any weights do. */
static void start_without(Run *r)
{
    r->checkpoints = (Checkpoints){.out = r->flags.out, .flags = &r->flags};
    if (!*r->flags.init_from)
        r->flags.init_from = "none";
    initial_choose(&r->checkpoints, &model);
    open_data(r);
}

/* Steps that are timed as one: with all updates that an objective has in turns. */
static int64_t bench_round(void)
{
//@ if hook_round
    return objective_hooks.round;
//@ end
//@ unless hook_round
    return 1;
//@ end
}

static void bench_step(void *run, int64_t round)
{
    Run *r = run;
    LogStep said;
    for (int64_t i = 0; i < bench_round(); i++) {
        const int64_t step = round * bench_round() + i;
        if (r->trains) {
            train_step(r, step, &said);
            continue;
        }
        param_groups_begin(step, r->total);
        step_train();
        step_wait();
//@ if hook_updated_any
        objective_hooks.updated_any(step, r->total);
//@ end
    }
}

/* Times whole steps; without --data of a batch of no meaning. */
static int bench(Run *r)
{
    const Flags *f = &r->flags;
    start_without(r);
    initial_load(&r->checkpoints, &model);
    r->total = (f->bench_steps + BENCH_WARM) * bench_round();
    param_groups_open(sets, SETS, f, model.ranks);
    r->ready = -1;
    if (!r->trains)
        objective_fill_any();
//@ if hook_loaded
    else
        tell_loaded(r);
//@ end
    bench_run(&(Bench){.steps = f->bench_steps, .step = bench_step, .with = r,
                       .work = (double)(objective_work() * bench_round()), .started = r->started,
                       .unit = objective_metrics.step[objective_metrics.step_work].name}, &model);
    note("next: --profile 20 in the place of --bench-steps%s shows kernels by time",
         r->trains ? "" : ", and --data FILE,");
    return EXIT_OK;
}

/* Rows of the first steps, for people. */
static int show(Run *r)
{
    start_without(r);
    if (!r->trains)
        die(EXIT_CONFIG, "--show: want --data to show rows of");
    WeightFolders folder;
    folders_of(r, folder);
    Tokenizer *tok = vocabulary_of_data(&r->train, records_tokenizer(&r->flags), folder,
                                        WEIGHT_FOLDERS);
    show_steps(&(ShowOf){objective_fill, objective_hooks.show}, &r->train, r->flags.show, tok);
    tokenizer_free(tok);
    return EXIT_OK;
}

static void say(const char *line)
{
    note("  %s", line);
}

/* What a run would do, and how each matrix product is computed. */
static int dry_run(Run *r)
{
    r->checkpoints = (Checkpoints){.out = r->flags.out, .flags = &r->flags, .looks = true};
    if (*r->flags.data) {
        prepare(r);
        note("dry run: %" PRId64 " steps, %" PRId64 " an epoch; no run was begun", r->total,
             data_steps_per_epoch(&r->train));
    }
    initial_check(&r->checkpoints, &model);
    note("matrix products:");
    step_products(say);
    if (*r->flags.data)
        failure_again("--dry-run", "trains");
    return EXIT_OK;
}

/* Of a run that is over, or under way, anywhere: wants no other ranks and no device. */
static int plot(Run *r)
{
    Launch us;
    char *error = launch_resolve(environ, &us);
    if (!r->flags.figures && r->flags.given[FLAG_figures])
        die(EXIT_CONFIG, "--plot and --figures false: the one draws, the other does not");
    if (error || us.rank == 0)
        figures_asked(&(FiguresOf){r->flags.out, &model, &objective_metrics});
    free(error);
    return EXIT_OK;
}

enum { THREADS_MOST = 1024 };

static void set_threads(const Flags *f)
{
    int threads = (int)f->threads;
    if (!threads && !getenv("OMP_NUM_THREADS")) {
        int cores = omp_get_num_procs(), local = world.local_size > 0 ? world.local_size : 1;
        threads = cores / local > 0 ? cores / local : 1;
    }
    if (threads)
        omp_set_num_threads(threads);
    const int cpus = omp_get_num_procs(), most = cpus > THREADS_MOST ? cpus : THREADS_MOST;
    if (omp_get_max_threads() > most)
        die(EXIT_CONFIG, "%s asks for %d threads, on %d CPUs: want at most %d",
            f->threads ? "--threads" : "OMP_NUM_THREADS", omp_get_max_threads(), cpus, most);
}

/* Threads get stacks of the limit that the program starts with: with a small one it starts itself
 * again. */
static void check_stack(char **argv)
{
    const rlim_t least = 1 << 20, usual = 8 << 20;
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur >= least)
        return;
    const rlim_t before = stack.rlim_cur;
    stack.rlim_cur = stack.rlim_max < usual ? stack.rlim_max : usual;
    if (stack.rlim_cur >= least && setrlimit(RLIMIT_STACK, &stack) == 0)
        execv("/proc/self/exe", argv);
    die(EXIT_CONFIG, "stacks are limited to %lld KiB, which is too little: ulimit -s 8192",
        (long long)before >> 10);
}

static void print_version(const Flags *f)
{
    const Built b = {
        .name = model.name, .generator = model.generator, .recipe = model.recipe,
        .hash = model.hash, .overrides = model.overrides, .objective = model.objective,
        .family = model.family, .precision = model.precision, .target = model.target,
        .cluster = model.cluster, .ranks = model.ranks, .ir = model.ir, .kernels = model.kernels,
        .compiler = "gcc " __VERSION__, .kernel_compiler = step_tools, .flags = BUILD_FLAGS,
        .lock = BUILD_LOCK, .libraries = libraries_of_model};
    if (!f->json)
        printf(
            "%s: %s, recipe %s (%s)\nobjective %s, family %s, precision %s, target %s, ranks %lld"
            "\nir %s\nkernels %s\nbuilt by %s; kernels by %s\n",
            b.name, b.generator, b.recipe, b.hash, b.objective, b.family, b.precision, b.target,
            b.ranks, b.ir, b.kernels, b.compiler, b.kernel_compiler);
    if (f->verbose || f->json)
        version_more(&b, f->json);
}

/* ---- main ------------------------------------------------------------------------------------ */

/* Other uses of the program than training, by the flag that asks for one. */
static const struct {
    int flag;
    int (*run)(Run *r);
} uses[] = {
    {FLAG_export, export_weights}, {FLAG_merge_lora, export_weights}, {FLAG_eval_only, eval_only},
    {FLAG_bench_steps, bench},     {FLAG_dry_run, dry_run},        {FLAG_show, show},
    {FLAG_plot, plot}};

enum { USES = sizeof uses / sizeof uses[0] };

/* Whether this use is asked for, beside the one found before; -1: none was. */
static bool chosen(const Flags *f, int flag, int *before)
{
    if (!flags_on(f, flag))
        return false;
    if (*before >= 0)
        die(EXIT_CONFIG, "%s and %s: one use at a time", flags_spelt(*before), flags_spelt(flag));
    *before = flag;
    return true;
}

/* The use that the flags ask for, of the objective or of every program; both NULL: training. */
typedef struct {
    int (*own)(const Flags *f, const WeightFolders folder);
    int (*any)(Run *r);
    bool without;                /* own: wants no weights */
} Use;

static Use find_use(const Flags *f)
{
//@ if hook_without
    const ObjectiveUse *const own[] = {objective_hooks.use, objective_hooks.without};
//@ end
//@ unless hook_without
    const ObjectiveUse *const own[] = {objective_hooks.use};
//@ end
    Use use = {NULL, NULL, false};
    int flag = -1;
    for (int without = 0; without < (int)(sizeof own / sizeof *own); without++)
        for (const ObjectiveUse *u = own[without]; u && u->run; u++)
            if (chosen(f, u->flag, &flag))
                use = (Use){u->run, NULL, without};
    for (int i = 0; i < USES; i++)
        if (chosen(f, uses[i].flag, &flag))
            use.any = uses[i].run;
    if (f->force && (use.own || (use.any && use.any != dry_run)))
        die(EXIT_CONFIG, "--force is of training: it starts anew");
    if (f->profile && (use.own || use.any))
        die(EXIT_CONFIG, "--profile is of training: it takes steps of a run apart");
    return use;
}

/* A job that its launcher starts again goes on. */
static void check_force(Flags *f)
{
    if (f->force && f->given[FLAG_resume])
        die(EXIT_CONFIG, "--force starts anew, --resume %s goes on: give one of them", f->resume);
    if (f->force && comm_restart())
        note("restart %d: --force was of the first start", comm_restart());
    f->force = f->force && !comm_restart();
}

/* Returns the exit status. */
static int run_use(Run *r, Use use)
{
    WeightFolders folder = {NULL};
    if (use.any)
        return use.any(r);
    if (!use.without) {
        load_finished(r);
        folders_of(r, folder);
    }
    return use.own(&r->flags, folder);
}

int main(int argc, char **argv)
{
    static Run run;
    check_stack(argv);
    run.started = clock_seconds();
    Flags *f = &run.flags;
    failure_of(argc, argv, NULL, NULL);
//@ if hook_additions
    model.additions = objective_hooks.additions;
//@ end
    flags_of(model.objective);
    const Made made = {model_words(&model, ""), {model.model_fields, model.other_fields,
                                               format("name=\"%s\"", model.name)}};
    flags_parse(f, &made, defaults, argc, argv);
    if (f->help) {
        flags_help(stdout, argv[0], f);
        return EXIT_OK;
    }
    if (f->version) {
        print_version(f);
        return EXIT_OK;
    }
    stale_check(SOURCES_SHA256);
    if (f->where && !f->verbose) {
        puts(f->out);
        return EXIT_OK;
    }
    const Use use = find_use(f);
    const bool trains = !use.own && !use.any;
    if (f->where) {
        printf("%s\n%s", f->out, trains ? "trains\n" : "");
        return EXIT_OK;
    }
    if (use.any == plot)
        return plot(&run);
    if (trains)
        stop_listen();
    comm_init(model.ranks, model_words(&model, "gpus"), argc, argv);
    failure_of(argc, argv, f->out, NULL);
    if (f->renamed)
        note("%s", f->renamed);
    comm_check_local_rank(f->local_rank);
    ranks_check_flags(f);
    fault_arm();
    set_threads(f);
    stop_ignore();
    step_open();
    check_force(f);
    checkpoint_out(f->out);
    if (trains) {
        stop_install();
        run.argc = argc;
        run.argv = argv;
        lock_take(f->out, comm_restart(), f->break_lock);
        comm_barrier();          /* a refusal ends all ranks here, before any writes a file */
        lock_share(f->out);
        stop_faults(f->out, comm_restart());
        return train(&run);
    }
    int code = run_use(&run, use);
    comm_finish();
    return code;
}
