/* profile.c -- profile of steps: time by kernel, shares of a step, timeline; whole steps, timed.
 *
 * Method: each mark ends the span of the one before, so that the spans add up to the step. A
 *         collective includes waiting for the others; its own time is the minimum over the ranks.
 *         For a call that runs in parallel with the step, they are the step's waits for it. */
#define _GNU_SOURCE
#include "runtime/run/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/device.h"
#include "runtime/ranks/comm.h"

/* ---- --profile ------------------------------------------------------------------------------- */

enum { WARM = 3, SPANS_MAX = 200000, PHASES = 6 };     /* SPANS_MAX: spans of all ranks, or of one
                                                          step of each */

/* A span of the timeline. what: an op, or a phase; STEP: the whole step. */
enum { STEP = -100 };
typedef struct {
    int32_t what, layer;         /* STEP: its number; layer -1: none */
    int32_t host;                /* on the host's track; otherwise on the GPU's */
    int64_t begin, end;          /* nanoseconds since the first mark */
} Span;

/* Start of a phase on the host. */
typedef struct {
    int what;
    int64_t ns;
} Mark;

typedef struct { void *at; int64_t n, room; } List;

bool profile_on;
static const ProfileOp *ops;
static int nops;
static const char *out;
static int64_t first, last;          /* profiled steps: [first, last) */
static bool apart;                   /* a GPU works in parallel to the host */
static int64_t step_now, zero, begun, known;    /* clock at the first step and at this one; steps
                                                   profiled */
static List marked;                  /* of int: what each device_mark() began */
static List hosted;                  /* of Mark: phases of the host, with a GPU */
static List spans, sums;             /* of Span; of double: nanoseconds of each collective and of
                                        each sum of metrics */
static int64_t whole;                /* steps with complete spans */
static struct { int64_t calls, ns; } *spent;    /* per op */
static int32_t *turn;                /* its calls in this step */
static double phase_ns[PHASES], idle_ns, sums_ns, collective_ns, compute_ns, step_ns;
                                     /* idle: of the GPU, until it has work; sums: of `sums` */
static double warm_ns;               /* minimum of the steps before */
static int warm_steps;

static void *append(List *l, size_t size)
{
    if (l->n == l->room) {
        l->room = l->room ? 2 * l->room : 1024;
        l->at = realloc(l->at, size * (size_t)l->room);
        if (!l->at)
            die(EXIT_CONFIG,
                "--profile: no memory for the times of %lld calls; ask for fewer steps",
                (long long)l->room);
    }
    return (char *)l->at + size * (size_t)l->n++;
}

static int64_t clock_ns(void)
{
    return (int64_t)(1e9 * clock_seconds());
}

void profile_mark(int what, struct CUstream_st *s)
{
    *(int *)append(&marked, sizeof(int)) = what;
    device_mark(s);
}

void profile_phase(int phase)
{
    if (profile_on && apart)
        *(Mark *)append(&hosted, sizeof(Mark)) = (Mark){phase, clock_ns()};
    else if (profile_on && phase != PROFILE_LAUNCH && phase != PROFILE_WAIT)
        profile_mark(phase, NULL);
}

void profile_open(const ProfileOp *of, int n, const char *folder, int64_t N, int64_t step,
                  int64_t total)
{
    if (!N || step >= total)
        return;
    const int64_t left = total - step, warm = left - N > WARM ? WARM : left > N ? left - N : 0;
    if (left < N)
        note("--profile %" PRId64 ": the run has %" PRId64 " steps left, all of them are profiled",
             N, left);
    ops = of, nops = n, out = folder;
    first = step + warm;
    last = left < N ? total : first + N;
    apart = strcmp(device_name(), "CPU");
    spent = calloc((size_t)n, sizeof *spent);
    turn = calloc((size_t)n, sizeof *turn);
    if (!spent || !turn)
        die(EXIT_CONFIG, "--profile: no memory for %d calls", n);
}

void profile_begin(int64_t step)
{
    step_now = step;
    if (step >= last)
        return;
    if (step == first)
        comm_barrier();
    profile_on = step >= first;
    if (profile_on && apart)
        profile_mark(PROFILE_HOST, NULL);
    profile_phase(PROFILE_HOST);
    begun = clock_ns();              /* the memory for marks is allocated by now */
    if (profile_on && apart)
        ((Mark *)hosted.at)[0].ns = begun;
    zero = step == first ? begun : zero;
}

/* Steps that no longer fit are left out. */
static void add_span(int what, int layer, bool host, int64_t begin, int64_t end)
{
    if (whole == known)
        *(Span *)append(&spans, sizeof(Span)) = (Span){what, layer, host, begin - zero, end - zero};
}

