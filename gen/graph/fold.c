/* fold.c -- separate gradients for each micro-batch, then added to those of the update.
 *
 * In:    programs that write gradients.
 * Out:   the same, each writing the gradients of its micro-batch, %PROGRAM.grad.X, which are added
 *        to $grad.X: in canonical order by an op fold, which takes those of all ranks in the order
 *        of the micro-batches' numbers; if sums are divided over ranks, by add_part.
 * Method: a matrix whose sums may be divided is added after its last write, of a layer within the
 *         loop, so that its gradient has one slot; or, if ranks sum it while the next layer's is
 *         computed, a turn later. Others after the program. */
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

/* The gradient of a micro-batch that p writes. slots: of a layer's gradient; 0: all. */
static Value *micro_gradient(Build *b, const Program *p, const Value *gradient, int64_t slots)
{
    Value *v = ir_new(b->g, VK_TEMP, PU_gradients, DT_F32,
                      text_print("%s.%s", p->name, gradient->name), gradient->rank, gradient->dim,
                      gradient->loc);
    v->count = gradient->count;
    v->part = gradient->part;
    v->slots = slots ? slots : v->count ? v->count : 1;
    v->early = slots > 1;
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
    ir_op(p, kind, region, config_loc(b->c, is_canonical(b) ? F_comm_order : F_memory_zero));
    const Op op = p->ops[p->nops - 1];
    memmove(&p->ops[at + 2], &p->ops[at + 1], sizeof op * (size_t)(p->nops - 2 - at));
    p->ops[at + 1] = op;
    p->ops[at + 1].stage = stage;
    return &p->ops[at + 1];
}

static void set_operands(Op *op, Ref micro, Ref sum)
{
    op_in(op, micro), op_out(op, sum);
    op_int(op, "beta", 0);
}

/* In canonical order: after op `at`, the last that writes the gradient. */
static void fold(Build *b, Program *p, int at, Value *gradient)
{
    const bool large = gradient_has_shares(b, gradient);
    const int of_layer = large ? p->ops[at].region : 0;
    Value *micro = micro_gradient(b, p, gradient, of_layer ? 1 : 0);
    replace(p, gradient, micro);
    const int kind = b->g->ranks == 1 || gradient->part ? OP_fold : OP_fold_whole;
    Op *op = insert_after(b, p, large ? at : p->nops - 1, kind, of_layer,
                          large ? p->ops[at].stage : "small gradients, added to their sums");
    set_operands(op, of_layer ? ref_loop(micro, 0) : ref(micro),
                 of_layer ? ref_loop(gradient, 0) : ref(gradient));
    op_int(op, "ranks", b->g->ranks);
}

/* The last op of the region of op `at`. */
static int end_of_region(const Program *p, int at)
{
    const int region = p->ops[at].region;
    while (at + 1 < p->nops && p->ops[at + 1].region == region)
        at++;
    return at;
}

/* A divided sum: after op `at`, the last that writes the gradient; or one turn later, and for the
 * last turn after the loop. */
static void add_to_part(Build *b, Program *p, int at, Value *gradient)
{
    const int region = p->ops[at].region;
    const bool overlapped = region && is_overlapped(b, gradient);
    const char *stage = p->ops[at].stage;
    Value *micro = micro_gradient(b, p, gradient, overlapped ? 2 : region ? 1 : 0);
    replace(p, gradient, micro);
    if (!overlapped) {
        Op *op = insert_after(b, p, at, OP_add_part, region, stage);
        set_operands(op, region ? ref_loop(micro, 0) : ref(micro),
                     region ? ref_loop(gradient, 0) : ref(gradient));
        return;
    }
    const bool down = p->region[region].reverse;
    const int end = end_of_region(p, at);
    stage = "sums of gradients over ranks";
    Op *op = insert_after(b, p, end, OP_add_part, 0, stage);
    const int64_t last = down ? 0 : gradient->count - 1;
    set_operands(op, ref_at(micro, last), ref_at(gradient, last));
    op = insert_after(b, p, end, OP_add_part, region, stage);
    set_operands(op, ref_loop(micro, down ? 1 : -1), ref_loop(gradient, down ? 1 : -1));
    op_word(op, "if", "inside");
}

/* True if the sum of gradients of the program can be divided: no op adds to it and to a whole one
 * alike, as it does to those of an adapter's two matrices. */
static bool adds_alone(const Program *p, const Value *gradient)
{
    for (int i = 0; i < p->nops; i++) {
        const Op *op = &p->ops[i];
        bool writes = false, whole = false;
        for (int k = 0; k < op->nout; k++) {
            writes |= op->out[k].v == gradient;
            whole |= value_is_gradient(op->out[k].v) && !op->out[k].v->part;
        }
        if (writes && whole)
            return false;
    }
    return gradient->part > 0;
}

void fold_gradients(Build *b)
{
    const bool canonical = is_canonical(b);
    const int nvalues = b->g->nvalues;
    for (int i = 0; (canonical || gradients_are_divided(b)) && i < b->g->nprograms; i++)
        for (int k = 0; b->g->programs[i]->role == ROLE_gradients && k < nvalues; k++) {
            Program *p = b->g->programs[i];
            Value *gradient = b->g->values[k];
            const int at = value_is_gradient(gradient) ? last_writer(p, gradient) : -1;
            if (at >= 0 && canonical)
                fold(b, p, at, gradient);
            else if (at >= 0 && adds_alone(p, gradient))
                add_to_part(b, p, at, gradient);
        }
}
