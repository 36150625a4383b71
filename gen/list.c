/* list.c -- `gen list`: the project's recipes with their line of description, and the targets. */
#define _GNU_SOURCE
#include "gen.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

void report_list(FILE *to)
{
    const char *folder = text_print("%s/recipes", gen_root());
    struct dirent **file;
    int n = scandir(folder, &file, NULL, alphasort);
    if (n < 0)
        err((Loc){0}, "cannot read the folder %s", folder);
    fprintf(to, "recipes:\n");
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(file[i]->d_name, '.');
        if (dot && dot != file[i]->d_name && !strcmp(dot, ".lua")) {
            const char *path = text_print("%s/%s", folder, file[i]->d_name);
            Config *c = config_fill(recipe_load(path, NULL, 0), path);
            fprintf(to, "  %-28s %s\n", file[i]->d_name, c->v[F_about].s);
        }
        free(file[i]);
    }
    free(file);
    fprintf(to, "targets:\n");
    for (int i = 0; i < target_count(); i++) {
        const Target *t = target_row(i);
        fprintf(to, "  %-28s %s; plans with %s a rank\n", t->name, t->about,
                text_bytes(t->memory - t->reserve));
    }
}
