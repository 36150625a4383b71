/* training.c -- trains: steps, validation, checkpoints, resume. */
#define _GNU_SOURCE
#include "training.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

//@ if cudnn
#include "runtime/attention_cudnn.h"  // its version
//@ end
#include "runtime/base.h"             // die(), note(), the world of ranks
//@ if uses_tokens
#include "runtime/data/vocabulary.h"  // the tokenizer of the records
//@ end
#include "runtime/device.h"           // the model's arrays
#include "runtime/files/crc32c.h"
#include "runtime/files/json.h"
#include "runtime/files/lock.h"       // one run per folder
#include "runtime/libraries.h"        // versions of libraries
#include "runtime/model/weights.h"    // how long reading and writing them takes
#include "runtime/ranks/comm.h"       // sums over ranks
//@ if checkpoint_async
#include "runtime/run/checkpoint_async.h"
//@ end
//@ if uses_tokens
#include "runtime/run/export.h"       // how transformers reads the tokenizer
//@ end
#include "runtime/run/failure.h"      // hints after a failure
#include "runtime/run/fault.h"        // injected faults
#include "runtime/run/hints.h"        // hints after a finished run
#include "runtime/run/initial_weights.h"
#include "runtime/run/logfile.h"      // OUT/logs/
#include "runtime/run/profile.h"      // --profile
//@ if uses_tokens
#include "runtime/run/records.h"      // --data, --eval-data
//@ end
#include "runtime/run/run_folder.h"   // files in OUT
#include "runtime/run/stop.h"         // signals, DONE, fault files
#include "runtime/run/version.h"      // versions as words
#include "saves.h"                    // checkpoints
#include "step.h"                     // the programs of a step

const ParamGroupRow param_groups[SETS] = {
//@ sets
};

/* ---- a step ---------------------------------------------------------------------------------- */

/* After a non-finite loss or gradient, on every rank; no weight of the group has changed,
 * except inside the backward pass. Ends the run, or returns if --nonfinite skips the update. */
static void skip_update(Run *r, int64_t step, int group, double loss)
{
    const char *of = group ? " of the group " : "", *name = group ? param_groups[group].name : "";
    double norm = param_group_norm(group);
    int64_t sample[8], n = 0;
    char list[256] = "";
    if (r->trains)
        n = data_samples(&r->train, step, sample, 8);
    for (int64_t i = 0; i < n && i < 8; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%" PRId64, i ? " " : "",
                 sample[i]);
    if (param_group_skip(group)) {
        note("step %" PRId64 ": loss %g, gradient norm%s%s %g: update skipped; samples %s%s",
             step + 1, loss, of, name, norm, list, n > 8 ? " ..." : "");
        return;
    }
//@ if checkpoint_async
    save_end(r, false);
//@ end
    if (world.rank != 0)
        comm_barrier();          /* rank 0 ends the job with the one line */
    die(EXIT_NONFINITE,
        "loss %g, gradient norm%s%s %g; samples %s%s; nothing of this step is saved; %s%s", loss,
        of, name, norm, list, n > 8 ? " ..." : "",
        model.updates_in_backward ? hint_checkpoint(r->flags.out) : "",
        hint_nonfinite(&r->log, r->flags.out));
}

/* Fills the inputs of step_train(). */
static void fill(Run *r, int64_t step)
{
    objective_fill(&r->train, step);
    r->ready = step;
}

/* Ends the updates begun in this step. finite: false if a loss known so far is not finite. */
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

bool train_step(Run *r, int64_t step, LogStep *report)
{
    static double part[MICROS][SUMS];
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
    for (int64_t micro = 0; micro < MICROS; micro++)
        objective_step(step, micro, part[micro]);
    part[0][SUM_STOP] = stop_requested();
//@ if checkpoint_async
    part[0][SUM_WRITTEN] = checkpoint_async_done();
//@ end
    profile_phase(PROFILE_SUMS);
    memset(r->sum, 0, sizeof r->sum);
    comm_fold(part[0], MICROS, SUMS, r->sum);
    profile_phase(PROFILE_HOST);
    set_values(r);
    end_updates(r, step, isfinite(r->metric[0]));
//@ if hook_updated
    if (objective_hooks.updated(step, r->total, r->sum))
        r->ready = -1;
    set_values(r);
    end_updates(r, step, true);
//@ end
    *report = (LogStep){r->sum, r->metric, param_group_norm(SET_model),
                      param_group_lr(SET_model), &r->train};
    return r->sum[SUM_STOP] > 0;
}

/* Without anything that the loss is a mean over, it is unknown, not 0, which would be the best. */
static void check_counted(double *value)
{
    static bool warned;
    if (value[objective_metrics.eval[0].per] > 0)
        return;
    value[0] = NAN;
    if (!warned && world.rank == 0)
        warn("this validation has no targets, so its loss is unknown: use more validation data");
    warned = true;
}

