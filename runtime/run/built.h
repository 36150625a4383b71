/* built.h -- flags for settings that were fixed when the program was generated.
 *
 * Keeps: a flag whose value matches the build is accepted; all others are refused together, with
 *        the command that builds the requested program. */
#ifndef DIECAST_BUILT_H
#define DIECAST_BUILT_H

#include <stdbool.h>

#include "runtime/files/names.h"

/* How the program was generated. */
typedef struct {
    const char *words;           /* arguments of `gen`: the recipe and the fields set on its command
                                    line */
    const char *fields[3];       /* lines FIELD=VALUE in Lua's spelling; a second line of a field
                                    is an equivalent value */
} Made;

/* The value that a flag requests for a field. */
typedef struct Claim Claim;

typedef struct {
    Claim *claim;
    int n;
} Claims;

/* True if --name refers to a recipe field: by its own name (row NULL), or through a row of
 * aliases.def. */
bool built_is(const Alias *row, const char *name);
/* Adds the value requested by --name to *c. value: the word after =, or NULL; argv: the n words
 * after the flag. Returns how many of these it used, or -1 if the row has no meaning for this
 * value. Ends the program if the value is invalid for the field. */
int built_take(Claims *c, const Made *made, const Alias *row, const char *name, const char *value,
               int n, char *const *argv);
/* Ends the program unless the build has every requested value. */
void built_check(const Claims *c, const Made *made);
/* Ends the program if a flag, as typed, refers to a field that recipes of its objective lack. */
void built_check_field(const Made *made, const char *typed, const char *field);
/* Ends the program if accelerate launch asks for another precision than that of the program. */
void built_check_precision(const Made *made, const char *precision, const char *target);

#endif
