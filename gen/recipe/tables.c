/* tables.c -- Lua tables of a recipe: source positions of their fields, copies, merging.
 *
 * Keeps: a field's position as long as its value is the one that its constructor gave it; else the
 *        position of the last assignment to that name.
 * Method: constructors pass their tables to table_made() (source.c); notes are found by a table's
 *         address, which is unique because Lua's collector is off. */
#include "gen/recipe/tables.h"
#include "runtime/files/names.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

/* The value of a table field when its source position was noted: a later assignment changes it. */
typedef struct {
    const char *key;                 /* NULL: item number `item` */
    int64_t item;
    Loc loc;
    int type;
    const void *ref;                 /* tables and functions */
    lua_Number num;
    const char *str;
} Noted;

typedef struct {
    const void *table; /* address; Lua's collector is off, so it is never used again */
    Loc loc;           /* of its {; line 0: made by extend */
    int n;
    Noted *field;
} Note;

static Source *files[MAX_FILES];
static int nfiles;
static Note *notes;
static int nnotes, capnotes;

void tables_begin(void)
{
    nfiles = nnotes = capnotes = 0;
    notes = NULL;
}

int tables_add_file(Source *src)
{
    if (nfiles == MAX_FILES)
        bug("%s: more than %d files", src->file, MAX_FILES);
    files[nfiles] = src;
    return nfiles++;
}

const Source *tables_file(int i)
{
    return i >= 0 && i < nfiles ? files[i] : NULL;
}

int tables_files(void)
{
    return nfiles;
}

/* ---- positions ----------------------------------------------------------------------------- */

static Note *note_of(const void *table)
{
    for (int i = 0; i < nnotes; i++)
        if (notes[i].table == table)
            return &notes[i];
    return NULL;
}

Loc table_start(const void *table)
{
    const Note *note = note_of(table);
    return note ? note->loc : (Loc){0};
}

static Note *new_note(const void *table)
{
    if (nnotes == capnotes) {
        int more = capnotes ? 2 * capnotes : 32;
        notes = arena_grow(notes, (size_t)nnotes * sizeof *notes, (size_t)more * sizeof *notes);
        capnotes = more;
    }
    notes[nnotes] = (Note){.table = table};
    return &notes[nnotes++];
}

/* Identity of the value on top of the stack, for unchanged(). */
static Noted snapshot(lua_State *L, const char *key, int64_t item, Loc loc)
{
    Noted d = {key, item, loc, lua_type(L, -1), NULL, 0, NULL};
    if (d.type == LUA_TNUMBER)
        d.num = lua_tonumber(L, -1);
    else if (d.type == LUA_TBOOLEAN)
        d.num = lua_toboolean(L, -1);
    else if (d.type == LUA_TSTRING)
        d.str = text_copy(lua_tostring(L, -1));
    else
        d.ref = lua_topointer(L, -1);
    return d;
}

static bool unchanged(const Noted *a, const Noted *b)
{
    bool same = a->num == b->num || (isnan(a->num) && isnan(b->num));
    return same && a->type == b->type && a->ref == b->ref
        && (!a->str || !strcmp(a->str, b->str));
}

void table_push(lua_State *L, int t, const char *key, int64_t item)
{
    if (key) {
        lua_pushstring(L, key);
        lua_rawget(L, t);
    } else
        lua_rawgeti(L, t, item);
}

/* __place(i, table) of the chunk of file (upvalue): notes what constructor i has made; returns
 * it. */
int table_made(lua_State *L)
{
    const Source *src = files[lua_tointeger(L, lua_upvalueindex(1))];
    const Ctor *c = src->ctor[lua_tointeger(L, 1)];
    Noted *field = arena_new((size_t)c->n * sizeof *field + 1);
    int64_t item = 0;
    for (int i = 0; i < c->n; i++) {
        const CtorField *f = &c->field[i];
        int64_t k = f->key ? 0 : ++item;
        table_push(L, 2, f->key, k);
        field[i] = snapshot(L, f->key, k, (Loc){src->file, f->line});
        lua_pop(L, 1);
    }
    Note *note = new_note(lua_topointer(L, 2));
    note->loc = (Loc){src->file, c->line};
    note->n = c->n;
    note->field = field;
    return 1;
}

