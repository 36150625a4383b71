/* told.c -- names of recipe files in what gen writes: the same in whatever folder and by whatever path gen is called.
 *
 * Keeps: a file below gen's root has its path from there; the name of another recipe is its file name, of a file that
 *        it uses the word of `use`. Paths that no recipe was read from (those of a room's text) stay as they are. */
#define _GNU_SOURCE
#include "gen/recipe/recipe.h"

#include <stdlib.h>
#include <string.h>

typedef struct Told Told;
struct Told {
    const char *shown, *path, *name;
    const char *told;            /* NULL: nobody asked */
    Told *next;
};
static Told *all;

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The path from gen's root; NULL: the file is elsewhere. Through a link to a file of another name it is the link's. */
static const char *below_root(const char *path)
{
    char *root = realpath(gen_root(), NULL), *real = realpath(path, NULL);
    const char *found = NULL;
    const size_t n = root ? strlen(root) : 0;
    if (root && real && !strcmp(base_of(real), base_of(path)) && !strncmp(real, root, n) && real[n] == '/')
        found = text_copy(real + n + 1);
    free(root), free(real);
    return found;
}

void recipe_tell(const char *shown, const char *path, const char *name)
{
    Told *t = all;
    while (t && strcmp(t->shown, shown))
        t = t->next;
    if (t)
        return;
    t = arena_new(sizeof *t);
    *t = (Told){.shown = text_copy(shown), .next = all};
    if (path)
        t->path = text_copy(path), t->name = text_copy(name ? name : base_of(path));
    else
        t->told = text_copy(name);
    all = t;
}

const char *recipe_told(const char *path)
{
    for (Told *t = all; t; t = t->next)
        if (!strcmp(t->shown, path)) {
            const char *below = t->told ? NULL : below_root(t->path);
            if (!t->told)
                t->told = below ? below : t->name;
            return t->told;
        }
    return path;
}
