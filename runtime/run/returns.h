/* returns.h -- what agents have earned in their episodes: told, and written into files. */
#ifndef DIECAST_RETURNS_H
#define DIECAST_RETURNS_H

#include <cjson/cJSON.h>
#include <stdint.h>

enum { RETURNS_LAST = 100 };     /* episodes of which the last mean is, or all where there are fewer */

typedef struct {
    int env;                     /* of darkroom.h */
    int64_t tasks, streams, episodes;
    const int *task;             /* (tasks) */
    const double *of;            /* (tasks, streams, episodes) */
} Returns;

/* Of all episodes of a task; over tasks the mean of each, `deviation` that of the tasks' means. */
typedef struct {
    double mean, deviation;      /* of an episode: sqrt(mean (x - mean)^2) */
    double first, last;          /* means of the first episode, of the last ones */
    double success;              /* share of episodes in which the goal was reached */
    double random;               /* what actions by chance have, exactly */
    double best;                 /* largest possible return */
} Earned;

/* The expected return of an episode in which all actions are equally likely. */
double returns_random(int env, int task);

Earned returns_of(const Returns *r, int64_t i);
Earned returns_over(const Returns *r);
/* {"return": ..., "by_episode": [the mean over tasks of each], "tasks": [{"goal": [row, column],
 * "return": ...}, ...]}; of permuted moves "order", its number, in the place of the goal. */
cJSON *returns_json(const Returns *r);
/* A line of JSON for each task on standard output, and one over all. */
void returns_print(const Returns *r);
/* NAME.npy (tasks, episodes), means over streams, and NAME.json, `about` with the above; takes
 * about. NULL, or a malloc'ed message. */
char *returns_write(const Returns *r, const char *folder, const char *name, cJSON *about);

#endif
