/* bilevel.c -- derivatives of per-sample losses along v, the gradient of another loss.
 *
 * In:    programs that write v over a parameter group's gradients, and programs of the losses.
 * Out:   $along, $slope; program direction; for finite differences, programs forth, back, restore.
 * Keeps: parameters end as they began, bit for bit.
 * Method: finite differences: (l(theta + eps v) - l(theta - eps v)) / 2 eps; Jacobian-vector
 *         products: gradient.c. */
#include "gen/graph/bilevel.h"

#include <inttypes.h>

#include "runtime/along.h"

/* Name of a value or program of these slopes. */
static const char *word(const Slopes *slopes, const char *name, char between)
{
    return slopes->set->name ? text_print("%s%c%s", name, between, slopes->set->name) : name;
}

static Value *number(Build *b, const Slopes *slopes, const char *name, int64_t n)
{
    Value *v = build_kept(b, word(slopes, name, '.'), PU_optimiser, DT_F32, 1,
                          dim(n, text_print("%" PRId64, n)), dim(0, ""));
    v->set = slopes->set->name;
    return v;
}

Slopes *slopes_new(Build *b, Set *set)
{
    Slopes *slopes = arena_new(sizeof *slopes);
    slopes->set = set;
    slopes->along = number(b, slopes, "along", ALONG_ENTRIES);
    slopes->slope = build_kept(b, word(slopes, "slope", '.'), PU_activations, DT_F64, 1,
                               dim_batch(b), dim(0, ""));
    int64_t accum = config_int(b->c, F_batch_accum);
    if (accum > 1)
        slopes->slope->count = slopes->slope->slots = accum;
    return slopes;
}

Ref slopes_of(const Build *b, const Slopes *slopes) { return build_input(b, slopes->slope); }

/* The n-th trained parameter of the group, in the order of updates; NULL: no more. */
static Value *parameter(const Build *b, const Slopes *slopes, int n)
{
    for (int i = 0; i < b->g->nvalues; i++) {
        Value *v = b->g->values[i];
        if (value_is_gradient(v) && v->set == slopes->set->name && !n--)
            return ir_value(b->g, v->of);
    }
    return NULL;
}

static Program *program(Build *b, const Slopes *slopes, const char *name, Role role,
                        const char *about)
{
    b->loc = config_loc(b->c, F_objective);
    b->stage = NULL;
    return b->p = ir_program(b->g, word(slopes, name, '_'), role, about);
}

void slopes_direction(Build *b, Schedule *s, const Slopes *slopes)
{
    if (!slopes->set->scale)
        bug("slopes: the losses have no scale");
    program(b, slopes, "direction", ROLE_reduce, "v is whole: its norm");
    Value *norm = number(b, slopes, "along_norm", 1), *w;
    Op *op = build_op(b, OP_grad_norm);
    for (int i = 0; (w = parameter(b, slopes, i)); i++)
        op_in(op, ref(gradient_of(b, w)));
    op_out(op, ref(norm));
    op = build_op(b, slopes->set->scaler ? OP_direction_scaled : OP_direction);
    op_in(op, ref(norm)), op_in(op, ref(slopes->set->scale));
    op_out(op, ref(slopes->along));
    if (slopes->set->scaler)
        op_out(op, ref(slopes->set->scaler));
    schedule_run(s, b->p, 1);
    schedule_clear(s, slopes->slope);
}

void slopes_losses(Build *b, const Slopes *slopes, Ref losses)
{
    Op *op = build_op(b, OP_slope_loss);
    op_in(op, losses), op_in(op, ref(slopes->along));
    op_out(op, slopes_of(b, slopes));
}

/* Writes an op for every parameter and its saved value. */
static void copies(Build *b, const Slopes *slopes, bool back)
{
    Value *w;
    for (int i = 0; (w = parameter(b, slopes, i)); i++) {
        Value *kept = build_state(b, "kept", w, PU_optimiser);
        Op *op = build_op(b, OP_keep);
        op_in(op, ref(back ? kept : w));
        op_out(op, ref(back ? w : kept));
    }
}

static void move(Build *b, const Slopes *slopes, bool minus)
{
    Value *w;
    Op *op = build_op(b, OP_side);
    op_out(op, ref(slopes->along));
    op_int(op, "minus", minus);
    for (int i = 0; (w = parameter(b, slopes, i)); i++) {
        op = build_op(b, OP_shift);
        op_in(op, ref(gradient_of(b, w))), op_in(op, ref(build_state(b, "kept", w, PU_optimiser)));
        op_in(op, ref(slopes->along));
        op_out(op, ref(w));
    }
}

void slopes_differences(Build *b, Schedule *s, const Slopes *slopes)
{
    Program *losses = b->p;
    Value *w;
    for (int i = 0; (w = parameter(b, slopes, i)); i++)
        if (w->dtype != DT_F32)
            bug("%s is %s: there is no moving it by differences", w->name, dtype_name[w->dtype]);
    program(b, slopes, "forth", ROLE_update, "parameters are kept, and moved by eps v");
    copies(b, slopes, false);
    move(b, slopes, false);
    schedule_run(s, b->p, 1);
    b->p = losses;
    schedule_turns(b, s);
    program(b, slopes, "back", ROLE_update, "parameters moved by -eps v");
    move(b, slopes, true);
    schedule_run(s, b->p, 1);
    b->p = losses;
    schedule_turns(b, s);
    program(b, slopes, "restore", ROLE_update, "parameters as they were kept");
    copies(b, slopes, true);
    schedule_run(s, b->p, 1);
    b->p = losses;
}
