/* commands.c -- export, evaluation, timing, sample rows, dry run and figures. */
#define _GNU_SOURCE
#include "commands.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base.h"             // die(), note(), the world of ranks
//@ if uses_tokens
#include "runtime/data/vocabulary.h"  // the tokenizer of the records
//@ end
#include "runtime/ranks/launch.h"     // which rank this is
#include "runtime/run/profile.h"      // --bench-steps
//@ if uses_tokens
#include "runtime/run/export.h"       // --export
//@ end
#include "runtime/run/failure.h"      // commands to repeat
#include "runtime/run/initial_weights.h"
//@ if uses_tokens
#include "runtime/run/records.h"      // --data, --eval-data
//@ end
#include "step.h"                     // the programs of a step

static void load_found(Run *r)
{
    Checkpoints *c = &r->checkpoints;
    initial_load(c, &model);
    note("weights: %s", initial_words(c, &model));
}

//@ if uses_tokens
/* Raw data are encoded with the tokenizer of the weights. */
static void take_tokenizer(Run *r)
{
    WeightFolders folder;
    folders_of(r, folder);
    char *own = r->flags.given[FLAG_tokenizer] || !records_raw(&r->flags)
                    ? NULL : vocabulary_for_raw(folder, WEIGHT_FOLDERS);
    if (own)
        r->flags.tokenizer = own;
}

//@ end
//@ if hook_wants_start
/* Chooses finished weights; with names_start() flags may also name the initial ones. */
//@ end
//@ unless hook_wants_start
/* Chooses finished weights. */
//@ end
static void find_finished(Run *r)
{
//@ if hook_wants_start
    initial_finished(&r->checkpoints, &r->flags, &model, names_start(&r->flags));
//@ end
//@ unless hook_wants_start
    initial_finished(&r->checkpoints, &r->flags, &model, false);
//@ end
    checkpoint_flags_of_run(&r->checkpoints, &r->flags, r->command);
//@ if uses_tokens
    take_tokenizer(r);
//@ end
}

void load_finished(Run *r)
{
    find_finished(r);
    check_records(r);
    load_found(r);
}

static int export_weights(Run *r)
{
//@ unless lora
    if (*r->flags.merge_lora)
        die(EXIT_CONFIG, "--merge-lora: this program has no LoRA; --export writes its weights");
//@ end
//@ if lora
    const char *dir = *r->flags.merge_lora ? r->flags.merge_lora : r->flags.export;
//@ end
//@ unless lora
    const char *dir = r->flags.export;
//@ end
    initial_check_export(&r->flags, dir);
    load_finished(r);
//@ if uses_tokens
    export_text(&r->checkpoints, &model);
//@ end
//@ unless uses_tokens
    initial_export(&r->checkpoints, &model);
//@ end
    note("next: %s/README.md shows how to load it", dir);
    return EXIT_OK;
}

