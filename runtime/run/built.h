/* built.h -- flags whose settings were fixed when the program was generated.
 *
 * Keeps: a flag that says what was built is accepted, in the meaning of its name; the others are refused together, with
 *        the command that builds what they ask for. */
#ifndef DIECAST_BUILT_H
#define DIECAST_BUILT_H

#include <stdbool.h>

#include "runtime/files/names.h"

/* What the program was generated from. */
typedef struct {
    const char *words;           /* after `gen`: the recipe and the fields that the command line set */
    const char *fields[3];       /* lines FIELD=VALUE in Lua's spelling; a field with several lines has any of them */
} Made;

/* What a flag says of a field. */
typedef struct Claim Claim;

typedef struct {
    Claim *claim;
    int n;
} Claims;

/* Whether flags of this name are of fields: one of the recipe's own names, row NULL, or one of a row. */
bool built_is(const Foreign *row, const char *name);
/* Adds what --name says. value: the word in the flag itself, behind =, or NULL; argv: the n words
 * behind it. Returns how many of these it took, or -1: the row says nothing of this value. Ends the program where the
 * value is none of that field. */
int built_take(Claims *c, const Made *made, const Foreign *row, const char *name, const char *value,
               int n, char *const *argv);
/* Ends the program unless the program is what all claims say. */
void built_check(const Claims *c, const Made *made);

#endif
