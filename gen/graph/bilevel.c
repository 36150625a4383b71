/* bilevel.c -- derivatives of per-sample losses along v, the gradient of another loss.
 *
 * In:    programs that write v over a parameter group's gradients, and programs of the losses.
 * Out:   $tangent, $jvp; program direction; for finite differences, programs forth, back, restore.
 * Keeps: parameters end as they began, bit for bit.
 * Method: finite differences: (l(theta + eps v) - l(theta - eps v)) / 2 eps; Jacobian-vector
 *         products: gradient.c. */
#include "gen/graph/bilevel.h"

#include <inttypes.h>

#include "runtime/jvp.h"

/* Name of a value or program of these slopes. */
static const char *word(const Jvp *jvp, const char *name, char between)
{
    return jvp->set->name ? text_print("%s%c%s", name, between, jvp->set->name) : name;
}

static Value *number(Build *b, const Jvp *jvp, const char *name, int64_t n)
{
    Value *v = build_persistent(b, word(jvp, name, '.'), PU_optimiser, DT_F32, 1,
                                dim(n, text_print("%" PRId64, n)), dim(0, ""));
    v->set = jvp->set->name;
    return v;
}

Jvp *jvp_new(Build *b, Set *set)
{
    Jvp *jvp = arena_new(sizeof *jvp);
    jvp->set = set;
    jvp->tangent = number(b, jvp, "tangent", TANGENT_ENTRIES);
    jvp->jvp = build_of_micro(b, word(jvp, "jvp", '.'), dim_batch(b));
    return jvp;
}

Ref jvp_of(const Build *b, const Jvp *jvp) { return build_input(b, jvp->jvp); }

/* The n-th trained parameter of the group, in the order of updates; NULL: no more. */
static Value *parameter(const Build *b, const Jvp *jvp, int n)
{
    for (int i = 0; i < b->g->nvalues; i++) {
        Value *v = b->g->values[i];
        if (value_is_gradient(v) && v->set == jvp->set->name && !n--)
            return ir_value(b->g, v->of);
    }
    return NULL;
}

static Program *program(Build *b, const Jvp *jvp, const char *name, Role role,
                        const char *about)
{
    b->loc = config_loc(b->c, F_objective);
    b->stage = NULL;
    return b->p = ir_program(b->g, word(jvp, name, '_'), role, about);
}

void jvp_tangent(Build *b, Schedule *s, const Jvp *jvp)
{
    if (!jvp->set->scale)
        bug("jvp: the losses have no scale");
    program(b, jvp, "tangent", ROLE_reduce, "the norm of v, after its last micro-batch");
    Value *norm = number(b, jvp, "tangent_norm", 1), *w;
    Op *op = build_op(b, OP_grad_norm);
    for (int i = 0; (w = parameter(b, jvp, i)); i++) {
        Value *v = gradient_of(b, w);
        v->gathered = true;
        op_in(op, ref(v));
    }
    op_out(op, ref(norm));
    op = build_op(b, jvp->set->scaler ? OP_tangent_init_scaled : OP_tangent_init);
    op_in(op, ref(norm)), op_in(op, ref(jvp->set->scale));
    op_out(op, ref(jvp->tangent));
    if (jvp->set->scaler)
        op_out(op, ref(jvp->set->scaler));
    schedule_run(s, b->p, 1);
    schedule_clear(s, jvp->jvp);
}

/* ---- in lockstep ----------------------------------------------------------------------------- */

void lockstep_begin(Build *b, const Jvp *jvp, Value *scale)
{
    program_prefixed(b, word(jvp, "lockstep", '_'), ROLE_gradients,
                     "the derivative of each record's loss along v, layer by layer");
    b->gradient_prefix = text_print("%s.", b->p->name);
    Op *op = build_op(b, OP_tangent_unit);
    op_in(op, ref(scale));
    op_out(op, ref(jvp->tangent));
}

void lockstep_side(Build *b, LockstepSide *side, const char *prefix)
{
    side->in = b->in;
    b->program_prefix = side->prefix = text_copy(prefix);
}

static void turn_to(Build *b, const LockstepSide *side, Jvp *jvp)
{
    b->in = side->in;
    b->program_prefix = side->prefix;
    b->jvp = jvp;
}

void lockstep_backward(Build *b, Jvp *jvp, const LockstepSide *meta, const LockstepSide *own)
{
    const LockstepSide *const side[] = {meta, own};
    const PassInputs in = b->in;
    for (int i = 0; i < 2; i++) {
        turn_to(b, side[i], i ? jvp : NULL);
        pass_backward_last(b, &side[i]->pass, side[i]->end);
    }
    b->region = ir_region(b->p, b->stack.layers, true);
    for (int i = 0; i < 2; i++) {
        turn_to(b, side[i], i ? jvp : NULL);
        pass_backward_block(b, &side[i]->pass);
    }
    b->region = 0;
    for (int i = 0; i < 2; i++) {
        turn_to(b, side[i], i ? jvp : NULL);
        pass_backward_first(b, &side[i]->pass);
    }
    b->in = in;
    b->jvp = NULL;
    b->program_prefix = b->gradient_prefix = NULL;
}

void jvp_losses(Build *b, const Jvp *jvp, Ref losses)
{
    Op *op = build_op(b, OP_jvp_loss);
    op_in(op, losses), op_in(op, ref(jvp->tangent));
    op_out(op, jvp_of(b, jvp));
}

/* Writes an op for every parameter and its saved value. */
static void copies(Build *b, const Jvp *jvp, bool back)
{
    Value *w;
    for (int i = 0; (w = parameter(b, jvp, i)); i++) {
        Value *kept = build_state(b, "kept", w, PU_optimiser);
        Op *op = build_op(b, OP_keep);
        op_in(op, ref(back ? kept : w));
        op_out(op, ref(back ? w : kept));
    }
}

static void move(Build *b, const Jvp *jvp, bool minus)
{
    Value *w;
    Op *op = build_op(b, OP_side);
    op_out(op, ref(jvp->tangent));
    op_int(op, "minus", minus);
    for (int i = 0; (w = parameter(b, jvp, i)); i++) {
        op = build_op(b, OP_shift);
        op_in(op, ref(gradient_of(b, w))), op_in(op, ref(build_state(b, "kept", w, PU_optimiser)));
        op_in(op, ref(jvp->tangent));
        op_out(op, ref(w));
    }
}

void jvp_differences(Build *b, Schedule *s, const Jvp *jvp)
{
    Program *losses = b->p;
    Value *w;
    for (int i = 0; (w = parameter(b, jvp, i)); i++)
        if (w->dtype != DT_F32)
            bug("%s is %s: there is no moving it by differences", w->name, dtype_name[w->dtype]);
    program(b, jvp, "forth", ROLE_update, "parameters are kept, and moved by eps v");
    copies(b, jvp, false);
    move(b, jvp, false);
    schedule_run(s, b->p, 1);
    b->p = losses;
    schedule_turns(b, s);
    program(b, jvp, "back", ROLE_update, "parameters moved by -eps v");
    move(b, jvp, true);
    schedule_run(s, b->p, 1);
    b->p = losses;
    schedule_turns(b, s);
    program(b, jvp, "restore", ROLE_update, "parameters as they were kept");
    copies(b, jvp, true);
    schedule_run(s, b->p, 1);
    b->p = losses;
}
