/* backward_update.c -- weight updates inside the backward pass: optim.when = "backward".
 *
 * In:    programs that write gradients, those of update_place.c as temporaries.
 * Out:   the same with the updates of their parameters, each after the op update_place(): an op
 *        partial_norm, whose result guards the update, and AdamW. */
#include "gen/graph/graph.h"

#include <string.h>

/* Moves the program's last ops, from `first` on, to after op `at`. */
static void move_after(Program *p, int at, int first)
{
    enum { MOST = 2 };
    const int n = p->nops - first;
    Op moved[MOST];
    if (n > MOST)
        bug("%d ops to move", n);
    memcpy(moved, &p->ops[first], sizeof(Op) * (size_t)n);
    memmove(&p->ops[at + 1 + n], &p->ops[at + 1], sizeof(Op) * (size_t)(first - at - 1));
    memcpy(&p->ops[at + 1], moved, sizeof(Op) * (size_t)n);
}

static void update(Build *b, Program *p, Value *gradient)
{
    const int at = update_place(b->g, p, gradient), first = p->nops;
    if (at < 0)
        bug("%s has no place for its update in %s", gradient->name, p->name);
    const Dim one = dim(1, "1");
    b->p = p;
    b->region = p->ops[at].region;
    b->stage = p->ops[at].stage;
    const Ref g = b->region ? ref_loop(gradient, 0) : ref(gradient);
    Value *norm = ir_new(b->g, VK_TEMP, PU_optimiser, DT_F32,
                         text_print("norm.%s", gradient->of), 1, &one, gradient->loc);
    norm->count = gradient->count;
    norm->set = gradient->set;
    const Ref n = b->region ? ref_loop(norm, 0) : ref(norm);
    Op *op = build_op(b, OP_partial_norm);
    op_in(op, g), op_out(op, n), op_out(op, ref(set_squares(b)));
    update_op(b, g, n);
    move_after(p, at, first);
}

/* Ends the program if adapters are trained: their gradients are small. */
static void refuse_adapters(const Build *b)
{
    int64_t bytes = 0;
    for (int i = 0; i < b->g->nvalues; i++) {
        const Value *v = b->g->values[i], *w = v->of ? ir_value(b->g, v->of) : NULL;
        if (v->purpose == PU_gradients && w && w->adapter)
            bytes += value_bytes(v) * v->slots;
    }
    if (config_int(b->c, F_lora_rank))
        err(config_loc(b->c, F_optim_when),
            "optim.when: gradients of adapters are only %s, and \"backward\" would give up "
            "clipping for them; leave it out", text_bytes(bytes));
}

void update_in_backward(Build *b)
{
    const int nvalues = b->g->nvalues;
    if (!updates_in_backward(b))
        return;
    refuse_adapters(b);
    b->loc = config_loc(b->c, F_optim_when);
    for (int i = 0; i < nvalues; i++) {
        Value *v = b->g->values[i];
        if (v->kind == VK_TEMP && v->purpose == PU_gradients && v->of)
            update(b, only_writer(b->g, v), v);
    }
    b->region = 0;
    b->stage = NULL;
}
