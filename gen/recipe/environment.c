/* environment.c -- the Lua functions available to a recipe.
 *
 * Keeps: nothing whose result differs between runs or machines: no io, os, clock, random, address
 *        or hash-table order; no table.sort, whose pivot depends on the clock. No pcall, so that
 *        an error or a limit always ends the recipe. */
#include "gen/recipe/recipe.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <string.h>

static int key_order(lua_State *L, int a, int b)
{
    int ta = lua_type(L, a), tb = lua_type(L, b);
    if (ta != tb)
        return ta < tb ? -1 : 1;
    return lua_compare(L, a, b, LUA_OPLT) ? -1 : 1;
}

static int pairs_next(lua_State *L)
{
    lua_Integer i = lua_tointeger(L, lua_upvalueindex(2)) + 1;
    lua_pushinteger(L, i);
    lua_replace(L, lua_upvalueindex(2));
    lua_rawgeti(L, lua_upvalueindex(1), i);
    if (lua_isnil(L, -1))
        return 1;
    lua_pushvalue(L, -1);
    lua_gettable(L, 1);
    return 2;
}

/* pairs(t) in ascending order of keys, so that recipes do not depend on hash tables. */
static int sorted_pairs(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_newtable(L);
    lua_Integer n = 0;
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        lua_pop(L, 1);
        int kind = lua_type(L, -1);
        if (kind != LUA_TSTRING && kind != LUA_TNUMBER)
            return luaL_error(L, "pairs: keys must be strings or numbers, got a %s",
                              luaL_typename(L, -1));
        lua_pushvalue(L, -1);
        lua_rawseti(L, 2, ++n);
    }
    for (lua_Integer i = 2; i <= n; i++) /* insertion sort: tables of a recipe are short */
        for (lua_Integer j = i; j > 1; j--) {
            lua_rawgeti(L, 2, j - 1);
            lua_rawgeti(L, 2, j);
            bool done = key_order(L, -2, -1) < 0;
            if (done) {
                lua_pop(L, 2);
                break;
            }
            lua_rawseti(L, 2, j - 1);
            lua_rawseti(L, 2, j);
        }
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, pairs_next, 2);
    lua_pushvalue(L, 1);
    return 2;
}

/* Lua error for values whose text is an address. */
static void plain_only(lua_State *L, int from, const char *who)
{
    for (int i = from; i <= lua_gettop(L); i++) {
        int kind = lua_type(L, i);
        if (kind != LUA_TSTRING && kind != LUA_TNUMBER && kind != LUA_TBOOLEAN && kind != LUA_TNIL)
            luaL_error(L, "%s: a %s has no text that is the same on every run", who,
                       luaL_typename(L, i));
    }
}

static int plain_tostring(lua_State *L)
{
    plain_only(L, 1, "tostring");
    luaL_tolstring(L, 1, NULL);
    return 1;
}

static int plain_format(lua_State *L)
{
    plain_only(L, 1, "format");
    if (strstr(luaL_checkstring(L, 1), "%p"))
        return luaL_error(L, "format: %%p prints an address, which differs on every run");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, 1);
    return 1;
}

static int closed_name(lua_State *L, const char *library, const char *name)
{
    return luaL_error(L, "\"%s%s\" is not available: recipes are data, with the same values "
                      "everywhere", library, name);
}

/* Lua error for functions removed from math, string and table. Upvalue: "math." */
static int unknown_in_library(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";
    return closed_name(L, lua_tostring(L, lua_upvalueindex(1)), name);
}

static int unknown_name(lua_State *L)
{
    static const char *const closed[] = {"io",     "os",           "package",        "require",
                                         "debug",  "load",         "loadstring",     "loadfile",
                                         "dofile", "print",        "next",           "pcall",
                                         "xpcall", "setmetatable", "getmetatable",   "rawset",
                                         "rawget", "coroutine",    "collectgarbage", "utf8",
                                         "_G"};
    static const char *const open[] = {"math",   "string",   "table",    "ipairs", "pairs",
                                       "select", "tonumber", "tostring", "type",   "assert",
                                       "error",  "use",      "extend"};
    if (lua_type(L, 2) != LUA_TSTRING)
        return luaL_error(L, "unknown name");
    const char *name = lua_tostring(L, 2);
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        if (!strcmp(name, closed[i]))
            return closed_name(L, "", name);
    const char *near = text_nearest(name, open, sizeof open / sizeof *open);
    if (near)
        return luaL_error(L, "unknown name \"%s\"; did you mean \"%s\"?", name, near);
    return luaL_error(L, "unknown name \"%s\"", name);
}

/* ---- the table of globals ---------------------------------------------------------------- */

/* Keeps only `names` (NULL-terminated) in the table on top; library: "math.", or NULL. */
static void keep_only(lua_State *L, const char *library, const char *const *names)
{
    lua_newtable(L);
    for (; *names; names++) {
        lua_getfield(L, -2, *names);
        lua_setfield(L, -2, *names);
    }
    lua_remove(L, -2);
    if (!library)
        return;
    lua_newtable(L);
    lua_pushstring(L, library);
    lua_pushcclosure(L, unknown_in_library, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

void environment_push(lua_State *L)
{
    static const char *const math_names[] = {
        "abs",       "ceil",       "floor", "fmod",       "huge", "log", "exp",
        "max",       "maxinteger", "min",   "mininteger", "modf", "pi",  "sqrt",
        "tointeger", "type",       "ult",   "sin",        "cos",  "tan", NULL};
    static const char *const string_names[] = {"byte",    "char", "find",  "format", "gmatch",
                                               "gsub",    "len",  "lower", "match",  "rep",
                                               "reverse", "sub",  "upper", NULL};
    static const char *const table_names[] = {"concat", "insert", "remove", "unpack", NULL};
    static const char *const base_names[] = {"ipairs", "select", "tonumber", "type",
                                             "assert", "error",  NULL};
    luaL_requiref(L, "_G", luaopen_base, 0);
    keep_only(L, NULL, base_names);
    int env = lua_gettop(L);
    luaL_requiref(L, "math", luaopen_math, 0);
    keep_only(L, "math.", math_names);
    lua_setfield(L, env, "math");
    luaL_requiref(L, "table", luaopen_table, 0);
    keep_only(L, "table.", table_names);
    lua_setfield(L, env, "table");
    luaL_requiref(L, "string", luaopen_string, 0);
    keep_only(L, "string.", string_names);
    lua_getfield(L, -1, "format");
    lua_pushcclosure(L, plain_format, 1);
    lua_setfield(L, -2, "format");
    lua_pushstring(L, "");                     /* for calls such as ("x"):rep(3) */
    lua_getmetatable(L, -1);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 2);
    lua_setfield(L, env, "string");
    const luaL_Reg ours[] = {{"pairs", sorted_pairs}, {"tostring", plain_tostring}, {NULL, NULL}};
    luaL_setfuncs(L, ours, 0);
    lua_newtable(L);
    lua_pushcfunction(L, unknown_name);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, env);
}
