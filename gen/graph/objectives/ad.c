/* ad.c -- algorithm distillation: predicts the next action of RL learning histories from their
 * context, at queries for a state and at the ends of context regions.
 *
 * In:    hidden states (N, C) of the queries; tokens are codes of runtime/darkroom.h.
 * Out:   the schedules train, eval and act with their programs.
 * Keeps: templates/objectives/ad.c lists what the host writes.
 * Source: Laskin et al. 2022, Algorithm Distillation. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/darkroom.h"
#include "runtime/data/contexts.h"

enum { TYPES = 3, MARKS = 2, STATS = 4 };

static bool compressed(const Build *b) { return config_is(b->c, F_ad_context, "compressed"); }
static bool asks_all(const Build *b) { return config_is(b->c, F_ad_queries, "all"); }

/* ---- rules between fields -------------------------------------------------------------------- */

/* Length of a sequence and number of queries; .env and .ragged are not set. */
static ContextRules context_rules(const Config *c)
{
    return (ContextRules){.compressed = !strcmp(c->v[F_ad_context].s, "compressed"),
                          .all = !strcmp(c->v[F_ad_queries].s, "all"),
                          .last = !strcmp(c->v[F_ad_boundary].s, "last"),
                          .n_transit = c->v[F_ad_n_transit].i,
                          .region = c->v[F_ad_region].i};
}

static void defaults(Config *c)
{
    const ContextRules rules = context_rules(c);
    rule_fill_int(c, F_seq_max, contexts_tokens(&rules));
    rule_fill_int(c, F_model_positions, c->v[F_ad_n_transit].i);
}

/* ---- what contradicts itself --------------------------------------------------------------- */

