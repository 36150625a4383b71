/* family.c -- the rows of families.def as a table, and values derived from a row. */
#include "gen/config/family.h"

#include <string.h>

static const Family row[] = {
#define FAMILY(family, ...) {.name = #family, __VA_ARGS__},
#include "runtime/model/families.def"
};

static const struct { const char *family, *head; FamilyClass class; } class_row[] = {
#define CLASS(family, head, class, task) {#family, #head, {class, task}},
#include "runtime/model/families.def"
};

int family_count(void) { return (int)(sizeof row / sizeof *row); }

const Family *family_row(int i) { return &row[i]; }

const Family *family_find(const char *name)
{
    for (int i = 0; i < family_count(); i++)
        if (!strcmp(row[i].name, name))
            return &row[i];
    bug("no family %s", name);
}

bool family_takes_adapters(const Family *f) { return !strstr(f->q, "%h"); }

const FamilyClass *family_class(const char *name, const char *head)
{
    for (size_t i = 0; i < sizeof class_row / sizeof *class_row; i++)
        if (!strcmp(class_row[i].family, name) && !strcmp(class_row[i].head, head))
            return &class_row[i].class;
    return NULL;
}

const char *family_class_head(const char *name, const char *class)
{
    const char *first = NULL;
    for (size_t i = 0; i < sizeof class_row / sizeof *class_row; i++) {
        if (strcmp(class_row[i].family, name))
            continue;
        if (!strcmp(class_row[i].class.class, class))
            return class_row[i].head;
        first = first ? first : class_row[i].head;
    }
    return first;
}

const char *family_classes(const char *name)
{
    Str s = {0};
    for (size_t i = 0; i < sizeof class_row / sizeof *class_row; i++)
        if (!strcmp(class_row[i].family, name))
            str_print(&s, "%s%s", s.n ? ", " : "", class_row[i].class.class);
    return s.text;
}

static const struct { const char *family, *written; } key_row[] = {
#define CONFIG_KEY(family, key, written, value) {#family, written},
#define PERIOD_KEY(family, key, written, value) {#family, written},
#include "runtime/model/families.def"
};

bool family_writes(const Family *f, const char *path)
{
    for (size_t i = 0; i < sizeof key_row / sizeof *key_row; i++)
        if (!strcmp(key_row[i].family, f->name) && !strcmp(key_row[i].written, path))
            return true;
    return false;
}

const char *family_leaf(const char *path)
{
    return strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
}

static int add_leaf(const char **leaf, int n, const char *path)
{
    for (int i = 0; path && i < n; i++)
        if (!strcmp(leaf[i], family_leaf(path)))
            return n;
    if (path)
        leaf[n++] = family_leaf(path);
    return n;
}

bool family_names(const char *word, const char *path)
{
    const size_t n = strlen(path), k = strlen(word);
    return k && k <= n && !strcmp(path + n - k, word) && (k == n || path[n - k - 1] == '.');
}

enum { LINEARS = 8 };

/* Paths of a layer's linear modules; NULL: none of that kind. */
static void linear_paths(const Family *f, const char *path[LINEARS])
{
    memcpy(path, (const char *[]){f->q, f->k, f->v, f->o, f->gate, f->up, f->down, f->dense},
           LINEARS * sizeof *path);
}

bool family_has_linear(const Family *f, const char *word)
{
    const char *path[LINEARS];
    linear_paths(f, path);
    for (int i = 0; i < LINEARS; i++)
        if (path[i] && family_names(word, path[i]))
            return true;
    return false;
}

int family_linears(const Family *f, const char *leaf[FAMILY_LEAVES])
{
    const char *path[LINEARS];
    int n = 0;
    linear_paths(f, path);
    for (int i = 0; i < LINEARS; i++)
        n = add_leaf(leaf, n, path[i]);
    return n;
}

int family_default_targets(const Family *f, const char *leaf[FAMILY_LEAVES])
{
    return add_leaf(leaf, add_leaf(leaf, 0, f->q), f->v);
}

int family_tables(const Family *f, const char *leaf[FAMILY_LEAVES])
{
    return add_leaf(leaf, add_leaf(leaf, 0, f->tokens), f->head);
}

int family_steps(const Family *f, const char *word)
{
    int n = 0;
    for (const char *p = f->block; *p; p += strcspn(p, " "), p += *p == ' ')
        n += strcspn(p, " ") == strlen(word) && !strncmp(p, word, strlen(word));
    return n;
}
