/* recipe_name.c -- paths of recipe files as they are written to emitted files: independent of the
 * folder and the path with which gen is called.
 *
 * Keeps: a file below gen's root has its path relative to the root. Any other recipe has its file
 *        name, and a file that it uses the argument of `use`. Paths that no recipe was read from
 *        (those in a room's text) do not change. */
#define _GNU_SOURCE
#include "gen/recipe/recipe.h"

#include <stdlib.h>
#include <string.h>

typedef struct RecipeName RecipeName;
struct RecipeName {
    const char *shown, *path, *name;
    const char *result;          /* result of recipe_name(); NULL: not asked for yet */
    RecipeName *next;
};
static RecipeName *all;

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The path from gen's root; NULL: the file is elsewhere. Through a link to a file of another name
 * it is the link's. */
static const char *below_root(const char *path)
{
    char *root = realpath(gen_root(), NULL), *real = realpath(path, NULL);
    const char *found = NULL;
    const size_t n = root ? strlen(root) : 0;
    if (root && real && !strcmp(base_of(real), base_of(path)) && !strncmp(real, root, n) &&
        real[n] == '/')
        found = text_copy(real + n + 1);
    free(root), free(real);
    return found;
}

void recipe_name_set(const char *shown, const char *path, const char *name)
{
    RecipeName *t = all;
    while (t && strcmp(t->shown, shown))
        t = t->next;
    if (t)
        return;
    t = arena_new(sizeof *t);
    *t = (RecipeName){.shown = text_copy(shown), .next = all};
    if (path)
        t->path = text_copy(path), t->name = text_copy(name ? name : base_of(path));
    else
        t->result = text_copy(name);
    all = t;
}

const char *recipe_name(const char *path)
{
    for (RecipeName *t = all; t; t = t->next)
        if (!strcmp(t->shown, path)) {
            const char *below = t->result ? NULL : below_root(t->path);
            if (!t->result)
                t->result = below ? below : t->name;
            return t->result;
        }
    return path;
}
