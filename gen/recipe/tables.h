/* tables.h -- Lua tables of a recipe, with the source position of every field. */
#ifndef RECIPE_TABLES_H
#define RECIPE_TABLES_H

#include "gen/recipe/recipe.h"

#include <lua.h>

enum {
    MAX_FILES = 100, /* read by `use`, counted each time */
    MAX_DEPTH = 16   /* of nested tables, and of files that use files */
};

/* ---- files --------------------------------------------------------------------------------- */

void tables_begin(void);                     /* forgets all files and tables */
int tables_add_file(Source *src);  /* returns its number N; its Lua chunk is named "=#N" */
const Source *tables_file(int i);            /* NULL: no such file */
int tables_files(void);

/* ---- tables; t: index on the Lua stack ----------------------------------------------------- */

/* Lua function __place(i, table) of a file's chunk, with the file's number as upvalue: records the
 * table of constructor i and returns it. */
int table_made(lua_State *L);
/* Pushes the field `key`, or list item `item` if key is NULL. */
void table_push(lua_State *L, int t, const char *key, int64_t item);
/* Position of the value on top of the stack, held by `table` under key or item; parent: if it is
 * not known. *order: its rank in the source. */
Loc table_loc(lua_State *L, const void *table, const char *key, int64_t item, Loc parent,
              int *order);
/* Position of a table's constructor; line 0: not known. */
Loc table_start(const void *table);
/* Pushes a deep copy of the table at base with the fields of the one at changes set over it; lists
 * are replaced whole. Lua error if tables are nested deeper than MAX_DEPTH. */
void table_merge(lua_State *L, int base, int changes, int depth);
/* Replaces the table at t by a copy with current names if it has names of earlier releases. If it
 * has a field by both names, the earlier one counts if it was set in another file than the current
 * one: in a recipe that uses that file. Ends the program if both were set in one file. */
void table_rename(lua_State *L, int t);
/* Makes the fields of the table at t readable by names of earlier releases, and its groups also
 * writable: what is set in a group by its earlier name is found by table_rename(). */
void table_old_names(lua_State *L, int t);

#endif
