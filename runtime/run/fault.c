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

/* Flips a bit in the middle of the mantissa of the tensor's first element, if it is in memory where
 * a whole array has it. */
static void flip_first(const Tensor *t, Array array)
{
    const int64_t size = element_bytes(array.type);
    char *at = (char *)array.at + t->first * size;
    uint32_t word = 0;
    array_read(&word, at, size);
    word ^= UINT32_C(1) << (size == 4 ? 12 : 3);
    array_write(at, &word, size);
}

/* Of the first tensor that every rank updates. */
static void flip(const Model *m, float *scale)
{
    (void)scale;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        if (t->trained && !t->exp_avg.part && !t->weight.part) {
            flip_first(t, model_precise(t));
            return;
        }
    }
    die(EXIT_CONFIG, "DIECAST_FAULT: every trained parameter of this program is divided over "
                     "ranks: none can differ between them");
}

/* Of the first tensor that one rank updates and the others gather; its first elements are those of
 * rank 0. */
static void flip_shared(const Model *m, float *scale)
{
    (void)scale;
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        if (t->exp_avg.part && !t->weight.part && t->first == 0) {
            flip_first(t, t->weight);
            return;
        }
    }
    die(EXIT_CONFIG, "DIECAST_FAULT: this program has no parameter that one rank updates and all "
                     "ranks have: build it with memory.zero=1");
}

typedef enum { AT_STEP, AT_CHECK, AT_SAVE } Moment;

static const struct {
    const char *name;
    Moment at;
    int signal;                                  /* signal that the process sends itself, or 0 */
    void (*strike)(const Model *m, float *scale);    /* NULL: a signal, or a fault within a save */
} kinds[] = {
    { "kill9", AT_STEP, SIGKILL, NULL },
    { "segv", AT_STEP, SIGSEGV, NULL },
    { "abort", AT_STEP, SIGABRT, NULL },
    { "exit0", AT_STEP, 0, leave },
    { "stop", AT_STEP, SIGSTOP, NULL },
    { "hang", AT_STEP, 0, hang },
    { "nan", AT_STEP, 0, spoil },
    { "flip", AT_STEP, 0, flip },
    { "flip_shared", AT_CHECK, 0, flip_shared },
    { "save", AT_SAVE, 0, NULL },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* True once, at the moment of DIECAST_FAULT. Any thread. */
static bool due(Moment at, int64_t step)
{
    if (kinds[fault.kind].at != at || !fault.armed || fault.step != step)
        return false;
    fault.armed = false;
    return true;
}

void fault_step(const Model *m, float *scale)
{
    if (!due(AT_STEP, world.step))
        return;
    if (kinds[fault.kind].signal)
        raise(kinds[fault.kind].signal);
    else
        kinds[fault.kind].strike(m, scale);
}

void fault_check(const Model *m)
{
    if (due(AT_CHECK, world.step))
        kinds[fault.kind].strike(m, NULL);
}

void fault_save(int64_t step)
{
    if (!due(AT_SAVE, step))
        return;
    struct timespec left = { (time_t)fault.seconds, 0 };
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

/* ---- parsing of DIECAST_FAULT ---------------------------------------------------------------- */

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
    const bool saves = kinds[fault.kind].at == AT_SAVE;
    if (saves != (seconds >= 0))
        refuse(text, saves ? "seconds are missing" : "seconds is allowed only with save");
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
