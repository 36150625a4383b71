/* lower.h -- lowers a graph in three stages ("rooms"): fuse, part and plan.
 *
 * fuse: joins ops into groups, one kernel call each.
 * part: gives every value a placement on the ranks and inserts the collectives this needs.
 * plan: gives every stored value its offset in the arena.
 * Each X_run() extends the graph; check_X() verifies its result. */
#ifndef LOWER_H
#define LOWER_H

#include "gen/graph/ir.h"

void fuse_run(Graph *g);
void check_fuse(const Graph *g);
void part_run(Graph *g);
void check_part(const Graph *g);
void plan_run(Graph *g);
void check_plan(const Graph *g);
/* Returns NULL, or how much more memory the plan needs than the target has, and its largest
 * buffers, in two lines. place: name of the target in them; NULL: "target NAME". */
char *fit_fault(const Graph *g, const char *place);
/* A bound of targets that holds for `micro` samples if the recipe's holds for its own; 0: none. */
int64_t fit_targets(const Config *c, int64_t micro);
/* Returns the bytes that a rank may plan with; INT64_MAX: the target sets no limit. */
int64_t fit_limit(const Graph *g);
/* Builds the graph of c and runs fuse, part and plan, whether or not the result fits. */
Graph *fit_planned(Config *c);
/* Returns the largest batch.micro that fits with all other fields unchanged; 0: not even one
 * sequence fits. */
int64_t fit_largest_micro(const Graph *g, Config *c);

#endif
