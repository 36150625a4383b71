/* recipe.c -- runs a recipe in a closed Lua and turns the table it returns into plain values.
 *
 * In:     a Lua file, overrides of the command line.     Out: Rval with the place of every value.
 * Keeps:  the same values on every machine; what Lua may see is in environment.c.
 * Method: limits on memory, instructions and CPU time; constructors hand over the tables that they
 *         make (source.c), so that lines are joined to tables by identity. */
#define _GNU_SOURCE
#include "gen/recipe/recipe.h"
#include "runtime/files/names.h"
#include "runtime/files/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    MAX_TEXT = 1 << 20,    /* bytes of one Lua file */
    MAX_MEMORY = 64 << 20, /* bytes that Lua may hold */
    MAX_INSTRUCTIONS = 20000000,
    HOOK_EVERY = 100000, /* instructions */
    MAX_CPU = 2,         /* seconds; stops what the hook cannot see, such as string.find */
    MAX_FILES = 100,     /* read by `use`, each time counted */
    MAX_EXTENDS = 1000,
    MAX_DEPTH = 16 /* of tables in tables */
};

/* What a table field held when its place in the source was noted: a later assignment changes it. */
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

static size_t memory_used;
static long instructions;
static Source **files;               /* chunk name "=#i" belongs to files[i] */
static int nfiles;
static const char *loading[MAX_DEPTH];   /* files being run, outermost first */
static int nloading;
static Note *notes;
static int nnotes, capnotes, nextends;
static char cpu_message[256];
/* Every memory.limit_gib beside a target, in the order in which tables were made. */
static struct { Loc loc; double gib; const char *target; } limits[MAX_FILES + 2 * MAX_EXTENDS];
static int nlimits;

/* ---- limits -------------------------------------------------------------------------------- */

static void *limited_alloc(void *ud, void *ptr, size_t old, size_t new)
{
    (void)ud;
    if (!ptr)
        old = 0;
    if (new == 0) {
        free(ptr);
        memory_used -= old;
        return NULL;
    }
    if (new > old && memory_used + (new - old) > MAX_MEMORY)
        return NULL;
    void *p = realloc(ptr, new);
    if (p)
        memory_used += new - old;
    return p;
}

static void count_hook(lua_State *L, lua_Debug *ar)
{
    instructions += HOOK_EVERY;
    if (instructions < MAX_INSTRUCTIONS)
        return;
    lua_getinfo(L, "Sl", ar);
    luaL_error(L, "%s:%d: the recipe runs for more than %d million Lua instructions; "
               "is there an endless loop?", ar->short_src, ar->currentline,
               MAX_INSTRUCTIONS / 1000000);
}

static void cpu_limit_reached(int sig)
{
    (void)sig;
    if (write(STDERR_FILENO, cpu_message, strlen(cpu_message)) < 0)
        _exit(1);                              /* nowhere to say it */
    _exit(1);
}

static void limit_cpu(const char *path, struct rlimit *before)
{
    struct rusage used;
    snprintf(cpu_message, sizeof cpu_message,
             "%.180s: the recipe needs more than %d s of CPU time\n", path, MAX_CPU);
    if (getrlimit(RLIMIT_CPU, before) || getrusage(RUSAGE_SELF, &used))
        bug("cannot read the CPU limit: %s", strerror(errno));
    struct rlimit lim = *before;
    rlim_t want = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + MAX_CPU;
    if (lim.rlim_cur == RLIM_INFINITY || lim.rlim_cur > want)
        lim.rlim_cur = want;
    signal(SIGXCPU, cpu_limit_reached);
    if (setrlimit(RLIMIT_CPU, &lim))
        bug("cannot limit CPU time: %s", strerror(errno));
}

/* ---- places -------------------------------------------------------------------------------- */

/* Splits "#3:14: text" of a Lua message into its place and the text. */
static Loc message_place(const char **text, Loc otherwise)
{
    int file, line, used = 0;
    if (sscanf(*text, "#%d:%d: %n", &file, &line, &used) == 2 && used && file >= 0
        && file < nfiles) {
        *text += used;
        return (Loc){files[file]->file, line};
    }
    return otherwise;
}

/* The Lua line that called the running C function. */
static Loc caller(lua_State *L)
{
    lua_Debug ar;
    if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "Sl", &ar) || ar.source[0] != '=')
        return (Loc){files[0]->file, 0};
    return (Loc){files[atoi(ar.source + 2)]->file, ar.currentline};
}

