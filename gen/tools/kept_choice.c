/* kept_choice.c -- memory.recompute = "auto": the fastest set of kept values that fits.
 *
 * Method: seconds and bytes of each word alone, against plain blocks, order the sets; those that
 *         may fit are planned exactly, the fastest first. */
#include "gen/tools/kept_choice.h"

#include <stdlib.h>
#include <string.h>

#include "gen/config/kept.h"
#include "gen/lower/lower.h"
#include "gen/tools/measure.h"

enum { SETS = 1 << KEPT_WORDS, PLANS = 12 };

/* A set of words, a bit each, with the seconds and bytes that it has, or may have. */
typedef struct {
    unsigned words;
    double seconds;
    int64_t bytes;
} Set;

static void set_words(Config *c, unsigned words)
{
    FieldValue *keep = &c->v[F_memory_keep];
    const char *word[KEPT_WORDS];
    kept_words(word);
    c->v[F_memory_recompute].s = "block";
    keep->n = 0;
    keep->list = arena_new(sizeof word);
    for (int i = 0; i < KEPT_WORDS; i++)
        if (words >> i & 1)
            keep->list[keep->n++] = word[i];
}

static Set planned(const Config *old, unsigned words, int64_t *limit)
{
    Config *c = arena_new(sizeof *c);
    *c = *old;
    set_words(c, words);
    const Graph *g = fit_planned(c);
    *limit = fit_limit(g);
    return (Set){words, step_cost(g, c).step, g->arena_bytes};
}

static int by_seconds(const void *a, const void *b)
{
    const Set *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return (x->words > y->words) - (x->words < y->words);
}

/* "norms att (1.62 s a step, 124.2 GiB)" */
static char *set_text(const Set *s)
{
    Str text = {0};
    const char *word[KEPT_WORDS];
    kept_words(word);
    for (int i = 0; i < KEPT_WORDS; i++)
        if (s->words >> i & 1)
            str_print(&text, "%s%s", text.n ? " " : "", word[i]);
    return text_print("%s (%.3g s a step, %s)", text.n ? text.text : "nothing", s->seconds,
                      text_bytes(s->bytes));
}

/* Estimates all sets from those of single words; fastest first. Words that change nothing, such as
 * gate_up where it exists in tiles, are in none. Returns how many there are. */
static int estimate(const Config *c, const Set *plain, Set *sets)
{
    int64_t limit;
    int n = 0;
    unsigned useless = 0;
    Set one[KEPT_WORDS];
    for (int i = 0; i < KEPT_WORDS; i++) {
        one[i] = planned(c, 1u << i, &limit);
        if (one[i].bytes == plain->bytes && one[i].seconds == plain->seconds)
            useless |= 1u << i;
    }
    for (unsigned words = 0; words < SETS; words++) {
        Set s = {words, plain->seconds, plain->bytes};
        for (int i = 0; i < KEPT_WORDS; i++)
            if (words >> i & 1) {
                s.seconds += one[i].seconds - plain->seconds;
                s.bytes += one[i].bytes - plain->bytes;
            }
        if (!(words & useless))
            sets[n++] = s;
    }
    qsort(sets, (size_t)n, sizeof *sets, by_seconds);
    return n;
}

/* The fields have the chosen values, as if given: on the command line, if auto was. */
static void settle(Config *c)
{
    const FieldValue *recompute = &c->v[F_memory_recompute];
    FieldValue *keep = &c->v[F_memory_keep];
    if (recompute->set && !recompute->loc.file && keep->n)
        keep->set = true, keep->loc = recompute->loc;
    c->hash = config_hash(c);
}

/* True if nothing has to be computed again. */
static bool fits_whole(Config *c)
{
    Config *whole = arena_new(sizeof *whole);
    *whole = *c;
    whole->v[F_memory_recompute].s = "none";
    const Graph *g = fit_planned(whole);
    if (g->arena_bytes > fit_limit(g))
        return false;
    c->v[F_memory_recompute].s = "none";
    settle(c);
    c->kept = text_print("everything: nothing is recomputed");
    return true;
}

void choose_kept(Config *c)
{
    int64_t limit;
    Set sets[SETS], best[PLANS];
    int n = 0;
    if (!config_is(c, F_memory_recompute, "auto") || fits_whole(c))
        return;
    const Set plain = planned(c, 0, &limit);
    set_words(c, 0);
    if (plain.bytes > limit)
        return;
    const int nsets = estimate(c, &plain, sets);
    for (int i = 0; i < nsets && n < PLANS; i++) {
        const bool near = sets[i].bytes <= limit + limit / 16;
        const Set s = near ? planned(c, sets[i].words, &limit) : sets[i];
        if (s.bytes <= limit)
            best[n++] = s;
    }
    qsort(best, (size_t)n, sizeof *best, by_seconds);
    set_words(c, best[0].words);
    settle(c);
    c->kept = text_print("%s; next: %s", set_text(&best[0]), n > 1 ? set_text(&best[1]) : "none");
}
