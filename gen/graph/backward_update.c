/* backward_update.c -- weight updates inside the backward pass: optim.when = "backward".
 *
 * In:    programs that write gradients.
 * Out:   the same, each with the updates of the matrices whose gradients it completes: after the
 *        last write of the gradient and the last read of the weight, an op partial_norm and AdamW.
 * Method: such a gradient is a temporary, of a layer with one slot. Vectors, and matrices that
 *         several programs or loops write or read, keep whole gradients, which the program update
 *         takes as ever. No update stands between ops that a kernel may join, so that the other
 *         calls of the program are those of optim.when = "step". */
#include "gen/graph/graph.h"
#include "gen/graph/kernels.h"

#include <string.h>

bool updates_in_backward(const Build *b) { return config_is(b->c, F_optim_when, "backward"); }

static bool lists(const Ref *list, int n, const Value *v)
{
    for (int i = 0; i < n; i++)
        if (list[i].v == v)
            return true;
    return false;
}

static bool writes(const Op *op, const Value *v) { return lists(op->out, op->nout, v); }

/* The only program that writes v; NULL: there are several. */
static Program *writer(const Graph *g, const Value *v)
{
    Program *found = NULL;
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++)
            if (writes(&g->programs[i]->ops[k], v)) {
                if (found && found != g->programs[i])
                    return NULL;
                found = g->programs[i];
            }
    return found;
}

/* True if a kernel may cover both ops[at] and ops[at + 1]. */
static bool may_join(const Graph *g, const Program *p, int at)
{
    for (int k = 0; k < nkernels; k++) {
        const KernelRow *row = &kernel_row[k];
        if (kernel_repeats(row) || strcmp(row->backend, g->target->backend))
            continue;
        for (int first = at; first >= 0 && p->ops[first].region == p->ops[at].region; first--)
            if (first + kernel_match(p, first, row) > at + 1)
                return true;
    }
    return false;
}

/* The op after which the program may update the parameter of a gradient; -1: none, as a layer's
 * gradient would have to wait for the end of its loop. */
static int last_use(const Graph *g, const Program *p, const Value *gradient)
{
    const Value *w = ir_value(g, gradient->of);
    int at = -1, region = -1;
    for (int i = 0; i < p->nops; i++) {
        const bool write = writes(&p->ops[i], gradient);
        if (write && region >= 0 && p->ops[i].region != region)
            return -1;
        region = write ? p->ops[i].region : region;
        at = write || (region >= 0 && lists(p->ops[i].in, p->ops[i].nin, w)) ? i : at;
    }
    while (at >= 0 && may_join(g, p, at))
        at++;
    return at < 0 || p->ops[at].region != region || !region != !gradient->count ? -1 : at;
}

void gradients_in_backward(Build *b)
{
    for (int i = 0; i < b->g->nvalues; i++) {
        Value *v = b->g->values[i];
        const Program *p = v->rank == 2 && value_is_gradient(v) && v->set == b->set->name
                               ? writer(b->g, v)
                               : NULL;
        if (p && last_use(b->g, p, v) >= 0)
            v->kind = VK_TEMP;
    }
}

/* Moves the ops from `first` on, which are the program's last, behind op `at`. */
static void move_behind(Program *p, int at, int first)
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
    const int at = last_use(b->g, p, gradient), first = p->nops;
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
    move_behind(p, at, first);
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
    for (Set *set = b->added.sets; set < b->added.sets + b->added.nsets; set++)
        for (int i = 0; i < nvalues; i++) {
            Value *v = b->g->values[i];
            b->set = set;
            if (v->kind == VK_TEMP && v->purpose == PU_gradients && v->set == set->name)
                update(b, writer(b->g, v), v);
        }
    b->set = b->added.sets;
    b->region = 0;
    b->stage = NULL;
}