/* Adds the span from a mark to the next. host: on the host's track. */
static void account(int what, int64_t begin, int64_t end, bool host)
{
    const double ns = (double)(end - begin);
    int layer = -1;
    bool summed = what == PROFILE_SUMS;
    if (what >= 0) {
        const ProfileOp *op = &ops[what];
        const int n = abs(op->layers), k = n ? turn[what]++ % n : -1;
        layer = op->layers < 0 ? n - 1 - k : k;
        spent[what].calls++;
        spent[what].ns += end - begin;
        summed = op->collective;
        *(summed ? &collective_ns : &compute_ns) += ns;
    } else if (host) {
        phase_ns[-what] += ns;
    } else {
        idle_ns += ns;
    }
    if (summed) {
        *(double *)append(&sums, sizeof(double)) = ns;
        sums_ns += ns;
    }
    if (end > begin)
        add_span(what, layer, host, begin, end);
}

void profile_end(void)
{
    const int64_t *ns;
    if (step_now >= last)
        return;
    const int64_t end = clock_ns();
    if (!profile_on) {
        warm_ns = warm_steps++ && warm_ns < (double)(end - begun) ? warm_ns : (double)(end - begun);
        return;
    }
    profile_mark(PROFILE_HOST, NULL);
    profile_on = false;
    step_ns += (double)(end - begun);
    memset(turn, 0, sizeof *turn * (size_t)nops);
    add_span(STEP, (int)(step_now + 1), true, begun, end);
    const int n = device_marks(&ns);
    for (int i = 0; i + 1 < n; i++) {
        const int64_t from = begun + ns[i], to = begun + ns[i + 1];
        account(((int *)marked.at)[i], from, apart || to < end ? to : end, !apart);
    }
    *(Mark *)append(&hosted, sizeof(Mark)) = (Mark){PROFILE_HOST, end};
    const Mark *h = hosted.at;
    for (int64_t i = 0; i + 1 < hosted.n; i++)
        account(h[i].what, h[i].ns, h[i + 1].ns, true);
    marked.n = hosted.n = 0;
    const int64_t room = SPANS_MAX / world.size;
    whole += whole == known && (spans.n < room || known == 0);
    known++;
    if (step_now + 1 == last)
        profile_close();
}

/* ---- the timeline ---------------------------------------------------------------------------- */

static void write_span(FILE *to, int rank, const Span *s)
{
    static const char *const phases[PHASES] = {
        "", "host", "batch", "sum of metrics", "launch", "wait for the GPU"};
    const bool gpu = !s->host;
    const int64_t length = s->end - s->begin;
    fprintf(to, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64 ".%03d,\"dur\":%" PRId64
            ".%03d,\"name\":\"", rank, gpu, s->begin / 1000, (int)(s->begin % 1000), length / 1000,
            (int)(length % 1000));
    if (s->what == STEP)
        fprintf(to, "step %d\"", s->layer);
    else if (s->what < 0)
        fprintf(to, "%s\",\"cat\":\"%s\"", gpu ? "idle" : phases[-s->what],
                s->what == PROFILE_SUMS ? "communication" : "host");
    else {
        const ProfileOp *op = &ops[s->what];
        fprintf(to, "%s %s", op->kernel, op->value);
        if (s->layer >= 0)
            fprintf(to, "[%d]", s->layer);
        fprintf(to, "\",\"cat\":\"%s\",\"args\":{\"flop\":%.0f,\"bytes\":%.0f}",
                op->collective ? "communication" : "compute", op->flops, op->bytes);
    }
    putc('}', to);
}

/* Writes the names of a rank's process and its two tracks. */
static void write_names(FILE *to, int rank, const char *host)
{
    fprintf(to,
            "%s{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d (",
            rank ? ",\n" : "", rank, rank);
    for (; *host; host++)
        putc(*host < ' ' || *host == '"' || *host == '\\' ? '?' : *host, to);
    fprintf(to,
            ")\"}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"thread_name\",\"args\":{"
            "\"name\":"
            "\"host\"}}",
            rank);
    if (apart)
        fprintf(to,
                ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":"
                "\"GPU\"}}",
                rank);
}