/* Prints a JSON line with the metrics of a validation. */
static int eval_only(Run *r)
{
    const Flags *f = &r->flags;
//@ if uses_held_out
    if (!records_validate(f) && f->eval_share > 0)
        die(EXIT_CONFIG, "--eval-only: --eval-share validates on the last %g of --data, which is "
            "missing; add --data FILE or --eval-data FILE", f->eval_share);
    const char *none = "--eval-only needs --eval-data FILE, or --data FILE and --eval-share X";
    if (!records_validate(f) && !*f->data)
        die(EXIT_CONFIG, "%s", none);
//@ end
//@ unless uses_held_out
    if (!*f->eval_data)
        die(EXIT_CONFIG, "--eval-only needs --eval-data FILE");
//@ end
    find_finished(r);
//@ if uses_held_out
    if (!records_validate(f))
        die(EXIT_CONFIG, "%s", none);
//@ end
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

/* For commands that work with any weights: random ones unless flags name others. */
static void start_with_any(Run *r)
{
    r->checkpoints = (Checkpoints){.out = r->flags.out, .flags = &r->flags};
    if (!*r->flags.init_from)
        r->flags.init_from = "none";
    initial_choose(&r->checkpoints, &model);
    open_data(r);
}

/* Returns the work of the step, which is that of its data if there are any. */
static double bench_step(void *run, int64_t step)
{
    Run *r = run;
    if (r->trains) {
        LogStep report;
        train_step(r, step, &report);
        return report.sum[objective_metrics.step_work];
    }
    param_groups_begin(step, r->total);
    step_train();
    step_wait();
//@ if hook_updated_any
    objective_hooks.updated_any(step, r->total);
//@ end
    return (double)objective_work();
}

//@ if hook_round
/* Times as many steps as have one update of every parameter group. */
static double bench_round(void *run, int64_t round)
{
    double work = 0;
    for (int64_t i = 0; i < objective_hooks.round; i++)
        work += bench_step(run, round * objective_hooks.round + i);
    return work;
}

//@ end
/* Times whole steps; without --data, on arbitrary tokens. */
static int bench(Run *r)
{
    const Flags *f = &r->flags;
    start_with_any(r);
    initial_load(&r->checkpoints, &model);
//@ if hook_round
    r->total = (f->bench_steps + BENCH_WARM) * objective_hooks.round;
//@ end
//@ unless hook_round
    r->total = f->bench_steps + BENCH_WARM;
//@ end
    param_groups_open(param_groups, SETS, f, model.ranks);
    r->ready = -1;
    if (!r->trains)
        objective_fill_any();
//@ if hook_loaded
    else
        tell_loaded(r);
//@ end
    const Bench times = {
        .steps = f->bench_steps,
//@ if hook_round
        .step = bench_round,
//@ end
//@ unless hook_round
        .step = bench_step,
//@ end
        .with = r,
        .started = r->started,
        .threads = omp_get_max_threads(),
        .unit = objective_metrics.step[objective_metrics.step_work].name,
    };
    bench_run(&times, &model);
    note("next: --profile 20 instead of --bench-steps%s shows kernels by time",
         r->trains ? "" : ", and --data FILE,");
    return EXIT_OK;
}

/* Prints rows of the first steps with their targets marked. */
static int show(Run *r)
{
    start_with_any(r);
    if (!r->trains)
        die(EXIT_CONFIG, "--show needs --data FILE, whose rows it shows");
    const ShowOf rows = {objective_fill, objective_hooks.show};
//@ if uses_tokens
    WeightFolders folder;
    folders_of(r, folder);
    Tokenizer *tok = vocabulary_of_data(&r->train, records_tokenizer(&r->flags), folder,
                                        WEIGHT_FOLDERS);
    show_steps(&rows, &r->train, r->flags.show, &(TokenText){tok, show_token});
    tokenizer_free(tok);
//@ end
//@ unless uses_tokens
    show_steps(&rows, &r->train, r->flags.show, NULL);
//@ end
    return EXIT_OK;
}

static void say(const char *line)
{
    note("  %s", line);
}

int dry_run(Run *r)
{
    r->checkpoints = (Checkpoints){.out = r->flags.out, .flags = &r->flags, .read_only = true};
    if (*r->flags.data) {
        prepare(r);
        note("dry run: %" PRId64 " steps, %" PRId64 " an epoch; no run was started", r->total,
             data_steps_per_epoch(&r->train));
    }
    initial_check(&r->checkpoints, &model);
    note("matrix products:");
    step_products(say);
    if (*r->flags.data)
        failure_again("--dry-run", "trains");
    return EXIT_OK;
}

int plot(Run *r)
{
    Launch us;
    char *error = launch_resolve(environ, &us);
    if (!r->flags.figures && r->flags.given[FLAG_figures])
        die(EXIT_CONFIG, "--plot draws figures, --figures false draws none: give one of them");
    const FiguresOf figures = figures_of(&r->flags);
    if (error || us.rank == 0)
        figures_plot(&figures);
    free(error);
    return EXIT_OK;
}

const Command program_commands[] = {
    {FLAG_export, export_weights, true}, {FLAG_merge_lora, export_weights, true},
    {FLAG_eval_only, eval_only, true},   {FLAG_bench_steps, bench, false},
    {FLAG_dry_run, dry_run, false},      {FLAG_show, show, false},
    {FLAG_plot, plot, false},            {0, NULL, false}};
