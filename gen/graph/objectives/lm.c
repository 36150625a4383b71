/* lm.c -- causal language modelling: cross-entropy of the next token.
 *
 * In:    hidden states (B, T, C), or (N, C) of the rows that have a target.
 * Out:   the schedules train, eval and decode with their programs.
 * Keeps: templates/objectives/lm.c lists what the host writes. */
#include "gen/graph/graph.h"

static void make_inputs(Build *b)
{
    b->in.tokens = input_new(b, "tokens");
    head_labels(b);
    if (!config_is(b->c, F_data_kind, "bfd"))
        return;
    Loc loc = b->loc;
    b->loc = config_loc(b->c, F_data_kind);
    b->in.positions = input_new(b, "positions");
    b->in.mask = (Mask){"docs", {b->in.positions, input_new(b, "doc_ends")}};
    b->loc = loc;
}

/* Hidden states of the rows with a target, chosen after the last norm, unless the last layer is
 * apart. */
static Ref hidden(Build *b, Pass *pass)
{
    const Rows rows = head_rows_read(b);
    if (last_layer_is_apart(b) || !rows.at)
        return pass_rows(b, pass, rows);
    const Ref y = pass_forward(b, pass);
    b->loc = config_loc(b->c, F_batch_targets);
    b->stage = "head";
    return build_rows(b, y, rows);
}

static void make_micro(Build *b)
{
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = hidden(b, &pass);
    Ref dy = gradient_room(b, y);
    int end = b->p->nops;
    head_loss_gradient(b, y, dy);
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
}

static void make_eval(Build *b)
{
    b->mode = MODE_EVAL;
    b->p = ir_program(b->g, "eval", ROLE_forward, "the loss of one micro-batch");
    Pass pass = pass_only(b, "e.x");
    head_loss(b, hidden(b, &pass));
    schedule_loss(b, "this rank's losses of micro-batch 0");
}

static void build(Build *b)
{
    make_inputs(b);
    loss_inputs(b);
    make_micro(b);
    schedule_train(b);
    make_eval(b);
    head_decode(b);
}

const ObjectiveParts lm_parts = {.build = build};