Loc table_loc(lua_State *L, const void *table, const char *key, int64_t item, Loc parent,
                    int *order)
{
    const Note *note = note_of(table);
    *order = note ? note->n : 0;
    Noted now = snapshot(L, key, item, parent);
    for (int i = 0; note && i < note->n; i++) {
        const Noted *f = &note->field[i];
        if (key ? !f->key || strcmp(f->key, key) : f->key || f->item != item)
            continue;
        *order = i;
        if (unchanged(f, &now))
            return f->loc;
    }
    Loc found = parent;
    for (int f = nfiles - 1; key && f >= 0; f--)
        for (int i = 0; i < files[f]->nsets; i++)
            if (!strcmp(files[f]->set[i].key, key))
                found = (Loc){files[f]->file, files[f]->set[i].line};
    return found;
}

/* ---- copies -------------------------------------------------------------------------------- */

/* Pushes a deep copy of the table at t, with its positions. */
static void copy_table(lua_State *L, int t, int depth);

/* Replaces the value on top of the stack by a copy if it is a table. */
static void copy_value(lua_State *L, int depth)
{
    if (!lua_istable(L, -1))
        return;
    copy_table(L, lua_gettop(L), depth + 1);
    lua_remove(L, -2);
}

static void copy_fields(lua_State *L, int from, int to, int depth)
{
    lua_pushnil(L);
    while (lua_next(L, from)) {
        copy_value(L, depth);
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, to);
    }
}

/* Makes the note of the table at t from those of its parts; fields of b replace those of a. */
static void note_merged(lua_State *L, int t, const Note *a, const Note *b)
{
    int na = a ? a->n : 0, nb = b ? b->n : 0, n = 0;
    Noted *field = arena_new((size_t)(na + nb) * sizeof *field + 1);
    for (int i = 0; i < na + nb; i++) {
        const Noted *f = i < na ? &a->field[i] : &b->field[i - na];
        int j = 0;
        while (j < n && !(f->key ? field[j].key && !strcmp(field[j].key, f->key)
                                 : !field[j].key && field[j].item == f->item))
            j++;
        table_push(L, t, f->key, f->item);
        field[j] = snapshot(L, f->key, f->item, f->loc);
        lua_pop(L, 1);
        n += j == n;
    }
    const void *table = lua_topointer(L, t);
    Note *note = new_note(table);
    note->n = n;
    note->field = field;
}

/* Returns a copy, because notes move when others are added. */
static const Note *keep(const Note *note)
{
    return note ? memcpy(arena_new(sizeof *note), note, sizeof *note) : NULL;
}

static void check_depth(lua_State *L, int depth)
{
    luaL_checkstack(L, 16, "extend");
    if (depth > MAX_DEPTH)
        luaL_error(L, "extend: tables are nested deeper than %d, or contain themselves", MAX_DEPTH);
}

static void copy_table(lua_State *L, int t, int depth)
{
    check_depth(L, depth);
    const Note *a = keep(note_of(lua_topointer(L, t)));
    lua_newtable(L);
    int to = lua_gettop(L);
    copy_fields(L, t, to, depth);
    note_merged(L, to, a, NULL);
}

void table_merge(lua_State *L, int base, int changes, int depth)
{
    check_depth(L, depth);
    const Note *a = keep(note_of(lua_topointer(L, base))),
               *b = keep(note_of(lua_topointer(L, changes)));
    lua_newtable(L);
    int to = lua_gettop(L);
    copy_fields(L, base, to, depth);
    lua_pushnil(L);
    while (lua_next(L, changes)) {
        int key = lua_gettop(L) - 1;
        lua_pushvalue(L, key);
        lua_rawget(L, base);
        if (lua_istable(L, -1) && lua_istable(L, -2) && lua_rawlen(L, -1) == 0
            && lua_rawlen(L, -2) == 0) {
            table_merge(L, key + 2, key + 1, depth + 1);
        } else {
            lua_pushvalue(L, key + 1);
            copy_value(L, depth);
        }
        lua_pushvalue(L, key);
        lua_insert(L, -2);
        lua_rawset(L, to);
        lua_settop(L, key);
    }
    note_merged(L, to, a, b);
}

