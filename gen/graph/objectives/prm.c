/* prm.c -- the objective prm: labels of a solution's steps, each read off the model at the mark behind
 * its step, records weighted by what they teach.
 *
 * In:    a model's last hidden states, (N, C) of the marks: row b * M + j is mark j of record b.
 * Out:   the schedules train and score with their programs; unless all records count 1, meta, which
 *        updates what they count.
 * Keeps: what the host writes is listed in templates/objectives/prm.c. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/prm.h"

static int64_t marks;            /* M, that a record may have */
static Value *rewards, *record;  /* inputs; record NULL: all count 1 */
static Value *domains;           /* input: entries in use; or NULL */
static Value *learned[4];        /* the table, or of a net both layers' weights and biases */
static int nlearned;
static Value *judged;            /* of a net: margins that it has judged; or NULL */
static Set *meta;                /* what is learned of the meta records; or NULL */

static bool is(Build *b, int field, const char *word)
{
    return !strcmp(config_text(b->c, field), word);
}

/* ---- what contradicts itself --------------------------------------------------------------- */

static void check_fields(Build *b)
{
    bool none = is(b, F_prm_weights, "none"), instance = is(b, F_prm_weights, "instance");
    int64_t steps = config_int(b->c, F_prm_steps), labels = config_int(b->c, F_prm_rewards);
    const char *unlearned = "has no effect while prm.weights is \"none\"";
    build_unused(b, F_prm_activation, instance, "of prm.weights = \"instance\" alone");
    build_unused(b, F_prm_records, instance, "of prm.weights = \"instance\" alone");
    build_unused(b, F_prm_domains, is(b, F_prm_weights, "domain"),
                 "of prm.weights = \"domain\" alone");
    build_unused(b, F_prm_hyper, !none, unlearned);
    build_unused(b, F_prm_unroll, !none, unlearned);
    build_unused(b, F_meta_micro, !none, unlearned);
    if (is(b, F_prm_hyper, "fd") && b->act != DT_F32)
        err(config_loc(b->c, F_prm_hyper),
            "prm.hyper: \"fd\" moves parameters by about 1e-6, which the 16-bit copies that products read "
            "do not show; try prm.hyper = \"dot\", or precision = \"fp32\"");
    if (steps == 1)
        err(config_loc(b->c, F_prm_steps), "prm.steps: want 2 or more, of which all but the last have "
            "a mark, or 0 for any number from 2 to 16, got 1");
    build_unused(b, F_prm_rewards, steps,
                 "has no effect while prm.steps is 0: a record has a label for each of its marks");
    if (steps && labels < steps - 1)
        err(config_loc(b->c, F_prm_rewards),
            "prm.rewards: the %" PRId64 " marks of prm.steps = %" PRId64 " want a label each, got %"
            PRId64, steps - 1, steps, labels);
    if (marks > b->T)
        err(config_loc(b->c, F_seq_max), "seq.max: %" PRId64 " tokens have no room for %" PRId64
            " marks", b->T, marks);
}

/* ---- inputs and parameters ------------------------------------------------------------------ */

static void make_inputs(Build *b)
{
    b->new_row = config_bool(b->c, F_prm_new_mark);
    b->N = b->targets = b->B * marks;
    size_add(b, "N", b->N);
    b->tokens = input_new(b, "tokens");
    b->target_rows = input_new(b, "target_rows");
    b->target_of = input_new(b, "target_of");
    rewards = input_new(b, "rewards");
    record = meta ? input_new(b, "record") : NULL;
    domains = is(b, F_prm_weights, "domain") ? input_new(b, "domains") : NULL;
}

static void learn(Build *b, const char *name, int64_t rows, int64_t columns, const char *init,
                  double bound)
{
    Dim d0 = dim(rows, text_print("%" PRId64, rows)),
        d1 = dim(columns, columns ? text_print("%" PRId64, columns) : "");
    learned[nlearned++] = build_aside(b, name, d0, d1, init, bound);
}

