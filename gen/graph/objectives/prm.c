/* prm.c -- the objective prm: labels of a solution's steps, each read off the model at the mark behind
 * its step, records weighted by what they teach.
 *
 * In:    a model's last hidden states, (N, C) of the marks: row b * M + j is mark j of record b.
 * Out:   the schedules train and score with their programs.
 * Keeps: what the host writes is listed in templates/objectives/prm.c. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/prm.h"

static int64_t marks;            /* M, that a record may have */
static Value *rewards, *record;  /* inputs; record NULL: all count 1 */
static Value *table;             /* of weights; or NULL */
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
    b->N = b->targets = b->B * marks;
    size_add(b, "N", b->N);
    b->tokens = input_new(b, "tokens");
    b->target_rows = input_new(b, "target_rows");
    b->target_of = input_new(b, "target_of");
    rewards = input_new(b, "rewards");
    record = meta ? input_new(b, "record") : NULL;
}

/* The table of weights: a number for each record, 1 at first. */
static void make_table(Build *b)
{
    table = NULL;
    meta = is(b, F_prm_weights, "none") ? NULL : set_add(b, "meta");
    if (!meta)
        return;
    b->set = meta;
    b->loc = config_loc(b->c, F_prm_weights);
    int64_t n = config_int(b->c, F_prm_records);
    table = build_aside(b, "weights.table", dim(n, text_print("%" PRId64, n)), dim(0, ""), "ones", 0);
    table->trained = table->decay = false;
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
    Dim C = dim(b->C, "C"), N = dim(b->N, "N");
    Layer in = family_layer(b, "score.in", "score.0", C, C, false, trained);
    Layer out = family_layer(b, "score.out", "score.2", C, dim(2, "2"), true, trained);
    Ref z = family_linear(b, in, "score.z", x), h = build_temp(b, "score.h", b->act, 2, z.v->dim);
    Op *op = build_op(b, OP_relu);
    op_in(op, z);
    op_out(op, h);
    Ref d = to ? ref(to) : build_temp(b, "margin", DT_F32, 1, &N);
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
    Dim d = dim(b->B, "B");
    return build_temp(b, name, DT_F32, 1, &d);
}

/* What each record counts; v NULL: 1. */
static Ref weights_of(Build *b)
{
    if (!meta)
        return (Ref){0};
    b->loc = config_loc(b->c, F_prm_weights);
    Ref weights = a_record(b, "weights");
    Op *op = build_op(b, OP_prm_weights);
    op_in(op, ref(table)), op_in(op, build_input(b, record));
    op_out(op, weights);
    op_word(op, "activation", config_text(b->c, F_prm_activation));
    return weights;
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
    Ref weights = weights_of(b), losses = losses_of(b, d), scale = loss_scale(b);
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
    if (is(b, F_prm_weights, "domain") || is(b, F_prm_weights, "net"))
        err(config_loc(b->c, F_prm_weights), "prm.weights: instance and none are there so far");
    make_table(b);
    make_inputs(b);
    loss_inputs(b);
    build_sum(b, "stats", PRM_STATS);
    make_micro(b);
    schedule_train(b);
    make_score(b);
}
