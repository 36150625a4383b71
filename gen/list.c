/* list.c -- `gen list`: the project's recipes with their line of description, and the targets.
 *
 * Keeps: a recipe is named by a path that gen takes in the folder where the list is printed. */
#define _GNU_SOURCE
#include "gen.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The folder of the recipes, seen from here. */
static const char *recipes_folder(void)
{
    struct stat here, root;
    bool at_root = !stat(".", &here) && !stat(gen_root(), &root) && here.st_ino == root.st_ino &&
                   here.st_dev == root.st_dev;
    return at_root ? "recipes" : text_print("%s/recipes", gen_root());
}

static int is_recipe(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot && dot != d->d_name && !strcmp(dot, ".lua");
}

void report_list(FILE *to)
{
    const char *folder = recipes_folder();
    struct dirent **file;
    int n = scandir(folder, &file, is_recipe, alphasort), width = 0;
    if (n < 0)
        err((Loc){0}, "cannot read the folder %s", folder);
    const char **path = arena_new((size_t)n * sizeof *path + 1);
    for (int i = 0; i < n; i++) {
        path[i] = text_print("%s/%s", folder, file[i]->d_name);
        int len = (int)strlen(text_shell(path[i]));
        width = len > width ? len : width;
        free(file[i]);
    }
    free(file);
    fprintf(to, "recipes:\n");
    for (int i = 0; i < n; i++) {
        Config *c = config_fill(recipe_load(path[i], NULL, 0), path[i]);
        fprintf(to, "  %-*s  %s\n", width, text_shell(path[i]), c->v[F_about].s);
    }
    fprintf(to, "targets:\n");
    for (int i = 0; i < target_count(); i++) {
        const Target *t = target_row(i);
        fprintf(to, "  %-8s  %s; plans with %s a rank\n", t->name, t->about,
                text_bytes(t->memory - t->reserve));
    }
}