/* What is learned of the meta records: a number for each record, or domain; or a net, whose layers
 * begin as those of PyTorch. At first every record counts 1, but for a net. */
static void make_learned(Build *b)
{
    nlearned = 0;
    meta = is(b, F_prm_weights, "none") ? NULL : set_add(b, "meta");
    if (!meta)
        return;
    b->set = meta;
    b->loc = config_loc(b->c, F_prm_weights);
    double in = 1 / sqrt(PRM_NET_INPUTS), between = 1 / sqrt(PRM_NET_UNITS);
    if (is(b, F_prm_weights, "net")) {
        learn(b, "weights.net.0.weight", PRM_NET_UNITS, PRM_NET_INPUTS, "uniform", in);
        learn(b, "weights.net.0.bias", PRM_NET_UNITS, 0, "uniform", in);
        learn(b, "weights.net.2.weight", 1, PRM_NET_UNITS, "uniform", between);
        learn(b, "weights.net.2.bias", 1, 0, "uniform", between);
    } else if (is(b, F_prm_weights, "domain"))
        learn(b, "weights.table", config_int(b->c, F_prm_domains), 0, "zeros", 0);
    else
        learn(b, "weights.table", config_int(b->c, F_prm_records), 0, "ones", 0);
    b->set = b->sets;
    b->loc = config_loc(b->c, F_objective);
}

/* ---- the pieces of a program --------------------------------------------------------------- */

/* The score head: the margin of each mark's two logits, (N) fp32, or into `to`. */
static Ref margins(Build *b, Ref x, Value *to)
{
    b->stage = "head";
    b->loc = config_loc(b->c, F_objective);
    bool trained = config_bool(b->c, F_prm_train_head);
    Dim C = dim(b->C, "C"), N = x.v->dim[0];
    Layer in = family_layer(b, "score.in", "score.0", C, C, false, trained);
    Layer out = family_layer(b, "score.out", "score.2", C, dim(2, "2"), true, trained);
    Ref z = family_linear(b, in, "score.z", x), h = build_temp(b, "score.h", b->act, 2, z.v->dim);
    Op *op = build_op(b, OP_relu);
    op_in(op, z);
    op_out(op, h);
    Ref d = to ? build_input(b, to) : build_temp(b, "margin", DT_F32, 1, &N);
    op = build_op(b, OP_margin);
    op_in(op, h), op_in(op, ref(out.w)), op_in(op, ref(out.b));
    op_out(op, d);
    return d;
}

static Ref scored(Build *b, Pass *pass, Value *to)
{
    return margins(b, pass_last(b, head_gather(b, pass_blocks(b, pass))), to);
}

/* (B) f32 */
static Ref a_record(Build *b, const char *name)
{
    Dim d = dim_batch(b);
    return build_temp(b, name, DT_F32, 1, &d);
}

/* The operands of an op on records' marks: `first`, their labels and their places. */
static Op *on_marks(Build *b, int kind, Ref first, Ref d)
{
    Op *op = build_op(b, kind);
    if (first.v)
        op_in(op, first);
    op_in(op, d), op_in(op, build_input(b, rewards)), op_in(op, build_input(b, b->target_rows));
    op_int(op, "marks", marks);
    return op;
}

/* An op of what each record counts: a gradient's operands first, then what they count by. */
static Op *by_learned(Build *b, int table, int of_domains, int net, Ref slope, Ref scale, Ref d)
{
    b->loc = config_loc(b->c, F_prm_weights);
    bool is_net = is(b, F_prm_weights, "net");
    Op *op = build_op(b, is_net ? net : domains ? of_domains : table);
    if (slope.v)
        op_in(op, slope), op_in(op, scale);
    if (is_net)
        op_in(op, d), op_in(op, build_input(b, b->target_rows)), op_in(op, build_input(b, record));
    for (int i = 0; i < nlearned; i++)
        op_in(op, ref(learned[i]));
    if (domains)
        op_in(op, ref(domains));
    if (is_net)
        op_int(op, "marks", marks);
    else
        op_in(op, build_input(b, record));
    if (is(b, F_prm_weights, "instance"))
        op_word(op, "activation", config_text(b->c, F_prm_activation));
    return op;
}