/* ---- names of earlier releases --------------------------------------------------------------- */

/* Records loc as the position of the value under key in the table at t. */
static void note_place(lua_State *L, int t, const char *key, Loc loc)
{
    Note *note = note_of(lua_topointer(L, t));
    note = note ? note : new_note(lua_topointer(L, t));
    int i = 0;
    while (i < note->n && !(note->field[i].key && !strcmp(note->field[i].key, key)))
        i++;
    if (i == note->n)
        note->field = arena_grow(note->field, (size_t)note->n * sizeof *note->field,
                                 (size_t)(note->n + 1) * sizeof *note->field);
    note->n += i == note->n;
    table_push(L, t, key, 0);
    note->field[i] = snapshot(L, key, 0, loc);
    lua_pop(L, 1);
}

/* Pushes the table in which the table at t has the field, *key its name there. Makes it if it has
 * to. false, and nothing is pushed: it is not there, or no table. */
static bool push_owner(lua_State *L, int t, const char *path, const char **key, bool make)
{
    const char *dot = strchr(path, '.');
    *key = dot ? dot + 1 : path;
    if (!dot) {
        lua_pushvalue(L, t);
        return true;
    }
    const char *section = text_print("%.*s", (int)(dot - path), path);
    table_push(L, t, section, 0);
    if (lua_isnil(L, -1) && make) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, t, section);
    }
    if (lua_istable(L, -1))
        return true;
    lua_pop(L, 1);
    return false;
}

/* True if the table at t has the field; stores its position in *loc. */
static bool has_field(lua_State *L, int t, const char *path, Loc *loc)
{
    const char *key;
    int order;
    if (!push_owner(L, t, path, &key, false))
        return false;
    table_push(L, lua_gettop(L), key, 0);
    const bool has = !lua_isnil(L, -1);
    if (has)
        *loc = table_loc(L, lua_topointer(L, -2), key, 0, (Loc){files[0]->file, 0}, &order);
    lua_pop(L, 2);
    return has;
}

static void move_field(lua_State *L, int t, const char *before, const char *now, Loc loc)
{
    const char *key;
    const int top = lua_gettop(L);
    push_owner(L, t, before, &key, false);
    const int from = lua_gettop(L);
    table_push(L, from, key, 0);
    lua_pushnil(L);
    lua_setfield(L, from, key);
    /* the current section is not a table: config refuses it */
    if (!push_owner(L, t, now, &key, true)) {
        lua_settop(L, top);
        return;
    }
    const int to = lua_gettop(L);
    lua_pushvalue(L, from + 1);
    lua_setfield(L, to, key);
    note_place(L, to, key, loc);
    if (strchr(now, '.'))
        note_place(L, t, text_print("%.*s", (int)strcspn(now, "."), now), loc);
    lua_pushnil(L);
    if (strchr(before, '.') && !lua_next(L, from)) {
        lua_pushnil(L);                   /* its section is empty now */
        lua_setfield(L, t, text_print("%.*s", (int)strcspn(before, "."), before));
    }
    lua_settop(L, top);
}

static void copy_once(lua_State *L, int t, bool *copied)
{
    if (*copied)
        return;
    copy_table(L, t, 0);
    lua_replace(L, t);
    *copied = true;
}

/* Removes the group of a field if it has an earlier name and no fields: read_old() makes such. */
static void remove_empty(lua_State *L, int t, const char *field, bool *copied)
{
    const int top = lua_gettop(L);
    const char *group = text_print("%.*s", (int)strcspn(field, "."), field);
    if (!strchr(field, '.') || !renamed_find(group))
        return;
    table_push(L, t, group, 0);
    lua_pushnil(L);
    const bool empty = lua_istable(L, top + 1) && !lua_next(L, top + 1);
    lua_settop(L, top);
    if (!empty)
        return;
    copy_once(L, t, copied);
    renamed_name(group);
    lua_pushnil(L);
    lua_setfield(L, t, group);
}

