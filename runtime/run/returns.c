/* returns.c -- mean returns per task, per episode and over all tasks. */
#include "runtime/run/returns.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/darkroom.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/files/npy.h"

static double one(const Returns *r, int64_t i, int64_t stream, int64_t episode)
{
    return r->of[(i * r->streams + stream) * r->episodes + episode];
}

/* Returns the mean of episodes from .. to - 1 of a task. */
static double mean_of(const Returns *r, int64_t i, int64_t from, int64_t to)
{
    double sum = 0;
    for (int64_t s = 0; s < r->streams; s++)
        for (int64_t e = from; e < to; e++)
            sum += one(r, i, s, e);
    return sum / (double)(r->streams * (to - from));
}

double returns_random(int env, int task)
{
    double at[DARKROOM_STATES] = {0}, sum = 0;
    at[darkroom_start(env)] = 1;
    for (int t = 0; t < DARKROOM_EPISODE; t++) {
        double next[DARKROOM_STATES] = {0};
        for (int s = 0; s < DARKROOM_STATES; s++)
            for (int a = 0; a < DARKROOM_ACTIONS; a++)
                next[darkroom_step(env, task, s, a)] += at[s] / DARKROOM_ACTIONS;
        memcpy(at, next, sizeof at);
        sum += at[darkroom_goal(env, task)];
    }
    return sum;
}

Earned returns_of(const Returns *r, int64_t i)
{
    REQUIRE(i >= 0 && i < r->tasks && r->episodes > 0);
    const int64_t n = r->episodes, last = n < RETURNS_LAST ? n : RETURNS_LAST;
    Earned e = {.mean = mean_of(r, i, 0, n), .first = mean_of(r, i, 0, 1),
                .last = mean_of(r, i, n - last, n), .random = returns_random(r->env, r->task[i]),
                .best = darkroom_best(r->env, r->task[i])};
    double square = 0, reached = 0;
    for (int64_t k = 0; k < r->streams * n; k++) {
        const double x = r->of[i * r->streams * n + k];
        square += (x - e.mean) * (x - e.mean);
        reached += x > 0;
    }
    e.deviation = sqrt(square / (double)(r->streams * n));
    e.success = reached / (double)(r->streams * n);
    return e;
}

Earned returns_over(const Returns *r)
{
    const double n = (double)r->tasks;
    Earned all = {0};
    for (int64_t i = 0; i < r->tasks; i++) {
        const Earned e = returns_of(r, i);
        all.mean += e.mean / n, all.first += e.first / n, all.last += e.last / n;
        all.success += e.success / n, all.random += e.random / n, all.best += e.best / n;
    }
    for (int64_t i = 0; i < r->tasks; i++) {
        const double away = returns_of(r, i).mean - all.mean;
        all.deviation += away * away / n;
    }
    all.deviation = sqrt(all.deviation);
    return all;
}

static cJSON *add_earned(cJSON *row, const Earned *e)
{
    json_add_float(row, "return", e->mean);
    json_add_float(row, "deviation", e->deviation);
    json_add_float(row, "first_episode", e->first);
    json_add_float(row, "last_episodes", e->last);
    json_add_float(row, "success", e->success);
    json_add_float(row, "random", e->random);
    json_add_float(row, "best_possible", e->best);
    return row;
}

/* Returns the task and its statistics as JSON. */
static cJSON *task_json(const Returns *r, int64_t i)
{
    const Earned e = returns_of(r, i);
    const int goal = darkroom_goal(r->env, r->task[i]),
              at[2] = {darkroom_row(goal), darkroom_column(goal)};
    cJSON *row = cJSON_CreateObject();
    if (r->env == DARKROOM_PERMUTED)
        cJSON_AddNumberToObject(row, "order", r->task[i]);
    else
        cJSON_AddItemToObject(row, "goal", cJSON_CreateIntArray(at, 2));
    return add_earned(row, &e);
}

/* Returns the statistics as returns_write() writes them; the caller deletes them. */
static cJSON *all_json(const Returns *r)
{
    const Earned all = returns_over(r);
    cJSON *to = add_earned(cJSON_CreateObject(), &all),
          *tasks = cJSON_AddArrayToObject(to, "tasks"),
          *curve = cJSON_AddArrayToObject(to, "by_episode");
    for (int64_t e = 0; e < r->episodes; e++) {
        double sum = 0;
        for (int64_t i = 0; i < r->tasks; i++)
            sum += mean_of(r, i, e, e + 1);
        cJSON_AddItemToArray(curve, cJSON_CreateNumber(sum / (double)r->tasks));
    }
    for (int64_t i = 0; i < r->tasks; i++)
        cJSON_AddItemToArray(tasks, task_json(r, i));
    return to;
}

void returns_print(const Returns *r)
{
    const Earned all = returns_over(r);
    for (int64_t i = 0; i < r->tasks; i++)
        json_say(task_json(r, i));
    cJSON *row = cJSON_CreateObject();
    cJSON_AddNumberToObject(row, "tasks", (double)r->tasks);
    json_say(add_earned(row, &all));
    fflush(stdout);
}

char *returns_write(const Returns *r, const char *folder, const char *name, cJSON *about)
{
    double *mean = malloc(sizeof *mean * (size_t)(r->tasks * r->episodes));
    char *array = format("%s.npy", name), *object = format("%s.json", name), *error = NULL;
    if (!mean)
        die(EXIT_INTERNAL, "out of memory for %s", array);
    for (int64_t i = 0; i < r->tasks; i++)
        for (int64_t e = 0; e < r->episodes; e++)
            mean[i * r->episodes + e] = mean_of(r, i, e, e + 1);
    error = npy_write(folder, array, mean, r->tasks, r->episodes);
    cJSON *json = all_json(r);
    for (cJSON *of; (of = json->child);)
        cJSON_AddItemToObject(about, of->string, cJSON_DetachItemViaPointer(json, of));
    char *text = folder_json_text(about);
    if (!error)
        error = folder_replace_text(folder, object, text);
    cJSON_Delete(json), cJSON_Delete(about);
    free(mean), free(array), free(object), free(text);
    return error;
}