static Note *note_of(const void *table)
{
    for (int i = 0; i < nnotes; i++)
        if (notes[i].table == table)
            return &notes[i];
    return NULL;
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

/* What the value at the top of the stack is, to be recognised later. */
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

/* Pushes the field of the table at t that f names. */
static void push_field(lua_State *L, int t, const char *key, int64_t item)
{
    if (key) {
        lua_pushstring(L, key);
        lua_rawget(L, t);
    } else
        lua_rawgeti(L, t, item);
}

/* __place(i, table) of the chunk of file (upvalue): notes what constructor i has made; returns it. */
static int lua_place(lua_State *L)
{
    const Source *src = files[lua_tointeger(L, lua_upvalueindex(1))];
    const Ctor *c = src->ctor[lua_tointeger(L, 1)];
    Noted *field = arena_new((size_t)c->n * sizeof *field + 1);
    int64_t item = 0;
    for (int i = 0; i < c->n; i++) {
        const CtorField *f = &c->field[i];
        int64_t k = f->key ? 0 : ++item;
        push_field(L, 2, f->key, k);
        field[i] = snapshot(L, f->key, k, (Loc){src->file, f->line});
        lua_pop(L, 1);
    }
    Note *note = new_note(lua_topointer(L, 2));
    note->loc = (Loc){src->file, c->line};
    note->n = c->n;
    note->field = field;
    return 1;
}

/* The place of the value at the top of the stack, held by `table` under key or item. */
static Loc place_of(lua_State *L, const void *table, const char *key, int64_t item, Loc parent,
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

/* Notes for which target the table at t sets memory.limit_gib. */
static void note_limit(lua_State *L, int t)
{
    int top = lua_gettop(L), order;
    lua_checkstack(L, 4);
    push_field(L, t, "target", 0);
    push_field(L, t, "memory", 0);
    if (lua_type(L, top + 1) == LUA_TSTRING && lua_istable(L, top + 2)) {
        push_field(L, top + 2, "limit_gib", 0);
        if (lua_type(L, -1) == LUA_TNUMBER) {
            Loc loc = place_of(L, lua_topointer(L, top + 2), "limit_gib", 0, (Loc){0}, &order);
            limits[nlimits].loc = loc;
            limits[nlimits].gib = lua_tonumber(L, -1);
            limits[nlimits++].target = text_copy(lua_tostring(L, top + 1));
        }
    }
    lua_settop(L, top);
}

/* ---- what a recipe can call ---------------------------------------------------------------- */

static void load_file(lua_State *L, const char *shown, const char *path, Loc from);

static int names_in(const char *dir, const char *below, const char **name, int n, int max)
{
    struct dirent **list;
    int k = scandir(dir, &list, NULL, alphasort);
    for (int i = 0; i < k; i++) {
        char *dot = strrchr(list[i]->d_name, '.');
        if (n < max && dot && dot != list[i]->d_name && !strcmp(dot, ".lua"))
            name[n++] = text_print("%s%.*s", below, (int)(dot - list[i]->d_name), list[i]->d_name);
        free(list[i]);
    }
    if (k >= 0)
        free(list);
    return n;
}

static const char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? text_print("%.*s", (int)(slash - path), path) : ".";
}

/* A file named on the command line has no recipe that it stands beside: then the list is told, too. */
static void no_such_file(Loc loc, const char *said, const char *word)
{
    enum { MAX = 200 };
    const char *name[MAX], *folder = folder_of(files[0]->file);
    const char *slash = strrchr(word, '/');
    char *below = text_print("%.*s", slash ? (int)(slash - word) + 1 : 0, word);
    int n = names_in(text_print("%s/%s", folder, below), below, name, 0, MAX);
    n = names_in(text_print("recipes/%s", below), below, name, n, MAX);
    n = names_in(text_print("%s/recipes/%s", gen_root(), below), below, name, n, MAX);
    const char *near = text_nearest(word, name, n);
    Str all = {0};
    qsort(name, (size_t)n, sizeof *name, text_order);
    for (int i = 0; i < n && !loc.file; i++)
        if (!i || strcmp(name[i], name[i - 1]))
            str_print(&all, "%s%s", i ? ", " : "; there are: ", name[i] + strlen(below));
    err(loc, "%s: no file %s.lua below %s or the project's recipes/%s%s", said, word, folder,
        near ? text_print("; did you mean \"%s\"?", loc.file ? near : near + strlen(below)) : "",
        all.n ? all.text : "");
}

/* Runs the file that a name means: beside the recipe, of clusters in recipes/ of this folder, of the project. */
static void use_file(lua_State *L, Loc loc, const char *said, const char *word)
{
    if (!*word || strlen(word) > 200 || *word == '/' || strstr(word, "..")
        || word[strspn(word,
                       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/")])
        err(loc,
            "%s: want a name below recipes/ made of letters, digits and _ . + - /, without "
            "\"..\"",
            said);
    const char *folder = folder_of(files[0]->file), *path = NULL;
    const char *shown = strcmp(folder, ".") || !strncmp(files[0]->file, "./", 2) ? text_print("%s/%s.lua", folder, word)
                                                                                 : text_print("%s.lua", word);
    if (!access(shown, F_OK))
        path = shown;
    if (!path && !strncmp(word, "clusters/", 9)) {
        shown = text_print("recipes/%s.lua", word);
        path = access(shown, F_OK) ? NULL : shown;
    }
    if (!path) {
        shown = text_print("recipes/%s.lua", word);
        path = text_print("%s/%s", gen_root(), shown);
        if (access(path, F_OK))
            no_such_file(loc, said, word);
    }
    load_file(L, shown, path, loc);
    if (!lua_istable(L, -1))
        err((Loc){shown, files[nfiles - 1]->return_line},
            "want a file that returns a table, got %s", luaL_typename(L, -1));
}

/* use "models/x": the table that recipes/models/x.lua returns, a new copy each time. */
static int lua_use(lua_State *L)
{
    Loc loc = caller(L);
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING)
        err(loc, "use: want one name such as \"models/gpt2_124m\"");
    const char *word = text_copy(lua_tostring(L, 1));
    use_file(L, loc, text_print("use \"%s\"", word), word);
    return 1;
}

/* Pushes a deep copy of the table at t, noting the same places. */
static void copy_table(lua_State *L, int t, int depth);

/* The value at the top of the stack becomes a copy of itself if it is a table. */
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

/* Writes the note of the table at t from those of the tables it was made of: later ones win. */
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
        push_field(L, t, f->key, f->item);
        field[j] = snapshot(L, f->key, f->item, f->loc);
        lua_pop(L, 1);
        n += j == n;
    }
    const void *table = lua_topointer(L, t);
    Note *note = new_note(table);
    note->n = n;
    note->field = field;
}

/* A copy, as the notes may move while others are made. */
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

static void merge_tables(lua_State *L, int base, int changes, int depth)
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
            merge_tables(L, key + 2, key + 1, depth + 1);
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

/* Notes the place of the value that the table at t has under key. */
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
    push_field(L, t, key, 0);
    note->field[i] = snapshot(L, key, 0, loc);
    lua_pop(L, 1);
}