/* What each record counts; v NULL: 1. */
static Ref weights_of(Build *b, Ref d)
{
    Ref none = {0};
    if (!meta)
        return none;
    Ref weights = a_record(b, "weights");
    op_out(by_learned(b, OP_prm_weights, OP_prm_domains, OP_prm_net, none, none, d), weights);
    return weights;
}

static Ref losses_of(Build *b, Ref d)
{
    b->loc = config_loc(b->c, F_objective);
    Ref losses = a_record(b, "losses");
    op_out(on_marks(b, OP_prm_loss, (Ref){0}, d), losses);
    return losses;
}

/* Adds to loss and stats; what they change by each margin, times the scale. */
static Ref weighted_loss(Build *b, Ref d)
{
    Ref weights = weights_of(b, d), losses = losses_of(b, d), scale = loss_scale(b);
    Op *op = on_marks(b, OP_prm_sums, losses, d);
    if (weights.v)
        op_in(op, weights);
    op_out(op, ref(ir_value(b->g, "loss"))), op_out(op, ref(ir_value(b->g, "stats")));
    Ref dd = build_temp(b, "dmargin", DT_F32, 1, d.v->dim);
    op = on_marks(b, OP_prm_loss_bwd, (Ref){0}, d);
    op_in(op, scale);
    if (weights.v)
        op_in(op, weights);
    op_out(op, dd);
    return dd;
}

/* ---- programs ------------------------------------------------------------------------------ */

static void make_micro(Build *b)
{
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref d = scored(b, &pass, NULL);
    int end = b->p->nops;
    gradient_set(d, weighted_loss(b, d));
    pass_backward(b, &pass, end);
}

/* ---- the upper level: what records count, learned of the meta records ------------------------ */

/* Of what records count the gradient: a record counts less, the more its loss grows along v. A net
 * judges the margins of the records, which differences leave to a pass of its own. */
static void weigh(Build *b, const Slopes *slopes)
{
    program_further(b, "weigh", ROLE_gradients, "what records count: its gradient");
    Ref d = {0};
    if (is(b, F_prm_weights, "net")) {
        Pass pass = pass_only(b, "weigh.x");
        d = judged ? build_input(b, judged) : scored(b, &pass, NULL);
    }
    b->loc = config_loc(b->c, F_prm_weights);
    b->set = meta;
    Ref scale = loss_scale(b);
    Op *op = by_learned(b, OP_prm_weights_bwd, OP_prm_domains_bwd, OP_prm_net_bwd,
                        slopes_of(b, slopes), scale, d);
    for (int i = 0; i < nlearned; i++)
        op_out(op, ref(gradient_of(b, learned[i])));
    op_int(op, "beta", 0);
    b->set = b->sets;
}

/* Forward and backward of the meta records, in the place of the others. */
static void judge(Build *b, Value *scale, Value *stats)
{
    Value *tokens = b->tokens, *rows = b->target_rows, *of = b->target_of;
    int64_t B = b->B;
    b->loc = config_loc(b->c, F_meta_micro);
    b->B = config_int(b->c, F_meta_micro), b->batch = "META";
    size_add(b, "META", b->B);
    size_add(b, "METAN", b->B * marks);
    b->tokens = input_new(b, "meta_tokens");
    b->target_rows = input_new(b, "meta_rows");
    b->target_of = input_new(b, "meta_of");
    Value *outcomes = input_new(b, "outcomes");
    program_further(b, "meta_micro", ROLE_gradients,
                    "forward and backward of meta records; adds to v, in the gradients' place");
    Pass pass = pass_trained(b);
    Ref d = scored(b, &pass, NULL), dd = build_temp(b, "dmargin", DT_F32, 1, d.v->dim);
    int end = b->p->nops;
    b->loc = config_loc(b->c, F_prm_aggregate);
    Ref scaled = loss_scale_of(b, scale);
    Op *op = build_op(b, OP_prm_outcome);
    op_in(op, d), op_in(op, build_input(b, b->target_rows)), op_in(op, build_input(b, outcomes));
    op_in(op, scaled);
    op_out(op, dd), op_out(op, ref(stats));
    op_int(op, "marks", marks);
    op_word(op, "aggregate", config_text(b->c, F_prm_aggregate));
    gradient_set(d, dd);
    pass_backward(b, &pass, end);
    b->B = B, b->batch = NULL;
    b->tokens = tokens, b->target_rows = rows, b->target_of = of;
}

