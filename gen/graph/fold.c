/* fold.c -- gradients in canonical order: micro-batch by micro-batch, on any number of ranks.
 *
 * In:    programs that write gradients.
 * Out:   the same, each writing the gradients of its micro-batch, %PROGRAM.grad.X, and an op fold
 *        that adds those of all ranks to $grad.X, in the order of the micro-batches' numbers.
 * Method: a matrix whose sums may be divided is folded after its last write, of a layer within the
 *         loop, so that its gradient has one slot; others after the program. */
#include "gen/graph/graph.h"
#include "gen/graph/kernels.h"

#include <string.h>

/* The index of the last op of p that writes v; -1: none does. */
static int last_writer(const Program *p, const Value *v)
{
    for (int i = p->nops - 1; i >= 0; i--)
        for (int k = 0; k < p->ops[i].nout; k++)
            if (p->ops[i].out[k].v == v)
                return i;
    return -1;
}

/* The gradient of a micro-batch that p writes. */
static Value *micro_gradient(Build *b, const Program *p, const Value *gradient, bool of_layer)
{
    Value *v = ir_new(b->g, VK_TEMP, PU_gradients, DT_F32,
                      text_print("%s.%s", p->name, gradient->name), gradient->rank, gradient->dim,
                      gradient->loc);
    v->count = gradient->count;
    v->part = gradient->part;
    v->slots = of_layer || !v->count ? 1 : v->count;
    return v;
}

static void replace(Program *p, const Value *gradient, Value *by)
{
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; k < p->ops[i].nout; k++)
            if (p->ops[i].out[k].v == gradient)
                p->ops[i].out[k].v = by;
}

/* An op after op `at` of the program. */
static Op *insert_after(Build *b, Program *p, int at, int kind, int region, const char *stage)
{
    ir_op(p, kind, region, config_loc(b->c, F_comm_order));
    const Op op = p->ops[p->nops - 1];
    memmove(&p->ops[at + 2], &p->ops[at + 1], sizeof op * (size_t)(p->nops - 2 - at));
    p->ops[at + 1] = op;
    p->ops[at + 1].stage = stage;
    return &p->ops[at + 1];
}

static void fold(Build *b, Program *p, Value *gradient)
{
    const int at = last_writer(p, gradient), region = at < 0 ? 0 : p->ops[at].region;
    if (at < 0)
        return;
    const bool large = gradient_has_shares(b, gradient), of_layer = region && large;
    Value *micro = micro_gradient(b, p, gradient, of_layer);
    replace(p, gradient, micro);
    const int kind = b->g->ranks == 1 || gradient->part ? OP_fold : OP_fold_whole;
    Op *op = insert_after(b, p, large ? at : p->nops - 1, kind, of_layer ? region : 0,
                          large ? p->ops[at].stage : "small gradients, added to their sums");
    op_in(op, of_layer ? ref_loop(micro, 0) : ref(micro));
    op_out(op, of_layer ? ref_loop(gradient, 0) : ref(gradient));
    op_int(op, "ranks", b->g->ranks);
    op_int(op, "beta", 0);
}

void fold_gradients(Build *b)
{
    const int nvalues = b->g->nvalues;
    for (int i = 0; is_canonical(b) && i < b->g->nprograms; i++)
        for (int k = 0; b->g->programs[i]->role == ROLE_gradients && k < nvalues; k++)
            if (value_is_gradient(b->g->values[k]))
                fold(b, b->g->programs[i], b->g->values[k]);
}
