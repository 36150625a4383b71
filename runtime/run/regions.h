/* regions.h -- a history as text: its rewards and where its regions begin and end. */
#ifndef DIECAST_REGIONS_H
#define DIECAST_REGIONS_H

#include <stdint.h>
#include <stdio.h>

/* A line a region of so many steps: `<` where it begins, a sign a step, 1 of a reward and . of none, | between
 * episodes, `>` where it ends, and behind it the returns of these. code: (steps) of darkroom.h. */
void regions_print(FILE *to, const uint16_t *code, int64_t steps, int64_t region);

#endif