/* The records' losses, unweighted, with parameters moved. */
static void probe(Build *b, const Slopes *slopes)
{
    program_further(b, "probe", ROLE_forward, "losses of the records, parameters moved along v");
    Pass pass = pass_only(b, "probe.x");
    slopes_losses(b, slopes, losses_of(b, scored(b, &pass, NULL)));
}

/* Their backward pass, of which only products with v are left. */
static void probe_products(Build *b, Slopes *slopes)
{
    program_further(b, "probe", ROLE_gradients, "how the losses of the records change along v");
    b->slopes = slopes;
    Pass pass = pass_trained(b);
    if (is(b, F_prm_weights, "net")) {
        judged = build_kept(b, "judged", PU_activations, DT_F32, 1, dim(b->N, "N"), dim(0, ""));
        judged->count = slopes->slope->count;
        judged->slots = slopes->slope->slots;
    }
    Ref d = scored(b, &pass, judged), dd = build_temp(b, "dmargin", DT_F32, 1, d.v->dim);
    int end = b->p->nops;
    b->loc = config_loc(b->c, F_objective);
    Ref scale = loss_scale(b);
    Op *op = on_marks(b, OP_prm_loss_bwd, (Ref){0}, d);
    op_in(op, scale);
    op_out(op, dd);
    gradient_set(d, dd);
    pass_backward(b, &pass, end);
}

static void schedule_meta(Build *b)
{
    b->loc = config_loc(b->c, F_meta_micro);
    Value *scale = input_new(b, "meta_scale"),
          *stats = build_kept(b, "meta_stats", PU_activations, DT_F64, 1,
                              dim(PRM_META_STATS, text_print("%d", PRM_META_STATS)), dim(0, ""));
    Schedule *s = ir_schedule(b->g, "meta", "an update of what records count, by the step's records");
    Slopes *slopes = slopes_new(b, b->sets);
    meta->scale = b->sets[0].scale;
    schedule_clear(s, stats);
    judge(b, scale, stats);
    schedule_turns(b, s);
    slopes_direction(b, s, slopes);
    if (is(b, F_prm_hyper, "fd")) {
        probe(b, slopes);
        slopes_differences(b, s, slopes);
    } else {
        probe_products(b, slopes);
        schedule_turns(b, s);
    }
    weigh(b, slopes);
    schedule_turns(b, s);
    schedule_result(s, stats);
    schedule_set(b, s, meta);
    schedule_end(b, s);
}

static void make_score(Build *b)
{
    b->mode = MODE_SCORE;
    b->p = ir_program(b->g, "score", ROLE_forward, "the margin of each mark's two logits");
    Pass pass = pass_only(b, "s.x");
    b->loc = config_loc(b->c, F_objective);
    Value *kept = build_kept(b, "margins", PU_activations, DT_F32, 1, dim(b->N, "N"), dim(0, ""));
    scored(b, &pass, kept);
    schedule_alone(b, "the margins of micro-batch 0's marks", "margins");
}

void prm_build(Build *b)
{
    int64_t steps = config_int(b->c, F_prm_steps);
    marks = steps ? steps - 1 : 15;
    check_fields(b);
    judged = NULL;
    make_learned(b);
    make_inputs(b);
    loss_inputs(b);
    build_sum(b, "stats", PRM_STATS);
    make_micro(b);
    schedule_train(b);
    if (meta)
        schedule_meta(b);
    make_score(b);
}