/* Replaces the table at t by a copy with current field names, if it has earlier ones. */
static void rename_fields(lua_State *L, int t)
{
    bool copied = false;
    Loc loc, other;
    for (int i = 0; i < renamed_rows; i++) {
        const char *before = renamed_row[i].before, *now = renamed_row[i].now;
        if (has_field(L, t, before, &loc)) {
            if (has_field(L, t, now, &other) && !strcmp(loc.file, other.file))
                err(loc, "%s and %s are the old and the new name of one field: leave out %s",
                    before, now, before);
            copy_once(L, t, &copied);
            renamed_name(before);
            move_field(L, t, before, now, loc);
        }
        remove_empty(L, t, before, &copied);
    }
}

/* The same for values: only `objective` has values that were renamed. */
static void rename_words(lua_State *L, int t)
{
    for (const RenamedWord *w = renamed_word_row; *w->field; w++) {
        const char *key;
        Loc loc;
        const int top = lua_gettop(L);
        if (!has_field(L, t, w->field, &loc))
            continue;
        push_owner(L, t, w->field, &key, false);
        table_push(L, lua_gettop(L), key, 0);
        const bool old = lua_type(L, -1) == LUA_TSTRING && !strcmp(lua_tostring(L, -1), w->before);
        lua_settop(L, top);
        if (!old)
            continue;
        copy_table(L, t, 0);
        lua_replace(L, t);
        push_owner(L, t, w->field, &key, false);
        lua_pushstring(L, renamed_value(w->field, w->before));
        lua_setfield(L, -2, key);
        note_place(L, lua_gettop(L), key, loc);
        lua_settop(L, top);
    }
}

static int read_old(lua_State *L);

/* Sets read_old() as what reads fields that the table at t does not have. */
static void read_by(lua_State *L, int t, int recipe, const char *group)
{
    lua_newtable(L);
    lua_pushvalue(L, recipe);
    lua_pushstring(L, group);
    lua_pushcclosure(L, read_old, 2);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, t);
}

/* __index(table, key) of what use and extend return. Upvalues: the recipe, and the name of the
 * group that `table` is, "" for the recipe. A group by its earlier name is a table of its own, so
 * that what is set there stays apart from the fields by their current names. */
static int read_old(lua_State *L)
{
    const int recipe = lua_upvalueindex(1);
    const char *group = lua_tostring(L, lua_upvalueindex(2)), *key;
    if (lua_type(L, 2) != LUA_TSTRING)
        return 0;
    const char *name = text_print("%s%s%s", group, *group ? "." : "", lua_tostring(L, 2)),
               *now = renamed_find(name);
    if (!now)
        return 0;
    if (!renamed(name)) {                 /* a group */
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, recipe, name);
        read_by(L, lua_gettop(L), recipe, name);
        return 1;
    }
    if (!push_owner(L, recipe, now, &key, false))
        return 0;
    table_push(L, lua_gettop(L), key, 0);
    if (!lua_isnil(L, -1))
        renamed_name(name);
    return 1;
}

void table_old_names(lua_State *L, int t)
{
    luaL_checkstack(L, 16, "recipe");
    read_by(L, t, t, "");
    for (int i = 0; i < renamed_rows; i++) {
        const char *before = renamed_row[i].before, *dot = strchr(before, '.');
        if (!dot)
            continue;
        const char *group = text_print("%.*s", (int)(dot - before), before);
        table_push(L, t, group, 0);
        if (lua_istable(L, -1))
            read_by(L, lua_gettop(L), t, group);
        lua_pop(L, 1);
    }
}

void table_rename(lua_State *L, int t)
{
    luaL_checkstack(L, 16, "recipe");
    rename_fields(L, t);
    rename_words(L, t);
}