/* Collects the spans of all ranks; rank 0 writes them. Returns NULL, or a malloc'ed message. */
static char *write_timeline(const char *path)
{
    char *temporary = format("%s.tmp", path), *error = NULL, host[sizeof world.host];
    int fd = world.rank == 0 ? file_create(temporary, &error) : -1;
    FILE *to = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (to)
        fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", to);
    for (int r = 0; r < world.size; r++) {
        int64_t n = spans.n;
        comm_broadcast(&n, sizeof n, r);
        Span *s = r == world.rank ? spans.at : malloc(sizeof *s * (size_t)(n ? n : 1));
        if (!s)
            die(EXIT_CONFIG, "--profile: no memory for the times of rank %d", r);
        memcpy(host, world.host, sizeof host);
        comm_broadcast(host, sizeof host, r);
        if (n)
            comm_broadcast(s, sizeof *s * (size_t)n, r);
        if (to)
            write_names(to, r, host);
        for (int64_t i = 0; to && i < n; i++)
            write_span(to, r, &s[i]);
        if (r != world.rank)
            free(s);
    }
    if (to) {
        fputs("\n]}\n", to);
        bool good = fflush(to) == 0;
        if (!((fclose(to) == 0) && good && rename(temporary, path) == 0)) {
            error = format("%s: write: %s", path, strerror(errno));
            unlink(temporary);
        }
    }
    free(temporary);
    return error;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Returns the own time of `sums`, without waiting. */
static double sums_alone(void)
{
    double *least = sums.at, all = 0;
    const int64_t n = sums.n;
    if (comm_max_int(n) != n || comm_max_int(-n) != -n)
        die(EXIT_INTERNAL, "%lld sums over ranks, other ranks had a different number",
            (long long)n);
    double *row = malloc(sizeof *row * (size_t)(n ? n : 1)),
           *mine = malloc(sizeof *mine * (size_t)(n ? n : 1));
    if (!row || !mine)
        die(EXIT_CONFIG, "--profile: no memory for %lld times", (long long)n);
    for (int64_t i = 0; i < n; i++)
        mine[i] = least[i];
    for (int r = 0; n && r < world.size; r++) {
        memcpy(row, mine, sizeof *row * (size_t)n);
        comm_broadcast(row, sizeof *row * (size_t)n, r);
        for (int64_t i = 0; i < n; i++)
            least[i] = row[i] < least[i] ? row[i] : least[i];
    }
    for (int64_t i = 0; i < n; i++)
        all += least[i];
    free(row), free(mine);
    return all;
}

enum { COMPUTE, COMMUNICATION, WAITING, HOST, SHARES, COLLECTIVES = SHARES, ROWS };

/* Nanoseconds of the parts of all steps, and of collectives, which are in two of them; with a GPU,
 * host is the time that the GPU waits for it. */
static void shares(double of[ROWS])
{
    const double alone = sums_alone(), host = phase_ns[-PROFILE_HOST] + phase_ns[-PROFILE_BATCH];
    of[COMPUTE] = compute_ns;
    of[COMMUNICATION] = alone;
    of[WAITING] = sums_ns - alone;
    of[HOST] = !apart ? host : idle_ns - phase_ns[-PROFILE_SUMS];
    of[COLLECTIVES] = collective_ns;
}

static bool has_collectives(void)
{
    bool any = false;
    for (int i = 0; i < nops; i++)
        any = any || ops[i].collective;
    return any;
}

static void tell_shares(void)
{
    static const char *const names[ROWS] = {"compute", "communication", "waiting", "host",
                                            "collectives"};
    const char *const about[ROWS] = {
        "kernels and matrix products", "collectives and metrics, as long as on the fastest rank",
        "for other ranks, in collectives and metrics",
        apart ? "the GPU waits for batches, metrics, the log" : "batches, metrics, the log",
        "the step waits for them, other ranks included"};
    double mine[ROWS + 1], row[ROWS + 1], low[ROWS], high[ROWS], all = 0;
    shares(mine);
    mine[ROWS] = step_ns;
    for (int r = 0; r < world.size; r++) {
        memcpy(row, mine, sizeof row);
        comm_broadcast(row, sizeof row, r);
        for (int i = 0; i < ROWS; i++) {
            const double share = 100 * row[i] / row[ROWS];
            low[i] = r && low[i] < share ? low[i] : share;
            high[i] = r && high[i] > share ? high[i] : share;
        }
    }
    for (int i = 0; i < SHARES; i++)
        all += mine[i];
    for (int i = 0; i < ROWS; i++) {
        char *ranks = world.size > 1 ? format("  ranks %5.1f to %5.1f %%", low[i], high[i])
                                     : format("%s", "");
        if (i == SHARES)
            note("  %-14s %10.3f ms %6.1f %%", "together", all / (double)known / 1e6,
                 100 * all / step_ns);
        if (i < SHARES || has_collectives())
            note("  %-14s %10.3f ms %6.1f %%%s  %s", names[i], mine[i] / (double)known / 1e6,
                 100 * mine[i] / step_ns, ranks, about[i]);
        free(ranks);
    }
}

/* Prints all calls of a kernel as one line. */
typedef struct {
    const char *kernel;
    double calls, ns, flops, bytes;
} Kernel;

static int by_time(const void *a, const void *b)
{
    const Kernel *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns ? 1 : -1) : strcmp(x->kernel, y->kernel);
}

