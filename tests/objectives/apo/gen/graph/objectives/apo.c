/* apo.c -- an objective of the tests: single answers to prompts, desired or not, relative to the initial weights.
 *
 * In:    a model's last hidden states, (N, C) of the answers' rows; each sequence has one answer.
 * Out:   the schedules train and eval with their programs. */
#include "gen/graph/graph.h"

enum { STATS = 4 };              /* kernels/cpu/apo.h */

static Value *desired;

static void make_inputs(Build *b)
{
    b->added.targets = b->added.targets ? b->added.targets : b->in.B * b->in.T;
    b->in.tokens = input_new(b, "tokens");
    head_labels(b);
    desired = input_new(b, "desired");
}

static Ref answer_rows(Build *b, Pass *pass)
{
    return pass_rows(b, pass, head_rows_read(b));
}

static Ref per_answer(Build *b, const char *name, Dtype dtype)
{
    return build_temp(b, name, dtype, 1, desired->dim);
}

/* Log-probabilities of the answers; *counts: their targets. */
static Ref log_probs(Build *b, Ref losses, Ref *counts)
{
    Ref lp = per_answer(b, "lp", DT_F32);
    *counts = per_answer(b, "counts", DT_I32);
    Op *op = build_op(b, OP_seq_logp);
    op_in(op, losses), op_in(op, build_input(b, b->in.target_rows));
    op_out(op, lp), op_out(op, *counts);
    op_int(op, "length", b->in.T), op_int(op, "mean", 0);
    return lp;
}

static Ref reference_log_probs(Build *b)
{
    Ref counts;
    b->pass_prefix = "ref.", b->started = true;
    Pass pass = pass_only(b, b->mode == MODE_TRAIN ? "ref.x" : "e.ref.x");
    Ref lp = log_probs(b, head_losses(b, answer_rows(b, &pass), "losses"), &counts);
    b->pass_prefix = NULL, b->started = false;
    return lp;
}

/* Adds to loss and stats; returns the derivative of each answer's loss by its log-probability. */
static Ref answer_losses(Build *b, Ref y, Ref *counts)
{
    Ref lp = log_probs(b, head_losses(b, y, "losses"), counts), from = reference_log_probs(b),
        coef = per_answer(b, "coef", DT_F32);
    b->loc = config_loc(b->c, F_apo_beta);
    Op *op = build_op(b, OP_apo);
    op_in(op, lp), op_in(op, *counts), op_in(op, from), op_in(op, build_input(b, desired));
    op_out(op, coef), op_out(op, build_input(b, ir_value(b->g, "loss")));
    op_out(op, build_input(b, ir_value(b->g, "stats")));
    op_float(op, "apo_beta", config_float(b->c, F_apo_beta));
    b->loc = config_loc(b->c, F_objective);
    return coef;
}

/* (N): what each row's loss counts. */
static Ref row_weights(Build *b, Ref coef, Ref counts)
{
    Ref weights = build_temp(b, "row_weights", DT_F32, 1, b->in.target_rows->dim);
    Op *op = build_op(b, OP_seq_spread);
    op_in(op, coef), op_in(op, counts), op_in(op, build_input(b, b->in.target_rows));
    op_out(op, weights);
    op_int(op, "length", b->in.T), op_int(op, "mean", 0);
    return weights;
}

static void make_micro(Build *b)
{
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = answer_rows(b, &pass), dy = gradient_room(b, y), counts;
    int end = b->p->nops;
    Ref coef = answer_losses(b, y, &counts);
    head_losses_gradient(b, y, dy, row_weights(b, coef, counts), "weighted");
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
}

static void make_eval(Build *b)
{
    Ref counts;
    b->mode = MODE_EVAL;
    b->p = ir_program(b->g, "eval", ROLE_forward, "the losses of one micro-batch");
    Pass pass = pass_only(b, "e.x");
    answer_losses(b, answer_rows(b, &pass), &counts);
    schedule_loss(b, "this rank's losses of micro-batch 0, and its stats");
}

static void build(Build *b)
{
    make_inputs(b);
    loss_inputs(b);
    build_sum(b, "stats", STATS);
    make_micro(b);
    schedule_train(b);
    make_eval(b);
}

const ObjectiveParts apo_parts = {.build = build};
