/* override.c -- field=value words of the command line, set over a recipe's table.
 *
 * Keeps: the spelling of every value, because only config.c knows the type of its field. */
#include "gen/recipe/recipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static Rval *parse_word(const char *text)
{
    Rval *r = arena_new(sizeof *r);
    char *end;
    r->s = text;
    r->kind = RV_STRING;
    if (!strcmp(text, "true") || !strcmp(text, "false")) {
        r->kind = RV_BOOL;
        r->b = *text == 't';
        return r;
    }
    if (!*text || !strchr("-0123456789.", *text) || text[strspn(text, "-+.0123456789eE")])
        return r;
    errno = 0;
    long long i = strtoll(text, &end, 10);
    if (end != text && !*end && !errno) {
        r->kind = RV_INT;
        r->i = i;
        r->f = (double)i;
        return r;
    }
    errno = 0;
    double f = strtod(text, &end);
    if (end != text && !*end && !(errno && f < 1 && f > -1)) {   /* too small for a double: no 0 */
        r->kind = RV_FLOAT;
        r->f = f;
    }
    return r;
}

/* Returns the entry `key` of a table, replaced by `fresh` unless that is NULL; created if
 * missing. */
static Rval *named(Rval *table, const char *key, Rval *fresh)
{
    int k = 0;
    while (k < table->nkeys && strcmp(table->key[k], key))
        k++;
    if (k == table->nkeys) {
        size_t old = (size_t)k * sizeof(void *);
        table->key = arena_grow(table->key, old, old + sizeof(void *));
        table->value = arena_grow(table->value, old, old + sizeof(void *));
        table->key[table->nkeys] = key;
        table->value[table->nkeys++] = fresh ? fresh : arena_new(sizeof(Rval));
    } else if (fresh)
        table->value[k] = fresh;
    return table->value[k];
}

void recipe_override(Rval *recipe, const char *word)
{
    const char *eq = strchr(word, '=');
    if (!eq || eq == word)
        err((Loc){0}, "%s: not a field=value word, for example batch.micro=4", word);
    char *path = text_print("%.*s", (int)(eq - word), word);
    Rval *t = recipe;
    if (!strcmp(path, "tune"))               /* short form of tune = { lock = ... } */
        path = text_copy("tune.lock");
    for (char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        *dot = 0;
        t = named(t, path, NULL);
        if (t->kind == RV_TABLE)
            continue;
        Rval *was = arena_new(sizeof *was);
        *was = *t;
        if (was->kind != RV_NIL && strcmp(path, "tune"))
            err(was->loc, "%s: must be a table before %s can set a field of it", path, word);
        *t = (Rval){.kind = RV_TABLE};
        if (was->kind != RV_NIL)
            named(t, "lock", was);
    }
    named(t, path, parse_word(eq + 1));
}

Rval *recipe_copy(const Rval *r)
{
    Rval *copy = arena_new(sizeof *copy);
    *copy = *r;
    copy->key = arena_new((size_t)r->nkeys * sizeof *copy->key + 1);
    copy->value = arena_new((size_t)r->nkeys * sizeof *copy->value + 1);
    copy->item = arena_new((size_t)r->nitems * sizeof *copy->item + 1);
    for (int i = 0; i < r->nkeys; i++) {
        copy->key[i] = r->key[i];
        copy->value[i] = recipe_copy(r->value[i]);
    }
    for (int i = 0; i < r->nitems; i++)
        copy->item[i] = recipe_copy(r->item[i]);
    return copy;
}