/* Pushes the table in which the table at t has the field, *key its name there. Makes it if it has to.
 * false, and nothing is pushed: it is not there, or no table. */
static bool push_owner(lua_State *L, int t, const char *path, const char **key, bool make)
{
    const char *dot = strchr(path, '.');
    *key = dot ? dot + 1 : path;
    if (!dot) {
        lua_pushvalue(L, t);
        return true;
    }
    const char *section = text_print("%.*s", (int)(dot - path), path);
    push_field(L, t, section, 0);
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

/* Whether the table at t has the field; *loc: where. */
static bool has_field(lua_State *L, int t, const char *path, Loc *loc)
{
    const char *key;
    int order;
    if (!push_owner(L, t, path, &key, false))
        return false;
    const Note *note = note_of(lua_topointer(L, -1));
    push_field(L, lua_gettop(L), key, 0);
    const bool has = !lua_isnil(L, -1);
    if (has)
        *loc = place_of(L, lua_topointer(L, -2), key, 0, note ? note->loc : (Loc){files[0]->file, 0}, &order);
    lua_pop(L, 2);
    return has;
}

static void move_field(lua_State *L, int t, const char *before, const char *now, Loc loc)
{
    const char *key;
    const int top = lua_gettop(L);
    push_owner(L, t, before, &key, false);
    const int from = lua_gettop(L);
    push_field(L, from, key, 0);
    lua_pushnil(L);
    lua_setfield(L, from, key);
    if (!push_owner(L, t, now, &key, true)) {   /* today's section is no table, which is refused as such */
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
    if (from != t && !lua_next(L, from) && strchr(before, '.')) {
        lua_pushnil(L);                   /* nothing is left of its section */
        lua_setfield(L, t, text_print("%.*s", (int)strcspn(before, "."), before));
    }
    lua_settop(L, top);
}

/* The table at t becomes a copy of itself in today's names and words, where it has others. */
static void rename_fields(lua_State *L, int t)
{
    bool copied = false;
    Loc loc, other;
    for (int i = 0; i < renamed_rows; i++) {
        const char *before = renamed_row[i].before, *now = renamed_row[i].now;
        if (!has_field(L, t, before, &loc))
            continue;
        if (has_field(L, t, now, &other))
            err(loc, "%s and %s are one field, by its old name and its new one: leave out %s", before, now, before);
        if (!copied) {
            copy_table(L, t, 0);
            lua_replace(L, t);
        }
        copied = true;
        renamed_name(before);
        move_field(L, t, before, now, loc);
    }
}

/* A recipe's words are those of strings: of a field without a section. */
static void rename_words(lua_State *L, int t)
{
    Loc loc;
    lua_getfield(L, t, "objective");
    const char *word = lua_type(L, -1) == LUA_TSTRING ? text_copy(lua_tostring(L, -1)) : "";
    lua_pop(L, 1);
    if (!renamed_word("objective", word) || !has_field(L, t, "objective", &loc))
        return;
    copy_table(L, t, 0);
    lua_replace(L, t);
    lua_pushstring(L, renamed_value("objective", word));
    lua_setfield(L, t, "objective");
    note_place(L, t, "objective", loc);
}

static void rename_all(lua_State *L, int t)
{
    luaL_checkstack(L, 16, "recipe");
    rename_fields(L, t);
    rename_words(L, t);
}

/* extend(base, changes): a deep copy of base with the fields of changes set over it; lists are
 * replaced whole. */
static int lua_extend(lua_State *L)
{
    Loc loc = caller(L);
    if (lua_gettop(L) != 2 || !lua_istable(L, 1) || !lua_istable(L, 2))
        err(loc, "extend: want two tables: extend(base, { field = value, ... })");
    if (++nextends > MAX_EXTENDS)
        err(loc, "extend: called more than %d times", MAX_EXTENDS);
    note_limit(L, 1);
    note_limit(L, 2);
    rename_all(L, 1);
    rename_all(L, 2);
    merge_tables(L, 1, 2, 0);
    return 1;
}

/* Runs a file and pushes what it returns. path: where it is; shown: what messages call it. */
static void load_file(lua_State *L, const char *shown, const char *path, Loc from)
{
    for (int i = 0; i < nloading; i++)
        if (!strcmp(loading[i], path))
            err(from, "use: %s is already being read: it uses itself", shown);
    if (nloading == MAX_DEPTH || nfiles == MAX_FILES)
        err(from, "use: more than %d files", nfiles == MAX_FILES ? MAX_FILES : MAX_DEPTH);
    size_t n;
    char *text = file_text(path, MAX_TEXT, &n);
    if (!text)
        err(from, "cannot read %s: %s", shown, strerror(errno));
    const size_t mark = utf8_mark(text, n);
    text += mark, n -= mark;
    if (n && *text == '\033')
        err(from, "%s is Lua bytecode; want source text", shown);
    err_source(shown, text);
    Source *src = source_scan(shown, text, n);
    const char *folder = nfiles ? text_print("%s/", folder_of(files[0]->file)) : "";
    const size_t beside = strlen(folder);
    recipe_tell(shown, path, !nfiles ? NULL : strncmp(shown, folder, beside) ? shown : shown + beside);
    int file = nfiles++;
    files[file] = src;
    loading[nloading++] = path;
    char chunk[16];
    snprintf(chunk, sizeof chunk, "=#%d", file);
    /* the text itself first: messages of syntax speak of it */
    if (luaL_loadbufferx(L, text, n, chunk, "t")
        || luaL_loadbufferx(L, src->marked.text, src->marked.n, chunk, "t"))
        lua_error(L);
    environment_push(L);
    const luaL_Reg ours[] = {{"use", lua_use}, {"extend", lua_extend}, {NULL, NULL}};
    luaL_setfuncs(L, ours, 0);
    lua_setupvalue(L, -2, 1);
    lua_pushinteger(L, file);
    lua_pushcclosure(L, lua_place, 1);
    lua_call(L, 1, 1);
    nloading--;
    if (lua_istable(L, -1))
        note_limit(L, lua_gettop(L));
}

/* ---- Lua values -> Rval -------------------------------------------------------------------- */

typedef struct {
    const char *key;
    Rval *value;
    int order;
} Entry;

static int by_order(const void *pa, const void *pb)
{
    const Entry *a = pa, *b = pb;
    return a->order != b->order ? (a->order < b->order ? -1 : 1) : strcmp(a->key, b->key);
}

static const void *outer[MAX_DEPTH];      /* the tables around the one being converted */

static Rval *convert(lua_State *L, Loc loc, const char *path, int depth);

static void convert_table(lua_State *L, Rval *r, const char *path, int depth)
{
    int t = lua_gettop(L);
    const void *self = lua_topointer(L, t);
    for (int i = 0; i < depth; i++)
        if (outer[i] == self)
            err(r->loc, "%s: the table contains itself", path);
    if (depth == MAX_DEPTH)
        err(r->loc, "%s: tables are nested deeper than %d", path, MAX_DEPTH);
    outer[depth] = self;
    luaL_checkstack(L, 8, "recipe");
    int cap = 0, norder = 0;
    int64_t nitems = 0, top = 0;
    lua_pushnil(L);
    while (lua_next(L, t)) {
        lua_pop(L, 1);
        cap++;
    }
    Entry *e = arena_new((size_t)cap * sizeof *e + 1);
    lua_pushnil(L);
    while (lua_next(L, t)) {
        if (lua_isinteger(L, -2)) {
            int64_t k = lua_tointeger(L, -2);
            top = k > top ? k : top;
            top = k < 1 ? INT64_MAX : top;
            nitems++;
        } else if (lua_type(L, -2) == LUA_TSTRING) {
            const char *key = text_copy(lua_tostring(L, -2));
            Loc at = place_of(L, self, key, 0, r->loc, &e[norder].order);
            e[norder].key = key;
            e[norder++].value = convert(L, at, text_print("%s%s%s", path, *path ? "." : "", key),
                                        depth + 1);
        } else
            err(r->loc, "%s: a key is a %s; want a name", *path ? path : "the recipe",
                luaL_typename(L, -2));
        lua_pop(L, 1);
    }
    if (top != nitems)
        err(r->loc, "%s: a list with holes: its keys are not 1, 2, 3, ...",
            *path ? path : "the recipe");
    qsort(e, (size_t)norder, sizeof *e, by_order);
    r->nkeys = norder;
    r->key = arena_new((size_t)norder * sizeof *r->key + 1);
    r->value = arena_new((size_t)norder * sizeof *r->value + 1);
    for (int i = 0; i < norder; i++) {
        r->key[i] = e[i].key;
        r->value[i] = e[i].value;
    }
    r->nitems = (int)nitems;
    r->item = arena_new((size_t)nitems * sizeof *r->item + 1);
    for (int i = 0; i < r->nitems; i++) {
        int order;
        lua_rawgeti(L, t, i + 1);
        Loc at = place_of(L, self, NULL, i + 1, r->loc, &order);
        r->item[i] = convert(L, at, text_print("%s[%d]", path, i + 1), depth + 1);
        lua_pop(L, 1);
    }
}

/* The value at the top of the stack; it stays there. */
static Rval *convert(lua_State *L, Loc loc, const char *path, int depth)
{
    Rval *r = arena_new(sizeof *r);
    r->loc = loc;
    size_t n;
    switch (lua_type(L, -1)) {
    case LUA_TNIL:
        r->kind = RV_NIL;
        break;
    case LUA_TBOOLEAN:
        r->kind = RV_BOOL;
        r->b = lua_toboolean(L, -1);
        break;
    case LUA_TNUMBER:
        r->kind = lua_isinteger(L, -1) ? RV_INT : RV_FLOAT;
        r->i = r->kind == RV_INT ? lua_tointeger(L, -1) : 0;
        r->f = lua_tonumber(L, -1);
        break;
    case LUA_TSTRING:
        r->kind = RV_STRING;
        r->s = text_copy(lua_tolstring(L, -1, &n));
        if (strlen(r->s) != n)
            err(loc, "%s: a string with a NUL byte", path);
        break;
    case LUA_TTABLE:
        r->kind = RV_TABLE;
        convert_table(L, r, path, depth);
        break;
    default:
        r->kind = RV_OTHER;
        r->s = luaL_typename(L, -1);
    }
    return r;
}

/* ---- the room ------------------------------------------------------------------------------ */

typedef struct {
    const char *path, *cluster;      /* cluster: the word of the command line; NULL: none */
    Rval *result;
} Job;

/* The recipe's table is at the top of the stack: its cluster becomes the one of the command line; "": none. */
static void set_cluster(lua_State *L, const char *name)
{
    const int recipe = lua_gettop(L);
    if (strchr(name, '/'))
        err((Loc){0}, "cluster=%s: want a name, of recipes/clusters/NAME.lua", name);
    if (*name)
        use_file(L, (Loc){0}, text_print("cluster=%s", name), text_print("clusters/%s", name));
    else
        lua_pushnil(L);
    lua_setfield(L, recipe, "cluster");
    lua_settop(L, recipe);
}

/* Notes that the command line chose it: the text of its table is the word, or it is an empty text. */
static void note_cluster(Rval *recipe, const char *name)
{
    for (int i = 0; i < recipe->nkeys; i++)
        if (!strcmp(recipe->key[i], "cluster")) {
            recipe->value[i]->s = name;
            if (recipe->value[i]->nkeys)
                recipe->value[i]->loc = recipe->value[i]->value[0]->loc;
            return;
        }
    recipe_override(recipe, "cluster=");
}

static int protected_load(lua_State *L)
{
    Job *job = lua_touserdata(L, 1);
    lua_gc(L, LUA_GCSTOP);
    load_file(L, job->path, job->path, (Loc){0});
    Loc at = {job->path, files[0]->return_line};
    if (!lua_istable(L, -1))
        err(at, "want a recipe that returns a table: return { target = \"cpu\", ... }; got %s",
            lua_isnil(L, -1) ? "nothing" : luaL_typename(L, -1));
    const void *recipe = lua_topointer(L, -1);
    if (job->cluster)
        set_cluster(L, job->cluster);
    const Note *note = note_of(recipe);
    if (note && note->loc.line)
        at = note->loc;
    rename_all(L, lua_gettop(L));
    job->result = convert(L, at, "", 0);
    return 0;
}

const char *recipe_beside(Loc place, double gib)
{
    for (int i = 0; place.file && i < nlimits; i++)
        if (limits[i].loc.file && !strcmp(limits[i].loc.file, place.file)
            && limits[i].loc.line == place.line && limits[i].gib == gib)
            return limits[i].target;
    return NULL;
}

Rval *recipe_load(const char *path, char **override, int noverrides)
{
    override = renamed_words(override, noverrides);
    memory_used = 0;
    instructions = 0;
    nfiles = nloading = nnotes = nextends = nlimits = 0;
    files = arena_new(MAX_FILES * sizeof *files);
    struct rlimit before;
    limit_cpu(path, &before);
    lua_State *L = lua_newstate(limited_alloc, NULL);
    if (!L)
        bug("Lua does not start");
    Job job = {path, NULL, NULL};
    for (int i = 0; i < noverrides; i++)
        if (!strncmp(override[i], "cluster=", 8))
            job.cluster = override[i] + 8;
    lua_sethook(L, count_hook, LUA_MASKCOUNT, HOOK_EVERY);
    lua_pushcfunction(L, protected_load);
    lua_pushlightuserdata(L, &job);
    int status = lua_pcall(L, 1, 0, 0);
    if (status == LUA_ERRMEM)
        err((Loc){path, 0}, "the recipe needs more than %d MiB of memory", MAX_MEMORY >> 20);
    if (status) {
        const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1)
                                                          : "error() without a text";
        Loc loc = message_place(&text, (Loc){path, 0});
        err(loc, "%s", text);
    }
    lua_close(L);
    if (setrlimit(RLIMIT_CPU, &before))
        bug("cannot lift the CPU limit: %s", strerror(errno));
    signal(SIGXCPU, SIG_DFL);
    if (job.cluster)
        note_cluster(job.result, job.cluster);
    for (int i = 0; i < noverrides; i++)
        if (strncmp(override[i], "cluster=", 8))
            recipe_override(job.result, override[i]);
    renamed_tell();
    return job.result;
}
