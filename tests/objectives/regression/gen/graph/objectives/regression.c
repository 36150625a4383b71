/* regression.c -- an objective of the tests: squared error of one number a place, rows of floats.
 *
 * In:    a model's last hidden states, (B, T, C); every place meets all.
 * Out:   the schedules train and eval with their programs. */
#include "gen/graph/graph.h"

static Value *targets;

static void make_inputs(Build *b)
{
    b->loc = config_loc(b->c, F_model_features);
    size_add(b, "X", config_int(b->c, F_model_features));
    size_add(b, "Y", 1);         /* what the head makes of a place */
    b->features = input_new(b, "features");
    b->features_path = "transformer.proj";
    b->both_ways = true;
    b->loc = config_loc(b->c, F_objective);
    targets = input_new(b, "targets");
}

static Ref predicted(Build *b, Pass *pass)
{
    Ref x = pass_forward(b, pass);
    b->loc = config_loc(b->c, F_objective);
    return family_output(b, x, "head", targets->dim[2]);
}

static void make_micro(Build *b)
{
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = predicted(b, &pass), dy = gradient_room(b, y);
    int end = b->p->nops;
    Ref losses = loss_rows(b, y), scale = loss_scale(b);
    Op *op = build_op(b, OP_squared_bwd);
    op_in(op, y), op_in(op, build_input(b, targets)), op_in(op, scale);
    op_out(op, losses), op_out(op, dy);
    loss_sum(b, losses);
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
}

static void make_eval(Build *b)
{
    b->mode = MODE_EVAL;
    b->p = ir_program(b->g, "eval", ROLE_forward, "the loss of one micro-batch");
    Pass pass = pass_only(b, "e.x");
    Ref y = predicted(b, &pass), losses = loss_rows(b, y);
    Op *op = build_op(b, OP_squared);
    op_in(op, y), op_in(op, build_input(b, targets));
    op_out(op, losses);
    loss_sum(b, losses);
    schedule_loss(b, "this rank's losses of micro-batch 0");
}

void regression_build(Build *b)
{
    make_inputs(b);
    loss_inputs(b);
    make_micro(b);
    schedule_train(b);
    make_eval(b);
}
