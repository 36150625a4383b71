/* fit_search.c -- the search for settings with which a recipe fits a memory limit.
 *
 * In:    a space of settings (fit_space.h).
 * Out:   the plans that are worth a row (fit_rows.h).
 * Method: for each set of losses, the divisions of memory from the largest on. The smallest plan
 *         of a division tells whether anything fits, the fastest whether it is worth a search;
 *         then the largest micro-batch is found by halving. If what the smallest plan of all keeps
 *         from step to step is too much already, the set is left out. */
#include "gen/tools/fit_search.h"

#include <stdlib.h>

enum {
    NAMED = 4,                   /* rows for which gen chooses what recomputed blocks keep */
    SMALLER = 2                  /* micro-batches with which it does so, too, for the first */
};

static int rows_of(const FitSpace *s, int axis) { return axis == FIT_AS_IS ? 1 : s->axis[axis].n; }

static void set_row(const FitSpace *s, FitChoice *choice, int axis, int k)
{
    if (axis != FIT_AS_IS)
        choice->row[axis] = s->axis[axis].row[k];
}

/* Tokens a second of the fastest plan that fits and loses part of `lost`, or all of it; 0: none. */
static double best_within(const FitSpace *s, unsigned lost, bool all)
{
    double best = 0;
    for (int i = 0; i < s->nplans; i++) {
        const FitPlan *p = s->plan[i];
        if (p->fits && !(p->lost & ~lost) && (all || p->lost != lost) && p->tokens > best)
            best = p->tokens;
    }
    return best;
}

/* Plans the largest micro-batch that fits, if one of at least `low` does. */
static void largest_split(FitSpace *s, FitChoice choice, int low)
{
    int high = s->nsplits;               /* does not fit, or is none */
    choice.split = low;
    while (low + 1 < high) {
        choice.split = (low + high) / 2;
        const FitPlan *p = fit_plan_of(s, &choice);
        if (p && p->fits)
            low = choice.split;
        else
            high = choice.split;
    }
}

/* The plans of one division of memory that may be faster than what was found. */
static void search_division(FitSpace *s, FitChoice choice)
{
    const int kept = rows_of(s, s->recompute);
    const int tiles = rows_of(s, s->tiles);
    for (int k = 0; k < 2 * tiles; k++) {
        if (k >= tiles && kept == 1)
            return;
        set_row(s, &choice, s->recompute, k < tiles ? 0 : kept - 1);
        set_row(s, &choice, s->tiles, k % tiles);
        choice.split = s->nsplits ? s->nsplits - 1 : 0;
        const FitPlan *fast = fit_plan_of(s, &choice);
        if (fast && (fast->fits || fast->tokens <= best_within(s, fast->lost, true)))
            return;
        choice.split = 0;
        const FitPlan *small = fit_plan_of(s, &choice);
        if (small && small->fits)
            largest_split(s, choice, 0);
    }
}

static void set_division(const FitSpace *s, FitChoice *choice, int division)
{
    for (int i = s->nfree - 1; i >= 0; i--) {
        const FitAxis *a = &s->axis[s->free[i]];
        choice->row[s->free[i]] = a->row[division % a->n];
        division /= a->n;
    }
}

/* The smallest plan of a division; NULL: the recipe accepts none of its micro-batches. Tiles of as
 * many rows as a micro-batch may need more memory than the whole. */
static const FitPlan *smallest(FitSpace *s, FitChoice choice, int division)
{
    const FitPlan *least = NULL;
    set_division(s, &choice, division);
    set_row(s, &choice, s->recompute, rows_of(s, s->recompute) - 1);
    for (choice.split = 0; !least && choice.split < (s->nsplits ? s->nsplits : 1); choice.split++)
        for (int k = 0; k < rows_of(s, s->tiles); k++) {
            set_row(s, &choice, s->tiles, k);
            const FitPlan *p = fit_plan_of(s, &choice);
            least = !least || (p && p->device < least->device) ? p : least;
        }
    return least;
}

/* The plan of the largest division that recomputes nothing, in one micro-batch. */
static const FitPlan *largest(FitSpace *s, FitChoice choice)
{
    set_division(s, &choice, 0);
    set_row(s, &choice, s->recompute, 0);
    set_row(s, &choice, s->tiles, 0);
    choice.split = s->nsplits ? s->nsplits - 1 : 0;
    return fit_plan_of(s, &choice);
}

/* True if a set of losses may give a plan that is faster than those of a set that loses less, of
 * which some fit: what it saves, on all ranks together, lets a faster one fit, or it is faster
 * itself. */
static bool may_pay(FitSpace *s, FitChoice choice, const FitPlan *small)
{
    const unsigned lost = fit_lost_by(s, &choice);
    const double best = best_within(s, lost, false);
    const FitPlan *fast = best > 0 ? largest(s, choice) : NULL;
    const int nplans = s->nplans;
    for (int i = 0; i < nplans && fast; i++) {
        const FitPlan *p = s->plan[i];
        FitChoice other = s->choice[i];
        if (!p->device || p->lost == lost || p->lost & ~lost)
            continue;
        const FitPlan *wide = smallest(s, other, s->divisions - 1), *full = largest(s, other);
        const int64_t least = wide ? wide->device - small->device : 0,
                      most = full ? full->device - fast->device : 0,
                      saved = (least > most ? least : most) * s->ranks;
        const double gain = full && fast->tokens > full->tokens ? fast->tokens / full->tokens : 1;
        if (p->device <= p->limit + saved && p->tokens * gain >= FIT_FASTER * best)
            return true;
    }
    return !fast;
}