LogEval validate(Run *r)
{
    double start = clock_seconds();
    r->ready = -1;               /* it overwrites the inputs */
    const int64_t batches = data_eval_batches(&r->eval, &model, r->flags.eval_batches);
    objective_validate(&r->eval, batches, r->validation);
    metrics_values(objective_metrics.eval, EVAL_METRICS, r->validation);
    check_counted(r->validation);
    return (LogEval){.value = r->validation, .seconds = clock_seconds() - start};
}

/* Validates and logs; true if this is the best validation so far. */
static bool evaluate(Run *r, int64_t step)
{
    LogEval e = validate(r);
    log_eval(&r->log, step, &e);
    return best_see(&r->best, step, e.value);
}

/* ---- the run --------------------------------------------------------------------------------- */

void folders_of(const Run *r, WeightFolders to)
{
    const Checkpoints *c = &r->checkpoints;
    to[0] = c->found;
    to[1] = initial_folder(r->flags.adapter);
    to[2] = c->source;
}

//@ if hook_wants_start
bool names_start(const Flags *f) { return f->eval_only || *f->compare_initial; }

//@ end
//@ if hook_loaded
void tell_loaded(Run *r)
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
void check_records(const Run *r)
{
    WeightFolders folder;
    folders_of(r, folder);
    objective_suit(folder, r->trains ? &r->train : NULL);
    objective_suit(folder, r->evaluates ? &r->eval : NULL);
}

/* Sets whether the flags give data to train on and to validate on. */
static void select_data(Run *r)
{
//@ if uses_tokens
    r->trains = records_train(&r->flags);
    r->evaluates = records_validate(&r->flags);
//@ end
//@ unless uses_tokens
    r->trains = *r->flags.data;
    r->evaluates = *r->flags.eval_data;
//@ end
}

void open_data(Run *r)
{
    select_data(r);
    objective_open(&r->flags, &r->train, &r->eval);
    check_records(r);
}

