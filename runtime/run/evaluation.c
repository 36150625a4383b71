/* evaluation.c -- in-context evaluation, with the agents divided among the ranks. */
#include "runtime/run/evaluation.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/base.h"
#include "runtime/darkroom.h"
#include "runtime/files/folder.h"
#include "runtime/ranks/comm.h"
#include "runtime/run/failure.h"
#include "runtime/run/stop.h"

const char *const evaluation_files[] = {"eval_result.npy", "eval_result.json", NULL};

enum { SECONDS = 7 * 24 * 3600 };        /* ranks may wait for each other */

static void *room(int64_t n, size_t size)
{
    void *p = calloc((size_t)(n > 0 ? n : 1), size);
    if (!p)
        die(EXIT_INTERNAL, "out of memory for the returns of %" PRId64 " agents", n);
    return p;
}

/* Results of the agents of all ranks. */
typedef struct {
    Returns returns;
    int *task;                   /* of the returns, malloc'ed */
    double *of;
    int64_t turns, closed;       /* of the agents */
    InContextCost cost;
    bool left;                   /* a rank was asked to stop: the returns are incomplete */
} Lives;

/* Runs agents first .. end - 1 on this rank; the agents of a task are consecutive. */
static void live(Lives *l, const Evaluation *e, const Flags *f)
{
    const Returns *r = &l->returns;
    const int64_t n = r->tasks * r->streams, ranks = world.size, first = n * world.rank / ranks,
                  end = n * (world.rank + 1) / ranks;
    const InContext how = {.rules = e->rules, .reset = e->reset, .episodes = r->episodes,
                           .seed = (uint64_t)f->seed, .temperature = f->temperature,
                           .stopped = stop_requested};
    Agent *agent = room(end - first, sizeof *agent);
    for (int64_t i = first; i < end; i++)
        agent[i - first] =
            (Agent){.task = r->task[i / r->streams],
                    .stream = i % r->streams,
                    .returns = l->of + i * r->episodes,
                    .taken = room(r->episodes * DARKROOM_EPISODE, sizeof *agent->taken)};
    l->left = !incontext_run(e->actor, &how, agent, end - first, &l->cost);
    for (int64_t i = 0; i < end - first; i++) {
        l->turns += agent[i].turns, l->closed += agent[i].closed;
        free(agent[i].taken);
    }
    free(agent);
}

/* Sums the results over the ranks, on all of them. */
static void gather(Lives *l)
{
    const Returns *r = &l->returns;
    const int64_t n = r->tasks * r->streams, ranks = world.size;
    double sum[] = {(double)l->cost.steps, (double)l->cost.passes, (double)l->turns,
                    (double)l->closed, l->left};
    for (int64_t rank = 0, i = 0; rank < ranks; rank++)
        for (; i < n * (rank + 1) / ranks; i++)
            comm_broadcast(l->of + i * r->episodes, sizeof *l->of * (size_t)r->episodes, (int)rank);
    comm_allreduce_double(sum, 5);
    l->cost.steps = (int64_t)sum[0], l->cost.passes = (int64_t)sum[1], l->turns = (int64_t)sum[2];
    l->closed = (int64_t)sum[3], l->left = sum[4] > 0;
}

/* Evaluates test task idx; -1: all of them. */
static Lives lives_open(const Evaluation *e, const Flags *f, int64_t idx)
{
    const int env = e->rules.env, tests = darkroom_tests(env);
    if (idx >= tests)
        die(EXIT_CONFIG, "--goal-idx: must be the number of a test task, 0 to %d, got %" PRId64,
            tests - 1, idx);
    Lives l = {.returns = {.env = env, .tasks = idx < 0 ? tests : 1, .streams = f->eval_streams,
                           .episodes = f->eval_episodes}};
    l.task = room(l.returns.tasks, sizeof *l.task);
    l.of = room(l.returns.tasks * l.returns.streams * l.returns.episodes, sizeof *l.of);
    for (int64_t i = 0; i < l.returns.tasks; i++)
        l.task[i] = darkroom_test(env, (int)(idx < 0 ? i : idx));
    l.returns.task = l.task, l.returns.of = l.of;
    const double began = clock_seconds();
    comm_expect(world.size > 1 && !e->actor->collective ? SECONDS : 0);
    live(&l, e, f);
    gather(&l);
    comm_expect(0);
    l.cost.seconds = clock_seconds() - began;
    return l;
}

