/* kept_choice.h -- memory.recompute = "auto": what recomputed blocks keep. */
#ifndef GEN_KEPT_CHOICE_H
#define GEN_KEPT_CHOICE_H

#include "gen/config/config.h"

/* If the recipe leaves it to gen, sets memory.recompute and memory.keep: to nothing recomputed if
 * that fits the target, else to the set with the shortest estimated step (step_cost()) that fits;
 * to plain blocks if none does. Sets c->kept to that choice, and the next best, for the plan. */
void choose_kept(Config *c);

#endif
