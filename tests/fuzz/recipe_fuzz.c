// link: source tables environment override renamed config fields owners alias names config_text config_rules kept cards
// link: target family objective cluster quote objectives standalone lm mlm masked_diffusion dpo prm ad ppo graph programs moment_types fold keep update_place backward_update head families layers nf4
// link: gradient order build bilevel inputs graph_settings model_files ir ir_parts rules ops kernels json base
// link: -I/usr/include/lua5.4 -llua5.4 -lcjson -lcrypto -lm
/* recipe_fuzz.c -- any text as a recipe, or (when it begins with "# config") as the text of a Config.
 *
 * Verdict: an error or a Config that passes its rules and reads back as it was printed.
 * Method:  util.c and recipe.c are included so that an error comes back here and all memory is given back. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int fuzz_setrlimit(int what, const struct rlimit *lim)
{
    (void)what, (void)lim;
    return 0;
}

static const uint8_t *input;
static size_t ninput;

/* recipe_name.c keeps names from one recipe to the next, in memory that is given back here. */
void recipe_name_set(const char *shown, const char *path, const char *name)
{
    (void)shown, (void)path, (void)name;
}
const char *recipe_name(const char *path) { return path; }

#include "returns.h"
#include "gen/graph/objectives.h"

/* The input under its name; other files (models) as they are. */
static char *fuzz_file_text(const char *path, size_t max, size_t *n)
{
    if (strcmp(path, "fuzz.lua"))
        return file_text(path, max, n);
    char *text = arena_new(ninput + 1);
    memcpy(text, input, ninput);
    *n = ninput;
    return text;
}

#define file_text fuzz_file_text
#define setrlimit fuzz_setrlimit
#define signal(number, handler) (void)0
#define lua_newstate fuzz_newstate
#include <lua.h>
#undef lua_newstate
lua_State *lua_newstate(lua_Alloc f, void *ud);
static lua_State *state;         /* left behind by an error */
lua_State *fuzz_newstate(lua_Alloc f, void *ud)
{
    return state = lua_newstate(f, ud);
}
static void fuzz_close(lua_State *L)
{
    state = NULL;
    (lua_close)(L);
}
#define lua_newstate fuzz_newstate
#define lua_close fuzz_close
#include "../../gen/recipe/recipe.c"

static void try(const uint8_t *data, size_t n)
{
    static const char head[] = "# config";
    Config *c;
    if (n >= sizeof head - 1 && !memcmp(data, head, sizeof head - 1)) {
        char *text = arena_new(n + 1);
        memcpy(text, data, n);
        c = config_parse(text, "fuzz.txt");
    } else {
        c = config_fill(recipe_load("fuzz.lua", NULL, 0), "fuzz.lua");
    }
    check_config(c);
    const char *once = config_print(c), *twice = config_print(config_parse(once, "again"));
    if (strcmp(once, twice)) {
        fprintf(stdout, "%s---\n%s", once, twice);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static FILE *quiet;
    if (!quiet) {
        quiet = fopen("/dev/null", "w");
        gen_root();              /* these two are made once and kept: not to be given back */
        field_choices(F_target);
        objectives_install();
        nblocks = 0;
        chunk_left = 0;
    }
    FILE *loud = stderr;
    stderr = quiet;
    input = data;
    ninput = n;
    state = NULL;
    if (!setjmp(refused))
        try(data, n);
    else if (state)
        lua_close(state);
    stderr = loud;
    forget();
    return 0;
}
