/* foreign.h -- other trainers' settings (runtime/files/aliases.def) as recipe fields and flags. */
#ifndef FOREIGN_H
#define FOREIGN_H

#include "gen/util.h"
#include "runtime/files/names.h"

/* "here it is run.lr", or why there is nothing like it. */
const char *foreign_say(const Foreign *row);
/* The same in a recipe; given: the value of their name. */
const char *foreign_written(const Foreign *row, const char *given);
/* The same with what is to be typed behind gen's recipe. given: the value of their name, or NULL. */
const char *foreign_typed(const Foreign *row, const char *given);

#endif
