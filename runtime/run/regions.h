/* regions.h -- histories as text and as a figure: their rewards, and where regions begin and end. */
#ifndef DIECAST_REGIONS_H
#define DIECAST_REGIONS_H

#include "runtime/data/histories.h"
#include "runtime/run/figures.h"
#include <stdio.h>

/* What of the histories: the first so many streams of a task and steps of each, at most as many as there are. */
typedef struct {
    const Histories *h;
    int task, streams;
    int64_t steps, region;       /* steps of a region */
} RegionsOf;

/* Of a task: its first stream, a line a region: `<` where it begins, a sign a step, 1 of a reward and . of none,
 * | between episodes, `>` where it ends, and behind it the returns of episodes that end there; then the mean return
 * of an episode of all these streams, region by region. */
void regions_print(FILE *to, const RegionsOf *r);
/* The same as a figure, OUT/plots/regions_TASK.png. Said, or why not. */
void regions_draw(const FiguresOf *of, const RegionsOf *r);

#endif