/* The plans of one set of losses. */
static void search_losses(FitSpace *s, FitChoice choice)
{
    const FitPlan *small = NULL;
    int last = s->divisions;
    while (!small && last)
        small = smallest(s, choice, --last);
    if (!small || small->persistent > small->limit || !may_pay(s, choice, small))
        return;
    for (int i = 0; i <= last; i++) {
        small = smallest(s, choice, i);
        set_division(s, &choice, i);
        if (small && small->fits)
            search_division(s, choice);
    }
}

static int by_choice(const void *a, const void *b)
{
    const FitChoice *x = a, *y = b;
    return fit_by_lost((unsigned)x->split, (unsigned)y->split);
}

/* All sets of losses, in order; the set is in `split` for the sort. */
static int all_losses(const FitSpace *s, FitChoice **list)
{
    int n = 1;
    for (int i = 0; i < s->nlosing; i++)
        n *= s->axis[s->losing[i]].n + 1;
    *list = arena_new(sizeof **list * (size_t)n);
    for (int k = 0; k < n; k++) {
        FitChoice *c = &(*list)[k];
        int rest = k;
        for (int i = 0; i < FIT_AXES; i++)
            c->row[i] = FIT_AS_IS;
        for (int i = 0; i < s->nlosing; i++) {
            const FitAxis *a = &s->axis[s->losing[i]];
            c->row[s->losing[i]] = rest % (a->n + 1) ? a->row[rest % (a->n + 1) - 1] : FIT_AS_IS;
            rest /= a->n + 1;
        }
        c->split = (int)fit_lost_by(s, c);
    }
    qsort(*list, (size_t)n, sizeof **list, by_choice);
    for (int k = 0; k < n; k++)
        (*list)[k].split = 0;
    return n;
}

/* ---- refinements of the first answer -------------------------------------------------------- */

/* Tries the rows of memory.recompute between the first and the last, where gen chooses what
 * recomputed blocks keep, for a choice that recomputes all; with up to `less` smaller
 * micro-batches, too. */
static void choose_between(FitSpace *s, FitChoice choice, int less)
{
    for (int row = 1; row < rows_of(s, s->recompute) - 1; row++)
        for (int k = 0; k <= less && choice.split >= k; k++) {
            FitChoice other = choice;
            other.split -= k;
            set_row(s, &other, s->recompute, row);
            fit_plan_of(s, &other);
        }
}

/* The fastest plan that fits, loses what p does, recomputes all and has feed-forward layers as
 * `choice`, which becomes its choice; false: none. */
static bool fastest_like(const FitSpace *s, const FitTable *t, const FitPlan *p, FitChoice *choice)
{
    for (int i = 0; i < t->nall; i++) {
        const FitChoice other = fit_choice_of(s, t->all[i]);
        if (t->all[i]->lost == p->lost &&
            other.row[s->recompute] == choice->row[s->recompute] &&
            (s->tiles == FIT_AS_IS || other.row[s->tiles] == choice->row[s->tiles])) {
            *choice = other;
            return true;
        }
    }
    return false;
}

/* The same for the first rows of the table and for the fastest plans that recompute all and lose
 * what a row does, with whole feed-forward layers and in tiles. */
static void refine_kept(FitSpace *s, const FitTable *t)
{
    const int last = rows_of(s, s->recompute) - 1;
    for (int i = 0; i < t->nrows && i < NAMED && last > 1; i++)
        for (int k = 0; k < rows_of(s, s->tiles); k++) {
            FitChoice choice = fit_choice_of(s, t->row[i]);
            set_row(s, &choice, s->recompute, last);
            set_row(s, &choice, s->tiles, k);
            const FitPlan *p = fit_plan_of(s, &choice);
            if (p && p->fits)
                choose_between(s, choice, i ? 0 : SMALLER);
            if (fastest_like(s, t, t->row[i], &choice))
                choose_between(s, choice, 0);
        }
}

/* Tries other attention kernels for all rows, until a row is no faster with them: they make all
 * plans of a recipe faster, or none. */
static void refine_attention(FitSpace *s, const FitTable *t)
{
    const int last = rows_of(s, s->attention) - 1;
    for (int i = 0; i < t->nrows && last > 0; i++) {
        FitChoice choice = fit_choice_of(s, t->row[i]);
        set_row(s, &choice, s->attention, last);
        const FitPlan *p = fit_plan_of(s, &choice);
        if (p && p->tokens <= t->row[i]->tokens)
            return;
    }
}

/* Plans the recipe as it is, if that is an update of as many samples. */
static void plan_as_is(FitSpace *s)
{
    FitChoice as_is = {.split = 0};
    for (int i = 0; i < FIT_AXES; i++)
        as_is.row[i] = FIT_AS_IS;
    const int splits = s->nsplits;
    while (as_is.split < splits && s->split[as_is.split] != s->base->v[F_batch_micro].i)
        as_is.split++;
    if (as_is.split == splits)
        s->nsplits = as_is.split = 0;        /* without words of the batch */
    if (s->nsplits ||
        s->base->v[F_batch_micro].i * s->base->v[F_batch_accum].i * s->ranks == s->samples)
        fit_plan_of(s, &as_is);
    s->nsplits = splits;
}

FitTable fit_search(const FitAsk *ask)
{
    FitSpace s = fit_space(ask);
    FitChoice *set;
    plan_as_is(&s);
    const int n = all_losses(&s, &set);
    for (int i = 0; i < n; i++)
        search_losses(&s, set[i]);
    if (!s.made)                 /* the words of the user do not go together: say why */
        fit_require(ask);
    FitTable t = fit_rows(&s);
    refine_kept(&s, &t);
    t = fit_rows(&s);
    refine_attention(&s, &t);
    return fit_rows(&s);
}
