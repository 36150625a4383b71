/* regression.c -- an objective of the tests: squared error of one number a place, rows of floats.
 *
 * In:    a model's last hidden states, (B, T, C); every place meets all.
 * Out:   the schedules train and eval with their programs; with model.sets the head is a set of
 *        parameters of its own, updated by the schedule late, and with 2 the features' layer another,
 *        which train updates with the rest; with model.upper the schedule upper: $jvp. */
#include "gen/graph/bilevel.h"

#include <string.h>

static Value *targets;
static Set *head, *proj;         /* NULL: of the model */

static void make_inputs(Build *b)
{
    b->loc = config_loc(b->c, F_model_features);
    size_add(b, "X", config_int(b->c, F_model_features), "features of a place");
    size_add(b, "Y", 1, "numbers that the head makes of a place");
    b->in.features = input_new(b, "features");
    b->added.features_path = "transformer.proj";
    b->in.mask.word = "full";
    b->loc = config_loc(b->c, F_objective);
    targets = input_new(b, "targets");
    int64_t sets = config_int(b->c, F_model_sets);
    head = sets > 0 ? set_add(b, "head") : NULL;
    proj = sets > 1 ? set_add(b, "proj") : NULL;
}

static Ref predicted(Build *b, Pass *pass)
{
    Ref x = pass_forward(b, pass);
    b->loc = config_loc(b->c, F_objective);
    b->set = head ? head : b->added.sets;
    static const char *const path[] = {"head"};
    Dim width = targets->dim[2];
    Layer layer = layer_modules(b, "head", 1, path, &width.n, dim_hidden(b), width);
    Ref y = layer_apply(b, layer, "head.y", x);
    b->set = b->added.sets;
    return y;
}

/* Of each place the squared error, and its gradient to y. */
static Ref errors(Build *b, Ref y, Ref dy)
{
    Ref losses = loss_rows(b, y), scale = loss_scale(b);
    Op *op = build_op(b, OP_squared_bwd);
    op_in(op, y), op_in(op, build_input(b, targets)), op_in(op, scale);
    op_out(op, losses), op_out(op, dy);
    return losses;
}

static void train_head(Build *b, bool trained)
{
    ir_value(b->g, "head.w")->trained = ir_value(b->g, "head.b")->trained = trained;
}

static void make_micro(Build *b)
{
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = predicted(b, &pass), dy = gradient_room(b, y);
    int end = b->p->nops;
    if (proj)
        ir_value(b->g, "embed.w")->set = ir_value(b->g, "embed.b")->set = proj->name;
    loss_sum(b, errors(b, y, dy));
    gradient_set(y, dy);
    train_head(b, !head);
    pass_backward(b, &pass, end);
    train_head(b, true);
}

/* ---- derivatives along the gradient of other samples' loss ------------------------------------- */

enum { OTHERS = 3 };             /* of a micro-batch */

static void write_others(Build *b, Value *scale)
{
    const PassInputs in = b->in;
    Value *own = targets;
    b->in.B = OTHERS, b->in.batch = "META";
    b->in.features = input_new(b, "upper_features");
    targets = input_new(b, "upper_targets");
    program_prefixed(b, "others", ROLE_gradients, "forward and backward of the others");
    Pass pass = pass_trained(b);
    Ref y = predicted(b, &pass), dy = gradient_room(b, y), losses = loss_rows(b, y);
    int end = b->p->nops;
    Ref scaled = loss_scale_of(b, scale);
    Op *op = build_op(b, OP_squared_bwd);
    op_in(op, y), op_in(op, build_input(b, targets)), op_in(op, scaled);
    op_out(op, losses), op_out(op, dy);
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
    b->in = in, targets = own;
}

/* Losses of a sample each, at moved parameters. */
static void write_losses(Build *b, const Jvp *jvp)
{
    program_prefixed(b, "probe", ROLE_forward, "the losses of samples");
    Pass pass = pass_only(b, "probe.x");
    Ref y = predicted(b, &pass), losses = loss_rows(b, y),
        sums = build_temp(b, "sums", DT_F32, 1, y.v->dim);
    Op *op = build_op(b, OP_squared);
    op_in(op, y), op_in(op, build_input(b, targets));
    op_out(op, losses);
    op = build_op(b, OP_sum_places);
    op_in(op, losses);
    op_out(op, sums);
    jvp_losses(b, jvp, sums);
}

static void write_products(Build *b, Jvp *jvp)
{
    program_prefixed(b, "samples", ROLE_gradients, "how the losses of samples change along v");
    b->jvp = jvp;
    Pass pass = pass_trained(b);
    Ref y = predicted(b, &pass), dy = gradient_room(b, y);
    int end = b->p->nops;
    errors(b, y, dy);
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
}

static void make_upper(Build *b)
{
    size_add(b, "META", OTHERS, "other samples of a micro-batch");
    Value *scale = input_new(b, "upper_scale");
    Jvp *jvp = jvp_new(b, b->set);
    Schedule *s = ir_schedule(b->g, "upper", "how losses of samples change along the others' gradient");
    write_others(b, scale);
    schedule_turns(b, s);
    jvp_tangent(b, s, jvp);
    if (!strcmp(config_text(b->c, F_model_upper), "fd")) {
        write_losses(b, jvp);
        jvp_differences(b, s, jvp);
    } else {
        write_products(b, jvp);
        schedule_turns(b, s);
    }
    schedule_result(s, jvp->jvp);
    schedule_end(b, s);
}

/* The head alone, of micro-batch 0. */
static void make_late(Build *b)
{
    b->mode = MODE_SCORE;
    b->set = head;
    b->p = ir_program(b->g, "late_micro", ROLE_gradients, "forward; the gradients of the head");
    Pass pass = pass_only(b, "s.x");
    Ref y = predicted(b, &pass), dy = build_temp(b, "dy", b->model.act, y.v->rank, y.v->dim);
    Ref x = b->p->ops[b->p->nops - 1].in[0];
    b->set = head;
    loss_sum(b, errors(b, y, dy));
    Op *op = build_op(b, OP_bias_grad);
    op_in(op, dy);
    op_out(op, ref(gradient_of(b, ir_value(b->g, "head.b"))));
    op_int(op, "beta", 0);
    op = build_op(b, OP_linear_dw);
    op_in(op, dy), op_in(op, x);
    op_out(op, ref(gradient_of(b, ir_value(b->g, "head.w"))));
    op_int(op, "beta", 0);
    schedule_update(b, "late", "an update of the head; micro-batch 0");
    b->set = b->added.sets;
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

static void build(Build *b)
{
    make_inputs(b);
    loss_inputs(b);
    make_micro(b);
    schedule_train(b);
    if (head)
        make_late(b);
    if (strcmp(config_text(b->c, F_model_upper), "none"))
        make_upper(b);
    make_eval(b);
}

const ObjectiveParts regression_parts = {.build = build};
