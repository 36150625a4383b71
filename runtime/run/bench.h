/* bench.h -- --bench-steps N: how long a step takes. */
#ifndef DIECAST_BENCH_H
#define DIECAST_BENCH_H

#include "runtime/model/model.h"
#include <stdint.h>

typedef struct {
    int64_t steps;               /* timed, BENCH_WARM others before them */
    void (*step)(void *with, int64_t step);      /* a whole one, on all ranks */
    void *with;
    double work;                 /* of a step of all ranks, */
    const char *unit;            /* in these */
    double started;              /* clock at the start of the program */
} Bench;

enum { BENCH_WARM = 3 };

/* Takes the steps; a line of JSON from rank 0 on standard output. */
void bench_run(const Bench *b, const Model *m);

#endif
