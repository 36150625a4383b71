/* recipe.h -- recipes: Lua files as plain values with file and line. */
#ifndef RECIPE_H
#define RECIPE_H

#include "gen/util.h"

/* ---- source.c: source lines of table keys ---------------------------------------------------- */

typedef struct {
    const char *key;         /* NULL: the next item of the list part */
    int line;
} CtorField;

/* One table constructor { ... } of a Lua source. */
typedef struct {
    int line;                /* of the { */
    int n, cap;
    CtorField *field;        /* in the order of the source */
} Ctor;

typedef struct {
    const char *file;
    int nctors, capctors;
    Ctor **ctor;             /* in the order of their { */
    /* the source with constructor I rewritten as (__place(I,{ ... })), so that running it tells
     * which table each constructor made; __place is the argument that the chunk is called with */
    Str marked;
    int return_line;         /* of the last return; 1: none */
    int nsets, capsets;
    CtorField *set;          /* assignments outside of constructors: the last name before `=` */
} Source;

/* Scans n bytes of Lua source; adds an error for a key that is set twice in a constructor. */
Source *source_scan(const char *file, const char *text, size_t n);

/* ---- recipe.c: plain values ------------------------------------------------------------------ */

typedef enum { RV_NIL, RV_BOOL, RV_INT, RV_FLOAT, RV_STRING, RV_TABLE, RV_OTHER } RvalKind;

typedef struct Rval Rval;
struct Rval {
    RvalKind kind;
    bool b;
    int64_t i;
    double f;
    const char *s;           /* RV_STRING: NUL-terminated (embedded NULs are errors);
                                RV_OTHER: name of the Lua type */
    /* RV_TABLE: named entries, in source order if known, else by name */
    int nkeys;
    const char **key;
    Rval **value;
    int nitems;              /* RV_TABLE: list part 1..n; holes are errors */
    Rval **item;
    Loc loc;
};

/* Runs a recipe in a sandbox (no io, os, clock, random; limits on instructions, memory and CPU
 * time). Overrides are "field.path=value" words of the command line; their loc.file is NULL. Errors
 * end the program. */
Rval *recipe_load(const char *path, char **override, int noverrides);
/* Target in the table that first set this memory.limit_gib; NULL: none. */
const char *recipe_limit_target(Loc place, double gib);
/* recipe_name.c: path of a recipe file in emitted files. recipe_name_set() registers the file that
 * messages call `shown`: it becomes `path` relative to gen's root, if below it, else name (NULL:
 * its file name). path NULL: always name. recipe_name() returns paths that were not registered
 * unchanged. */
void recipe_name_set(const char *shown, const char *path, const char *name);
const char *recipe_name(const char *path);
/* renamed.c: names of earlier releases (runtime/files/aliases.def). Return the current name of a
 * field, flag or group of fields, or the current word for a field's value; names and words that did
 * not change are returned as they are, others are noted for renamed_report(). */
const char *renamed_name(const char *name);
const char *renamed_value(const char *field, const char *word);
/* Returns the current name like renamed_name(), without noting it; NULL: it did not change. */
const char *renamed_find(const char *name);
/* Returns FIELD=VALUE words with current names. Ends the program if two of them set one field. */
char **renamed_words(char **word, int n);
/* Prints the earlier names that were used, with the current ones, once, on stderr. */
void renamed_report(void);
struct lua_State;
void environment_push(struct lua_State *L);          /* environment.c: pushes a table of globals */
/* override.c: sets a field by a word "a.b=value". */
void recipe_override(Rval *recipe, const char *word);
Rval *recipe_copy(const Rval *r);        /* to set other fields of it */

#endif
