/* flags.h -- run-time flags by the rows of flags.def: recipe's defaults, then command line.
 *
 * Keeps: numbers read strictly and range-checked; anything unknown ends the program with
 *        EXIT_CONFIG. */
#ifndef DIECAST_FLAGS_H
#define DIECAST_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/run/built.h"

typedef bool FlagBOOL;
typedef int64_t FlagINT;
typedef int64_t FlagEVERY;       /* steps; 0: never; below it: so many epochs */
typedef double FlagFLOAT;
typedef const char *FlagSTRING;

enum {
#define FLAG(name, type, value, lo, hi, metavar, recipe, doc) FLAG_##name,
#include "runtime/run/flags.def"
    FLAG_COUNT
};

typedef struct {
#define FLAG(name, type, value, lo, hi, metavar, recipe, doc) Flag##type name;
#include "runtime/run/flags.def"
    bool given[FLAG_COUNT];      /* on the command line; index FLAG_<name> */
    const char **many[FLAG_COUNT];   /* of a MANY flag that was given: each of its texts, behind the last NULL */
} Flags;

/* A default set by the recipe, as text; a list ends with name NULL. */
typedef struct {
    const char *name, *value;
} FlagDefault;

/* Table's defaults, then the recipe's, then argv[1..]: --name value, --name=value, a BOOL also
 * bare; - and _ in names are the same, and so are the ALIAS rows of foreign.def: two names of a
 * flag with different values are refused. Strings stay pointers into argv or defaults. An empty
 * `out` becomes run/ beside the program. made: what flags of fields are compared with. */
void flags_parse(Flags *f, const Made *made, const FlagDefault *defaults, int argc, char **argv);
/* Before flags_parse: programs of this objective have the flags that OF rows give to it, and no
 * others of them. Until then all flags are there. */
void flags_of(const char *objective);
bool flags_has(int i);
/* Every flag in its section, with its present value: after flags_parse that is the recipe's default,
 * unless given. */
void flags_help(FILE *to, const char *program, const Flags *f);
/* Of flag i: its name; whether a resumed run keeps the checkpoint's value; its value as text
 * that flags_set reads back to the same bits (malloc'ed). */
const char *flags_name(int i);
/* The name as on the command line, "--merge-lora"; malloc'ed. Whether it says more than nothing, 0 or
 * false; of one that is below the least by default, whether it is not. */
char *flags_spelt(int i);
bool flags_on(const Flags *f, int i);
/* The value of a FLOAT, of a STRING. */
double flags_number(const Flags *f, int i);
const char *flags_word(const Flags *f, int i);
bool flags_sticky(int i);
char *flags_text(const Flags *f, int i);
/* How often a MANY flag was given. */
int64_t flags_many(const Flags *f, int i);
/* What all ranks must have the same of flag i, malloc'ed: its value and whether it was given, of a
 * path whether there is one; NULL: each rank may have its own. */
char *flags_common(const Flags *f, int i);
/* Sets flag i from text as on the command line, without marking it given; text must outlive f
 * for a STRING. NULL, or a malloc'ed "want ..., got ...". */
char *flags_set(Flags *f, int i, const char *text);
/* Index of a name in any spelling, or -1. */
int flags_find(const char *name);
/* An EVERY in steps. Whether what is done every `every`, first after step `from` (0: after `every`), is due
 * behind step `step` (1-based). */
int64_t flags_steps(int64_t every, int64_t steps_per_epoch);
bool flags_due(int64_t every, int64_t from, int64_t step, int64_t steps_per_epoch);

#endif
