/* update_place.c -- where a program that writes gradients may update their parameters:
 * optim.when = "backward".
 *
 * In:    programs that write gradients.
 * Out:   the gradients that a program can complete and use up, which become its temporaries.
 * Method: after the last write of the gradient and the last read of the parameter, unless a kernel
 *         may join the ops around. Vectors, and matrices that several programs or loops write or
 *         read, keep whole gradients, which the program update takes as ever. */
#include "gen/graph/graph.h"
#include "gen/graph/kernels.h"

#include <string.h>

bool updates_in_backward(const Build *b)
{
    return config_is(b->c, F_optim_when, "backward") && b->set == b->added.sets;
}

static bool lists(const Ref *list, int n, const Value *v)
{
    for (int i = 0; i < n; i++)
        if (list[i].v == v)
            return true;
    return false;
}

static bool writes(const Op *op, const Value *v) { return lists(op->out, op->nout, v); }

Program *only_writer(const Graph *g, const Value *v)
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

int update_place(const Graph *g, const Program *p, const Value *gradient)
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
                               ? only_writer(b->g, v)
                               : NULL;
        if (p && update_place(b->g, p, v) >= 0)
            v->kind = VK_TEMP;
    }
}
