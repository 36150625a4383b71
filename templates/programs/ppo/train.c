/* train.c -- darkroom learning histories: learns each task by PPO and records every step.
 *
 * Made by `@COMMAND@`:
 * change the recipe, not this file.
 *
 * Out:   OUT/datasets/history_*.safetensors; the actions of each task, below OUT once it is done.
 * Keeps: the file depends on fields, target and seed, not on threads, on how often the program was
 *        stopped, or on which tasks were made together. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "goal.h"
#include "runtime/base.h"                // die(), note()
#include "runtime/files/crc32c.h"
#include "runtime/files/folder.h"
#include "runtime/files/lock.h"          // one run per folder
#include "runtime/files/safetensors.h"
#include "runtime/ranks/launch.h"        // number of processes and restarts
#include "runtime/run/built.h"           // settings fixed by gen
#include "runtime/run/failure.h"         // hints after a failure
#include "runtime/run/flags.h"           // the command line
#include "runtime/run/stop.h"            // signals, DONE, fault files
#include "runtime/run/version.h"         // --version; whether gen wrote other sources since
#include "sources.h"                     // their hash

static const char name[] = "@NAME@";
static const char recipe[] = @RECIPE@;
static const char made[] = @MADE@;           /* the arguments of gen */
static const char hash[] = @HASH@;
static const char generator[] = @GENERATOR@, target[] = "@TARGET@";
/* All fields of the recipe's objective. */
static const char fields[] =
    @FIELDS@;
static const char all_fields[] =
    @ALL_FIELDS@;

/* Defaults that the recipe sets in run = {...}; the command line overrides them. */
static const FlagDefault defaults[] = {
//@ defaults
    {NULL, NULL}
};

enum {
    TASKS = (int)ENV == DARKROOM_PERMUTED ? DARKROOM_ORDERS : DARKROOM_STATES,
    ACTIONS = STEPS * STREAMS            /* of a task */
};

typedef struct {
    Flags flags;
    char *folder;                        /* folder of finished tasks */
    char *settings;                      /* settings that they depend on: lines name=value */
    bool wanted[TASKS], done[TASKS];
    int all, made, before;               /* requested; finished by this run; found from earlier
                                          * runs */
    uint8_t *action;                     /* (TASKS, STEPS, STREAMS) */
    double returns[TASKS][ROLLOUTS];     /* mean over the episodes of a rollout */
    double started;                      /* clock when the search for finished tasks ended */
} Run;

/* ---- tasks ----------------------------------------------------------------------------------- */

/* The list of --goals. */
static void take_goals(Run *r)
{
    const char *text = r->flags.goals;
    for (int task = 0; task < TASKS && !*text; task++)
        r->wanted[task] = true;
    for (const char *p = text; *p;) {
        char *end;
        const long first = *p >= '0' && *p <= '9' ? strtol(p, &end, 10) : -1;
        long last = first;
        if (first >= 0 && *end == '-' && end[1] >= '0' && end[1] <= '9')
            last = strtol(end + 1, &end, 10);
        if (first < 0 || last < first || last >= TASKS || (*end && (*end != ',' || !end[1])))
            die(EXIT_CONFIG, "--goals %s: must be numbers from 0 to %d such as 3 or 0,5,10-12",
                text, TASKS - 1);
        for (long task = first; task <= last; task++)
            r->wanted[task] = true;
        p = end + (*end == ',');
    }
    for (int task = 0; task < TASKS; task++)
        r->all += r->wanted[task];
}

/* "goal 12 (1,3)" */
static const char *task_name(int task, char text[64])
{
    const int goal = darkroom_goal(ENV, task);
    if ((int)ENV == DARKROOM_PERMUTED)
        snprintf(text, 64, "order %d", task);
    else
        snprintf(text, 64, "goal %d (%d,%d)", task, darkroom_row(goal), darkroom_column(goal));
    return text;
}

static uint8_t *actions_of(const Run *r, int task)
{
    return r->action + (int64_t)task * ACTIONS;
}

/* Mean returns by rollout, from the actions. */
static void count_returns(Run *r, int task)
{
    const uint8_t *action = actions_of(r, task);
    memset(r->returns[task], 0, sizeof r->returns[task]);
    for (int s = 0; s < STREAMS; s++)
        for (int t = 0, state = 0; t < STEPS; t++) {
            state = t % DARKROOM_EPISODE ? state : darkroom_start(ENV);
            state = darkroom_step(ENV, task, state, action[t * STREAMS + s]);
            r->returns[task][t / ROLLOUT] += darkroom_reward(ENV, task, state);
        }
    for (int i = 0; i < ROLLOUTS; i++)
        r->returns[task][i] /= STREAMS * (ROLLOUT / DARKROOM_EPISODE);
}

