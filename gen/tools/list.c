/* list.c -- `gen list`: the project's recipes with their line of description, and the targets.
 *
 * Keeps: a recipe is named by a path that gen takes in the folder where the list is printed. */
#include "gen/gen.h"

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

void report_list(FILE *to)
{
    const char *folder = recipes_folder(), *path[MAX_RECIPES];
    int n = recipe_names(path, MAX_RECIPES), width = 0;
    if (n == 0)
        err((Loc){0}, "cannot read the folder %s", folder);
    for (int i = 0; i < n; i++) {
        path[i] = text_print("%s/%s.lua", folder, path[i]);
        int len = (int)strlen(text_shell(path[i]));
        width = len > width ? len : width;
    }
    fprintf(to, "recipes:\n");
    for (int i = 0; i < n; i++) {
        Config *c = config_fill(recipe_load(path[i], NULL, 0), path[i]);
        fprintf(to, "  %-*s  %s\n", width, text_shell(path[i]), c->v[F_about].s);
    }
    fprintf(to, "objectives:\n");
    for (int i = 0; i < objective_count(); i++)
        fprintf(to, "  %-10s  %s\n", objective_row(i)->name, objective_row(i)->about);
    fprintf(to, "targets:\n");
    for (int i = 0; i < target_count(); i++) {
        const Target *t = target_row(i);
        fprintf(to, "  %-10s  %s; plans with %s a rank\n", t->name, t->about,
                text_bytes(t->memory - t->reserve));
    }
}
