/* flags.h -- command-line flags: rows of flags.def, defaults of the recipe, arguments.
 *
 * Keeps: numbers are parsed strictly and range-checked; anything unknown ends the program with
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
typedef int64_t FlagEVERY;       /* steps; 0: never; negative: epochs */
typedef double FlagFLOAT;
typedef const char *FlagSTRING;

enum {
#define FLAG(name, type, value, lo, hi, metavar, recipe, readers, doc) FLAG_##name,
#include "runtime/run/flags.def"
    FLAG_COUNT
};

typedef struct {
#define FLAG(name, type, value, lo, hi, metavar, recipe, readers, doc) Flag##type name;
#include "runtime/run/flags.def"
    bool given[FLAG_COUNT];      /* set on the command line; index FLAG_<name> */
    char by[FLAG_COUNT][64];     /* the name that it was given as */
    const char **many[FLAG_COUNT];   /* values of a repeatable (MANY) flag, ends with NULL */
    char *remark[3];             /* notes on the command line: old names, flags given twice, steps
                                    and epochs; NULL: none */
} Flags;

/* A default set by the recipe, as text; the list ends with name NULL. */
typedef struct {
    const char *name, *value;
} FlagDefault;

/* Sets *f from the table's defaults, the recipe's, then argv[1..]: --name value, --name=value, a
 * BOOL also bare. - and _ in names are equivalent, as are the ALIAS rows of aliases.def: two names
 * of one flag with different values are refused. Strings point into argv or defaults. An empty
 * `out` becomes run/ next to the program. made: the build that flags for recipe fields are compared
 * with. */
void flags_parse(Flags *f, const Made *made, const FlagDefault *defaults, int argc, char **argv);
/* Prints the notes on the command line. */
void flags_note(const Flags *f);
/* Ends the program with EXIT_CONFIG if a flag was given that this command does not read. command:
 * its flag; -1: training. weights: it loads finished weights. */
void flags_check_readers(const Flags *f, int command, bool weights);
/* Selects the flags of this objective: those of other objectives do not exist. Call before
 * flags_parse(); until then all flags exist. */
void flags_of(const char *objective);
bool flags_has(int i);
/* Prints every flag by section with its current value: after flags_parse() the recipe's default
 * unless given. f->verbose: with all details, otherwise the first sentence. */
void flags_help(FILE *to, const char *program, const Flags *f);
/* Returns the name of flag i. */
const char *flags_name(int i);
/* Returns the name of flag i as typed on the command line, "--merge-lora"; malloc'ed. */
char *flags_spelt(int i);
/* Returns false if the value of flag i is empty, 0 or false. If the default of an INT or EVERY flag
 * is below its minimum, returns whether the value is at least the minimum. */
bool flags_on(const Flags *f, int i);
/* Returns the value of a FLOAT flag. */
double flags_number(const Flags *f, int i);
/* Returns the value of a STRING flag. */
const char *flags_word(const Flags *f, int i);
/* Returns true if a resumed run keeps the checkpoint's value of flag i. */
bool flags_sticky(int i);
/* Returns true if this command, a flag, takes the value of flag i from the run whose weights it
 * loads, unless it is given: rows RECORDS. */
bool flags_of_run(int i, int command);
/* Returns the value of flag i as malloc'ed text that flags_set() reads back to the same bits; of a
 * MANY flag all values, "a, b", to show and to compare. */
char *flags_text(const Flags *f, int i);
/* Returns true for a MANY flag. */
bool flags_repeats(int i);
/* Number of values of a MANY flag. */
int64_t flags_many(const Flags *f, int i);
/* Returns what must be equal on all ranks, malloc'ed: the flag's value and whether it was given;
 * for a path, only whether there is one. NULL: ranks may differ. */
char *flags_common(const Flags *f, int i);
/* Sets flag i from text as typed, without marking it given; for a STRING, text must outlive f.
 * Returns NULL, or a malloc'ed "must be ..., got ...". */
char *flags_set(Flags *f, int i, const char *text);
/* Makes the list of a MANY flag empty. */
void flags_clear(Flags *f, int i);
/* Appends a value, which must outlive f, to the list of a MANY flag. */
void flags_add(Flags *f, int i, const char *text);
/* Returns the index of a flag name in any spelling, or -1. */
int flags_find(const char *name);
/* flags_steps(): an EVERY value in steps. flags_due(): whether an action with that interval is due
 * after step `step` (1-based), the first time after step `from` (0: after `every`). */
int64_t flags_steps(int64_t every, int64_t steps_per_epoch);
bool flags_due(int64_t every, int64_t from, int64_t step, int64_t steps_per_epoch);

#endif
