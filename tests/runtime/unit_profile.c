/* unit_profile.c -- marks of time become spans that tile each step, layers in turn, a timeline that reads back. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/files/json.h"
#include "../../runtime/run/profile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TWO, DOWN, SUM, OPS };
static const ProfileOp ops[OPS] = {
    { "linear_fwd", "b.qkv", 2e6, 1e6, 2, false },
    { "linear_dx", "b.dqkv", 2e6, 1e6, -2, false },
    { "comm_allreduce_sum", "grad", 0, 4e6, 0, true },
};

static void work(double seconds)
{
    const double end = clock_seconds() + seconds;
    while (clock_seconds() < end)
        ;
}

/* As a step of two layers, forward and backward, and a sum of their gradients. */
static void step(int64_t number)
{
    profile_begin(number);
    profile_phase(PROFILE_BATCH);
    work(1e-4);
    for (int i = 0; profile_on && i < 4; i++)
        profile_mark(i / 2, NULL), work(2e-4);
    if (profile_on)
        profile_mark(SUM, NULL), work(1e-4);
    profile_phase(PROFILE_WAIT);         /* of a GPU: not here */
    profile_phase(PROFILE_SUMS);
    profile_phase(PROFILE_HOST);
    profile_end();
}

static double number(const cJSON *event, const char *key)
{
    const cJSON *x = json_get(event, key);
    return cJSON_IsNumber(x) ? x->valuedouble : NAN;
}

/* Every span after a step lies in it and begins where the one before ends, up to a nanosecond's rounding. */
static void check_timeline(const char *path, int steps)
{
    static const char *const names[] = { "batch", "linear_fwd b.qkv[0]", "linear_fwd b.qkv[1]",
                                         "linear_dx b.dqkv[1]", "linear_dx b.dqkv[0]", "comm_allreduce_sum grad" };
    enum { NAMES = sizeof names / sizeof *names };
    size_t n;
    char *error = NULL, *text = file_read(path, 1 << 20, &n, &error);
    cJSON *all = text ? json_parse(text, n, &error) : NULL;
    double begin = 0, end = 0, at = NAN, sum = 0, least = INFINITY;
    int seen = 0, found = 0, outside = 0;
    for (const cJSON *e = all ? json_get(all, "traceEvents")->child : NULL; e; e = e->next) {
        const char *name = cJSON_GetStringValue(json_get(e, "name")), *kind = cJSON_GetStringValue(json_get(e, "ph"));
        const double ts = number(e, "ts"), dur = number(e, "dur");
        if (strcmp(kind, "X") != 0)
            continue;
        if (strncmp(name, "step ", 5) == 0) {
            least = seen && sum / (end - begin) < least ? sum / (end - begin) : least;
            begin = ts, end = ts + dur, at = NAN, sum = 0, found = 0;
            seen++;
            continue;
        }
        outside += !(ts >= begin - 1e-3 && ts + dur <= end + 1e-3 && dur > 0 && (isnan(at) || fabs(ts - at) < 2e-3));
        at = ts + dur, sum += dur;
        found += found < NAMES && strcmp(name, names[found]) == 0;
    }
    check(all && seen == steps, "profile: a step is a span", "%d of %d; %s", seen, steps, error ? error : "");
    check(outside == 0, "profile: spans lie in their step, one after the other", "%d do not", outside);
    check(found == NAMES, "profile: layers forward and backward", "%d of %d names in order", found, NAMES);
    check(least > 0.95 && least <= 1.0001, "profile: spans add up to the step", "%g of one", least);
    cJSON_Delete(all);
    free(text);
}

void test_profile(const char *scratch)
{
    profile_open(ops, OPS, scratch, 0, 0, 10);
    step(0);
    check(!profile_on, "no profile: nothing is on", "it is");
    profile_open(ops, OPS, scratch, 2, 5, 9);
    for (int64_t s = 5; s < 9; s++) {
        step(s);
        check(!profile_on, "profile: not between steps", "it is on");
    }
    profile_close();
    char *path = format("%s/profile.json", scratch);
    check_timeline(path, 2);
    free(path);
}
