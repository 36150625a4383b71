/* recipe.c -- plain values with file and line from a Lua recipe, run in a sandbox.
 *
 * In:     a Lua file, overrides of the command line.
 * Out:    Rval, with the position of every value.
 * Keeps:  the same values on every machine; environment.c lists what Lua may use.
 * Method: limits on memory, instructions and CPU time. Constructors pass their tables to a function
 *         (source.c), so that lines are matched to tables by identity. */
#define _GNU_SOURCE
#include "gen/recipe/tables.h"
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
    MAX_EXTENDS = 1000
};

static size_t memory_used;
static long instructions;
static const char *loading[MAX_DEPTH];   /* paths of the files being run, outermost first */
static int nloading;
static int nextends;
static char cpu_message[256];
/* Every memory.limit_gib in a table with a target, in the order of evaluation. */
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
        _exit(1);
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

/* ---- positions ----------------------------------------------------------------------------- */

/* Splits "#3:14: text" of a Lua message into position and text. */
static Loc message_place(const char **text, Loc otherwise)
{
    int file, line, used = 0;
    if (sscanf(*text, "#%d:%d: %n", &file, &line, &used) == 2 && used && tables_file(file)) {
        *text += used;
        return (Loc){tables_file(file)->file, line};
    }
    return otherwise;
}

/* The Lua line that called the running C function. */
static Loc caller(lua_State *L)
{
    lua_Debug ar;
    if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "Sl", &ar) || ar.source[0] != '=')
        return (Loc){tables_file(0)->file, 0};
    return (Loc){tables_file(atoi(ar.source + 2))->file, ar.currentline};
}

/* Records the target for which the table at t sets memory.limit_gib. */
static void note_limit(lua_State *L, int t)
{
    int top = lua_gettop(L), order;
    lua_checkstack(L, 4);
    table_push(L, t, "target", 0);
    table_push(L, t, "memory", 0);
    if (lua_type(L, top + 1) == LUA_TSTRING && lua_istable(L, top + 2)) {
        table_push(L, top + 2, "limit_gib", 0);
        if (lua_type(L, -1) == LUA_TNUMBER) {
            Loc loc = table_loc(L, lua_topointer(L, top + 2), "limit_gib", 0, (Loc){0}, &order);
            limits[nlimits].loc = loc;
            limits[nlimits].gib = lua_tonumber(L, -1);
            limits[nlimits++].target = text_copy(lua_tostring(L, top + 1));
        }
    }
    lua_settop(L, top);
}

/* ---- functions of recipes ------------------------------------------------------------------ */

static const Source *load_file(lua_State *L, const char *shown, const char *path, Loc from);

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

/* Ends the program: the file does not exist. For a file named on the command line, which has no
 * recipe's folder, the message also lists the names that exist. */
static void no_such_file(Loc loc, const char *what, const char *word)
{
    enum { MAX = 200 };
    const char *name[MAX], *folder = folder_of(tables_file(0)->file);
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
    err(loc, "%s: no file %s.lua below %s or the project's recipes/%s%s", what, word, folder,
        near ? text_print("; did you mean \"%s\"?", loc.file ? near : near + strlen(below)) : "",
        all.n ? all.text : "");
}

/* Runs the file with this name: next to the recipe; for clusters, in recipes/ of this folder; or in
 * recipes/ of the project. */