/* ---- what is done, below OUT ----------------------------------------------------------------- */

static char *path_of(const Run *r, int task)
{
    return format("%s/goal-%03d.safetensors", r->folder, task);
}

static void crc_text(const uint8_t *action, char text[9])
{
    snprintf(text, 9, "%08x", crc32c(0, action, ACTIONS));
}

static void save(const Run *r, int task)
{
    char *path = path_of(r, task), crc[9];
    StWriter *w = st_writer("diecast-goal-1");
    crc_text(actions_of(r, task), crc);
    char *error = st_add(w, "actions", ST_U8, 2, (int64_t[]){STEPS, STREAMS});
    error = error ? error : st_add_meta(w, "settings", r->settings);
    error = error ? error : st_add_meta(w, "crc32c", crc);
    error = error ? error : st_begin(w, path);
    error = error ? error : st_write(w, "actions", actions_of(r, task), ACTIONS);
    error = error ? error : st_end(w, &(uint32_t){0});
    st_free(w);
    if (error)
        die(EXIT_IO, "%s; finished tasks are kept", error);
    free(path);
}

/* Ends the program if the folder belongs to another run, and names the line that differs. */
static void check_settings(const Run *r, const char *path, const char *found)
{
    const char *p = found, *q = r->settings;
    while (*p && *p == *q)
        p++, q++;
    while (q > r->settings && q[-1] != '\n')
        p--, q--;
    if (*p || *q)
        die(EXIT_MISMATCH, "%s was made with %.*s, but this program was built with %.*s: give "
            "another --out, or remove %s", path, (int)strcspn(p, "\n"), p, (int)strcspn(q, "\n"), q,
            r->folder);
}

/* Loads the actions of a task. Returns NULL, or what is wrong with the file. */
static char *load(Run *r, const char *path, int task)
{
    StFile st;
    char *error = st_open(&st, path), crc[9];
    if (error)
        return error;
    const char *settings = st_meta(&st, "settings"), *sum = st_meta(&st, "crc32c");
    const StTensor *t = st_find(&st, "actions");
    if (!settings || !sum || !t || t->dtype != ST_U8)
        error = format("%s: has no actions, or does not name its run", path);
    if (!error)
        check_settings(r, path, settings);
    if (!error && (t->rank != 2 || t->shape[0] != STEPS || t->shape[1] != STREAMS))
        error = format("%s: its steps or streams differ from its settings", path);
    if (!error)
        error = st_read(&st, t, actions_of(r, task), 0, ACTIONS);
    if (!error) {
        crc_text(actions_of(r, task), crc);
        if (strcmp(crc, sum))
            error = format("%s: crc32c %s, must be %s", path, crc, sum);
    }
    for (int i = 0; i < ACTIONS && !error; i++)
        if (actions_of(r, task)[i] >= DARKROOM_ACTIONS)
            error = format("%s: action %d", path, actions_of(r, task)[i]);
    st_close(&st);
    return error;
}

/* Loads the tasks that earlier runs finished; a damaged file is made again. */
static void find_done(Run *r)
{
    for (int task = 0; task < TASKS; task++) {
        char *path = path_of(r, task);
        if (file_named(path)) {
            char *error = load(r, path, task);
            if (error)
                warn("%s; the task runs again%s", error,
                     r->wanted[task] ? "" : " once --goals names it");
            r->done[task] = !error;
            free(error);
        }
        if (r->done[task])
            count_returns(r, task);
        r->before += r->done[task] && r->wanted[task];
        free(path);
    }
}

/* ---- the work -------------------------------------------------------------------------------- */

static void say_task(const Run *r, int task, double seconds)
{
    char text[64], curve[ROLLOUTS * 8 + 1];
    size_t at = 0;
    for (int i = 0; i < ROLLOUTS; i++)
        at += (size_t)snprintf(curve + at, sizeof curve - at, " %.2f", r->returns[task][i]);
    const int left = r->all - r->before - r->made;
    const int64_t still = (int64_t)((clock_seconds() - r->started) / r->made * left + 0.5);
    note("%-14s%s of %d  %.2f s  %d of %d  left %" PRId64 ":%02d:%02d", task_name(task, text),
         curve, darkroom_best(ENV, task), seconds, r->before + r->made, r->all, still / 3600,
         (int)(still / 60 % 60), (int)(still % 60));
}

