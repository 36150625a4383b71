/* bench.c -- times whole steps, and reports median, fastest and slowest. */
#include "runtime/run/bench.h"

#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "runtime/base.h"
#include "runtime/device.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_run(const Bench *b, const Model *m)
{
    const int64_t n = b->steps;
    double *all = malloc(sizeof *all * (size_t)(n + BENCH_WARM)), first = 0;
    if (!all)
        die(EXIT_INTERNAL, "out of memory for %" PRId64 " timings", n);
    for (int64_t step = 0; step < n + BENCH_WARM; step++) {
        double begin = clock_seconds();
        b->step(b->with, step);
        all[step] = clock_seconds() - begin;
        if (step == 0)
            first = clock_seconds() - b->started;
    }
    const double *seconds = all + BENCH_WARM;
    qsort(all + BENCH_WARM, (size_t)n, sizeof *all, by_value);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    if (world.rank == 0)
        printf("{\"%s_per_second\": %.1f, \"%s_per_second_min\": %.1f, "
               "\"%s_per_second_max\": %.1f, \"first_step_seconds\": %.3f, "
               "\"peak_rss_bytes\": %" PRId64 ", \"planned_bytes\": %" PRId64 ", "
               "\"allocated_bytes\": %" PRId64 ", \"steps\": %" PRId64 ", \"threads\": %d, "
               "\"ranks\": %" PRId64 ", \"recipe\": \"%s\", \"target\": \"%s\"}\n",
               b->unit, b->work / seconds[n / 2], b->unit, b->work / seconds[n - 1], b->unit,
               b->work / seconds[0], first, (int64_t)use.ru_maxrss * 1024, m->planned_bytes,
               device_used(), n, omp_get_max_threads(), m->ranks, m->recipe, m->target);
    free(all);
}
