/* recipe.h -- the recipe room: a Lua file as plain values with file and line. */
#ifndef RECIPE_H
#define RECIPE_H

#include "gen/util.h"

/* ---- source.c: lines of the keys of a Lua table -------------------------------------------- */

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
    /* the text with (__place(I,{ ... })) for constructor I; __place: what the chunk is called with */
    Str marked;
    int return_line;         /* of the last return; 1: none */
    int nsets, capsets;
    CtorField *set;          /* assignments outside constructors: the last name before `=` */
} Source;

/* adds an error for a key set twice */
Source *source_scan(const char *file, const char *text, size_t n);

/* ---- recipe.c: Lua file -> plain values ---------------------------------------------------- */

typedef enum { RV_NIL, RV_BOOL, RV_INT, RV_FLOAT, RV_STRING, RV_TABLE, RV_OTHER } RvalKind;

typedef struct Rval Rval;
struct Rval {
    RvalKind kind;
    bool b;
    int64_t i;
    double f;
    const char *s;           /* RV_STRING: NUL-terminated (a string with NUL inside is refused);
                                RV_OTHER: the Lua type's name */
    /* RV_TABLE: named entries, in the order of the source where known, else by name */
    int nkeys;
    const char **key;
    Rval **value;
    int nitems;              /* RV_TABLE: list part 1..n; holes are refused */
    Rval **item;
    Loc loc;
};

/* Runs the recipe in a closed Lua (no io, os, clock, random; instruction, memory and CPU limits).
 * Overrides are "field.path=value" words of the command line, set over the table with loc.file =
 * NULL. User errors end the program. */
Rval *recipe_load(const char *path, char **override, int noverrides);
/* The target that stood in the table in which this memory.limit_gib was first set; NULL: none. */
const char *recipe_beside(Loc place, double gib);
/* told.c: what emitted files call a recipe's file that messages call `shown`: its path from gen's root, else name
 * (NULL: its file name). path NULL: name, wherever the file is. */
void recipe_tell(const char *shown, const char *path, const char *name);
const char *recipe_told(const char *path);                  /* path itself where nothing was told of it */
/* renamed.c: names of earlier releases (runtime/files/aliases.def). Today's name of a field, flag or group of fields;
 * today's word of a field. The name and word themselves where they are not of an earlier release; else
 * renamed_tell() has a line about them. */
const char *renamed_name(const char *name);
const char *renamed_value(const char *field, const char *word);
/* The words FIELD=VALUE in today's names. Old and new name of one field end the program. */
char **renamed_words(char **word, int n);
/* Once, on stderr: which names of earlier releases were given, and today's. */
void renamed_tell(void);
struct lua_State;
/* environment.c: a fresh table of globals */
void environment_push(struct lua_State *L);
void recipe_override(Rval *recipe, const char *word);      /* override.c: "a.b=value" */

#endif
