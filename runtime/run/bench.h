/* bench.h -- step benchmark (--bench-steps N). */
#ifndef DIECAST_BENCH_H
#define DIECAST_BENCH_H

#include "runtime/model/model.h"
#include <stdint.h>

typedef struct {
    int64_t steps;               /* timed steps, after BENCH_WARM warm-up steps */
    void (*step)(void *with, int64_t step);      /* one full training step on all ranks */
    void *with;
    double work;                 /* work of one step, summed over ranks, */
    const char *unit;            /* in this unit */
    double started;              /* clock at program start, s */
} Bench;

enum { BENCH_WARM = 3 };

/* Runs the steps and prints one JSON line on rank 0's standard output. */
void bench_run(const Bench *b, const Model *m);

#endif