static void make_tasks(Run *r)
{
#pragma omp parallel
    {
        Learner *l = goal_learner();
#pragma omp for schedule(dynamic, 1)
        for (int task = 0; task < TASKS; task++) {
            if (!r->wanted[task] || r->done[task] || stop_requested())
                continue;
            const double start = clock_seconds();
            goal_run(l, task, (uint64_t)r->flags.seed + (uint64_t)task, actions_of(r, task));
            count_returns(r, task);
#pragma omp critical
            {
                save(r, task);
                r->done[task] = true;
                r->made++;
                say_task(r, task, clock_seconds() - start);
            }
        }
        goal_free(l);
    }
}

/* ---- the file of all ------------------------------------------------------------------------- */

static const uint8_t *actions_for(void *run, int task)
{
    return actions_of(run, task);
}

static char *histories_path(const Run *r)
{
    return format("%s/datasets/history_%s_PPO_alg-seed%" PRId64 ".safetensors", r->flags.out,
                  (int)ENV == DARKROOM_PERMUTED ? "darkroom_permuted" : "darkroom", r->flags.seed);
}

static void write_histories(Run *r)
{
    char *path = histories_path(r);
    const char *const meta[] = {"settings", r->settings, "next_state", "terminal"};
    Histories h;
    char *error = folder_make_below(r->flags.out, path);
    error = error ? error
                  : histories_write(path, &(HistoriesPlan){.env = ENV, .streams = STREAMS,
                                                           .steps = STEPS, .user = r,
                                                           .actions = actions_for, .meta = meta,
                                                           .nmeta = 2});
    if (error)
        die(EXIT_IO, "%s", error);
    error = histories_open(&h, path, &(HistoriesWanted){.env = ENV});
    if (error)
        die(EXIT_IO, "%s: read back: %s", path, error);
    struct stat st;
    note("%s: %d tasks x %d streams x %d steps, %.1f MB, read back", path, TASKS, STREAMS, STEPS,
         stat(path, &st) ? 0.0 : (double)st.st_size / 1e6);
    histories_close(&h);
    free(path);
}

/* Prints the mean returns of all tasks, and their final share of the best possible return. */
static void say_returns(const Run *r)
{
    char curve[ROLLOUTS * 8 + 1], text[64];
    size_t at = 0;
    double best = 0, end = 0, worst = 2;
    int least = 0;
    for (int i = 0; i < ROLLOUTS; i++) {
        double mean = 0;
        for (int task = 0; task < TASKS; task++)
            mean += r->returns[task][i] / TASKS;
        at += (size_t)snprintf(curve + at, sizeof curve - at, " %.2f", mean);
    }
    for (int task = 0; task < TASKS; task++) {
        const double last = r->returns[task][ROLLOUTS - 1], most = darkroom_best(ENV, task);
        best += most;
        end += last;
        if (last / most < worst) {
            worst = last / most;
            least = task;
        }
    }
    note("mean return by rollout%s of %.2f", curve, best / TASKS);
    note("at the end %.3f of the best possible; the worst is %s with %.3f", end / best,
         task_name(least, text), worst);
}

/* ---- main ------------------------------------------------------------------------------------ */

/* Reads the launcher's variables: one process, in the precision of the program. Returns how often
 * the launcher has restarted it. */
static int check_launcher(const Made *built, const char *program)
{
    Launch l;
    char *error = launch_resolve(environ, &l);
    if (error)
        die(EXIT_CONFIG, "%s", error);
    if (l.size != 1) {
        char *command = launch_command(&l, 1, program, false);
        die(EXIT_MISMATCH, "one process makes all tasks, but launcher %s started %d: start %s",
            l.source, l.size, command ? command : "run.sh, next to this program");
    }
    built_check_precision(built, "fp32", target);
    if (getenv("DIECAST_FAULT"))
        die(EXIT_CONFIG, "DIECAST_FAULT: programs with the objective ppo inject no faults; unset "
            "it");
    return l.restart;
}

static void open_run(Run *r, int restart)
{
    const Flags *f = &r->flags;
    take_goals(r);
    if (f->threads)
        omp_set_num_threads((int)f->threads);
    if (omp_get_max_threads() > r->all)
        omp_set_num_threads(r->all);
    stop_ignore();
    stop_install();
    lock_take(f->out, restart, f->break_lock);
    stop_faults(f->out, restart);
    r->folder = format("%s/goals-seed%" PRId64, f->out, f->seed);
    r->settings = format("target=%s\n%sseed=%" PRId64 "\n", target, fields, f->seed);
    char *in_it = path_of(r, 0), *error = folder_make_below(f->out, in_it);
    if (error)
        die(EXIT_IO, "%s", error);
    free(in_it);
    r->action = malloc((size_t)TASKS * ACTIONS);
    if (!r->action)
        die(EXIT_IO, "no memory for the actions of %d tasks", TASKS);
}

