/* main.c -- runs the kernel tests that the other files of this folder registered.
 *
 * In:    arguments: a substring of test names, or --bench; SEED in the environment.
 * Out:   `ok kernels/LABEL/name` or `not ok ...: why`, a line a test; exit 1 if any failed.
 * Keeps: a test sees the same inputs whatever other tests run, and on each number of threads. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "harness.h"

#define HOST(type, n) NEW(type, n)
#include "checks.h"

enum { GUARD = 64, MAX_BUFFERS = 4096 };

static Test *tests;                      /* sorted by name */
static struct { unsigned char *at; int64_t bytes; } buffers[MAX_BUFFERS];
static int nbuffers;
static uint64_t digest;                  /* of all checked results of the running body */

void harness_register(Test *t)
{
    Test **p = &tests;
    while (*p && strcmp((*p)->name, t->name) < 0)
        p = &(*p)->next;
    t->next = *p;
    *p = t;
}

static const void *hash(const void *data, int64_t bytes)
{
    digest = numbers_hash(digest, data, bytes);
    return data;
}

/* Memory */

void *new_bytes(int64_t bytes)
{
    if (nbuffers == MAX_BUFFERS)
        abort();
    int64_t padded = (bytes + 63) / 64 * 64;
    unsigned char *p = aligned_alloc(64, (size_t)(padded + 2 * GUARD));
    if (!p)
        abort();
    memset(p, 0xff, (size_t)(padded + 2 * GUARD));
    buffers[nbuffers].at = p;
    buffers[nbuffers++].bytes = bytes;
    return p + GUARD;
}

static void free_buffers(void)
{
    for (int i = 0; i < nbuffers; i++) {
        const unsigned char *p = buffers[i].at, *end = p + GUARD + buffers[i].bytes;
        for (int k = 0; k < GUARD; k++)
            if (p[k] != 0xff || end[k] != 0xff)
                fail("buffer %d (%lld bytes): written outside", i, (long long)buffers[i].bytes);
        free(buffers[i].at);
    }
    nbuffers = 0;
}

/* Inputs */

act_t *act_normal(int64_t n, double mean, double std)
{
    act_t *x = NEW(act_t, n);
    for (int64_t i = 0; i < n; i++)
        act_store(x + i, (float)(mean + std * random_normal()));
    return x;
}

float *f32_normal(int64_t n, double mean, double std)
{
    float *x = NEW(float, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(mean + std * random_normal());
    return x;
}

act_t *act_integers(int64_t n, int bound)
{
    act_t *x = NEW(act_t, n);
    for (int64_t i = 0; i < n; i++)
        act_store(x + i, (float)(random_below(2 * bound + 1) - bound));
    return x;
}

float *f32_integers(int64_t n, int bound)
{
    float *x = NEW(float, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(random_below(2 * bound + 1) - bound);
    return x;
}

int32_t *tokens_random(int64_t n, int64_t V)
{
    int32_t *x = NEW(int32_t, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)random_below(V);
    return x;
}

double *act_double(const act_t *x, int64_t n)
{
    double *y = NEW(double, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = act_load(x + i);
    return y;
}

double *f32_double(const float *x, int64_t n)
{
    double *y = NEW(double, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i];
    return y;
}

act_t *act_copy(const act_t *x, int64_t n)
{
    return memcpy(NEW(act_t, n), x, (size_t)n * sizeof(act_t));
}

float *f32_copy(const float *x, int64_t n)
{
    return memcpy(NEW(float, n), x, (size_t)n * sizeof(float));
}

/* Checks */

void check_same(const char *what, const void *a, const void *b, int64_t bytes)
{
    hash(a, bytes);
    const unsigned char *p = a, *q = b;
    for (int64_t i = 0; i < bytes; i++)
        if (p[i] != q[i]) {
            fail("%s: byte %lld of %lld differs", what, (long long)i, (long long)bytes);
            return;
        }
}

void check_gradient(const char *what, double (*loss)(void *ctx), void *ctx, double *x,
                    const double *grad, int64_t n)
{
    if (sizeof(act_t) != 4)
        return;
    double rms = 0;
    for (int64_t i = 0; i < n; i++)
        rms += grad[i] * grad[i];
    rms = sqrt(rms / (double)n);
    for (int k = 0; k < 12; k++) {
        int64_t i = random_below(n);
        double keep = x[i], h = 1e-4 * (1 + fabs(keep));
        double at[4];
        for (int j = 0; j < 4; j++) {
            x[i] = keep + GRADIENT_STEPS[j] * h;
            at[j] = loss(ctx);
        }
        x[i] = keep;
        double slope = gradient_slope(at, h);
        if (!(fabs(slope - grad[i]) <= 1e-5 * (fabs(slope) + rms) + 1e-9))
            fail("%s[%lld of %lld]: finite differences %.9g, gradient %.9g", what, (long long)i,
                 (long long)n, slope, grad[i]);
    }
}

/* Bench */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_time(void (*run)(void *ctx), void *ctx)
{
    run(ctx);
    double best = 1e30, begin = seconds();
    for (int i = 0; i < 5 || (seconds() - begin < 0.5 && i < 100000); i++) {
        double t = seconds();
        run(ctx);
        t = seconds() - t;
        best = t < best ? t : best;
    }
    return best;
}

void bench_report(const char *what, double s, double bytes, double flops)
{
    printf("%-40s %10.2f us", what, 1e6 * s);
    if (bytes > 0)
        printf(" %8.1f GB/s", 1e-9 * bytes / s);
    if (flops > 0)
        printf(" %8.1f GFLOP/s", 1e-9 * flops / s);
    printf("\n");
}

static void run_test(const Test *t, uint64_t seed)
{
    const uint64_t name = numbers_hash(NUMBERS_HASH, t->name, (int64_t)strlen(t->name));
    uint64_t first = 0;
    why[0] = 0;
    for (int threads = 1; threads <= 3 && !why[0]; threads++) {
        omp_set_num_threads(threads);
        rng = seed ^ name;
        digest = NUMBERS_HASH;
        t->body();
        free_buffers();
        if (threads == 1)
            first = digest;
        else if (digest != first)
            fail("results with %d threads differ from those with 1", threads);
    }
}

int main(int argc, char **argv)
{
    bool bench = argc > 1 && !strcmp(argv[1], "--bench");
    const char *filter = argc > 1 + bench ? argv[1 + bench] : "";
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    int failed = 0, ran = 0;
    if (!bench)
        printf("# SEED=%llu\n", (unsigned long long)seed);
    for (const Test *t = tests; t; t = t->next) {
        if (t->bench != bench || !strstr(t->name, filter))
            continue;
        ran++;
        if (bench) {
            rng = seed;
            t->body();
            free_buffers();
            continue;
        }
        run_test(t, seed);
        if (why[0])
            printf("not ok kernels/%s/%s: %s (SEED=%llu)\n", LABEL, t->name, why,
                   (unsigned long long)seed);
        else
            printf("ok kernels/%s/%s\n", LABEL, t->name);
        failed += why[0] != 0;
        fflush(stdout);
    }
    return failed || !ran;
}
