/* fit_rows.c -- the plans that `gen fit` shows, of all that were made. */
#include "gen/tools/fit_rows.h"

#include <stdlib.h>

enum { ROWS = 8, NEAREST = 3 };  /* of an answer */
/* A plan that is shown because it is leaner must need this much less. */
static const double leaner = 0.9;

/* The smallest losses first, then speed, bytes of the host and of the device, and what was planned
 * first. */
static int by_merit(const void *a, const void *b)
{
    const FitPlan *x = *(const FitPlan *const *)a, *y = *(const FitPlan *const *)b;
    if (x->lost != y->lost)
        return fit_by_lost(x->lost, y->lost);
    if (x->tokens != y->tokens)
        return x->tokens > y->tokens ? -1 : 1;
    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->order - y->order;
}

static int by_device(const void *a, const void *b)
{
    const FitPlan *x = *(const FitPlan *const *)a, *y = *(const FitPlan *const *)b;
    return x->device != y->device ? (x->device > y->device) - (x->device < y->device)
                                  : by_merit(a, b);
}

/* True if a plan deserves a row in addition to those before it, which lose no more than it does: it
 * is faster, or needs less and is the leanest of its set. */
static bool is_worth(const FitTable *t, const FitPlan *p)
{
    bool lean = true;
    for (int i = 0; i < t->nrows; i++) {
        const FitPlan *q = t->row[i];
        if (q->lost & ~p->lost)
            continue;
        if (q->lost != p->lost && p->tokens < FIT_FASTER * q->tokens)
            return false;
        if (q->lost == p->lost && (double)p->device > leaner * (double)q->device)
            return false;
    }
    for (int i = 0; i < t->nall; i++)
        lean &= t->all[i]->lost != p->lost || t->all[i]->device >= p->device;
    bool first = true;
    for (int i = 0; i < t->nrows; i++)
        first &= t->row[i]->lost != p->lost;
    return first || lean;
}

static void choose_rows(FitTable *t)
{
    t->row = arena_new(sizeof *t->row * (size_t)(t->nall + 1));
    for (int i = 0; i < t->nall; i++)
        if (t->nrows < ROWS && is_worth(t, t->all[i]))
            t->row[t->nrows++] = t->all[i];
}

/* Keeps of plans that do not fit those that need less than all that lose less. */
static int nearest(const FitPlan **over, int n)
{
    int kept = 0;
    qsort(over, (size_t)n, sizeof *over, by_device);
    for (int i = 0; i < n && kept < NEAREST; i++) {
        bool worth = true;
        for (int k = i + 1; k < n; k++)
            worth &= over[k]->lost & ~over[i]->lost ||
                     (double)over[i]->device < leaner * (double)over[k]->device;
        if (worth)
            over[kept++] = over[i];
    }
    return kept;
}

/* Of plans that do not fit: the smallest of each set, and the fastest that loses no more than the
 * first row. */
static void choose_over(const FitSpace *s, FitTable *t)
{
    const FitPlan **over = t->over = arena_new(sizeof *over * (size_t)(s->nplans + 1));
    for (int i = 0; i < s->nplans; i++) {
        const FitPlan *p = s->plan[i];
        int k = 0;
        if (p->fits || !p->device)
            continue;
        const bool same = t->nrows && !(p->lost & ~t->row[0]->lost);
        if (same && (!t->next || p->tokens > t->next->tokens))
            t->next = p;
        while (k < t->nover && over[k]->lost != p->lost)
            k++;
        if (k == t->nover || p->device < over[k]->device)
            over[k] = p;
        t->nover += k == t->nover;
    }
    t->nover = nearest(over, t->nover);
}

FitTable fit_rows(const FitSpace *s)
{
    FitTable t = {.samples = s->samples, .ranks = s->ranks, .config = s->base, .plans = s->made};
    t.all = arena_new(sizeof *t.all * (size_t)(s->nplans + 1));
    for (int i = 0; i < s->nplans; i++)
        if (s->plan[i]->fits)
            t.all[t.nall++] = s->plan[i];
    qsort(t.all, (size_t)t.nall, sizeof *t.all, by_merit);
    choose_rows(&t);
    choose_over(s, &t);
    return t;
}