static void lives_close(Lives *l)
{
    free(l->task), free(l->of);
}

static void say(const Lives *l, const Evaluation *e)
{
    const InContextCost *c = &l->cost;
    char *seconds = plain_number(c->seconds), *rate = plain_number((double)c->steps / c->seconds);
    note("%" PRId64 " steps in %s s: %s a second; %" PRId64 " passes of %" PRId64 " x %" PRId64
         " tokens",
         c->steps, seconds, rate, c->passes, e->actor->rows, e->actor->positions);
    free(seconds), free(rate);
    if (e->rules.compressed && l->turns)
        note("%" PRId64 " regions were closed, %.4g steps each", l->turns,
             (double)l->closed / (double)l->turns);
    else if (e->rules.compressed)
        note("no region was closed");
}

int evaluation_report(const Evaluation *e, const Flags *f, const char *weights)
{
    const bool one = f->goal_idx >= 0;
    char *name = one ? format("eval_result_goal%" PRId64, f->goal_idx) : format("eval_result"),
         *error = NULL;
    const int64_t tasks = one ? 1 : darkroom_tests(e->rules.env);
    stop_install();
    note("%" PRId64 " task%s x %" PRId64 " agent%s x %" PRId64 " episodes of %d steps", tasks,
         tasks == 1 ? "" : "s", f->eval_streams, f->eval_streams == 1 ? "" : "s", f->eval_episodes,
         DARKROOM_EPISODE);
    Lives l = lives_open(e, f, f->goal_idx);
    if (l.left) {
        note("stopped on %s: nothing was written", *stop_signal() ? stop_signal() : "request");
        failure_again("", "evaluates again");
        return EXIT_STOPPED;
    }
    if (world.rank == 0) {
        cJSON *about = cJSON_CreateObject();
        cJSON_AddStringToObject(about, "env",
                                e->rules.env == DARKROOM_PERMUTED ? "permuted" : "darkroom");
        cJSON_AddStringToObject(about, "context", e->rules.compressed ? "compressed" : "plain");
        cJSON_AddStringToObject(about, "weights", weights ? weights : "");
        cJSON_AddNumberToObject(about, "episodes", (double)l.returns.episodes);
        cJSON_AddNumberToObject(about, "streams", (double)l.returns.streams);
        /* its text, as the number rounds seeds from 2^53 on */
        cJSON_AddNumberToObject(about, "seed", (double)f->seed)->valuestring =
            format("%" PRId64, f->seed);
        cJSON_AddNumberToObject(about, "temperature", f->temperature);
        returns_print(&l.returns);
        char *inside = folder_join(f->out, name);
        if (!(error = folder_make_below(f->out, inside)))
            error = returns_write(&l.returns, f->out, name, about);
        else
            cJSON_Delete(about);
        free(inside);
    }
    if (error)
        die(EXIT_IO, "%s", error);
    say(&l, e);
    note("wrote %s/%s.npy and .json", f->out, name);
    lives_close(&l);
    free(name);
    return EXIT_OK;
}

bool evaluation_measure(const Evaluation *e, const Flags *f, Earned *to)
{
    Lives l = lives_open(e, f, -1);
    if (l.left) {
        lives_close(&l);
        return false;
    }
    const Earned all = *to = returns_over(&l.returns);
    note("in context: return %.3f of %.3f, the last episodes %.3f; %" PRId64 " episodes of %" PRId64
         " tasks in %.3g s", all.mean, all.best, all.last, l.returns.episodes, l.returns.tasks,
         l.cost.seconds);
    lives_close(&l);
    return true;
}