static void use_file(lua_State *L, Loc loc, const char *what, const char *word)
{
    if (!*word || strlen(word) > 200 || *word == '/' || strstr(word, "..")
        || word[strspn(word,
                       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/")])
        err(loc,
            "%s: must be a name below recipes/ made of letters, digits and _ . + - /, without "
            "\"..\"",
            what);
    const char *root_file = tables_file(0)->file, *folder = folder_of(root_file), *path = NULL;
    const char *shown = strcmp(folder, ".") || !strncmp(root_file, "./", 2)
                            ? text_print("%s/%s.lua", folder, word)
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
            no_such_file(loc, what, word);
    }
    const Source *used = load_file(L, shown, path, loc);
    if (!lua_istable(L, -1))
        err((Loc){shown, used->return_line},
            "the file must return a table, got %s", luaL_typename(L, -1));
}

/* use "models/x": the table that recipes/models/x.lua returns, a new copy each time. */
static int lua_use(lua_State *L)
{
    Loc loc = caller(L);
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING)
        err(loc, "use: takes one name, such as \"models/gpt2_124m\"");
    const char *word = text_copy(lua_tostring(L, 1));
    use_file(L, loc, text_print("use \"%s\"", word), word);
    table_rename(L, lua_gettop(L));
    table_old_names(L, lua_gettop(L));
    return 1;
}

/* extend(base, changes): see table_merge(). */
static int lua_extend(lua_State *L)
{
    Loc loc = caller(L);
    if (lua_gettop(L) != 2 || !lua_istable(L, 1) || !lua_istable(L, 2))
        err(loc, "extend: takes two tables: extend(base, { field = value, ... })");
    if (++nextends > MAX_EXTENDS)
        err(loc, "extend: called more than %d times", MAX_EXTENDS);
    note_limit(L, 1);
    note_limit(L, 2);
    table_rename(L, 1);
    table_rename(L, 2);
    table_merge(L, 1, 2, 0);
    table_old_names(L, lua_gettop(L));
    return 1;
}

/* Runs the file `path`, which messages call `shown`, and pushes its result. */
static const Source *load_file(lua_State *L, const char *shown, const char *path, Loc from)
{
    for (int i = 0; i < nloading; i++)
        if (!strcmp(loading[i], path))
            err(from, "use: %s is already being read: it uses itself", shown);
    const bool deep = nloading == MAX_DEPTH;
    if (deep || tables_files() == MAX_FILES)
        err(from, "use: more than %d files%s", deep ? MAX_DEPTH : MAX_FILES,
            deep ? " that use each other" : "");
    size_t n;
    char *text = file_text(path, MAX_TEXT, &n);
    if (!text)
        err(from, "cannot read %s: %s", shown, strerror(errno));
    const size_t mark = utf8_mark(text, n);
    text += mark, n -= mark;
    if (n && *text == '\033')
        err(from, "%s is Lua bytecode; give the source text", shown);
    err_source(shown, text);
    Source *src = source_scan(shown, text, n);
    const Source *first = tables_file(0);
    const char *folder = first ? text_print("%s/", folder_of(first->file)) : "";
    const size_t length = strlen(folder);
    recipe_name_set(shown, path,
                    !first                           ? NULL
                    : strncmp(shown, folder, length) ? shown
                                                     : shown + length);
    const int file = tables_add_file(src);
    loading[nloading++] = path;
    char chunk[16];
    snprintf(chunk, sizeof chunk, "=#%d", file);
    /* the text itself first, for messages of syntax errors */
    if (luaL_loadbufferx(L, text, n, chunk, "t")
        || luaL_loadbufferx(L, src->marked.text, src->marked.n, chunk, "t"))
        lua_error(L);
    environment_push(L);
    const luaL_Reg ours[] = {{"use", lua_use}, {"extend", lua_extend}, {NULL, NULL}};
    luaL_setfuncs(L, ours, 0);
    lua_setupvalue(L, -2, 1);
    lua_pushinteger(L, file);
    lua_pushcclosure(L, table_made, 1);
    const int before = lua_gettop(L) - 2;
    lua_call(L, 1, LUA_MULTRET);
    if (lua_gettop(L) > before + 1)
        err((Loc){shown, src->return_line}, "returns %d values; a file returns one table",
            lua_gettop(L) - before);
    lua_settop(L, before + 1);       /* nil if it returns nothing */
    nloading--;
    if (lua_istable(L, -1))
        note_limit(L, lua_gettop(L));
    return src;
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
            size_t n;
            const char *key = text_copy(lua_tolstring(L, -2, &n));
            if (strlen(key) != n)
                err(r->loc, "%s%s%s: a name with a NUL byte", path, *path ? "." : "", key);
            Loc at = table_loc(L, self, key, 0, r->loc, &e[norder].order);
            e[norder].key = key;
            e[norder++].value = convert(L, at, text_print("%s%s%s", path, *path ? "." : "", key),
                                        depth + 1);
        } else
            err(r->loc, "%s: a key is a %s; it must be a name", *path ? path : "the recipe",
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
        Loc at = table_loc(L, self, NULL, i + 1, r->loc, &order);
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

/* The recipe's table is at the top of the stack: its cluster becomes the one of the command line;
 * "": none. */
static void set_cluster(lua_State *L, const char *name)
{
    const int recipe = lua_gettop(L);
    if (strchr(name, '/'))
        err((Loc){0}, "cluster=%s: must be a name, of recipes/clusters/NAME.lua", name);
    if (*name)
        use_file(L, (Loc){0}, text_print("cluster=%s", name), text_print("clusters/%s", name));
    else
        lua_pushnil(L);
    lua_setfield(L, recipe, "cluster");
    lua_settop(L, recipe);
}

/* Notes that the command line chose it: the text of its table is the word, or it is an empty
 * text. */
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
    Loc at = {job->path, tables_file(0)->return_line};
    if (!lua_istable(L, -1))
        err(at, "a recipe must return a table: return { target = \"cpu\", ... }; got %s",
            lua_isnil(L, -1) ? "nothing" : luaL_typename(L, -1));
    const void *recipe = lua_topointer(L, -1);
    if (job->cluster)
        set_cluster(L, job->cluster);
    if (table_start(recipe).line)
        at = table_start(recipe);
    table_rename(L, lua_gettop(L));
    job->result = convert(L, at, "", 0);
    return 0;
}

const char *recipe_limit_target(Loc place, double gib)
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
    nloading = nextends = nlimits = 0;
    tables_begin();
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
    renamed_report();
    return job.result;
}
