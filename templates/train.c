/* train.c -- trains the model of this folder.
//@ head
 */
#define _GNU_SOURCE
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commands.h"
#include "objective.h"                // its commands and other hooks
#include "runtime/base.h"             // die(), note(), the world of ranks
#include "runtime/files/lock.h"       // one run per folder
#include "runtime/ranks/comm.h"       // the ranks of a run
#include "runtime/run/built.h"        // settings fixed by gen
#include "runtime/run/failure.h"      // hints after a failure
#include "runtime/run/fault.h"        // injected faults
#include "runtime/run/flags.h"        // the command line
#include "runtime/run/rank_agreement.h"
#include "runtime/run/stop.h"         // signals, DONE, fault files
#include "runtime/run/version.h"      // --version; whether gen wrote other sources since
#include "sources.h"                  // hash of the sources
#include "step.h"                     // the programs of a step
#include "training.h"

/* Defaults that the recipe's run = {...} sets. */
static const FlagDefault defaults[] = {
//@ defaults
    {NULL, NULL}
};

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
    if (f->threads > omp_get_num_procs())
        note("--threads %lld is more than the %d CPUs here and slower; leave it out",
             (long long)f->threads, omp_get_num_procs());
    const int cpus = omp_get_num_procs(), most = cpus > THREADS_MOST ? cpus : THREADS_MOST;
    if (omp_get_max_threads() > most)
        die(EXIT_CONFIG, "%s asks for %d threads on %d CPUs; use at most %d",
            f->threads ? "--threads" : "OMP_NUM_THREADS", omp_get_max_threads(), cpus, most);
}

/* The stack limit at start is that of threads, too: if it is too small, the program raises it and
 * starts itself again. */
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
    die(EXIT_CONFIG, "stacks are limited to %lld KiB, which is too little; run ulimit -s 8192 "
        "first", (long long)before >> 10);
}

static void print_version(const Flags *f)
{
    const Built b = {
        .name = model.name, .generator = model.generator, .recipe = model.recipe,
        .hash = model.hash, .overrides = model.overrides, .objective = model.objective,
        .family = model.family, .precision = model.precision, .target = model.target,
        .cluster = model.cluster, .ranks = model.ranks, .ir = model.ir, .kernels = model.kernels,
        .compiler = "gcc " __VERSION__, .kernel_compiler = step_tools, .flags = BUILD_FLAGS,
        .lock = BUILD_LOCK, .libraries = libraries_of_program};
    if (!f->json)
        printf(
            "%s: %s, recipe %s (%s)\nobjective %s, family %s, precision %s, target %s, ranks %lld"
            "\nir %s\nkernels %s\nbuilt by %s; kernels by %s\n",
            b.name, b.generator, b.recipe, b.hash, b.objective, b.family, b.precision, b.target,
            b.ranks, b.ir, b.kernels, b.compiler, b.kernel_compiler);
    if (f->verbose || f->json)
        version_more(&b, f->json);
}

/* True if the flags request this command. *before: the flag of the one found before; -1: none. */
static bool chosen(const Flags *f, int flag, int *before)
{
    if (!flags_on(f, flag))
        return false;
    if (*before >= 0)
        die(EXIT_CONFIG, "%s and %s: give one of them", flags_spelt(*before),
            flags_spelt(flag));
    *before = flag;
    return true;
}

/* The command that the flags request: of the objective, or of every program; both NULL: train. */
typedef struct {
    int (*of_objective)(const Flags *f, const WeightFolders folder);
    int (*of_program)(Run *r);
    bool loads_weights;          /* those of a finished run, or of --init-from */
} Selected;

static void select_objective(const Flags *f, const ObjectiveCommand *c, bool loads_weights,
                             Selected *to, int *flag)
{
    for (; c && c->run; c++)
        if (chosen(f, c->flag, flag))
            *to = (Selected){.of_objective = c->run, .loads_weights = loads_weights};
}

/* *flag: that of the command; -1: training. */
static Selected select_command(const Flags *f, int *flag)
{
    Selected command = {NULL};
    *flag = -1;
    select_objective(f, objective_hooks.commands, true, &command, flag);
//@ if hook_without_weights
    select_objective(f, objective_hooks.without_weights, false, &command, flag);
//@ end
    for (const Command *c = program_commands; c->run; c++)
        if (chosen(f, c->flag, flag))
            command = (Selected){.of_program = c->run, .loads_weights = c->loads_weights};
    flags_check_readers(f, *flag, command.loads_weights);
    return command;
}

/* A job that its launcher restarts resumes, even with --force. */
static void check_force(Flags *f)
{
    if (f->force && f->given[FLAG_resume])
        die(EXIT_CONFIG, "--force starts over, --resume %s goes on: give one of them", f->resume);
    if (f->force && comm_restart())
        note("restart %d: --force applied to the first start only", comm_restart());
    f->force = f->force && !comm_restart();
}

/* Returns the exit status. */
static int run_command(Run *r, Selected command)
{
    WeightFolders folder = {NULL};
    if (command.of_program)
        return command.of_program(r);
    if (command.loads_weights) {
        load_finished(r);
        folders_of(r, folder);
    }
    return command.of_objective(&r->flags, folder);
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
        return output_done(EXIT_OK);
    }
    if (f->version) {
        print_version(f);
        return output_done(EXIT_OK);
    }
    stale_check(SOURCES_SHA256);
    if (f->where && !f->verbose) {
        puts(f->out);
        return output_done(EXIT_OK);
    }
    const Selected command = select_command(f, &run.command);
    const bool trains = !command.of_objective && !command.of_program;
    if (f->where) {
        printf("%s\n%s", f->out, trains ? "trains\n" : "");
        return output_done(EXIT_OK);
    }
    if (command.of_program == plot)
        return plot(&run);
    if (trains)
        stop_listen();
    comm_init(model.ranks, model_words(&model, "gpus"), argc, argv);
    built_check_precision(&made, model.precision, model.target);
    failure_of(argc, argv, f->out, NULL);
    flags_note(f);
    comm_check_local_rank(f->local_rank);
    ranks_check_flags(f);
    LibraryVersion library[LIBRARY_VERSIONS];
    ranks_check_libraries(library, libraries_of_program(library));
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
        comm_barrier();          /* if the lock is refused, no rank writes a file */
        lock_share(f->out);
        stop_faults(f->out, comm_restart());
        return train(&run);
    }
    int code = output_done(run_command(&run, command));
    comm_finish();
    return code;
}

