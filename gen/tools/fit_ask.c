/* fit_ask.c -- the query of `gen fit`: a recipe, FIELD=VALUE words, and the hardware.
 *
 * In:    a recipe file and the words of a command.
 * Out:   the words by purpose, and configs of the recipe with words set over it. */
#include "gen/tools/fit_ask.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const Rval *recipe;
    const char *path;
} Recipe;

static Config *make_from_recipe(const void *of, char **word, int n)
{
    const Recipe *r = of;
    Rval *copy = recipe_copy(r->recipe);
    for (int i = 0; i < n; i++)
        if (strncmp(word[i], "cluster=", 8))     /* in the recipe already */
            recipe_override(copy, word[i]);
    Config *c = config_fill(copy, r->path);
    check_config(c);
    return c;
}

FitAsk fit_ask(const char *path, char **word, int n)
{
    FitAsk ask = {.make = make_from_recipe};
    char **cluster = arena_new(sizeof *word * (size_t)(n + 1));
    int nclusters = 0;
    word = renamed_words(word, n);
    for (int i = 0; i < n; i++)
        if (!strncmp(word[i], "cluster=", 8))
            cluster[nclusters++] = word[i];
    Recipe *r = arena_new(sizeof *r);
    *r = (Recipe){recipe_load(path, cluster, nclusters), path};
    fit_ask_words(&ask, word, n);
    ask.of = r;
    return ask;
}

/* ---- words ----------------------------------------------------------------------------------- */

void fit_ask_words(FitAsk *ask, char **word, int n)
{
    static const char *const place[] = {"card=", "gpus=", "ranks=", "memory.limit_gib="};
    ask->host = INT64_MAX;
    ask->word = arena_new(sizeof *word * (size_t)(n + 1));
    ask->place = arena_new(sizeof *word * (size_t)(n + FIT_ROOM));
    for (int i = 0; i < n; i++) {
        size_t k = 0;
        while (k < sizeof place / sizeof *place && strncmp(word[i], place[k], strlen(place[k])))
            k++;
        if (k == sizeof place / sizeof *place)
            ask->word[ask->nwords++] = word[i];
        else
            ask->place[ask->nplace++] =
                strncmp(word[i], "ranks=", 6) ? word[i] : text_print("gpus=%s", word[i] + 6);
    }
}

const char *fit_field(const char *word)
{
    return text_print("%.*s", (int)strcspn(word, "="), word);
}

int fit_word_index(char *const *word, int n, const char *name)
{
    const size_t k = strlen(name);
    int i = n - 1;
    while (i >= 0 && (strncmp(word[i], name, k) || word[i][k] != '='))
        i--;
    return i;
}

int fit_all_words(const FitAsk *ask, char *const *own, int nown, char ***words)
{
    char **word = *words = arena_new(sizeof *word *
                                     (size_t)(ask->nwords + ask->nplace + nown + 1));
    int n = 0;
    for (int i = 0; i < ask->nwords + ask->nplace; i++) {
        char *asked = i < ask->nwords ? ask->word[i] : ask->place[i - ask->nwords];
        if (fit_word_index(own, nown, fit_field(asked)) < 0)
            word[n++] = asked;
    }
    for (int i = 0; i < nown; i++)
        word[n++] = own[i];
    return n;
}

/* ---- configs --------------------------------------------------------------------------------- */

typedef struct {
    const FitAsk *ask;
    bool place;                  /* with its words */
    Config *c;
} Making;

static void make(void *data)
{
    Making *m = data;
    char **word;
    const int n = fit_all_words(m->ask, NULL, 0, &word);     /* the user's first */
    m->c = m->ask->make(m->ask->of, word, m->place ? n : m->ask->nwords);
}

Config *fit_placed(const FitAsk *ask)
{
    Making placed = {.ask = ask, .place = true};
    return err_try(make, &placed) ? placed.c : NULL;
}

Config *fit_config(const FitAsk *ask)
{
    Making own = {.ask = ask}, placed = {.ask = ask, .place = true};
    if (!err_try(make, &own))
        make(&placed);
    return own.c ? own.c : placed.c;
}

int64_t fit_samples(const Config *c)
{
    return c->v[F_batch_micro].i * c->v[F_batch_accum].i * c->v[F_gpus].i;
}

int64_t fit_ranks(const FitAsk *ask, const Config *c)
{
    for (int i = 0; i < ask->nplace; i++)
        if (!strncmp(ask->place[i], "gpus=", 5) && strcmp(ask->place[i], "gpus=all"))
            return strtoll(ask->place[i] + 5, NULL, 10);
    return c->v[F_gpus].i;
}
