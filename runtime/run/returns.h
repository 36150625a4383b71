/* returns.h -- episode returns of agents: summary statistics, JSON and .npy output. */
#ifndef DIECAST_RETURNS_H
#define DIECAST_RETURNS_H

#include <cjson/cJSON.h>
#include <stdint.h>

enum { RETURNS_LAST = 100 };     /* window of the `last` mean in episodes; all if there are fewer */

typedef struct {
    int env;                     /* of darkroom.h */
    int64_t tasks, streams, episodes;
    const int *task;             /* (tasks) task numbers */
    const double *of;            /* (tasks, streams, episodes) returns */
} Returns;

/* Statistics over all episodes of a task; over tasks: the means of the tasks' values, `deviation`
 * being that of the task means. */
typedef struct {
    double mean, deviation;      /* return per episode: mean, and sqrt(mean (x - mean)^2) */
    double first, last;          /* mean return of the first episode, of the last ones */
    double success;              /* share of episodes that reached the goal */
    double random;               /* exact expected return of uniformly random actions */
    double best;                 /* largest possible return */
} Earned;

/* Returns the expected return of an episode with uniformly random actions. */
double returns_random(int env, int task);

/* The statistics of task i, and those over all tasks. */
Earned returns_of(const Returns *r, int64_t i);
Earned returns_over(const Returns *r);
/* Prints one JSON line per task and one over all tasks on standard output. */
void returns_print(const Returns *r);
/* Writes NAME.npy (tasks, episodes), means over streams, and NAME.json: `about` plus "return",
 * "by_episode", the mean over tasks of each, and "tasks", a list of {"goal": [row, column],
 * "return": ...}; with permuted moves "order", the permutation's number, replaces "goal". Takes
 * ownership of about. Returns NULL, or a malloc'ed message. */
char *returns_write(const Returns *r, const char *folder, const char *name, cJSON *about);

#endif
