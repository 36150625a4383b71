/* list.c -- `gen list`: what there is, by sections: recipes, shapes of models, families, chat formats ...
 *
 * Out:   lines NAME  what it is, from the tables and the recipes' own lines of description.
 * Keeps: a recipe is named by a path that gen takes in the folder where the list is printed. */
#define _GNU_SOURCE
#include "gen/gen.h"

#include "runtime/pack/pack.h"

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

static void list_recipes(FILE *to)
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
    for (int i = 0; i < n; i++) {
        Config *c = config_fill(recipe_load(path[i], NULL, 0), path[i]);
        fprintf(to, "  %-*s  %s\n", width, text_shell(path[i]), c->v[F_about].s);
    }
}

/* Shapes: the first line of each file, a comment. */
static void list_models(FILE *to)
{
    const char *folder = text_print("%s/models", recipes_folder());
    struct dirent **file;
    int n = scandir(folder, &file, NULL, alphasort);
    if (n < 0)
        err((Loc){0}, "cannot read the folder %s", folder);
    for (int i = 0; i < n; i++) {
        const char *name = file[i]->d_name, *dot = strrchr(name, '.');
        if (!dot || dot == name || strcmp(dot, ".lua"))
            continue;
        char *text = file_text(text_print("%s/%s", folder, name), 1 << 20, NULL);
        const char *about = text && !strncmp(text, "-- ", 3) ? text + 3 : "";
        fprintf(to, "  %-28s  %.*s\n", text_print("models/%.*s", (int)(dot - name), name), (int)strcspn(about, "\n"),
                about);
        free(file[i]);
    }
    free(file);
}

static void list_families(FILE *to)
{
    for (int i = 0; i < family_count(); i++) {
        const Family *f = family_row(i);
        fprintf(to, "  %-12s  %s: %s\n", f->name, f->about, family_classes(f->name));
    }
}

static void list_chats(FILE *to)
{
    int n;
    for (int i = 0; chat_row(i, &n); i++)
        fprintf(to, "  %-18s  %s\n", chat_row(i, &n)->name,
                n ? text_print("known by %d template%s of models' folders", n, n == 1 ? "" : "s")
                  : "by --chat or the tokenizer's added tokens alone");
}

static void list_objectives(FILE *to)
{
    for (int i = 0; i < objective_count(); i++)
        fprintf(to, "  %-10s  %s\n", objective_row(i)->name, objective_row(i)->about);
}

static void list_targets(FILE *to)
{
    for (int i = 0; i < target_count(); i++) {
        const Target *t = target_row(i);
        fprintf(to, "  %-10s  %s; plans with %s a rank\n", t->name, t->about,
                text_bytes(t->memory - t->reserve));
    }
}

static void list_cards(FILE *to)
{
    for (int i = 0; i < card_count(); i++) {
        const Card *c = card_row(i);
        fprintf(to, "  %-12s  %s; target %s, plans with %s\n", c->name, c->about, c->target,
                text_bytes(c->memory - target_find(c->target)->reserve));
    }
}

void report_list(const char *section, FILE *to)
{
    static const struct { const char *name; void (*list)(FILE *to); } row[] = {
        {"recipes", list_recipes}, {"models", list_models}, {"families", list_families}, {"chats", list_chats},
        {"objectives", list_objectives}, {"targets", list_targets}, {"cards", list_cards}};
    enum { ROWS = sizeof row / sizeof *row };
    const char *name[ROWS];
    Str all = {0};
    bool found = !section;
    for (int i = 0; i < ROWS; i++) {
        name[i] = row[i].name;
        found = found || !strcmp(section, name[i]);
        str_print(&all, "%s%s", i == 0 ? "" : i == ROWS - 1 ? " or " : ", ", name[i]);
    }
    const char *near = found ? NULL : text_nearest(section, name, ROWS);
    if (!found)
        err((Loc){0}, "list: no section %s; %s", section,
            near ? text_print("did you mean %s?", near) : text_print("want %s", all.text));
    for (int i = 0; i < ROWS; i++) {
        if (section && strcmp(section, name[i]))
            continue;
        if (!section)
            fprintf(to, "%s:\n", name[i]);
        row[i].list(to);
    }
}
