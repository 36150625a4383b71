/* fit.c -- refuses a plan that the target cannot hold, and names recipes near it that fit.
 *
 * In:    the graph after plan.   Out: nothing, or the end of the program.
 * Method: the rooms run again on copies of the Config with a few fields changed; what fits is
 *         printed with its bytes. */
#include "gen/config/family.h"
#include "gen/config/objective.h"
#include "gen/config/rules.h"
#include "gen/graph/kernels.h"
#include "gen/lower/lower.h"

#include <inttypes.h>

#include "runtime/shares.h"

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

/* True if the recipe updates weights inside the backward pass. */
static bool in_backward(Config *c) { return config_is(c, F_optim_when, "backward"); }

/* True if a step is one micro-batch, so that a smaller one is a smaller step, without adapters. */
static bool has_one_micro(Config *c)
{
    const ObjectiveRules *rules = config_rules(c);
    return in_backward(c) || (rules->one_micro && rules->one_micro(c));
}

/* True if a micro-batch has to have all samples of a rank's step. */
static bool is_fixed(Config *c) { return has_one_micro(c) && config_int(c, F_batch_global); }

/* A change of a recipe that needs less memory. */
typedef struct {
    int64_t micro, T;
    bool recompute;
    int64_t zero;                /* stage of memory.zero; 0: the recipe's */
    bool moments;                /* in 8 bit */
    int64_t rank;                /* of adapters, where the recipe has none; 0: none */
    bool nf4;                    /* the base of adapters in NF4 */
} Change;

static Config *changed(Config *old, Change to)
{
    const int64_t micro = to.micro, T = to.T, rank = to.rank;
    Config *c = arena_new(sizeof *c);
    *c = *old;
    int64_t was = c->v[F_batch_micro].i;
    c->v[F_batch_micro].i = micro;
    if (!has_one_micro(old))
        c->v[F_batch_accum].i *= was / micro;
    c->v[F_batch_targets].i = bound_of(old, micro, T);
    c->v[F_seq_max].i = T;
    c->v[F_batch_texts].i = config_texts(c);
    c->v[F_memory_loss_rows].i = 0;
    if (to.recompute)
        c->v[F_memory_recompute].s = "block";
    if (to.zero)
        c->v[F_memory_zero].i = to.zero;
    if (to.moments)
        c->v[F_optim_moments].s = "8bit";
    if (to.nf4)
        c->v[F_lora_base].s = "nf4";
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
    Config *c = changed(own, (Change){.micro = micro, .T = T});
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
    bool found = false;
    str_print(s, "\n    by precision:");
    for (int i = 0; i < 3; i++) {
        Config *c = config_in_precision(cfg, precision[i]);
        bytes[i] = c ? planned(c) : 0;
        if (c)
            str_print(s, "   %s %s", precision[i], text_bytes(bytes[i]));
    }
    if (bytes[0] && bytes[2] > bytes[0])
        str_print(s, "   (in fp16 updates keep fp32 copies of the weights)");
    for (int i = 0; i < 3; i++)
        if (bytes[i] && bytes[i] <= limit) {
            str_print(s, "\n    fits: precision=%s   (%s)", precision[i], text_bytes(bytes[i]));
            found = true;
        }
    return found;
}

enum { STAGES = 3 };             /* of memory.zero */

/* True if that stage of memory.zero is allowed and divides more than the recipe's. */
static bool may_divide(const Graph *g, Config *c, int64_t stage)
{
    /* stage 1 divides sums, too */
    const bool sums = stage == 2 && config_is(c, F_comm_order, "canonical");
    if (c->v[F_memory_zero].i >= stage || sums || in_backward(c) || !ranks_divide(g->ranks))
        return false;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        const bool weights = stage == 3 && !v->pinned;
        if (v->kind == VK_PARAM && (v->trained || weights) && value_room(g, v) >= SHARE_LEAST)
            return true;
    }
    return false;
}

static bool may_adapt(Config *c)
{
    return !has_one_micro(c) && !field_fixed(c, F_lora_rank) && !config_int(c, F_lora_rank) &&
           family_takes_adapters(family_find(c->v[F_model_family].s));
}

/* True if optim.moments = "8bit" would make much smaller: all weights of matrices that are large
 * enough are trained, and their moments are fp32. */
static bool has_large_moments(Config *c)
{
    const int64_t hidden = config_int(c, F_model_hidden);
    return config_is(c, F_optim_moments, "fp32") && !config_int(c, F_lora_rank) &&
           hidden * hidden >= QUANTISE_LEAST;
}

