/* regions.h -- histories as text and as a figure: their rewards, and where regions begin and end. */
#ifndef DIECAST_REGIONS_H
#define DIECAST_REGIONS_H

#include "runtime/data/histories.h"
#include "runtime/run/figures.h"
#include <stdio.h>

/* Of a task: its first stream, a line a region: `<` where it begins, a sign a step, 1 of a reward and . of none,
 * | between episodes, `>` where it ends, and behind it the returns of these; then the mean return of an episode of
 * all streams, region by region. */
void regions_print(FILE *to, const Histories *h, int task);
/* The same as a figure, OUT/plots/regions_TASK.png. Said, or why not. */
void regions_draw(const FiguresOf *of, const Histories *h, int task);

#endif
