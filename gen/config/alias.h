/* alias.h -- other trainers' settings (runtime/files/aliases.def) as recipe fields and flags. */
#ifndef ALIAS_H
#define ALIAS_H

#include "gen/util.h"
#include "runtime/files/names.h"

/* Returns "here it is run.lr", or why Diecast has no equivalent. */
const char *alias_say(const Alias *row);
/* Returns the equivalent setting in a recipe. given: the value of the other trainer's setting. */
const char *alias_written(const Alias *row, const char *given);
/* Returns the equivalent argument of gen, to be typed after the recipe. given: as above, or NULL if
 * unknown. */
const char *alias_typed(const Alias *row, const char *given);

#endif