/* True if lora.base = "nf4" is allowed, with adapters that the recipe has or may have: whole blocks
 * in every matrix. */
static bool may_quantise(Config *c)
{
    return !config_is(c, F_lora_base, "nf4") && (config_int(c, F_lora_rank) || may_adapt(c)) &&
           !family_find(c->v[F_model_family].s)->transposed &&
           config_int(c, F_model_hidden) % 64 == 0 && config_int(c, F_model_ffn) % 2 == 0 &&
           config_int(c, F_model_heads) * config_int(c, F_model_head_dim) % 2 == 0;
}

/* Plans a changed recipe and prints its words if it fits. */
static bool print_if_fits(Str *s, Config *cfg, Change to, int64_t limit)
{
    const int64_t micro = config_int(cfg, F_batch_micro), T = config_int(cfg, F_seq_max);
    Config *near = changed(cfg, to);
    const int64_t bytes = planned(near);
    if (bytes > limit)
        return false;
    str_print(s, "\n    fits:");
    if (to.T != T)
        str_print(s, " seq.max=%" PRId64, to.T);
    if (to.micro != micro || to.T != T)
        str_print(s, " batch.micro=%" PRId64 " batch.accum=%" PRId64, to.micro,
                  near->v[F_batch_accum].i);
    print_bound(s, cfg, to.micro, to.T);
    str_print(s, "%s%s%s%s%s   (%s)",
              to.recompute && (to.T != T || !config_is(cfg, F_memory_recompute, "block"))
                  ? " memory.recompute=block"
                  : "",
              to.zero ? text_print(" memory.zero=%" PRId64, to.zero) : "",
              to.moments ? " optim.moments=8bit" : "",
              to.rank ? " lora.rank=16 lora.targets=all-linear" : "",
              to.nf4 ? " lora.base=nf4" : "", text_bytes(bytes));
    return true;
}

/* Largest batch.micro that divides the recipe's, without and with recomputing. */
static bool print_smaller(Str *s, Config *cfg, Change to, int64_t limit)
{
    const bool recomputes = config_is(cfg, F_memory_recompute, "block");
    const int64_t micro = to.micro;
    bool found = false;
    for (int again = recomputes; again < 2; again++)
        for (to.micro = micro; to.micro >= 1; to.micro /= 2) {
            to.recompute = again;
            if (micro % to.micro || (to.micro < micro && is_fixed(cfg)) ||
                (to.micro == micro && again == recomputes && !to.rank && !to.zero && !to.moments &&
                 !to.nf4))
                continue;
            if (print_if_fits(s, cfg, to, limit)) {
                found = true;
                break;
            }
        }
    return found;
}

/* Recipes near it that fit. */
static void print_near(Str *s, const Graph *g, Config *cfg, int64_t limit)
{
    const bool in_another = print_precisions(s, cfg, limit);
    const Change same = {.micro = config_int(cfg, F_batch_micro), .T = config_int(cfg, F_seq_max)};
    Change to = same;
    int64_t most = 0;            /* the last stage that may be offered */
    bool found = false;
    for (to.zero = 1; to.zero <= STAGES && !found; to.zero++)
        if (may_divide(g, cfg, to.zero)) {
            most = to.zero;
            found = print_if_fits(s, cfg, to, limit);
        }
    to.zero = most;
    found |= print_smaller(s, cfg, same, limit);
    found = found || (most && print_smaller(s, cfg, to, limit));
    to = same, to.moments = true;
    if (!found && has_large_moments(cfg))
        found = print_smaller(s, cfg, to, limit);
    to = same, to.rank = 16;
    if (!found && may_adapt(cfg))
        found = print_smaller(s, cfg, to, limit);
    to = same, to.nf4 = true, to.rank = config_int(cfg, F_lora_rank) ? 0 : 16;
    if (!found && may_quantise(cfg))
        found = print_smaller(s, cfg, to, limit);
    to = (Change){.micro = is_fixed(cfg) ? same.micro : 1, .recompute = true};
    for (to.T = field_fixed(cfg, F_seq_max) ? 0 : same.T / 2; to.T >= 16 && !found; to.T /= 2) {
        to.zero = 0;
        found = print_if_fits(s, cfg, to, limit);
        to.zero = most;
        found = found || (most && print_if_fits(s, cfg, to, limit));
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
        print_near(&s, g, cfg, limit);
    err(g->setting[SETTING_memory].loc, "%s", s.text);
}