static void say_banner(const Run *r)
{
    note("%s  %.12s  (ppo, %s)", recipe, hash, generator);
    note("  cpu        1 process x %d thread%s, a task on each", omp_get_max_threads(),
         omp_get_max_threads() == 1 ? "" : "s");
    note("  tasks      %d of %d, %d of them done before", r->all, TASKS, r->before);
    note("  a task     %d streams x %d steps, %d updates by %d samples", STREAMS, STEPS, UPDATES,
         MINIBATCH);
    note("  seed       %" PRId64 " + task", r->flags.seed);
    note("  run folder %s", r->flags.out);
}

/* Prints the commands for a program that trains on the file: its recipe fields that match the
 * histories, and the flags without which it would need more streams or steps than there are. */
static void say_next(const Run *r)
{
    const Flags *f = &r->flags;          /* the defaults of that program as well */
    char *path = histories_path(r), *file = shell_word(path);
    note("next: gen recipes/ad_tiny.lua%s && make && out/ad_tiny/run.sh --data %s%s%s",
         (int)ENV == DARKROOM_PERMUTED ? " ad.env=permuted" : "", file,
         STREAMS < f->source_streams ? " --source-streams 0" : "",
         STEPS < f->source_steps ? " --source-steps 0" : "");
    free(file), free(path);
}

/* Returns the exit status. */
static int run_all(Run *r, int restart)
{
    open_run(r, restart);
    find_done(r);
    if (r->before < r->all)
        stop_undone(r->flags.out);
    say_banner(r);
    r->started = clock_seconds();
    make_tasks(r);
    const double seconds = clock_seconds() - r->started;
    int done = 0;
    for (int task = 0; task < TASKS; task++)
        done += r->done[task];
    if (r->made)
        note("%d task%s in %.1f s: %.0f updates a second", r->made, r->made == 1 ? "" : "s",
             seconds, (double)r->made * UPDATES / seconds);
    const bool stopped = r->before + r->made < r->all;
    if (stopped) {
        stop_report(EXIT_STOPPED);
        note("stopped on %s: %d of %d tasks are done", stop_signal(), r->before + r->made, r->all);
        failure_again("", "goes on with the others");
    } else if (done < TASKS)
        note("%d of %d tasks are done and are in %s; the command without --goals runs the others "
             "and writes the file of all tasks", done, TASKS, r->folder);
    else {
        write_histories(r);
        say_returns(r);
        say_next(r);
        stop_done(r->flags.out, TASKS, NULL);
    }
    lock_release();
    return stopped ? EXIT_STOPPED : EXIT_OK;
}

static void print_version(const Flags *f)
{
    const Built b = {
        .name = name, .generator = generator, .recipe = recipe, .hash = hash, .objective = "ppo",
        .target = target, .cluster = @CLUSTER@, .ranks = 1, .compiler = "gcc " __VERSION__,
        .kernel_compiler = "gcc " __VERSION__, .flags = BUILD_FLAGS, .lock = BUILD_LOCK};
    if (!f->json)
        printf("%s: %s, recipe %s (%s)\nobjective ppo, target %s\n%sbuilt by %s\n", name,
               generator, recipe, hash, target, fields, b.compiler);
    if (f->verbose || f->json)
        version_more(&b, f->json);
}

int main(int argc, char **argv)
{
    static Run run;
    Flags *f = &run.flags;
    failure_of(argc, argv, NULL, NULL);
    flags_of("ppo");
    const Made all = {made, {all_fields, format("name=\"%s\"", name)}};
    flags_parse(f, &all, defaults, argc, argv);
    failure_of(argc, argv, f->out, "goes on with the tasks that are not done");
    if (f->help) {
        flags_help(stdout, argv[0], f);
        return output_done(EXIT_OK);
    }
    if (f->version) {
        print_version(f);
        return output_done(EXIT_OK);
    }
    stale_check(SOURCES_SHA256);
    flags_check_readers(f, -1, false);
    if (f->where) {                      /* only a run of all tasks ends with DONE */
        printf("%s\n%s", f->out, f->verbose && !*f->goals ? "trains\n" : "");
        return output_done(EXIT_OK);
    }
    const int restart = check_launcher(&all, argv[0]);
    flags_note(f);
    return run_all(&run, restart);
}