static void check_fields(Build *b)
{
    bool two = compressed(b), all = asks_all(b);
    const ContextRules rules = context_rules(b->c);
    ContextRules one = rules;
    one.all = false, one.n_transit = INT64_MAX;
    const int64_t longest = contexts_tokens(&one);
    const char *plain = "only for ad.context = \"compressed\"";
    build_unused(b, F_ad_region, two, plain);
    build_unused(b, F_ad_boundary, two, plain);
    build_unused(b, F_ad_type_weight, two, plain);
    build_unused(b, F_ad_ragged, !two && !all,
                 two ? "only for ad.context = \"plain\""
                     : "has no effect while ad.queries is \"all\", whose contexts have all "
                       "lengths");
    if (two && rules.last && rules.region == 1)
        err(config_loc(b->c, F_ad_region),
            "ad.region: with 1 step and ad.boundary = \"last\" there is no action to learn: "
            "nothing would be trained; try ad.region = 2 or more, or ad.boundary = \"next\"");
    if (two && all && longest > rules.n_transit)
        err(config_loc(b->c, F_ad_n_transit),
            "ad.n_transit: %" PRId64 " positions would cut regions, of which every position is a "
            "query: two regions of %" PRId64 " and their marks have up to %" PRId64
            "; try ad.n_transit = %" PRId64 ", or ad.queries = \"one\"",
            rules.n_transit, rules.region, longest, longest);
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* Number of queries of a sequence. */
static int64_t queries(const Build *b)
{
    const ContextRules rules = context_rules(b->c);
    return rules.all ? contexts_positions(&rules) : 1;
}

static Value *kinds, *type_scale;        /* inputs if compressed; else NULL */

static void make_inputs(Build *b)
{
    b->loc = config_loc(b->c, F_ad_queries);
    b->added.N = b->added.targets = b->in.B * queries(b);
    size_add(b, "N", b->added.N, "queries of a micro-batch");
    b->in.tokens = input_new(b, "tokens");
    b->in.positions = input_new(b, "positions");
    if (asks_all(b))
        b->in.mask = (Mask){"limit", {b->in.positions}};   /* as many tokens as precede it */
    b->in.target_rows = input_new(b, "target_rows");
    b->in.target_of = input_new(b, "target_of");
    b->in.labels = input_new(b, "labels");
    kinds = type_scale = NULL;
    if (!compressed(b))
        return;
    b->loc = config_loc(b->c, F_ad_context);
    kinds = input_new(b, "kinds");
    type_scale = input_new(b, "type_scale");
}

/* ---- the pieces of a program --------------------------------------------------------------- */

static Dim number(int64_t n) { return dim(n, text_print("%" PRId64, n)); }

/* Embedding rows of all transition codes, (CODES, C). */
static Ref table(Build *b)
{
    static const char *const path[] = {"embed.transition"};
    Dim C = dim_hidden(b), d[2] = {size_add(b, "CODES", DARKROOM_CODES, "transition codes"), C};
    Layer transition =
        layer_modules(b, "transition", 1, path, &C.n, number(DARKROOM_FEATURES), C);
    Value *states =
        layer_rows(b, "states", b->family->tokens, "weight", number(DARKROOM_STATES), 1);
    bool permuted = config_is(b->c, F_ad_env, "permuted");
    Value *more[2] = {0};
    if (compressed(b)) {
        /* PyTorch's truncated normal is cut at 2, a hundred standard deviations */
        more[0] = layer_rows(b, "marks", "embed", "marks", number(MARKS), 0.02);
        more[1] = layer_rows(b, "types", "embed.type", "weight", number(TYPES), 1);
    }
    Ref y = build_temp(b, "table", b->model.act, 2, d);
    Op *op = build_op(b, OP_transition_table);
    op_in(op, ref(transition.w)), op_in(op, ref(transition.b)), op_in(op, ref(states));
    for (int i = 0; i < 2 && more[i]; i++)
        op_in(op, ref(more[i]));
    op_out(op, y);
    op_int(op, "start", darkroom_start(permuted ? DARKROOM_PERMUTED : DARKROOM_DARKROOM));
    return y;
}

/* One output matrix for actions and types. */
static Layer heads(Build *b)
{
    static const char *const path[] = {"action", "type"};
    static const int64_t width[] = {DARKROOM_ACTIONS, TYPES};
    b->stage = "head";
    b->loc = config_loc(b->c, F_objective);
    const int n = compressed(b) ? 2 : 1;
    Dim classes = size_add(b, "CLASSES", DARKROOM_ACTIONS + (n > 1 ? TYPES : 0),
                           n > 1 ? "actions and token types, a logit each"
                                 : "actions, a logit each");
    return layer_modules(b, "choice", n, path, width, dim_hidden(b), classes);
}

static Ref choices(Build *b, Pass *pass)
{
    Ref x = pass_rows(b, pass, head_rows_read(b));
    return layer_apply(b, heads(b), "choice", x);
}

/* Adds to loss and stats; gradient (of a trained pass): derivative by the logits. */
static Ref losses(Build *b, Ref logits, bool gradient)
{
    Ref dlogits = {0}, scale = {0}, of_types = {0};
    if (gradient) {
        scale = loss_scale(b);
        of_types = type_scale ? loss_scale_of(b, type_scale) : scale;
        dlogits = gradient_room(b, logits);
    }
    Op *op = build_op(b, gradient ? OP_action_type_loss_bwd : OP_action_type_loss);
    op_in(op, logits), op_in(op, build_input(b, b->in.labels));
    if (gradient)
        op_in(op, scale), op_in(op, of_types);
    if (kinds)
        op_in(op, build_input(b, kinds));
    op_out(op, build_input(b, ir_value(b->g, "loss")));
    op_out(op, build_input(b, ir_value(b->g, "stats")));
    if (gradient)
        op_out(op, dlogits);
    op_float(op, "weight", kinds ? config_float(b->c, F_ad_type_weight) : 0);
    return dlogits;
}

/* ---- programs ------------------------------------------------------------------------------ */

static void make_micro(Build *b)
{
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref logits = choices(b, &pass);
    int end = b->p->nops;
    gradient_set(logits, losses(b, logits, true));
    pass_backward(b, &pass, end);
}

static void make_eval(Build *b)
{
    b->mode = MODE_EVAL;
    b->p = ir_program(b->g, "eval", ROLE_forward, "the losses of one micro-batch");
    Pass pass = pass_only(b, "e.x");
    losses(b, choices(b, &pass), false);
    schedule_loss(b, "this rank's losses and stats of micro-batch 0");
}

/* Program act: sequences of environments, as long as there are positions. */
static void make_act(Build *b)
{
    b->mode = MODE_SCORE;
    b->loc = config_loc(b->c, F_eval_micro);
    b->in.B = config_int(b->c, F_eval_micro), b->in.batch = "EVAL";
    b->in.T = config_int(b->c, F_ad_n_transit), b->in.length = "TA";
    size_add(b, "EVAL", b->in.B, "environments that act at once");
    size_add(b, "TA", b->in.T, "positions of an acting environment's sequence");
    b->in.tokens = input_new(b, "act_tokens");
    b->in.positions = input_new(b, "act_positions");
    b->in.mask = MASK_CAUSAL;
    Value *rows = input_new(b, "act_rows");
    b->p = ir_program(b->g, "act", ROLE_forward, "the logits of each environment's query");
    Pass pass = pass_only(b, "s.x");
    Ref x = pass_rows(b, &pass, (Rows){"act", rows, NULL});
    Layer head = heads(b);
    Value *logits = build_persistent(b, "logits", PU_activations, DT_F32, 2, x.v->dim[0],
                                     head.w->dim[0]);
    Op *op = build_op(b, OP_logits_bias);
    op_in(op, x), op_in(op, ref(head.w)), op_in(op, ref(head.b));
    op_out(op, ref(logits));
    schedule_alone(b, "the logits of each environment's query", "logits");
}

static void build(Build *b)
{
    const PassInputs in = b->in;
    check_fields(b);
    b->added.table = table;
    make_inputs(b);
    loss_inputs(b);
    build_sum(b, "stats", STATS);
    make_micro(b);
    schedule_train(b);
    make_eval(b);
    make_act(b);
    b->in = in;
}

const ObjectiveParts ad_parts = {.rules = {.defaults = defaults}, .build = build};
