/* foreign.h -- other trainers' settings (runtime/files/aliases.def) as recipe fields and flags. */
#ifndef FOREIGN_H
#define FOREIGN_H

#include "gen/util.h"
#include "runtime/files/names.h"

/* Returns "here it is run.lr", or why Diecast has no equivalent. */
const char *foreign_say(const Foreign *row);
/* Returns the equivalent setting in a recipe. given: the value of the other trainer's setting. */
const char *foreign_written(const Foreign *row, const char *given);
/* Returns the equivalent argument of gen, to be typed after the recipe. given: as above, or NULL if
 * unknown. */
const char *foreign_typed(const Foreign *row, const char *given);

#endif
