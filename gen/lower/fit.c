/* fit.c -- refuses a plan that the target cannot hold, and names recipes near it that fit.
 *
 * In:    the graph after plan.   Out: nothing, or the end of the program.
 * Method: the rooms run again on copies of the Config with a few fields changed; what fits is
 *         printed with its bytes. */
#include "gen/config/objective.h"
#include "gen/lower/lower.h"

#include <inttypes.h>

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

/* A bound of targets that holds for `micro` sequences of T tokens if the recipe's holds for its
 * own; 0: none. */
static int64_t bound_of(const Config *c, int64_t micro, int64_t T)
{
    int64_t bound = c->v[F_batch_targets].i, was = c->v[F_batch_micro].i;
    int64_t most = micro > was ? (bound * micro + was - 1) / was : bound;
    int64_t rows = micro * T * objective_sequences(c);
    return most < rows ? most : rows;
}

static Config *changed(const Config *old, int64_t micro, bool recompute, int64_t T, int64_t rank)
{
    Config *c = arena_new(sizeof *c);
    *c = *old;
    int64_t was = c->v[F_batch_micro].i;
    c->v[F_batch_micro].i = micro;
    c->v[F_batch_accum].i *= was / micro;
    c->v[F_batch_targets].i = bound_of(old, micro, T);
    c->v[F_seq_max].i = T;
    c->v[F_batch_texts].i = config_texts(c);
    c->v[F_memory_loss_rows].i = 0;
    if (recompute)
        c->v[F_memory_recompute].s = "block";
    if (rank && !c->v[F_lora_rank].i) {
        static const char *all[] = {"all-linear"};
        c->v[F_lora_rank].i = rank;
        c->v[F_lora_alpha].f = 2.0 * (double)rank;
        c->v[F_lora_targets].n = 1;
        c->v[F_lora_targets].list = all;
    }
    return c;
}

/* Largest batch.micro that fits with everything else as it is; 0: not even one sequence. */
int64_t fit_largest_micro(const Graph *g, Config *own)
{
    int64_t limit = fit_limit(g), T = config_int(own, F_seq_max),
            micro = config_int(own, F_batch_micro);
    int64_t rows = T * objective_sequences(own);
    int64_t most = INT32_MAX / rows < 65535 ? INT32_MAX / rows : 65535, fits = 0, fails = most + 1;
    Config *c = changed(own, micro, false, T, 0);
    for (int64_t n = micro; n > fits && n < fails;) {
        c->v[F_batch_micro].i = n;
        c->v[F_batch_targets].i = bound_of(own, n, T);
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

/* Prints the recipe values that must change: more targets than there are tokens, and rows of logits
 * that do not divide them. */
static void print_bound(Str *s, Config *c, int64_t micro, int64_t T)
{
    if (bound_of(c, micro, T) != c->v[F_batch_targets].i)
        str_print(s, " batch.targets=%" PRId64, bound_of(c, micro, T));
    if (config_int(c, F_memory_loss_rows))
        str_print(s, " memory.loss_rows=0");
}

/* The bytes of each precision that the target takes, and those that fit; false: none does. */
static bool print_precisions(Str *s, const Config *cfg, int64_t limit)
{
    static const char *const precision[] = {"fp32", "bf16", "fp16"};
    int64_t bytes[3] = {0};
    bool found = false, copies = false;
    str_print(s, "\n    by precision:");
    for (int i = 0; i < 3; i++) {
        Config *c = config_in_precision(cfg, precision[i]);
        bytes[i] = c ? planned(c) : 0;
        copies = copies || bytes[i] > bytes[0];
        if (c)
            str_print(s, "   %s %s", precision[i], text_bytes(bytes[i]));
    }
    if (copies && bytes[0])
        str_print(s, "   (in 16 bits updates keep fp32 copies of the weights)");
    for (int i = 0; i < 3; i++)
        if (bytes[i] && bytes[i] <= limit) {
            str_print(s, "\n    fits: precision=%s   (%s)", precision[i], text_bytes(bytes[i]));
            found = true;
        }
    return found;
}

/* Recipes near it that fit. */
static void print_near(Str *s, Config *cfg, int64_t limit)
{
    int64_t micro = config_int(cfg, F_batch_micro), T = config_int(cfg, F_seq_max);
    const bool in_another = print_precisions(s, cfg, limit);
    bool recomputes = config_is(cfg, F_memory_recompute, "block"), found = false;
    for (int rank = 0; rank <= (field_fixed(cfg, F_lora_rank) ? 0 : 16) && !found; rank += 16)
        for (int again = recomputes; again < 2; again++)
            for (int64_t n = micro; n >= 1; n /= 2) {
                if (micro % n || (n == micro && again == recomputes && !rank) ||
                    (rank && config_int(cfg, F_lora_rank)))
                    continue;
                int64_t bytes = planned(changed(cfg, n, again, T, rank));
                if (bytes > limit)
                    continue;
                str_print(s, "\n    fits:");
                if (n != micro)
                    str_print(s, " batch.micro=%" PRId64 " batch.accum=%" PRId64, n,
                              config_int(cfg, F_batch_accum) * (micro / n));
                print_bound(s, cfg, n, T);
                str_print(s, "%s%s   (%s)", again > recomputes ? " memory.recompute=block" : "",
                          rank ? " lora.rank=16 lora.targets=all-linear" : "", text_bytes(bytes));
                found = true;
                break;
            }
    for (int64_t shorter = field_fixed(cfg, F_seq_max) ? 0 : T / 2; shorter >= 16 && !found;
         shorter /= 2) {
        int64_t bytes = planned(changed(cfg, 1, true, shorter, 0));
        if (bytes > limit)
            continue;
        str_print(s, "\n    fits: seq.max=%" PRId64 " batch.micro=1 batch.accum=%" PRId64, shorter,
                  config_int(cfg, F_batch_accum) * micro);
        print_bound(s, cfg, 1, shorter);
        str_print(s, " memory.recompute=block   (%s)", text_bytes(bytes));
        found = true;
    }
    if (!found && !in_another)
        str_print(s, "\n    nothing near it fits: a smaller model, or %s",
                  config_card(cfg) ? "a larger card (gen list cards)"
                                   : "memory.limit_gib if this machine has more");
}

void fit_check(const Graph *g, Config *cfg)
{
    int64_t limit = fit_limit(g);
    if (g->arena_bytes <= limit)
        return;
    Str s = {0};
    const Card *card = cfg ? config_card(cfg) : NULL;
    str_print(&s, "does not fit %s: needs %s, %s available (over by %s)\n    largest:",
              card ? text_print("card %s (target %s)", card->name, card->target)
                   : text_print("target %s", g->target->name),
              text_bytes(g->arena_bytes), text_bytes(limit), text_bytes(g->arena_bytes - limit));
    print_largest(&s, g);
    if (cfg)
        print_near(&s, cfg, limit);
    err(g->setting[SETTING_memory].loc, "%s", s.text);
}
