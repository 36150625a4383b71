/* fit.c -- whether a plan fits its target, and the largest micro-batch that does.
 *
 * In:    the graph after plan.   Out: a text, or a number.
 * Method: the rooms run again on copies of the Config with another micro-batch. */
#include <math.h>

#include "gen/config/objective.h"
#include "gen/lower/lower.h"

/* Bytes a rank may plan with; INT64_MAX: the target sets no limit. */
int64_t fit_limit(const Graph *g)
{
    int64_t limit = g->setting[SETTING_memory].i, memory = limit ? limit : g->target->memory;
    int64_t have = memory - g->target->reserve;
    return !memory ? INT64_MAX : have > 0 ? have : 0;
}

Graph *fit_planned(Config *c)
{
    Graph *g = graph_build(c);
    fuse_run(g);
    part_run(g);
    plan_run(g);
    return g;
}

static int64_t planned(Config *c)
{
    return fit_planned(c)->arena_bytes;
}

int64_t fit_targets(const Config *c, int64_t micro)
{
    int64_t bound = c->v[F_batch_targets].i, was = c->v[F_batch_micro].i;
    int64_t most = micro > was ? (bound * micro + was - 1) / was : bound;
    int64_t rows = micro * c->v[F_seq_max].i * objective_sequences(c);
    return most < rows ? most : rows;
}

/* Largest batch.micro that fits with everything else as it is; 0: not even one sequence. */
int64_t fit_largest_micro(const Graph *g, Config *own)
{
    int64_t limit = fit_limit(g), T = config_int(own, F_seq_max),
            micro = config_int(own, F_batch_micro);
    int64_t rows = T * objective_sequences(own);
    int64_t most = INT32_MAX / rows < 65535 ? INT32_MAX / rows : 65535, fits = 0, fails = most + 1;
    Config *c = arena_new(sizeof *c);
    *c = *own;
    c->v[F_memory_loss_rows].i = 0;
    for (int64_t n = micro; n > fits && n < fails;) {
        c->v[F_batch_micro].i = n;
        c->v[F_batch_targets].i = fit_targets(own, n);
        c->v[F_batch_texts].i = config_texts(c);
        if (planned(c) <= limit)
            fits = n;
        else
            fails = n;
        n = fits && 2 * fits < fails && fails > most ? 2 * fits : fits + (fails - fits) / 2;
    }
    return fits;
}

static const Value *larger(const Value *a, const Value *b)
{
    return !a || b->slots * b->stride > a->slots * a->stride ? b : a;
}

static void print_largest(Str *s, const Graph *g)
{
    const Value *used[3] = {0};
    for (int n = 0; n < 3; n++) {
        for (int i = 0; i < g->nvalues; i++)
            if (!g->values[i]->internal && g->values[i] != used[0] && g->values[i] != used[1])
                used[n] = larger(used[n], g->values[i]);
        str_print(s, "   %s %s", used[n]->name, text_bytes(used[n]->slots * used[n]->stride));
    }
}

char *fit_fault(const Graph *g, const char *place)
{
    const int64_t limit = fit_limit(g);
    Str s = {0};
    if (g->arena_bytes <= limit)
        return NULL;
    const char *where = place ? place : text_print("target %s", g->target->name);
    if (limit)
        str_print(&s, "does not fit %s: needs %s, %s available (over by %s)\n    largest:", where,
                  text_bytes(g->arena_bytes), text_bytes(limit),
                  text_bytes(g->arena_bytes - limit));
    else
        str_print(&s, "does not fit %s: needs %s, but the memory is no more than the %s kept for "
                  "driver, libraries and process: memory.limit_gib=%.2f would do\n    largest:",
                  where, text_bytes(g->arena_bytes), text_bytes(g->target->reserve),
                  ceil((double)(g->arena_bytes + g->target->reserve) / (1 << 30) * 100) / 100);
    print_largest(&s, g);
    return s.text;
}