static void tell_kernels(void)
{
    Kernel *row = calloc((size_t)nops, sizeof *row);
    int n = 0;
    for (int i = 0; row && i < nops; i++) {
        int k = 0;
        while (k < n && strcmp(row[k].kernel, ops[i].kernel))
            k++;
        if (!spent[i].calls)
            continue;
        n += k == n;
        row[k].kernel = ops[i].kernel;
        row[k].calls += (double)spent[i].calls;
        row[k].ns += (double)spent[i].ns;
        row[k].flops += ops[i].flops * (double)spent[i].calls;
        row[k].bytes += ops[i].bytes * (double)spent[i].calls;
    }
    if (row)
        qsort(row, (size_t)n, sizeof *row, by_time);
    note("  %-24s %8s %10s %10s %7s %9s %8s", "kernel", "calls", "ms a step", "us a call", "share",
         "GFLOP/s", "GB/s");
    for (int k = 0; k < n; k++)
        note("  %-24s %8.0f %10.3f %10.1f %5.1f %% %9.1f %8.1f", row[k].kernel,
             row[k].calls / (double)known, row[k].ns / (double)known / 1e6,
             row[k].ns / row[k].calls / 1e3, 100 * row[k].ns / step_ns,
             row[k].ns > 0 ? row[k].flops / row[k].ns : 0,
             row[k].ns > 0 ? row[k].bytes / row[k].ns : 0);
    free(row);
}

void profile_close(void)
{
    if (!last)
        return;
    last = 0;
    if (!known) {
        note("--profile: the run ended before the first step to profile");
        return;
    }
    char *path = format("%s/profile.json", out), *before = NULL;
    if (warm_steps > 1)              /* only the first one allocates what later ones reuse */
        before = format("; %.3f ms before, without timed calls%s", warm_ns / 1e6,
                        apart ? " one by one" : "");
    note("profile: %" PRId64 " steps, from %" PRId64 " on, of %.3f ms%s", known, first + 1,
         step_ns / (double)known / 1e6, before ? before : "");
    tell_shares();
    tell_kernels();
    char *error = write_timeline(path);
    if (error)
        warn("%s; training goes on", error);
    else
        note("  timeline of %" PRId64 " steps: %s, for https://ui.perfetto.dev or chrome://tracing",
             whole, path);
    free(before), free(error), free(path);
}

/* ---- --bench-steps --------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_run(const Bench *b, const Model *m)
{
    const int64_t n = b->steps;
    double *rate = malloc(sizeof *rate * (size_t)n), first_seconds = 0, all = 0;
    if (!rate)
        die(EXIT_INTERNAL, "out of memory for %" PRId64 " timings", n);
    for (int64_t step = -BENCH_WARM; step < n; step++) {
        const double begin = clock_seconds(), work = b->step(b->with, step + BENCH_WARM);
        if (step == -BENCH_WARM)
            first_seconds = clock_seconds() - b->started;
        if (step < 0)
            continue;
        rate[step] = work / (clock_seconds() - begin);
        all += work;
    }
    qsort(rate, (size_t)n, sizeof *rate, by_value);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    if (world.rank == 0)
        printf("{\"%s_per_second\": %.1f, \"%s_per_second_min\": %.1f, "
               "\"%s_per_second_max\": %.1f, \"%s\": %.0f, \"first_step_seconds\": %.3f, "
               "\"peak_rss_bytes\": %" PRId64 ", \"planned_bytes\": %" PRId64 ", "
               "\"allocated_bytes\": %" PRId64 ", \"steps\": %" PRId64 ", \"threads\": %d, "
               "\"ranks\": %" PRId64 ", \"recipe\": \"%s\", \"target\": \"%s\"}\n",
               b->unit, rate[(n - 1) / 2], b->unit, rate[0], b->unit, rate[n - 1], b->unit, all,
               first_seconds, (int64_t)use.ru_maxrss * 1024, m->planned_bytes, device_used(), n,
               b->threads, m->ranks, m->recipe, m->target);
    free(rate);
}