/* Notes intervals that were given, and are longer than the run. */
static void note_never_due(const Run *r, int64_t per_epoch)
{
    const Flags *f = &r->flags;
    const struct {
        int flag;
        int64_t steps;
        const char *then;
    } row[] = {{FLAG_save_every, flags_steps(f->save_every, per_epoch), "saves its last one only"},
               {FLAG_log_every, f->log_every, "logs its last one only"},
               {FLAG_eval_every, r->evaluates ? flags_steps(f->eval_every, per_epoch) : 0,
                "validates before the first and after the last one only"},
               {FLAG_eval_from, r->evaluates ? f->eval_from : 0,
                "validates before the first and after the last one only"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (f->given[row[i].flag] && row[i].steps > r->total)
            note("%s %s: the run has only %" PRId64 " steps, and %s", flags_spelt(row[i].flag),
                 flags_text(f, row[i].flag), r->total, row[i].then);
}

static void set_schedule(Run *r)
{
    const Flags *f = &r->flags;
    int64_t per_epoch = data_steps_per_epoch(&r->train);
    r->total = f->steps ? f->steps : (int64_t)ceil(f->epochs * (double)per_epoch);
    if (r->total < 1)
        die(EXIT_CONFIG, "--epochs %g makes a run of 0 steps: give more, or --steps N", f->epochs);
    note_never_due(r, per_epoch);
    const Checkpoints *c = &r->checkpoints;
    const bool lr_changed = checkpoint_changes(c, f, FLAG_lr) ||
                            checkpoint_changes(c, f, FLAG_lr_scale);
    r->lr_ranks = param_groups_ranks(lr_changed, c->state, model.ranks);
    param_groups_open(param_groups, SETS, f, r->lr_ranks);
    param_groups_note_warmup(r->total);
    if (model.order)
        param_groups_check_order();
    if (model.updates_in_backward)
        param_groups_check_backward();
}

/* EXIT_CONFIG for flags that need validations the run does not have; defaults get a note. */
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

static uint32_t products_crc;

static void add_product(const char *line)
{
    products_crc = crc32c(products_crc, line, strlen(line));
}

int libraries_of_program(LibraryVersion *list)
{
//@ if cudnn
    int n = libraries_of_model(list);
    list[n++] = cudnn_library();
    return n;
//@ end
//@ unless cudnn
    return libraries_of_model(list);
//@ end
}

static char *computing_libraries(void)
{
    LibraryVersion list[LIBRARY_VERSIONS];
    return version_computes(list, libraries_of_program(list));
}

/* Causes of other bits from the same recipe, for a checkpoint's layout: versions of libraries and,
 * in canonical order, the algorithms of the matrix products. */
static cJSON *layout_of_bits(void)
{
    cJSON *layout = cJSON_CreateObject();
    if (model.order) {
        char text[9];
        step_products(add_product);
        snprintf(text, sizeof text, "%08x", products_crc);
        cJSON_AddStringToObject(layout, "products", text);
    }
    char *libraries = computing_libraries();
    cJSON_AddStringToObject(layout, "libraries", libraries);
    free(libraries);
    return layout;
}

/* Fingerprint of all records that are trained on; malloc'ed. */
static char *fingerprint(const Run *r)
{
//@ unless hook_other_records
    return data_fingerprint(&r->train);
//@ end
//@ if hook_other_records
    char *data = data_fingerprint(&r->train), *other = objective_hooks.other_records(),
         *all = format("%s; beside %s", data, other);
    free(data), free(other);
    return all;
//@ end
}

//@ if uses_tokens
/* Notes that transformers reads the tokenizer of the weights otherwise, or would end texts
 * elsewhere. */
static void note_tokenizer(const Run *r)
{
    WeightFolders folder;
    folders_of(r, folder);
    bool random = true;
    for (int i = 0; i < WEIGHT_FOLDERS; i++)
        random = random && !folder[i];
    char *own = vocabulary_of_folder(folder, WEIGHT_FOLDERS);
    const char *its = own ? own : r->checkpoints.tokenizer;
    char *otherwise = export_reads_otherwise(&model, its),
         *ends = random ? export_ends_otherwise(&model, its) : NULL;
    if (otherwise)
        note("%s", otherwise);
    if (ends)
        note("%s", ends);
    free(own), free(otherwise), free(ends);
}

/* A resumed run encodes raw data as it did at its start, even if no flag names the tokenizer again:
 * with that of the base model, else with the vocabulary counted from the data, which gives the same
 * fingerprint, else with the copy in the checkpoint. Other data (--allow-inexact) need the copy. */
static void keep_tokenizer(Run *r)
{
    const Checkpoints *c = &r->checkpoints;
    const char *const folder[] = {c->base, c->found};
    char *made = cJSON_GetStringValue(json_get(c->state, "vocabulary"));
    if (!*r->flags.tokenizer && !initial_folder(r->flags.init_from) && records_raw(&r->flags))
        r->flags.tokenizer = made && !r->flags.allow_inexact ? made : vocabulary_for_raw(folder, 2);
    if (!r->flags.tokenizer)
        r->flags.tokenizer = "";
}

//@ end
/* The name of the run in TensorBoard. */
static const char *run_name(const Flags *f)
{
    const char *name = f->run_name;
    if (strchr(name, '/') || *name == '.')
        die(EXIT_CONFIG, "--run-name %s: names a folder in OUT/runs, so it must not contain / "
            "or begin with .", name);
    return *name ? name : objective_hooks.runs ? objective_hooks.runs : model.name;
}

void prepare(Run *r)
{
    Checkpoints *c = &r->checkpoints;
    run_name(&r->flags);
    if (checkpoint_find(c, &model))
        r->changes = checkpoint_flags(c, &r->flags);
    select_data(r);              /* checked first: packing raw data may take minutes */
    if (!r->trains)
        die(EXIT_CONFIG,
//@ if uses_raw_data
            "--data is missing: files to train on, text, JSON Lines or what gen pack makes");
//@ end
//@ unless uses_raw_data
            "--data is missing: files to train on");
//@ end
    check_validations(r);
    initial_choose(c, &model);
//@ if uses_tokens
    if (c->found)
        keep_tokenizer(r);
//@ end
    open_data(r);
    c->fingerprint = fingerprint(r);
    c->layout = layout_of_bits();
//@ if uses_tokens
    c->tokenizer = vocabulary_of_records(&r->train, records_tokenizer(&r->flags));
    c->complete = export_checkpoint;
    r->tokenizer_is_copy = c->found && c->tokenizer &&
                           strncmp(c->tokenizer, c->found, strlen(c->found)) == 0;
    note_tokenizer(r);
//@ end
    if (c->found)
        checkpoint_check_data(c, &model);
    set_schedule(r);
    char *libraries = computing_libraries();
    log_banner(&(Banner){.model = &model, .flags = &r->flags, .threads = omp_get_max_threads(),
                         .train = &r->train, .eval = r->evaluates ? &r->eval : NULL,
                         .weights = initial_words(c, &model), .libraries = libraries,
                         .lr_ranks = r->lr_ranks, .total = r->total});
    free(libraries);
//@ if hook_banner
    objective_hooks.banner(&r->flags, &r->train, r->evaluates ? &r->eval : NULL);
//@ end
}

/* True if the checkpoint to resume from is one of OUT. */
static bool is_in_out(const Checkpoints *c)
{
    char *path = checkpoint_path(c->out, c->step);
    const bool same = !strcmp(path, c->found);
    free(path);
    return same;
}

static void resume_or_start(Run *r)
{
    Checkpoints *c = &r->checkpoints;
    run_name(&r->flags);         /* a bad one ends the program before anything is written */
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
    initial_note_padding(c, &model);
//@ if hook_loaded
    tell_loaded(r);
//@ end
    if (c->found)
        restore(r);
    r->stop_reason = c->step < r->total ? best_over(&r->best, r->flags.patience) : NULL;
    bool over = c->found && (c->step >= r->total || r->stop_reason);
    if (over && r->changes)
        die(EXIT_CONFIG, "%s holds a finished run, step %" PRId64 " of %" PRId64 ", with other "
            "flags: %s; --force moves it aside and starts over, another --out leaves it alone",
            r->flags.out, c->step, r->total, r->changes);
    if (!over)
        stop_undone(r->flags.out);
//@ if checkpoint_async
    if (!over)
        checkpoint_async_open(&model);
//@ end
    if (c->found && !over)
        checkpoint_leave_newer(c);
    if (c->found && is_in_out(c))
        checkpoint_remove_oldest(c, c->step, r->best.saved.step);
    log_open(&r->log, r->flags.out, &model, &r->flags, &objective_metrics,
             over ? c->step : r->total, data_steps_per_epoch(&r->train), c->found ? c->step : 0);
    if (r->flags.tensorboard)
        log_events(&r->log, run_name(&r->flags), r->argc, r->argv);
    if (c->found)
        note("resumed from %s", c->found);
//@ if hook_name
    if (c->found)                /* the run may have been killed before it did */
        name_checkpoint(r, c->step, &r->epochs, r->best.best.step == c->step);
//@ end
}

//@ if hook_write
/* Writes the objective's own files. must: the run ends here, and so fails if it cannot. */
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
/* After a step: validates and ends the epoch, if due. Returns whether the validation is the best so
 * far; *marked: there is a new row of the epochs. */
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
/* After a step: the objective's own measurement. Returns whether the run is to stop. */
static bool record_measurement(Run *r, int64_t step, bool stop)
{
    const double start = clock_seconds();
    r->measurement_due = false;
    cJSON *record = objective_hooks.measured(step, &stop, &r->measurement_due);
    if (record || r->measurement_due)
        r->ready = -1;
    if (record)
        log_record(&r->log, step, record);
    log_pause(&r->log, clock_seconds() - start);
    return stop;
}

//@ end
FiguresOf figures_of(const Flags *f)
{
//@ if hook_figures
    return (FiguresOf){f->out, &model, &objective_metrics, objective_hooks.figures};
//@ end
//@ unless hook_figures
    return (FiguresOf){f->out, &model, &objective_metrics, NULL};
//@ end
}

/* Ends a run after `step`, where training is done or was stopped: closes the log, and reports the
 * files and the next commands. Returns the exit status. */
static int finish(Run *r, int64_t step, bool stop)
{
    const Flags *f = &r->flags;
    profile_close();
    log_close(&r->log);
    bool done = step >= r->total || r->stop_reason;
    note("plan %.1f MiB, allocated %.1f MiB", (double)model.planned_bytes / (1 << 20),
         (double)device_used() / (1 << 20));
    logfile_devices();
    if (done && world.rank == 0) {
        stop_done(f->out, step, r->stop_reason);
        if (f->figures) {
            const FiguresOf figures = figures_of(f);
            figures_end(&figures);
        }
        run_folder_report(f->out, objective_hooks.files, r->logfile);
//@ if uses_tokens
        char *last = checkpoint_path(f->out, step),
             *tokenizer = vocabulary_flag(records_tokenizer(f), last,
                                          r->checkpoints.source);
        hints_print(&model, &r->checkpoints, &r->best, step, tokenizer);
        free(last), free(tokenizer);
//@ end
//@ unless uses_tokens
        hints_print(&model, &r->checkpoints, &r->best, step, "");
//@ end
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

int train(Run *r)
{
    const Flags *f = &r->flags;
    resume_or_start(r);
    int64_t step = r->checkpoints.found ? r->checkpoints.step : 0;
    if (r->stop_reason)
        note("nothing to do: stopped early after step %" PRId64 " of %" PRId64 ": %s; to go on, "
             "give that flag another value", step, r->total, r->stop_reason);
    else if (step >= r->total)
        note("nothing to do: step %" PRId64 " of %" PRId64 " is done; --force starts over", step,
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
        LogStep report;
        profile_begin(step);
        stop = train_step(r, step, &report);
        step++;
        log_step(&r->log, step, &report);
//@ if checkpoint_async
        if (r->sum[SUM_WRITTEN] > 0)
            save_end(r, false);
//@ end
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
    return finish(r, step, stop);
}
