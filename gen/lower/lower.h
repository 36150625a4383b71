/* lower.h -- the rooms fuse, part and plan: kernels, placement among ranks, memory. */
#ifndef LOWER_H
#define LOWER_H

#include "gen/graph/ir.h"

void fuse_run(Graph *g);
void check_fuse(const Graph *g);
void part_run(Graph *g);
void check_part(const Graph *g);
void plan_run(Graph *g);
void check_plan(const Graph *g);
/* ends the program when the plan exceeds the target */
/* c: to look for recipes near it that fit; NULL: there is none */
void fit_check(const Graph *g, Config *c);
int64_t fit_limit(const Graph *g);
Graph *fit_planned(Config *c);               /* the rooms up to plan, whether it fits or not */
int64_t fit_largest_micro(const Graph *g, Config *c);

#endif
