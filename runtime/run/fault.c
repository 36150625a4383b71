/* fault.c -- fault injection (DIECAST_FAULT).
 *
 * In:    the environment. Out: the requested fault, at one point and step.
 * Keeps: fault.h documents the kinds that the table below implements. */
#define _GNU_SOURCE
#include "runtime/run/fault.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/ranks/comm.h"
#include "runtime/device.h"

static struct {
    bool armed;              /* for this rank and start */
    int kind;
    int64_t rank, step, restart;
    int64_t seconds;         /* of save */
} fault;

/* ---- what happens ---------------------------------------------------------------------------- */

static void leave(const Model *m, float *scale)
{
    (void)m, (void)scale;
    _exit(0);
}

static void hang(const Model *m, float *scale)
{
    (void)m, (void)scale;
    for (;;)
        pause();
}

static void spoil(const Model *m, float *scale)
{
    (void)m;
    *scale = NAN;
}

/* Flips a bit in the middle of the mantissa of the first tensor's first element. */
static void flip(const Model *m, float *scale)
{
    (void)scale;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        float *array = model_precise(t).at;
        uint32_t word;
        if (!t->trained)
            continue;
        array_read(&word, array + t->first, sizeof word);
        word ^= UINT32_C(1) << 12;
        array_write(array + t->first, &word, sizeof word);
        return;
    }
}

static const struct {
    const char *name;
    int signal;                                  /* signal that the process sends itself, or 0 */
    void (*strike)(const Model *m, float *scale);    /* NULL: a signal, or a fault within a save */
} kinds[] = {
    { "kill9", SIGKILL, NULL },
    { "segv", SIGSEGV, NULL },
    { "abort", SIGABRT, NULL },
    { "exit0", 0, leave },
    { "stop", SIGSTOP, NULL },
    { "hang", 0, hang },
    { "nan", 0, spoil },
    { "flip", 0, flip },
    { "save", 0, NULL },
};
enum { KINDS = sizeof kinds / sizeof *kinds, SAVE = KINDS - 1 };

static bool due(void)
{
    return fault.armed && fault.step == world.step;
}

void fault_step(const Model *m, float *scale)
{
    if (!due() || fault.kind == SAVE)
        return;
    fault.armed = false;
    if (kinds[fault.kind].signal)
        raise(kinds[fault.kind].signal);
    else
        kinds[fault.kind].strike(m, scale);
}

void fault_save(void)
{
    if (!due() || fault.kind != SAVE)
        return;
    fault.armed = false;
    struct timespec left = { (time_t)fault.seconds, 0 };
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

/* ---- what was asked for ---------------------------------------------------------------------- */

static void refuse(const char *text, const char *why)
{
    char list[100] = "";
    for (int i = 0; i < KINDS; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? "|" : "",
                 kinds[i].name);
    die(EXIT_CONFIG, "DIECAST_FAULT=%.100s: %s; the form is %s:rank=R:step=S, for save :seconds=X, "
                     "with an optional :restart=N", text, why, list);
}

/* Parses key=N into *to; false: another key, or not a number from least to most. */
static bool number(const char *part, const char *key, int64_t least, int64_t most, int64_t *to)
{
    size_t n = strlen(key);
    char *end;
    if (strncmp(part, key, n) || part[n] != '=' || strspn(part + n + 1, "0123456789") == 0)
        return false;
    errno = 0;
    *to = strtoll(part + n + 1, &end, 10);
    return !*end && !errno && *to >= least && *to <= most;
}

static void parse(const char *text)
{
    char *copy = format("%s", text), *rest = NULL, *part = strtok_r(copy, ":", &rest);
    int64_t seconds = -1;
    fault.kind = -1;
    fault.rank = fault.step = -1;
    for (int i = 0; i < KINDS && part; i++)
        if (!strcmp(part, kinds[i].name))
            fault.kind = i;
    if (fault.kind < 0)
        refuse(text, "no such kind");
    while ((part = strtok_r(NULL, ":", &rest)))
        if (!number(part, "rank", 0, world.size - 1, &fault.rank) &&
            !number(part, "step", 1, INT64_MAX, &fault.step) &&
            !number(part, "restart", 0, INT32_MAX, &fault.restart) &&
            !number(part, "seconds", 0, 86400, &seconds))
            refuse(text, "a part is misspelt or out of range");
    if (fault.rank < 0 || fault.step < 0)
        refuse(text, "rank or step is missing");
    if ((fault.kind == SAVE) != (seconds >= 0))
        refuse(text, fault.kind == SAVE ? "seconds are missing"
                                        : "seconds is allowed only with save");
    fault.seconds = seconds;
    free(copy);
}

void fault_arm(void)
{
    const char *text = getenv("DIECAST_FAULT");
    if (!text)
        return;
    parse(text);
    fault.armed = fault.rank == world.rank && fault.restart == comm_restart();
    if (fault.armed)
        warn("DIECAST_FAULT=%s is armed: it strikes this rank at step %lld", text,
             (long long)fault.step);
}
