/* regions.h -- learning histories as text and as a plot: rewards, and region boundaries. */
#ifndef DIECAST_REGIONS_H
#define DIECAST_REGIONS_H

#include "runtime/data/histories.h"
#include "runtime/run/figures.h"
#include <stdio.h>

/* The part to show: the first `streams` streams of a task and `steps` steps of each, at most as
 * many as exist. */
typedef struct {
    const Histories *h;
    int task, streams;
    int64_t steps, region;       /* region length in steps */
} RegionsOf;

/* Prints the first stream of a task, one region per line: `<` where the region begins, 1 or . per
 * step (reward or none), | between episodes, `>` where it ends, then the returns of the episodes
 * that end there. Then the mean episode return over all these streams, per region. */
void regions_print(FILE *to, const RegionsOf *r);
/* Plots the same to OUT/plots/regions_TASK.png, and reports the path or why it failed. */
void regions_draw(const FiguresOf *of, const RegionsOf *r);

#endif
